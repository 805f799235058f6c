//! A server that is a program: its own process group, a small environment, a bounded end.
//!
//! The group matters: what is started is often a launcher (`npx`, `uvx`, `sh -c`) whose child is the server.

use crate::{config::McpTransport, remote::program::starting};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use secrecy::ExposeSecret as _;
use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    pin::Pin,
    process::{ExitStatus, Stdio},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::AsyncWrite,
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    sync::watch,
    time::{Sleep, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// What a server finds in its environment besides its own `env`.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];
/// After its input was closed a server ends by itself.
const GOODBYE_MAX: Duration = Duration::from_secs(2);
/// After SIGTERM.
const TERM_MAX: Duration = Duration::from_secs(3);
/// For what a program started and that outlives it.
const LEFT_BEHIND_MAX: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A server that takes nothing for so long does not read what it is told.
const STUCK_MAX: Duration = Duration::from_secs(10);

pub(super) struct Process {
    group: Pid,
    exited: watch::Receiver<Option<ExitStatus>>,
    stuck: CancellationToken,
}

pub(super) struct Pipes {
    pub stdin: Stdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

/// # Errors
/// Why it could not be started, as a sentence.
pub(super) fn start(transport: &McpTransport) -> Result<(Process, Pipes), String> {
    let McpTransport::Stdio { program, args, cwd, env } = transport else { return Err("it is no program".into()) };
    let path = env.get("PATH").map(|path| OsString::from(path.expose_secret())).or_else(|| std::env::var_os("PATH"));
    let found = find(program, path.as_deref().unwrap_or_default())
        // Relative to where offhook is, not to where the server will be.
        .and_then(|found| std::path::absolute(found).ok())
        .ok_or_else(|| format!("there is no program \"{program}\" in PATH, nor beside offhook's own"))?;
    let mut command = Command::new(found);
    command.args(args).current_dir(cwd).env_clear();
    command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs(env.iter().map(|(name, value)| (name, value.expose_secret())));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let started = {
        let _starting = starting();
        command.spawn()
    };
    let mut child = started.map_err(|error| format!("\"{program}\" cannot be started: {error}"))?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let (Some(group), Some(stdin), Some(stdout), Some(stderr)) =
        (pid, child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(format!("\"{program}\" ended before it was spoken to"));
    };
    let (tell, exited) = watch::channel(None);
    tokio::spawn(async move {
        let status = child.wait().await.unwrap_or_default();
        let _ = tell.send(Some(status));
    });
    let stuck = CancellationToken::new();
    let stdin = Stdin { inner: stdin, waits: None, stuck: stuck.clone() };
    Ok((Process { group, exited, stuck }, Pipes { stdin, stdout, stderr }))
}

/// A program by its name, as a shell finds it, then beside the engine's own.
pub fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    let beside = std::env::current_exe().ok().and_then(|own| own.parent().map(Path::to_owned));
    std::env::split_paths(path).chain(beside).map(|folder| folder.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

impl Process {
    /// Resolves when it has ended.
    pub async fn exited(&self) -> ExitStatus {
        let mut exited = self.exited.clone();
        // The sender sends once before it goes.
        exited.wait_for(Option::is_some).await.ok().and_then(|status| *status).unwrap_or_default()
    }

    /// Resolves when it has not taken what it was told for too long.
    pub async fn stuck(&self) {
        self.stuck.cancelled().await;
    }

    /// Its input is closed already: waits, asks, and then ends it and all that it started.
    pub async fn stop(self) {
        if self.exited.borrow().is_some() {
            // It went by itself; what it left behind goes with it, in `drop`.
            return;
        }
        for (signal, wait) in [(None, GOODBYE_MAX), (Some(Signal::TERM), TERM_MAX)] {
            if let Some(signal) = signal {
                // It fails only where nobody is left.
                let _ = kill_process_group(self.group, signal);
            }
            if timeout(wait, self.exited()).await.is_ok() {
                // A launcher ends at once; what it launched may still be tidying up.
                let _ = timeout(LEFT_BEHIND_MAX, self.nobody_left()).await;
                break;
            }
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = timeout(TERM_MAX, self.exited()).await;
    }

    async fn nobody_left(&self) {
        while test_kill_process_group(self.group).is_ok() {
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Also when it has ended by itself: what it left behind would hold its pipes open and live on.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

/// The input of a server, which fails when the server does not read for too long: what waits to be written would grow.
pub(super) struct Stdin {
    inner: ChildStdin,
    /// Since when a write waits.
    waits: Option<Pin<Box<Sleep>>>,
    stuck: CancellationToken,
}

impl Stdin {
    fn watched<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(STUCK_MAX)));
        if waits.as_mut().poll(cx).is_ready() {
            self.stuck.cancel();
        }
        if self.stuck.is_cancelled() { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watched(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.watched(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
