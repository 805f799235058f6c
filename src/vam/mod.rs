//! VAM/1.0 over gRPC: conversations and actions, for clients and action servers that know nothing of Asterisk.
//!
//! ```text
//! RegisterActionServer ─▶ manifest ─▶ mcp::Fleet::look ─▶ what of it can be used ─▶ file
//!                                                              │
//!                        every new call ◀─ ActionTool ◀─ mcp::Fleet, as one server among others
//! ```
//!
//! - `wire`: the messages, made from `proto/vani/v1`
//! - `servers`: who has registered; `manifest`, what is checked of it; `registration`, what is kept of it, in the `file`;
//!   `visits`, those that a session brings; `lanes`, who waits for whom
//! - `actions`: what a client runs itself, from its envelope to its answer
//! - `residency`: where what callers say may go
//! - `tool`: an action as a tool, behind the same gate as every other
//! - `negotiation`: what a session gets of what it asks for; `sessions`, which there are; `stream`, the conversation of one,
//!   told as `turns` has it
//! - `serve`: the gRPC server and its limits
//!
//! Origin: <https://github.com/vani-voice/vani>.

mod actions;
mod counters;
mod file;
mod lanes;
mod manifest;
mod negotiation;
mod registration;
mod residency;
mod serve;
mod servers;
mod service;
mod sessions;
mod stream;
#[cfg(test)]
mod tests;
mod tool;
mod turns;
mod visits;
pub mod wire;

pub use actions::{Actions, Known};
pub use counters::VamCounters;
pub use negotiation::Agreed;
#[cfg(any(test, fuzzing))]
pub use negotiation::fuzz;
pub use serve::{Prepared, prepare};
pub use servers::{ActionServers, Owned, Owner};
pub use sessions::{Conversations, Ends, Sessions};
pub use tool::{ActionTool, Actioning};
pub use turns::Cue;
