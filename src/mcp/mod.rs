//! MCP servers: started, watched, restarted, asked.
//!
//! ```text
//! Fleet ─ one per engine ─▶ Server ─ one per entry of `mcp.servers`, with a task that watches it
//!                             │  Starting ─▶ Up ─▶ (ended) ─▶ Starting … ─▶ Down
//!                             ▼
//!                           Link: a process and its pipes, or an HTTP endpoint, spoken to by `rmcp`
//! ```
//!
//! Invariants: whatever a server does, it costs a call at most its own time limit and the engine at most the limits below;
//! everything that is parsed is parsed on a thread of its own, so that no frame of a call is late for it; no value of a
//! server's environment or headers reaches a log; of a process that ended, no child is left.
//!
//! The protocol is MCP, <https://modelcontextprotocol.io/specification>: `initialize` first, as every server knows it, and
//! `server/discover` for those that know only that.

mod client;
mod connection;
mod counters;
mod fleet;
mod link;
mod output;
mod patience;
mod process;
mod pump;
mod reach;
mod reply_ids;
mod server;
mod tool;

pub use counters::{CallEnd, McpCounters};
pub use fleet::{Fleet, Guest, LeftOut, Offer, ServerStatus, TestReport, Tested, ToolStatus};
pub use process::find as find_program;
#[cfg(any(test, fuzzing))]
pub use pump::fuzz;
pub use reach::is_local;
pub use server::State;
pub use tool::McpTool;

/// The longest message of a server, in bytes: a list of some thousands of tools. What is longer is not kept in memory; a
/// call that was to be answered by it fails at once.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Tools of one server that are registered; a model is confused by far fewer.
pub const TOOLS_MAX: usize = 256;
/// Calls of one server under way; the next ones fail at once. Above the calls an engine carries, and low enough that a
/// server that hangs holds little.
pub const CALLS_MAX: usize = 1024;
