//! Programs on this machine that are asked like a service: bounded in their time and in what they say, and gone with all
//! that they started.

use super::Fault;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid};
use std::{
    io,
    os::fd::AsFd as _,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard},
    thread::available_parallelism,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    sync::{Semaphore, SemaphorePermit},
    task::spawn_blocking,
    time::timeout,
};

/// What is read of its complaints; only the first line is told.
const COMPLAINTS_BYTES: u64 = 4 << 10;

/// Programs at a time in the whole engine, whatever calls and configurations there are: each fills a core, and one core is the
/// calls'. So each is as quick for the last caller as for the first.
pub static PLACES: LazyLock<Places> =
    LazyLock::new(|| Places::beside_calls(available_parallelism().map_or(1, usize::from)));

/// Programs that may run at a time.
pub struct Places(Semaphore);

impl Places {
    pub const fn new(places: usize) -> Self {
        Self(Semaphore::const_new(places))
    }

    /// More of them, in a process that decides itself how many of its machine's cores programs may fill.
    pub fn add(&self, places: usize) {
        self.0.add_permits(places);
    }

    fn beside_calls(cores: usize) -> Self {
        Self::new(cores.saturating_sub(1).max(1))
    }

    /// One of them, until it is dropped.
    ///
    /// # Errors
    /// None became free within `limit`.
    pub async fn place(&self, limit: Duration) -> Result<SemaphorePermit<'_>, Fault> {
        match timeout(limit, self.0.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            // It is never closed.
            _ => Err(Fault::NoPlace(limit)),
        }
    }

    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.0.available_permits()
    }
}

/// Held while a program is being started, which until it runs has a copy of every open file: a connection that is closed
/// meanwhile ends only then for its peer.
static STARTING: RwLock<()> = RwLock::new(());

/// To be held by whoever starts a program, until it is started.
pub fn starting() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Returns when what this process has closed is closed for its peers as well. A paused clock has to wait for that: it would run
/// past every limit in the meantime.
pub fn wait_for_starts() {
    drop(STARTING.write().unwrap_or_else(PoisonError::into_inner));
}

/// A program by its name, as a shell finds it.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// One that runs; it ends when this is dropped.
pub struct Program {
    child: Child,
    group: Group,
}

/// What it says.
pub struct Said {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// The beginning.
    pub stderr: Vec<u8>,
}

struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        // Also when the program has ended by itself: what it left behind would live on.
        if let Some(group) = self.0 {
            // It fails only where nobody is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Program {
    /// Its input and output are pipes; where its complaints go is the caller's choice.
    ///
    /// An engine that is killed itself (SIGKILL) ends nobody. Its pipes end with it, and whoever reads a closed input or writes
    /// to a closed output is done: PocketSphinx and espeak-ng are gone within a moment. Linux could see to it for programs that
    /// do neither (PR_SET_PDEATHSIG), but that has to be asked for between fork and exec, which is `unsafe` in Rust, and it is
    /// about the thread that starts the program, which may end long before the engine does.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let child = {
            let _starting = starting();
            command.spawn()?
        };
        let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
        if let Some(program) = group.0 {
            Self::accompany(program);
        }
        Ok(Self { child, group })
    }

    /// Keeps a thread of the runtime's waiting until the program has ended, so that the runtime knows of its work. A paused
    /// clock stands still while there is such a thread, and would otherwise run past every limit before the first answer.
    fn accompany(program: Pid) {
        // It was not waited for yet, so the number is its own. Without this descriptor (Linux before 5.3) only such a clock
        // lacks something.
        if let Ok(program) = pidfd_open(program, PidfdFlags::empty()) {
            // Its status is left to whoever waits for it.
            let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            spawn_blocking(move || waitid(WaitId::PidFd(program.as_fd()), end).is_ok());
        }
    }

    /// Tells it `input`, and what it says of that: at most so many bytes within so much time.
    pub async fn answer(self, input: &[u8], bytes_max: usize, limit: Duration) -> Result<Said, Fault> {
        timeout(limit, self.run(input, bytes_max)).await.map_err(|_| Fault::Slow(limit))?
    }

    async fn run(mut self, input: &[u8], bytes_max: usize) -> Result<Said, Fault> {
        let (stdin, stdout, stderr) = (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let telling = async move {
            if let Some(mut stdin) = stdin {
                // One that ends without reading says why by its status.
                let _ = stdin.write_all(input).await;
            }
            Ok(())
        };
        let hearing = async move {
            let said = read(stdout, bytes_max as u64 + 1).await?;
            if said.len() > bytes_max { Err(Fault::TooLarge(bytes_max)) } else { Ok(said) }
        };
        let ((), stdout, stderr) = tokio::try_join!(telling, hearing, read(stderr, COMPLAINTS_BYTES))?;
        let status = self.child.wait().await.map_err(unreachable)?;
        drop(self.group);
        Ok(Said { status, stdout, stderr })
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, most: u64) -> Result<Vec<u8>, Fault> {
    let mut said = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(most).read_to_end(&mut said).await.map_err(unreachable)?;
    }
    Ok(said)
}

/// It could not be run, or not be heard.
pub fn unreachable(error: io::Error) -> Fault {
    Fault::Unreachable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;
    use tokio::time::{Instant, sleep};

    const LIMIT: Duration = Duration::from_secs(20);

    /// One core is the calls', and on a machine with one core there is a place all the same.
    #[tokio::test(start_paused = true)]
    async fn a_place_is_waited_for_and_no_longer_than_its_limit() {
        assert_eq!([1, 2, 8].map(|cores| Places::beside_calls(cores).free()), [1, 1, 7]);
        let places = Places::new(1);
        let place = places.place(LIMIT).await.expect("it is free");
        let since = Instant::now();
        assert_eq!(places.place(LIMIT).await.err(), Some(Fault::NoPlace(LIMIT)));
        assert_eq!(since.elapsed(), LIMIT);
        let (waiting, ()) = tokio::join!(places.place(LIMIT), async { drop(place) });
        assert!(waiting.is_ok() && places.free() == 0);
    }

    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::piped());
        Program::start(command).expect("there is a shell")
    }

    async fn said(script: &str) -> Result<(Option<i32>, String, String), Fault> {
        let said = shell(script).answer(b"tell", 64, LIMIT).await?;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Ok((said.status.code(), text(said.stdout), text(said.stderr)))
    }

    #[tokio::test]
    async fn what_it_is_told_and_says_and_how_it_ends() {
        assert_eq!(said("cat; echo !").await, Ok((Some(0), "tell!\n".into(), String::new())));
        assert_eq!(said("echo no >&2; exit 3").await, Ok((Some(3), String::new(), "no\n".into())), "it did not listen");
    }

    #[tokio::test]
    async fn who_never_stops_talking_or_never_begins_is_not_heard_out() {
        let since = Instant::now();
        assert_eq!(said("yes").await, Err(Fault::TooLarge(64)));
        assert!(since.elapsed() < LIMIT);
        let limit = Duration::from_millis(200);
        assert_eq!(shell("sleep 600").answer(b"", 64, limit).await.err(), Some(Fault::Slow(limit)));
    }

    /// Waits until no process has this word in its command line.
    async fn is_gone(word: &str) {
        let lives = || {
            let all = fs::read_dir("/proc").expect("processes").flatten();
            all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
                .any(|line| String::from_utf8_lossy(&line).contains(word))
        };
        let since = Instant::now();
        while lives() {
            assert!(since.elapsed() < LIMIT, "{word} lives on");
            sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn it_ends_with_all_that_it_started() {
        let folder = TempDir::with_prefix("offhook-program-").expect("a temporary directory");
        let (mark, ready) = (folder.path().display(), folder.path().join("ready"));
        // A child with the mark in its command line, which holds no pipe of its parent's.
        let child = format!("sh -c 'touch {mark}/ready; sleep 600; : {mark}' >/dev/null 2>&1 </dev/null &");
        for (end, gives_up) in [("while [ ! -e READY ]; do sleep 0.01; done", false), ("sleep 600", true)] {
            let end = end.replace("READY", ready.to_str().expect("a plain name"));
            let program = shell(&format!("{child} {end}"));
            let answer = program.answer(b"", 64, LIMIT);
            if gives_up {
                let begun = async {
                    while !ready.exists() {
                        sleep(Duration::from_millis(10)).await;
                    }
                };
                tokio::select! { _ = answer => panic!("it sleeps"), () = begun => {} }
            } else {
                assert!(answer.await.is_ok());
            }
            is_gone(&mark.to_string()).await;
            fs::remove_file(&ready).expect("it was begun");
        }
    }
}
