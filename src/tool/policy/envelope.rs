//! The envelope that the model reads (P26), and what becomes of one that is too long.

use super::rules::{ErrorTypes, ResultShape};
use crate::tool::{Done, Failure, ToolError, ToolSpec};
use serde_json::{Map, Value, json};
use std::time::Duration;

const SCHEMA_VERSION: &str = "1.0.0";

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

/// The text that goes to the model: in the configured shape, at most `bytes_max` long. What is too
/// long loses `data` first, then details, then the end of its message, then what else can be left
/// out; `meta.truncated` says so.
pub fn text(mut envelope: Value, shape: ResultShape, bytes_max: usize) -> String {
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
    for shorten in [without_data, with_short_message, without_extras] {
        shorten(&mut envelope, short.len().saturating_sub(bytes_max));
        short = shaped(&envelope);
        if short.len() <= bytes_max {
            break;
        }
    }
    short
}

fn without_data(envelope: &mut Value, _: usize) {
    if envelope["ok"] == true {
        envelope["data"] = Value::Null;
    } else if let Some(error) = envelope["error"].as_object_mut() {
        error.remove("details");
    }
}

/// Takes at least `excess` bytes off the message, where it is that long. No byte is shorter in JSON.
fn with_short_message(envelope: &mut Value, excess: usize) {
    let place = if envelope["ok"] == true { "/message" } else { "/error/message" };
    if let Some(Value::String(message)) = envelope.pointer_mut(place) {
        let keep = message.len().saturating_sub(excess);
        let keep = (0..=keep).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(keep);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta<'static> {
        Meta { tool: "look_up", spec: None, registry_version: "1.0.00000000", duration: Duration::from_millis(12) }
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
        let whole = text(success(&done, meta()), ResultShape::Envelope, 1 << 20);
        assert!(whole.len() > 9000);
        let cut = text(success(&done, meta()), ResultShape::Envelope, 2048);
        assert!(cut.len() <= 2048, "{}", cut.len());
        let cut: Value = serde_json::from_str(&cut).unwrap();
        assert_eq!((&cut["data"], &cut["meta"]["truncated"]), (&Value::Null, &Value::Bool(true)));
        assert!(cut["message"].as_str().unwrap().starts_with("Found"));
        let tiny = text(success(&done, meta()), ResultShape::Envelope, 300);
        assert!(tiny.len() <= 300, "{tiny}");
    }

    #[test]
    fn data_alone_can_be_asked_for() {
        let done = Done { data: json!({ "a": 1 }), ..Done::default() };
        assert_eq!(text(success(&done, meta()), ResultShape::Data, 1000), r#"{"a":1}"#);
    }
}
