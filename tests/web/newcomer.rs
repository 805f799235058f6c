//! The way of a newcomer: a command of the README, and what it prints, lead to a call that is seen live in a browser.

use super::{browsed, script};
use crate::web::kit::{python::target, terminal::Terminal, tied::free_ports};
use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

const SOON: Duration = Duration::from_secs(20);
/// What the README says, word for word.
const COMMAND: &str = "make demo KEEP=1";
/// Where the README says that the page is.
const PAGE: &str = "127.0.0.1:15000";

/// What the command needs of a checkout, with a port of the test's own: the README's may be somebody's.
fn checkout(folder: &Path, port: u16) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["Makefile", "tests", "mcp_servers"] {
        symlink(root.join(name), folder.join(name)).expect("the test's own folder");
    }
    fs::create_dir(folder.join("config")).expect("the test's own folder");
    for name in ["attendant.yaml", "aviation_atis.yaml"] {
        let shipped = fs::read_to_string(root.join("config").join(name)).expect("a committed file");
        let moved = shipped.replace(&format!("bind: {PAGE}"), &format!("bind: 127.0.0.1:{port}"));
        fs::write(folder.join("config").join(name), moved).expect("the test's own folder");
    }
}

/// Issue 7: "a newcomer follows the README from nothing to a call seen live on the page". `make pbx` is in `tests/pbx.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_of_the_readme_is_seen_live_in_a_browser_with_what_it_prints() {
    let readme = include_str!("../../README.md");
    for said in [COMMAND, PAGE, "password of `admin`", "*Live* shows the call while it lasts", "*History* keeps it"] {
        assert!(readme.contains(said), "the README does not say {said:?}");
    }
    let folder = tempfile::TempDir::with_prefix("offhook-newcomer-").expect("a temporary directory");
    let port = free_ports(1);
    checkout(folder.path(), port);
    // What cargo builds is built: the program that is tested, in target/debug.
    let env = [("CARGO", "true".to_owned()), ("CARGO_TARGET_DIR", target().display().to_string())];
    let mut terminal = Terminal::start(COMMAND, folder.path(), &env, folder.path().join("said"));
    // Its last words before the call have the address and the password.
    let said = terminal.wait_said("A caller dials in.", SOON).await;
    let page = format!("http://127.0.0.1:{port}");
    assert!(said.contains(&format!("{page}/")), "{said}");
    let password = terminal.password().unwrap_or_else(|| panic!("no password:\n{said}"));

    let mut browser = script("newcomer.mjs", &page, folder.path());
    browsed(browser.env("PASSWORD", password)).await.unwrap_or_else(|why| panic!("{why}\n{}", terminal.said()));

    // The demo has understood its caller, and stays until somebody says Ctrl-C.
    let said = terminal.wait_said("Enter: the caller dials again", SOON).await;
    assert!(said.contains("sentences of the caller's understood      4 of 4"), "{said}");
    terminal.ctrl_c().await;
    terminal.wait_exit(SOON).await;
}
