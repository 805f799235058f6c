//! Calls whose answers are late, too long, misshapen, or never come; and the other calls beside them.

use super::desk::*;
use offhook::{
    mcp::State,
    tool::{ToolError, Toolbox},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// M5: a call ends at its own limit and the server is told which; the late answer is dropped, and no other call waits.
#[tokio::test]
async fn a_slow_tool_costs_its_own_call_and_no_other() {
    let mut desk = Desk::open(&[("slow", faulty("plain", ", defaults: { timeout_ms: 60000 }"))]);
    desk.until("slow", State::Up).await;
    let patient = desk.toolbox();
    desk.limit("slow", Duration::from_millis(1500));
    let hasty = desk.toolbox();
    let spawned = |toolbox: &Arc<Toolbox>, tool: &'static str, arguments: Value| {
        let toolbox = Arc::clone(toolbox);
        tokio::spawn(async move { call(&toolbox, tool, arguments).await })
    };
    let began = Instant::now();
    let slow = spawned(&hasty, "mcp_slow_sleep", json!({ "seconds": 30 }));
    let endless = spawned(&patient, "mcp_slow_hang", json!({}));
    for _ in 0..5 {
        done(call(&patient, "mcp_slow_echo", json!({ "text": "Meanwhile." })).await);
    }
    assert!(!endless.is_finished(), "five calls were answered meanwhile");
    let failure = failed(slow.await.unwrap());
    assert_eq!((failure.kind, failure.retryable), (ToolError::Timeout, true));
    assert!(began.elapsed() >= Duration::from_millis(1400), "but for a moment to tell the server");
    let cancelled = desk.until_events("cancelled", 1).await;
    assert!(cancelled[0]["params"]["requestId"].is_number(), "{cancelled:?}");

    // This one answers when it is told that nobody waits.
    let failure = failed(call(&hasty, "mcp_slow_late", json!({})).await);
    assert_eq!(failure.kind, ToolError::Timeout);
    let cancelled = desk.until_events("cancelled", 2).await;
    assert_ne!(cancelled[0]["params"]["requestId"], cancelled[1]["params"]["requestId"]);
    for text in ["One.", "Two."] {
        assert_eq!(done(call(&patient, "mcp_slow_echo", json!({ "text": text })).await).0, text);
    }
    let status = desk.status("slow");
    assert_eq!((status.state, status.restarts), (State::Up, 0), "{status:?}");
    assert!(desk.metrics().contains("server=\"slow\",status=\"timeout\",tool=\"sleep\"} 1"));
    desk.fleet.stop().await;
}

/// M5: when the telephone call ends, the server is told that nobody waits any more.
#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled() {
    let desk = Desk::open(&[("slow", faulty("plain", ""))]);
    desk.until("slow", State::Up).await;
    let toolbox = desk.toolbox();
    let slow = tokio::spawn(async move { call(&toolbox, "mcp_slow_sleep", json!({ "seconds": 30 })).await });
    desk.until_events("asleep", 1).await;
    slow.abort();
    let cancelled = desk.until_events("cancelled", 1).await;
    assert!(cancelled[0]["params"]["requestId"].is_number(), "{cancelled:?}");
    let counted = "server=\"slow\",status=\"cancelled\",tool=\"sleep\"} 1";
    assert!(desk.metrics().contains(counted), "{}", desk.metrics());
    desk.fleet.stop().await;
}

/// M5: two hundred calls share one server, and no one of them waits for the slowest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_calls_none_waits_for_the_slowest() {
    let desk = Desk::open(&[("busy", faulty("plain", ", defaults: { timeout_ms: 60000 }"))]);
    desk.until("busy", State::Up).await;
    none_waits_for_the_slowest(&desk.toolbox(), "mcp_busy_hang", |index| match index % 3 {
        0 => ("mcp_busy_echo", json!({ "text": "Here." })),
        1 => ("mcp_busy_sum", json!({ "a": index, "b": 1 })),
        _ => ("mcp_busy_big", json!({ "bytes": 5000 })),
    })
    .await;
    desk.fleet.stop().await;
}

/// A server takes so many calls and no more; the next fails at once, and when those before are gone it is well again.
#[tokio::test]
async fn more_calls_than_a_server_may_have_fail_at_once() {
    let desk = Desk::open(&[("full", faulty("plain", ", defaults: { timeout_ms: 60000 }"))]);
    desk.until("full", State::Up).await;
    let toolbox = desk.toolbox();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..=offhook::mcp::CALLS_MAX {
        let toolbox = Arc::clone(&toolbox);
        waiting.spawn(async move { call(&toolbox, "mcp_full_hang", json!({})).await });
    }
    // Nobody answers them, so whoever ends has found no room.
    let one_too_many = tokio::time::timeout(PATIENCE, waiting.join_next()).await.expect("one finds no room");
    let other = call(&toolbox, "mcp_full_echo", json!({ "text": "Here." })).await;
    for outcome in [one_too_many.unwrap().unwrap(), other] {
        let failure = failed(outcome);
        assert_eq!((failure.kind, failure.retryable), (ToolError::Transient, true));
        assert!(failure.message.contains("too much to do"), "{failure:?}");
    }
    waiting.shutdown().await;
    desk.until_events("cancelled", offhook::mcp::CALLS_MAX).await;
    done(call(&toolbox, "mcp_full_echo", json!({ "text": "Here." })).await);
    desk.fleet.stop().await;
}

/// M5: 10 MB are not kept: that call fails at once, for good, and the next ones work.
#[tokio::test]
async fn a_result_of_ten_megabytes_fails_its_own_call() {
    let desk = Desk::open(&[("huge", faulty("huge-result", ", defaults: { timeout_ms: 60000 }"))]);
    desk.until("huge", State::Up).await;
    for _ in 0..2 {
        let failure = failed(desk.call("mcp_huge_huge", json!({})).await);
        assert_eq!((failure.kind, failure.retryable), (ToolError::Permanent, false), "{failure:?}");
        assert!(failure.message.contains("too long"), "{failure:?}");
        assert_eq!(done(desk.call("mcp_huge_echo", json!({ "text": "Here." })).await).0, "Here.");
    }
    assert_eq!(desk.status("huge").restarts, 0);
    desk.fleet.stop().await;
}

/// M17: a result that is not as MCP has it is a failure, or as much of an answer as it is; the server stays.
#[tokio::test]
async fn results_of_the_wrong_shape_are_told_and_do_no_harm() {
    let mut desk = Desk::open(&[("odd", faulty("structured-garbage", ", defaults: { timeout_ms: 60000 }"))]);
    desk.until("odd", State::Up).await;
    for (tool, why) in [
        ("content_string", "content is no list"),
        ("error_string", "isError is neither true nor false"),
        ("no_content", "content is missing"),
        ("null_result", "it is no object"),
    ] {
        let failure = failed(desk.call(&format!("mcp_odd_{tool}"), json!({})).await);
        assert_eq!((failure.kind, failure.retryable), (ToolError::Permanent, false), "{tool}: {failure:?}");
        assert_eq!(failure.message, format!("The tool's answer is not of the form of MCP: {why}."));
    }
    let (message, data) = done(desk.call("mcp_odd_content_unknown", json!({})).await);
    assert_eq!(message, "I've fetched the result.");
    assert_eq!(data["content"][0]["type"], "smell");
    let (message, data) = done(desk.call("mcp_odd_structured_list", json!({})).await);
    assert_eq!((message.as_str(), data), ("1", json!([1])));
    // Neither result nor error is no answer at all.
    desk.limit("odd", Duration::from_millis(400));
    let failure = failed(desk.call("mcp_odd_no_result", json!({})).await);
    assert_eq!(failure.kind, ToolError::Timeout);
    desk.limit("odd", PATIENCE);
    assert_eq!(done(desk.call("mcp_odd_echo", json!({ "text": "Here." })).await).0, "Here.");
    assert_eq!((desk.status("odd").state, desk.status("odd").restarts), (State::Up, 0));
    desk.fleet.stop().await;
}

/// M5: what a server asks of its client is answered: ping, and for everything else that there is no such method.
#[tokio::test]
async fn a_server_that_asks_is_answered() {
    let desk = Desk::open(&[("plain", faulty("plain", ""))]);
    desk.until("plain", State::Up).await;
    let (_, answers) = done(desk.call("mcp_plain_ask", json!({})).await);
    assert_eq!(answers["ping"], json!({ "result": {} }));
    for method in ["roots/list", "sampling/createMessage", "elicitation/create", "nobody/knows"] {
        assert_eq!(answers[method]["error"]["code"], -32601, "{method}: {answers}");
    }
    desk.fleet.stop().await;
}

/// M answer 6: a tool that says that it failed is told in its own words; whether it may pass is the operator's word.
#[tokio::test]
async fn a_tool_that_fails_is_told_in_its_own_words() {
    let retryable = ", tools: [{ name: fail, error_retryable: true }]";
    let desk = Desk::open(&[("a", faulty("plain", "")), ("b", faulty("plain", retryable))]);
    desk.until("a", State::Up).await;
    desk.until("b", State::Up).await;
    for (tool, kind) in [("mcp_a_fail", ToolError::Permanent), ("mcp_b_fail", ToolError::Transient)] {
        let failure = failed(desk.call(tool, json!({})).await);
        assert_eq!((failure.kind, failure.message.as_str()), (kind, "no such customer"));
    }
    desk.fleet.stop().await;
}
