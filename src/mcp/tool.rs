//! A tool of a server as one of offhook's own.

use super::{
    counters::{CallEnd, McpCounters},
    link::CallFailure,
    pump::TOO_LONG,
    server::Server,
};
use crate::{
    config::prompt,
    facts::CallFacts,
    tool::{
        Approved, Failure, Tool, ToolError, ToolOutcome, ToolSpec,
        mcp::{self, McpToolRules},
    },
};
use futures_util::future::BoxFuture;
use rmcp::model::ErrorCode;
use serde_json::{Map, Value};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;
use tracing::info;

/// Between the end of a call here and the end of its time in the call core.
const MARGIN: Duration = Duration::from_millis(50);
/// What a server says of its own error.
const MESSAGE_CHARS_MAX: usize = 300;

/// The wrapper: it has the exposed name and the policy, and knows the way to server and tool.
pub struct McpTool {
    pub(super) spec: ToolSpec,
    /// As the server calls it.
    pub(super) tool: Arc<str>,
    pub(super) rules: McpToolRules,
    pub(super) server: Arc<Server>,
    pub(super) counters: Arc<McpCounters>,
    /// Where results are read.
    pub(super) runtime: Handle,
}

impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn run(&self, call: Approved, facts: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let mut account = Account {
            counters: Arc::clone(&self.counters),
            server: Arc::clone(&self.server),
            tool: Arc::clone(&self.tool),
            exposed_name: self.spec.name.clone(),
            facts: facts.clone(),
            limit: call.time_left(),
            began: Instant::now(),
            settled: false,
        };
        if let Some(name) = placeholder(call.arguments()) {
            let message = format!("Invalid parameters: {{{name}}} is a placeholder, not a value");
            account.settle(CallEnd::Rejected);
            return Box::pin(std::future::ready(ToolOutcome::failed(ToolError::Validation, message)));
        }
        let asked = self.asked(&call);
        // Read on the servers' own threads: a long result holds up no call.
        let task = AbortOnDrop(self.runtime.spawn(asked));
        Box::pin(async move {
            let mut task = task;
            let (end, outcome) = (&mut task.0)
                .await
                .unwrap_or_else(|_| (CallEnd::Error, ToolOutcome::failed(ToolError::Internal, "The tool failed.")));
            account.settle(end);
            outcome
        })
    }
}

impl McpTool {
    fn asked(&self, call: &Approved) -> impl Future<Output = (CallEnd, ToolOutcome)> + Send + 'static {
        let (server, tool, rules) = (Arc::clone(&self.server), Arc::clone(&self.tool), self.rules.clone());
        let arguments = call.arguments().clone();
        // A little before the call core gives it up: so the server is told, and looked after.
        let limit = call.time_left().saturating_sub(MARGIN).max(call.time_left() / 2);
        // As the operator has classified it, which the server's word is not.
        let (writes, repeatable) = (call.writes(), call.is_repeatable());
        async move {
            let Some(connection) = server.connection.load_full() else {
                let mut failure = Failure::new(ToolError::Transient, "This service is not available at the moment.");
                failure.retryable = true;
                return (CallEnd::Unavailable, ToolOutcome::Failed(failure));
            };
            let (end, mut outcome) = match connection.call(&tool, arguments, limit).await {
                Ok(result) => {
                    let outcome = mcp::outcome(&result, &rules.speech, rules.error_retryable);
                    (if outcome.error().is_none() { CallEnd::Ok } else { CallEnd::Error }, outcome)
                }
                Err(failure) => {
                    if matches!(failure, CallFailure::Timeout | CallFailure::Gone) {
                        server.suspect();
                    }
                    told(failure)
                }
            };
            if let ToolOutcome::Failed(failure) = &mut outcome {
                failure.partial_side_effects = writes;
                failure.retryable &= repeatable;
            }
            (end, outcome)
        }
    }
}

/// A failure of the connection, as the model and the metrics are told of it.
fn told(failure: CallFailure) -> (CallEnd, ToolOutcome) {
    let outcome =
        |kind, message: &str, retryable| ToolOutcome::Failed(Failure { retryable, ..Failure::new(kind, message) });
    match failure {
        CallFailure::Timeout => {
            (CallEnd::Timeout, outcome(ToolError::Timeout, "The service did not answer in time.", true))
        }
        CallFailure::Gone => {
            (CallEnd::Unavailable, outcome(ToolError::Transient, "The service went away before it answered.", true))
        }
        CallFailure::Busy => {
            (CallEnd::Unavailable, outcome(ToolError::Transient, "The service has too much to do at the moment.", true))
        }
        CallFailure::Refused { code: TOO_LONG, .. } => {
            (CallEnd::Error, outcome(ToolError::Permanent, "The service's answer was too long to be used.", false))
        }
        CallFailure::Refused { code, message } => {
            let wrong = code == ErrorCode::INVALID_PARAMS.0;
            let kind = if wrong { ToolError::Validation } else { ToolError::Permanent };
            let clean: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let clean: String = clean.chars().take(MESSAGE_CHARS_MAX).collect();
            (CallEnd::Error, outcome(kind, &format!("The service refused the call: {}", clean.trim()), false))
        }
    }
}

/// A variable of prompts that stands in an argument as it is written there: its value was never put in.
fn placeholder(arguments: &Map<String, Value>) -> Option<&'static str> {
    let of_text = |text: &str| {
        let name = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        prompt::VARIABLES.iter().map(|variable| variable.name).find(|known| *known == name)
    };
    fn search(value: &Value, of_text: &dyn Fn(&str) -> Option<&'static str>) -> Option<&'static str> {
        match value {
            Value::String(text) => of_text(text),
            Value::Array(items) => items.iter().find_map(|item| search(item, of_text)),
            Value::Object(members) => members.values().find_map(|member| search(member, of_text)),
            _ => None,
        }
    }
    arguments.values().find_map(|value| search(value, &of_text))
}

/// A spawned call that nobody waits for any more is given up, and the server told.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The log line and the metrics of one call, whatever becomes of it.
struct Account {
    counters: Arc<McpCounters>,
    server: Arc<Server>,
    tool: Arc<str>,
    exposed_name: String,
    facts: CallFacts,
    limit: Duration,
    began: Instant,
    settled: bool,
}

impl Account {
    fn settle(&mut self, end: CallEnd) {
        self.settled = true;
        let took = self.began.elapsed();
        let server = self.server.config.id.as_str();
        let made = !matches!(end, CallEnd::Rejected | CallEnd::Unavailable);
        self.counters.call(server, &self.tool, end, made.then_some(took));
        info!(
            call_id = %self.facts.id,
            context_name = self.facts.context.as_str(),
            provider_name = self.facts.provider.as_str(),
            server,
            tool = &*self.tool,
            exposed_name = self.exposed_name.as_str(),
            // Of 128 bits it would be written as text.
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            outcome = end.label(),
            "MCP tool call"
        );
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // The call core gave it up: its time had passed, or the telephone call ended.
        if !self.settled {
            let late = self.began.elapsed() >= self.limit;
            self.settle(if late { CallEnd::Timeout } else { CallEnd::Cancelled });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// M29, M answer 19: what still looks like a variable of a prompt is no value.
    #[test]
    fn a_placeholder_in_an_argument_is_found_wherever_it_stands() {
        let found = |arguments: Value| placeholder(arguments.as_object().unwrap());
        assert_eq!(found(json!({ "number": "{caller_number}" })), Some("caller_number"));
        assert_eq!(found(json!({ "a": [{ "b": " {caller_id} " }] })), Some("caller_id"));
        for fine in [json!({}), json!({ "a": "{}", "b": "{nobody}", "c": "the {caller_number} of", "d": 3 })] {
            assert_eq!(found(fine), None);
        }
    }

    /// M answer 6: what may pass by itself, and what will not.
    #[test]
    fn each_failure_of_a_server_has_its_type() {
        let refused = |code| CallFailure::Refused { code, message: "no\u{1b}pe".into() };
        for (failure, end, kind, retryable) in [
            (CallFailure::Timeout, CallEnd::Timeout, ToolError::Timeout, true),
            (CallFailure::Gone, CallEnd::Unavailable, ToolError::Transient, true),
            (CallFailure::Busy, CallEnd::Unavailable, ToolError::Transient, true),
            (refused(TOO_LONG), CallEnd::Error, ToolError::Permanent, false),
            (refused(-32602), CallEnd::Error, ToolError::Validation, false),
            (refused(-32603), CallEnd::Error, ToolError::Permanent, false),
        ] {
            let (ended, outcome) = told(failure);
            let ToolOutcome::Failed(failure) = outcome else { panic!("it failed") };
            assert_eq!((ended, failure.kind, failure.retryable), (end, kind, retryable));
            assert!(!failure.message.contains('\u{1b}'));
        }
    }
}
