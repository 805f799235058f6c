//! Scenes on a paused clock: whole calls that take no real time.
//!
//! [`run`] gives a scene a runtime of its own: one thread, tokio's clock paused. As long as any task can go on, time stands
//! still; when all of them wait, the clock jumps to the next timer. Sockets of the loopback belong to it: what one task has
//! written is there for the other before the clock moves. So engine, vendors and callers live in one runtime, and a
//! call of a minute takes a fifth of a second, on a busy machine as on an idle one.
//!
//! A scene:
//!
//! ```ignore
//! #[test]
//! fn a_caller_is_answered() {
//!     virtual_time::run(|| async {
//!         let vendor = Vendor::start::<OpenAi>(Scenario::answers(ms(2_000))).await;
//!         let desk = Desk::of(&vendor).await;
//!         let caller = desk.call().await;
//!         caller.hears(hertz(1), ms(700)).await;
//!         let asked = caller.asks().await;
//!         caller.hears_from(asked.end, hertz(1), ms(1_900)).await;
//!         // A program is outside; the clock stands still until it has ended.
//!         let listed = virtual_time::outside(|| output_of(&mut Command::new("ls"))).await;
//!         assert!(listed.expect("it is there").status.success());
//!         desk.ends_with(&caller).await;
//!     });
//! }
//! ```
//!
//! The rule: **whatever works outside of the runtime is told to the clock**, or time runs on to the next timer meanwhile and
//! patience of 45 s ends after a millisecond. In this order:
//! 1. No such thread: a task instead.
//! 2. [`outside`] (or tokio's `spawn_blocking`, which is the same without a name) for work that blocks: programs, files,
//!    locks that another thread holds. [`real_time`] for work that needs a clock that goes on by itself.
//! 3. [`holding`] for what a task awaits and another thread or program does: a child's output, a channel of a thread.
//!    No timer rings meanwhile, so it must not be a loop that sleeps.
//!
//! A program that is being started, by whatever scene, has a copy of every open socket until it runs, and keeps it open for
//! its peer: all clocks stand still until then. What starts one in a program with scenes does so by the engine's
//! `remote::program`, or by [`output_of`].
//!
//! A test fails, and is named, when
//! - a thread works beside its clock and was not told to it;
//! - its clock has run for longer than [`Limits::clock`]: it waits for something that comes from outside, or never;
//! - its clock has stood still for longer than [`Limits::still`] of real time: work outside never came back. If the scene's
//!   own thread is stuck, the process ends a little later, as a thread cannot be ended.

use futures_util::FutureExt as _;
use jiff::SignedDuration;
use offhook::{chance, remote::program, wall_clock};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind},
    process::{self, Command, Output, Stdio},
    sync::{
        Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, SystemTime},
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::Notify,
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, advance, interval},
};

/// How long a scene may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of virtual time: longer than any scene. A clock that comes so far was running while something outside worked.
    pub clock: Duration,
    /// Of real time without a move of the clock: several times what the longest work takes on a busy machine.
    pub still: Duration,
    /// Of real time from then on, for the scene's thread to notice that it was given up.
    pub notice: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        LIMITS
    }
}

/// Limits of a scene without limits of its own.
const LIMITS: Limits =
    Limits { clock: Duration::from_secs(1_800), still: Duration::from_secs(20), notice: Duration::from_secs(5) };
// A scene that is stuck has failed within half a minute.
const _: () = assert!(LIMITS.still.as_secs() + LIMITS.notice.as_secs() < 30);

/// How often the clock is looked at, in real time.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often the clock shows that it runs, in virtual time.
const TICK: Duration = Duration::from_millis(100);
/// How long work outside may go on when its scene is over, in real time.
const LAST_WORK_MAX: Duration = Duration::from_millis(500);
/// The name of the threads that hold the clock.
const OUTSIDE: &str = "outside";
const WATCHDOG: &str = "watchdog";
/// How the name of a scene's thread begins.
const SCENE: &str = "scene-";
/// Threads that work beside a clock, by their names: an engine's that was not told to have none, and those of any
/// runtime of many threads.
const UNTRACKED_THREADS: [&str; 2] = ["mcp", "tokio-rt-worker"];
/// How often they are looked for, in ticks.
const UNTRACKED_EVERY: u32 = 50;
/// A thread has its name within this part of [`Limits::still`], though the machine is busy: that is the first thing that it does.
const NAMED_WITHIN: u32 = 4;

const UNTRACKED: &str = "threads work beside the clock, which does not know of them:";
const RAN_AWAY: &str =
    "the clock ran away: what is waited for does not come, or it is outside and nothing holds the clock";
const STUCK: &str = "the scene's own thread is stuck, so all tests of this program end here";
const STOOD_STILL: &str = "the clock stood still for too long: work outside does not come back";

static SCENES: Mutex<Vec<Arc<Scene>>> = Mutex::new(Vec::new());
static SCENES_BEGUN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Arc<Scene>>> = const { RefCell::new(None) };
    /// The state of what comes of chance in this thread's scene.
    static CHANCE: Cell<Option<u64>> = const { Cell::new(None) };
    static HEARD: RefCell<Vec<Heard>> = const { RefCell::new(Vec::new()) };
}

/// Where the numbers begin that scenes leave to chance. A failure can be run again with its seed.
const SEED: &str = "OFFHOOK_SEED";

/// The next bits of this thread's scene (SplitMix64); outside of scenes any.
fn scenes_chance() -> u64 {
    let Some(state) = CHANCE.get() else { return rand::random() };
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    CHANCE.set(Some(state));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Tells, at the end of a scene, what somebody in it has heard.
type Heard = Box<dyn FnOnce() -> String>;

/// Names a file to which each scene adds a line: its name, and what was heard in it. So two runs can be compared.
const HEARD_FILE: &str = "OFFHOOK_HEARD";

/// Has the end of the scene write down what somebody in it has heard, where that is asked for.
pub fn notes(heard: impl FnOnce() -> String + 'static) {
    if env::var_os(HEARD_FILE).is_some() {
        HEARD.with_borrow_mut(|all| all.push(Box::new(heard)));
    }
}

fn write_down(name: &str) {
    let mut heard: Vec<String> = HEARD.take().into_iter().map(|heard| heard()).collect();
    // Which of several that call at the same moment is the first depends on the machine.
    heard.sort();
    if let Some(file) = env::var_os(HEARD_FILE).filter(|_| !heard.is_empty()) {
        let mut file = fs::File::options().create(true).append(true).open(file).expect("a file that can be written");
        // With one call, as other scenes write there too.
        file.write_all(format!("{name} {}\n", heard.join(" ")).as_bytes()).expect("room for it");
    }
}

/// A scene that is being played, as the watchdog sees it.
struct Scene {
    name: String,
    number: u64,
    limits: Limits,
    /// Milliseconds of virtual time since its begin.
    virtual_ms: AtomicU64,
    /// Milliseconds of real time since its begin, when its clock ticked or work outside was done.
    moved_at_ms: AtomicU64,
    begun: std::time::Instant,
    /// Where work outside was begun that is not over.
    outside: Mutex<Vec<(u64, &'static Location<'static>)>>,
    given_up: Notify,
}

impl Scene {
    fn real(&self) -> Duration {
        self.begun.elapsed()
    }

    fn still_for(&self) -> Duration {
        self.real().saturating_sub(Duration::from_millis(self.moved_at_ms.load(Ordering::Relaxed)))
    }

    fn ticks(&self, clock: Duration) {
        self.virtual_ms.store(clock.as_millis() as u64, Ordering::Relaxed);
        self.goes_on();
    }

    fn goes_on(&self) {
        self.moved_at_ms.store(self.real().as_millis() as u64, Ordering::Relaxed);
    }

    /// Both clocks, and the work that is outside.
    fn state(&self) -> String {
        let outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        let places: Vec<String> = outside.iter().map(|(_, place)| place.to_string()).collect();
        let clock = Duration::from_millis(self.virtual_ms.load(Ordering::Relaxed));
        let works = if places.is_empty() { "nothing known".into() } else { places.join(", ") };
        format!("its clock showed {clock:?} after {:?} of real time; outside: {works}", self.real())
    }
}

/// Scenes that are played at a time, however many threads the tests have: a machine has ports for 30 engines.
const AT_ONCE: usize = 24;
static PLAYED: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// One of the places for scenes, until it is dropped.
struct Place;

impl Place {
    fn wait_for() -> Self {
        let (played, left) = &PLAYED;
        let played = played.lock().unwrap_or_else(PoisonError::into_inner);
        let mut played = left.wait_while(played, |played| *played >= AT_ONCE).unwrap_or_else(PoisonError::into_inner);
        *played += 1;
        Self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (played, left) = &PLAYED;
        *played.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        left.notify_one();
    }
}

/// Plays a scene to its end on a paused clock, on this thread.
pub fn run<S: FnOnce() -> F, F: Future<Output = ()>>(scene: S) {
    run_within(Limits::default(), scene);
}

/// Like [`run`], for a scene with limits of its own.
pub fn run_within<S: FnOnce() -> F, F: Future<Output = ()>>(limits: Limits, scene: S) {
    // Only the first in a test program can succeed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let _place = Place::wait_for();
    LazyLock::force(&WATCHED);
    LazyLock::force(&PROGRAMS);
    LazyLock::force(&MOMENT);
    wall_clock::read_from(scenes_wall_clock);
    chance::come_from(scenes_chance);
    CHANCE.set(Some(env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)));
    let number = SCENES_BEGUN.fetch_add(1, Ordering::Relaxed);
    // A thread that is made without a name bears that of its maker: it gives its scene away.
    let renamed = ThreadName::to(&format!("{SCENE}{number}"));
    let this = Arc::new(Scene {
        name: name_of::<S>(),
        number,
        limits,
        virtual_ms: AtomicU64::new(0),
        moved_at_ms: AtomicU64::new(0),
        begun: real_now(),
        outside: Mutex::default(),
        given_up: Notify::new(),
    });
    let log = tracing::dispatcher::get_default(Clone::clone);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .thread_name(OUTSIDE)
        .on_thread_park(program::wait_for_starts)
        // Work outside logs where the scene does, for the life of its thread, which ends with the runtime.
        .on_thread_start(move || std::mem::forget(tracing::dispatcher::set_default(&log)))
        .build()
        .expect("a runtime");
    let id = runtime.handle().id().to_string();
    CURRENT.set(Some(this.clone()));
    scenes().push(this.clone());
    let played = catch_unwind(AssertUnwindSafe(|| runtime.block_on(play(&this, scene))));
    let untracked = untracked_threads(&this);
    write_down(&this.name);
    this.goes_on();
    // Also where work outside never ends.
    runtime.shutdown_timeout(LAST_WORK_MAX);
    scenes().retain(|other| !Arc::ptr_eq(other, &this));
    CURRENT.set(None);
    CHANCE.set(None);
    wall_clocks().remove(&id);
    drop(renamed);
    if let Err(panic) = played {
        let beside = if untracked.is_empty() { String::new() } else { format!("; {UNTRACKED} {untracked:?}") };
        eprintln!("{} failed when {}{beside}", this.name, this.state());
        resume_unwind(panic);
    }
    assert!(untracked.is_empty(), "{}: {UNTRACKED} {untracked:?}", this.name);
}

async fn play<F: Future<Output = ()>>(this: &Scene, scene: impl FnOnce() -> F) {
    let begun = Instant::now();
    let clock = async {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for tick in 0.. {
            ticks.tick().await;
            this.ticks(begun.elapsed());
            if tick % UNTRACKED_EVERY == UNTRACKED_EVERY - 1 {
                let untracked = untracked_threads(this);
                assert!(untracked.is_empty(), "{}: {UNTRACKED} {untracked:?}; {}", this.name, this.state());
            }
            assert!(begun.elapsed() < this.limits.clock, "{}: {RAN_AWAY}; {}", this.name, this.state());
        }
    };
    let given_up = async {
        this.given_up.notified().await;
        // While the scene is still there, with its work outside.
        panic!("{}: {STOOD_STILL}; {}", this.name, this.state());
    };
    tokio::select! {
        biased;
        () = given_up => {}
        () = scene() => {}
        () = clock => {}
    }
}

/// All of the machine stands still for so long, as one that is moved to another host: whatever was due meanwhile is late.
pub async fn stand_still(length: Duration) {
    advance(length).await;
}

/// How far scenes' wall clocks are from where they would be, by their runtimes.
static WALL_CLOCKS: Mutex<BTreeMap<String, SignedDuration>> = Mutex::new(BTreeMap::new());
/// A moment on both of the machine's clocks.
static MOMENT: LazyLock<(SystemTime, std::time::Instant)> = LazyLock::new(|| (SystemTime::now(), real_now()));

/// Sets the wall clock of this scene so far from where it would be without.
pub fn set_wall_clock(off: SignedDuration) {
    wall_clocks().insert(Handle::current().id().to_string(), off);
}

fn wall_clocks() -> MutexGuard<'static, BTreeMap<String, SignedDuration>> {
    WALL_CLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Goes with the clock of the runtime that asks; outside of any it is the machine's.
fn scenes_wall_clock() -> SystemTime {
    let ((date, then), now) = (*MOMENT, Instant::now().into_std());
    let date = date + now.saturating_duration_since(then) - then.saturating_duration_since(now);
    let off = Handle::try_current().ok().and_then(|own| wall_clocks().get(&own.id().to_string()).copied());
    off.map_or(date, |off| if off.is_negative() { date - off.unsigned_abs() } else { date + off.unsigned_abs() })
}

/// Does work that blocks on a thread of its own; the clock stands still until it is done.
#[track_caller]
pub fn outside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> impl Future<Output = T> {
    let noted = OutsideWork::at(Location::caller());
    let work = spawn_blocking(work);
    async move {
        let done = work.await;
        drop(noted);
        match done {
            Ok(done) => done,
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(cancelled) => panic!("{cancelled}"),
            },
        }
    }
}

/// The same with a runtime there whose clock is the machine's: for programs that are waited for by looking again.
#[track_caller]
pub fn real_time<T, F>(work: impl FnOnce() -> F + Send + 'static) -> impl Future<Output = T>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    outside(move || by_the_machines_clock().block_on(work()))
}

/// Runs a program to its end, without any input; blocks, so that a scene does it [`outside`].
pub fn output_of(command: &mut Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = {
        let _starting = program::starting();
        command.spawn()?
    };
    child.wait_with_output()
}

/// Plays a scene in real time, which costs all tests that time: `why` it cannot be played on a paused clock.
pub fn run_in_real_time<F: Future<Output = ()>>(why: &str, scene: impl FnOnce() -> F) {
    println!("in real time: {why}");
    let _ = rustls::crypto::ring::default_provider().install_default();
    by_the_machines_clock().block_on(scene());
}

fn by_the_machines_clock() -> Runtime {
    Builder::new_current_thread().enable_all().thread_name(OUTSIDE).build().expect("a runtime")
}

/// Awaits what another thread or a program does; the clock stands still meanwhile.
#[track_caller]
pub fn holding<T>(awaited: impl Future<Output = T>) -> impl Future<Output = T> {
    let noted = OutsideWork::at(Location::caller());
    async move {
        let (release, released) = mpsc::sync_channel::<()>(1);
        // Ends as soon as the other end of the channel is gone, also by a panic.
        let held = spawn_blocking(move || released.recv().is_err());
        let done = AssertUnwindSafe(awaited).catch_unwind().await;
        drop(release);
        held.await.expect("it only waits");
        drop(noted);
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// An entry among the works outside of this thread's scene.
struct OutsideWork(Option<(Arc<Scene>, u64)>);

impl OutsideWork {
    fn at(place: &'static Location<'static>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(CURRENT.with_borrow(Clone::clone).map(|scene| {
            scene.outside.lock().unwrap_or_else(PoisonError::into_inner).push((number, place));
            (scene, number)
        }))
    }
}

impl Drop for OutsideWork {
    fn drop(&mut self) {
        if let Some((scene, number)) = &self.0 {
            scene.outside.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| other != number);
            scene.goes_on();
        }
    }
}

/// More programs at a time than scenes ever start: the places for them are the process's, and one scene must not wait for another.
static PROGRAMS: LazyLock<()> = LazyLock::new(|| program::PLACES.add(1_000));

/// Started once in a process: looks whether the clocks of its scenes move.
static WATCHED: LazyLock<()> = LazyLock::new(|| {
    let watch = || {
        // Nobody sends: it is a clock that no runtime owns.
        let (_never, looks) = mpsc::sync_channel::<()>(0);
        loop {
            let _ = looks.recv_timeout(LOOK_EVERY);
            for scene in scenes().iter() {
                let still = scene.still_for();
                if still > scene.limits.still + scene.limits.notice {
                    // Not `eprintln`, which the test harness may capture.
                    let told = format!("\n{}: {STUCK}; {}\n", scene.name, scene.state());
                    let _ = std::io::stderr().write_all(told.as_bytes());
                    process::exit(101);
                } else if still > scene.limits.still {
                    scene.given_up.notify_one();
                }
            }
        }
    };
    thread::Builder::new().name(WATCHDOG.into()).spawn(watch).expect("a thread");
});

fn scenes() -> MutexGuard<'static, Vec<Arc<Scene>>> {
    SCENES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine's clock, which no scene sees.
#[expect(clippy::disallowed_methods, reason = "real time is what is measured here")]
fn real_now() -> std::time::Instant {
    std::time::Instant::now()
}

/// The function that a closure was written in: `providers::table::pipeline::the_caller_is_answered`.
fn name_of<S>() -> String {
    let name = std::any::type_name::<S>().trim_end_matches("::{{closure}}");
    name.split_once("::").map_or(name, |(_program, path)| path).to_owned()
}

/// The name of this thread as the kernel shows it; dropped: what it was before.
struct ThreadName(String);

const OWN_NAME: &str = "/proc/thread-self/comm";

impl ThreadName {
    fn to(name: &str) -> Self {
        let before = fs::read_to_string(OWN_NAME).unwrap_or_default();
        // Without a name the maker of an untracked thread is not known: no reason to fail.
        let _ = fs::write(OWN_NAME, name);
        Self(before)
    }
}

impl Drop for ThreadName {
    fn drop(&mut self) {
        let _ = fs::write(OWN_NAME, self.0.trim_end());
    }
}

/// Threads of this process that no clock knows of: those in [`UNTRACKED_THREADS`], and those that this scene made. A thread bears
/// its maker's name until it has taken its own, so one that does is looked at again.
fn untracked_threads(scene: &Scene) -> Vec<String> {
    let began = real_now();
    loop {
        let found = threads_named(scene.number);
        if found.is_empty() || began.elapsed() > scene.limits.still / NAMED_WITHIN {
            return found;
        }
        std::thread::yield_now();
    }
}

fn threads_named(number: u64) -> Vec<String> {
    let (own, this) = (format!("{SCENE}{number}"), thread_id());
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
    let others = threads.filter(|thread| Some(thread.file_name()) != this);
    // A thread may have ended meanwhile.
    let names = others.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    let names = names.map(|name| name.trim_end().to_owned());
    names.filter(|name| *name == own || UNTRACKED_THREADS.contains(&name.as_str())).collect()
}

fn thread_id() -> Option<OsString> {
    fs::read_link("/proc/thread-self").ok()?.file_name().map(ToOwned::to_owned)
}
