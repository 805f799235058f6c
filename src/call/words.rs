//! What goes into a [`CallMachine`](super::CallMachine) and what comes out of it.

use super::{
    agent::{AgentCommand, AgentEvent, AgentTraits},
    end::EndReason,
    leg::{LegCommand, LegEvent},
    record::{Measure, Note},
    rules::CallRules,
};
use crate::{
    audio::{Clip, Format},
    redact::Redacted,
    tool::{Approved, Message, Opening, PolicyRules, ToolCallId, ToolOutcome, Toolbox},
};
use std::sync::Arc;

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
    /// A running tool has the agent say this at once.
    Say(String),
    /// An operator, or the engine on its way down, ends the call now.
    EndNow(EndReason),
}

#[derive(Debug, PartialEq)]
pub enum Output {
    ToLeg(LegCommand),
    ToAgent(AgentCommand),
    RunTool(Approved),
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
    /// To be sent when the call is over.
    Deliver(Delivery),
    Note(Note),
    Measure(Measure),
    /// Always the last output.
    End(EndReason),
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
    /// Heard when the agent is lost.
    pub apology: Arc<Clip>,
}

/// What changes when another context takes over.
#[derive(Debug, Clone)]
pub struct Handover {
    pub context: String,
    pub rules: CallRules,
    pub toolbox: Arc<Toolbox>,
    pub policy: Arc<PolicyRules>,
    pub agent: AgentTraits,
    pub apology: Arc<Clip>,
    /// What the caller's PIN is compared with from here on.
    pub pin: Option<Redacted<String>>,
}
