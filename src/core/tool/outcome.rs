//! What became of a call, and what it asks of the call it was made in.

use super::{error::ToolError, memory::Change};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What a tool answers.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    Done(Done),
    Failed(Failure),
    /// The caller is asked for digits; the call core makes the outcome when they are there.
    Collect(DigitPlan),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Done {
    /// One or two speakable sentences.
    pub message: Option<String>,
    pub data: Value,
    pub actions: Vec<CallAction>,
    /// Written to the call's memory when the outcome is settled.
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub kind: ToolError,
    pub message: String,
    /// The same call may work later.
    pub retryable: bool,
    /// Something may have been done all the same.
    pub partial_side_effects: bool,
    /// For the model: never a secret, never a caller's number.
    pub details: Value,
    /// What a failed run keeps (`on_error: continue`).
    pub changes: Vec<Change>,
    /// What the caller is asked before the same call may run (P15).
    pub confirmation: Option<Box<Value>>,
}

/// What a tool asks of the call itself. Applied only when the tool worked (P20).
#[derive(Debug, Clone, PartialEq)]
pub enum CallAction {
    /// After the agent's last words were heard; `Immediate` cuts them short.
    EndCall { after: After, reason: String, closing: Option<String> },
    /// The agent is not heard until its turn ends.
    HoldAudio(bool),
    /// The turn's words are not kept.
    HideTranscript(bool),
    /// The agent is told to say this next.
    SayNextTurn { message: String },
    /// Another context takes the call over.
    Handoff { target: String, message: Option<String>, context_passed: Vec<String> },
    /// After the agent's last words were heard.
    Transfer { destination: String },
    /// Press keys for whoever is at the other end.
    SendDigits { digits: String },
    /// The caller is sent to a mailbox of Asterisk.
    Voicemail { mailbox: String },
    /// A message for a person, sent after the call.
    TakeMessage(Message),
    /// The transcript is sent by mail after the call.
    SendTranscript { to: Option<String> },
    /// The caller does not want to be recorded: nothing of the call is kept as sound.
    StopRecording,
    /// The caller is asked in these very words, which the agent need not say.
    Ask { question: String },
    /// A flag of the workflow.
    Flag { name: String, value: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum After {
    #[default]
    CurrentTurn,
    Immediate,
}

/// What a caller leaves for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Name of the configured mailbox; `None`: the context's own.
    pub to: Option<String>,
    pub text: crate::redact::Redacted<String>,
    pub callback: crate::redact::Redacted<Option<String>>,
}

/// How digits are asked of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigitPlan {
    /// What the agent says to ask for them, without how they end. Nothing for a PIN, which is asked for by the engine's own sentence.
    pub prompt: Option<String>,
    pub min: usize,
    pub max: usize,
    /// The key that ends the entry.
    pub terminator: Option<char>,
    /// From the prompt's end, and again after every key.
    pub timeout: Duration,
    pub purpose: DigitPurpose,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DigitPurpose {
    /// The model is told the digits.
    Plain,
    /// The model is told a handle; the digits reach tools alone.
    Secure,
    /// Compared with the caller's PIN here; the model is told whether they agree.
    Pin,
}

impl ToolOutcome {
    pub fn done(message: impl Into<String>, data: Value) -> Self {
        Self::Done(Done { message: Some(message.into()), data, ..Done::default() })
    }

    /// Worked, and asks something of the call.
    pub fn act(message: impl Into<String>, action: CallAction) -> Self {
        Self::Done(Done { message: Some(message.into()), actions: vec![action], ..Done::default() })
    }

    pub fn failed(kind: ToolError, message: impl Into<String>) -> Self {
        Self::Failed(Failure::new(kind, message))
    }

    /// Why it did not work; `None` when it did.
    pub const fn error(&self) -> Option<ToolError> {
        match self {
            Self::Done(_) | Self::Collect(_) => None,
            Self::Failed(failure) => Some(failure.kind),
        }
    }
}

impl Failure {
    pub fn new(kind: ToolError, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retryable: kind == ToolError::ConfirmationRequired,
            partial_side_effects: kind == ToolError::Internal,
            details: Value::Null,
            changes: Vec::new(),
            confirmation: None,
        }
    }
}

impl CallAction {
    /// The intent as the envelope carries it (P28 and those that offhook adds).
    pub fn intent(&self) -> Value {
        match self {
            Self::EndCall { after, reason, closing } => json!({
                "type": "END_VOICE_SESSION",
                "after": after.label(),
                "data": { "reason": reason, "finalMessage": closing },
            }),
            Self::HoldAudio(value) => json!({ "type": "SUPPRESS_AUDIO", "value": value }),
            Self::HideTranscript(value) => json!({ "type": "SUPPRESS_TRANSCRIPT", "value": value }),
            Self::SayNextTurn { message } => json!({ "type": "SET_PENDING_MESSAGE", "message": message }),
            Self::Handoff { target, message, context_passed } => {
                json!({ "type": "HANDOFF", "target": target, "message": message, "context_passed": context_passed })
            }
            Self::Transfer { destination } => json!({ "type": "TRANSFER", "destination": destination }),
            Self::SendDigits { .. } => json!({ "type": "SEND_DTMF" }),
            Self::Voicemail { mailbox } => json!({ "type": "VOICEMAIL", "mailbox": mailbox }),
            Self::TakeMessage(_) => json!({ "type": "TAKE_MESSAGE" }),
            Self::SendTranscript { .. } => json!({ "type": "SEND_TRANSCRIPT" }),
            Self::StopRecording => json!({ "type": "STOP_RECORDING" }),
            Self::Ask { .. } => json!({ "type": "ASK" }),
            Self::Flag { name, value } => json!({ "type": "FLAG", "flag": name, "value": value }),
        }
    }

    /// Reads an intent of a tool that others wrote. `Ok(None)`: an intent that offhook does not know.
    ///
    /// # Errors
    /// It is no object, or has no `type` (the tool's answer is broken).
    pub fn from_intent(intent: &Value) -> Result<Option<Self>, &'static str> {
        let object = intent.as_object().ok_or("an intent has to be an object")?;
        let kind = object.get("type").and_then(Value::as_str).ok_or("an intent needs a type")?;
        let text = |object: &Map<String, Value>, key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let flag = || object.get("value").and_then(Value::as_bool).unwrap_or(true);
        Ok(match kind {
            "END_VOICE_SESSION" => {
                let empty = Map::new();
                let data = object.get("data").and_then(Value::as_object).unwrap_or(&empty);
                Some(Self::EndCall {
                    after: match object.get("after").and_then(Value::as_str) {
                        Some("immediate") => After::Immediate,
                        _ => After::CurrentTurn,
                    },
                    reason: text(data, "reason").unwrap_or_else(|| "user_requested".into()),
                    closing: text(data, "finalMessage"),
                })
            }
            "SUPPRESS_AUDIO" => Some(Self::HoldAudio(flag())),
            "SUPPRESS_TRANSCRIPT" => Some(Self::HideTranscript(flag())),
            "SET_PENDING_MESSAGE" => text(object, "message").map(|message| Self::SayNextTurn { message }),
            "TRANSFER" => text(object, "destination").map(|destination| Self::Transfer { destination }),
            "FLAG" => text(object, "flag").map(|name| Self::Flag { name, value: flag() }),
            "HANDOFF" => text(object, "target").map(|target| Self::Handoff {
                target,
                message: text(object, "message"),
                context_passed: Vec::new(),
            }),
            _ => None,
        })
    }
}

impl After {
    pub const fn label(self) -> &'static str {
        match self {
            Self::CurrentTurn => "current_turn",
            Self::Immediate => "immediate",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(intent: Value) -> CallAction {
        CallAction::from_intent(&intent).unwrap().unwrap()
    }

    /// P20: what an intent to end the call leaves unsaid: after the current turn, because the caller wished it,
    /// without last words.
    #[test]
    fn an_end_that_says_nothing_more_is_after_the_turn_and_the_callers_wish() {
        let end = |after, reason: &str, closing: Option<&str>| CallAction::EndCall {
            after,
            reason: reason.to_owned(),
            closing: closing.map(str::to_owned),
        };
        let bare = end(After::CurrentTurn, "user_requested", None);
        assert_eq!(read(json!({ "type": "END_VOICE_SESSION" })), bare);
        assert_eq!(read(json!({ "type": "END_VOICE_SESSION", "after": null, "data": {} })), bare);
        let data = json!({ "reason": "task_complete", "finalMessage": "Bye." });
        let said = json!({ "type": "END_VOICE_SESSION", "after": "immediate", "data": data });
        assert_eq!(read(said), end(After::Immediate, "task_complete", Some("Bye.")));
    }

    /// P27, P28: the intents of the document are actions on the call; a switch without a value is switched on.
    #[test]
    fn intents_are_actions_on_the_call() {
        assert_eq!(read(json!({ "type": "SUPPRESS_AUDIO" })), CallAction::HoldAudio(true));
        assert_eq!(read(json!({ "type": "SUPPRESS_AUDIO", "value": false })), CallAction::HoldAudio(false));
        assert_eq!(read(json!({ "type": "SUPPRESS_TRANSCRIPT", "value": "yes" })), CallAction::HideTranscript(true));
        let message = CallAction::SayNextTurn { message: "More?".into() };
        assert_eq!(read(json!({ "type": "SET_PENDING_MESSAGE", "message": "More?" })), message);
        assert_eq!(CallAction::from_intent(&json!({ "type": "DANCE" })), Ok(None), "unknown ones are left out");
        assert!(CallAction::from_intent(&json!({ "value": true })).is_err());
        assert!(CallAction::from_intent(&json!("END_VOICE_SESSION")).is_err());
    }

    /// P4: the vocabulary that the document names: what an intent is called on its way out is read on its way in,
    /// and each of the error types is known.
    #[test]
    fn the_words_of_the_document_are_the_words_on_the_wire() {
        let end = CallAction::EndCall { after: After::Immediate, reason: "done".into(), closing: None };
        let next = CallAction::SayNextTurn { message: "More?".into() };
        for (action, kind) in [
            (end, "END_VOICE_SESSION"),
            (CallAction::HoldAudio(false), "SUPPRESS_AUDIO"),
            (CallAction::HideTranscript(true), "SUPPRESS_TRANSCRIPT"),
            (next, "SET_PENDING_MESSAGE"),
        ] {
            assert_eq!(action.intent()["type"], kind);
            assert_eq!(read(action.intent()), action);
        }
        for word in [
            "VALIDATION",
            "NOT_FOUND",
            "INTERNAL",
            "MODE_RESTRICTED",
            "BUDGET_EXCEEDED",
            "CONFIRMATION_REQUIRED",
            "SESSION_INACTIVE",
            "TRANSIENT",
            "PERMANENT",
            "RATE_LIMIT",
            "AUTH",
            "CONFLICT",
            "LOOP_DETECTED",
        ] {
            assert_eq!(ToolError::parse(word).map(ToolError::label), Some(word));
        }
    }
}
