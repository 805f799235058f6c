//! Actions that a VAM client runs itself.

use super::*;
use offhook::telemetry::LogCapture;
use tempfile::TempDir;
use uuid::Uuid;

/// An engine whose agent asks for a price, says what came of it by a long tone or a short one, and then asks again.
async fn engine(folder: &TempDir, more: &str) -> Engine {
    let arguments = json!({ "crop": PRIVATE[0], "mandi": PRIVATE[1], "state": PRIVATE[2] });
    let call = format!("{{ call: {{ tool: enam_mandi_price, arguments: {arguments} }} }}");
    let agents = format!(
        "providers: {{ asks: {{ scripted: {{ script: [{call}, {{ tone: {{ hertz: 440, for: 400ms }} }}, silence] }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [enam_mandi_price] }} }}\n"
    );
    super::engine(folder.path(), &format!(", sessions: {{ context: farm, hosted: india_only }}{more}"), &agents).await
}

/// A conversation in which the client answers the action like this.
fn converses(executes: bool, seconds: f64, answers: Value) -> Value {
    json!({
        "method": "Converse", "silence": seconds, "answers": [answers],
        "session": {
            "session_id": Uuid::new_v4().to_string(), "auth_token": TOKEN,
            "requested_capabilities": { "action_execution": executes },
            "audio_profile": { "codec": "AUDIO_CODEC_PCM_8K_16" },
        },
    })
}

async fn registered(engine: &Engine) -> Calls {
    registered_with(engine, action_server().await).await
}

async fn registered_with(engine: &Engine, (uri, calls): (String, Calls)) -> Calls {
    let answers = ask(engine, None, json!([registers(&uri)])).await;
    assert_eq!(answers[0]["answer"]["success"], true, "{answers:?}");
    engine.tools_there("farm", PATIENCE).await;
    calls
}

fn story(told: &Value) -> Vec<&str> {
    told["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect()
}

fn event<'a>(told: &'a Value, name: &str) -> &'a Value {
    told["events"].as_array().unwrap().iter().find(|event| event["event"] == name).unwrap_or(&Value::Null)
}

fn counted(engine: &Engine, line: &str) -> bool {
    engine.metrics().text().lines().any(|found| found == line)
}

/// V2, V4, V6, V7, V8, V20, V22, V25, V answer 16: who negotiated it is sent the action over the stream, and the server is asked by nobody else; what it
/// answers reaches the agent, and nothing of it a log or a metric.
#[tokio::test]
async fn a_client_that_executes_actions_is_asked_over_its_stream() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let folder = TempDir::new().unwrap();
    let engine = engine(&folder, "").await;
    let calls = registered(&engine).await;
    let result = json!({ "content": [{ "type": "text", "text": "{\"modal_price_per_quintal\": 2310}" }] });
    let answers = json!([
        { "status": "ACTION_STATUS_PENDING" },
        { "status": "ACTION_STATUS_SUCCESS", "result": result },
        { "status": "ACTION_STATUS_ERROR", "error_message": "too late" },
    ]);
    let told = ask(&engine, None, json!([converses(true, 3.0, answers)])).await.remove(0);
    assert_eq!(told["init"]["negotiated_capabilities"]["action_execution"], true, "{told}");
    let action = event(&told, "ACTION");
    assert_eq!(action["tool_call"]["tool_name"], "enam_mandi_price", "{told}");
    assert_eq!(
        action["tool_call"]["arguments"],
        json!({ "crop": PRIVATE[0], "mandi": PRIVATE[1], "state": PRIVATE[2] })
    );
    assert_eq!(action["source"], "ACTION_SOURCE_LLM");
    assert_eq!(action["timeout_ms"], 5_000, "V9: {action}");
    assert_eq!(Uuid::parse_str(action["call_id"].as_str().unwrap()).unwrap().get_version_num(), 4);
    assert_eq!(action["turn_id"], event(&told, "LISTENING")["turn_id"]);
    let order = ["IDLE", "LISTENING", "THINKING", "ACTION", "SPEAKING", "audio", "END_OF_TURN"];
    let at = |name: &str| story(&told).iter().position(|found| *found == name);
    let order: Vec<usize> = order.iter().filter_map(|name| at(name)).collect();
    assert!(order.len() >= 7 && order.is_sorted(), "the answer waits for the action: {told}");
    assert!(story(&told).contains(&"SPEAKING") && !story(&told).contains(&"LLM_BACKEND_ERROR"), "{told}");
    assert!(calls.lock().unwrap().is_empty(), "the gateway asks nobody itself");
    assert!(counted(&engine, "offhook_vam_results_dropped_total 1"), "the second answer");
    assert!(counted(&engine, "offhook_vam_action_emission_seconds_count 1"));
    assert!(counted(&engine, "offhook_vam_action_emission_seconds_bucket{le=\"0.05\"} 1"), "V25: within 50 ms");
    assert!(PRIVATE.iter().all(|number| !engine.metrics().text().contains(number)));
    engine.stop().await;
    capture.assert_clean(&PRIVATE);
}

/// V10, V12, V answer 9, V answer 11: what is not answered in time is an error of the stream that ends nothing; answers of no action, of
/// another session and of no form are dropped and counted.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_is_not_answered_times_out_and_the_conversation_goes_on() {
    let folder = TempDir::new().unwrap();
    let engine = engine(&folder, ", action_timeout: 1s").await;
    registered(&engine).await;
    let success = "ACTION_STATUS_SUCCESS";
    let answers = json!([
        "garbage",
        { "status": success, "call_id": Uuid::new_v4().to_string() },
        { "status": success, "session_id": Uuid::new_v4().to_string() },
        { "status": "ACTION_STATUS_PENDING" },
    ]);
    let told = ask(&engine, None, json!([converses(true, 4.0, answers)])).await.remove(0);
    let error = event(&told, "LLM_BACKEND_ERROR");
    assert_eq!((&error["stage"], error["is_fatal"].as_bool()), (&json!("action"), None), "not fatal: {told}");
    assert!(story(&told).contains(&"SPEAKING"), "{told}");
    assert!(counted(&engine, "offhook_vam_results_dropped_total 3"), "{}", engine.metrics().text());
    assert!(counted(&engine, "offhook_vam_actions_timed_out_total 1"));
    engine.stop().await;
}

/// A result that is too large, and an answer that comes when the time is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_ten_megabytes_is_an_action_that_failed_and_the_conversation_goes_on() {
    let folder = TempDir::new().unwrap();
    let engine = engine(&folder, ", action_timeout: 4s").await;
    registered(&engine).await;
    let text = "x".repeat(10 << 20);
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    let answers = json!([{ "status": "ACTION_STATUS_SUCCESS", "result": result }]);
    let told = ask(&engine, None, json!([converses(true, 3.0, answers)])).await.remove(0);
    assert_eq!(told["code"], "OK", "{told}");
    assert!(story(&told).contains(&"SPEAKING"), "the agent is told before the time is over: {told}");
    assert!(!story(&told).contains(&"LLM_BACKEND_ERROR"), "{told}");
    assert!(counted(&engine, "offhook_vam_results_dropped_total 1"));
    engine.stop().await;
}

/// V13: what nobody waits for is marked so, and its silence is no error.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_is_only_sent_off_holds_nothing_up() {
    let folder = TempDir::new().unwrap();
    let engine = engine(&folder, ", action_timeout: 1s }\ntools: { enam_mandi_price: { wait: false }").await;
    registered(&engine).await;
    let told = ask(&engine, None, json!([converses(true, 3.0, json!([]))])).await.remove(0);
    assert_eq!(event(&told, "ACTION")["fire_and_forget"], true, "{told}");
    assert!(story(&told).contains(&"SPEAKING") && !story(&told).contains(&"LLM_BACKEND_ERROR"), "{told}");
    engine.stop().await;
}

/// V answer 1: who did not negotiate it is sent no action; the engine asks the server, as in a telephone call.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_executes_nothing_is_sent_nothing() {
    let folder = TempDir::new().unwrap();
    let engine = engine(&folder, "").await;
    let calls = registered(&engine).await;
    let told = ask(&engine, None, json!([converses(false, 2.5, json!([]))])).await.remove(0);
    assert!(!story(&told).contains(&"ACTION") && story(&told).contains(&"SPEAKING"), "{told}");
    assert_eq!(calls.lock().unwrap().len(), 1);
    engine.stop().await;
}

/// V10, V11: whoever runs the action, that it took too long is told on the stream, and the agent goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_the_engine_runs_times_out_on_the_stream_as_well() {
    let folder = TempDir::new().unwrap();
    let engine = engine(&folder, ", action_timeout: 1s").await;
    let calls = registered_with(&engine, server_that(false).await).await;
    let told = ask(&engine, None, json!([converses(false, 4.0, json!([]))])).await.remove(0);
    let error = event(&told, "LLM_BACKEND_ERROR");
    assert_eq!((&error["stage"], error["is_fatal"].as_bool()), (&json!("action"), None), "not fatal: {told}");
    assert!(story(&told).contains(&"SPEAKING"), "{told}");
    assert_eq!(calls.lock().unwrap().len(), 1);
    assert!(counted(&engine, "offhook_vam_actions_timed_out_total 1"));
    engine.stop().await;
}

/// V15, V answer 5: a session brings an action server along, for its own calls; what it may not bring is named, and the session
/// opens all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_brings_action_servers_for_its_own_calls() {
    let folder = TempDir::new().unwrap();
    let (uri, calls) = action_server().await;
    let port = uri.rsplit(':').next().unwrap().trim_end_matches("/mcp");
    let tool = format!("mcp_vam_127_0_0_1_{port}_lookup");
    let agents = format!(
        "providers: {{ asks: {{ scripted: {{ script: [{{ call: {{ tool: {tool}, arguments: {{ note: hello }} }} }}, silence] }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [{tool}] }} }}\ntools: {{ {tool}: {{ access: public_read }} }}\n"
    );
    let engine = super::engine(folder.path(), ", sessions: { context: farm, hosted: india_only }", &agents).await;
    let bringing = |uris: Value| {
        let mut talk = converses(false, 2.0, json!([]));
        talk["session"]["metadata"] = json!({ "action_servers": uris.to_string() });
        talk
    };
    let hostile =
        json!(["stdio:sh", "file:///etc/passwd", "http://10.0.0.1/mcp", "http://127.0.0.1:9/mcp?key=secret", uri]);
    let told = ask(&engine, None, json!([bringing(hostile), converses(false, 1.0, json!([]))])).await;
    let degraded = told[0]["init"]["degraded_capabilities"].to_string();
    assert_eq!(degraded.matches("action_server_unavailable:").count(), 4, "{}", told[0]);
    assert!(degraded.contains(":10.0.0.1") && !degraded.contains("secret"), "{degraded}");
    assert_eq!(calls.lock().unwrap().len(), 1, "the session that brought it; not the next one: {told:?}");
    assert_eq!(calls.lock().unwrap()[0]["name"], "lookup");
    engine.stop().await;
}
