//! What the tests of VAM/1.0 need: a client in Python, an action server over HTTP, and an engine.

use crate::vam::python;
use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse as _, routing::post};
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

pub const TOKEN: &str = "token-of-the-test-4711";
pub const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
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
#[allow(dead_code)]
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
    let config = config::load(&path, &|_| None, &provider::catalog()).unwrap_or_else(|problems| panic!("{problems}"));
    Engine::start(Source::Memory, config, Metrics::new("test")).await.unwrap()
}

/// What a client of Python is answered, one after the other; with this certificate it speaks TLS.
pub async fn ask_in_python(engine: &Engine, certificate: Option<&Path>, requests: Value) -> Vec<Value> {
    let address = match certificate {
        None => engine.grpc_addr().unwrap().to_string(),
        Some(_) => format!("localhost:{}", engine.grpc_addr().unwrap().port()),
    };
    let certificate = certificate.map(|file| file.display().to_string());
    let told = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = [address.as_str(), PROTO].into_iter().chain(certificate.as_deref()).collect();
        python::check_lines("grpcio-tools", "check_vam.py", &arguments, &requests.to_string())
    });
    let output = told.await.unwrap();
    assert!(output.status.success(), "{}", python::words_of(&output));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn registers(uri: &str) -> Value {
    json!({ "method": "RegisterActionServer", "token": TOKEN, "request": {
        "server_id": "market", "display_name": "Prices", "endpoint_uri": uri, "version": "1.0", "data_residency": "IN_ONLY",
        "tools": [{ "name": "enam_mandi_price", "is_registry_tool": true }, { "name": "lookup" }, { "name": "missing" }],
    } })
}
