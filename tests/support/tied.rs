//! Programs of the lab whose life is bound to the test's: `tests/lab/tied.sh` ends them when the pipe
//! held here closes, however the test ends.

use std::{
    fs::File,
    net::{TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU16, Ordering},
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

    /// Ends the program at once, as a crash would: it says nothing to anybody.
    pub async fn kill(&mut self) {
        let pid = std::fs::read_to_string(&self.pid_file).expect("tied.sh writes the pid first");
        let killed = Command::new("sh").args(["-c", "kill -9 \"$0\"", pid.trim()]).status().await;
        assert!(killed.is_ok_and(|status| status.success()), "process {} was gone already", pid.trim());
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

/// A TCP port that nobody listens on now. The kernel hands them out at random, so tests side by side
/// hardly meet.
pub fn free_tcp_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free TCP port on the loopback");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// A UDP port that nobody listens on now.
pub fn free_udp_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free UDP port on the loopback");
    socket.local_addr().expect("a bound socket has an address").port()
}

/// The first of `size` even-aligned ports for RTP, below the range from which the kernel hands out
/// ports. Two programs may share a range: each tries on where the other sits.
pub fn rtp_range(size: u16) -> u16 {
    const FIRST: u16 = 10_000;
    const LAST: u16 = 32_000;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let taken = TAKEN.fetch_add(size, Ordering::Relaxed);
    // Test programs that run at the same time begin at different places.
    let begin = u16::try_from(std::process::id() % 100).expect("below 100") * 200;
    FIRST + begin.wrapping_add(taken) % (LAST - FIRST - size) / 2 * 2
}
