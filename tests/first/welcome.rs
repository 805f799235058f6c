//! The first start: who may log in to the page. What is seen there of the first call is in `tests/web/newcomer.rs`.

use crate::first::{
    SOON,
    kit::{
        offhook::{Offhook, Place},
        terminal::{Browser, Terminal},
    },
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
    let command = format!("{} run --config offhook.yaml", offhook_kit::program().display());
    let page = format!("http://127.0.0.1:{}", place.http);
    for first in [true, false] {
        let mut terminal = Terminal::start(&command, folder.path(), &[], folder.path().join("said"));
        let said = terminal.wait_said("offhook is up", SOON).await;
        assert!(said.contains(&format!("The page is at {page}/")), "{said}");
        let password = terminal.password();
        assert_eq!(password.is_some(), first, "it is told once: {said}");
        if let Some(password) = password {
            Browser::log_in(&page, &password).await;
        }
        // Whoever has lost it reads at the log-in what to type, and it works where it is typed.
        let log_in = reqwest::get(format!("{page}/login")).await.expect("an answer").text().await.expect("a page");
        let rescue = said.lines().find_map(|line| line.split_once(": /").map(|(_, command)| format!("/{command}")));
        let rescue = rescue.unwrap_or_else(|| panic!("no command: {said}"));
        assert!(log_in.contains(&rescue), "{rescue}\n{log_in}");
        let mut typed = Terminal::start(&rescue, folder.path(), &[], folder.path().join("typed"));
        assert_eq!(typed.wait_exit(SOON).await.code(), Some(0), "{}", typed.said());
        let said = typed.said();
        Browser::log_in(&page, said.lines().next_back().expect("a password")).await;
        terminal.ctrl_c().await;
        assert_eq!(terminal.wait_exit(SOON).await.code(), Some(0), "{}", terminal.said());
    }
}

/// What is printed where nobody looks becomes a log.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_no_password_is_made_and_the_log_says_what_to_do() {
    let place = Place::free();
    let yaml = yaml(&place);
    let offhook = Offhook::start(place, &yaml).await;
    // It answers before it has said so.
    offhook.wait_logged("nobody can log in to the page yet").await;
    let log = offhook.log();
    assert!(log.contains("offhook account add"), "{log}");
    assert!(!log.contains("password"), "{log}");
    assert!(!offhook.folder().join("accounts.json").exists());
}
