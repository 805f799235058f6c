//! A web service on 127.0.0.1 that tools call: it notes every request and answers what it is told to.

use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout},
};

/// The longest a test waits for a request that should come.
const PATIENCE: Duration = Duration::from_secs(10);

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub at: Instant,
    pub method: String,
    /// With its query.
    pub path: String,
    pub authorization: String,
    /// Null when it is no JSON.
    pub body: Value,
}

struct State {
    requests: watch::Sender<Vec<Request>>,
    answer: Mutex<(u16, Value)>,
    /// While it is so, requests wait for their answers.
    holds: watch::Sender<bool>,
}

pub struct Service {
    port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Service {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a bound socket").port();
        let answer = Mutex::new((200, json!({ "ok": true })));
        let state = Arc::new(State { requests: watch::Sender::default(), answer, holds: watch::Sender::new(false) });
        let router = axum::Router::new().fallback(note).with_state(Arc::clone(&state));
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves until the test ends");
        });
        Self { port, state, task }
    }

    /// `127.0.0.1:PORT`, for a tenant's `allowed_hosts`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// From now on every answer is this.
    pub fn answers(&self, status: u16, body: Value) {
        *self.answer() = (status, body);
    }

    /// From now on requests wait for their answers, or no longer.
    pub fn holds(&self, holds: bool) {
        self.state.holds.send_replace(holds);
    }

    /// All requests so far, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.state.requests.borrow().clone()
    }

    /// Waits until so many requests have come.
    pub async fn wait_requests(&self, count: usize) -> Vec<Request> {
        let mut requests = self.state.requests.subscribe();
        let waited = timeout(PATIENCE, requests.wait_for(|requests| requests.len() >= count)).await;
        assert!(waited.is_ok(), "not {count} requests: {:?}", self.requests());
        self.requests()
    }

    fn answer(&self) -> MutexGuard<'_, (u16, Value)> {
        self.state.answer.lock().expect("no test panics while it holds the answer")
    }
}

async fn note(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    request: axum::extract::Request,
) -> (axum::http::StatusCode, axum::Json<Value>) {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
    let authorization = head.headers.get("authorization").and_then(|value| value.to_str().ok());
    let request = Request {
        at: Instant::now(),
        method: head.method.to_string(),
        path: head.uri.to_string(),
        authorization: authorization.unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    state.requests.send_modify(|requests| requests.push(request));
    // The sender lives in the state.
    let _ = state.holds.subscribe().wait_for(|holds| !holds).await;
    let (status, body) = state.answer.lock().expect("no test panics while it holds the answer").clone();
    (axum::http::StatusCode::from_u16(status).expect("an HTTP status"), axum::Json(body))
}
