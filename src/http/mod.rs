//! The operator's side over HTTP: health, metrics, calls, reload, and one page for people.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /` | the page |
//! | `GET /live` | 200 as long as the process answers |
//! | `GET /ready` | 200 or 503, with every check and its reason |
//! | `GET /metrics` | Prometheus' text format |
//! | `GET /calls` | calls that run and calls that ended, with the reason |
//! | `POST /reload` | 200 and the new generation, 202 if MCP servers wait for calls to end, or 422 and the problems |
//! | `GET /mcp/status` | the MCP servers: state, restarts, last error, tools |
//! | `POST /mcp/test/{id}` | 200 and what came of starting another instance of it; 404, 409 |
//!
//! Invariants: no answer holds a number or a word of a caller; there is no log-in but one token, so nothing here
//! can end a call, and what a foreign page in the operator's browser could ask for is refused.

pub mod gate;
mod guard;
mod page;
mod serve;
mod tools_api;
mod view;

pub use serve::serve;
pub use tools_api::{
    Answer, Problem, Seen, StoreError, StoredTool, TokenError, Tokens, ToolStore, Trial, tools_router,
};
pub use view::{
    About, ActiveCall, CallHead, CallsView, Check, EndedCall, EngineView, McpServerView, McpStatus, McpTest,
    McpTestedTool, McpToolView, Readiness, ReloadFailure, ReloadReport,
};

use crate::telemetry;
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, RawQuery, State, rejection::BytesRejection},
    http::{StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use jiff::{Timestamp, tz::TimeZone};
use secrecy::SecretString;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// No request needs a body; a little is read and thrown away, for clients that send `{}`.
const BODY_BYTES_MAX: usize = 1024;

#[derive(Clone)]
struct App {
    view: Arc<dyn EngineView>,
    /// One permit: two reloads at once would race for the same file.
    reloading: Arc<Semaphore>,
}

/// All endpoints over one engine. With `admin_token`, who wants a reload or anything of MCP servers has to have it.
pub fn router(view: Arc<dyn EngineView>, admin_token: Option<&SecretString>) -> Router {
    let admin = from_fn_with_state(guard::Admin::new(admin_token), guard::admin);
    let app = App { view, reloading: Arc::new(Semaphore::new(1)) };
    // Asked by orchestrators and scrapers under whatever name the machine has; they tell nothing of calls.
    let for_machines =
        Router::new().route("/live", get(live)).route("/ready", get(ready)).route("/metrics", get(metrics));
    let for_operators = Router::new()
        .route("/", get(front_page))
        .route("/calls", get(calls))
        .merge(
            Router::new()
                .route("/reload", post(reload))
                .route("/mcp/test/{id}", post(mcp_test))
                .layer(from_fn(guard::same_site))
                .route("/mcp/status", get(mcp_status))
                .layer(admin),
        )
        .layer(from_fn(guard::known_host));
    for_machines
        .merge(for_operators)
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is no such page") })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "this page takes another method; see the Allow header")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(guard::every_answer))
        .with_state(app)
}

fn problem(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({ "error": error }))).into_response()
}

async fn live() -> Response {
    Json(json!({ "live": true })).into_response()
}

async fn ready(State(app): State<App>) -> Response {
    let readiness = app.view.readiness();
    let ready = readiness.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": ready, "checks": readiness }))).into_response()
}

async fn metrics(State(app): State<App>) -> Response {
    ([(header::CONTENT_TYPE, telemetry::CONTENT_TYPE)], app.view.metrics_text()).into_response()
}

async fn calls(State(app): State<App>) -> Response {
    Json(app.view.calls()).into_response()
}

async fn reload(State(app): State<App>, body: Result<Bytes, BytesRejection>) -> Response {
    if let Err(rejection) = body {
        return problem(rejection.status(), "a reload takes no body");
    }
    let Ok(permit) = app.reloading.try_acquire_owned() else {
        return problem(StatusCode::CONFLICT, "another reload is under way");
    };
    let reload = app.view.reload();
    // A task of its own, because this handler is dropped when the client goes away.
    let done = tokio::spawn(async move {
        let result = reload.await;
        drop(permit);
        result
    });
    match done.await {
        Ok(Ok(report)) => {
            let status = if report.reload_pending { StatusCode::ACCEPTED } else { StatusCode::OK };
            (status, Json(report)).into_response()
        }
        Ok(Err(failure)) => (StatusCode::UNPROCESSABLE_ENTITY, Json(failure)).into_response(),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "the reload failed inside the engine; see the log"),
    }
}

async fn mcp_status(State(app): State<App>) -> Response {
    Json(app.view.mcp_status()).into_response()
}

async fn mcp_test(State(app): State<App>, Path(id): Path<String>) -> Response {
    // A task of its own: what was started is ended, also when the client goes away.
    let Ok(test) = tokio::spawn(app.view.mcp_test(id)).await else {
        return problem(StatusCode::INTERNAL_SERVER_ERROR, "the test failed inside the engine; see the log");
    };
    let (took, result) = match test {
        McpTest::Unknown => return problem(StatusCode::NOT_FOUND, "there is no MCP server of this name"),
        McpTest::Busy => return problem(StatusCode::CONFLICT, "another test of this server is under way"),
        McpTest::Done { took, result } => (took, result),
    };
    let (ok, error) = (result.is_ok(), result.as_ref().err().cloned());
    let tools = result.unwrap_or_default();
    Json(json!({ "ok": ok, "duration_ms": took.as_millis() as u64, "tools": tools, "error": error })).into_response()
}

/// `?refresh=off` holds the page still, for reading and for screen readers.
async fn front_page(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    let page = page::Page {
        about: app.view.about(),
        readiness: app.view.readiness(),
        calls: app.view.calls(),
        now: Timestamp::now(),
        time_zone: TimeZone::system(),
        refreshes: query.as_deref() != Some("refresh=off"),
    };
    Html(page.to_string()).into_response()
}

#[cfg(test)]
mod tests;
