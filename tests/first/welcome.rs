//! The first start: who may log in to the page.

use crate::{
    SOON,
    support::offhook::{Offhook, Place},
};
use serde_json::json;
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
    time::{sleep, timeout},
};

fn yaml(place: &Place) -> String {
    format!(
        "http: {{ bind: \"127.0.0.1:{}\", accounts: accounts.json }}\nmedia:\n{}\
         providers: {{ silent: {{ scripted: {{ script: [silence] }} }} }}\n\
         contexts: {{ front: {{ prompt: A test, provider: silent, audiosocket_id: \"0ff40001\" }} }}\n",
        place.http,
        place.media()
    )
}

/// Issue 7: "first start makes an admin password and prints it once", where somebody sees it.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_in_a_terminal_tells_a_password_that_opens_the_page() {
    let folder = tempfile::TempDir::with_prefix("offhook-welcome-").expect("a temporary directory");
    let place = Place::free();
    std::fs::write(folder.path().join("offhook.yaml"), yaml(&place)).expect("the test's own folder");
    let command = format!("{} run --config offhook.yaml", env!("CARGO_BIN_EXE_offhook"));
    for first in [true, false] {
        // A terminal of its own.
        let mut terminal = Command::new("script")
            .args(["--quiet", "--flush", "--command", &command, "/dev/null"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, of every Debian");
        let mut keys = terminal.stdin.take().expect("a pipe");
        let mut lines = BufReader::new(terminal.stdout.take().expect("a pipe")).lines();
        let mut password = None;
        // The last thing that is told of a start.
        while let Some(line) = timeout(SOON, lines.next_line()).await.expect("it starts").expect("text") {
            password = password.or_else(|| line.trim().strip_prefix("password").map(|rest| rest.trim().to_owned()));
            if password.is_some() || !first && line.contains("offhook is up") {
                break;
            }
        }
        assert_eq!(password.is_some(), first, "it is told once");
        if let Some(password) = password {
            let account = json!({ "name": "admin", "password": password });
            let login = format!("http://127.0.0.1:{}/api/v1/login", place.http);
            let answer = reqwest::Client::new().post(login).json(&account).send().await.expect("an answer");
            assert_eq!(answer.status(), 200);
        }
        // Ctrl-C.
        keys.write_all(b"\x03").await.expect("the terminal reads");
        while timeout(SOON, lines.next_line()).await.expect("it ends").is_ok_and(|line| line.is_some()) {}
        timeout(SOON, terminal.wait()).await.expect("it ends").expect("its own child");
    }
}

/// What is printed where nobody looks becomes a log.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_no_password_is_made_and_the_log_says_what_to_do() {
    let place = Place::free();
    let yaml = yaml(&place);
    let offhook = Offhook::start(place, &yaml).await;
    // It answers before it has said so.
    let told = async {
        while !offhook.log().contains("nobody can log in to the page yet") {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, told).await.unwrap_or_else(|_| panic!("nobody is told: {}", offhook.log()));
    let log = offhook.log();
    assert!(log.contains("offhook account add"), "{log}");
    assert!(!log.contains("password"), "{log}");
    assert!(!offhook.folder().join("accounts.json").exists());
}
