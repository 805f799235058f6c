//! An engine that says what a test wants said, and what scripts and machines ask of it.

mod access;
mod attacks;
mod configuration;
mod document;
mod errors;
mod history;
mod mcp_servers;
mod operations;
mod sample;
mod streams;
mod tokens;
mod tools;
mod waveform;

use super::{serve::Peer, *};
use crate::{
    call::EndReason,
    config::{Destination, Place, RingGroup, Way},
    connections::ConnectionTable,
    facts::{CallId, Direction},
    records::{Cost, Counts, Entry, Event, Reader, Used},
    telemetry,
};
use axum::{
    Extension, Router,
    body::{Body, Bytes, to_bytes},
    extract::ConnectInfo,
    http::{HeaderMap, Method, Request},
};
use futures_util::future::BoxFuture;
use prometheus::Registry;
pub(super) use sample::{Sample, router};
use sample::{active, ended};
use secrecy::SecretString;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc},
};
use tower::ServiceExt;

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

fn site(
    view: Arc<dyn EngineView>,
    accounts: Arc<Accounts>,
    history: Option<Reader>,
    admin_token: Option<&SecretString>,
) -> Site {
    let counters = HttpCounters::new(&Registry::new());
    let tools = Arc::new(tools::store(Default::default()));
    let configuration = configuration::built_in();
    let admin_token = admin_token.cloned();
    Site { view, configuration, history, tools, accounts, admin_token, public_url: None, port: 15000, counters }
}

/// All requests come from this address.
fn from(address: [u8; 4], site: Site) -> Router {
    let permit = ConnectionTable::new(1).try_enter(address.into(), |_| true).expect("it is empty");
    let peer = Peer { address: SocketAddr::from((address, 50_000)), entry: Arc::clone(&permit.entry) };
    super::router(site).layer(Extension(ConnectInfo(peer)))
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

async fn ask(router: &Router, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(router, method, path, headers, Body::empty()).await
}

async fn send(router: &Router, method: Method, path: &str, headers: &[(&str, &str)], body: Body) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "127.0.0.1:15000");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let (parts, body) = answer.into_parts();
    // A stream does not end, and what it begins with is not of interest here.
    let endless = parts.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let bytes = if endless { Default::default() } else { to_bytes(body, 8 << 20).await.unwrap() };
    Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

async fn get_from(sample: Sample, path: &str) -> Answer {
    ask(&router(Arc::new(sample), None), Method::GET, path, &[]).await
}

#[tokio::test]
async fn live_says_so_even_when_nothing_is_ready() {
    let mut sample = Sample::default();
    sample.readiness.ari = Check::failed("refused");
    assert_eq!(get_from(sample, "/live").await.status, StatusCode::OK);
}

#[tokio::test]
async fn ready_is_200_only_if_every_check_holds_and_says_which_does_not() {
    let answer = get_from(Sample::default(), "/ready").await;
    assert_eq!((answer.status, &answer.json()["ready"]), (StatusCode::OK, &json!(true)));
    for failing in ["ari", "media", "providers", "accepting"] {
        let mut sample = Sample::default();
        let Readiness { ari, media, providers, accepting } = &mut sample.readiness;
        let check = match failing {
            "ari" => ari,
            "media" => media,
            "providers" => providers,
            _ => accepting,
        };
        *check = Check::failed("because of the test");
        let answer = get_from(sample, "/ready").await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{failing}");
        let body = answer.json();
        assert_eq!(body["ready"], json!(false));
        assert_eq!(body["checks"][failing], json!({ "ok": false, "reason": "because of the test" }));
        let failed = body["checks"].as_object().unwrap().values().filter(|check| check["ok"] == json!(false));
        assert_eq!(failed.count(), 1, "{body}");
    }
}

#[tokio::test]
async fn metrics_come_in_the_text_format() {
    let answer = get_from(Sample::default(), "/metrics").await;
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert!(answer.text.contains("\noffhook_calls_active 0\n"), "{}", answer.text);
}

#[tokio::test]
async fn calls_tell_why_they_ended() {
    let sample = Sample::default();
    let (running, over) = (sample.calls.active[0].call.id, sample.calls.recent[0].call.id);
    let body = get_from(sample, "/calls").await.json();
    let counts = |turns, barge_ins| json!({ "agent_turns": turns, "barge_ins": barge_ins, "tool_calls": 0, "keys": 0, "slots_missed": 0, "frames_dropped": 0 });
    let head = |id: CallId| json!({ "id": id.to_string(), "context": "sales", "provider": "main", "direction": "inbound", "since": "2026-11-20T09:30:00Z", "written": false });
    let mut active = head(running);
    active["phase"] = json!("talking");
    active["floor"] = json!("agent");
    active["levels"] = json!({ "caller": 12, "agent": 70 });
    active["counts"] = counts(3, 1);
    let mut recent = head(over);
    recent["seconds"] = json!(83.3);
    recent["reason"] = json!({
        "label": "agent_silent",
        "class": "provider",
        "description": "the agent gave no answer although the caller waited",
    });
    recent["counts"] = counts(0, 0);
    recent["usage"] = json!([{
        "provider": "main",
        "tokens": { "output_audio": 300 },
        "connected_seconds": 83.2,
        "cost": { "amount": 0.0192, "currency": "USD", "price_date": "2026-11-20" },
    }]);
    assert_eq!(body, json!({ "active": [active], "recent": [recent] }));
}

#[tokio::test]
async fn a_reload_reports_the_new_generation() {
    let router = router(Arc::new(Sample::default()), None);
    let answer = ask(&router, Method::POST, "/reload", &[]).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(
        answer.json(),
        json!({ "generation": 2, "changed": ["context sales"], "needs_restart": [], "reload_pending": false })
    );
}

/// M39, M answer 12: done at once is 200; what waits for calls to end is 202.
#[tokio::test]
async fn a_reload_that_waits_for_calls_to_end_is_202() {
    let report = ReloadReport { generation: 3, changed: vec![], needs_restart: vec![], reload_pending: true };
    let sample = Sample { reload: Mutex::new(Ok(report)), ..Sample::default() };
    let answer = ask(&router(Arc::new(sample), None), Method::POST, "/reload", &[]).await;
    assert_eq!((answer.status, &answer.json()["reload_pending"]), (StatusCode::ACCEPTED, &json!(true)));
}

/// M43, M answer 13: each server with its state, its restarts and its tools, and why a tool is left out.
#[tokio::test]
async fn the_status_of_mcp_servers_tells_each_tool() {
    let body = get_from(Sample::default(), "/mcp/status").await.json();
    let now = json!({ "name": "now", "exposed_name": "mcp_clock_now", "registered": true });
    let then = json!({
        "name": "then", "exposed_name": "mcp_clock_then", "registered": false,
        "reason": "another tool has the name \"mcp_clock_then\"",
    });
    let clock = json!({
        "transport": "stdio", "state": "up", "restarts": 2, "last_error": null, "tools": [now, then],
    });
    assert_eq!(body, json!({ "enabled": true, "reload_pending": false, "servers": { "clock": clock } }));
}

/// M43, M answer 13: what came of it, in the words of the document; 404 for a server that is not configured.
#[tokio::test]
async fn a_test_of_an_mcp_server_tells_what_came_of_it() {
    let router = router(Arc::new(Sample::default()), None);
    let test = async |id: &str| ask(&router, Method::POST, &format!("/mcp/test/{id}"), &[]).await;
    let tools = json!([{
        "name": "now", "exposed_name": "mcp_clock_now", "description": "The time.", "arguments": ["zone"],
        "access": "public_read",
    }]);
    let fine = test("clock").await;
    assert_eq!(fine.json(), json!({ "ok": true, "duration_ms": 1234, "tools": tools, "error": null }));
    let broken = test("broken").await.json();
    assert_eq!((&broken["ok"], &broken["error"]), (&json!(false), &json!("it ended (exit status: 1)")));
    assert_eq!(test("nobody").await.status, StatusCode::NOT_FOUND);
    assert_eq!(test("busy").await.status, StatusCode::CONFLICT);
    let elsewhere = [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
    let foreign = ask(&router, Method::POST, "/mcp/test/clock", &elsewhere).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN, "a program is started: not for another site's page");
}

/// M answer 13: with a token, nobody without it; it says nothing about the other pages.
#[tokio::test]
async fn who_has_not_the_admin_token_is_not_served() {
    let token = SecretString::from("0123456789abcdef");
    let router = router(Arc::new(Sample::default()), Some(&token));
    for (method, path) in [(Method::GET, "/mcp/status"), (Method::POST, "/mcp/test/clock"), (Method::POST, "/reload")] {
        for wrong in ["", "Bearer 0123456789abcdee", "Basic 0123456789abcdef", "Bearer"] {
            let answer = ask(&router, method.clone(), path, &[("authorization", wrong)]).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path} {wrong}");
        }
        let answer = ask(&router, method, path, &[("authorization", "bearer 0123456789abcdef")]).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
    }
    assert_eq!(ask(&router, Method::GET, "/live", &[]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_refused_file_is_422_with_all_problems() {
    let problems = vec!["offhook.yaml:3: contexts.sales.tools[2]: unknown tool".to_owned(), "second".to_owned()];
    let sample = Sample { reload: Mutex::new(Err(ReloadFailure { problems: problems.clone() })), ..Sample::default() };
    let answer = ask(&router(Arc::new(sample), None), Method::POST, "/reload", &[]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer.json(), json!({ "problems": problems }));
}

#[tokio::test]
async fn a_second_reload_at_the_same_time_is_turned_away_and_a_left_one_still_ends() {
    let hold = Arc::new(Notify::new());
    let sample = Arc::new(Sample { hold: Some(hold.clone()), ..Sample::default() });
    let router = router(sample.clone(), None);
    let first = tokio::spawn({
        let router = router.clone();
        async move { ask(&router, Method::POST, "/reload", &[]).await.status }
    });
    while sample.reloads.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&router, Method::POST, "/reload", &[]).await.status, StatusCode::CONFLICT);
    first.abort();
    hold.notify_one();
    while sample.reloads_done.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    hold.notify_one();
    assert_eq!(ask(&router, Method::POST, "/reload", &[]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_page_of_another_site_cannot_cause_a_reload() {
    let sample = Arc::new(Sample::default());
    let router = router(sample.clone(), None);
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", "http://127.0.0.1:8080")],
        &[("sec-fetch-site", "same-origin"), ("origin", "http://evil.example")],
        &[("host", "evil.example"), ("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")],
        &[("host", "")],
    ] {
        let answer = ask(&router, Method::POST, "/reload", headers).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}");
        assert!(answer.json()["error"].is_string());
    }
    assert_eq!(sample.reloads.load(Ordering::SeqCst), 0);
    for headers in [
        &[][..],
        &[("host", "localhost:15000"), ("origin", "http://localhost:15000"), ("sec-fetch-site", "same-origin")],
    ] {
        assert_eq!(ask(&router, Method::POST, "/reload", headers).await.status, StatusCode::OK, "{headers:?}");
    }
}

#[tokio::test]
async fn a_rebound_name_reads_no_calls_but_a_scraper_may_use_any_name() {
    let router = router(Arc::new(Sample::default()), None);
    let foreign = [("host", "pbx.example:15000")];
    for (path, status) in [
        ("/", StatusCode::FORBIDDEN),
        ("/login", StatusCode::FORBIDDEN),
        ("/calls", StatusCode::FORBIDDEN),
        ("/metrics", StatusCode::OK),
        ("/ready", StatusCode::OK),
        ("/live", StatusCode::OK),
    ] {
        assert_eq!(ask(&router, Method::GET, path, &foreign).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn unknown_pages_and_wrong_methods_are_answered_in_json() {
    let router = router(Arc::new(Sample::default()), None);
    let missing = ask(&router, Method::GET, "/nothing", &[]).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.json()["error"].is_string());
    let wrong = ask(&router, Method::GET, "/reload", &[]).await;
    assert_eq!(wrong.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(wrong.headers["allow"], "POST");
    assert!(wrong.json()["error"].is_string());
    assert_eq!(ask(&router, Method::POST, "/calls", &[]).await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_large_body_is_refused() {
    let sample = Arc::new(Sample::default());
    let request = Request::post("/reload").header("host", "127.0.0.1").body(Body::from(vec![b'x'; 10_000])).unwrap();
    let answer = router(sample.clone(), None).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(sample.reloads.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_takes_too_long_is_given_up() {
    let sample = Sample { hold: Some(Arc::new(Notify::new())), ..Sample::default() };
    let answer = ask(&router(Arc::new(sample), None), Method::POST, "/reload", &[]).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(answer.headers["cache-control"], "no-store");
}

#[tokio::test]
async fn the_server_answers_on_a_socket_and_stops_although_a_client_stays_connected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let server = tokio::spawn(serve(listener, router(Arc::new(Sample::default()), None), async move {
        stopped.notified().await;
    }));
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /live HT").await.unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"live":true}"#), "{answer}");
    stop.notify_one();
    tokio::time::timeout(Duration::from_secs(10), server).await.unwrap().unwrap().unwrap();
}
