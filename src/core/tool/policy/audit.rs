//! One line per call, whatever became of it (P31 and the contract's audit-safe event). Names and
//! keys only: never a value, never a word of the caller or the model.

use super::ToolCallId;
use crate::tool::{Failure, Mode, ToolError, ToolSpec, prune};
use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// Names are kept so far; longer ones are a model gone wrong.
const KEYS_MAX: usize = 32;

/// `None` and empty lists are left out of the line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// `tool_execution`, also for calls that were refused.
    pub event: &'static str,
    pub call_id: String,
    /// `unknown` for a name that this context does not have: the model made it up.
    pub tool_id: String,
    pub tool_version: String,
    pub registry_version: String,
    /// Milliseconds; 0 for what did not run.
    pub duration: u64,
    pub ok: bool,
    pub category: &'static str,
    pub session_id: String,
    pub mode: &'static str,
    /// The gate's route; absent where the policy stopped the call before the gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<&'static str>,
    #[serde(rename = "gate_decision", skip_serializing_if = "Option::is_none")]
    pub gate_decision: Option<&'static str>,
    #[serde(rename = "hard_blockers", skip_serializing_if = "Vec::is_empty")]
    pub hard_blockers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<&'static str>,
    pub executor: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    pub replayed: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub idempotency_key: String,
    pub turn: u64,
    /// Sorted; those that name a secret are masked.
    #[serde(rename = "argument_keys")]
    pub argument_keys: Vec<String>,
    /// Arguments that the schema does not know and that were taken out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped_arguments: Vec<String>,
    /// It took longer than the tool's latency budget (P19).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub over_latency_budget: bool,
    /// The call or its agent ended before it did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
}

impl Audit {
    pub fn new(call_id: String, session_id: &str, mode: Mode, registry_version: &str, turn: u64) -> Self {
        Self {
            event: "tool_execution",
            call_id,
            tool_id: "unknown".into(),
            tool_version: String::new(),
            registry_version: registry_version.to_owned(),
            duration: 0,
            ok: false,
            category: "unknown",
            session_id: session_id.to_owned(),
            mode: mode.label(),
            route: None,
            gate_decision: None,
            hard_blockers: Vec::new(),
            error_type: None,
            executor: "none",
            server: None,
            attempts: None,
            replayed: false,
            idempotency_key: String::new(),
            turn,
            argument_keys: Vec::new(),
            dropped_arguments: Vec::new(),
            over_latency_budget: false,
            cancelled: false,
        }
    }

    pub fn tool(&mut self, spec: &ToolSpec) {
        self.tool_id.clone_from(&spec.name);
        self.tool_version.clone_from(&spec.version);
        self.category = spec.kind.label();
        self.executor = spec.executor.label();
        self.server = spec.executor.server().map(str::to_owned);
    }

    /// Keys of checked arguments. Those of the tool's schema are the operator's words; a schema that is open
    /// lets in others, which are the model's.
    pub fn keys(&mut self, arguments: &Map<String, Value>, schema: &Value) {
        let known = |key: &str| schema.get("properties").is_some_and(|known| known.get(key).is_some());
        let shown = |key: &String| if known(key) { key.clone() } else { prune::showable(key).to_owned() };
        let shown = arguments.keys().map(|key| (shown(key), Value::Null)).collect();
        self.argument_keys = crate::gate::argument_keys(Some(&shown));
        self.argument_keys.truncate(KEYS_MAX);
    }

    pub fn failed(mut self, failure: &Failure) -> Self {
        self.error_type = Some(failure.kind.label());
        self.attempts = failure.details.get("attempts").and_then(Value::as_u64);
        self
    }

    /// How long it ran, and whether that was longer than its budget.
    pub fn took(&mut self, duration: Duration, budget: Duration) {
        self.duration = duration.as_millis() as u64;
        self.over_latency_budget = duration > budget;
    }

    /// The line of a call that was answered along with this one.
    pub fn again(&self, id: ToolCallId) -> Self {
        let call_id = id.to_string();
        Self { call_id, replayed: true, duration: 0, over_latency_budget: false, ..self.clone() }
    }

    /// Why it did not work; `None` when it did, or was cancelled.
    pub fn error(&self) -> Option<ToolError> {
        self.error_type.and_then(ToolError::parse)
    }
}
