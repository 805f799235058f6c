//! What orchestrators, scrapers and scripts ask for, at short addresses: health, metrics, calls, reload, MCP servers.

use super::{
    login::{Door, Role},
    problem,
    routes::Routes,
    site::App,
    view::McpTest,
};
use crate::telemetry;
use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::json;

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
