//! A tool of a server as one of offhook's own.

use super::{
    connection::CallFailure,
    counters::{CallEnd, McpCounters},
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
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, time::Instant};
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
            account.settle(CallEnd::Rejected, Some("placeholder"));
            return Box::pin(std::future::ready(ToolOutcome::failed(ToolError::Validation, message)));
        }
        let asked = self.asked(&call);
        // Read on the servers' own threads: a long result holds up no call.
        let task = AbortOnDrop(self.runtime.spawn(asked));
        Box::pin(async move {
            let mut task = task;
            let ended = (&mut task.0).await.unwrap_or_else(|_| {
                let outcome = ToolOutcome::failed(ToolError::Internal, "The tool failed.");
                Ended { end: CallEnd::Error, reason: Some("internal"), outcome }
            });
            account.settle(ended.end, ended.reason);
            ended.outcome
        })
    }
}

impl McpTool {
    fn asked(&self, call: &Approved) -> impl Future<Output = Ended> + Send + 'static {
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
                let outcome = ToolOutcome::Failed(failure);
                return Ended { end: CallEnd::Unavailable, reason: Some("down"), outcome };
            };
            let mut ended = match connection.call(&tool, arguments, limit).await {
                Ok(result) => {
                    server.lets_in(true);
                    let result = if rules.first_text { mcp::first_text(result) } else { result };
                    let outcome = mcp::outcome(&result, &rules.speech, rules.error_retryable);
                    match outcome.error() {
                        None => Ended { end: CallEnd::Ok, reason: None, outcome },
                        Some(_) => Ended { end: CallEnd::Error, reason: Some("result"), outcome },
                    }
                }
                Err(failure) => {
                    if matches!(failure, CallFailure::Timeout | CallFailure::Gone) {
                        server.suspect();
                    }
                    if matches!(failure, CallFailure::Unauthorized) {
                        server.lets_in(false);
                    }
                    told(failure)
                }
            };
            if let ToolOutcome::Failed(failure) = &mut ended.outcome {
                failure.partial_side_effects = writes;
                failure.retryable &= repeatable;
            }
            ended
        }
    }
}

/// What became of a call, for the model and for the operator.
struct Ended {
    end: CallEnd,
    /// Of a failure, one of a closed set: for the log.
    reason: Option<&'static str>,
    outcome: ToolOutcome,
}

/// A failure of the connection, as the model, the metrics and the log are told of it.
fn told(failure: CallFailure) -> Ended {
    let ended = |end, reason, kind, message: &str, retryable| {
        let outcome = ToolOutcome::Failed(Failure { retryable, ..Failure::new(kind, message) });
        Ended { end, reason: Some(reason), outcome }
    };
    let unavailable = |reason, message| ended(CallEnd::Unavailable, reason, ToolError::Transient, message, true);
    match failure {
        CallFailure::Timeout => {
            let message = "The service did not answer in time.";
            ended(CallEnd::Timeout, "late", ToolError::Timeout, message, true)
        }
        CallFailure::Gone => unavailable("gone", "The service went away before it answered."),
        CallFailure::Unauthorized => {
            let message = "The service does not let this system in; a person has to see to that.";
            ended(CallEnd::Error, "unauthorized", ToolError::Auth, message, false)
        }
        CallFailure::Busy => unavailable("busy", "The service has too much to do at the moment."),
        CallFailure::Refused { code: TOO_LONG, .. } => {
            let message = "The service's answer was too long to be used.";
            ended(CallEnd::Error, "too_long", ToolError::Permanent, message, false)
        }
        CallFailure::Refused { code, message } => {
            let is_wrong = code == ErrorCode::INVALID_PARAMS.0;
            let kind = if is_wrong { ToolError::Validation } else { ToolError::Permanent };
            let reason = if is_wrong { "refused_arguments" } else { "refused" };
            let clean: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let clean: String = clean.chars().take(MESSAGE_CHARS_MAX).collect();
            let message = format!("The service refused the call: {}", clean.trim());
            ended(CallEnd::Error, reason, kind, &message, false)
        }
    }
}

/// A variable of prompts that stands in an argument as it is written there: its value was never put in.
fn placeholder(arguments: &Map<String, Value>) -> Option<&str> {
    fn search(value: &Value) -> Option<&str> {
        match value {
            Value::String(text) => {
                text.trim().strip_prefix('{')?.strip_suffix('}').filter(|name| prompt::is_placeholder(name))
            }
            Value::Array(items) => items.iter().find_map(search),
            Value::Object(members) => members.values().find_map(search),
            _ => None,
        }
    }
    arguments.values().find_map(search)
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
    fn settle(&mut self, end: CallEnd, reason: Option<&'static str>) {
        self.settled = true;
        let took = self.began.elapsed();
        let server = self.server.id.as_str();
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
            reason = reason.unwrap_or_default(),
            "MCP tool call"
        );
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // The call core gave it up: its time had passed, or the telephone call ended.
        if !self.settled {
            // A server that does not even take its cancellation is looked after all the same.
            let late = self.began.elapsed() >= self.limit;
            if late {
                self.server.suspect();
            }
            self.settle(if late { CallEnd::Timeout } else { CallEnd::Cancelled }, None);
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
        let found = |arguments: Value| placeholder(arguments.as_object().unwrap()).map(str::to_owned);
        assert_eq!(found(json!({ "number": "{caller_number}" })), Some("caller_number".to_owned()));
        assert_eq!(found(json!({ "a": [{ "b": " {caller_id} " }] })), Some("caller_id".to_owned()));
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
            (CallFailure::Unauthorized, CallEnd::Error, ToolError::Auth, false),
            (refused(TOO_LONG), CallEnd::Error, ToolError::Permanent, false),
            (refused(-32602), CallEnd::Error, ToolError::Validation, false),
            (refused(-32603), CallEnd::Error, ToolError::Permanent, false),
        ] {
            let ended = told(failure);
            let ToolOutcome::Failed(failure) = ended.outcome else { panic!("it failed") };
            assert_eq!((ended.end, failure.kind, failure.retryable), (end, kind, retryable));
            assert!(!failure.message.contains('\u{1b}'));
        }
    }
}
