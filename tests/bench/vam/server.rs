//! The action server: one tool, which answers at once.

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// By its name in calls.
pub const TOOL: &str = "mcp_vam_bench_lookup";
pub const NAME: &str = "lookup";

/// Ends when dropped.
pub struct Server {
    pub uri: String,
    asked: Arc<AtomicUsize>,
    _running: DropGuard,
}

impl Server {
    pub async fn start() -> anyhow::Result<Self> {
        let asked = Arc::<AtomicUsize>::default();
        let router = Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&asked));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let uri = format!("http://{}/mcp", listener.local_addr()?);
        let token = CancellationToken::new();
        let served = token.clone().run_until_cancelled_owned(async move { axum::serve(listener, router).await });
        tokio::spawn(served);
        Ok(Self { uri, asked, _running: token.drop_guard() })
    }

    /// How often the tool was called here.
    pub fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }
}

async fn answer(State(asked): State<Arc<AtomicUsize>>, Json(message): Json<Value>) -> Response {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "bench", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{
            "name": NAME,
            "inputSchema": { "type": "object", "properties": { "note": { "type": "string" } } },
        }] }),
        "tools/call" => {
            asked.fetch_add(1, Relaxed);
            json!({ "content": [{ "type": "text", "text": "{\"found\": true}" }] })
        }
        // Notifications are not answered.
        _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
        _ => json!({}),
    };
    Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
}
