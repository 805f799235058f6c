//! What is said in a call goes nowhere that its residency keeps it from, neither to a tool nor to a gate that is asked about one
//! (V18, V19). An action server is held to more: it is looked at when it is asked.

use super::{Audit, CallPolicy, RemoteUse};
use crate::{
    gate::Route,
    tool::{Failure, ToolError, ToolSpec, stays},
};

/// Among the audit line's hard blockers.
const BLOCKER: &str = "data_residency";

impl CallPolicy {
    /// Why the arguments of a tool may not leave this machine, in so far as they would.
    pub(super) fn kept(&self, spec: &ToolSpec) -> Option<Box<Failure>> {
        let rule = self.opening.residency;
        let message = if !spec.may_have(rule) {
            "The call was denied: this tool sends data to where this call's data may not go."
        } else if self.rules.remote_gate != RemoteUse::None && !stays(self.rules.remote_gate_residency, rule) {
            "The call was denied: the gate that has to be asked is where this call's data may not go."
        } else {
            return None;
        };
        Some(Failure::new(ToolError::Refused, message).into())
    }
}

impl Audit {
    /// Where the arguments would have gone, they may not go.
    pub(super) fn kept(&mut self) {
        self.route = Some(Route::Refuse.label());
        self.gate_decision = Some("fail");
        self.hard_blockers = vec![BLOCKER.into()];
    }
}
