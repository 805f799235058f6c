//! The envelope that the model reads (P26), and what becomes of one that is too long.

use super::rules::{AnswerLimits, ErrorTypes, ResultShape};
use crate::tool::{Done, Failure, ToolError, ToolSpec};
use serde_json::{Map, Value, json};
use std::time::Duration;

const SCHEMA_VERSION: &str = "1.0.0";
/// Longest answer where nobody sets another limit: a model reads no more in a call.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Flags that are told of data which is not: tools have two or three, and all have to fit 2 KiB with
/// the rest.
const FLAGS_MAX: usize = 8;
/// A flag's name, and a status: a word or two.
const FLAG_BYTES_MAX: usize = 40;
/// So much of a message is worth more than the names and versions beside it.
const MESSAGE_BYTES_KEPT: usize = 160;

/// Facts about a call that every envelope ends with.
#[derive(Debug, Clone, Copy)]
pub struct Meta<'a> {
    pub tool: &'a str,
    /// `None`: the tool is not known.
    pub spec: Option<&'a ToolSpec>,
    pub registry_version: &'a str,
    pub duration: Duration,
}

impl Meta<'_> {
    fn to_json(self) -> Value {
        let mut meta = Map::new();
        meta.insert("toolId".into(), self.tool.into());
        if let Some(spec) = self.spec {
            meta.insert("toolVersion".into(), spec.version.as_str().into());
            meta.insert("registryVersion".into(), self.registry_version.into());
        }
        meta.insert("duration".into(), (self.duration.as_millis() as u64).into());
        meta.insert("responseSchemaVersion".into(), SCHEMA_VERSION.into());
        Value::Object(meta)
    }
}

/// `{ok: true, message?, data, intents, meta}`.
pub fn success(done: &Done, meta: Meta<'_>) -> Value {
    let mut envelope = Map::new();
    envelope.insert("ok".into(), true.into());
    if let Some(message) = &done.message {
        envelope.insert("message".into(), message.as_str().into());
    }
    envelope.insert("data".into(), done.data.clone());
    envelope.insert("intents".into(), done.actions.iter().map(|action| action.intent()).collect());
    envelope.insert("meta".into(), meta.to_json());
    Value::Object(envelope)
}

/// `{ok: false, error: {type, message, retryable, …}, intents: [], meta}`.
pub fn failure(failure: &Failure, meta: Meta<'_>, types: ErrorTypes) -> Value {
    let mut error = Map::new();
    error.insert("type".into(), wire_type(failure.kind, types).into());
    error.insert("message".into(), failure.message.as_str().into());
    error.insert("retryable".into(), failure.retryable.into());
    if failure.partial_side_effects {
        error.insert("partialSideEffects".into(), true.into());
    }
    if !failure.details.is_null() {
        error.insert("details".into(), failure.details.clone());
    }
    if let Some(request) = &failure.confirmation {
        error.insert("confirmation_request".into(), Value::clone(request));
    }
    json!({ "ok": false, "error": error, "intents": [], "meta": meta.to_json() })
}

fn wire_type(kind: ToolError, types: ErrorTypes) -> &'static str {
    match (types, kind) {
        (ErrorTypes::PolicyOnly, ToolError::Timeout) => ToolError::Transient.label(),
        (ErrorTypes::PolicyOnly, ToolError::Deferred | ToolError::Refused) => ToolError::Permanent.label(),
        _ => kind.label(),
    }
}

/// The text that goes to the model: in the configured shape, no more than `limits` allow. What is too
/// long loses `data` and details first, but for small flags, then the end of its message, then what
/// else can be left out; `meta.truncated` says so.
pub fn text(mut envelope: Value, shape: ResultShape, limits: AnswerLimits) -> String {
    let bytes_max = limits.bytes_max.unwrap_or(ANSWER_BYTES_MAX);
    // Where no data is told, the message is what is left of a success.
    let shape = if limits.data { shape } else { ResultShape::Envelope };
    if !limits.data {
        only_flags(&mut envelope, 0);
    }
    let shaped = |envelope: &Value| match shape {
        ResultShape::Envelope => envelope.to_string(),
        ResultShape::Data if envelope["ok"] == true => envelope["data"].to_string(),
        ResultShape::Data => json!({ "error": envelope["error"] }).to_string(),
    };
    let whole = shaped(&envelope);
    if whole.len() <= bytes_max {
        return whole;
    }
    envelope["meta"]["truncated"] = true.into();
    let mut short = whole;
    for shorten in [only_flags, with_short_message, without_extras, without_meta, without_message] {
        shorten(&mut envelope, short.len().saturating_sub(bytes_max));
        short = shaped(&envelope);
        if short.len() <= bytes_max {
            break;
        }
    }
    short
}

fn only_flags(envelope: &mut Value, _: usize) {
    if envelope["ok"] == true {
        envelope["data"] = flags(&envelope["data"]);
    } else if let Some(error) = envelope["error"].as_object_mut() {
        match error.get("details").map(flags) {
            None | Some(Value::Null) => _ = error.remove("details"),
            Some(flags) => error["details"] = flags,
        }
    }
}

/// What steers a conversation and is small: top-level booleans, such as `will_hangup` or `transferred`,
/// and a `status`.
fn flags(data: &Value) -> Value {
    let is_small = |key: &str| {
        key.len() <= FLAG_BYTES_MAX
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    let status = |key: &str, value: &Value| {
        key == "status" && value.as_str().is_some_and(|status| status.len() <= FLAG_BYTES_MAX)
    };
    let Some(data) = data.as_object() else { return Value::Null };
    let status = data.iter().filter(|(key, value)| status(key, value));
    let booleans = data.iter().filter(|(key, value)| value.is_boolean() && is_small(key)).take(FLAGS_MAX);
    let kept: Map<String, Value> = status.chain(booleans).map(|(key, value)| (key.clone(), value.clone())).collect();
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}

fn message(envelope: &mut Value) -> Option<&mut String> {
    let place = if envelope["ok"] == true { "/message" } else { "/error/message" };
    match envelope.pointer_mut(place) {
        Some(Value::String(message)) => Some(message),
        _ => None,
    }
}

/// At most `keep` bytes of whole characters.
fn cut(message: &mut String, keep: usize) {
    let at = (0..=keep.min(message.len())).rev().find(|at| message.is_char_boundary(*at));
    message.truncate(at.unwrap_or(0));
}

/// Takes at least `excess` bytes off the message, where it is that much longer than what is worth
/// keeping. No byte is shorter in JSON.
fn with_short_message(envelope: &mut Value, excess: usize) {
    if let Some(message) = message(envelope) {
        let keep = message.len().saturating_sub(excess).max(MESSAGE_BYTES_KEPT);
        cut(message, keep);
    }
}

/// What is asked of the call is carried out whether the model reads of it or not. A question that is
/// too long to be read cannot be put, and its token goes with it.
fn without_extras(envelope: &mut Value, _: usize) {
    envelope["intents"] = json!([]);
    if let Some(error) = envelope.get_mut("error").and_then(Value::as_object_mut)
        && error.remove("confirmation_request").is_some()
    {
        error.insert("message".into(), "This is too long to be asked about. Make it shorter.".into());
    }
}

/// Names and versions are for those who read logs.
fn without_meta(envelope: &mut Value, _: usize) {
    envelope["meta"] = json!({ "truncated": true });
}

/// What fits into the least that can be configured.
fn without_message(envelope: &mut Value, excess: usize) {
    if envelope["ok"] == true {
        envelope["data"] = Value::Null;
    }
    if let Some(message) = message(envelope) {
        let keep = message.len().saturating_sub(excess);
        cut(message, keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta<'static> {
        Meta { tool: "look_up", spec: None, registry_version: "1.0.00000000", duration: Duration::from_millis(12) }
    }

    fn within(bytes_max: usize) -> AnswerLimits {
        AnswerLimits { bytes_max: Some(bytes_max), data: true }
    }

    /// P26: the full envelope, whatever became of the call.
    #[test]
    fn an_envelope_carries_data_or_error_and_always_intents_and_meta() {
        let done = success(&Done { message: Some("Here.".into()), data: json!([1]), ..Done::default() }, meta());
        assert_eq!(
            done.to_string(),
            r#"{"ok":true,"message":"Here.","data":[1],"intents":[],"meta":{"toolId":"look_up","duration":12,"responseSchemaVersion":"1.0.0"}}"#
        );
        let failed = failure(&Failure::new(ToolError::Timeout, "Late."), meta(), ErrorTypes::Full);
        assert_eq!(failed["error"], json!({ "type": "TIMEOUT", "message": "Late.", "retryable": false }));
        assert_eq!(failed["intents"], json!([]));
    }

    #[test]
    fn a_strict_client_sees_only_the_error_types_of_the_policy() {
        let wire = |kind| failure(&Failure::new(kind, ""), meta(), ErrorTypes::PolicyOnly)["error"]["type"].clone();
        assert_eq!(wire(ToolError::Timeout), "TRANSIENT");
        assert_eq!(wire(ToolError::Deferred), "PERMANENT");
        assert_eq!(wire(ToolError::Refused), "PERMANENT");
        assert_eq!(wire(ToolError::LoopDetected), "LOOP_DETECTED");
    }

    #[test]
    fn an_envelope_that_is_too_long_loses_data_first_and_says_so() {
        let done = Done { message: Some("Found \"it\".".repeat(30)), data: json!("x".repeat(9000)), ..Done::default() };
        let whole = text(success(&done, meta()), ResultShape::Envelope, within(1 << 20));
        assert!(whole.len() > 9000);
        let cut = text(success(&done, meta()), ResultShape::Envelope, within(2048));
        assert!(cut.len() <= 2048, "{}", cut.len());
        let cut: Value = serde_json::from_str(&cut).unwrap();
        assert_eq!((&cut["data"], &cut["meta"]["truncated"]), (&Value::Null, &Value::Bool(true)));
        assert!(cut["message"].as_str().unwrap().starts_with("Found"));
        let tiny = text(success(&done, meta()), ResultShape::Envelope, within(300));
        assert!(tiny.len() <= 300, "{tiny}");
    }

    #[test]
    fn data_alone_can_be_asked_for() {
        let done = Done { data: json!({ "a": 1 }), ..Done::default() };
        assert_eq!(text(success(&done, meta()), ResultShape::Data, within(1000)), r#"{"a":1}"#);
    }

    /// A provider like Gemini Live: 2 KiB, no data.
    const SMALL: AnswerLimits = AnswerLimits { bytes_max: Some(2048), data: false };

    /// As nested and as large as a server likes.
    fn nested() -> Value {
        let deep = (0..40).fold(json!("planted 4711"), |inner, level| json!({ "level": level, "inner": [inner] }));
        let rows: Vec<_> = (0..200).map(|row| json!({ "row": row, "name": "planted 4711", "open": true })).collect();
        json!({
            "rows": rows, "deep": deep, "status": "success", "will_hangup": true, "transferred": false, "count": 200,
            "text": "planted 4711", "nested": { "will_hangup": false },
        })
    }

    /// M23, M24: a provider that data would break is told status, message and flags, and nothing of the data itself,
    /// however small it is.
    #[test]
    fn data_is_not_forwarded_to_a_provider_that_it_would_break() {
        for data in [
            nested(),
            json!({ "text": "planted 4711", "status": "success", "will_hangup": true, "transferred": false }),
        ] {
            let done = Done { message: Some("I found it.".into()), data, ..Done::default() };
            let told = text(success(&done, meta()), ResultShape::Envelope, SMALL);
            assert!(told.len() <= 2048 && !told.contains("4711"), "{told}");
            let told: Value = serde_json::from_str(&told).unwrap();
            assert_eq!((&told["ok"], &told["message"]), (&json!(true), &json!("I found it.")));
            let flags = json!({ "status": "success", "will_hangup": true, "transferred": false });
            assert_eq!((&told["data"], &told["meta"]["truncated"]), (&flags, &Value::Null), "whole, as far as it goes");
        }
    }

    /// M answer 9: 2048 bytes hold status, message, `ok`, error type and flags; the message is what is cut, at the
    /// boundary of a character.
    #[test]
    fn a_long_message_is_cut_and_the_flags_stay() {
        let long = "Grüße aus Köln. ".repeat(400);
        let done = Done { message: Some(long.clone()), data: nested(), ..Done::default() };
        let told = text(success(&done, meta()), ResultShape::Envelope, SMALL);
        assert!((2040..=2048).contains(&told.len()), "{}", told.len());
        let told: Value = serde_json::from_str(&told).unwrap();
        assert!(long.starts_with(told["message"].as_str().unwrap()));
        assert_eq!((&told["data"]["status"], &told["data"]["will_hangup"]), (&json!("success"), &json!(true)));
        assert_eq!(told["meta"]["truncated"], true);
        let failed = Failure { details: nested(), ..Failure::new(ToolError::RateLimit, long.clone()) };
        let told = text(failure(&failed, meta(), ErrorTypes::Full), ResultShape::Envelope, SMALL);
        assert!((2040..=2048).contains(&told.len()) && !told.contains("4711"), "{}", told.len());
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["ok"], &told["error"]["type"]), (&json!(false), &json!("RATE_LIMIT")));
        assert!(long.starts_with(told["error"]["message"].as_str().unwrap()));
    }

    /// M23: only what is small counts as a flag, so that a thousand of them, or names like novels, cannot fill the answer.
    #[test]
    fn flags_are_few_and_small() {
        let mut data: Map<String, Value> = (0..1000).map(|n| (format!("flag_{n}"), json!(true))).collect();
        data.insert("x".repeat(41), json!(true));
        data.insert("\u{1}".repeat(20), json!(true));
        data.insert("status".into(), json!("s".repeat(41)));
        let kept = flags(&Value::Object(data));
        assert_eq!(kept.as_object().unwrap().len(), FLAGS_MAX);
        assert!(kept.get("status").is_none());
        assert_eq!(
            (flags(&json!(["a"])), flags(&json!({ "a": 1 })), flags(&json!(true))),
            (Value::Null, Value::Null, Value::Null)
        );
    }

    /// M24: where data is not told, data alone cannot be asked for: the message is what is left.
    #[test]
    fn without_data_the_envelope_is_told() {
        let done = Done { message: Some("Here.".into()), data: json!({ "a": 1 }), ..Done::default() };
        let told: Value = serde_json::from_str(&text(success(&done, meta()), ResultShape::Data, SMALL)).unwrap();
        assert_eq!((&told["message"], &told["data"]), (&json!("Here."), &Value::Null));
    }

    /// M answer 9: whatever an answer holds, it fits the least size that can be configured, and the message goes last.
    #[test]
    fn the_least_size_holds_every_answer() {
        let long = "\u{1}\"ü".repeat(500);
        let name = "\u{1}".repeat(64);
        let spec = ToolSpec { version: long.clone(), ..ToolSpec::new("look_up", "", json!({})) };
        for data in [true, false] {
            let limits = AnswerLimits { bytes_max: Some(256), data };
            for (tool, spec) in [(name.as_str(), None), ("look_up", Some(&spec))] {
                let meta = Meta { tool, spec, ..meta() };
                let done = Done { message: Some(long.clone()), data: nested(), ..Done::default() };
                let plain = Done { message: Some("Open until six.".into()), ..done.clone() };
                let failed = Failure {
                    details: nested(),
                    partial_side_effects: true,
                    confirmation: Some(Box::new(nested())),
                    ..Failure::new(ToolError::ConfirmationRequired, long.clone())
                };
                for envelope in [success(&done, meta), failure(&failed, meta, ErrorTypes::Full)] {
                    for shape in [ResultShape::Envelope, ResultShape::Data] {
                        let told = text(envelope.clone(), shape, limits);
                        assert!(told.len() <= 256, "{told}");
                    }
                }
                assert!(text(success(&plain, meta), ResultShape::Envelope, limits).contains("Open until six."));
            }
        }
    }
}
