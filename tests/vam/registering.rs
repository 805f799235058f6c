//! Action servers that register, and a telephone call that runs what they brought.

use super::*;
use offhook::telemetry::LogCapture;
use tempfile::TempDir;

/// An agent that asks for the price of what looks like people's numbers.
async fn engine(folder: &Path, more: &str) -> Engine {
    let arguments = json!({ "crop": PRIVATE[0], "mandi": PRIVATE[1], "state": PRIVATE[2] });
    let agents = format!(
        "providers: {{ asks: {{ scripted: {{ script: [{{ call: {{ tool: enam_mandi_price, arguments: {arguments} }} }}, silence] }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [enam_mandi_price], audiosocket_id: \"0ff40001\" }} }}\n"
    );
    super::engine(folder, more, &agents).await
}

/// V17: what servers are held to is what was published, to the letter, for each of its tools and for no other.
#[test]
fn the_registry_has_the_schemas_that_were_published() {
    let published = include_str!("../fixtures/vam/india_tool_registry.json");
    let published: Value = serde_json::from_str(published).unwrap();
    let tools = published["tools"].as_object().unwrap();
    let mut names: Vec<&str> = tools.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(india::keys().collect::<Vec<_>>(), names);
    for (name, tool) in tools {
        assert_eq!(india::canonical(name).unwrap().schema, tool["inputSchema"], "{name}");
    }
}

/// V16: after a restart an agent has the tools of whoever had registered before, without another word of theirs.
#[test]
fn a_telephone_call_after_a_restart_runs_a_tool_that_was_registered_before() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (first, (uri, calls)) = (engine(folder.path(), "").await, action_server().await);
        assert_eq!(ask(&first, json!([registers(&uri)])).await[0]["answer"]["success"], true);
        first.stop().await;
        assert!(calls.lock().unwrap().is_empty());
        let second = engine(folder.path(), "").await;
        second.tools_there("farm", PATIENCE).await;
        let caller = telephone(&second);
        until(&second, "offhook_tool_calls_total{outcome=\"done\",tool=\"enam_mandi_price\"} 1").await;
        assert_eq!(calls.lock().unwrap()[0]["name"], "enam_mandi_price");
        drop(caller);
        second.stop().await;
    });
}

/// V21, V answer 18: a tool of high sensitivity of a server that the operator has not vouched for is rejected by name, and no call
/// has it; the server's other tools are there.
#[test]
fn a_server_that_nobody_vouches_for_gets_no_tool_of_high_sensitivity() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, (uri, _)) = (engine(folder.path(), "").await, action_server().await);
        let mut registration = registers(&uri);
        registration["request"]["tools"] = json!([
            { "name": "pan_validate", "is_registry_tool": true }, { "name": "enam_mandi_price", "is_registry_tool": true },
        ]);
        let answer = &ask(&engine, json!([registration])).await[0]["answer"];
        assert_eq!(answer["registered_tools"], json!(["enam_mandi_price"]), "{answer}");
        assert_eq!(answer["rejected_tools"], json!(["pan_validate"]));
        assert!(answer["message"].as_str().unwrap().contains("vam.action_servers.market.high_sensitivity"), "{answer}");
        engine.tools_there("farm", PATIENCE).await;
        engine.stop().await;
    });
}

/// V5, V14, V20, V44: an action server registers over the wire, and a telephone call runs its tool, with the arguments as
/// they are; nothing of them is in anything that the engine writes.
#[test]
fn a_telephone_call_runs_a_tool_that_was_registered_by_grpc() {
    virtual_time::run(|| async {
        let capture = LogCapture::new();
        let _guard = capture.start_as_logged();
        let folder = TempDir::new().unwrap();
        let (engine, (uri, calls)) = (engine(folder.path(), "").await, action_server().await);
        let answers = ask(&engine, json!([registers(&uri)])).await;
        assert_eq!(answers[0]["answer"]["registered_tools"], json!(["enam_mandi_price", "lookup"]), "{answers:?}");
        assert_eq!(answers[0]["answer"]["rejected_tools"], json!(["missing"]));
        engine.tools_there("farm", PATIENCE).await;

        let caller = telephone(&engine);
        let asked = timeout(PATIENCE, async {
            while calls.lock().unwrap().is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
            calls.lock().unwrap()[0].clone()
        });
        let asked = asked.await.expect("the call runs its tool");
        assert_eq!(asked["name"], "enam_mandi_price");
        assert_eq!(asked["arguments"], json!({ "crop": PRIVATE[0], "mandi": PRIVATE[1], "state": PRIVATE[2] }));
        drop(caller);
        let metrics = engine.metrics().text();
        assert!(metrics.contains("offhook_vam_action_servers 1"), "{metrics}");
        assert!(PRIVATE.iter().all(|number| !metrics.contains(number)));
        engine.stop().await;
        let kept = std::fs::read_to_string(folder.path().join("action-servers.json")).unwrap();
        assert!(PRIVATE.iter().all(|number| !kept.contains(number)));
        capture.assert_clean(&PRIVATE);
    });
}

/// V10: a telephone call has no stream that could be told, so the log of the call is, in the same words.
#[test]
fn an_action_of_a_telephone_call_that_times_out_is_told_in_the_log() {
    virtual_time::run(|| async {
        let capture = LogCapture::new();
        let _guard = capture.start_as_logged();
        let folder = TempDir::new().unwrap();
        let (engine, (uri, calls)) = (engine(folder.path(), ", action_timeout: 1s").await, server_that(false).await);
        ask(&engine, json!([registers(&uri)])).await;
        engine.tools_there("farm", PATIENCE).await;
        let caller = telephone(&engine);
        let told = timeout(PATIENCE, async {
            while !capture.lines().iter().any(|line| line.contains("an action timed out")) {
                sleep(Duration::from_millis(10)).await;
            }
        });
        told.await.expect("the log tells it");
        let lines = capture.lines();
        let line = lines.iter().find(|line| line.contains("an action timed out")).unwrap();
        for word in
            ["WARN", "STREAM_ERROR_CODE_LLM_BACKEND_ERROR", "stage=\"action\"", "is_fatal=false", "enam_mandi_price"]
        {
            assert!(line.contains(word), "{word} is not in {line}");
        }
        assert_eq!(calls.lock().unwrap().len(), 1);
        assert!(engine.metrics().text().contains("offhook_vam_actions_timed_out_total 1"));
        drop(caller);
        engine.stop().await;
        capture.assert_clean(&PRIVATE);
    });
}
