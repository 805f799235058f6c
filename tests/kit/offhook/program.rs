//! The engine as its users run it: the program.

use super::Launch;
use crate::processes::signal;
use std::{
    fs::File,
    path::Path,
    process::{ExitStatus, Stdio},
};
use tokio::process::{Child, Command};

pub struct Program(Child);

impl Program {
    /// Runs `offhook.yaml` of this folder; it is killed where this is dropped.
    pub fn start(folder: &Path, launch: &Launch<'_>) -> Self {
        let log = File::create(folder.join("log")).expect("a file in the test's own directory");
        let child = Command::new(crate::program())
            .args(["run", "--log", launch.log, "--log-format", launch.log_format, "--config", "offhook.yaml"])
            .current_dir(folder)
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle to the log"))
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("cargo built the program");
        Self(child)
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("its own child").is_some()
    }

    pub fn log(folder: &Path) -> String {
        std::fs::read_to_string(folder.join("log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.0.id().expect("it runs")
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    pub async fn ended(&mut self) -> ExitStatus {
        self.0.wait().await.expect("its own child")
    }
}
