//! Processes that a program under test has started, found and ended by their ids, and what programs print.

use rustix::process::{Pid, Signal, kill_process};
use std::{process::Output, time::Duration};
use tokio::time::{Instant, sleep};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process and its command line, the words with blanks between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub command: String,
}

/// The processes that this one has started and that live.
pub fn children(parent: u32) -> Vec<Process> {
    let all = std::fs::read_dir("/proc").expect("Linux").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = pids.filter(|&pid| stat(pid).is_some_and(|(state, of)| of == parent && state != 'Z'));
    own.map(|pid| Process { pid, command: command(pid) }).collect()
}

/// These, and what they have started.
pub fn descendants(parent: u32) -> Vec<Process> {
    let below = |child: Process| descendants(child.pid).into_iter().chain([child]).collect::<Vec<_>>();
    children(parent).into_iter().flat_map(below).collect()
}

/// The only child of this process whose command line holds `mark`.
pub fn child(parent: u32, mark: &str) -> u32 {
    let all = children(parent);
    let found: Vec<_> = all.iter().filter(|process| process.command.contains(mark)).collect();
    let [only] = found[..] else { panic!("one process of {mark}: {all:?}") };
    only.pid
}

/// Whether it lives; one that has ended and that nobody has asked about does not.
pub fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| !['Z', 'X'].contains(&state))
}

/// Waits until a process has ended.
pub async fn wait_gone(pid: u32, within: Duration) {
    let until = Instant::now() + within;
    while lives(pid) {
        assert!(Instant::now() < until, "process {pid} lives after {within:?}: {}", command(pid));
        sleep(LOOK_EVERY).await;
    }
}

/// Sends a signal to this process alone.
pub fn signal(pid: u32, name: &str) {
    signal_if_there(pid, name).unwrap_or_else(|error| panic!("kill -s {name} {pid}: {error}"));
}

/// Like [`signal`], for a process that may have ended.
pub fn signal_if_there(pid: u32, name: &str) -> rustix::io::Result<()> {
    let signal = match name {
        "CONT" => Signal::CONT,
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "KILL" => Signal::KILL,
        "STOP" => Signal::STOP,
        "TERM" => Signal::TERM,
        other => panic!("no test sends {other}"),
    };
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the id of a process");
    kill_process(process, signal)
}

/// A process that does nothing until this is dropped: it hangs, and does not even end.
pub struct Stopped(u32);

impl Stopped {
    pub fn new(pid: u32) -> Self {
        signal(pid, "STOP");
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Nobody else would find it, should the test fail; it may be gone already.
        let _ = signal_if_there(self.0, "CONT");
    }
}

/// Output of a program, for the message of a test that failed.
pub fn words_of(output: &Output) -> String {
    [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat()
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn command(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}
