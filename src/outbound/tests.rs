use super::*;
use crate::{telemetry::LogCapture, tool::ToolError};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use prometheus::Registry;
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Mutex,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

mod addresses;
mod answers;
mod attempts;

/// What a service was asked: method, path, headers, body.
type Asked = (String, String, HeaderMap, Bytes);

/// A service on loopback that answers in the order it was told, then with 200 and `{"ok":true}`.
struct Service {
    address: SocketAddr,
    state: Arc<Told>,
}

#[derive(Default)]
struct Told {
    answers: Mutex<VecDeque<Response>>,
    asked: Mutex<Vec<Asked>>,
}

impl Service {
    async fn on(address: Ipv4Addr, answers: impl IntoIterator<Item = Response>) -> Self {
        Self::at(TcpListener::bind((address, 0)).await.unwrap(), answers)
    }

    fn at(listener: TcpListener, answers: impl IntoIterator<Item = Response>) -> Self {
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Told { answers: Mutex::new(answers.into_iter().collect()), ..Told::default() });
        let app = Router::new().fallback(answer).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, state }
    }

    async fn new(answers: impl IntoIterator<Item = Response>) -> Self {
        Self::on(Ipv4Addr::LOCALHOST, answers).await
    }

    async fn with(statuses: &[u16]) -> Self {
        Self::new(statuses.iter().map(|status| StatusCode::from_u16(*status).unwrap().into_response())).await
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().unwrap().clone()
    }
}

async fn answer(State(told): State<Arc<Told>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    told.asked.lock().unwrap().push((head.method.to_string(), head.uri.to_string(), head.headers, body));
    let next = told.answers.lock().unwrap().pop_front();
    next.unwrap_or_else(|| axum::Json(json!({ "ok": true })).into_response())
}

/// A server below HTTP: every connection is given to `each` after the request's head was read.
async fn raw<F: Future<Output = ()> + Send + 'static>(each: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            tokio::spawn(each(stream));
        }
    });
    address
}

/// Answers look-ups in the order it was told, and counts them.
#[derive(Default)]
struct Names {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let answers = answers.iter().map(|answer| answer.iter().map(|text| text.parse().unwrap()).collect());
        Arc::new(Self { answers: Mutex::new(answers.collect()), ..Self::default() })
    }
}

impl Lookup for Names {
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(host);
        let answer = self.answers.lock().unwrap().pop_front();
        let answer = answer.ok_or_else(|| io::Error::other("no such host"));
        Box::pin(async move { answer })
    }
}

fn outbound(names: Arc<Names>, rule: Rule) -> (Outbound, Registry) {
    // An error means that another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let registry = Registry::new();
    let counters = OutboundCounters::new(&registry).unwrap();
    (Outbound::with(counters, names, rule).unwrap(), registry)
}

/// As in a running engine, with the system's own resolver.
fn real() -> Outbound {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Outbound::new(OutboundCounters::new(&Registry::new()).unwrap()).unwrap()
}

/// A `POST` to a loopback service that the operator has listed.
fn request(url: impl Into<String>) -> FetchRequest {
    FetchRequest {
        method: "POST".into(),
        url: url.into(),
        headers: Vec::new(),
        body: Some(json!({ "meal": "lunch" })),
        timeout: Duration::from_secs(10),
        time_left: Duration::from_secs(30),
        retries: 3,
        retry_delay: Duration::from_millis(1),
        idempotency_key: Some("key-1".into()),
        allowed_hosts: vec!["127.0.0.1".into()],
        tool: "save_meal".into(),
        call: "call-1".into(),
    }
}

fn get(url: impl Into<String>) -> FetchRequest {
    FetchRequest { method: "GET".into(), ..request(url) }
}

fn count(registry: &Registry, name: &str, outcome: Option<&str>) -> u64 {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == name).unwrap();
    let wanted = |metric: &&prometheus::proto::Metric| {
        outcome.is_none_or(|outcome| metric.get_label().iter().any(|label| label.value() == outcome))
    };
    family.get_metric().iter().filter(wanted).map(|metric| metric.get_counter().get_value() as u64).sum()
}
