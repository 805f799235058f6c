//! Where a call is when something happens to a service of it.

use crate::ms;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The caller hears the greeting, which is still being made.
    Greeting,
    Idle,
    CallerSpeaking,
    /// The caller has finished, and nothing of the answer has come.
    Thinking,
    /// The caller hears an answer, which is still being made.
    AgentSpeaking,
    /// The agent is paused, and it is not decided whether the caller interrupts.
    Undecided,
    /// The same of a sound that turns out to interrupt nobody.
    Aside,
    ToolRunning,
    /// The agent has handed the call to another context, and its last words are being heard.
    HandingOver,
}

pub const STATES: [State; 8] = [
    State::Greeting,
    State::Idle,
    State::CallerSpeaking,
    State::Thinking,
    State::AgentSpeaking,
    State::Undecided,
    State::ToolRunning,
    State::HandingOver,
];
/// Where it matters what of a service fails: nobody waits, or somebody does, for the beginning or the rest of an answer or
/// for a tool.
pub const WAITS: [State; 4] = [State::Idle, State::Thinking, State::AgentSpeaking, State::ToolRunning];
/// Where silence has to be noticed: each has a clock of its own.
pub const NOTICES: [State; 6] =
    [State::Greeting, State::Idle, State::CallerSpeaking, State::Thinking, State::AgentSpeaking, State::ToolRunning];

/// Before that it is not decided what a sound over the agent is: shorter ones do not interrupt.
pub const UNDECIDED_MAX: Duration = ms(560);
