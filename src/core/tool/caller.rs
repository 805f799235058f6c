//! Built-in tools that ask the caller for digits. The call core does the work; here is what the model
//! is shown and what its arguments mean.

use super::{Approved, DigitPlan, DigitPurpose, Tool, ToolOutcome, ToolSpec};
use crate::facts::CallFacts;
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

pub const COLLECT_DIGITS: &str = "collect_digits";
pub const VERIFY_PIN: &str = "verify_pin";

/// The agent has to ask the caller while one of these runs.
pub fn asks_the_caller(tool: &str) -> bool {
    matches!(tool, COLLECT_DIGITS | VERIFY_PIN)
}

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
            prompt: text(arguments, "prompt"),
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
            prompt: None,
            min: 1,
            max: DIGITS_MAX as usize,
            terminator: Some('#'),
            timeout: KEY_PAUSE,
            purpose: DigitPurpose::Pin,
        };
        std::future::ready(ToolOutcome::Collect(plan)).boxed()
    }
}

fn text(arguments: &Map<String, Value>, name: &str) -> Option<String> {
    arguments.get(name).and_then(Value::as_str).map(str::to_owned)
}
