//! Step 10: what becomes of an outcome.

use super::{Answer, Audit, CallPolicy, RemoteUse, Source, Ticket, ToolCallId, envelope};
use crate::{
    gate::Route,
    tool::{
        CallAction, Change, Done, Failure, SideEffects, ToolError, ToolKind, ToolOutcome, canonical, loops,
        replay::replayed,
    },
};
use serde_json::Value;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// What a finished call leaves.
#[derive(Debug, Default)]
pub struct Settled {
    /// The call's own answer (none if the model was answered when it began), then those of calls
    /// that had met it running.
    pub answers: Vec<Answer>,
    /// To be carried out, in order. Empty when the tool failed (P20).
    pub actions: Vec<CallAction>,
    /// The audit line of a call whose model was answered before.
    pub audit: Option<Audit>,
}

impl CallPolicy {
    /// Whether this call runs.
    pub fn runs(&self, id: ToolCallId) -> bool {
        self.running.contains_key(&id)
    }

    /// Enters the outcome of a running call; nothing for one that is not running (any more).
    pub fn settle(&mut self, id: ToolCallId, outcome: ToolOutcome, now: Instant) -> Option<Settled> {
        let mut ticket = self.running.remove(&id)?;
        let took = now.saturating_duration_since(ticket.began);
        ticket.audit.took(took, ticket.entry.spec.latency_budget);
        Some(match outcome {
            ToolOutcome::Done(done) => self.done(id, ticket, done, took, now),
            ToolOutcome::Failed(failure) => self.failed(id, ticket, failure, took, now),
            ToolOutcome::Collect(_) => {
                let failure = Failure::new(ToolError::Internal, "Digits were not collected.");
                self.failed(id, ticket, failure, took, now)
            }
        })
    }

    /// A running call is given up: its agent or the telephone call ended. The tool's name, and the
    /// audit lines of the call and of those that had met it running.
    pub fn cancel(&mut self, id: ToolCallId, now: Instant) -> Option<(String, Vec<Audit>)> {
        let Ticket { entry, key, mut audit, began, .. } = self.running.remove(&id)?;
        audit.took(now.saturating_duration_since(began), entry.spec.latency_budget);
        audit.cancelled = true;
        let mut lines = vec![audit.clone()];
        lines.extend(self.replay.abandon(&key).into_iter().map(|id| audit.again(id)));
        Some((entry.spec.name.clone(), lines))
    }

    fn done(&mut self, id: ToolCallId, mut ticket: Ticket, done: Done, took: Duration, now: Instant) -> Settled {
        let spec = &ticket.entry.spec;
        ticket.audit.ok = true;
        self.remember(&done.changes);
        // A tool that looked and says "not them" has worked and proves nothing.
        let denied = done.data.get("authenticated").and_then(Value::as_bool) == Some(false);
        if let Some(state) = spec.authenticates.filter(|_| !denied) {
            self.prove(Source::Tool, state, now);
        }
        if loops::is_empty(&done.data) && spec.kind == ToolKind::Retrieval {
            self.loops.found_nothing(&ticket.turn, &spec.name);
        }
        let envelope = envelope::success(&done, self.meta(spec, took));
        let waiting = self.replay.finish(&ticket.key, envelope.clone());
        self.settled(id, ticket, envelope, waiting, None, done.actions)
    }

    /// Another gate did not let the call run: the caller is asked, or the way out is taken.
    fn stopped_by_remote_gate(
        &mut self,
        ticket: &mut Ticket,
        kind: ToolError,
        now: Instant,
    ) -> (Failure, Vec<CallAction>) {
        let entry = Arc::clone(&ticket.entry);
        let spec = &entry.spec;
        if spec.kind == ToolKind::Retrieval {
            self.spending.give_back(&ticket.turn);
        }
        ticket.audit.gate_decision = Some("fail");
        ticket.audit.duration = 0;
        match kind {
            ToolError::ConfirmationRequired => {
                ticket.audit.route = Some(Route::Ask.label());
                let digest = canonical::arguments_digest(&ticket.arguments);
                self.question(spec, &ticket.arguments, digest, self.wall(now))
            }
            ToolError::Deferred => {
                ticket.audit.route = Some(Route::Defer.label());
                let (failure, actions) = self.deferred(spec, Route::Defer, &[]);
                (*failure, actions)
            }
            _ => {
                ticket.audit.route = Some(Route::Refuse.label());
                (Failure::new(ToolError::Refused, "This is not allowed."), Vec::new())
            }
        }
    }

    fn failed(
        &mut self,
        id: ToolCallId,
        mut ticket: Ticket,
        failure: Failure,
        took: Duration,
        now: Instant,
    ) -> Settled {
        let by_gate =
            matches!(failure.kind, ToolError::ConfirmationRequired | ToolError::Deferred | ToolError::Refused);
        let (mut failure, actions) = if by_gate && self.rules.remote_gate != RemoteUse::None {
            self.stopped_by_remote_gate(&mut ticket, failure.kind, now)
        } else {
            (failure, Vec::new())
        };
        if failure.kind == ToolError::Timeout {
            // Nobody knows how far it got.
            let spec = &ticket.entry.spec;
            failure.retryable = spec.idempotent;
            failure.partial_side_effects |= spec.side_effects == SideEffects::Writes;
        }
        self.remember(&failure.changes);
        let envelope = envelope::failure(&failure, self.meta(&ticket.entry.spec, took), self.rules.error_types);
        // What policy said after all (a remote gate) has run nothing and is decided anew next time.
        let waiting = if failure.kind.before_running() && failure.kind != ToolError::Validation {
            self.replay.abandon(&ticket.key)
        } else {
            self.replay.finish(&ticket.key, envelope.clone())
        };
        let ticket = Ticket { audit: ticket.audit.failed(&failure), ..ticket };
        self.settled(id, ticket, envelope, waiting, Some(failure.kind), actions)
    }

    fn settled(
        &self,
        id: ToolCallId,
        ticket: Ticket,
        envelope: Value,
        waiting: Vec<ToolCallId>,
        error: Option<ToolError>,
        actions: Vec<CallAction>,
    ) -> Settled {
        let Ticket { entry, audit, detached, .. } = ticket;
        let answer = |id, envelope, audit| Answer {
            id,
            output: self.text(envelope),
            tool: Some(entry.spec.name.clone()),
            error,
            actions: Vec::new(),
            audit,
        };
        let mut answers: Vec<Answer> =
            waiting.into_iter().map(|id| answer(id, replayed(&envelope), audit.again(id))).collect();
        if detached {
            return Settled { answers, actions, audit: Some(audit) };
        }
        let own = answer(id, envelope, audit.clone());
        answers.insert(0, own);
        Settled { answers, actions, audit: None }
    }

    fn remember(&mut self, changes: &[Change]) {
        if !changes.is_empty() {
            Arc::make_mut(&mut self.memory).apply(changes);
        }
    }
}
