//! What goes into a [`CallMachine`](super::CallMachine) and what comes out of it.

use super::{
    agent::{AgentCommand, AgentEvent, AgentLoss, AgentTraits},
    clips::Clips,
    end::EndReason,
    leg::{LegCommand, LegEvent},
    record::{Measure, Note},
    rules::CallRules,
};
use crate::{
    audio::{Clip, Format},
    redact::Redacted,
    tool::{Approved, Latencies, Message, Opening, PolicyRules, ToolCallId, ToolOutcome, Toolbox},
};
use std::{sync::Arc, time::Instant};

#[derive(Debug)]
pub enum Input {
    Leg(LegEvent),
    Agent(AgentEvent),
    ToolFinished {
        id: ToolCallId,
        outcome: ToolOutcome,
    },
    /// Another agent has been dialled for this call; what came of the old one is gone.
    HandedOff(Box<Handover>),
    /// About the agent that was dialled ([`Output::Dial`]) to carry the call on.
    Next(Next),
    /// A caller who writes instead of speaking has written this.
    Written(Redacted<String>),
    /// A running tool has the agent say this at once.
    Say(String),
    /// The sound of [`Output::Speak`]'s sentence; `None`: no voice spoke it in time.
    Spoken {
        sentence: Redacted<String>,
        clip: Option<Arc<Clip>>,
    },
    /// An operator, or the engine on its way down, ends the call now.
    EndNow {
        reason: EndReason,
        /// The operator's account.
        account: Option<String>,
    },
    /// An operator sends the caller to this destination, as the tool `transfer` does.
    Transfer {
        destination: String,
        account: String,
    },
}

#[derive(Debug, PartialEq)]
pub enum Output {
    ToLeg(LegCommand),
    ToAgent(AgentCommand),
    RunTool(Approved),
    /// A sentence of this call is to be spoken by the engine's voice. Answered with [`Input::Spoken`].
    Speak(Redacted<String>),
    CancelTool {
        id: ToolCallId,
    },
    /// Another context takes over: its agent is to be dialled, and told what was said so far.
    HandOff {
        target: String,
        message: Option<String>,
        /// What the call's memory has of the keys that are to go along.
        known: serde_json::Map<String, serde_json::Value>,
    },
    /// Another agent for the same context is to be dialled beside the one that has the call, or that was
    /// lost; it is told the conversation so far. Answered at once with [`Next::Dialling`] or
    /// [`Next::Nobody`].
    Dial(Dialling),
    /// The agent that was dialled has the call from here on; the old one's session ends.
    TakeOver,
    /// The agent that was dialled is not wanted any more.
    HangUpNext,
    /// To be sent when the call is over.
    Deliver(Delivery),
    Note(Note),
    Measure(Measure),
    /// Always the last output.
    End(EndReason),
}

/// Why another agent is dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialling {
    /// The session is about to end by its vendor's limit: the same provider, going on where it was if
    /// the vendor can.
    Rollover,
    /// The agent is lost: the same provider if another session may heal it, else the next one.
    Recovery(AgentLoss),
}

/// What is known about the agent that was dialled to carry the call on.
#[derive(Debug)]
pub enum Next {
    Dialling(Box<Successor>),
    /// Its own events, until it has the call.
    Event(AgentEvent),
    /// No provider is left that could be dialled.
    Nobody,
}

/// The agent that is being dialled.
#[derive(Debug, Clone)]
pub struct Successor {
    /// The entry of the configuration's `providers`.
    pub provider: String,
    pub agent: AgentTraits,
    /// It goes on in the vendor's own session, and knows everything.
    pub resumes: bool,
}

/// What reaches a person after the call.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivery {
    Message(Message),
    /// Of the whole call, to the configured mailbox of this name; `None`: the context's own.
    Transcript {
        to: Option<String>,
    },
}

/// What a call needs to know when it begins.
#[derive(Debug, Clone)]
pub struct CallPlan {
    pub rules: CallRules,
    pub toolbox: Arc<Toolbox>,
    pub policy: Arc<PolicyRules>,
    pub opening: Opening,
    /// The time of day at which the call begins.
    pub wall: jiff::Timestamp,
    pub agent: AgentTraits,
    /// The leg's format; all audio in and out of the machine is in it.
    pub format: Format,
    /// What the engine itself can say.
    pub clips: Arc<Clips>,
    /// How long tools took so far.
    pub latencies: Arc<Latencies>,
    /// The caller writes ([`Input::Written`]) instead of speaking, and may take their time.
    pub written: bool,
    /// Any moment, the same for all calls of an engine: their slots fall on the same beats, counted from here.
    pub beat: Instant,
}

/// What changes when another context takes over.
#[derive(Debug, Clone)]
pub struct Handover {
    pub context: String,
    pub rules: CallRules,
    pub toolbox: Arc<Toolbox>,
    pub policy: Arc<PolicyRules>,
    pub agent: AgentTraits,
    pub clips: Arc<Clips>,
    /// What the caller's PIN is compared with from here on.
    pub pin: Option<Redacted<String>>,
}
