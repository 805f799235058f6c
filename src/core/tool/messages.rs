//! The built-in tools by which something of a call reaches a person after it. They decide nothing:
//! what they ask for is sent when the call is over, so that nothing of it is missing.

use super::{Approved, CallAction, Message, Tool, ToolOutcome, ToolSpec};
use crate::facts::CallFacts;
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub const TAKE_MESSAGE: &str = "take_message";
pub const REQUEST_TRANSCRIPT: &str = "request_transcript";
/// A longer message is a model gone astray.
const MESSAGE_CHARS_MAX: usize = 4_000;

/// `mailboxes` are names the model may choose from; with one or none, there is nothing to choose.
pub fn take_message(mailboxes: Vec<String>) -> Arc<dyn Tool> {
    Arc::new(TakeMessage { mailboxes })
}

/// See [`take_message`].
pub fn request_transcript(mailboxes: Vec<String>) -> Arc<dyn Tool> {
    Arc::new(RequestTranscript { mailboxes })
}

fn with_choice(mut properties: Map<String, Value>, mailboxes: &[String], required: &[&str]) -> Value {
    if mailboxes.len() > 1 {
        properties.insert("to".into(), json!({ "type": "string", "enum": mailboxes }));
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn text(call: &Approved, key: &str) -> Option<String> {
    call.arguments().get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

struct TakeMessage {
    mailboxes: Vec<String>,
}

impl Tool for TakeMessage {
    fn spec(&self) -> ToolSpec {
        let Value::Object(properties) = json!({
            "message": { "type": "string", "minLength": 1, "maxLength": MESSAGE_CHARS_MAX },
            "callback": { "type": "string", "maxLength": 100, "description": "A number to call back." },
        }) else {
            unreachable!("an object was written")
        };
        ToolSpec {
            secret_args: vec!["message".into(), "callback".into()],
            // By mail.
            sends: true,
            ..ToolSpec::on_the_call(
                TAKE_MESSAGE,
                "Take a message for a person of the company. It is sent after the call. Read it back to the caller first.",
                with_choice(properties, &self.mailboxes, &["message"]),
            )
        }
    }

    fn run(&self, call: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let message = Message {
            to: text(&call, "to"),
            text: text(&call, "message").unwrap_or_default().into(),
            callback: text(&call, "callback").into(),
        };
        let outcome = ToolOutcome::act("The message is taken and will be passed on.", CallAction::TakeMessage(message));
        std::future::ready(outcome).boxed()
    }
}

struct RequestTranscript {
    mailboxes: Vec<String>,
}

impl Tool for RequestTranscript {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            // By mail.
            sends: true,
            ..ToolSpec::on_the_call(
                REQUEST_TRANSCRIPT,
                "Have a transcript of this call sent to the company after it.",
                with_choice(Map::new(), &self.mailboxes, &[]),
            )
        }
    }

    fn run(&self, call: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let action = CallAction::SendTranscript { to: text(&call, "to") };
        let outcome = ToolOutcome::act("The transcript will be sent after the call.", action);
        std::future::ready(outcome).boxed()
    }
}
