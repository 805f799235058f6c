//! One entry of `mcp.servers` in the configuration file: read, written and taken out, with everything else left as it is.

use super::{
    Body,
    configuration::{self, Refused},
};
use crate::tool::mcp::snake;
use crate::{
    config::{self, Problem, blocks, blocks::Unplaceable},
    http::{
        ConfigurationError, Published, Verdict,
        login::{Door, Role, Who},
        problem,
        routes::{Content, Doc, Routes, schema},
        site::App,
        tools_api::tagged,
    },
};
use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// What stands for a value that is written out in the file and not shown; who sends it back keeps the value.
pub const MASK: &str = "***";
/// A server with rules for all of its tools is far shorter.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// An entry of `mcp.servers` as it is written, its secrets masked.
#[derive(Serialize, JsonSchema)]
struct Written {
    /// Its name in the file.
    name: String,
    server: Map<String, Value>,
}

/// An entry of `mcp.servers`, with the keys of the configuration file.
#[derive(Deserialize)]
#[serde(transparent)]
struct ServerEntry(Map<String, Value>);

impl JsonSchema for ServerEntry {
    fn schema_name() -> Cow<'static, str> {
        "McpServerEntry".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Schema::try_from(config::mcp_server_schema()).unwrap_or_default()
    }
}

/// What becomes of an entry.
pub enum Change {
    Set(Map<String, Value>),
    Remove,
}

/// A text with the change, to be checked or published.
pub struct Proposal {
    pub text: String,
    /// Of the text that it was made of.
    pub based_on: String,
}

pub enum Fault {
    Configuration(ConfigurationError),
    Unplaceable(Unplaceable),
    /// What is wrong with the entry itself.
    Problems(Vec<Problem>),
    Unknown,
}

impl From<ConfigurationError> for Fault {
    fn from(error: ConfigurationError) -> Self {
        Self::Configuration(error)
    }
}

impl From<Unplaceable> for Fault {
    fn from(error: Unplaceable) -> Self {
        Self::Unplaceable(error)
    }
}

pub fn add(routes: &mut Routes) {
    const PATH: &str = "/api/v1/mcp/servers/{server}";
    let admin = Door::Api(Role::Admin);
    let conflict = "The file has changed since the version of If-Match, or cannot be changed here.";
    let doc = Doc::new("An MCP server as the configuration file has it. Values that are secrets are shown as ***.")
        .answer(200, "The entry, with the file's version as ETag.", Content::Json(schema::<Written>))
        .refusal(409, "The file is no YAML.");
    routes.api(Method::GET, PATH, admin, read, doc);
    let doc = Doc::new("Writes an MCP server into the configuration file and publishes it, for calls to come.")
        .body::<ServerEntry>()
        .at_most(BODY_BYTES_MAX)
        .answer(200, "It is in force.", Content::Json(schema::<Published>))
        .answer(
            422,
            "What is wrong with the configuration then; nothing was changed.",
            Content::Json(schema::<Refused>),
        )
        .refusal(409, conflict);
    routes.api(Method::PUT, PATH, admin, write, doc);
    let doc = Doc::new("Says what publishing an MCP server would make of the configuration; nothing is written.")
        .body::<ServerEntry>()
        .at_most(BODY_BYTES_MAX)
        .answer(
            200,
            "All that is wrong with it then, and how it differs from what runs.",
            Content::Json(schema::<Verdict>),
        )
        .answer(422, "What is wrong with the entry itself.", Content::Json(schema::<Refused>))
        .refusal(409, "The file cannot be changed here.");
    routes.api(Method::POST, "/api/v1/mcp/servers/{server}/check", admin, check, doc);
    let doc = Doc::new("Takes an MCP server out of the configuration file and publishes that.")
        .answer(200, "It is in force.", Content::Json(schema::<Published>))
        .answer(
            422,
            "What is wrong with the configuration then; nothing was changed.",
            Content::Json(schema::<Refused>),
        )
        .refusal(409, conflict);
    routes.api(Method::DELETE, PATH, admin, remove, doc);
}

async fn read(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Response> {
    let (found, version) = find(&app, &id).await.map_err(refusal)?;
    let (name, server) = found.ok_or_else(|| refusal(Fault::Unknown))?;
    Ok(tagged(Json(Written { name, server: masked(server) }).into_response(), &version))
}

async fn write(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(ServerEntry(server)): Body<ServerEntry>,
) -> Result<Json<Published>, Response> {
    publish(&app, &who, &id, Change::Set(server), &headers).await
}

async fn check(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(ServerEntry(server)): Body<ServerEntry>,
) -> Result<Json<Verdict>, Response> {
    let Proposal { text, .. } = propose(&app, &id, Change::Set(server)).await.map_err(refusal)?;
    let verdict = app.configuration.check(text).await;
    verdict.map(Json).map_err(|error| configuration::refusal(&error))
}

async fn remove(
    State(app): State<App>,
    who: Who,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Published>, Response> {
    publish(&app, &who, &id, Change::Remove, &headers).await
}

/// Without `If-Match`, whatever the file holds now is changed.
async fn publish(
    app: &App,
    who: &Who,
    id: &str,
    change: Change,
    headers: &HeaderMap,
) -> Result<Json<Published>, Response> {
    let Proposal { text, based_on } = propose(app, id, change).await.map_err(refusal)?;
    let seen = if headers.contains_key("if-match") { configuration::seen(headers)? } else { based_on };
    let published = configuration::put(app, who, text, seen).await;
    published.map(Json).map_err(|error| configuration::refusal(&error))
}

/// A server as the file has it: its name there, and what stands under it.
type Entry = (String, Map<String, Value>);

/// The entry with its name in the file, and the file's version. The engine knows a server by its name in lower snake case.
pub async fn find(app: &App, id: &str) -> Result<(Option<Entry>, String), Fault> {
    let file = app.configuration.read().await?;
    Ok((found_in(&file.text, id)?, file.version))
}

fn found_in(text: &str, id: &str) -> Result<Option<Entry>, Fault> {
    let servers = blocks::value(text, &["mcp", "servers"])?;
    let Some(Value::Object(servers)) = servers else { return Ok(None) };
    let own = |name: &str| name == id || snake(name) == id;
    let found = servers.into_iter().find(|(name, _)| own(name));
    Ok(found.map(|(name, server)| (name, server.as_object().cloned().unwrap_or_default())))
}

/// The file's text with the change; nothing is written.
pub async fn propose(app: &App, id: &str, change: Change) -> Result<Proposal, Fault> {
    let file = app.configuration.read().await?;
    let found = found_in(&file.text, id)?;
    let text = match (change, found) {
        (Change::Remove, None) => return Err(Fault::Unknown),
        (Change::Remove, Some((name, _))) => blocks::remove(&file.text, &["mcp", "servers", &name])?,
        (Change::Set(server), found) => {
            let (name, before) = found.unwrap_or_else(|| (id.to_owned(), Map::new()));
            let server = unmasked(&name, server, &before).map_err(Fault::Problems)?;
            blocks::set(&file.text, &["mcp", "servers", &name], &Value::Object(server))?
        }
    };
    Ok(Proposal { text, based_on: file.version })
}

/// Maps of names and values, of which values may be secrets.
const PRIVATE: [&str; 2] = ["env", "headers"];
const TOKEN: &str = "bearer_token";

pub fn masked(mut server: Map<String, Value>) -> Map<String, Value> {
    let hide = |value: &mut Value| {
        if !value.as_str().is_some_and(is_reference) {
            *value = MASK.into();
        }
    };
    for part in PRIVATE {
        server.get_mut(part).and_then(Value::as_object_mut).into_iter().flatten().for_each(|(_, value)| hide(value));
    }
    server.get_mut(TOKEN).into_iter().for_each(hide);
    server
}

/// Puts back what is masked, and takes no token that is written out.
fn unmasked(
    name: &str,
    mut server: Map<String, Value>,
    before: &Map<String, Value>,
) -> Result<Map<String, Value>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut tell = |path: String, message: &str| {
        let path = format!("mcp.servers.{name}.{path}");
        problems.push(Problem { file: "".into(), line: 0, path, message: message.into(), hint: None });
    };
    for part in PRIVATE {
        for (key, value) in server.get_mut(part).and_then(Value::as_object_mut).into_iter().flatten() {
            if value == MASK {
                match before.get(part).and_then(|values| values.get(key)) {
                    Some(kept) => *value = kept.clone(),
                    None => {
                        tell(format!("{part}.{key}"), "is masked here, and there is no value to keep: write ${NAME}")
                    }
                }
            }
        }
    }
    if let Some(token) = server.get_mut(TOKEN) {
        match before.get(TOKEN) {
            Some(kept) if token == MASK => *token = kept.clone(),
            _ if token.as_str().is_some_and(is_reference) => {}
            _ => {
                tell(TOKEN.into(), "write the name of a variable, such as ${TOKEN}: the token itself has no place here")
            }
        }
    }
    if problems.is_empty() { Ok(server) } else { Err(problems) }
}

/// Made of variables without defaults alone, besides the name of a scheme: it holds no secret itself.
fn is_reference(text: &str) -> bool {
    let mut pieces = text.split("${");
    let is_scheme = |word: &str| ["Bearer", "Basic", "Token"].contains(&word);
    let is_plain = |text: &str| text.split_whitespace().all(is_scheme);
    let first = pieces.next().unwrap_or_default();
    let mut variables = pieces.peekable();
    let has_one = variables.peek().is_some();
    has_one
        && is_plain(first)
        && variables
            .all(|piece| piece.split_once('}').is_some_and(|(name, after)| !name.contains(":-") && is_plain(after)))
}

/// Why nothing was done, in a sentence.
pub fn sentence(fault: &Fault) -> (StatusCode, String) {
    match fault {
        Fault::Configuration(error) => (configuration::status(error), error.to_string()),
        Fault::Unplaceable(error) => (StatusCode::CONFLICT, error.to_string()),
        Fault::Problems(_) => (StatusCode::UNPROCESSABLE_ENTITY, "the entry has problems; nothing was changed".into()),
        Fault::Unknown => (StatusCode::NOT_FOUND, "the configuration has no MCP server of this name".into()),
    }
}

fn refusal(fault: Fault) -> Response {
    let (status, error) = sentence(&fault);
    match fault {
        Fault::Configuration(error) => configuration::refusal(&error),
        Fault::Problems(problems) => {
            let verdict = Some(Verdict { problems, ..Verdict::default() });
            (status, Json(Refused { error, verdict })).into_response()
        }
        _ => problem(status, &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_variables_is_shown_and_everything_else_is_not() {
        for shown in ["${TOKEN}", "Bearer ${TOKEN}", "${A} ${B}"] {
            assert!(is_reference(shown), "{shown}");
        }
        for hidden in ["", "s3cret", "s3cret${A}", "${A}s3cret", "${A:-s3cret}", "Bearer s3cret", "${A"] {
            assert!(!is_reference(hidden), "{hidden}");
        }
    }
}
