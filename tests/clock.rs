//! The clock of the scenes: what holds it, and what becomes of a scene that lets it run or stops it for ever.

use crate::kit::virtual_time::{Limits, holding, outside, real_time, run, run_within};
use offhook::remote::program;
use std::{
    env,
    net::Ipv4Addr,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

const SECOND: Duration = Duration::from_secs(1);
/// So short that a test can wait for it.
const SHORT: Limits =
    Limits { clock: Duration::from_secs(60), still: Duration::from_millis(300), notice: Duration::from_secs(1) };
/// Asks this program, started by a test, for a scene whose thread is stuck.
const STUCK: &str = "OFFHOOK_TEST_STUCK";

/// How a scene failed.
fn failure<F: Future<Output = ()>>(limits: Limits, scene: impl FnOnce() -> F) -> String {
    let failed = catch_unwind(AssertUnwindSafe(|| run_within(limits, scene))).expect_err("it fails");
    failed.downcast_ref::<String>().cloned().expect("a sentence")
}

/// Some milliseconds of work outside of any clock.
fn program() -> String {
    let printed = Command::new("sh").args(["-c", "sleep 0.05; echo done"]).output().expect("a shell");
    String::from_utf8(printed.stdout).expect("text")
}

#[test]
fn an_hour_less_half_passes_in_no_time_and_work_outside_takes_none_of_it() {
    run(|| async {
        let begun = Instant::now();
        sleep(SECOND * 1_500).await;
        assert_eq!(begun.elapsed(), SECOND * 1_500);
        assert_eq!(timeout(Duration::from_millis(1), outside(program)).await.as_deref(), Ok("done\n"));
        let looked_for = real_time(|| async {
            sleep(Duration::from_millis(20)).await;
            7
        });
        assert_eq!(timeout(Duration::from_millis(1), looked_for).await, Ok(7));
        assert_eq!(begun.elapsed(), SECOND * 1_500);
    });
}

#[test]
fn what_a_thread_sends_is_waited_for_while_the_clock_is_held() {
    run(|| async {
        let (sender, sent) = oneshot::channel();
        let thread = thread::Builder::new().name("told".into()).spawn(move || sender.send(program()));
        assert_eq!(timeout(SECOND, holding(sent)).await, Ok(Ok("done\n".to_owned())));
        thread.expect("a thread").join().expect("it does not panic").expect("it was waited for");
    });
}

#[test]
fn a_connection_is_closed_for_its_peer_before_the_clock_moves_also_while_somebody_starts_a_program() {
    run(|| async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (ours, mut theirs) = (ours.expect("it listens"), theirs.expect("it is called").0);
        let (copied, is_copied) = mpsc::channel();
        let copy = ours.into_std().expect("a socket");
        let socket = copy.try_clone().expect("a copy");
        // As a program holds it for the moment in which it is started.
        let starts = thread::Builder::new().name("starts".into()).spawn(move || {
            let _starting = program::starting();
            copied.send(()).expect("it is waited for");
            thread::park_timeout(Duration::from_millis(50));
            drop(copy);
        });
        is_copied.recv().expect("a copy");
        drop(socket);
        let read = timeout(SECOND, theirs.read_u8()).await;
        assert!(read.is_ok_and(|read| read.is_err()), "the end of the connection came after a second");
        starts.expect("a thread").join().expect("it does not panic");
    });
}

#[test]
fn a_panic_outside_or_while_the_clock_is_held_is_the_scenes() {
    // Symbols of a backtrace can take longer than `SHORT` on a busy machine.
    let told = failure(Limits::default(), || async { outside(|| panic!("{}", "outside")).await });
    assert_eq!(told, "outside");
    let told = failure(Limits::default(), || async { holding(async { panic!("{}", "held") }).await });
    assert_eq!(told, "held");
}

#[test]
fn a_clock_that_runs_while_a_thread_works_is_told() {
    let told = failure(SHORT, || async {
        let (done, ends) = mpsc::channel::<()>();
        let (_sender, sent) = oneshot::channel::<()>();
        // Bears the name of its maker.
        let thread = thread::spawn(move || ends.recv().is_err());
        let _ = timeout(SECOND * 10, sent).await;
        drop(done);
        thread.join().expect("it does not panic");
    });
    assert!(told.contains("a_clock_that_runs_while_a_thread_works_is_told: threads work beside the clock"), "{told}");
}

#[test]
fn a_scene_that_waits_for_what_never_comes_is_told() {
    let told = failure(SHORT, std::future::pending);
    assert!(told.contains("the clock ran away"), "{told}");
}

#[test]
fn work_outside_that_never_ends_fails_the_scene_and_is_named() {
    let (never, ends) = mpsc::channel::<()>();
    let told = failure(SHORT, move || async move { assert!(!outside(move || ends.recv().is_err()).await) });
    assert!(told.contains("the clock stood still") && told.contains("tests/clock.rs:"), "{told}");
    drop(never);
}

/// Its thread cannot be ended, but its program can.
#[test]
fn a_scene_whose_own_thread_is_stuck_ends_the_program_and_is_named() {
    let name = "a_scene_whose_own_thread_is_stuck_ends_the_program_and_is_named";
    if env::var_os(STUCK).is_some() {
        let (_never, ends) = mpsc::channel::<()>();
        return run_within(SHORT, || async move { assert!(ends.recv().is_ok()) });
    }
    let mut program = Command::new(env::current_exe().expect("this program"));
    let ended = program.args(["--exact", &format!("clock::{name}")]).env(STUCK, "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(101) && said.contains(name) && said.contains("is stuck"), "{said}");
}
