//! What the tests of VAM/1.0 need: an action server over HTTP, and an engine.

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse as _, routing::post};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use offhook::asterisk::audiosocket::{Codec, Frame};
pub use offhook::{
    config,
    engine::{Engine, Source},
    provider,
    telemetry::Metrics,
    tool::india,
};
pub use serde_json::{Value, json};
pub use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
pub use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};
use tokio::{net::TcpStream, time::interval};
use tokio_util::{codec::Framed, task::AbortOnDropHandle};
use uuid::Uuid;

pub const TOKEN: &str = "token-of-the-test-4711";
/// For what takes a machine under load a moment.
pub const PATIENCE: Duration = Duration::from_secs(40);
/// Shaped like an Aadhaar number, a PAN and a telephone number.
pub const PRIVATE: [&str; 3] = ["234512346789", "ABCDE1234F", "9876543210"];

/// The same, as people and servers spell them.
pub const SPELLED: [&str; 6] =
    ["2345 1234 6789", "2345-1234-6789", "abcde1234f", "98765 43210", "98765-43210", "+91-9876543210"];

/// What an action server was asked, beside its list.
pub type Calls = Arc<Mutex<Vec<Value>>>;

/// An action server with the registry's `enam_mandi_price` and a `lookup` of its own.
pub async fn action_server() -> (String, Calls) {
    server_that(true).await
}

/// One that answers calls, or is silent when it is called.
pub async fn server_that(answers: bool) -> (String, Calls) {
    let (router, calls) = served(answers);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (uri, calls)
}

/// What an action server is. What it says of a PAN repeats it.
pub fn served(answers: bool) -> (Router, Calls) {
    async fn answer(
        State((calls, answers)): State<(Calls, bool)>,
        Json(message): Json<Value>,
    ) -> axum::response::Response {
        let text = json!({ "type": "string" });
        let tools = json!([
            {
                "name": "enam_mandi_price",
                "description": "Tells the price of a crop at a market.",
                "inputSchema": {
                    "type": "object",
                    "properties": { "crop": text, "mandi": text, "state": text },
                    "required": ["mandi", "crop"],
                },
            },
            { "name": "pan_validate", "inputSchema": india::canonical("pan_validate").unwrap().schema },
            { "name": "lookup", "inputSchema": { "type": "object", "properties": { "note": text } } },
        ]);
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "market", "version": "1" },
            }),
            "tools/list" => json!({ "tools": tools }),
            "tools/call" => {
                calls.lock().unwrap().push(message["params"].clone());
                if !answers {
                    std::future::pending::<()>().await;
                }
                if message["params"]["name"] == "pan_validate" {
                    let said = format!("{} is of nobody; call {} or {}", PRIVATE[1], PRIVATE[2], SPELLED.join(", "));
                    json!({ "isError": true, "content": [{ "type": "text", "text": said }] })
                } else {
                    json!({ "content": [{ "type": "text", "text": "{\"modal_price_per_quintal\": 2310}" }] })
                }
            }
            _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
            _ => json!({}),
        };
        Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
    }
    let calls = Calls::default();
    (Router::new().route("/mcp", post(answer)).with_state((Arc::clone(&calls), answers)), calls)
}

/// Until it stands in the metrics.
pub async fn until(engine: &Engine, line: &str) {
    let stands = timeout(PATIENCE, async {
        while !engine.metrics().text().lines().any(|found| found == line) {
            sleep(Duration::from_millis(10)).await;
        }
    });
    stands.await.unwrap_or_else(|_| panic!("no {line} in {}", engine.metrics().text()));
}

/// An engine that serves VAM; `more`: keys of the section `vam`, `agents`: providers and contexts.
pub async fn engine(folder: &Path, more: &str, agents: &str) -> Engine {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let yaml = format!(
        "http: {{ bind: \"127.0.0.1:0\" }}\nmedia: {{ audiosocket: {{ bind: \"127.0.0.1:0\" }} }}\nturns: {{ owner: provider }}\n\
         vam: {{ bind: \"127.0.0.1:0\", tokens: [{TOKEN}], allowed_hosts: [127.0.0.1, 203.0.113.9, market.example]{more} }}\n{agents}"
    );
    let path = folder.join("offhook.yaml");
    std::fs::write(&path, yaml).unwrap();
    let config = config::load(&path, &|_| None, provider::catalog()).unwrap_or_else(|problems| panic!("{problems}"));
    Engine::start(Source::Memory, config, Metrics::new("test")).await.unwrap()
}

pub fn registers(uri: &str) -> Value {
    json!({ "method": "RegisterActionServer", "token": TOKEN, "request": {
        "server_id": "market", "display_name": "Prices", "endpoint_uri": uri, "version": "1.0", "data_residency": "IN_ONLY",
        "tools": [{ "name": "enam_mandi_price", "is_registry_tool": true }, { "name": "lookup" }, { "name": "missing" }],
    } })
}

/// A caller who says nothing; hangs up when dropped.
pub fn telephone(engine: &Engine) -> AbortOnDropHandle<()> {
    let address = engine.audiosocket_addr();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut id = *Uuid::new_v4().as_bytes();
        id[..4].copy_from_slice(&[0x0f, 0xf4, 0x00, 0x01]);
        let (mut says, mut hears) = Framed::new(TcpStream::connect(address).await.unwrap(), Codec).split();
        says.send(Frame::Id(Uuid::from_bytes(id))).await.unwrap();
        let mut clock = interval(Duration::from_millis(20));
        loop {
            tokio::select! {
                _ = clock.tick() => {
                    let silence = Frame::Audio { rate: 8_000, samples: Bytes::from(vec![0; 320]) };
                    if says.send(silence).await.is_err() {
                        return;
                    }
                }
                heard = hears.next() => if heard.is_none() { return },
            }
        }
    }))
}
