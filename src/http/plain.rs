//! What orchestrators, scrapers and scripts ask for, at short addresses: health, metrics, calls, reload, MCP servers.

use super::{
    login::{Door, Role, Who},
    problem,
    routes::Routes,
    site::App,
    view::{McpTest, McpTestedTool, ReloadFailure, ReloadReport},
};
use crate::telemetry;
use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tracing::info;

pub(super) fn add(routes: &mut Routes) {
    routes.page(Method::GET, "/live", Door::Machines, live);
    routes.page(Method::GET, "/ready", Door::Machines, ready);
    routes.page(Method::GET, "/metrics", Door::Machines, metrics);
    routes.page(Method::GET, "/calls", Door::Local(Role::Viewer), calls);
    routes.page(Method::POST, "/reload", Door::Local(Role::Admin), reload);
    routes.page(Method::GET, "/mcp/status", Door::Local(Role::Viewer), mcp_status);
    routes.page(Method::POST, "/mcp/test/{id}", Door::Local(Role::Admin), mcp_test);
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

/// What came of a reload.
pub(super) enum Reloaded {
    Done(ReloadReport),
    Refused(ReloadFailure),
    /// Another one is under way.
    Busy,
    Failed,
}

/// Loads the configuration anew, once at a time.
pub(super) async fn load_anew(app: App, by: &str) -> Reloaded {
    let Ok(permit) = app.reloading.try_acquire_owned() else { return Reloaded::Busy };
    info!(account = by, "the configuration is to be loaded anew");
    let reload = app.view.reload();
    // A task of its own, because this handler is dropped when the client goes away.
    let done = tokio::spawn(async move {
        let result = reload.await;
        drop(permit);
        result
    });
    match done.await {
        Ok(Ok(report)) => Reloaded::Done(report),
        Ok(Err(failure)) => Reloaded::Refused(failure),
        Err(_) => Reloaded::Failed,
    }
}

pub(super) async fn reload(State(app): State<App>, who: Who, body: Result<Bytes, BytesRejection>) -> Response {
    if let Err(rejection) = body {
        return problem(rejection.status(), "a reload takes no body");
    }
    match load_anew(app, &who.name).await {
        Reloaded::Done(report) => {
            let status = if report.reload_pending { StatusCode::ACCEPTED } else { StatusCode::OK };
            (status, Json(report)).into_response()
        }
        Reloaded::Refused(failure) => (StatusCode::UNPROCESSABLE_ENTITY, Json(failure)).into_response(),
        Reloaded::Busy => problem(StatusCode::CONFLICT, "another reload is under way"),
        Reloaded::Failed => {
            problem(StatusCode::INTERNAL_SERVER_ERROR, "the reload failed inside the engine; see the log")
        }
    }
}

pub(super) async fn mcp_status(State(app): State<App>) -> Response {
    Json(app.view.mcp_status()).into_response()
}

/// What came of a test of an MCP server.
#[derive(Serialize, JsonSchema)]
pub(super) struct McpTestReport {
    pub ok: bool,
    pub duration_ms: u64,
    pub tools: Vec<McpTestedTool>,
    pub error: Option<String>,
}

/// Tests a server; or says with which status why not.
pub(super) async fn try_server(app: &App, id: String) -> Result<McpTestReport, (StatusCode, &'static str)> {
    // A task of its own: what was started is ended, also when the client goes away.
    let test = tokio::spawn(app.view.mcp_test(id))
        .await
        .map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "the test failed inside the engine; see the log"))?;
    match test {
        McpTest::Unknown => Err((StatusCode::NOT_FOUND, "there is no MCP server of this name")),
        McpTest::Busy => Err((StatusCode::CONFLICT, "another test of this server is under way")),
        McpTest::Done { took, result } => {
            let (ok, error) = (result.is_ok(), result.as_ref().err().cloned());
            Ok(McpTestReport { ok, duration_ms: took.as_millis() as u64, tools: result.unwrap_or_default(), error })
        }
    }
}

pub(super) async fn mcp_test(State(app): State<App>, Path(id): Path<String>) -> Response {
    match try_server(&app, id).await {
        Ok(report) => Json(report).into_response(),
        Err((status, why)) => problem(status, why),
    }
}
