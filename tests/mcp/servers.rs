//! The life of a server.

use super::desk::*;
use offhook::{
    mcp::State,
    tool::{ToolError, ToolOutcome},
};
use serde_json::json;

/// M1, M9, M13, M35: a server is started with the engine, its tools are offered under names of their own, and a call
/// finds its way to the server's own tool.
#[tokio::test]
async fn a_server_is_started_and_its_tools_are_called() {
    let desk = Desk::open(&[("plain", faulty("plain", ""))]);
    desk.until("plain", State::Up).await;
    let (registry, _) = desk.registry();
    assert!(registry.has("mcp_plain_echo") && registry.has("mcp_plain_sum"), "{registry:?}");
    let (message, data) = done(desk.call("mcp_plain_echo", json!({ "text": "Good morning." })).await);
    assert_eq!(message, "Good morning.");
    assert_eq!(data, json!({ "text": "Good morning." }));
    desk.fleet.stop().await;
    assert_eq!(desk.events("start").len(), 1);
}

/// M37, M answers 6, 11: who waited for an answer is told at once when the server dies; it is up again after its backoff.
#[tokio::test]
async fn a_server_that_dies_in_a_call_fails_that_call_and_comes_back() {
    let desk = Desk::open(&[("plain", faulty("plain", ", restart: { backoff_ms: 50 }"))]);
    desk.until("plain", State::Up).await;
    let outcome = desk.call("mcp_plain_die", json!({})).await;
    let ToolOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.kind, ToolError::Transient, "{failure:?}");
    let again = desk.when("plain", "up again", |status| status.restarts == 1 && status.state == State::Up).await;
    assert_eq!(again.last_error, None);
    let (message, _) = done(desk.call("mcp_plain_echo", json!({ "text": "Back." })).await);
    assert_eq!(message, "Back.");
    desk.fleet.stop().await;
}
