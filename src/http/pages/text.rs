//! Every word of the pages, in English. Another language is another file like this one.

pub mod contexts;
pub mod operations;
pub mod servers;
pub mod tools;

use crate::records::{Event, party_named};
use axum::http::StatusCode;
use serde_json::{Map, Value};

pub const LANGUAGE: &str = "en";

pub const NAVIGATION: &str = "Main";
pub const SKIP: &str = "Skip to the content";
pub const ROLE: &str = "Your account and its role";
pub const LOG_OUT: &str = "Log out";
pub const NOT_HERE: &str = "Nothing to see here";
pub const NOT_DONE: &str = "This did not work";
pub const TO_LIVE: &str = "Calls as they happen";

pub const LOG_IN: &str = "Log in";
pub const NAME: &str = "Name";
pub const PASSWORD: &str = "Password";
pub const FIRST_TIME: &str = "First time here?";
pub const FIRST_TIME_HELP: &str = "At its first start the engine made the account admin; in a terminal it printed the password, once. Whoever has none makes one with:";
pub const FIRST_TIME_WHERE: &str = "On the engine's machine, in the folder where it was started.";
pub const LOG_IN_WRONG: &str = "This name and password do not belong together.";
pub const LOG_IN_TOO_MANY: &str = "Too many attempts. Wait a minute, then try again.";
pub const LOG_IN_BUSY: &str = "Too many people log in at this moment. Try again.";
pub const LOG_IN_INCOMPLETE: &str = "The form was not complete. Try again.";

pub const LIVE: &str = "Live";
pub const HISTORY: &str = "History";
pub const READY: &str = "Ready for calls";
pub const NOT_READY: &str = "Not ready";
pub const CHECKS: &str = "Readiness";
pub const RUNNING: &str = "On the line";
pub const NOBODY: &str = "Nobody is on the line.";
pub const BEFORE: &str = "Those before";
pub const AFTER: &str = "Those after";
pub const ENDED: &str = "Just ended";
pub const NONE_ENDED: &str = "No call has ended since the engine started.";
pub const RELOAD: &str = "Load again";
pub const NO_SCRIPT: &str = "Without scripts this page stands still.";
pub const UPDATING: &str = "Updating";
pub const LOST: &str = "Connection lost, trying again";
pub const LOGGED_OUT: &str = "Your session has ended.";

pub const CALL: &str = "Call";
pub const SINCE: &str = "Since";
pub const BEGAN: &str = "Began";
pub const LASTED: &str = "Lasted";
pub const CONTEXT: &str = "Context";
pub const PROVIDER: &str = "Provider";
pub const STATE: &str = "State";
pub const FLOOR: &str = "Who speaks";
pub const TURNS: &str = "Turns";
pub const BARGE_INS: &str = "Interruptions";
pub const TOOLS: &str = "Tools";
pub const KEYS: &str = "Keys";
pub const WHY: &str = "Why it ended";
pub const COST: &str = "Cost";
pub const CALLER: &str = "Caller";
pub const DIALLED: &str = "Dialled";
pub const ACTION: &str = "Action";
pub const DIRECTION: &str = "Direction";

pub const HANG_UP: &str = "Hang up";
pub const HANG_UP_ASK: &str = "Hang up this call?";
pub const HANG_UP_HELP: &str = "The caller is cut off at once, without a word of goodbye.";
pub const HANG_UP_NOW: &str = "Hang up now";
pub const HAS_ENDED: &str = "This call has ended.";
pub const OVER: &str = "ended";
pub const SEE_RECORD: &str = "See its record";
pub const NOT_RUNNING: &str = "This call is not running, and no record of it is kept.";
pub const WHAT_HAPPENS: &str = "What happens";
pub const NO_WORDS: &str = "What is said is shown to operators only.";

pub const SEARCH: &str = "Search";
pub const CLEAR: &str = "Clear";
pub const WHEN: &str = "When";
pub const TODAY: &str = "Today";
pub const YESTERDAY: &str = "Yesterday";
pub const LAST_DAY: &str = "Last 24 hours";
pub const LAST_WEEK: &str = "Last 7 days";
pub const NOT_AS_IT_SHOULD: &str = "Not as it should";
pub const FROM: &str = "From";
pub const TO: &str = "To";
pub const REASON: &str = "Reason";
pub const ANY: &str = "Any";
pub const NUMBER: &str = "Number, or its end";
pub const WORDS: &str = "Words that were said";
pub const CALLS: &str = "Calls";
pub const EXPORT: &str = "Export";
pub const CSV: &str = "CSV";
pub const JSON: &str = "JSON";
pub const NEXT: &str = "Older calls";
pub const NEWEST: &str = "Newest calls";
pub const NO_CALLS: &str = "No calls match.";
pub const NO_RECORDS: &str = "No records are kept";
pub const NO_RECORDS_HELP: &str =
    "With a section records in its configuration, offhook keeps what happened in each call:";
pub const PER_HOUR: &str = "Calls per hour";
pub const PER_DAY: &str = "Cost per day";
pub const LAST_3_DAYS: &str = "the last three days";
pub const LAST_30_DAYS: &str = "the last thirty days";
pub const AS_TABLE: &str = "As a table";
pub const HOUR: &str = "Hour";
pub const DAY: &str = "Day";
pub const NO_PRICE: &str = "Nothing with a price in this time.";
pub const NOTHING_YET: &str = "No calls in this time.";

pub const TIMELINE: &str = "The call on a time axis";
pub const AGENT: &str = "Agent";
pub const EVENTS: &str = "Events";
pub const BARGE_IN: &str = "interruption";
pub const TROUBLE: &str = "trouble";
pub const FALSE_ALARM: &str = "false alarm";
pub const TRANSCRIPT: &str = "What happened";
pub const NOTHING_TOLD: &str = "Nothing is kept of what happened.";
pub const WATERFALL: &str = "How long the caller waited";
pub const NO_TURNS: &str = "The agent answered nothing.";
pub const NOTHING_ASKED: &str = "The caller said nothing that could be answered.";
pub const ENDED_FIRST: &str = "The call ended before the agent had answered.";
pub const NOT_KNOWN: &str = "How it went is not known.";
pub const GREETING: &str = "the greeting";
pub const ENDED_BEFORE: &str = "the call ended before an answer";
pub const NO_ANSWER: &str = "no answer of its own";
pub const TRANSFER: &str = "Transfer";
pub const TRANSFER_TO: &str = "Send the caller to";
pub const TRANSFER_HELP: &str = "The agent finishes speaking first. Where nobody answers, the caller comes back to it; but a place in the \
                                 dialplan keeps its callers, whatever becomes of them there.";
/// Follows the description of a place in the dialplan.
pub const FOR_GOOD: &str = " (in the dialplan, for good)";
pub const TRANSFER_NOW: &str = "Transfer now";
pub const WRITTEN: &str = "in writing";
pub const WRITE: &str = "What the caller says";
pub const WRITE_HELP: &str =
    "The agent answers as on the telephone: in its own time, with tools that act, at its price.";
pub const SEND: &str = "Send";
pub const NOT_SENT: &str = "It was not sent; try again.";
pub const LEVELS: &str = "Levels";
pub const LISTEN: &str = "Listen in";
pub const LISTEN_HELP: &str = "Secret digits are silent. That you listen is in the log.";
pub const RECORDING: &str = "Recording of this call";
pub const SIDES: &str = "Left: caller. Right: what the caller heard.";
pub const DRAWN: &str = "How loud the caller (above) and the agent (below) were";
pub const UNDRAWN: &str = "The recording cannot be drawn";
pub const NO_SOUND: &str = "The recording of this call is not there any more.";
pub const DOWNLOAD: &str = "Download";
pub const PLAY_FROM: &str = "Play from";
pub const LOST_SOUND: &str = "Lost, and silent here:";
pub const STAGES: [&str; 4] = ["end of turn", "thinking", "first audio", "until heard"];
pub const TURN: &str = "Turn";
pub const WAITED: &str = "Waited";
pub const WITH_TOOLS: &str = "with tools";
pub const WITH_FILLER: &str = "with a filler";
pub const TOOL_LOG: &str = "Tools";
pub const NO_TOOLS: &str = "No tool was called.";
pub const USAGE: &str = "What it used";
pub const CONNECTED: &str = "Connected";
pub const TOKENS: &str = "Tokens";
pub const TRANSCRIBED: &str = "Transcribed";
pub const UNPRICED: &str = "without a price";
pub const DELETE: &str = "Delete this record";
pub const DELETE_HELP: &str = "Everything that is kept of this call is deleted, for good.";
pub const DELETE_NOW: &str = "Delete for good";
pub const GONE: &str = "No record of this call is kept.";
pub const NOT_YET: &str = "This call has just ended; its record is being written.";
pub const LEFT_OUT: &str = "more are not kept: there is a limit for one call.";
pub const GENERATION: &str = "Configuration";
pub const AUDIO: &str = "Audio";
pub const CAMPAIGN: &str = "Campaign";
pub const LEAD: &str = "Lead";
pub const FRAMES: &str = "Frames dropped";

/// Of a recording.
pub fn cut(there: &str, whole: &str) -> String {
    format!("The recording was cut off: {there} of {whole} are there.")
}

/// The zone of every time on the pages: its name and how it is shortened.
pub fn times(zone: Option<&str>, short: &str) -> String {
    match zone {
        Some(zone) if zone != short => format!("Times are in the engine's zone: {zone} ({short})"),
        _ => format!("Times are in the engine's zone: {short}"),
    }
}

/// As the checks are called in `/ready`.
pub fn check(name: &str) -> &str {
    match name {
        "ari" => "Asterisk",
        "media" => "Media",
        "providers" => "Providers",
        "accepting" => "New calls",
        other => other,
    }
}

pub fn running(calls: usize) -> String {
    match calls {
        0 => NOBODY.into(),
        1 => "1 call".into(),
        calls => format!("{calls} calls"),
    }
}

/// Which of all calls are shown.
pub fn part(from: usize, to: usize, all: usize) -> String {
    format!("{from}–{to} of {all}, the longest first")
}

pub fn count(calls: f64) -> String {
    if calls == 1.0 { "1 call".into() } else { format!("{} calls", (calls * 10.0).round() / 10.0) }
}

pub fn phase(phase: &str) -> &str {
    match phase {
        "connecting" => "connecting",
        "talking" => "talking",
        "leaving" => "leaving",
        "on_hold" => "on hold",
        other => other,
    }
}

pub fn floor(floor: &str) -> &str {
    match floor {
        "caller" => "caller",
        "agent" => "agent",
        "both" => "both",
        _ => "–",
    }
}

pub fn class(class: &str) -> &str {
    match class {
        "normal" => "as it should",
        "limit" => "a limit",
        "operator" => "the operator",
        "provider" => "the provider",
        "asterisk" => "Asterisk",
        "engine" => "offhook",
        other => other,
    }
}

/// A sentence of the engine's begins in the middle of a line.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What is wrong, where only the status says it.
pub fn wrong(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => "What was sent is too long.",
        status if status.is_client_error() => LOG_IN_INCOMPLETE,
        _ => "The engine could not answer. The log says why.",
    }
}

/// What happened, and of what kind it is; `None`: of no interest in a list, though on the time axis.
pub fn event(event: &Event) -> Option<(&'static str, String)> {
    Some(match event {
        Event::Answered => ("plain", "The call is answered.".into()),
        Event::BargeIn { heard_ms } => {
            ("barge-in", format!("The caller interrupts; {} of the answer were heard.", seconds(*heard_ms)))
        }
        Event::Key => ("plain", "The caller presses a key.".into()),
        Event::Tool { audit } => return Some(("tool", tool(audit))),
        Event::Confirmed { answer } => ("plain", format!("Asked whether a tool may run, the caller says {answer}.")),
        Event::Sentence { purpose } => ("plain", format!("offhook itself says a sentence ({purpose}).")),
        Event::FalseAlarm { why } => ("false-alarm", format!("A sound of the caller was no interruption ({why}).")),
        Event::HalfDuplex { on: true } => {
            ("trouble", "The line's echo is too heavy for interruptions by voice.".into())
        }
        Event::HalfDuplex { on: false } => ("plain", "The line's echo is gone.".into()),
        Event::Held { on: true } => ("plain", "The caller puts the call on hold; the agent waits.".into()),
        Event::Held { on: false } => ("plain", "The caller takes the call up again.".into()),
        Event::PartyChanged { number, name } => {
            let party = match party_named(number.as_deref(), name.as_deref()) {
                unknown if unknown.is_empty() => unknown,
                party => format!(" ({party})"),
            };
            ("plain", format!("Another person{party} takes the caller's place."))
        }
        Event::PartyKnown { number: None, name: None } => return None,
        Event::PartyKnown { number, name } => {
            let party = party_named(number.as_deref(), name.as_deref());
            ("plain", format!("The person in the caller's place is known: {party}."))
        }
        Event::PathReplaced { why } => {
            ("trouble", format!("The audio path broke ({why}); another one took its place."))
        }
        Event::Dialling { why } => ("trouble", format!("Another session is dialled ({why}).")),
        Event::ProviderRefused { provider, status } => {
            ("trouble", format!("{provider} refuses with HTTP status {status}."))
        }
        Event::TookOver { provider, .. } => ("plain", format!("It goes on with {provider}.")),
        Event::HandedOff { context } => ("plain", format!("The call is handed to {context}.")),
        Event::NoInput => ("plain", "The caller is asked whether they are there.".into()),
        Event::Failing { reason } => ("trouble", format!("Failing: {}.", reason.replace('_', " "))),
        Event::Recording { state } => ("plain", recording(state).into()),
        Event::Transferring { to, voicemail, by, account } => {
            let place = if *voicemail { format!("the mailbox {to}") } else { to.clone() };
            ("plain", format!("{} sends the caller to {place}.", initiator(by, account.as_deref())))
        }
        Event::Transferred => ("plain", "The caller was handed over.".into()),
        Event::HungUp { account } => ("plain", format!("The operator {account} hangs up.")),
        Event::NotGranted { variable, why } => {
            ("trouble", format!("The dialplan's {variable}: {why}; the call goes on without it."))
        }
        Event::TransferFailed { reason, cause } => ("trouble", transfer_failed(reason, *cause)),
        Event::Said { .. }
        | Event::AgentReady
        | Event::AgentSpeaks
        | Event::AgentFinished
        | Event::CallerSpeaks
        | Event::CallerFinished
        | Event::Typed => return None,
    })
}

fn transfer_failed(reason: &str, cause: Option<u32>) -> String {
    let reason = reason.replace('_', " ");
    match cause {
        None => format!("The transfer failed: {reason}."),
        Some(cause) => format!("The transfer failed: {reason}. The place hung up on the caller (Q.850 cause {cause})."),
    }
}

/// Cause of a transfer.
fn initiator(by: &str, account: Option<&str>) -> String {
    match (by, account) {
        ("agent", _) => "The agent".into(),
        ("operator", Some(account)) => format!("The operator {account}"),
        ("on_failure", _) => "The agent is lost: on_failure".into(),
        ("menu", _) => "The agent is lost: the caller's key".into(),
        (other, _) => sentence(other),
    }
}

/// What of the sound may be kept from here on.
fn recording(state: &str) -> &'static str {
    match state {
        "on" => "The recording is on.",
        "notice" => "The recording begins with the notice.",
        "private" => "The recording is paused: secret digits.",
        "discarded" => "The caller does not want it: the recording is deleted.",
        _ => "The recording is off.",
    }
}

fn tool(audit: &Map<String, Value>) -> String {
    let text = |key: &str| audit.get(key).and_then(Value::as_str);
    let name = text("toolId").unwrap_or("unknown");
    let took = audit.get("duration").and_then(Value::as_u64).unwrap_or(0);
    match text("errorType") {
        Some(error) => format!("Tool {name}: {}.", error.to_lowercase().replace('_', " ")),
        None => format!("Tool {name}, done in {}.", seconds(took)),
    }
}

/// Of a file.
pub fn line(number: usize) -> String {
    format!("line {number}:")
}

pub fn seconds(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1_000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_person_in_the_caller_s_place_is_named_as_far_as_they_are_known() {
        let told = |event: Event| super::event(&event).map(|(_, text)| text);
        let (number, name) = (Some("2025550111".to_owned()), Some("Carol".to_owned()));
        let changed = |number: &Option<String>, name: &Option<String>| {
            told(Event::PartyChanged { number: number.clone(), name: name.clone() }).unwrap()
        };
        assert_eq!(changed(&None, &None), "Another person takes the caller's place.");
        assert_eq!(changed(&number, &name), "Another person (Carol, 2025550111) takes the caller's place.");
        let known = told(Event::PartyKnown { number, name: None });
        assert_eq!(known.as_deref(), Some("The person in the caller's place is known: 2025550111."));
        assert_eq!(told(Event::PartyKnown { number: None, name: None }), None);
    }
}
