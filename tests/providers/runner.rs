//! Runs the tests of the table. They wait far more than they work, and the test harness runs as many at a time as the
//! machine has cores; so all that were asked for run together on one runtime, and each test waits for its own.

use futures_util::{FutureExt as _, future::BoxFuture};
use std::{
    cell::RefCell,
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{LazyLock, Mutex, mpsc},
    time::Duration,
};
use tokio::{runtime::Runtime, time::timeout};

/// A test of one provider: its name and its course.
pub type Case = (&'static str, fn() -> BoxFuture<'static, ()>);

/// A test that takes longer hangs. It may wait for a place among the calls (`desk.rs`), the last one for as long as all others
/// take: five to six minutes on two cores.
const CASE_MAX: Duration = Duration::from_secs(600);

/// How a test failed, in the words of its panic.
type Outcome = Result<(), String>;

thread_local! {
    /// What the last panic on this thread said, and where.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Running {
    _runtime: Runtime,
    outcomes: Mutex<HashMap<&'static str, mpsc::Receiver<Outcome>>>,
}

static RUNNING: LazyLock<Running> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let runtime = runtime.expect("a runtime");
    // For all of them, also for one that runs alone.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // The runtime's threads print into the first test alone.
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        SAID.set(panic.to_string());
        before(panic);
    }));
    let asked = Asked::of(std::env::args().skip(1));
    let mut outcomes = HashMap::new();
    for (name, course) in crate::providers::table::providers().into_iter().flat_map(|(_, cases)| cases) {
        if asked.includes(name) {
            outcomes.insert(*name, start(&runtime, *course));
        }
    }
    Running { _runtime: runtime, outcomes: Mutex::new(outcomes) }
});

fn start(runtime: &Runtime, course: fn() -> BoxFuture<'static, ()>) -> mpsc::Receiver<Outcome> {
    let (done, outcome) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        let bounded = async { timeout(CASE_MAX, course()).await.expect("the test ends in time") };
        let outcome = AssertUnwindSafe(bounded).catch_unwind().await;
        // The poll that panicked was on this very thread.
        let outcome = outcome.map_err(|_| SAID.take());
        // Whoever waits may have given up.
        let _ = done.send(outcome);
    });
    outcome
}

/// Runs a part of a test on a runtime of its own: one that works for long at a time, for which nobody else's sound may
/// wait.
pub async fn apart<F: Future<Output = ()>>(part: impl FnOnce() -> F + Send + 'static) {
    let run = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(part());
    };
    let run = || std::panic::catch_unwind(AssertUnwindSafe(run)).map_err(|_| SAID.take());
    if let Err(said) = tokio::task::spawn_blocking(run).await.expect("a panic is caught") {
        panic!("{said}");
    }
}

/// Waits for one test and fails with its failure.
pub fn run(name: &str) {
    let outcome = RUNNING.outcomes.lock().expect("nothing panics with the lock").remove(name);
    let outcome =
        outcome.unwrap_or_else(|| panic!("{name} was not started: it was not understood that it was asked for"));
    if let Err(said) = outcome.recv().expect("each test says how it ended") {
        panic!("{said}");
    }
}

/// Which tests the command line asks for, as the test harness reads it.
struct Asked {
    filters: Vec<String>,
    skips: Vec<String>,
    exact: bool,
}

impl Asked {
    fn of(arguments: impl Iterator<Item = String>) -> Self {
        let mut asked = Self { filters: Vec::new(), skips: Vec::new(), exact: false };
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--exact" => asked.exact = true,
                "--skip" => asked.skips.extend(arguments.next()),
                "--test-threads" | "--format" | "--color" | "--logfile" | "-Z" => drop(arguments.next()),
                other if other.starts_with('-') => {}
                filter => asked.filters.push(filter.to_owned()),
            }
        }
        asked
    }

    fn includes(&self, name: &str) -> bool {
        // As the harness names it.
        let name = format!("table::{name}");
        let like = |filter: &String| if self.exact { name == *filter } else { name.contains(filter) };
        (self.filters.is_empty() || self.filters.iter().any(like)) && !self.skips.iter().any(like)
    }
}

#[test]
fn tests_are_chosen_as_the_harness_chooses_them() {
    let asked = |line: &str| Asked::of(line.split_whitespace().map(str::to_owned));
    assert!(asked("--nocapture --test-threads 2").includes("acme::greets"));
    assert!(asked("acme::").includes("acme::greets") && !asked("acme:: --exact").includes("acme::greets"));
    assert!(asked("--exact table::acme::greets").includes("acme::greets"));
    assert!(!asked("--skip greets").includes("acme::greets"));
}
