//! Processes that a program under test has started, found and ended by their ids.

use std::time::Duration;
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

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

pub async fn wait_gone(pid: u32, within: Duration) {
    let until = Instant::now() + within;
    while lives(pid) {
        assert!(Instant::now() < until, "process {pid} lives after {within:?}: {}", command(pid));
        sleep(LOOK_EVERY).await;
    }
}

/// Sends a signal to this process alone.
pub async fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &pid.to_string()]).status().await;
    assert!(sent.is_ok_and(|status| status.success()), "kill -s {name} {pid}");
}

/// A process that does nothing until this is dropped: it hangs, and does not even end.
pub struct Stopped(u32);

impl Stopped {
    pub async fn new(pid: u32) -> Self {
        signal(pid, "STOP").await;
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Nobody else would find it, should the test fail; it may be gone already.
        let _ = std::process::Command::new("sh")
            .args(["-c", "kill -s CONT \"$0\" 2>/dev/null", &self.0.to_string()])
            .status();
    }
}

/// Its state, and who started it.
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
