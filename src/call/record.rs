//! What the core tells those who watch a call: notes for its record, measures for the metrics.

use super::{
    agent::{Speaker, Usage},
    end::EndReason,
    leg::TransferFault,
};
use crate::{
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
    /// Something failed; the caller hears the apology and goes where `on_failure` says.
    Failing(EndReason),
    TransferFailed(TransferFault),
}

/// One figure for the metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// Call began → audio flows both ways.
    SetUp(Duration),
    /// Call began → first frame of the agent left.
    FirstAudio(Duration),
    /// Caller stopped (as the turn's owner reported it) → first frame of the answer left.
    TurnGap(Duration),
    /// Interruption decided → first frame without the agent left.
    BargeInStop(Duration),
    /// The slot left this much after its time.
    SlotLate(Duration),
    /// Slots that were given up because the engine was too late for them.
    SlotsMissed(u32),
    /// Agent audio dropped because its response was interrupted, in bytes of the leg's format.
    StaleAudio(usize),
    /// Agent audio that had arrived and was not heard, because the caller interrupted.
    Interrupted(usize),
    /// A slot in which nothing had come from the caller, and silence went to the agent instead.
    CallerGap,
    /// Agent audio dropped because too much was waiting.
    PlayoutOverflow(usize),
    Usage(Usage),
}
