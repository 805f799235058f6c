//! Tools as the pages see them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// All tools that the contexts of one tenant can list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TenantTools {
    /// `null`: for contexts without a tenant.
    pub tenant: Option<String>,
    /// Of the whole; the same tools have the same version.
    pub version: String,
    /// By name.
    pub tools: Vec<RegisteredTool>,
}

/// One tool of the running generation, as agents and the gate know it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RegisteredTool {
    /// As agents are told it.
    pub name: String,
    /// `builtin`, `declarative`, `mcp` or `vam`.
    pub kind: &'static str,
    /// The server that runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// As the server calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_tool: Option<String>,
    pub description: String,
    /// Contexts that list it.
    pub contexts: Vec<String>,
    pub policy: ToolPolicyView,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    pub figures: ToolFigures,
}

/// What decides whether a call of the tool runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ToolPolicyView {
    /// Of the tool, in its audit lines.
    pub version: String,
    /// What it counts as in a turn's budget: `retrieval`, `action` or `utility`.
    pub category: &'static str,
    /// `none`, `read_only` or `writes`.
    pub side_effects: &'static str,
    pub idempotent: bool,
    /// What the gate takes it for: `public_read`, `private_read`, `write` or `unknown`.
    pub access: &'static str,
    pub risk_domain: &'static str,
    /// It is declared public, and the gate takes it for one about a person all the same.
    pub taken_for_private: bool,
    /// The caller has to say yes first.
    pub requires_confirmation: bool,
    /// The operator approves of it once and for all.
    pub standing_approval: bool,
    /// What the caller is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
    /// The caller has to be shown to be at least this.
    pub requires_authorization: &'static str,
    /// A success shows the caller to be this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authenticates: Option<&'static str>,
    /// `voice`, `text`.
    pub modes: Vec<&'static str>,
    /// Arguments that the schema does not know are dropped (`drop`), or the call is refused (`reject`).
    pub unknown_arguments: &'static str,
    /// Never said, shown or logged.
    pub secret_arguments: Vec<String>,
    pub timeout_ms: u64,
    pub latency_budget_ms: u64,
    /// The agent waits for it.
    pub wait: bool,
}

/// Since the engine started. Tools of one name share these, whosever they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolFigures {
    /// Calls by what became of them; only what has happened.
    pub outcomes: BTreeMap<String, u64>,
    /// Of the last twenty runs; `null` where there were hardly any.
    pub median_ms: Option<u64>,
    /// Nine of ten were over by then.
    pub mostly_ms: Option<u64>,
}

impl ToolFigures {
    pub fn calls(&self) -> u64 {
        self.outcomes.values().sum()
    }

    pub fn done(&self) -> u64 {
        self.outcomes.get("done").copied().unwrap_or_default()
    }
}

/// One line of the audit log. Names and keys only: no value, no word of a caller.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AuditLine {
    pub at: Timestamp,
    pub audit: Map<String, Value>,
}
