//! The gate before a tool runs, over HTTP, as clients of Agent Action Contract v1 know it.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /health`, `GET /ready` | 200, without a token |
//! | `GET /openapi.json`, `GET /docs` | this table for programs and for people |
//! | `POST /pre-tool-check`, `/tool-precheck` | a decision; a malformed event is a refusal, not an error |
//! | `POST /validate-tool-precheck` | what the schema says |
//!
//! Invariants: without a configured token nothing is checked, there is no default one; no answer or log
//! repeats a token; what a client can make us remember is bounded.

mod audit;
mod options;
mod pages;

pub use audit::{AuditFile, AuditWriter};
pub use options::Options;

use super::{guard, rate::Rates, serve::Peer};
use crate::{
    gate::{AuditMeta, Gate, Mode, VERSION, stored_record},
    wall_clock,
};
use axum::{
    Json, Router,
    body::Body,
    extract::{ConnectInfo, RawQuery, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Map, Value, json};
use std::{net::IpAddr, sync::Arc};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

const CHECK: &str = "pre_tool_check";
const VALIDATION: &str = "validation";
/// A gate serves a few agents; this many addresses within a minute are none of them.
const CLIENTS_MAX: usize = 10_000;

struct Service {
    gate: Gate,
    options: Options,
    rate: Option<Rates<IpAddr>>,
    audit: Option<AuditWriter>,
}

type Shared = State<Arc<Service>>;

/// The service over one gate. Without an audit writer no record is kept.
pub fn router(gate: Gate, options: Options, audit: Option<AuditWriter>) -> Router {
    let rate = options.requests_per_minute.map(|most| Rates::new(most, f64::from(most) / 60.0, CLIENTS_MAX));
    let service = Arc::new(Service { gate, options, rate, audit });
    Router::new()
        .route("/pre-tool-check", post(check))
        .route("/tool-precheck", post(check))
        .route("/validate-tool-precheck", post(validate))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/openapi.json", get(pages::openapi))
        .route("/docs", get(pages::docs))
        .fallback(|| async { detail(StatusCode::NOT_FOUND, "Not Found") })
        .method_not_allowed_fallback(|| async { detail(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed") })
        .layer(from_fn_with_state(Arc::clone(&service), limits))
        .layer(from_fn(guard::every_answer))
        .with_state(service)
}

fn detail(status: StatusCode, detail: impl Into<Value>) -> Response {
    (status, Json(json!({ "detail": detail.into() }))).into_response()
}

/// Size and rate, before anything is read or compared.
async fn limits(State(service): Shared, request: Request, next: Next) -> Response {
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if declared.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > service.options.body_max())
    {
        return service.too_large();
    }
    // Probes must not be kept out by whoever else asks from the same address.
    let is_probe = matches!(request.uri().path(), "/health" | "/ready");
    if let (Some(rate), false) = (&service.rate, is_probe) {
        let client = request.extensions().get::<ConnectInfo<Peer>>().map(|info| info.0.address.ip());
        if let Err(wait) = rate.take(client.unwrap_or(IpAddr::from([0, 0, 0, 0])), Instant::now()) {
            return service.too_many(wait.as_secs().max(1));
        }
    }
    next.run(request).await
}

impl Service {
    fn too_large(&self) -> Response {
        let max = self.options.body_max();
        let body = json!({
            "error": "request_too_large",
            "message": format!("The body is longer than AANA_MAX_REQUEST_BYTES allows ({max})."),
            "max_request_bytes": max,
        });
        (StatusCode::PAYLOAD_TOO_LARGE, Json(body)).into_response()
    }

    fn too_many(&self, wait_seconds: u64) -> Response {
        let body = json!({
            "error": "rate_limited",
            "message": "Too many requests from this address.",
            "requests_per_minute": self.options.requests_per_minute,
            "retry_after_seconds": wait_seconds,
        });
        let mut answer = (StatusCode::TOO_MANY_REQUESTS, Json(body)).into_response();
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait_seconds));
        answer
    }

    /// The answer to who may not ask: token first, then what the token may do.
    fn refusal(&self, headers: &HeaderMap, scope: &'static str) -> Option<Response> {
        if !self.knows(headers) {
            let mut answer = detail(StatusCode::UNAUTHORIZED, "Unauthorized.");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Some(answer);
        }
        if self.options.scopes.contains(scope) {
            return None;
        }
        let problem = json!({
            "error": "insufficient_scope",
            "required_scope": scope,
            "configured_scopes": self.options.scopes,
        });
        Some(detail(StatusCode::FORBIDDEN, problem))
    }

    /// Whether a request carries the token, in either of its places.
    fn knows(&self, headers: &HeaderMap) -> bool {
        let Some(token) = self.options.token().map(str::as_bytes) else { return false };
        let bearer = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).and_then(bearer);
        let own = headers.get("x-aana-token").map(HeaderValue::as_bytes);
        let is_token = |given: Option<&[u8]>| given.is_some_and(|given| bool::from(given.ct_eq(token)));
        // Both are compared, so that the time tells nothing of which was right.
        is_token(bearer) | is_token(own)
    }

    /// The body as an object, or the answer to what it is instead.
    async fn event(&self, body: Body) -> Result<Map<String, Value>, Response> {
        let bytes = match axum::body::to_bytes(body, self.options.body_max()).await {
            Ok(bytes) => bytes,
            Err(error) => {
                let too_long =
                    std::error::Error::source(&error).is_some_and(|source| source.to_string().contains("length limit"));
                return Err(if too_long { self.too_large() } else { failed("The body broke off.") });
            }
        };
        event_in(&bytes).map_err(|(kind, why)| unprocessable(kind, why))
    }
}

/// The event that a body is, or what it is instead: in one word, and in a sentence.
fn event_in(body: &[u8]) -> Result<Map<String, Value>, (&'static str, &'static str)> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(event)) => Ok(event),
        Ok(_) => Err(("dict_type", "The body has to be a JSON object")),
        Err(_) if body.is_empty() => Err(("missing", "There is no body")),
        Err(_) => Err(("json_invalid", "The body is no JSON")),
    }
}

/// Any body of a check: nothing runs on an event that the schema refuses, as it was understood (of one without a version what is
/// unknown is left out, as the contract has it), and a mode without effect is told as such.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let Ok(event) = event_in(data) else { return };
    let (gate, event, now) = (Gate::default(), Value::Object(event), jiff::Timestamp::UNIX_EPOCH);
    let decision = gate.check(&event, now);
    let errors = gate.validate(&gate.normalized(&event));
    assert!(!decision.executes() || errors.is_empty(), "{event}");
    for mode in [Mode::Enforce, Mode::Shadow] {
        let meta = AuditMeta { created_at: now, surface: "http", route: "/pre-tool-check", latency_ms: None, mode };
        let record = stored_record(&gate.normalized(&event), &decision, &meta);
        assert!(serde_json::to_string(&record).is_ok() && decision.public_json(mode).is_object());
    }
}

/// The token of `Authorization: Bearer TOKEN`; the scheme's case does not matter.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

fn unprocessable(kind: &str, message: &str) -> Response {
    detail(StatusCode::UNPROCESSABLE_ENTITY, json!([{ "type": kind, "loc": ["body"], "msg": message }]))
}

fn failed(message: &str) -> Response {
    detail(StatusCode::BAD_REQUEST, json!({ "error": "pre_tool_check_failed", "message": message }))
}

async fn check(State(service): Shared, RawQuery(query): RawQuery, request: Request) -> Response {
    let started = Instant::now();
    if let Some(refusal) = service.refusal(request.headers(), CHECK) {
        return refusal;
    }
    let path = if request.uri().path() == "/tool-precheck" { "/tool-precheck" } else { "/pre-tool-check" };
    let event = match service.event(request.into_body()).await {
        Ok(event) => Value::Object(event),
        Err(answer) => return answer,
    };
    let now = wall_clock::now();
    let mode = if asks_for_shadow(query.as_deref()) { Mode::Shadow } else { Mode::Enforce };
    let decision = service.gate.check(&event, now);
    if let Some(audit) = &service.audit {
        let latency_ms = Some(started.elapsed().as_secs_f64() * 1_000.0);
        let meta = AuditMeta { created_at: now, surface: "http", route: path, latency_ms, mode };
        audit.append(&stored_record(&service.gate.normalized(&event), &decision, &meta));
    }
    Json(decision.public_json(mode)).into_response()
}

/// `?shadow_mode=true`, and the other words that mean yes.
fn asks_for_shadow(query: Option<&str>) -> bool {
    url::form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .filter(|(key, _)| key == "shadow_mode")
        .last()
        .is_some_and(|(_, value)| {
            ["1", "true", "yes", "on", "shadow"].contains(&value.trim().to_ascii_lowercase().as_str())
        })
}

async fn validate(State(service): Shared, request: Request) -> Response {
    if let Some(refusal) = service.refusal(request.headers(), VALIDATION) {
        return refusal;
    }
    let event = match service.event(request.into_body()).await {
        Ok(event) => Value::Object(event),
        Err(answer) => return answer,
    };
    let errors = service.gate.validate(&event);
    let errors: Vec<Value> =
        errors.into_iter().map(|error| json!({ "path": error.path, "message": error.message })).collect();
    Json(json!({ "valid": errors.is_empty(), "errors": errors, "schema_version": VERSION })).into_response()
}

async fn health(State(service): Shared) -> Response {
    let options = &service.options;
    Json(json!({
        "status": "ok",
        "service": "offhook-gate",
        "service_version": env!("CARGO_PKG_VERSION"),
        "contract": "aana.agent_action_contract.v1",
        "auth_required": true,
        "auth_methods": ["Authorization: Bearer <token>", "X-AANA-Token: <token>"],
        "auth_scopes": options.scopes,
        "audit_log_configured": service.audit.is_some(),
        "rate_limit": {
            "enabled": options.requests_per_minute.is_some(),
            "requests_per_minute": options.requests_per_minute,
        },
        "request_size_limit": {
            "enabled": options.request_bytes_max.is_some(),
            "max_bytes": options.request_bytes_max,
        },
        "routes": pages::ROUTES.map(|(_, path, _)| path),
        "docs": "/docs",
    }))
    .into_response()
}

async fn ready(State(service): Shared) -> Response {
    let token = !service.options.has_no_token();
    let status = if token { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let dropped = service.audit.as_ref().map_or(0, AuditWriter::dropped);
    let checks = json!({ "token_configured": token, "audit_records_dropped": dropped });
    (status, Json(json!({ "ready": token, "checks": checks }))).into_response()
}
