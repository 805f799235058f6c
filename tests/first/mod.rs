//! The first hour of an admin: `offhook init` makes an installation, `offhook doctor` says what is wrong with one, against a
//! real Asterisk.

use crate::kit;

mod doctor;
mod init;
mod media_test;
mod welcome;

use kit::asterisk::Asterisk;
use std::{path::Path, process::Stdio, time::Duration};
use tokio::{
    io::AsyncWriteExt as _,
    process::Command,
    time::{Instant, sleep, timeout},
};

pub const SOON: Duration = Duration::from_secs(20);
/// What doctor promises.
pub const MINUTE: Duration = Duration::from_secs(60);

/// What a command printed, and how it ended.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs the program in a folder, with this environment and these lines as its input.
pub async fn offhook(folder: &Path, arguments: &[&str], env: &[(&str, String)], lines: &str) -> Ran {
    let mut child = Command::new(offhook_kit::program())
        .args(arguments)
        .current_dir(folder)
        .env_remove("ARI_PASSWORD")
        .env_remove("OPENAI_API_KEY")
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("cargo built the program");
    let mut input = child.stdin.take().expect("a pipe");
    // A program that ends before it has read all says why.
    let _ = input.write_all(lines.as_bytes()).await;
    drop(input);
    let output = timeout(MINUTE, child.wait_with_output()).await;
    let output = output.unwrap_or_else(|_| panic!("offhook {arguments:?} still runs")).expect("its own child");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code().expect("no signal"), out: text(&output.stdout), err: text(&output.stderr) }
}

/// No channel, no bridge and no application of a doctor is left in Asterisk.
pub async fn nothing_is_left(asterisk: &Asterisk) {
    asterisk.wait_empty(SOON).await;
    // Asterisk takes note of a socket that was closed when it comes to it.
    let until = Instant::now() + SOON;
    loop {
        let apps = asterisk.cli("ari show apps").await;
        if !apps.contains("offhook-doctor") {
            return;
        }
        assert!(Instant::now() < until, "{apps}");
        sleep(Duration::from_millis(20)).await;
    }
}
