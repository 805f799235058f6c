//! What a tool is and whether it may run. No I/O.
//!
//! Invariant: a tool runs only on an [`Approved`], and only [`Toolbox::admit`] can make one, so
//! there is no way to a tool around a context's allowlist.

pub mod budget;
pub mod canonical;
pub mod loops;
pub mod manifest;
pub mod prune;
pub mod replay;
pub mod schemas;
mod telephony;
mod toolbox;

pub use telephony::{BUILT_IN, HANGUP_CALL, TRANSFER, built_in};
pub use toolbox::{Approved, Toolbox};

use crate::facts::CallFacts;
use futures_util::future::BoxFuture;
use serde_json::Value;

/// A tool as it is shown to the model and as it is checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The exposed name: `[a-z0-9_]`, at most 64 characters.
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, in the subset every provider carries.
    pub parameters: Value,
}

/// Does one thing. It sees the facts of a call, never the call; dropping the future cancels it.
pub trait Tool: Send + Sync {
    fn spec(&self) -> ToolSpec;
    fn run(&self, call: Approved, facts: &CallFacts) -> BoxFuture<'static, ToolOutcome>;
}

/// A call as the model made it; nothing in it is trusted.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The provider's own id, echoed byte for byte in the answer.
    pub id: String,
    pub name: String,
    /// The arguments as JSON text, as the model wrote them.
    pub arguments: String,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    Done { message: String, data: Value, action: Option<CallAction> },
    Failed { kind: ToolError, message: String },
}

/// What a tool asks of the call itself; carried out by the call core after the agent's last words
/// were heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallAction {
    EndCall,
    Transfer { destination: String },
}

/// Why a call did not run or did not work. Upper case on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolError {
    /// No such tool, or not in this context's list: the model cannot tell which.
    NotFound,
    Validation,
    Timeout,
    /// The call is ending: nothing new begins.
    SessionInactive,
    /// The tool itself broke (its task panicked).
    Internal,
}

impl ToolError {
    pub const fn label(self) -> &'static str {
        match self {
            Self::NotFound => "NOT_FOUND",
            Self::Validation => "VALIDATION",
            Self::Timeout => "TIMEOUT",
            Self::SessionInactive => "SESSION_INACTIVE",
            Self::Internal => "INTERNAL",
        }
    }
}

impl ToolOutcome {
    pub fn failed(kind: ToolError, message: impl Into<String>) -> Self {
        Self::Failed { kind, message: message.into() }
    }

    /// Why it did not work; `None` when it did.
    pub const fn error(&self) -> Option<ToolError> {
        match self {
            Self::Done { .. } => None,
            Self::Failed { kind, .. } => Some(*kind),
        }
    }

    /// The envelope the model reads.
    pub fn envelope(&self) -> Value {
        match self {
            Self::Done { message, data, .. } => {
                serde_json::json!({ "ok": true, "message": message, "data": data })
            }
            Self::Failed { kind, message } => {
                serde_json::json!({ "ok": false, "error": { "type": kind.label(), "message": message } })
            }
        }
    }
}
