//! What a tool is and whether it may run. No I/O.
//!
//! Invariant: a tool runs only on an [`Approved`], and only [`Toolbox::admit`] can make one, so
//! there is no way to a tool around the allowlist.

mod telephony;

use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A tool as it is shown to the model and as it is checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The exposed name: `[a-z0-9_]`, at most 64 characters.
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, in the subset every provider carries.
    pub parameters: Value,
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

/// A call that may run.
#[derive(Debug, Clone, PartialEq)]
pub struct Approved {
    id: String,
    name: String,
    arguments: Map<String, Value>,
}

impl Approved {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    Done { message: String, data: Value, actions: Vec<CallAction> },
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
    /// The call is ending, or the leg cannot do what was asked.
    SessionInactive,
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
