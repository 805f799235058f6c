//! An HTTP endpoint that speaks MCP, and misbehaves when one of its tools is called.

use crate::tied::free_ports;
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::any,
};
use futures_util::stream;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{runtime::Runtime, task::AbortHandle};

pub const TOKEN: &str = "token-of-the-test-4711";
pub const KEY: &str = "key-of-the-test-4712";
const SESSION: &str = "session-of-the-test";
const HUGE: usize = 10_000_000;

/// How it answers.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// Each answer as one event of a stream.
    pub sse: bool,
    /// For everything.
    pub status: Option<u16>,
    /// Where everything is sent on to.
    pub redirect: Option<String>,
    pub hangs: bool,
    /// Quoted in what is refused.
    pub echoes_headers: bool,
}

/// What was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    pub http: Method,
    /// The method of MCP.
    pub method: String,
    pub headers: HeaderMap,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

#[derive(Default)]
struct Shared {
    manner: Mutex<Manner>,
    asked: Mutex<Vec<Asked>>,
}

pub struct StandIn {
    address: SocketAddr,
    shared: Arc<Shared>,
    served_by: Option<ServedBy>,
}

/// Runtime that serves the endpoint.
enum ServedBy {
    /// A runtime of its own, so that it can end with all its connections.
    Own(Runtime),
    /// The test's, whose clock it goes by.
    Here(AbortHandle),
}

impl StandIn {
    pub fn start(manner: Manner) -> Self {
        let shared = Arc::new(Shared { manner: Mutex::new(manner), asked: Mutex::default() });
        // Nothing else takes the port while the endpoint is away.
        let mut stand_in = Self { address: ([127, 0, 0, 1], free_ports(1)).into(), shared, served_by: None };
        stand_in.come_back();
        stand_in
    }

    /// In the runtime of the scene.
    pub fn start_here(manner: Manner) -> Self {
        let shared = Arc::new(Shared { manner: Mutex::new(manner), asked: Mutex::default() });
        let mut stand_in = Self { address: ([127, 0, 0, 1], 0).into(), shared, served_by: None };
        let serving = stand_in.serving();
        stand_in.served_by = Some(ServedBy::Here(tokio::spawn(serving).abort_handle()));
        stand_in
    }

    /// The endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub fn behave(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Ends in the middle of everything.
    pub fn go_away(&mut self) {
        match self.served_by.take() {
            Some(ServedBy::Own(runtime)) => runtime.shutdown_background(),
            Some(ServedBy::Here(task)) => task.abort(),
            None => {}
        }
    }

    /// Is there again, at the same address.
    pub fn come_back(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(self.serving());
        self.served_by = Some(ServedBy::Own(runtime));
    }

    fn serving(&mut self) -> impl Future<Output = ()> + use<> {
        let listener = std::net::TcpListener::bind(self.address).expect("its own address");
        listener.set_nonblocking(true).unwrap();
        self.address = listener.local_addr().unwrap();
        let app = Router::new().route("/mcp", any(answer)).with_state(Arc::clone(&self.shared));
        async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app).await.unwrap();
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.go_away();
    }
}

async fn answer(State(shared): State<Arc<Shared>>, http: Method, headers: HeaderMap, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let is_known = headers.get(header::AUTHORIZATION).is_some_and(|value| value == &format!("Bearer {TOKEN}"));
    let asked = Asked { http: http.clone(), method: method.clone(), headers: headers.clone() };
    shared.asked.lock().unwrap().push(asked);
    let manner = shared.manner.lock().unwrap().clone();
    if manner.hangs {
        std::future::pending::<()>().await;
    }
    if let Some(to) = manner.redirect {
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response();
    }
    if let Some(status) = manner.status {
        let body = if manner.echoes_headers { format!("{headers:?}") } else { "no".to_owned() };
        return (StatusCode::from_u16(status).unwrap(), body).into_response();
    }
    if !is_known {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer realm=\"tools\"")]).into_response();
    }
    match http {
        Method::POST => {}
        Method::DELETE => return StatusCode::NO_CONTENT.into_response(),
        _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
    let has_session = headers.get("mcp-session-id").is_some_and(|value| value == SESSION);
    if method != "initialize" && !has_session {
        return StatusCode::NOT_FOUND.into_response();
    }
    if message.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let result = match method.as_str() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "stand-in", "version": "1.0.0" },
        }),
        "tools/list" => json!({ "tools": tools() }),
        "tools/call" => match called(&message).await {
            Ok(result) => result,
            Err(response) => return response,
        },
        _ => json!({}),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    let mut response = if manner.sse { events([format!("data: {answer}\n\n")]) } else { Json(answer).into_response() };
    if method == "initialize" {
        response.headers_mut().insert("mcp-session-id", SESSION.parse().unwrap());
    }
    response
}

fn events(events: impl IntoIterator<Item = String>) -> Response {
    let events: Vec<Result<String, Infallible>> = events.into_iter().map(Ok).collect();
    let body = Body::from_stream(stream::iter(events));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn tools() -> Vec<Value> {
    let names = ["echo", "sleep", "huge", "huge_stream", "half", "hang", "broken", "refused"];
    let schema =
        json!({ "type": "object", "properties": { "text": { "type": "string" }, "seconds": { "type": "number" } } });
    names.iter().map(|name| json!({ "name": name, "description": "A test.", "inputSchema": schema })).collect()
}

async fn called(message: &Value) -> Result<Value, Response> {
    let arguments = &message["params"]["arguments"];
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    match message["params"]["name"].as_str().unwrap_or_default() {
        "sleep" => {
            tokio::time::sleep(Duration::from_secs_f64(arguments["seconds"].as_f64().unwrap_or(1.0))).await;
            Ok(text("slept"))
        }
        "huge" => Ok(text(&"x".repeat(HUGE))),
        "huge_stream" => {
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": text(&"x".repeat(HUGE)) });
            Err(events([format!("data: {answer}\n\n")]))
        }
        // The stream ends in the middle of the answer.
        "half" => Err(events(["data: {\"jsonrpc\":\"2.0\",".to_owned()])),
        "hang" => std::future::pending().await,
        "broken" => Err((StatusCode::INTERNAL_SERVER_ERROR, "it fell over").into_response()),
        "refused" => Err(StatusCode::UNAUTHORIZED.into_response()),
        _ => Ok(text(arguments["text"].as_str().unwrap_or_default())),
    }
}
