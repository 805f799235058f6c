//! Built-in tools that ask the caller for digits or take something down for later. The call core
//! does the work; here is what the model is shown and what its arguments mean.

use super::{Approved, CallAction, DigitPlan, DigitPurpose, Message, Tool, ToolOutcome, ToolSpec};
use crate::facts::CallFacts;
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub const COLLECT_DIGITS: &str = "collect_digits";
pub const VERIFY_PIN: &str = "verify_pin";
pub const TAKE_MESSAGE: &str = "take_message";
pub const REQUEST_TRANSCRIPT: &str = "request_transcript";

/// Typing a card number takes half a minute, and the caller has to fetch the card first.
const TYPING_MAX: Duration = Duration::from_secs(90);
/// Longer than any number that people type.
const DIGITS_MAX: u64 = 32;
/// Between two keys.
const KEY_PAUSE: Duration = Duration::from_secs(8);

/// `collect_digits`: the model is told the digits, or with `secure` only a handle.
pub fn collect_digits() -> Arc<dyn Tool> {
    Arc::new(CollectDigits)
}

/// `verify_pin`: what the caller types is compared with their PIN, and nobody is told it.
pub fn verify_pin() -> Arc<dyn Tool> {
    Arc::new(VerifyPin)
}

/// `take_message`; `mailboxes` are names with what the model reads about them.
pub fn take_message(mailboxes: BTreeMap<String, String>) -> Arc<dyn Tool> {
    Arc::new(TakeMessage { mailboxes })
}

/// `request_transcript`: by mail, after the call.
pub fn request_transcript() -> Arc<dyn Tool> {
    Arc::new(RequestTranscript)
}

struct CollectDigits;

impl Tool for CollectDigits {
    fn spec(&self) -> ToolSpec {
        let spec = ToolSpec::on_the_call(
            COLLECT_DIGITS,
            "Let the caller type digits on the telephone. Use it for numbers that are easily misheard, and with \
             secure: true for anything secret: you then get a handle to pass on, never the digits.",
            json!({
                "type": "object",
                "properties": {
                    "prompt": { "type": "string", "description": "What to ask the caller.", "maxLength": 300 },
                    "min_digits": { "type": "integer", "minimum": 1, "maximum": DIGITS_MAX, "default": 1 },
                    "max_digits": { "type": "integer", "minimum": 1, "maximum": DIGITS_MAX, "default": 16 },
                    "terminator": { "type": "string", "enum": ["#", "*", "none"], "default": "#" },
                    "secure": { "type": "boolean", "default": false }
                },
                "required": ["prompt"],
                "additionalProperties": false
            }),
        );
        ToolSpec { timeout: TYPING_MAX, latency_budget: TYPING_MAX, ..spec }
    }

    fn run(&self, call: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let arguments = call.arguments();
        let number = |name: &str, default| arguments.get(name).and_then(Value::as_u64).unwrap_or(default) as usize;
        let max = number("max_digits", 16);
        let secure = arguments.get("secure").and_then(Value::as_bool).unwrap_or(false);
        let terminator = text(arguments, "terminator").and_then(|key| key.chars().next()).filter(|key| *key != 'n');
        let plan = DigitPlan {
            prompt: text(arguments, "prompt").map(|prompt| asked(&prompt, terminator)),
            min: number("min_digits", 1).min(max),
            max,
            terminator,
            timeout: KEY_PAUSE,
            purpose: if secure { DigitPurpose::Secure } else { DigitPurpose::Plain },
        };
        std::future::ready(ToolOutcome::Collect(plan)).boxed()
    }
}

struct VerifyPin;

impl Tool for VerifyPin {
    fn spec(&self) -> ToolSpec {
        let spec = ToolSpec::on_the_call(
            VERIFY_PIN,
            "Identify the caller: they type their PIN on the telephone, and you are told whether it is right. Never \
             ask for a PIN in words.",
            json!({ "type": "object", "properties": {}, "additionalProperties": false }),
        );
        ToolSpec { timeout: TYPING_MAX, latency_budget: TYPING_MAX, ..spec }
    }

    fn run(&self, _: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let plan = DigitPlan {
            prompt: Some(asked("Ask the caller to type their PIN.", Some('#'))),
            min: 1,
            max: DIGITS_MAX as usize,
            terminator: Some('#'),
            timeout: KEY_PAUSE,
            purpose: DigitPurpose::Pin,
        };
        std::future::ready(ToolOutcome::Collect(plan)).boxed()
    }
}

/// What the agent is told to ask for.
fn asked(prompt: &str, terminator: Option<char>) -> String {
    match terminator {
        Some('#') => format!("{prompt} They finish with the hash key."),
        Some('*') => format!("{prompt} They finish with the star key."),
        _ => prompt.to_owned(),
    }
}

struct TakeMessage {
    mailboxes: BTreeMap<String, String>,
}

impl Tool for TakeMessage {
    fn spec(&self) -> ToolSpec {
        let list: Vec<String> =
            self.mailboxes.iter().map(|(name, description)| format!("{name}: {description}")).collect();
        ToolSpec::on_the_call(
            TAKE_MESSAGE,
            format!(
                "Take a message for somebody who is not there. It is sent after the call. Repeat it to the caller \
                 first. Mailboxes: {}.",
                list.join("; ")
            ),
            json!({
                "type": "object",
                "properties": {
                    "to": { "type": "string", "enum": self.mailboxes.keys().collect::<Vec<_>>() },
                    "message": { "type": "string", "minLength": 1, "maxLength": 2000 },
                    "callback": { "type": "string", "description": "Where the caller can be reached.", "maxLength": 100 }
                },
                "required": ["to", "message"],
                "additionalProperties": false
            }),
        )
    }

    fn run(&self, call: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let arguments = call.arguments();
        let message = Message {
            to: text(arguments, "to"),
            text: text(arguments, "message").unwrap_or_default().into(),
            callback: text(arguments, "callback").into(),
        };
        let said = "The message is taken down and is sent after the call.";
        std::future::ready(ToolOutcome::act(said, CallAction::TakeMessage(message))).boxed()
    }
}

struct RequestTranscript;

impl Tool for RequestTranscript {
    fn spec(&self) -> ToolSpec {
        let spec = ToolSpec::on_the_call(
            REQUEST_TRANSCRIPT,
            "Send the caller what was said in this call, by mail after it has ended. Ask for the address and spell it \
             back.",
            json!({
                "type": "object",
                "properties": { "email": { "type": "string", "format": "email", "maxLength": 254 } },
                "required": ["email"],
                "additionalProperties": false
            }),
        );
        // What was said leaves the house, to an address that was only heard.
        ToolSpec {
            requires_confirmation: true,
            standing_approval: false,
            confirm_template: Some("Send the transcript of this call to {email}?".into()),
            ..spec
        }
    }

    fn run(&self, call: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let action = CallAction::SendTranscript { to: text(call.arguments(), "email") };
        std::future::ready(ToolOutcome::act("The transcript is sent after the call.", action)).boxed()
    }
}

fn text(arguments: &Map<String, Value>, name: &str) -> Option<String> {
    arguments.get(name).and_then(Value::as_str).map(str::to_owned)
}
