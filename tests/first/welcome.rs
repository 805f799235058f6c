//! The first start: who may log in to the page, and what is seen there of the first call.

use crate::first::{
    SOON,
    kit::{
        offhook::{Offhook, Place},
        processes::{descendants, lives},
        terminal::{Browser, Terminal},
        tied::free_ports,
    },
};
use std::{path::Path, time::Duration};
use tokio::time::{sleep, timeout};

/// The demo's call lasts 48 s.
const DEMO_MAX: Duration = Duration::from_secs(100);

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

/// README: `make demo KEEP=1`, which is this command in the checkout.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_that_stays_up_shows_its_call_live_and_then_in_the_history() {
    let folder = tempfile::TempDir::with_prefix("offhook-welcome-").expect("a temporary directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shipped = std::fs::read_to_string(root.join("config/attendant.yaml")).expect("a committed file");
    let port = free_ports(1);
    // Its port may be somebody's, and files beside the checkout's own must stay as they are.
    let yaml = shipped
        .replace("bind: 127.0.0.1:15000", &format!("bind: 127.0.0.1:{port}"))
        .replace("--config, aviation_atis.yaml", &format!("--config, {}/config/aviation_atis.yaml", root.display()))
        .replace("../mcp_servers", &format!("{}/mcp_servers", root.display()));
    assert!(yaml.contains(&port.to_string()) && !yaml.contains("../"), "{yaml}");
    std::fs::write(folder.path().join("attendant.yaml"), yaml).expect("the test's own folder");
    let command =
        format!("{} demo --keep --config attendant.yaml --recording demo/call.wav", env!("CARGO_BIN_EXE_offhook"));
    let mut terminal = Terminal::start(&command, folder.path(), &[], folder.path().join("said"));
    let page = format!("http://127.0.0.1:{port}");

    // There is time to log in before the caller has said goodbye.
    let said = terminal.wait_said("A caller dials in.", SOON).await;
    assert!(said.contains(&format!("{page}/")), "{said}");
    let browser = Browser::log_in(&page, &terminal.password().expect("a password")).await;
    let call = browser.wait_live(SOON).await;
    assert_eq!((&call["context"], &call["provider"]), (&"reception".into(), &"attendant".into()));
    let id = call["id"].as_str().expect("an id").to_owned();
    let live = browser.text("/").await;
    assert!(live.contains(&id) && live.contains("reception"), "{live}");

    let said = terminal.wait_said("Enter: the caller dials again", DEMO_MAX).await;
    assert!(said.contains("sentences of the caller's understood      4 of 4"), "{said}");
    let record = browser.wait_record(&id, SOON).await;
    assert_eq!(record["reason"]["label"], "agent_hung_up");
    assert!(record["turns"].as_array().is_some_and(|turns| turns.len() >= 3), "{record}");
    let words = record["entries"].to_string().to_lowercase();
    assert!(words.contains("this is the front desk") && words.contains("when are you open"), "{words}");
    let history = browser.text("/history").await;
    assert!(history.contains(&format!("/history/{id}")) || history.contains(&id), "{history}");
    assert!(folder.path().join("demo/records/calls.sqlite3").exists());

    // Another look, at another call.
    terminal.press("\n").await;
    let again = browser.wait_live(SOON).await;
    assert_ne!(again["id"], id.as_str());
    let running = descendants(terminal.pid());
    assert!(running.iter().any(|process| process.command.contains("aviation_atis")), "{running:?}");
    terminal.ctrl_c().await;
    assert_eq!(terminal.wait_exit(SOON).await.code(), Some(0), "{}", terminal.said());
    assert!(reqwest::get(&page).await.is_err(), "the page is gone");
    let left: Vec<_> = running.iter().filter(|process| lives(process.pid)).collect();
    assert!(left.is_empty(), "{left:?}");
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
