//! What the core tells those who watch a call: notes for its record, measures for the metrics.

use super::{
    agent::{Speaker, Stumble},
    end::EndReason,
    leg::TransferFault,
    usage::Usage,
    words::Dialling,
};
use crate::{
    facts::Party,
    redact::Redacted,
    tool::{Audit, ToolError, Verdict},
};
use std::time::Duration;

/// One thing that happened in a call. Words and digits stay inside [`Redacted`].
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// Audio flows both ways.
    Answered,
    AgentReady,
    /// The first frame of an answer left for the caller.
    AgentSpeaks,
    /// The last frame of an answer left for the caller.
    AgentFinished,
    /// The agent's session has brought an answer to its end, or as far as the caller let it.
    AgentAnswered,
    CallerSpeaks,
    CallerFinished,
    /// The caller interrupted; this much of the item being spoken was heard.
    BargeIn {
        heard: Duration,
    },
    Said {
        speaker: Speaker,
        text: Redacted<String>,
    },
    Digit(Redacted<char>),
    /// The caller has typed what a tool asked for: a turn of theirs.
    Typed,
    /// A tool call was answered; `tool` is `None` for a name that this context does not have.
    ToolAnswered {
        tool: Option<String>,
        /// `None`: it worked.
        error: Option<ToolError>,
    },
    /// The agent called a tool that this context does not have. A model can put anything into a name, so
    /// it is compared with those that exist, and never shown.
    UnknownTool {
        name: Redacted<String>,
    },
    /// The agent was told to say that this tool takes long.
    Announced {
        tool: String,
    },
    /// A tool was still running when the call or its agent ended.
    ToolCancelled {
        tool: String,
    },
    /// A tool call's line for the audit log.
    Audit(Box<Audit>),
    /// The caller answered the question whether a tool may run.
    Confirmed(Verdict),
    /// Another context has taken over.
    HandedOff {
        context: String,
    },
    /// A tool asked something of the call that it cannot do.
    ActionRefused(&'static str),
    NoInputPrompt,
    /// The caller hears a sentence of ours, word for word.
    Spoke {
        purpose: &'static str,
    },
    /// That sentence has left for the caller, or made place for the agent's answer.
    SentenceOver,
    /// The caller cut off a sentence of ours, of which they had heard something.
    SentenceCut,
    /// All has been said, by the agent and by ourselves, and nothing more is owed to the caller.
    Quiet,
    /// Nothing is being said, and the agent that owed the caller an answer is lost: the next one owes it.
    Lull,
    /// A part of the agent failed, and another attempt or another service is to stand in for it.
    Stumbled(Stumble),
    /// The caller was heard over the agent, and it was no interruption.
    FalseAlarm {
        why: &'static str,
    },
    /// The line's echo is too heavy for interruptions by voice (or is not any more).
    HalfDuplex(bool),
    /// The caller's phone has put the call on hold, or has taken it up again.
    Held(bool),
    /// Another party has taken the caller's place.
    PartyChanged(Party),
    /// More is known of who that is.
    PartyKnown(Party),
    /// The audio path to Asterisk broke, and another one has taken its place.
    PathReplaced {
        why: &'static str,
    },
    /// Another session takes the call on.
    Dialling(Dialling),
    /// A provider, or a service of one, refused a session or a request with this HTTP status, and is lost for it.
    ProviderRefused {
        provider: String,
        status: u16,
    },
    /// It has the call.
    TookOver {
        provider: String,
        resumed: bool,
    },
    /// Something failed; the caller hears the apology and goes where `on_failure` says.
    Failing(EndReason),
    /// The caller is sent away.
    Transferring {
        to: TransferTarget,
        by: Initiator,
    },
    /// The place that the caller was sent to has them.
    Transferred,
    TransferFailed(TransferFault),
    /// An operator ends the call.
    HungUp {
        account: String,
    },
    /// Something that the dialplan asked for this call is not to be had; the call goes on without it.
    NotGranted {
        variable: &'static str,
        why: String,
    },
    /// What of the call's sound may be kept from here on.
    Recording(Recording),
}

/// Place outside of the engine that a caller is sent to: a name of the configuration, or whatever a tool takes for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferTarget {
    Destination(String),
    Mailbox(String),
}

/// Cause of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Initiator {
    /// A tool, or the rule for what a tool may not do.
    Agent,
    /// An operator, by their account.
    Operator(String),
    /// The agent was lost, and the context's `on_failure` names the place.
    OnFailure,
    /// The agent was lost, and the caller pressed a key of the menu.
    Menu,
}

impl Initiator {
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Operator(_) => "operator",
            Self::OnFailure => "on_failure",
            Self::Menu => "menu",
        }
    }
}

/// What of a call's sound may be kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recording {
    /// Nothing: the context that has the call does not ask for it.
    #[default]
    Off,
    /// What the caller hears: they are just being told that the call is recorded.
    Notice,
    On,
    /// Nothing for now: the caller types what only tools may see, or has the call on hold.
    Private,
    /// Nothing of the whole call, and what was kept so far is deleted: the caller does not want it.
    Discarded,
}

impl Recording {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Notice => "notice",
            Self::On => "on",
            Self::Private => "private",
            Self::Discarded => "discarded",
        }
    }
}

/// From the caller's last voiced frame to the first frame of the answer, stage by stage. The stages
/// follow each other without a gap, so they add up to the whole. Both ends are counted in audio: the
/// beginning by the samples since the last voiced one, the end by the slot in which the frame left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnTimes {
    /// The caller's turn, counted as the tools' budgets count it.
    pub turn: u64,
    /// Last voiced frame → the turn counts as over.
    pub endpointing: Duration,
    /// → the response began, as the provider said, or its first audio came.
    pub thinking: Duration,
    /// → its first audio arrived.
    pub speaking: Duration,
    /// → its first frame left.
    pub playout: Duration,
    /// The agent called tools in between.
    pub tools: bool,
    /// The caller heard a filler in between.
    pub filled: bool,
}

impl TurnTimes {
    pub fn total(&self) -> Duration {
        self.endpointing + self.thinking + self.speaking + self.playout
    }
}

/// What was wrong with an answer. A closed set: it is a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// It brought nothing.
    Empty,
    /// It brought audio in which there was nothing to hear.
    Soundless,
    /// It ended before its end.
    BrokeOff,
}

impl Lapse {
    pub const LABELS: [&str; 3] = ["empty", "soundless", "broke_off"];
}

/// One figure for the metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// Call began → audio flows both ways.
    SetUp(Duration),
    /// Call began → first frame of the agent left.
    FirstAudio(Duration),
    /// One turn of the caller was answered.
    Turn(TurnTimes),
    /// Interruption decided → first frame without the agent left.
    BargeInStop(Duration),
    /// The slot left this much after its time.
    SlotLate(Duration),
    /// Slots that were given up because the engine was too late for them.
    SlotsMissed(u32),
    /// Agent audio dropped because its response was interrupted, in bytes of the leg's format.
    StaleAudio(usize),
    /// So much waited in Asterisk when the audio path broke, and was not heard.
    PathBroken(Duration),
    /// Agent audio that had arrived and was not heard, because the caller interrupted.
    Interrupted(usize),
    /// A slot in which nothing had come from the caller, and silence went to the agent instead.
    CallerGap,
    /// The agent named something that does not exist.
    OddId,
    /// Audio of the caller that an agent which takes over was not given: its turn was longer than what is kept of one.
    TurnForgotten(usize),
    /// An agent was asked again for an answer, or for the rest of it.
    AskedAgain(Lapse),
    /// Agent audio dropped because too much was waiting.
    PlayoutOverflow(usize),
    Usage(Usage),
}
