//! One call, as it is kept. The fields' names are what exports show, so they stay.

use crate::{
    call::EndReason,
    facts::{CallId, Direction},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt};

/// What is kept of one call. It holds words and numbers of a caller: nothing of it belongs into a log.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    pub id: CallId,
    pub began: Timestamp,
    /// From the first ring to the end.
    pub seconds: f64,
    pub direction: Direction,
    /// The numbers and the name are not kept where `records.numbers` is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_number: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialled_number: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lead_id: Option<String>,
    /// Who had the call when it ended.
    pub context: String,
    pub provider: String,
    /// Of the configuration that the call began with.
    pub generation: u64,
    pub transport: String,
    pub format: String,
    pub reason: Ending,
    pub counts: Counts,
    pub turns: Vec<Turn>,
    /// What happened, in order.
    pub entries: Vec<Entry>,
    /// Turns and entries beyond what is kept of one call.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// By provider; more than one where the call was handed on.
    pub usage: Vec<Used>,
    /// What was reported in each turn of the caller's, tokens and transcriptions; that of the greeting is in turn 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn_usage: Vec<TurnUsed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recorded>,
}

/// The sound of a call, in the folder `recordings` beside the archive: the caller on the left, what the caller heard on
/// the right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    pub file: String,
    /// When its first sample was heard, since the call began.
    pub began_ms: u64,
    pub seconds: f64,
    /// Seconds that are silent because they were lost, by why; none: it is whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost_seconds: BTreeMap<String, f64>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why a call ended, as [`EndReason`] says it. An archive can hold reasons of other versions, so these are texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    pub label: String,
    pub class: String,
    pub description: String,
}

/// See [`Ending::killed`].
pub(super) const KILLED: &str = "engine_killed";

impl Ending {
    /// Every one that a record of this version can have.
    pub fn all() -> Vec<Self> {
        EndReason::all().into_iter().map(Self::from).chain([Self::transfer_failed(), Self::killed()]).collect()
    }

    /// End of a call whose caller was transferred, and was hung up on. It is known only when the call has ended.
    pub fn transfer_failed() -> Self {
        let description = "the caller was sent to a place of the dialplan, which hung up on them with an error before anybody took them";
        Self { label: "transfer_failed".into(), class: "asterisk".into(), description: description.into() }
    }

    /// Of a call whose end nobody could write down.
    pub fn killed() -> Self {
        let description =
            "the engine was killed, or its machine failed, while the call stood; how it went is not known";
        Self { label: KILLED.into(), class: "engine".into(), description: description.into() }
    }
}

impl From<EndReason> for Ending {
    fn from(reason: EndReason) -> Self {
        let class = reason.class().label().to_owned();
        Self { label: reason.label().to_owned(), class, description: reason.describe().to_owned() }
    }
}

/// Fact that became known of a call after its record was kept: the place that the caller was sent to hung up on them. The amendment holds
/// nothing private.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Amendment {
    pub id: CallId,
    /// Since the call began.
    pub at_ms: u64,
    pub reason: String,
    /// Q.850.
    pub cause: u32,
}

impl Record {
    pub(super) fn amend(&mut self, amendment: &Amendment) {
        let Amendment { at_ms, reason, cause, .. } = amendment.clone();
        let failed = Entry { at_ms, event: Event::TransferFailed { reason, cause: Some(cause) } };
        // It was told already where the engine was killed before its file was removed.
        if self.entries.last() != Some(&failed) {
            self.entries.push(failed);
        }
        if self.reason == Ending::from(EndReason::Transferred) {
            self.reason = Ending::transfer_failed();
        }
    }
}

/// How a call went so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Answers of the agent, the greeting included.
    pub agent_turns: u32,
    /// Answers that the caller interrupted.
    pub barge_ins: u32,
    pub tool_calls: u32,
    /// Keys the caller pressed.
    pub keys: u32,
    /// 20 ms slots in which a frame was due and none left in time.
    pub slots_missed: u64,
    /// Frames dropped for any reason but an interruption.
    pub frames_dropped: u64,
}

/// From the caller's last voiced frame to the first frame of the answer; the stages add up to that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// When the answer was first heard, since the call began.
    pub at_ms: u64,
    pub turn: u64,
    pub provider: String,
    pub endpointing_ms: u64,
    pub thinking_ms: u64,
    pub speaking_ms: u64,
    pub playout_ms: u64,
    /// The agent called tools in between.
    pub tools: bool,
    /// The caller heard a filler in between.
    pub filled: bool,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Since the call began.
    pub at_ms: u64,
    #[serde(flatten)]
    pub event: Event,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Answered,
    AgentReady,
    AgentSpeaks,
    AgentFinished,
    CallerSpeaks,
    CallerFinished,
    /// When it began to be said, as far as that is known. Not where `records.words` is off.
    Said {
        speaker: String,
        text: String,
    },
    /// The caller interrupted when so much of the answer was heard.
    BargeIn {
        heard_ms: u64,
    },
    /// Which one is not kept: it can be one of a secret number.
    Key,
    Typed,
    /// With its line of the audit log.
    Tool {
        audit: Map<String, Value>,
    },
    Confirmed {
        answer: String,
    },
    /// The engine itself said something.
    Sentence {
        purpose: String,
    },
    FalseAlarm {
        why: String,
    },
    HalfDuplex {
        on: bool,
    },
    /// The caller's phone put the call on hold, or took it up again.
    Held {
        on: bool,
    },
    /// Another party has taken the caller's place, by a transfer of a telephone. Number and name are not kept where `records.numbers`
    /// is off, and not known where Asterisk does not tell, or the party withholds them.
    PartyChanged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Asterisk has learnt who that party is. Not where `records.numbers` is off.
    PartyKnown {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The audio path to Asterisk broke, and another one has taken its place.
    PathReplaced {
        why: String,
    },
    /// Another session was dialled to carry the call on.
    Dialling {
        why: String,
    },
    /// A provider, or a service of one, refused a session or a request with this HTTP status, and is lost for it.
    ProviderRefused {
        provider: String,
        status: u16,
    },
    TookOver {
        provider: String,
        resumed: bool,
    },
    HandedOff {
        context: String,
    },
    NoInput,
    Failing {
        reason: String,
    },
    /// The caller is sent away: to a destination, or a mailbox, of this name in the configuration; `unknown` where a tool named
    /// one that it does not have.
    Transferring {
        to: String,
        #[serde(default, skip_serializing_if = "is_false")]
        voicemail: bool,
        /// `agent`, `operator`, `on_failure` or `menu`.
        by: String,
        /// The operator's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<String>,
    },
    /// The place that the caller was sent to has them.
    Transferred,
    /// A transfer in which nobody took the caller.
    TransferFailed {
        reason: String,
        /// Q.850 cause with which the place that had them hung up on them; absent: they were with the agent again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<u32>,
    },
    /// An operator ends the call.
    HungUp {
        account: String,
    },
    /// What the dialplan asked for in this variable is not to be had; the call goes on without it. Digits are not kept.
    NotGranted {
        variable: String,
        why: String,
    },
    /// What of the sound may be kept from here on: `off`, `notice`, `on`, `private`, `discarded`.
    Recording {
        state: String,
    },
}

/// `NAME, NUMBER` of a party, as far as they are kept; empty: neither is.
pub fn party_named(number: Option<&str>, name: Option<&str>) -> String {
    name.into_iter().chain(number).collect::<Vec<_>>().join(", ")
}

/// What a call used at one provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Used {
    pub provider: String,
    /// As the provider reported them, by kind; cached ones are part of the input.
    pub tokens: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "is_none_of_it")]
    pub transcribed_seconds: f64,
    pub connected_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// What one turn used at one provider. What answers a turn that was interrupted may count in the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnUsed {
    pub turn: u64,
    #[serde(flatten)]
    pub used: Used,
}

/// By the operator's prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    pub amount: f64,
    pub currency: String,
    pub price_date: String,
    /// What was used and has no price, so that the amount is too small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpriced: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(set: &bool) -> bool {
    !*set
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_none_of_it(number: &f64) -> bool {
    *number == 0.0
}
