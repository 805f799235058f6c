//! The engine itself: providers, MCP servers, the configuration, new calls, the log.

use super::Body;
use crate::{
    http::{
        login::{Door, Role, Who},
        plain::{McpTestReport, mcp_status, mcp_test, reload},
        problem,
        routes::{Content, Doc, Routes, schema},
        site::App,
        view::{ContextView, EngineView, Finding, McpStatus, MediaTest, ProviderView, ReloadReport, SystemView},
    },
    telemetry,
};
use axum::{
    Json,
    extract::State,
    http::{Method, StatusCode},
    response::Response,
};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

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
    let doc = Doc::new(
        "Looks at everything that the configuration names, and places a test call over each kind of audio path. Takes up \
         to a minute; calls that run are not disturbed.",
    )
    .answer(200, "What was found.", Content::Json(schema::<Vec<Finding>>))
    .refusal(409, "Another examination is under way.")
    .refusal(500, "It failed; the log says how.");
    routes.api(Method::POST, "/api/v1/system/examine", Door::Api(Role::Admin), examined, doc);
    let doc = Doc::new(
        "Places a test call over each kind of audio path, with a tone each way: verdict, delay, loss and level for each \
         direction, and what to do about a fault. Calls that run are not disturbed.",
    )
    .answer(200, "What arrived.", Content::Json(schema::<MediaTest>))
    .refusal(409, "Another examination is under way.")
    .refusal(500, "It failed; the log says how.");
    routes.api(Method::POST, "/api/v1/system/media-test", Door::Api(Role::Admin), media_tested, doc);
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

/// Why there was no examination: a status, and words.
type Unexamined = (StatusCode, &'static str);

/// Examines the installation on behalf of somebody; one at a time, since it places calls.
///
/// # Errors
/// Another one is under way.
pub async fn examine(app: &App) -> Result<Vec<Finding>, Unexamined> {
    alone(app, |view| view.examine()).await
}

/// The same for the audio paths alone.
///
/// # Errors
/// Another one is under way.
pub async fn media_test(app: &App) -> Result<MediaTest, Unexamined> {
    alone(app, |view| view.media_test()).await
}

async fn alone<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&dyn EngineView) -> BoxFuture<'static, T>,
) -> Result<T, Unexamined> {
    let Ok(permit) = Arc::clone(&app.examining).try_acquire_owned() else {
        return Err((
            StatusCode::CONFLICT,
            "another examination is under way; its test calls would disturb each other",
        ));
    };
    let work = work(&*app.view);
    // A task of its own: its calls go on when the client goes away, and nobody else's may begin before they have ended.
    let done = tokio::spawn(async move {
        let result = work.await;
        drop(permit);
        result
    });
    done.await.map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "the examination failed inside the engine; see the log"))
}

async fn media_tested(State(app): State<App>) -> Result<Json<MediaTest>, Response> {
    media_test(&app).await.map(Json).map_err(|(status, why)| problem(status, why))
}

async fn examined(State(app): State<App>) -> Result<Json<Vec<Finding>>, Response> {
    examine(&app).await.map(Json).map_err(|(status, why)| problem(status, why))
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

async fn take(State(app): State<App>, who: Who, Body(taking): Body<Taking>) -> Json<Taking> {
    app.view.take_calls(taking.taken, &who.name);
    Json(taking)
}
