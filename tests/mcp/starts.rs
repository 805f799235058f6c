//! What goes wrong before a server is up.

use super::desk::*;
use crate::kit::processes::{lives, wait_gone};
use offhook::{
    config,
    mcp::{Fleet, State},
    provider,
};
use serde_json::json;
use std::{os::unix::fs::PermissionsExt as _, time::Duration};

/// One that is not started again.
fn once(mode: &str) -> String {
    faulty(mode, ", restart: { enabled: false }")
}

/// The `last_error` of a server that cannot be started, with one entry beside it that can.
async fn why_not(entry: String) -> String {
    let desk = Desk::open(&[("bad", entry), ("good", faulty("plain", ""))]);
    let status = desk.until("bad", State::Down).await;
    assert!(status.tools.is_empty());
    desk.until("good", State::Up).await;
    assert!(desk.registry().0.has("mcp_good_echo"), "another server is not touched");
    desk.fleet.stop().await;
    status.last_error.expect("a server that is down says why")
}

/// M7: without a section `mcp`, with `enabled: false` of all servers or of one, nothing is started or looked for.
#[tokio::test]
async fn nothing_is_started_that_is_not_configured() {
    let off = Desk::open(&[("off", faulty("plain", ", enabled: false")), ("on", faulty("plain", ""))]);
    off.until("on", State::Up).await;
    assert_eq!(off.status("off").state, State::Disabled);
    off.fleet.stop().await;
    assert_eq!(off.events("start").len(), 1, "only the one that is on");

    let folder = tempfile::tempdir().unwrap();
    let base =
        "providers: { a: { scripted: { script: [silence] } } }\ncontexts: { a: { prompt: Test, provider: a } }\n";
    let server = format!("mcp: {{ enabled: false, servers: {{ off: {} }} }}\n", faulty("plain", ""));
    for more in ["", server.as_str()] {
        let path = folder.path().join("offhook.yaml");
        std::fs::write(&path, format!("{base}{more}")).unwrap();
        let config = config::load(&path, &|_| None, provider::catalog()).unwrap();
        let counters = offhook::mcp::McpCounters::new(&prometheus::Registry::new());
        let fleet = Fleet::on(tokio::runtime::Handle::current(), std::sync::Arc::new(counters));
        fleet.start(&config.mcp);
        fleet.replace(&config.mcp).await;
        assert!(fleet.is_empty() && fleet.offers(&config.mcp).is_empty());
        fleet.stop().await;
    }
    assert!(!folder.path().join("faulty.log").exists());
}

/// M35: a program that ends at once is told with its last line; it costs no other server anything.
#[tokio::test]
async fn a_program_that_ends_at_once_is_told_with_its_last_words() {
    let why = why_not(once("exit")).await;
    assert!(why.contains("exit status: 1") && why.contains("the licence has run out"), "{why}");
}

/// M35: what cannot be started is told by its name, whatever the reason.
#[tokio::test]
async fn a_program_that_is_not_there_or_cannot_be_run_is_told_by_name() {
    let missing = why_not("{ command: [no-such-program-anywhere], restart: { enabled: false } }".into()).await;
    assert!(missing.contains("no program \"no-such-program-anywhere\" in PATH"), "{missing}");
    let folder = tempfile::tempdir().unwrap();
    let (plain, folder_gone) = (folder.path().join("plain.sh"), folder.path().join("gone"));
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = why_not(format!("{{ command: [{plain:?}], restart: {{ enabled: false }} }}")).await;
    assert!(refused.contains("plain.sh") && refused.contains("ermission denied"), "{refused}");
    let absent = folder.path().join("absent");
    let absent = why_not(format!("{{ command: [{absent:?}], restart: {{ enabled: false }} }}")).await;
    assert!(absent.contains("cannot be started") && absent.contains("o such file"), "{absent}");
    let interpreter = folder.path().join("interpreter");
    offhook_kit::write_script(&interpreter, "#!/no/such/interpreter\n");
    let interpreter = why_not(format!("{{ command: [{interpreter:?}], restart: {{ enabled: false }} }}")).await;
    assert!(interpreter.contains("cannot be started"), "{interpreter}");

    // The folder that it runs in was there when the file was read.
    std::fs::create_dir(&folder_gone).unwrap();
    let more = format!(", cwd: {folder_gone:?}, restart: {{ backoff_ms: 10, max_restarts: 1 }}");
    let desk = Desk::open(&[("bad", faulty("exit", &more))]);
    std::fs::remove_dir(&folder_gone).unwrap();
    let why = desk.until("bad", State::Down).await.last_error.unwrap();
    assert!(why.contains("cannot be started"), "{why}");
    desk.fleet.stop().await;
}

/// M5: a server that never answers is given up after its own time.
#[tokio::test]
async fn a_server_that_never_answers_is_given_up_after_its_own_time() {
    let more = ", restart: { enabled: false }, defaults: { start_timeout_ms: 300 }";
    let why = why_not(faulty("mute", more)).await;
    assert_eq!(why, "it did not answer in 300 ms");
}

/// M36: words on the standard output are no reason to fail, as long as the messages are among them.
#[tokio::test]
async fn garbage_between_the_messages_does_no_harm() {
    let desk = Desk::open(&[("odd", faulty("garbage", ""))]);
    desk.until("odd", State::Up).await;
    let (message, _) = done(desk.call("mcp_odd_echo", json!({ "text": "All the same." })).await);
    assert_eq!(message, "All the same.");
    desk.fleet.stop().await;
}

/// M36: what prints without end, and never a message, is no server; it is given up by the limit on bytes.
#[tokio::test]
async fn a_program_that_only_makes_noise_is_given_up() {
    let more = ", restart: { enabled: false }, defaults: { start_timeout_ms: 500 }";
    let why = why_not(format!("{{ command: [yes, no protocol]{more} }}")).await;
    assert_eq!(why, "it did not answer in 500 ms");
    let why = why_not(once("megabytes")).await;
    assert!(why.contains("no messages of the protocol"), "{why}");
}

/// A server that closes its output right after its first answer is gone; what watches it does not break, start after
/// start.
#[tokio::test]
async fn a_server_that_closes_its_output_is_started_again_and_then_given_up() {
    let restart = ", restart: { backoff_ms: 10, max_restarts: 6 }";
    let desk = Desk::open(&[("odd", faulty("closes", restart))]);
    let status = desk.until("odd", State::Down).await;
    assert_eq!(status.restarts, 6, "{status:?}");
    let why = status.last_error.unwrap();
    assert!(why.contains("it closed its output"), "{why}");
    desk.fleet.stop().await;
}

/// M answer 1: an old version of the protocol is spoken; one that nobody knows is told, with those that are known.
#[tokio::test]
async fn an_old_protocol_is_spoken_and_an_unknown_one_is_not() {
    let desk = Desk::open(&[("old", faulty("old", ""))]);
    desk.until("old", State::Up).await;
    let (message, _) = done(desk.call("mcp_old_echo", json!({ "text": "Like then." })).await);
    assert_eq!(message, "Like then.");
    desk.fleet.stop().await;
    let why = why_not(once("future")).await;
    assert!(why.contains("version \"2099-01-01\"") && why.contains("2024-11-05"), "{why}");
}

/// M answers 11, 20: after its starts in vain a server is down and has no tools; until then the engine counts them.
#[tokio::test]
async fn a_server_that_ends_again_and_again_is_given_up() {
    let desk = Desk::open(&[("bad", faulty("exit", ", restart: { max_restarts: 3, backoff_ms: 10 }"))]);
    let status = desk.until("bad", State::Down).await;
    assert_eq!((status.restarts, status.tools.len()), (3, 0));
    desk.fleet.stop().await;
    assert_eq!(desk.events("start").len(), 4);
    assert!(desk.metrics().contains("ai_agent_mcp_server_restarts_total{server=\"bad\"} 3"));
    assert!(desk.metrics().contains("ai_agent_mcp_server_up{server=\"bad\"} 0"));
}

/// M answer 11: a server that is down comes back by a test that works, and by a reload; a test that fails changes nothing.
#[tokio::test]
async fn a_server_that_is_down_comes_back_by_a_test_or_a_reload() {
    // Works in a folder where this file is.
    let script = "test -e mended || exit 1; exec python3 \"$0\" plain";
    let entry = format!(
        "{{ command: [sh, -c, '{script}', {:?}], env: {{ FAULTY_LOG: faulty.log }}, restart: {{ enabled: false }} }}",
        support("faulty.py")
    );
    let desk = Desk::open(&[("frail", entry)]);
    desk.until("frail", State::Down).await;
    let server = desk.config.mcp.servers["frail"].clone();
    let report = desk.fleet.test(&server).await.unwrap();
    let why = report.result.unwrap_err();
    assert!(why.contains("exit status: 1"), "{why}");
    assert_eq!(desk.status("frail").state, State::Down);

    let mended = desk.folder.path().join("mended");
    std::fs::write(&mended, "").unwrap();
    let report = desk.fleet.test(&server).await.unwrap();
    assert!(report.result.is_ok_and(|tools| tools.iter().any(|tool| tool.status.name == "echo")));
    desk.until("frail", State::Up).await;

    std::fs::remove_file(&mended).unwrap();
    failed(desk.call("mcp_frail_die", json!({})).await);
    desk.until("frail", State::Down).await;
    std::fs::write(&mended, "").unwrap();
    desk.fleet.replace(&desk.config.mcp).await;
    desk.until("frail", State::Up).await;
    done(desk.call("mcp_frail_echo", json!({ "text": "Back." })).await);
    desk.fleet.stop().await;
}

/// M39: however many reloads come at once, and a stop among them, nothing is started twice and nothing is left behind.
#[tokio::test]
async fn reloads_at_once_and_a_stop_leave_nothing_behind() {
    let desk = Desk::open(&[("plain", faulty("plain", ""))]);
    desk.until("plain", State::Up).await;
    let replace = || desk.fleet.replace(&desk.config.mcp);
    tokio::join!(replace(), replace(), async { desk.fleet.start(&desk.config.mcp) }, replace());
    desk.until("plain", State::Up).await;
    // A server that is ended in the middle of its start is killed, and writes nothing of it.
    let started = desk.events("start");
    for earlier in &started[..started.len() - 1] {
        wait_gone(pid(earlier), PATIENCE).await;
    }
    tokio::join!(replace(), desk.fleet.stop(), replace());
    for start in desk.events("start") {
        wait_gone(pid(&start), PATIENCE).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(desk.fleet.is_empty());
    assert!(desk.events("start").iter().all(|start| !lives(pid(start))));
}
