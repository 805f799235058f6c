//! Somebody at a terminal, who reads what a program prints and has its page open in a browser.

use crate::processes::{descendants, signal_if_there};
use serde_json::{Value, json};
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, ChildStdin, Command},
    time::{Instant, sleep, timeout},
};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The engine reads the accounts once a second, so a password that was just changed may be refused at first.
const KNOWN_WITHIN: Duration = Duration::from_secs(3);
/// Ten wrong passwords a minute are all that is allowed.
const TRY_EVERY: Duration = Duration::from_millis(400);

/// A command in a terminal of its own, made by `script` of every Debian. It ends with the test.
pub struct Terminal {
    script: Child,
    keys: ChildStdin,
    said: PathBuf,
}

impl Terminal {
    /// `command` is a simple one for a shell. What is said is kept in the file `said`.
    pub fn start(command: &str, folder: &Path, env: &[(&str, String)], said: PathBuf) -> Self {
        // So that Ctrl-C is the command's alone.
        let command = format!("exec {command}");
        let file = File::create(&said).expect("a file in the test's own directory");
        // Who starts these tests in the background may have them ignore Ctrl-C, which a shell cannot undo.
        let mut script = Command::new("env")
            .args([
                "--default-signal=INT",
                "script",
                "--quiet",
                "--flush",
                "--return",
                "--command",
                &command,
                "/dev/null",
            ])
            .current_dir(folder)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .expect("script, of every Debian");
        let keys = script.stdin.take().expect("a pipe");
        Self { script, keys, said }
    }

    pub fn pid(&self) -> u32 {
        self.script.id().expect("it runs")
    }

    /// With the line ends of a file.
    pub fn said(&self) -> String {
        let bytes = std::fs::read(&self.said).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
    }

    /// Waits until it has said this, and fails if it ends before.
    pub async fn wait_said(&mut self, words: &str, limit: Duration) -> String {
        let until = Instant::now() + limit;
        loop {
            // Asked before what was said is read, so that its last words count.
            let ended = self.script.try_wait().expect("its own child");
            let said = self.said();
            if said.contains(words) {
                return said;
            }
            assert!(ended.is_none(), "it ended with {ended:?} and without {words:?}:\n{said}");
            assert!(Instant::now() < until, "{words:?} is not said within {limit:?}:\n{said}");
            sleep(LOOK_EVERY).await;
        }
    }

    pub async fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.expect("the terminal reads");
    }

    pub async fn ctrl_c(&mut self) {
        self.press("\x03").await;
    }

    /// Waits until the command has ended; its own exit code.
    pub async fn wait_exit(&mut self, limit: Duration) -> ExitStatus {
        let ended = timeout(limit, self.script.wait()).await;
        ended.unwrap_or_else(|_| panic!("it still runs:\n{}", self.said())).expect("its own child")
    }

    /// The password that the first start tells; none: it was told none.
    pub fn password(&self) -> Option<String> {
        let said = self.said();
        let told = said.lines().find_map(|line| line.trim().strip_prefix("password  "));
        told.map(|password| password.trim().to_owned())
    }
}

/// An engine takes the end of its terminal for a wish to reload.
impl Drop for Terminal {
    fn drop(&mut self) {
        for process in self.script.id().map(descendants).unwrap_or_default() {
            let _ = signal_if_there(process.pid, "KILL");
        }
    }
}

/// Somebody who is logged in.
pub struct Browser {
    page: String,
    cookie: String,
    client: reqwest::Client,
}

impl Browser {
    /// `page`: the address that was printed, up to its port.
    pub async fn log_in(page: &str, password: &str) -> Self {
        // Only the first in a test program can succeed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::new();
        let account = json!({ "name": "admin", "password": password });
        let try_it = || client.post(format!("{page}/api/v1/login")).json(&account).send();
        let mut answer = try_it().await.expect("an answer");
        let until = Instant::now() + KNOWN_WITHIN;
        while answer.status() == 401 && Instant::now() < until {
            sleep(TRY_EVERY).await;
            answer = try_it().await.expect("an answer");
        }
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap_or_default());
        let cookie = answer.headers()["set-cookie"].to_str().expect("plain ASCII");
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Self { page: page.to_owned(), cookie, client }
    }

    /// What is at an address, as it is shown.
    pub async fn text(&self, path: &str) -> String {
        let request = self.client.get(format!("{}{path}", self.page)).header("cookie", &self.cookie);
        let answer = request.send().await.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(answer.status(), 200, "{path}");
        answer.text().await.expect("a whole answer")
    }

    pub async fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path).await).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The one running call, as soon as *Live* shows it.
    pub async fn wait_live(&self, limit: Duration) -> Value {
        let until = Instant::now() + limit;
        loop {
            let live = self.json("/api/v1/live").await;
            if let Some([call]) = live["active"].as_array().map(Vec::as_slice) {
                return call.clone();
            }
            assert!(Instant::now() < until, "no call is live: {live}");
            sleep(LOOK_EVERY).await;
        }
    }

    /// The record of a call, as soon as *History* has it.
    pub async fn wait_record(&self, id: &str, limit: Duration) -> Value {
        let until = Instant::now() + limit;
        loop {
            let calls = self.json("/api/v1/calls").await;
            if calls["items"].as_array().is_some_and(|all| all.iter().any(|call| call["id"] == id)) {
                return self.json(&format!("/api/v1/calls/{id}")).await;
            }
            assert!(Instant::now() < until, "no record of {id}: {calls}");
            sleep(LOOK_EVERY).await;
        }
    }
}
