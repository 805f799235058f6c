//! The built-in tools that act on the call itself. They decide nothing: each turns its arguments
//! into a [`CallAction`], which the call core carries out after the agent's last words were heard.

use super::{
    After, Approved, COLLECT_DIGITS, CallAction, REQUEST_TRANSCRIPT, TAKE_MESSAGE, Tool, ToolOutcome, ToolSpec,
    VERIFY_PIN, caller,
};
use crate::facts::CallFacts;
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

pub const HANGUP_CALL: &str = "hangup_call";
pub const TRANSFER: &str = "transfer";
pub const SEND_DTMF: &str = "send_dtmf";
pub const STOP_RECORDING: &str = "stop_recording";
pub const LEAVE_VOICEMAIL: &str = "leave_voicemail";
/// Runs where ARI is (`asterisk::extension_status`).
pub const CHECK_EXTENSION_STATUS: &str = "check_extension_status";
/// Names of all built-in tools.
pub const BUILT_IN: [&str; 10] = [
    HANGUP_CALL,
    TRANSFER,
    SEND_DTMF,
    COLLECT_DIGITS,
    VERIFY_PIN,
    LEAVE_VOICEMAIL,
    CHECK_EXTENSION_STATUS,
    TAKE_MESSAGE,
    REQUEST_TRANSCRIPT,
    STOP_RECORDING,
];
/// Those that are not offered in calls that came by `AudioSocket()`.
pub const NEEDS_ARI: [&str; 4] = [TRANSFER, SEND_DTMF, LEAVE_VOICEMAIL, CHECK_EXTENSION_STATUS];

/// The built-in tool of this name that needs no more than this; `destinations` are names with what the
/// model reads about them.
pub fn built_in(name: &str, destinations: &BTreeMap<String, String>) -> Option<Arc<dyn Tool>> {
    match name {
        HANGUP_CALL => Some(Arc::new(HangupCall)),
        TRANSFER => Some(Arc::new(Transfer { destinations: destinations.clone() })),
        SEND_DTMF => Some(Arc::new(SendDtmf)),
        COLLECT_DIGITS => Some(caller::collect_digits()),
        STOP_RECORDING => Some(Arc::new(StopRecording)),
        VERIFY_PIN => Some(caller::verify_pin()),
        _ => None,
    }
}

/// `mailboxes` are names with what the model reads about them.
pub fn leave_voicemail(mailboxes: BTreeMap<String, String>) -> Arc<dyn Tool> {
    Arc::new(LeaveVoicemail { mailboxes })
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

struct LeaveVoicemail {
    mailboxes: BTreeMap<String, String>,
}

impl Tool for LeaveVoicemail {
    fn spec(&self) -> ToolSpec {
        let list: Vec<String> =
            self.mailboxes.iter().map(|(name, description)| format!("{name}: {description}")).collect();
        ToolSpec::on_the_call(
            LEAVE_VOICEMAIL,
            format!(
                "Send the caller to a voicemail box, where they speak a message after a tone. Tell the caller first; \
                 the box answers after your words were heard. Mailboxes: {}.",
                list.join("; ")
            ),
            json!({
                "type": "object",
                "properties": {
                    "mailbox": { "type": "string", "enum": self.mailboxes.keys().collect::<Vec<_>>() }
                },
                "required": ["mailbox"],
                "additionalProperties": false
            }),
        )
    }

    fn run(&self, call: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let mailbox = call.arguments().get("mailbox").and_then(Value::as_str).unwrap_or_default().to_owned();
        let outcome = ToolOutcome::act(
            "The voicemail box answers after your words. If you have not told the caller, tell them now.",
            CallAction::Voicemail { mailbox },
        );
        std::future::ready(outcome).boxed()
    }
}

struct SendDtmf;

impl Tool for SendDtmf {
    fn spec(&self) -> ToolSpec {
        ToolSpec::on_the_call(
            SEND_DTMF,
            "Press telephone keys for the other end of the line to hear, for instance in a menu: digits, * and #; \
             w is a pause of half a second.",
            json!({
                "type": "object",
                "properties": { "digits": { "type": "string", "pattern": "^[0-9*#A-Dw]{1,32}$" } },
                "required": ["digits"],
                "additionalProperties": false
            }),
        )
    }

    fn run(&self, call: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let digits = call.arguments().get("digits").and_then(Value::as_str).unwrap_or_default().to_owned();
        let outcome = ToolOutcome::act("The keys are being pressed.", CallAction::SendDigits { digits });
        std::future::ready(outcome).boxed()
    }
}

struct StopRecording;

impl Tool for StopRecording {
    fn spec(&self) -> ToolSpec {
        ToolSpec::on_the_call(
            STOP_RECORDING,
            "Stop the recording of this call and delete what was recorded so far. Use it as soon as the caller does not \
             want to be recorded; it cannot be begun again.",
            json!({ "type": "object", "properties": {}, "additionalProperties": false }),
        )
    }

    fn run(&self, _: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let outcome = ToolOutcome::act("Nothing of this call is recorded any more.", CallAction::StopRecording);
        std::future::ready(outcome).boxed()
    }
}
