//! The life of one call, without I/O and without a clock of its own.
//!
//! [`CallMachine`] takes [`Input`]s and the time, and gives [`Output`]s and the next deadline. It is
//! the only place where anything about a call is decided; [`AgentEvent`]/[`AgentCommand`] and
//! [`LegEvent`]/[`LegCommand`] are the words it shares with the two sides.

mod actions;
mod agent;
mod clips;
mod end;
mod leg;
mod machine;
mod playout;
mod record;
mod rules;
mod timers;
mod track;
mod turns;
mod usage;
mod words;

pub use agent::{
    AgentCommand, AgentEvent, AgentLoss, AgentTraits, CallerTurn, ItemId, Noise, Part, Reply, ResponseId,
    ResponseStatus, Speaker, Stumble, TURN_KEPT, key_note, key_of,
};
pub use clips::{Clips, Spoken};
pub use end::{EndClass, EndReason};
pub use leg::{KEYS_MAX, LegCommand, LegEvent, LegTraits, SetupStep, TransferFault, are_keys};
pub use machine::CallMachine;
pub use record::{Initiator, Lapse, Measure, Note, Recording, TransferTarget, TurnTimes};
pub use rules::{CallRules, Exit, LastResort, OnFailure, Recovery};
pub use timers::Timer;
pub use track::Purpose;
pub use turns::{
    AgentSound, Backchannels, Ears, FalseAlarm, SpokenLanguages, TurnEvent, TurnOwner, TurnRules, TurnTaker,
    VERDICT_MAX,
};
pub use usage::Usage;
pub use words::{CallPlan, Delivery, Dialling, Handover, Input, Next, Output, Successor};
