//! The vocabulary of the model's side: what the core tells an agent, and what an agent reports.
//!
//! The core knows agents by these words and by [`AgentTraits`] alone, never by a vendor's name.

use super::usage::Usage;
use crate::tool::{ToolCall, policy::AnswerLimits};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};

/// One answer of the agent, in the provider's own naming. Audio is kept or dropped by this id.
pub type ResponseId = Arc<str>;
/// One spoken item inside a response; truncation is told per item.
pub type ItemId = Arc<str>;

#[derive(Debug, Clone, PartialEq)]
pub enum AgentCommand {
    /// 20 ms (or more) of the caller, in the leg's format.
    Audio(Bytes),
    /// Speak first. With `Some`, the configured greeting; else whatever the prompt suggests.
    Greet { text: Option<String> },
    /// Say something of this meaning now, and do nothing else: a no-input prompt, a farewell.
    Say { text: String },
    /// Where the agent is told the caller's turns ([`AgentTraits::takes_turns`]): one has begun, its
    /// audio follows; or it is complete, and is to be answered.
    Turn(CallerTurn),
    /// Something has happened that the agent has to know and act upon; it may call tools. With
    /// [`Reply::NotNow`] it keeps it in mind for its next turn.
    Tell { text: String, reply: Reply },
    /// The caller has written this: a turn of theirs, to be answered.
    Written { text: String },
    /// The caller interrupted. `heard` is what truly left towards the caller of `item`.
    /// `cancel` asks the agent to stop generating as well (it has not done so by itself).
    Interrupt { response: ResponseId, item: ItemId, heard: Duration, cancel: bool },
    /// The answer to one tool call: a JSON object as text. Answered exactly once per call.
    ToolResult { call_id: String, output: String, reply: Reply },
    /// Sum this record up, aside: nothing of it is spoken, and the conversation does not change. Only where
    /// [`AgentTraits::summarises`]; answered by [`AgentEvent::Summary`] with the same mark, or never.
    Summarise { mark: u64, record: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerTurn {
    /// It is undecided whether this is one; its audio follows. Only where [`AgentTraits::overhears`].
    MayBegin,
    /// It is undecided, and its words so far would decide it. Only where [`AgentTraits::words_on_request`].
    WordsWanted,
    /// It was none: nothing is to be said about it.
    WasNone,
    Began,
    /// A short silence: the turn may be over. Who can prepares the answer, but does nothing that is heard and runs no tool.
    MayEnd,
    /// It was a pause only: what was prepared is thrown away.
    GoesOn,
    Ended,
}

/// What is kept of a turn of the caller for whoever has to take over before it is answered, an agent or a listener of one. Nearly
/// every turn is shorter; of a longer one the beginning is forgotten, and that is counted: who takes over has to hear all of
/// it while the caller waits.
pub const TURN_KEPT: Duration = Duration::from_secs(30);

/// A key of the caller in words, for agents that take keys.
pub fn key_note(key: char) -> String {
    format!("{KEY_PRESSED}{key}.")
}

const KEY_PRESSED: &str = "The caller pressed ";

/// The key that such words are about.
pub fn key_of(note: &str) -> Option<char> {
    let mut rest = note.rsplit_once(KEY_PRESSED)?.1.chars();
    rest.next().filter(|_| rest.as_str() == ".")
}

/// Whether the agent should speak after a tool result, or after it was told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The last open result of this turn: now answer the caller.
    Wanted,
    /// Other results are still to come, the call is ending, or the caller is speaking: stay silent.
    NotNow,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The session stands, its formats are verified; commands are heard from now on.
    Ready,
    ResponseStarted {
        response: ResponseId,
    },
    /// Speech in the leg's format, any length, as fast as the provider makes it.
    Audio {
        response: ResponseId,
        item: ItemId,
        audio: Bytes,
    },
    /// Nothing more will come of this response.
    ResponseDone {
        response: ResponseId,
        status: ResponseStatus,
    },
    /// The provider's turn detection heard the caller begin to speak. `utterance` is the provider's
    /// name of what is said, which its transcript carries too. An agent that is told the turns reports
    /// this when it has a name for the turn.
    CallerSpeechStarted {
        utterance: Option<ItemId>,
    },
    /// The provider's turn detection heard the caller end.
    CallerSpeechStopped,
    Transcript {
        speaker: Speaker,
        text: String,
        utterance: Option<ItemId>,
    },
    /// The caller's words so far in an utterance that is not over; each one replaces the last.
    PartialTranscript {
        text: String,
        utterance: Option<ItemId>,
    },
    /// Who transcribes the caller believes that their turn is over, or that it is not; the core decides.
    CallerSeemsDone(bool),
    /// The caller's words in this utterance are not known and will not be.
    NoTranscript {
        utterance: Option<ItemId>,
    },
    /// A complete set entry: all arguments have arrived. All calls of a response come before its
    /// `ResponseDone`.
    ToolCall(ToolCall),
    /// The provider took a call back, by its own id: it wants no answer, and none may be given.
    ToolCallCancelled {
        call_id: String,
    },
    Usage(Usage),
    /// The session will be over within this time; the call should be carried on in another one.
    Expiring {
        within: Duration,
    },
    /// With this a later session can go on where this one is now. The newest one counts.
    Resumable {
        handle: Arc<str>,
    },
    /// The answer to [`AgentCommand::Summarise`].
    Summary {
        mark: u64,
        text: String,
    },
    /// Something odd that the session survives; counted under this closed label.
    Noise(Noise),
    /// A part of the agent failed and was asked again, or another one in its place: the caller may wait a little longer.
    Stumbled(Stumble),
    /// HTTP status with which the provider, or a service of the agent, refused what it is lost for; comes just before the loss.
    Refused {
        status: u16,
    },
    /// The session is over and will not come back. Always the last event.
    Lost(AgentLoss),
}

impl AgentEvent {
    /// It tells what the agent has heard.
    pub const fn is_of_caller(&self) -> bool {
        match self {
            Self::CallerSpeechStarted { .. }
            | Self::CallerSpeechStopped
            | Self::PartialTranscript { .. }
            | Self::CallerSeemsDone(_)
            | Self::NoTranscript { .. } => true,
            Self::Transcript { speaker, .. } => matches!(speaker, Speaker::Caller),
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseStatus {
    Completed,
    Cancelled,
    /// Cut short by the provider: token limit or content filter.
    Incomplete,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    Caller,
    Agent,
}

/// Oddities a session survives. A closed set: it is a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Noise {
    /// A message type this version does not know.
    UnknownMessage,
    /// A message that could not be read.
    Malformed,
    /// The provider refused one command; the session goes on.
    CommandRefused,
    /// An error the provider's documents call harmless.
    HarmlessError,
    /// Audio of an answer that was over, by the provider's own word. It is not heard.
    LateAudio,
}

impl Noise {
    pub const ALL: [Self; 5] =
        [Self::UnknownMessage, Self::Malformed, Self::CommandRefused, Self::HarmlessError, Self::LateAudio];

    pub const fn label(self) -> &'static str {
        match self {
            Self::UnknownMessage => "unknown_message",
            Self::Malformed => "malformed",
            Self::CommandRefused => "command_refused",
            Self::HarmlessError => "harmless_error",
            Self::LateAudio => "late_audio",
        }
    }
}

/// A failure that an agent which is made of parts survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stumble {
    pub part: Part,
    /// Nothing came in time; else something else was wrong.
    pub is_slow: bool,
}

/// What an agent can be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Who writes down what the caller says.
    Listener,
    Model,
    Voice,
}

/// Why a session is gone for good. A closed set: it becomes an `EndReason` and a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentLoss {
    /// No connection within the attempts allowed: refused, unreachable, name unknown.
    Unreachable,
    /// The key or account was refused; trying again cannot heal it.
    Unauthorized,
    /// Nothing is at the address that is configured (HTTP 404 or 405); trying again cannot heal it.
    NotFound,
    /// Quota or billing; trying again cannot heal it.
    Quota,
    /// Connected, but the session was not set up in time or not as asked (formats differ).
    Handshake,
    /// The provider closed or dropped a standing session.
    Closed,
    /// The provider's own time limit of a session.
    Expired,
    /// The provider broke its protocol.
    Protocol,
    /// The provider stopped reading: the command queue stayed full.
    Stalled,
    /// Too many requests or sessions, or the provider is overloaded; another moment may be better.
    Throttled,
}

impl AgentLoss {
    pub const ALL: [Self; 10] = [
        Self::Unreachable,
        Self::Unauthorized,
        Self::NotFound,
        Self::Quota,
        Self::Handshake,
        Self::Closed,
        Self::Expired,
        Self::Protocol,
        Self::Stalled,
        Self::Throttled,
    ];

    /// Trying the same provider again cannot heal it.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Unauthorized | Self::NotFound | Self::Quota)
    }

    pub const fn label(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::Quota => "quota",
            Self::Handshake => "handshake",
            Self::Closed => "closed",
            Self::Expired => "expired",
            Self::Protocol => "protocol",
            Self::Stalled => "stalled",
            Self::Throttled => "throttled",
        }
    }
}

/// What an agent can do by itself; the core branches on these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentTraits {
    /// Reports `CallerSpeechStarted` and `CallerSpeechStopped`.
    pub detects_speech: bool,
    /// Stops generating by itself when it hears the caller; the core then need not cancel.
    pub cancels_on_speech: bool,
    /// Understands how much of an item was heard.
    pub truncates: bool,
    /// Can be told the caller's turns instead of finding them itself.
    pub takes_turns: bool,
    /// Tells what the caller says, turn by turn.
    pub transcribes: bool,
    /// May hear the caller while a barge-in is undecided: it does nothing about it but report words
    /// ([`AgentEvent::PartialTranscript`]). The others hear the caller once it is decided. One that is told turns hears
    /// nothing else outside of them, so that the echo of its own voice is none of these words.
    pub overhears: bool,
    /// Reports the words of an undecided sound only on request ([`CallerTurn::WordsWanted`]).
    pub words_on_request: bool,
    /// Its word that the caller is done ([`AgentEvent::CallerSeemsDone`]) ends the turn, which silence alone does later. The
    /// others' is one sign among several.
    pub ends_turns: bool,
    /// Asks by itself for the rest of an answer that broke off.
    pub finishes_answers: bool,
    /// Answers keys that nobody asked for, as a menu does. It is told of them in words ([`key_note`]); the others hear of
    /// keys only from tools.
    pub takes_keys: bool,
    /// Sums up what it is given, beside the conversation ([`AgentCommand::Summarise`]).
    pub summarises: bool,
    /// Bytes of a tool's answer that it can carry; `None`: as long as the engine makes them.
    pub answer_bytes_max: Option<usize>,
    /// Can be told the whole of a result's data. Large or nested answers end the sessions of some
    /// providers; those are told small flags alone.
    pub forwards_data: bool,
    /// How long a caller waits for the first sound of its answer before it counts as lost. An agent that watches over its
    /// own parts needs as long as these may take one after the other; it says by itself when it is lost. A farewell is not
    /// waited for that long.
    pub answer_max: Duration,
    /// So much later where it is not told the caller's turns: it looks for the end of one so long.
    pub end_found_max: Duration,
    /// The same between two pieces of one answer.
    pub gap_max: Duration,
}

impl AgentTraits {
    /// An agent that can do nothing special, to be named apart from what it can do.
    pub const PLAIN: Self = Self {
        detects_speech: false,
        cancels_on_speech: false,
        truncates: false,
        takes_turns: false,
        transcribes: false,
        overhears: false,
        words_on_request: false,
        ends_turns: false,
        finishes_answers: false,
        takes_keys: false,
        summarises: false,
        answer_bytes_max: None,
        forwards_data: true,
        // Realtime vendors answer in about a second. Who has been asked for a moment waits that long once more, and longer
        // only for an agent that is known to be slow.
        answer_max: Duration::from_secs(5),
        end_found_max: Duration::ZERO,
        // Providers make speech faster than it is heard; one that leaves the caller in mid-sentence for so long has lost the
        // rest.
        gap_max: Duration::from_secs(3),
    };

    pub const fn answer_limits(&self) -> AnswerLimits {
        AnswerLimits { bytes_max: self.answer_bytes_max, data: self.forwards_data }
    }
}
