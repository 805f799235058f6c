//! How a declarative tool reaches an external service. The tool layer has no I/O; the engine gives
//! it a [`Fetch`] that looks after addresses, retries, sizes and the journal.

use super::error::ToolError;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::{fmt, time::Duration};

/// One call of an HTTP API, templates filled in. `Debug` leaves out what may be secret.
#[derive(Clone, PartialEq)]
pub struct FetchRequest {
    /// Upper case: `GET`, `POST`, `PUT`, `PATCH`, `DELETE`, `HEAD`.
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// Sent as JSON unless the method is `GET` or `HEAD`.
    pub body: Option<Value>,
    /// Of one attempt.
    pub timeout: Duration,
    /// Of all attempts and the waits between them.
    pub time_left: Duration,
    /// Attempts after the first.
    pub retries: u32,
    /// Before the first retry; doubled with each, at most 8 s.
    pub retry_delay: Duration,
    /// Sent as `Idempotency-Key` with every attempt of a method that writes. Without one such a
    /// method is tried once.
    pub idempotency_key: Option<String>,
    /// Hosts that may be reached although they are private (`host` or `host:port`).
    pub allowed_hosts: Vec<String>,
    /// Tool name and call, for the journal.
    pub tool: String,
    pub call: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FetchResponse {
    pub status: u16,
    /// Lower-case names; of repeated ones the last.
    pub headers: Vec<(String, String)>,
    /// JSON when the content type says so, else text; `null` when there is none.
    pub body: Value,
    pub attempts: u32,
}

/// Why there is no 2xx answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchError {
    pub kind: ToolError,
    /// For the model and the log: never an address, a path or a secret.
    pub message: String,
    pub status: Option<u16>,
    pub attempts: u32,
}

pub trait Fetch: Send + Sync {
    fn fetch(&self, request: FetchRequest) -> BoxFuture<'static, Result<FetchResponse, FetchError>>;
}

impl fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchRequest").field("method", &self.method).field("tool", &self.tool).finish_non_exhaustive()
    }
}
