//! What conversations have in common in which an agent asks for a price.

use super::*;
use tempfile::TempDir;
use uuid::Uuid;

/// An engine whose agent asks for a price, says what came of it by a long tone or a short one, and then asks again.
pub async fn engine(folder: &TempDir, more: &str) -> Engine {
    let arguments = json!({ "crop": PRIVATE[0], "mandi": PRIVATE[1], "state": PRIVATE[2] });
    let call = format!("{{ call: {{ tool: enam_mandi_price, arguments: {arguments} }} }}");
    let agents = format!(
        "providers: {{ asks: {{ scripted: {{ script: [{call}, {{ tone: {{ hertz: 440, for: 400ms }} }}, silence] }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [enam_mandi_price] }} }}\n"
    );
    super::engine(folder.path(), &format!(", sessions: {{ context: farm, hosted: india_only }}{more}"), &agents).await
}

/// A conversation in which the client answers the action like this.
pub fn converses(executes: bool, seconds: f64, answers: Value) -> Value {
    json!({
        "method": "Converse", "silence": seconds, "answers": [answers],
        "session": {
            "session_id": Uuid::new_v4().to_string(), "auth_token": TOKEN,
            "requested_capabilities": { "action_execution": executes },
            "audio_profile": { "codec": "AUDIO_CODEC_PCM_8K_16" },
        },
    })
}

pub async fn registered(engine: &Engine) -> Calls {
    registered_with(engine, action_server().await).await
}

pub async fn registered_with(engine: &Engine, (uri, calls): (String, Calls)) -> Calls {
    let answers = ask(engine, json!([registers(&uri)])).await;
    assert_eq!(answers[0]["answer"]["success"], true, "{answers:?}");
    engine.tools_there("farm", PATIENCE).await;
    calls
}

pub fn story(told: &Value) -> Vec<&str> {
    told["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect()
}

pub fn event<'a>(told: &'a Value, name: &str) -> &'a Value {
    told["events"].as_array().unwrap().iter().find(|event| event["event"] == name).unwrap_or(&Value::Null)
}

pub fn counted(engine: &Engine, line: &str) -> bool {
    engine.metrics().text().lines().any(|found| found == line)
}
