//! Why an action did not work.

use crate::tool::{FetchError, ToolError, memory::WriteError};

/// Ends a run, unless the action says `on_error: continue`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: ToolError,
    /// Stable, for programs: `unresolved_template`.
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) status: Option<u16>,
    pub(super) attempts: Option<u32>,
}

impl Fault {
    pub(super) fn new(kind: ToolError, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, reason, message: message.into(), status: None, attempts: None }
    }

    /// Will not work with these values.
    pub(super) fn permanent(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(ToolError::Permanent, reason, message)
    }
}

impl From<FetchError> for Fault {
    fn from(error: FetchError) -> Self {
        Self {
            kind: error.kind,
            reason: "request_failed",
            message: error.message,
            status: error.status,
            attempts: Some(error.attempts),
        }
    }
}

impl From<WriteError> for Fault {
    fn from(error: WriteError) -> Self {
        Self::permanent("not_writable", error.to_string())
    }
}
