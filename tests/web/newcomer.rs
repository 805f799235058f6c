//! The way of a newcomer: a command of the README, and what it prints, lead to a call that is seen live in a browser.

use super::{browsed, script};
use crate::web::kit::{
    processes::{descendants, lives},
    terminal::{Browser, Terminal},
    tied::free_ports,
};
use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

const SOON: Duration = Duration::from_secs(20);
/// What the README says, word for word.
const COMMAND: &str = "make demo KEEP=1";
/// Where the README says that the page is.
const PAGE: &str = "127.0.0.1:15000";
/// What the demo prints of its call, in this order.
const STORY: [&str; 17] = [
    "agent   Hello, this is the front desk.",
    "caller  When are you open?",
    "agent   We are open from nine",
    "caller  Are you open on Sunday?",
    "interrupted after",
    "agent   No, on Sundays we are closed.",
    "caller  What is the weather?",
    "agent   One moment, please. Trondheim Værnes information Bravo.",
    "A radio is on beside the caller.",
    "caller  Thank you.",
    "agent   Can I do anything else for you?",
    "caller  Yes.",
    "agent   Then say opening hours",
    "caller  Goodbye.",
    "agent   Thank you for calling. Goodbye!",
    "sentences of the caller's understood      6 of 6",
    "agent_hung_up",
];

/// What the command needs of a checkout, with a port of the test's own: the README's may be somebody's.
fn checkout(folder: &Path, port: u16) {
    let root = offhook_kit::project();
    for name in ["Makefile", "tests", "mcp_servers"] {
        symlink(root.join(name), folder.join(name)).expect("the test's own folder");
    }
    fs::create_dir(folder.join("config")).expect("the test's own folder");
    for name in ["attendant.yaml", "aviation_atis.yaml"] {
        let shipped = fs::read_to_string(root.join("config").join(name)).expect("a committed file");
        let moved = shipped.replace(&format!("bind: {PAGE}"), &format!("bind: 127.0.0.1:{port}"));
        fs::write(folder.join("config").join(name), moved).expect("the test's own folder");
    }
    // What cargo builds is built. Of a program that ends by Ctrl-C, make does not tell the exit code.
    let built = folder.join("target/debug");
    fs::create_dir_all(&built).expect("the test's own folder");
    let program = offhook_kit::program();
    let told = format!(
        "#!/bin/sh\ntrap : INT\n'{}' \"$@\"\necho $? > '{}'\n",
        program.display(),
        folder.join("code").display()
    );
    offhook_kit::write_script(&built.join("offhook"), &told);
}

/// Issue 7: "a newcomer follows the README from nothing to a call seen live on the page". `make pbx` is in `tests/pbx.rs`.
///
/// The call is one in which everything is understood, a tool runs, and its answer is spoken. It is seen live and then in the
/// history, by a browser and by a program; the demo stays up for another one, and Ctrl-C leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_of_the_readme_is_seen_live_in_a_browser_with_what_it_prints() {
    let readme = include_str!("../../README.md");
    for said in [COMMAND, PAGE, "password of `admin`", "*Live* shows the call while it lasts", "*History* keeps it"] {
        assert!(readme.contains(said), "the README does not say {said:?}");
    }
    let folder = tempfile::TempDir::with_prefix("offhook-newcomer-").expect("a temporary directory");
    let port = free_ports(1);
    checkout(folder.path(), port);
    let built = folder.path().join("target").display().to_string();
    let env = [("CARGO", "true".to_owned()), ("CARGO_TARGET_DIR", built)];
    let mut terminal = Terminal::start(COMMAND, folder.path(), &env, folder.path().join("said"));
    // Its last words before the call have the address and the password.
    let said = terminal.wait_said("A caller dials in.", SOON).await;
    let page = format!("http://127.0.0.1:{port}");
    assert!(said.contains(&format!("{page}/")), "{said}");
    let password = terminal.password().unwrap_or_else(|| panic!("no password:\n{said}"));

    let mut newcomer = script("newcomer.mjs", &page, folder.path());
    newcomer.env("PASSWORD", &password);
    let program = async {
        let program = Browser::log_in(&page, &password).await;
        let call = program.wait_live(SOON).await;
        assert_eq!((&call["context"], &call["provider"]), (&"reception".into(), &"attendant".into()));
        let id = call["id"].as_str().expect("an id").to_owned();
        let live = program.text("/").await;
        assert!(live.contains(&id) && live.contains("reception"), "{live}");
        (program, id)
    };
    let (seen, (program, id)) = tokio::join!(browsed(&mut newcomer), program);
    seen.unwrap_or_else(|why| panic!("{why}\n{}", terminal.said()));

    // The demo stays until somebody says Ctrl-C.
    let said = terminal.wait_said("Enter: the caller dials again", SOON).await;
    let record = program.wait_record(&id, SOON).await;
    let mut rest = &*said;
    for part in STORY {
        let found = rest.split_once(part);
        // The record has what was understood of each sentence.
        (_, rest) =
            found.unwrap_or_else(|| panic!("{part:?} is missing, or not in its place:\n{said}\n{}", record["entries"]));
    }
    // Beside the words with which they were called.
    for tool in ["mcp_aviation_atis", "hangup_call"] {
        assert_eq!(said.matches(&format!("agent   [{tool}: done]")).count(), 1, "{tool}:\n{said}");
    }
    assert_eq!(record["reason"]["label"], "agent_hung_up");
    assert!(record["turns"].as_array().is_some_and(|turns| turns.len() >= 3), "{record}");
    let words = record["entries"].to_string().to_lowercase();
    assert!(words.contains("this is the front desk") && words.contains("when are you open"), "{words}");
    assert!(program.text("/history").await.contains(&id));
    assert!(folder.path().join("target/demo/records/calls.sqlite3").exists());

    // Another look, at another call.
    terminal.press("\n").await;
    let again = program.wait_live(SOON).await;
    assert_ne!(again["id"], id.as_str());
    let running = descendants(terminal.pid());
    assert!(running.iter().any(|process| process.command.contains("aviation_atis")), "{running:?}");
    terminal.ctrl_c().await;
    terminal.wait_exit(SOON).await;
    let code = fs::read_to_string(folder.path().join("code")).expect("the program has ended");
    assert_eq!(code.trim(), "0", "{}", terminal.said());
    assert!(reqwest::get(&page).await.is_err(), "the page is gone");
    let left: Vec<_> = running.iter().filter(|process| lives(process.pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}
