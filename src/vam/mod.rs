//! VAM/1.0: actions over gRPC, for action servers that know nothing of Asterisk.
//!
//! ```text
//! RegisterActionServer ─▶ manifest ─▶ mcp::Fleet::look ─▶ what of it can be used ─▶ file
//!                                                              │
//!                        every new call ◀─ ActionTool ◀─ mcp::Fleet, as one server among others
//! ```
//!
//! - `wire`: the messages, made from `proto/vani/v1`
//! - `servers`: who has registered; `manifest`, what is checked of it; `registration`, what is kept of it, in the `file`
//! - `residency`: where what callers say may go
//! - `tool`: an action as a tool, behind the same gate as every other
//! - `serve`: the gRPC server and its limits
//!
//! Origin: <https://github.com/vani-voice/vani>.

mod counters;
mod file;
mod manifest;
mod registration;
mod residency;
mod serve;
mod servers;
mod service;
#[cfg(test)]
mod tests;
mod tool;
pub mod wire;

pub use counters::VamCounters;
pub use serve::{Prepared, prepare};
pub use servers::{ActionServers, Owner};
pub use tool::ActionTool;
