//! Programs of the lab whose life is bound to the test's: `tests/lab/tied.sh` ends them when the pipe
//! held here closes, however the test ends.

use std::{
    fs::File,
    net::{TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio::process::{Child, ChildStdin, Command};

/// Longer than `tied.sh` needs to end a program that will not.
const STOP_WITHIN: Duration = Duration::from_secs(5);

pub struct Tied {
    pid_file: PathBuf,
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Tied {
    /// Starts a script of `tests/lab`; what it prints goes to `log`.
    pub fn start(script: &str, args: &[&str], env: &[(&str, String)], directory: &Path, log: &Path) -> Self {
        let lab = lab();
        let pid_file = directory.join("pid");
        // An earlier life's number must not be taken for this one's.
        let _ = std::fs::remove_file(&pid_file);
        let log = File::options().create(true).append(true).open(log).expect("a log file in the test's own directory");
        let mut child = Command::new(lab.join("tied.sh"))
            .arg(&pid_file)
            .arg(lab.join(script))
            .args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a second handle to the log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}; needs bash", lab.join("tied.sh").display()));
        let pipe = child.stdin.take();
        Self { pid_file, child, pipe }
    }

    /// `true` once the program has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks the program to end, and waits until it has.
    pub async fn stop(&mut self) {
        self.pipe = None;
        self.wait().await;
    }

    pub fn pid(&self) -> u32 {
        let pid = std::fs::read_to_string(&self.pid_file).expect("tied.sh writes the pid first");
        pid.trim().parse().expect("a number")
    }

    /// Ends the program at once, as a crash would: it says nothing to anybody.
    pub async fn kill(&mut self) {
        let pid = self.pid().to_string();
        let killed = Command::new("sh").args(["-c", "kill -9 \"$0\"", &pid]).status().await;
        assert!(killed.is_ok_and(|status| status.success()), "process {pid} was gone already");
        self.wait().await;
        self.pipe = None;
    }

    async fn wait(&mut self) {
        tokio::time::timeout(STOP_WITHIN, self.child.wait()).await.expect("tied.sh ends within its own limit").ok();
    }
}

/// `tests/lab` of this checkout.
pub fn lab() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab")
}

/// The first of `count` consecutive ports, beginning with an even one, that are free for UDP and TCP on
/// the loopback. They lie below the range from which the kernel takes ports for outgoing connections, so
/// nothing takes one between this look and its use; other test programs begin to look elsewhere.
pub fn free_ports(count: u16) -> u16 {
    const FIRST: u16 = 10_000;
    /// Even, so that a walk around the range comes to the same pairs again.
    const RANGE: u16 = 22_000;
    const TRIES: u16 = 1000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own_start = std::process::id() % 100 * 220;
    let is_free =
        |port: u16| UdpSocket::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok();
    (0..TRIES)
        .map(|_| {
            let offset = own_start + NEXT.fetch_add(u32::from(count.next_multiple_of(2)), Ordering::Relaxed);
            FIRST + u16::try_from(offset % u32::from(RANGE)).expect("below the range")
        })
        .find(|&first| (first..first + count).all(is_free))
        .unwrap_or_else(|| panic!("no {count} free ports from {FIRST} on"))
}
