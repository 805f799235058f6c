//! An action server whose tools change when it is registered and in use.

use super::*;
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::post,
};
use tempfile::TempDir;
use uuid::Uuid;

const PRICE: &str = "enam_mandi_price";
const LOOKUP: &str = "mcp_vam_market_lookup";

/// The tools of a server before and after they have changed: one of the registry that does not keep to it any more, and one of its
/// own that asks for more.
fn tools(has_changed: bool) -> Value {
    let mut price = india::canonical(PRICE).unwrap().schema.clone();
    let mut lookup = json!({ "type": "object", "properties": { "note": { "type": "string" } } });
    if has_changed {
        price["required"] = json!(["crop", "mandi", "state"]);
        lookup["properties"]["place"] = json!({ "type": "string" });
        lookup["required"] = json!(["place"]);
    }
    json!([{ "name": PRICE, "inputSchema": price }, { "name": "lookup", "inputSchema": lookup }])
}

/// Its tools change while `lookup` runs, and it says so before it answers. The names of what it was called for.
async fn server() -> (String, Arc<Mutex<Vec<String>>>) {
    async fn answer(State(calls): State<Arc<Mutex<Vec<String>>>>, Json(message): Json<Value>) -> Response {
        let has_changed = !calls.lock().unwrap().is_empty();
        let whole = |result: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "market", "version": "1" },
            }),
            "tools/list" => json!({ "tools": tools(has_changed) }),
            "tools/call" => {
                calls.lock().unwrap().push(message["params"]["name"].as_str().unwrap().to_owned());
                let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                let answer = whole(json!({ "content": [{ "type": "text", "text": "{\"found\": true}" }] }));
                let events = format!("data: {changed}\n\ndata: {answer}\n\n");
                return ([(CONTENT_TYPE, "text/event-stream")], events).into_response();
            }
            _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
            _ => json!({}),
        };
        Json(whole(result)).into_response()
    }
    let calls = Arc::<Mutex<Vec<String>>>::default();
    let router = Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&calls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (uri, calls)
}

/// A session whose engine runs its actions.
fn converses() -> Value {
    json!({ "method": "Converse", "silence": 5, "session": {
        "session_id": Uuid::new_v4().to_string(), "auth_token": TOKEN,
        "audio_profile": { "codec": "AUDIO_CODEC_PCM_8K_16" },
    } })
}

/// V17: a call keeps the tools that it began with. The next one has them as their server tells them by then: a tool of the registry
/// that does not conform any more is in no new call, and one of the server's own is held to its new schema. Whoever registers
/// anew is told by name what is rejected.
#[test]
fn tools_that_change_are_as_they_are_then_in_the_next_session() {
    virtual_time::run(|| async {
        let call = |tool: &str, arguments: Value| format!("{{ call: {{ tool: {tool}, arguments: {arguments} }} }}");
        let price = call(PRICE, json!({ "crop": "wheat", "mandi": "Azadpur" }));
        let lookup = call(LOOKUP, json!({ "note": "hello" }));
        let agents = format!(
            "providers: {{ asks: {{ scripted: {{ script: [{lookup}, {{ tone: {{ hertz: 440, for: 2s }} }}, {price}, silence] }} }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [{PRICE}, {LOOKUP}] }} }}\n\
         tools: {{ {LOOKUP}: {{ access: public_read }} }}\n"
        );
        let folder = TempDir::new().unwrap();
        let engine = super::engine(folder.path(), ", sessions: { context: farm, hosted: india_only }", &agents).await;
        let (uri, calls) = server().await;
        let registered = ask(&engine, json!([registers(&uri)])).await.remove(0);
        assert_eq!(registered["answer"]["registered_tools"], json!([PRICE, "lookup"]), "{registered}");
        engine.tools_there("farm", PATIENCE).await;

        ask(&engine, json!([converses()])).await;
        assert_eq!(*calls.lock().unwrap(), ["lookup", PRICE], "the call in which they changed");
        let told = ask(&engine, json!([converses()])).await.remove(0);
        assert_eq!(calls.lock().unwrap().len(), 2, "the next call sends neither: {told}");
        let counted = |outcome: &str, tool: &str| {
            let line = format!("offhook_tool_calls_total{{outcome=\"{outcome}\",tool=\"{tool}\"}} 1");
            assert!(engine.metrics().text().contains(&line), "no {line} in {}", engine.metrics().text());
        };
        counted("done", LOOKUP);
        counted("validation", LOOKUP);
        counted("done", PRICE);

        let again = ask(&engine, json!([registers(&uri)])).await.remove(0);
        assert_eq!(again["answer"]["registered_tools"], json!(["lookup"]), "{again}");
        assert_eq!(again["answer"]["rejected_tools"], json!([PRICE, "missing"]));
        engine.stop().await;
    });
}
