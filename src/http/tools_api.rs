//! Tools are made and changed here, without deployment (D1).
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /api/v1/tools?limit=50&offset=0&search=` | `{items: [{id, name, description, created_at}], total, limit, offset}` |
//! | `POST /api/v1/tools` | 201 and the tool |
//! | `GET /api/v1/tools/{name}` | `{id, name, description, config}` |
//! | `PUT`, `PATCH`, `DELETE /api/v1/tools/{name}` | 204 |
//! | `POST /api/v1/tools/{name}/test` | the trace of a dry run |
//!
//! Invariants: every request has a bearer token, which names the tenant; no answer holds a secret of
//! a definition; every error is `{"error": text}`, with `errors: [{path, message}]` where a
//! definition is wrong. `docs/tools-api.md` is the page for users.

mod access;
mod store;
mod trials;

pub use access::{TokenError, Tokens};
pub use store::{Answer, Problem, Seen, StoreError, StoredTool, ToolStore, Trial};
pub(super) use trials::{TrialError, Trials};

use super::{guard, problem, rate::Rates};
use access::Tenant;
use axum::{
    Json, Router,
    body::Bytes,
    extract::{
        DefaultBodyLimit, Path, Query, State,
        rejection::{BytesRejection, PathRejection, QueryRejection},
    },
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::from_fn,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// A definition of 64 actions with long texts has a tenth of it.
pub(super) const BODY_BYTES_MAX: usize = 256 * 1024;
const PAGE_DEFAULT: usize = 50;
/// More in one answer serves no one; a greater `limit` is taken as this.
const PAGE_MAX: usize = 200;
const SEARCH_BYTES_MAX: usize = 200;

#[derive(Clone)]
pub(super) struct ToolsApi {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn ToolStore>,
    tokens: Tokens,
    rates: Rates<String>,
    trials: Trials,
}

/// The endpoints, to be merged into [`super::router`].
pub fn tools_router(store: Arc<dyn ToolStore>, tokens: Tokens) -> Router {
    let rates = Tokens::rates();
    let inner = Inner { store, tokens, rates, trials: Trials::default() };
    Router::new()
        .route("/api/v1/tools", get(list).post(create))
        .route("/api/v1/tools/{name}", get(show).put(replace).patch(patch).delete(delete))
        .route("/api/v1/tools/{name}/test", post(test))
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "this address takes another method; see the Allow header")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(guard::every_answer))
        .with_state(ToolsApi { inner: Arc::new(inner) })
}

#[derive(Deserialize)]
struct Page {
    limit: Option<usize>,
    offset: Option<usize>,
    search: Option<String>,
}

async fn list(
    State(api): State<ToolsApi>,
    Tenant(tenant): Tenant,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Response, Response> {
    let Ok(Query(page)) = page else {
        return Err(problem(StatusCode::BAD_REQUEST, "limit and offset have to be whole numbers, each given once"));
    };
    let search = page.search.unwrap_or_default().to_lowercase();
    if search.len() > SEARCH_BYTES_MAX {
        return Err(problem(StatusCode::BAD_REQUEST, "the search text is too long"));
    }
    let limit = page.limit.unwrap_or(PAGE_DEFAULT).min(PAGE_MAX);
    let offset = page.offset.unwrap_or(0);
    let mut tools = api.inner.store.list(&tenant).await.map_err(refusal)?;
    tools.retain(|tool| tool.name.contains(&search) || tool.description.to_lowercase().contains(&search));
    let total = tools.len();
    let items: Vec<Value> = tools
        .iter()
        .skip(offset)
        .take(limit)
        .map(|tool| {
            let StoredTool { id, name, description, created_at, .. } = tool;
            json!({ "id": id, "name": name, "description": description, "created_at": created_at })
        })
        .collect();
    Ok(Json(json!({ "items": items, "total": total, "limit": limit, "offset": offset })).into_response())
}

async fn show(State(api): State<ToolsApi>, Tenant(tenant): Tenant, Name(name): Name) -> Result<Response, Response> {
    let tool = api.inner.store.get(&tenant, &name).await.map_err(refusal)?;
    Ok(whole(StatusCode::OK, &tool))
}

async fn create(
    State(api): State<ToolsApi>,
    Tenant(tenant): Tenant,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Response> {
    let tool = api.inner.store.create(&tenant, parse(body)?).await.map_err(refusal)?;
    let mut answer = whole(StatusCode::CREATED, &tool);
    if let Ok(location) = HeaderValue::from_str(&format!("/api/v1/tools/{}", tool.name)) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

async fn replace(
    State(api): State<ToolsApi>,
    Tenant(tenant): Tenant,
    Name(name): Name,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Response> {
    let changed = api.inner.store.replace(&tenant, &name, parse(body)?, seen(&headers)?);
    Ok(done(&changed.await.map_err(refusal)?))
}

async fn patch(
    State(api): State<ToolsApi>,
    Tenant(tenant): Tenant,
    Name(name): Name,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Response> {
    let changed = api.inner.store.patch(&tenant, &name, parse(body)?, seen(&headers)?);
    Ok(done(&changed.await.map_err(refusal)?))
}

async fn delete(
    State(api): State<ToolsApi>,
    Tenant(tenant): Tenant,
    Name(name): Name,
    headers: HeaderMap,
) -> Result<Response, Response> {
    api.inner.store.delete(&tenant, &name, seen(&headers)?).await.map_err(refusal)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn test(
    State(api): State<ToolsApi>,
    Tenant(tenant): Tenant,
    Name(name): Name,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Response> {
    let body = bytes(body)?;
    let trial = if body.is_empty() { Ok(Trial::default()) } else { serde_json::from_slice(&body) };
    let trial = trial.map_err(|_| {
        problem(
            StatusCode::BAD_REQUEST,
            "the body has to be an object of params (object), user (object), live (boolean)",
        )
    })?;
    let trace = api.inner.trials.run(api.inner.store.test(&tenant, &name, trial)).await;
    trace.map(|trace| Json(trace).into_response()).map_err(unrun)
}

/// Why a dry run did not take place.
pub(super) fn unrun(error: TrialError) -> Response {
    match error {
        TrialError::Busy => problem(StatusCode::TOO_MANY_REQUESTS, TrialError::BUSY),
        TrialError::Slow => problem(StatusCode::GATEWAY_TIMEOUT, TrialError::SLOW),
        TrialError::Store(error) => refusal(error),
    }
}

/// A tool's name in a path. What is no name at all names no tool.
struct Name(String);

impl axum::extract::FromRequestParts<ToolsApi> for Name {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, api: &ToolsApi) -> Result<Self, Response> {
        let name: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, api).await;
        name.map(|Path(name)| Self(name)).map_err(|_| refusal(StoreError::NotFound))
    }
}

/// A request that cannot be read.
pub(super) struct Unfit(StatusCode, String);

impl From<Unfit> for Response {
    fn from(Unfit(status, why): Unfit) -> Self {
        problem(status, &why)
    }
}

fn bytes(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Unfit> {
    body.map_err(|rejection| match rejection.status() {
        status @ StatusCode::PAYLOAD_TOO_LARGE => Unfit(status, "the body is longer than 256 KiB".into()),
        status => Unfit(status, "the body could not be read".into()),
    })
}

fn parse(body: Result<Bytes, BytesRejection>) -> Result<Value, Unfit> {
    serde_json::from_slice(&bytes(body)?).map_err(|error| {
        let place = format!("the body is not valid JSON: line {}, column {}", error.line(), error.column());
        Unfit(StatusCode::BAD_REQUEST, place)
    })
}

/// `If-Match` (RFC 9110, 13.1.1). Weak tags never match.
pub(super) fn seen(headers: &HeaderMap) -> Result<Seen, Unfit> {
    let mut versions = Vec::new();
    for value in headers.get_all(header::IF_MATCH) {
        let unreadable = |_| Unfit(StatusCode::BAD_REQUEST, "If-Match is not readable".into());
        for tag in value.to_str().map_err(unreadable)?.split(',').map(str::trim) {
            if tag == "*" {
                return Ok(Seen::Any);
            }
            let version = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            versions.push(version.unwrap_or_default().to_owned());
        }
    }
    Ok(if versions.is_empty() { Seen::Any } else { Seen::OneOf(versions) })
}

pub(super) fn tagged(mut answer: Response, version: &str) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    answer
}

pub(super) fn whole(status: StatusCode, tool: &StoredTool) -> Response {
    let StoredTool { id, name, description, config, version, .. } = tool;
    let body = json!({ "id": id, "name": name, "description": description, "config": config });
    tagged((status, Json(body)).into_response(), version)
}

pub(super) fn done(tool: &StoredTool) -> Response {
    tagged(StatusCode::NO_CONTENT.into_response(), &tool.version)
}

pub(super) fn refusal(error: StoreError) -> Response {
    if let StoreError::Invalid(errors) = error {
        let body = json!({ "error": "the definition is not valid", "errors": errors });
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response();
    }
    let (status, text) = sentence(&error);
    problem(status, text)
}

/// What an error is called.
pub(super) fn sentence(error: &StoreError) -> (StatusCode, &'static str) {
    match error {
        StoreError::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "the definition is not valid"),
        StoreError::NotFound => (StatusCode::NOT_FOUND, "there is no tool of this name"),
        StoreError::Exists => (StatusCode::CONFLICT, "a tool of this name exists, or the name is built in"),
        StoreError::Locked => (StatusCode::CONFLICT, "tools are locked; nothing can be changed now"),
        StoreError::Full => (StatusCode::CONFLICT, "the tenant has as many tools as it may have"),
        StoreError::Used => {
            let text = "the configuration lists this tool, in a context or in tools; take it out there and reload, then delete it";
            (StatusCode::CONFLICT, text)
        }
        StoreError::Changed => {
            (StatusCode::PRECONDITION_FAILED, "the tool has changed since it was read; read it again")
        }
        StoreError::Unreadable => {
            (StatusCode::INTERNAL_SERVER_ERROR, "the tool's file is not readable; it can be replaced or deleted")
        }
        StoreError::Storage => (StatusCode::INTERNAL_SERVER_ERROR, "reading or writing failed; the log says why"),
    }
}

#[cfg(test)]
mod tests;
