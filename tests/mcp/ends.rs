//! How servers end: by themselves, in the middle of something, and when they are told to.

use super::desk::*;
use crate::kit::processes::{lives, wait_gone};
use jiff::Timestamp;
use offhook::{mcp::State, telemetry::LogCapture, tool::ToolError};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::Instant;

/// M answers 6, 11: whoever waits for a server that dies is told at once, and nothing is asked twice.
#[tokio::test]
async fn whoever_waits_for_a_server_that_dies_is_told_at_once() {
    let more = ", restart: { backoff_ms: 10 }, defaults: { timeout_ms: 600000 }";
    let desk = Desk::open(&[("plain", faulty("plain", more))]);
    desk.until("plain", State::Up).await;
    let toolbox = desk.toolbox();
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let toolbox = Arc::clone(&toolbox);
            tokio::spawn(async move { call(&toolbox, "mcp_plain_hang", json!({})).await })
        })
        .collect();
    done(call(&toolbox, "mcp_plain_echo", json!({ "text": "Here." })).await);
    failed(call(&toolbox, "mcp_plain_die", json!({})).await);
    for waiting in waiting {
        let outcome = tokio::time::timeout(PATIENCE, waiting).await.expect("ten minutes are not waited for").unwrap();
        let failure = failed(outcome);
        assert_eq!((failure.kind, failure.retryable), (ToolError::Transient, true));
    }
    desk.when("plain", "up again", |status| status.restarts == 1 && status.state == State::Up).await;
    done(call(&toolbox, "mcp_plain_echo", json!({ "text": "Back." })).await);
    desk.fleet.stop().await;
    assert_eq!(desk.events("start").len(), 2);
}

/// M answer 6: a server that is down is not waited for.
#[tokio::test]
async fn a_server_that_is_down_answers_at_once() {
    let more = ", restart: { enabled: false }, defaults: { timeout_ms: 600000 }";
    let desk = Desk::open(&[("plain", faulty("plain", more))]);
    desk.until("plain", State::Up).await;
    let toolbox = desk.toolbox();
    failed(call(&toolbox, "mcp_plain_die", json!({})).await);
    desk.until("plain", State::Down).await;
    let asked = call(&toolbox, "mcp_plain_echo", json!({ "text": "Hello?" }));
    let failure = failed(tokio::time::timeout(PATIENCE, asked).await.expect("ten minutes are not waited for"));
    assert_eq!((failure.kind, failure.retryable), (ToolError::Transient, true));
    assert!(desk.metrics().contains("server=\"plain\",status=\"unavailable\",tool=\"echo\"} 1"));
    assert!(desk.metrics().contains("ai_agent_mcp_server_up{server=\"plain\"} 0"));
    desk.fleet.stop().await;
}

/// M37: a server that ends every second is started again each time, and works in between.
#[tokio::test]
async fn a_server_that_ends_every_second_works_in_between() {
    let more = ", restart: { backoff_ms: 10, max_restarts: 1000 }";
    let desk = Desk::open(&[("frail", faulty("exit-every-second", more)), ("good", faulty("plain", ""))]);
    desk.until("good", State::Up).await;
    for restarts in 0..3 {
        desk.when("frail", "up again", |status| status.restarts >= restarts && status.state == State::Up).await;
        done(desk.call("mcp_good_echo", json!({ "text": "Here." })).await);
        // It may be gone before it is asked.
        let _ = call(&desk.toolbox(), "mcp_frail_echo", json!({ "text": "Here?" })).await;
    }
    assert_eq!(desk.status("good").restarts, 0);
    desk.fleet.stop().await;
}

/// M37: a server that does not read any more is found out when a call gets no answer, and started again.
#[tokio::test]
async fn a_server_that_hears_nothing_is_started_again() {
    let more = ", restart: { backoff_ms: 10 }, defaults: { timeout_ms: 60000 }";
    let mut desk = Desk::open(&[("deaf", faulty("plain", more))]);
    desk.until("deaf", State::Up).await;
    done(desk.call("mcp_deaf_deafen", json!({})).await);
    desk.limit("deaf", Duration::from_millis(300));
    let failure = failed(desk.call("mcp_deaf_echo", json!({ "text": "Hello?" })).await);
    assert_eq!(failure.kind, ToolError::Timeout);
    desk.limit("deaf", PATIENCE);
    desk.when("deaf", "up again", |status| status.restarts == 1 && status.state == State::Up).await;
    done(desk.call("mcp_deaf_echo", json!({ "text": "Hello." })).await);
    desk.fleet.stop().await;
}

/// M38, M answer 15: a server whose input is closed ends by itself, and is not waited for any longer.
#[tokio::test]
async fn a_server_that_behaves_well_is_stopped_quickly_and_hears_no_signal() {
    let launcher = format!(
        "{{ command: [sh, -c, 'python3 \"$0\" plain; exit 0', {:?}], env: {{ FAULTY_LOG: faulty.log }} }}",
        support("faulty.py")
    );
    // A server that gets no processor for two seconds is sent the signal: one stop without it is enough.
    for left in (0..5).rev() {
        let desk = Desk::open(&[("plain", faulty("plain", "")), ("launched", launcher.clone())]);
        desk.until("plain", State::Up).await;
        desk.until("launched", State::Up).await;
        let began = Instant::now();
        desk.fleet.stop().await;
        let took = began.elapsed();
        println!("stopped in {took:?}");
        for start in desk.events("start") {
            wait_gone(pid(&start), PATIENCE).await;
        }
        if took < Duration::from_secs(2) && desk.events("eof").len() == 2 {
            return;
        }
        assert!(left > 0, "a signal was waited for: {took:?}, {:?}", desk.log());
    }
}

/// M38, M answer 15: input closed, two seconds, SIGTERM, three seconds, SIGKILL: to a server, and to one that a launcher
/// started.
#[tokio::test]
async fn a_stubborn_server_is_asked_and_then_ended() {
    let launched = "trap \"\" TERM; python3 \"$0\" stubborn; exit 0";
    let launched = format!(
        "{{ command: [sh, -c, '{launched}', {:?}], env: {{ FAULTY_LOG: launched.log }} }}",
        support("faulty.py")
    );
    let desk = Desk::open(&[("stubborn", faulty("stubborn", "")), ("launched", launched)]);
    desk.until("stubborn", State::Up).await;
    desk.until("launched", State::Up).await;
    // By the clock that the server writes into its log.
    let (began, asked) = (Instant::now(), Timestamp::now().as_millisecond() as f64 / 1e3);
    desk.fleet.stop().await;
    let took = began.elapsed();
    assert!((Duration::from_secs(5)..PATIENCE).contains(&took), "{took:?}");
    assert_eq!(desk.events("eof").len(), 1, "its input was closed");
    let gap = desk.events("sigterm")[0]["at"].as_f64().unwrap() - asked;
    assert!((1.9..took.as_secs_f64()).contains(&gap), "SIGTERM came {gap} s after it was told to end");
    let launched = std::fs::read_to_string(desk.folder.path().join("launched.log")).unwrap();
    let launched: Value = serde_json::from_str(launched.lines().next().unwrap()).unwrap();
    for server in [pid(&desk.events("start")[0]), pid(&launched)] {
        wait_gone(server, PATIENCE).await;
    }
}

/// M38, M answer 15: what a server started goes with it, whether it is stopped or dies.
#[tokio::test]
async fn no_grandchild_is_left() {
    let desk = Desk::open(&[("family", faulty("orphan", ", restart: { backoff_ms: 10 }"))]);
    desk.until("family", State::Up).await;
    let orphan = |events: &[Value]| process_in(events.last().unwrap(), "orphan");
    let first = orphan(&desk.events("orphan"));
    assert!(lives(first));
    failed(desk.call("mcp_family_die", json!({})).await);
    wait_gone(first, PATIENCE).await;
    desk.when("family", "up again", |status| status.restarts == 1 && status.state == State::Up).await;
    let second = orphan(&desk.until_events("orphan", 2).await);
    assert!(lives(second));
    desk.fleet.stop().await;
    wait_gone(second, PATIENCE).await;
}

/// M38: whoever gives all up at once leaves no program behind.
#[tokio::test]
async fn an_engine_that_is_dropped_leaves_no_program_behind() {
    let desk = Desk::open(&[("plain", faulty("plain", "")), ("mute", faulty("mute", ""))]);
    desk.until("plain", State::Up).await;
    let started = desk.until_events("start", 2).await;
    drop(desk.fleet);
    for start in started {
        wait_gone(pid(&start), PATIENCE).await;
    }
}

/// M32, M answer 14: a server's environment is four variables of offhook's and its own `env`, which may replace them.
#[tokio::test]
async fn a_server_sees_four_variables_and_its_own() {
    // What is called python3 may be a script that adds its own.
    let entry = format!(
        "{{ command: [sh, -c, 'cat /proc/$$/environ > seen; exec python3 \"$0\" plain', {:?}], \
         env: {{ FAULTY_LOG: faulty.log, API_KEY: key-of-the-test, TZ: Europe/Oslo }} }}",
        support("faulty.py")
    );
    let desk = Desk::open(&[("plain", entry)]);
    desk.until("plain", State::Up).await;
    let environ = std::fs::read_to_string(desk.folder.path().join("seen")).unwrap();
    let pairs: Vec<(&str, &str)> =
        environ.split('\0').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap()).collect();
    let names: BTreeSet<&str> = pairs.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), pairs.len());
    let allowed = BTreeSet::from(["PATH", "HOME", "LANG", "TZ", "FAULTY_LOG", "API_KEY"]);
    assert!(names.is_subset(&allowed), "{names:?}");
    assert!(names.is_superset(&BTreeSet::from(["PATH", "TZ", "FAULTY_LOG", "API_KEY"])), "{names:?}");
    let value = |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    assert_eq!(value("API_KEY"), Some("key-of-the-test"));
    assert_eq!(value("TZ"), Some("Europe/Oslo"));
    assert_eq!(value("PATH"), std::env::var("PATH").ok().as_deref());
    let is_more = |(name, _): (String, String)| !allowed.contains(name.as_str());
    assert!(std::env::vars().any(is_more), "there is more that it could have seen");
    desk.fleet.stop().await;
}

/// M33, M answer 16: a secret that a server prints reaches neither the log nor the status.
#[tokio::test]
async fn a_secret_that_a_server_prints_is_masked() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let secret = "hunter2-of-the-test";
    let talkative = format!(
        "{{ command: [python3, {:?}, stderr-secret], env: {{ SECRET_VALUE: {secret} }} }}",
        support("faulty.py")
    );
    let dying = format!(
        "{{ command: [sh, -c, 'echo no access with $TOKEN >&2; echo {{$TOKEN; exit 1'], env: {{ TOKEN: {secret} }}, \
         restart: {{ enabled: false }} }}"
    );
    let desk = Desk::open_here(&[("talkative", talkative), ("dying", dying)]);
    desk.until("talkative", State::Up).await;
    let why = desk.until("dying", State::Down).await.last_error.unwrap();
    assert!(why.ends_with("its last line: no access with ***"), "{why}");
    let until = Instant::now() + PATIENCE;
    while !capture.lines().iter().any(|line| line.contains("connecting with ***")) {
        assert!(Instant::now() < until, "what it prints is logged");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    desk.fleet.stop().await;
    // What the library logs goes nowhere (`telemetry::log`).
    let own = |line: &&String| !line.contains(" rmcp::");
    assert!(capture.lines().iter().filter(own).all(|line| !line.contains(secret)), "{:?}", capture.leaks(&[secret]));
}

/// M36, M answer 16: floods on either output leave a server at work; twenty lines a second of it are logged.
#[tokio::test]
async fn a_flood_is_read_slowly_logged_rarely_and_holds_up_nothing() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let began = Instant::now();
    let desk = Desk::open_here(&[("loud", faulty("stderr-flood", "")), ("noisy", faulty("noise", ""))]);
    desk.until("loud", State::Up).await;
    desk.until("noisy", State::Up).await;
    let toolbox = desk.toolbox();
    let has_told = |server: &str| {
        let told = |line: &String| line.contains("printed more lines than are logged") && line.contains(server);
        capture.lines().iter().any(told)
    };
    while !(has_told("server=\"loud\"") && has_told("server=\"noisy\"")) {
        assert!(began.elapsed() < PATIENCE, "what is left out is told");
        for tool in ["mcp_loud_echo", "mcp_noisy_echo"] {
            assert_eq!(done(call(&toolbox, tool, json!({ "text": "Here." })).await).0, "Here.");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    desk.fleet.stop().await;
    let lines = capture.lines();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    let most = 20 * (began.elapsed().as_secs() as usize + 2);
    for text in ["something happened, and something else", "no JSON at all, only words"] {
        assert!((20..=most).contains(&count(text)), "{text}: {} lines, {most} at most", count(text));
    }
}
