//! The operator's side over HTTP: the page, the API, health and metrics.
//!
//! - `routes`: every address with its door; `site` puts them together
//! - `login`: accounts, sessions, and the door: who may do what
//! - `plain`: `/live`, `/ready`, `/metrics`, `/calls`, `/reload`, `/mcp/…` for scripts and machines
//! - `api`: `/api/v1/…`, in an OpenAPI document
//! - `pages`: what people see; one file for each page
//! - `view`: what the engine and the records are to this module; `configuration`: what the configuration file is
//! - `tools_api`: tenants make and change their tools; `gate`: the gate as a service
//! - `serve`, `guard`, `rate`: limits on connections, requests and attempts
//!
//! Invariants: an address is only reached through its door; words and numbers of callers are only told to operators; what a
//! foreign page in the operator's browser could ask for is refused; whoever is slow or gone costs the calls nothing.

// A refusal is a whole answer, as axum has it; there is one a request.
#![allow(clippy::result_large_err)]

mod api;
mod configuration;
pub mod gate;
mod guard;
mod login;
mod pages;
mod plain;
pub(crate) mod rate;
mod routes;
mod serve;
mod site;
mod tools_api;
mod view;

pub use configuration::{
    Configuration, ConfigurationError, Configurations, Draft, KeptVersion, Published, TEXT_BYTES_MAX, Told, Verdict,
    Version,
};
pub use login::{Account, AccountError, Accounts, ApiToken, Role, random_password};
pub use serve::serve;
pub use site::{HttpCounters, Site, router};
pub use tools_api::{
    Answer, Problem, Seen, StoreError, StoredTool, TokenError, Tokens, ToolStore, Trial, tools_router,
};
pub use view::{
    About, ActiveCall, AsteriskView, AuditLine, CallHead, CallsView, Check, ContextView, EndedCall, EngineView,
    Finding, Levels, LiveEntry, McpServerView, McpStatus, McpTest, McpTestedTool, McpToolView, MediaTest, MediaView,
    NoConversation, NoListening, NoTransfer, NoWriting, Parties, ProviderView, Readiness, RegisteredTool,
    ReloadFailure, ReloadReport, ServiceView, SystemView, TenantTools, TestCall, TestPath, ToolFigures, ToolPolicyView,
};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use std::sync::Arc;

/// Every error has this shape, but in a browser's window: there `pages::readable_errors` makes a page of it.
fn problem(status: StatusCode, error: &str) -> Response {
    let mut answer = (status, Json(json!({ "error": error }))).into_response();
    answer.extensions_mut().insert(Why(error.into()));
    answer
}

/// Goes with an answer that says what is wrong.
#[derive(Clone)]
struct Why(Arc<str>);

#[cfg(test)]
mod tests;
