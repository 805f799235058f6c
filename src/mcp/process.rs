//! A server that is a program: its own process group, a small environment, a bounded end.
//!
//! The group matters: what is started is often a launcher (`npx`, `uvx`, `sh -c`) whose child is the server.

use crate::config::McpTransport;
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::ExposeSecret as _;
use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    sync::watch,
    time::timeout,
};

/// What a server finds in its environment besides its own `env`.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];
/// After its input was closed a server ends by itself.
const GOODBYE_MAX: Duration = Duration::from_secs(2);
/// After SIGTERM.
const TERM_MAX: Duration = Duration::from_secs(3);

pub(super) struct Process {
    group: Pid,
    exited: watch::Receiver<Option<ExitStatus>>,
}

pub(super) struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

/// # Errors
/// Why it could not be started, as a sentence.
pub(super) fn start(transport: &McpTransport) -> Result<(Process, Pipes), String> {
    let McpTransport::Stdio { program, args, cwd, env } = transport else { return Err("it is no program".into()) };
    let path = env.get("PATH").map(|path| path.expose_secret().to_owned()).or_else(|| std::env::var("PATH").ok());
    let found = find(program, path.as_deref().unwrap_or_default())
        .ok_or_else(|| format!("there is no program \"{program}\" in PATH, nor beside offhook's own"))?;
    let mut command = Command::new(found);
    command.args(args).current_dir(cwd).env_clear();
    command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs(env.iter().map(|(name, value)| (name, value.expose_secret())));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("\"{program}\" cannot be started: {error}"))?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let (Some(group), Some(stdin), Some(stdout), Some(stderr)) =
        (pid, child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(format!("\"{program}\" ended before it was spoken to"));
    };
    let (tell, exited) = watch::channel(None);
    tokio::spawn(async move {
        let status = child.wait().await.unwrap_or_default();
        // What the leader left behind would hold its pipes open and live on.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = tell.send(Some(status));
    });
    Ok((Process { group, exited }, Pipes { stdin, stdout, stderr }))
}

/// A program by its name, as a shell finds it, then beside the engine's own.
fn find(program: &str, path: &str) -> Option<PathBuf> {
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

    /// Its input is closed already: waits, asks, and then ends it and all that it started.
    pub async fn stop(self) {
        for (signal, wait) in [(None, GOODBYE_MAX), (Some(Signal::TERM), TERM_MAX), (Some(Signal::KILL), TERM_MAX)] {
            if let Some(signal) = signal {
                // It fails only where nobody is left.
                let _ = kill_process_group(self.group, signal);
            }
            if timeout(wait, self.exited()).await.is_ok() {
                return;
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.exited.borrow().is_none() {
            let _ = kill_process_group(self.group, Signal::KILL);
        }
    }
}
