//! Programs of the lab whose life is bound to the test's: `tests/lab/tied.sh` ends them when the pipe
//! held here closes, however the test ends.

use std::{
    cell::RefCell,
    fs::File,
    net::{TcpListener, UdpSocket},
    ops::Range,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};
use tokio::process::{Child, ChildStdin, Command};

/// Longer than `tied.sh` needs to end a program that will not, also on a machine under load.
const STOP_WITHIN: Duration = Duration::from_secs(30);

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
    crate::project().join("tests/lab")
}

/// Ports that tests take: below the range from which the kernel takes those of outgoing connections, so nothing takes one
/// between the look at it and its use. Those from 25,000 on are the bench's.
const PORTS: Range<u16> = 10_000..25_000;
/// So many belong to one process at a time, by the lock of a file.
const BLOCK: u16 = 1_000;
/// The part of a block for ranges as long as those of RTP, which begin at multiples of [`STEP`]. Single ports and the few
/// of a telephone are taken from the rest: in between they would leave no room for a range.
const RANGES: u16 = 800;
const STEP: u16 = 200;

/// Ports of this process.
struct Ports {
    /// Where a process begins to look for blocks, so that not all of them try the same ones first.
    next_block: u16,
    /// The first port of each block, and the file that is locked as long as this process lives.
    blocks: Vec<(u16, File)>,
    /// Ports of tests that still run.
    taken: Vec<Range<u16>>,
    /// Where the next search for a range begins, and that for less: a port rests after its use for as long as there are others.
    next: [usize; 2],
}

/// Where `count` ports may begin within a block.
pub fn places(count: u16) -> impl Iterator<Item = u16> + Clone {
    let (from, to, step) = if count >= STEP { (0, RANGES, STEP) } else { (RANGES, BLOCK, 2) };
    // Even, as the ports of RTP are.
    (from..to).step_by(usize::from(step)).filter(move |first| first + count <= to)
}

static PORTS_HERE: LazyLock<Mutex<Ports>> = LazyLock::new(|| {
    let next_block = u16::try_from(std::process::id() % u32::from(Ports::BLOCKS)).expect("fewer than ports");
    Mutex::new(Ports { next_block, blocks: Vec::new(), taken: Vec::new(), next: [0; 2] })
});

/// What the test of this thread has taken; returned when its thread ends.
struct Held(RefCell<Vec<Range<u16>>>);

impl Drop for Held {
    fn drop(&mut self) {
        let held = self.0.take();
        let mut ports = PORTS_HERE.lock().unwrap_or_else(PoisonError::into_inner);
        ports.taken.retain(|range| !held.contains(range));
    }
}

impl Ports {
    const BLOCKS: u16 = (PORTS.end - PORTS.start) / BLOCK;
    /// One place for all programs of tests, wherever each of them keeps its other files.
    const LOCKS: &str = "/tmp/offhook-test-ports";

    /// Ports of this process, of which nothing else of it has one.
    fn take(&mut self, count: u16) -> Option<Range<u16>> {
        let kind = usize::from(count < STEP);
        loop {
            let places: Vec<u16> =
                self.blocks.iter().flat_map(|(block, _)| places(count).map(move |place| block + place)).collect();
            let is_taken =
                |range: &Range<u16>| self.taken.iter().any(|taken| taken.start < range.end && range.start < taken.end);
            let found = (0..places.len()).map(|step| (self.next[kind] + step) % places.len()).find_map(|place| {
                let range = places[place]..places[place] + count;
                (!is_taken(&range) && range.clone().all(is_free)).then_some((place, range))
            });
            if let Some((place, range)) = found {
                self.next[kind] = place + 1;
                self.taken.push(range.clone());
                return Some(range);
            }
            self.add_block()?;
        }
    }

    /// One more block, which no other process has.
    fn add_block(&mut self) -> Option<()> {
        std::fs::create_dir_all(Self::LOCKS).ok()?;
        for number in (0..Self::BLOCKS).map(|number| (self.next_block + number) % Self::BLOCKS) {
            let first = PORTS.start + number * BLOCK;
            if self.blocks.iter().any(|(block, _)| *block == first) {
                continue;
            }
            let file = File::options().create(true).append(true).open(format!("{}/{first}", Self::LOCKS));
            if let Some(file) = file.ok().filter(|file| file.try_lock().is_ok()) {
                self.blocks.push((first, file));
                return Some(());
            }
        }
        None
    }
}

fn is_free(port: u16) -> bool {
    UdpSocket::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// The first of `count` consecutive ports, beginning with an even one, that are free for UDP and TCP on the loopback. They
/// are the test's until its thread ends: no other test of this process gets them, and no other process of tests.
pub fn free_ports(count: u16) -> u16 {
    thread_local! {
        static HELD: Held = const { Held(RefCell::new(Vec::new())) };
    }
    let range = PORTS_HERE.lock().unwrap_or_else(PoisonError::into_inner).take(count);
    let range = range.unwrap_or_else(|| panic!("no {count} free ports in {PORTS:?}"));
    HELD.with(|held| held.0.borrow_mut().push(range.clone()));
    range.start
}
