//! The built-in tools that act on the call itself. They decide nothing: each turns its arguments
//! into a [`CallAction`], which the call core carries out after the agent's last words were heard.

use super::{After, Approved, CallAction, Tool, ToolOutcome, ToolSpec};
use crate::facts::CallFacts;
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

pub const HANGUP_CALL: &str = "hangup_call";
pub const TRANSFER: &str = "transfer";
/// Names of all built-in tools.
pub const BUILT_IN: [&str; 2] = [HANGUP_CALL, TRANSFER];

/// The built-in tool of this name; `destinations` are names with what the model reads about them.
pub fn built_in(name: &str, destinations: &BTreeMap<String, String>) -> Option<Arc<dyn Tool>> {
    match name {
        HANGUP_CALL => Some(Arc::new(HangupCall)),
        TRANSFER => Some(Arc::new(Transfer { destinations: destinations.clone() })),
        _ => None,
    }
}

struct HangupCall;

impl Tool for HangupCall {
    fn spec(&self) -> ToolSpec {
        ToolSpec::on_the_call(
            HANGUP_CALL,
            "End the call. Use it when the caller has said goodbye or wants to end. Say goodbye first; \
             the line stays open until your words were heard.",
            json!({ "type": "object", "properties": {}, "additionalProperties": false }),
        )
    }

    fn run(&self, _: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let outcome = ToolOutcome::act(
            "The call ends after your words. If you have not said goodbye, say it now.",
            CallAction::EndCall { after: After::CurrentTurn, reason: "user_requested".into(), closing: None },
        );
        std::future::ready(outcome).boxed()
    }
}

struct Transfer {
    destinations: BTreeMap<String, String>,
}

impl Tool for Transfer {
    fn spec(&self) -> ToolSpec {
        let list: Vec<String> =
            self.destinations.iter().map(|(name, description)| format!("{name}: {description}")).collect();
        ToolSpec::on_the_call(
            TRANSFER,
            format!(
                "Connect the caller with a person or department. Tell the caller first; the transfer begins after \
                 your words were heard. Destinations: {}.",
                list.join("; ")
            ),
            json!({
                "type": "object",
                "properties": {
                    "destination": { "type": "string", "enum": self.destinations.keys().collect::<Vec<_>>() }
                },
                "required": ["destination"],
                "additionalProperties": false
            }),
        )
    }

    fn run(&self, call: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let destination = call.arguments().get("destination").and_then(Value::as_str).unwrap_or_default().to_owned();
        let outcome = ToolOutcome::act(
            "The caller is connected after your words. If you have not told them, tell them now.",
            CallAction::Transfer { destination },
        );
        std::future::ready(outcome).boxed()
    }
}
