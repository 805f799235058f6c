//! The engine itself: providers, MCP servers, the configuration, new calls, the log.

use super::Body;
use crate::{
    http::{
        login::{Door, Role},
        plain::{McpTestReport, mcp_status, mcp_test, reload},
        routes::{Content, Doc, Routes, schema},
        site::App,
        view::{ContextView, McpStatus, ProviderView, ReloadReport, SystemView},
    },
    telemetry,
};
use axum::{Json, extract::State, http::Method};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Whether new calls are taken.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Taking {
    taken: bool,
}

/// The end of the log.
#[derive(Serialize, JsonSchema)]
struct Log {
    /// The newest last.
    lines: Vec<String>,
}

pub fn add(routes: &mut Routes) {
    let doc = Doc::new("The providers of the configuration, and how they do.").answer(
        200,
        "By name.",
        Content::Json(schema::<BTreeMap<String, ProviderView>>),
    );
    routes.api(Method::GET, "/api/v1/providers", Door::Api(Role::Viewer), providers, doc);
    let doc = Doc::new("The contexts of the configuration.").answer(
        200,
        "By name.",
        Content::Json(schema::<BTreeMap<String, ContextView>>),
    );
    routes.api(Method::GET, "/api/v1/contexts", Door::Api(Role::Viewer), contexts, doc);
    let doc = Doc::new("The MCP servers of the configuration.").answer(
        200,
        "Their state and their tools.",
        Content::Json(schema::<McpStatus>),
    );
    routes.api(Method::GET, "/api/v1/mcp", Door::Api(Role::Viewer), mcp_status, doc);
    let doc = Doc::new("Starts another instance of an MCP server, asks for its tools, and ends it. Calls no tool.")
        .answer(200, "What came of it.", Content::Json(schema::<McpTestReport>));
    routes.api(Method::POST, "/api/v1/mcp/{server}/test", Door::Api(Role::Admin), mcp_test, doc);
    let doc = Doc::new("What the engine stands on.").answer(200, "Now.", Content::Json(schema::<SystemView>));
    routes.api(Method::GET, "/api/v1/system", Door::Api(Role::Viewer), system, doc);
    let doc = Doc::new("The last lines of the log. They hold no words and no numbers of callers.").answer(
        200,
        "The newest last.",
        Content::Json(schema::<Log>),
    );
    routes.api(Method::GET, "/api/v1/log", Door::Api(Role::Operator), log, doc);
    let doc = Doc::new("Loads the configuration file anew, for calls to come. A file with problems changes nothing.")
        .answer(200, "It is in force.", Content::Json(schema::<ReloadReport>))
        .answer(
            202,
            "It is in force; MCP servers wait for the last call to end.",
            Content::Json(schema::<ReloadReport>),
        );
    routes.api(Method::POST, "/api/v1/reload", Door::Api(Role::Admin), reload, doc);
    let doc = Doc::new("Has the engine take new calls, or give them back to the dialplan. Calls that run go on.")
        .body::<Taking>()
        .answer(200, "So it is.", Content::Json(schema::<Taking>));
    routes.api(Method::POST, "/api/v1/calls/taken", Door::Api(Role::Admin), take, doc);
}

async fn providers(State(app): State<App>) -> Json<BTreeMap<String, ProviderView>> {
    Json(app.view.providers())
}

async fn contexts(State(app): State<App>) -> Json<BTreeMap<String, ContextView>> {
    Json(app.view.contexts())
}

async fn system(State(app): State<App>) -> Json<SystemView> {
    Json(app.view.system())
}

async fn log() -> Json<Log> {
    Json(Log { lines: telemetry::last_lines() })
}

async fn take(State(app): State<App>, Body(taking): Body<Taking>) -> Json<Taking> {
    app.view.take_calls(taking.taken);
    Json(taking)
}
