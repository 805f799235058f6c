//! The configuration file: its text, a check, a publication, its versions. For admins alone: keys can stand in it.

use super::Body;
use crate::http::{
    Configuration, ConfigurationError, Draft, KeptVersion, Published, TEXT_BYTES_MAX, Verdict, Version,
    login::{Door, Role, Who},
    problem,
    routes::{Content, Doc, Routes, schema},
    site::App,
};
use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Quotes and line breaks take two bytes each in JSON.
const BODY_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX + 1024;
const IF_MATCH: &str = "The version of the configuration that the change was made of, in quotes.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConfigurationText {
    text: String,
}

/// Why a text was not published.
#[derive(Serialize, JsonSchema)]
pub struct Refused {
    pub error: String,
    /// Missing where the body was not the JSON that the address takes.
    #[serde(flatten)]
    pub verdict: Option<Verdict>,
}

/// Somebody else was faster, or nobody can change it here.
#[derive(Default, Serialize, JsonSchema)]
struct Conflict {
    error: String,
    /// Of the file now, if that is why.
    version: Option<String>,
    /// The account, if it is known.
    by: Option<String>,
    at: Option<Timestamp>,
}

pub fn add(routes: &mut Routes) {
    const PATH: &str = "/api/v1/configuration";
    let admin = Door::Api(Role::Admin);
    let doc = Doc::new("The configuration file, what is wrong with it, and how it differs from what runs.").answer(
        200,
        "As it is now.",
        Content::Json(schema::<Configuration>),
    );
    routes.api(Method::GET, PATH, admin, read, doc);
    let doc = Doc::new("Says what `offhook check` would say of a text. Nothing is kept and nothing is started.")
        .body::<ConfigurationText>()
        .at_most(BODY_BYTES_MAX)
        .answer(200, "All that is wrong with it, and how it differs from what runs.", Content::Json(schema::<Verdict>));
    routes.api(Method::POST, "/api/v1/configuration/check", admin, check, doc);
    let doc = publication("Makes a text the configuration, for calls to come. A text with problems changes nothing.")
        .body::<ConfigurationText>()
        .at_most(BODY_BYTES_MAX);
    routes.api(Method::PUT, PATH, admin, publish, doc);
    let doc = Doc::new("What a configuration may hold, as a JSON Schema: for editors.").answer(
        200,
        "JSON Schema 2020-12.",
        Content::Json(schema::<serde_json::Value>),
    );
    routes.api(Method::GET, "/api/v1/configuration/schema", Door::Api(Role::Viewer), schema_of, doc);
    let doc = Doc::new("The texts that were published, and those that were found in the file.").answer(
        200,
        "The newest first.",
        Content::Json(schema::<Vec<Version>>),
    );
    routes.api(Method::GET, "/api/v1/configuration/versions", admin, versions, doc);
    let doc = Doc::new("The text of a version.").answer(200, "As it was.", Content::Json(schema::<KeptVersion>));
    routes.api(Method::GET, "/api/v1/configuration/versions/{kept}", admin, version, doc);
    let doc = publication("Publishes the text of a version again.");
    routes.api(Method::POST, "/api/v1/configuration/versions/{kept}/publish", admin, roll_back, doc);
}

fn publication(summary: &'static str) -> Doc {
    Doc::new(summary)
        .header("If-Match", IF_MATCH)
        .answer(200, "It is in force.", Content::Json(schema::<Published>))
        .answer(409, "The file has changed meanwhile, or cannot be changed here.", Content::Json(schema::<Conflict>))
        .answer(422, "What is wrong with the text; nothing was changed.", Content::Json(schema::<Refused>))
}

async fn read(State(app): State<App>) -> Response {
    answer(app.configuration.read().await)
}

async fn schema_of(State(app): State<App>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], app.configuration.schema().to_string()).into_response()
}

async fn check(State(app): State<App>, Body(ConfigurationText { text }): Body<ConfigurationText>) -> Response {
    answer(app.configuration.check(text).await)
}

async fn versions(State(app): State<App>) -> Response {
    answer(app.configuration.versions().await)
}

async fn version(State(app): State<App>, Path(kept): Path<String>) -> Response {
    answer(app.configuration.version(kept).await)
}

async fn publish(
    State(app): State<App>,
    who: Who,
    headers: HeaderMap,
    Body(ConfigurationText { text }): Body<ConfigurationText>,
) -> Response {
    match seen(&headers) {
        Ok(based_on) => answer(put(&app, &who, text, based_on).await),
        Err(refusal) => refusal,
    }
}

async fn roll_back(State(app): State<App>, who: Who, Path(kept): Path<String>, headers: HeaderMap) -> Response {
    match seen(&headers) {
        Ok(based_on) => answer(put_back(&app, &who, kept, based_on).await),
        Err(refusal) => refusal,
    }
}

/// Publishes a text in somebody's name.
pub async fn put(app: &App, who: &Who, text: String, based_on: String) -> Result<Published, ConfigurationError> {
    let published = app.configuration.publish(Draft { text, based_on, by: who.name.clone() }).await;
    app.gatekeeper.counters.publication(match &published {
        Ok(_) => "done",
        Err(ConfigurationError::Changed { .. }) => "conflict",
        Err(ConfigurationError::Storage(_)) => "failed",
        Err(_) => "refused",
    });
    published
}

/// The same with the text of a version.
pub async fn put_back(app: &App, who: &Who, kept: String, based_on: String) -> Result<Published, ConfigurationError> {
    let version = app.configuration.version(kept).await?;
    put(app, who, version.text, based_on).await
}

/// One version, as an ETag; a proxy may have made it a weak one.
pub fn seen(headers: &HeaderMap) -> Result<String, Response> {
    let given = headers.get(header::IF_MATCH).and_then(|given| given.to_str().ok()).unwrap_or_default().trim();
    let version = given.strip_prefix("W/").unwrap_or(given).trim_matches('"');
    if version.is_empty() {
        return Err(problem(
            StatusCode::PRECONDITION_REQUIRED,
            "say with If-Match which version of the configuration the change was made of; GET /api/v1/configuration tells it",
        ));
    }
    Ok(version.to_owned())
}

fn answer<T: Serialize>(told: Result<T, ConfigurationError>) -> Response {
    told.map_or_else(|error| refusal(&error), |told| Json(told).into_response())
}

pub fn status(error: &ConfigurationError) -> StatusCode {
    match error {
        ConfigurationError::Changed { .. } | ConfigurationError::ReadOnly(_) => StatusCode::CONFLICT,
        ConfigurationError::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
        ConfigurationError::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
        ConfigurationError::Unknown => StatusCode::NOT_FOUND,
        ConfigurationError::Busy | ConfigurationError::Storage(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

pub fn refusal(error: &ConfigurationError) -> Response {
    let (status, told) = (status(error), error.to_string());
    match error.clone() {
        ConfigurationError::Changed { version, by, at } => {
            (status, Json(Conflict { error: told, version: Some(version), by, at })).into_response()
        }
        ConfigurationError::ReadOnly(_) => {
            (status, Json(Conflict { error: told, ..Conflict::default() })).into_response()
        }
        ConfigurationError::Invalid(verdict) => {
            (status, Json(Refused { error: told, verdict: Some(verdict) })).into_response()
        }
        _ => problem(status, &told),
    }
}
