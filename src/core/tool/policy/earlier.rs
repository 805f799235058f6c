//! Calls of sessions that were lost. Another session makes them again under ids of its own, and gets what becomes of the first run.

use super::{AnswerLimits, CONFIRMATION_TOKEN, CallPolicy};
use crate::{
    gate::Category,
    tool::{Executor, Failure, SideEffects, ToolCall, ToolError, ToolSpec, canonical},
};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

/// Calls that are remembered: as many as may run at a time.
const RAN_MAX: usize = 32;

/// One run, and the key under which its outcome is kept.
#[derive(Debug, Clone)]
struct Ran {
    tool: String,
    /// Digest of the canonical arguments.
    arguments: [u8; 32],
    key: String,
}

/// Runs whose results the caller may not have been told, by the session that began them.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Runs of the session that has the call.
    ran: VecDeque<Ran>,
    /// Runs of the sessions before it.
    inherited: VecDeque<Ran>,
    /// Sessions that were lost or replaced.
    sessions: u32,
    /// The caller's turn in which the latest of them was lost or replaced.
    changed_in: u64,
}

impl Earlier {
    pub fn has_run(&mut self, tool: &str, arguments: [u8; 32], key: &str) {
        if self.ran.len() == RAN_MAX {
            self.ran.pop_front();
        }
        self.ran.push_back(Ran { tool: tool.to_owned(), arguments, key: key.to_owned() });
    }

    /// Another session goes on, in this turn of the caller.
    pub fn change_sessions(&mut self, turn: u64) {
        self.changed_in = turn;
        self.sessions = self.sessions.saturating_add(1);
        self.inherited.append(&mut self.ran);
        self.inherited.drain(..self.inherited.len().saturating_sub(RAN_MAX));
    }

    /// Another agent goes on, which knows nothing of these calls.
    pub fn forget(&mut self) {
        self.sessions = self.sessions.saturating_add(1);
        self.ran.clear();
        self.inherited.clear();
    }

    /// An answer came to its end. Where it answers words that the caller has said since, a call that is made behind it is a new one,
    /// unless the first still runs.
    pub fn answered(&mut self, turn: u64, runs: impl Fn(&str) -> bool) {
        self.ran.retain(|ran| runs(&ran.key));
        if turn > self.changed_in {
            self.inherited.retain(|ran| runs(&ran.key));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.inherited.is_empty()
    }

    /// Keys of the runs of this tool that sessions before this one began, as long as the caller has said nothing since.
    pub fn of(&self, tool: &str, turn: u64) -> impl Iterator<Item = &str> {
        let inherited = if turn > self.changed_in { None } else { Some(self.inherited.iter()) };
        inherited.into_iter().flatten().filter(move |ran| ran.tool == tool).map(|ran| ran.key.as_str())
    }

    /// The key of the run that a session before this one began.
    pub fn key_of(&self, tool: &str, arguments: [u8; 32]) -> Option<&str> {
        let same = |ran: &&Ran| ran.tool == tool && ran.arguments == arguments;
        self.inherited.iter().rev().find(same).map(|ran| ran.key.as_str())
    }

    /// Sessions count their calls anew, so an id is one of its own session.
    pub fn of_this_session(&self, key: String) -> String {
        match key.strip_prefix("provider:") {
            Some(id) if self.sessions > 0 => format!("provider:{}:{id}", self.sessions),
            _ => key,
        }
    }
}

impl CallPolicy {
    /// Another session of the same agent goes on, which counts its calls and its utterances anew. Calls of the last one whose results
    /// it has told nobody are not run again.
    pub fn change_sessions(&mut self, answers: AnswerLimits) {
        self.earlier.change_sessions(self.turns.number());
        self.turns.forget_all();
        self.opening.answers = answers;
    }

    /// The agent has brought an answer to its end.
    pub fn agent_answered(&mut self) {
        self.earlier.answered(self.turns.number(), |key| self.replay.is_in_flight(key));
    }

    /// Why a tool that writes elsewhere does not run yet: the model of a lost session has called it, and this call may be the same thing in
    /// other words, whose effect would come twice.
    pub(super) fn may_be_repeated(&self, spec: &ToolSpec) -> Option<Failure> {
        let writes = spec.access == Category::Write && spec.side_effects == SideEffects::Writes;
        let elsewhere = writes && (spec.sends || spec.executor != Executor::BuiltIn);
        let known = elsewhere && self.earlier.of(&spec.name, self.turns.number()).any(|key| self.replay.knows(key));
        known.then(|| {
            let message = "This tool was called before the connection to you was interrupted, and has done or may still do what the caller \
                           wanted. Tell the caller so, and call it again only if they want more after that.";
            Failure { details: json!({ "reason": "called_before" }), ..Failure::new(ToolError::Refused, message) }
        })
    }

    /// The key of the same call of a session that was lost, if what became of it is known or to come.
    pub(super) fn earlier_key(&self, call: &ToolCall, arguments: &Map<String, Value>) -> Option<String> {
        if self.earlier.is_empty() {
            return None;
        }
        let entry = self.toolbox.entry(&call.name)?;
        let mut arguments = arguments.clone();
        arguments.shift_remove(CONFIRMATION_TOKEN);
        self.secrets.fill(&entry.spec, &mut arguments);
        let checked = entry.arguments.check(arguments).ok()?;
        let key = self.earlier.key_of(&entry.spec.name, canonical::arguments_digest(&checked.arguments))?;
        self.replay.knows(key).then(|| key.to_owned())
    }
}
