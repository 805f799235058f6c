//! Servers that are endpoints on the network.

use super::{
    desk::*,
    kit::{
        built,
        mcp_stand_in::{Asked, KEY, Manner, StandIn, TOKEN},
        tied::free_ports,
    },
};
use offhook::{mcp::State, telemetry::LogCapture, tool::ToolError};
use serde_json::json;
use std::{process::Stdio, time::Duration};

/// The entry of an endpoint; `more` are further keys.
fn entry(url: &str, more: &str) -> String {
    format!(
        "{{ transport: http, url: \"{url}\", bearer_token: {TOKEN}, headers: {{ X-Api-Key: {KEY} }}, \
         restart: {{ backoff_ms: 20 }}{more} }}"
    )
}

fn open(stand_in: &StandIn, more: &str) -> Desk {
    Desk::open(&[("far", entry(&stand_in.url(), more))])
}

/// M1, M34, M answer 1: every request carries token and headers, and after the first the session and the version that were
/// agreed on; answers come as JSON and as streams of events.
#[tokio::test]
async fn an_endpoint_is_spoken_to_as_the_protocol_has_it() {
    for sse in [false, true] {
        let stand_in = StandIn::start(Manner { sse, ..Manner::default() });
        let desk = open(&stand_in, "");
        let status = desk.until("far", State::Up).await;
        assert_eq!((status.transport, status.tools.len()), ("http", 8));
        let (message, _) = done(desk.call("mcp_far_echo", json!({ "text": "From afar." })).await);
        assert_eq!(message, "From afar.", "sse: {sse}");
        desk.fleet.stop().await;
        let asked = stand_in.asked();
        let methods: Vec<&str> =
            asked.iter().map(|asked| asked.method.as_str()).filter(|name| !name.is_empty()).collect();
        assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list", "tools/call"]);
        for (index, asked) in asked.iter().enumerate() {
            assert_eq!(asked.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()), "{asked:?}");
            assert_eq!(asked.header("x-api-key"), Some(KEY), "{asked:?}");
            let later = (index > 0).then_some("session-of-the-test");
            assert_eq!(asked.header("mcp-session-id"), later, "{asked:?}");
            assert_eq!(asked.header("mcp-protocol-version").is_some(), index > 0, "{asked:?}");
            if asked.http == "POST" {
                let accepts = asked.header("accept").unwrap();
                assert!(accepts.contains("application/json") && accepts.contains("text/event-stream"), "{asked:?}");
            }
        }
        let last = asked.last().unwrap();
        assert_eq!(last.http, "DELETE", "the session is given back: {last:?}");
    }
}

/// M5: two hundred calls share one endpoint, and no one of them waits for the slowest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_calls_over_http_none_waits_for_the_slowest() {
    for sse in [false, true] {
        let stand_in = StandIn::start(Manner { sse, ..Manner::default() });
        let desk = open(&stand_in, ", defaults: { timeout_ms: 60000 }");
        desk.until("far", State::Up).await;
        none_waits_for_the_slowest(&desk.toolbox(), "mcp_far_hang", |index| match index % 2 {
            0 => ("mcp_far_echo", json!({ "text": "Here." })),
            _ => ("mcp_far_sleep", json!({ "seconds": 0.05 })),
        })
        .await;
        desk.fleet.stop().await;
    }
}

/// M5: whatever becomes of one call, it ends, in its own way; a call beside it and the next one notice nothing.
#[tokio::test]
async fn a_call_that_an_endpoint_spoils_fails_alone() {
    for sse in [false, true] {
        let stand_in = StandIn::start(Manner { sse, ..Manner::default() });
        let patient = entry(&stand_in.url(), ", defaults: { timeout_ms: 60000 }");
        let hasty = entry(&stand_in.url(), ", defaults: { timeout_ms: 500 }");
        let desk = Desk::open(&[("far", patient), ("hasty", hasty)]);
        desk.until("far", State::Up).await;
        desk.until("hasty", State::Up).await;
        let toolbox = desk.toolbox();
        // Over a stream it cannot be told from an answer that was cut off.
        let huge = if sse { ToolError::Transient } else { ToolError::Permanent };
        let spoilt = [
            ("mcp_far_huge", huge),
            ("mcp_far_huge_stream", ToolError::Transient),
            ("mcp_far_half", ToolError::Transient),
            ("mcp_hasty_hang", ToolError::Timeout),
            ("mcp_far_broken", ToolError::Transient),
            ("mcp_far_refused", ToolError::Auth),
        ];
        for (tool, kind) in spoilt {
            let beside = call(&toolbox, "mcp_far_sleep", json!({ "seconds": 0.3 }));
            let (outcome, beside) = tokio::join!(call(&toolbox, tool, json!({})), beside);
            assert_eq!(failed(outcome).kind, kind, "{tool}, sse: {sse}");
            assert_eq!(done(beside).0, "slept", "beside {tool}, sse: {sse}");
            assert_eq!(done(desk.call("mcp_far_echo", json!({ "text": "Here." })).await).0, "Here.", "after {tool}");
        }
        assert_eq!((desk.status("far").restarts, desk.status("hasty").restarts), (0, 0));
        desk.fleet.stop().await;
    }
}

/// M5, M34: an endpoint that goes away is tried on and on, and is up when it is back; calls meanwhile fail at once.
#[tokio::test]
async fn an_endpoint_that_goes_away_is_up_again_when_it_is_back() {
    let mut stand_in = StandIn::start(Manner::default());
    let desk = open(&stand_in, "");
    desk.until("far", State::Up).await;
    let toolbox = desk.toolbox();
    stand_in.go_away();
    let failure = failed(call(&toolbox, "mcp_far_echo", json!({ "text": "Hello?" })).await);
    assert_eq!((failure.kind, failure.retryable), (ToolError::Transient, true), "{failure:?}");
    // More than the starts in vain that a program has.
    desk.when("far", "tried on and on", |status| status.restarts > 6 && status.state == State::Starting).await;
    let failure = failed(call(&toolbox, "mcp_far_echo", json!({ "text": "Hello?" })).await);
    assert_eq!(failure.kind, ToolError::Transient, "{failure:?}");
    stand_in.come_back();
    desk.until("far", State::Up).await;
    assert_eq!(done(call(&toolbox, "mcp_far_echo", json!({ "text": "Back." })).await).0, "Back.");
    desk.fleet.stop().await;
}

/// M34: an endpoint that refuses, falls over or hangs is not up, says why, and is up once it is well.
#[tokio::test]
async fn an_endpoint_that_refuses_or_hangs_is_tried_until_it_is_well() {
    let bad = [
        (Manner { status: Some(401), ..Manner::default() }, "401"),
        (Manner { status: Some(500), ..Manner::default() }, "500"),
        (Manner { status: Some(404), ..Manner::default() }, "404"),
        (Manner { hangs: true, ..Manner::default() }, "it did not answer in 500 ms"),
    ];
    for (manner, reason) in bad {
        let stand_in = StandIn::start(manner.clone());
        let desk = open(&stand_in, if manner.hangs { ", defaults: { start_timeout_ms: 500 }" } else { "" });
        let status = desk.when("far", "tried twice", |status| status.restarts >= 2).await;
        assert_ne!(status.state, State::Up);
        let why = desk.when("far", "told", |status| status.last_error.is_some()).await.last_error.unwrap();
        assert!(why.contains(reason), "{manner:?}: {why}");
        stand_in.behave(Manner::default());
        desk.until("far", State::Up).await;
        desk.fleet.stop().await;
    }
}

/// M34: a token that has expired is told as what it is, to the model and to those who look; the server stands all the same.
#[tokio::test]
async fn a_server_that_lets_nobody_in_any_more_says_so() {
    let stand_in = StandIn::start(Manner::default());
    let desk = open(&stand_in, "");
    desk.until("far", State::Up).await;
    for status in [401, 403] {
        stand_in.behave(Manner { status: Some(status), ..Manner::default() });
        let failure = failed(desk.call("mcp_far_echo", json!({ "text": "Hello?" })).await);
        assert_eq!((failure.kind, failure.retryable), (ToolError::Auth, false), "{failure:?}");
        assert!(desk.status("far").last_error.is_some_and(|why| why.contains(&status.to_string())));
        stand_in.behave(Manner::default());
        assert_eq!(done(desk.call("mcp_far_echo", json!({ "text": "Back." })).await).0, "Back.");
        assert_eq!(desk.status("far").last_error, None);
    }
    desk.fleet.stop().await;
}

/// M33: a redirect is not followed, so that nobody else sees the token; the secrets are in no error and in no line of the
/// log, though the endpoint repeats them.
#[tokio::test]
async fn secrets_reach_nobody_but_the_endpoint() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let elsewhere = StandIn::start(Manner::default());
    let redirect = Some(elsewhere.url());
    let redirecting = StandIn::start(Manner { redirect, ..Manner::default() });
    let repeating = StandIn::start(Manner { status: Some(418), echoes_headers: true, ..Manner::default() });
    let desk = Desk::open_here(&[
        ("redirecting", entry(&redirecting.url(), "")),
        ("repeating", entry(&repeating.url(), "")),
        ("nobody", entry("http://127.0.0.1:1/mcp", "")),
    ]);
    for server in ["redirecting", "repeating", "nobody"] {
        let status = desk.when(server, "tried twice", |status| status.restarts >= 2).await;
        let why = status.last_error.unwrap();
        for secret in [TOKEN, KEY] {
            assert!(!why.contains(secret), "{server}: {why}");
        }
        println!("{server}: {why}");
    }
    desk.fleet.stop().await;
    assert!(!redirecting.asked().is_empty() && !repeating.asked().is_empty());
    assert_eq!(elsewhere.asked().iter().map(|asked: &Asked| &asked.method).collect::<Vec<_>>(), Vec::<&String>::new());
    // What the library logs goes nowhere (`telemetry::log`).
    for line in capture.lines().iter().filter(|line| !line.contains(" rmcp::")) {
        assert!(![TOKEN, KEY].iter().any(|secret| line.contains(secret)), "{line}");
    }
}

/// M34: somebody else's server over HTTP: listed, called, and told goodbye.
#[tokio::test]
async fn a_server_of_others_is_listed_and_called_over_http() {
    let script = built("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    assert!(script.exists(), "{} is missing; tests/lab/setup.sh all installs it", script.display());
    let port = free_ports(1);
    let mut server = tokio::process::Command::new("node")
        .arg(&script)
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let url = format!("http://127.0.0.1:{port}/mcp");
    // It is not there at once, and is tried until it is.
    let desk = Desk::open(&[("everything", entry(&url, ""))]);
    let status = desk.until("everything", State::Up).await;
    assert!(status.tools.iter().any(|tool| tool.name == "echo"), "{status:?}");
    let (message, _) = done(desk.call("mcp_everything_echo", json!({ "message": "Hello" })).await);
    assert!(message.contains("Hello"), "{message}");
    let (message, _) = done(desk.call("mcp_everything_get_sum", json!({ "a": 2, "b": 40 })).await);
    assert!(message.contains("42"), "{message}");
    tokio::time::timeout(Duration::from_secs(10), desk.fleet.stop()).await.unwrap();
    server.kill().await.unwrap();
}
