//! The life of one call, without I/O and without a clock of its own.

mod agent;
mod end;
mod leg;
mod rules;

pub use agent::{
    AgentCommand, AgentEvent, AgentLoss, AgentTraits, ItemId, Noise, Reply, ResponseId, ResponseStatus, Speaker, Usage,
};
pub use end::{EndClass, EndReason};
pub use leg::{LegCommand, LegEvent, LegTraits, SetupStep};
pub use rules::{CallRules, OnFailure};
