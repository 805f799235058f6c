//! Tool calls under way: each is answered exactly once, and the agent is asked to speak exactly
//! once for all of them.
//!
//! Answers wait until the response that made the calls is complete: only then is the set complete,
//! and providers refuse to start a new response before.

use super::agent::Reply;
use crate::tool::{Announce, ToolCall, ToolCallId};
use std::time::Instant;

/// More calls at once than any conversation needs; the next one is refused.
const IN_FLIGHT_MAX: usize = 16;

/// Calls of one response, refused ones included, that are kept to be answered. An agent that makes more
/// has lost its mind, and each costs memory until its response ends.
const KEPT_MAX: usize = 512;

#[derive(Debug, Default)]
pub struct Actions {
    calls: Vec<Action>,
    /// Calls whose model does not wait: answered, and still running.
    dispatched: Vec<(ToolCallId, Instant)>,
}

#[derive(Debug)]
struct Action {
    id: ToolCallId,
    /// The provider's own id, echoed byte for byte.
    provider_id: String,
    state: State,
    /// The response that made the call is complete.
    complete: bool,
}

#[derive(Debug)]
enum State {
    /// Being decided about, or answered along with another one.
    Open,
    Running {
        deadline: Instant,
        slow: Slow,
    },
    /// Decided again when the caller's words are there.
    Waiting {
        call: ToolCall,
        until: Instant,
    },
    /// The envelope.
    Answered(String),
}

/// A running call that the caller waits for, who is told about it when it takes long.
#[derive(Debug, Clone)]
pub struct Slow {
    pub tool: String,
    /// In these words and after this time, where its author said so.
    pub announce: Option<Announce>,
    pub began: Instant,
    /// It is not announced any more.
    pub told: bool,
}

/// One answer on its way to the agent.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub call_id: String,
    pub output: String,
    pub reply: Reply,
}

impl Actions {
    pub fn is_full(&self) -> bool {
        self.calls.len() + self.dispatched.len() >= IN_FLIGHT_MAX
    }

    /// The agent calls tools without end.
    pub fn is_flooded(&self) -> bool {
        self.calls.len() >= KEPT_MAX
    }

    /// Nothing is owed to the agent.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub fn begin(&mut self, id: ToolCallId, provider_id: &str) {
        let provider_id = provider_id.to_owned();
        self.calls.push(Action { id, provider_id, state: State::Open, complete: false });
    }

    /// The call runs until `deadline` at most.
    pub fn run(&mut self, id: ToolCallId, deadline: Instant, slow: Slow) {
        self.set(id, State::Running { deadline, slow });
    }

    /// The calls that run, for which the caller waits.
    pub fn slow(&self) -> impl Iterator<Item = &Slow> {
        self.calls.iter().filter_map(|call| match &call.state {
            State::Running { slow, .. } => Some(slow),
            _ => None,
        })
    }

    /// A call runs for which the agent waits.
    pub fn is_running(&self) -> bool {
        self.slow().next().is_some()
    }

    /// Nothing more is announced of the calls that run.
    pub fn forget_announcements(&mut self) {
        for call in &mut self.calls {
            if let State::Running { slow, .. } = &mut call.state {
                slow.told = true;
            }
        }
    }

    /// Answered at once, and still running.
    pub fn dispatch(&mut self, id: ToolCallId, output: String, deadline: Instant) {
        self.set(id, State::Answered(output));
        self.dispatched.push((id, deadline));
    }

    /// A running call is given more time.
    pub fn extend(&mut self, id: ToolCallId, until: Instant) {
        let calls = self.calls.iter_mut().filter(|call| call.id == id).filter_map(|call| match &mut call.state {
            State::Running { deadline, .. } => Some(deadline),
            _ => None,
        });
        let dispatched = self.dispatched.iter_mut().filter(|(known, _)| *known == id).map(|(_, deadline)| deadline);
        calls.chain(dispatched).for_each(|deadline| *deadline = until);
    }

    pub fn wait(&mut self, id: ToolCallId, call: ToolCall, until: Instant) {
        self.set(id, State::Waiting { call, until });
    }

    /// A call waits for the caller's words.
    pub fn is_waiting(&self) -> bool {
        self.calls.iter().any(|call| matches!(call.state, State::Waiting { .. }))
    }

    /// Takes the calls that wait for the caller's words, to be decided about again.
    pub fn take_waiting(&mut self) -> Vec<(ToolCallId, ToolCall)> {
        let take = |action: &mut Action| match std::mem::replace(&mut action.state, State::Open) {
            State::Waiting { call, .. } => Some((action.id, call)),
            other => {
                action.state = other;
                None
            }
        };
        self.calls.iter_mut().filter_map(take).collect()
    }

    /// The next moment at which a call has run, or waited, too long.
    pub fn deadline(&self) -> Option<Instant> {
        let calls = self.calls.iter().filter_map(|call| match &call.state {
            State::Running { deadline, .. } => Some(*deadline),
            State::Waiting { until, .. } => Some(*until),
            State::Open | State::Answered(_) => None,
        });
        calls.chain(self.dispatched.iter().map(|(_, deadline)| *deadline)).min()
    }

    /// Calls that have run too long at `now`.
    pub fn overdue(&mut self, now: Instant) -> Vec<ToolCallId> {
        let late = |call: &&Action| matches!(call.state, State::Running { deadline, .. } if deadline <= now);
        let mut overdue: Vec<_> = self.calls.iter().filter(late).map(|call| call.id).collect();
        overdue.extend(self.dispatched.iter().filter(|(_, deadline)| *deadline <= now).map(|(id, _)| *id));
        overdue
    }

    /// Whether a call has waited for the caller's words for too long.
    pub fn waited_too_long(&self, now: Instant) -> bool {
        self.calls.iter().any(|call| matches!(call.state, State::Waiting { until, .. } if until <= now))
    }

    /// Enters an answer. A late or doubled one goes nowhere.
    pub fn finish(&mut self, id: ToolCallId, output: String) {
        let open = |call: &&mut Action| call.id == id && !matches!(call.state, State::Answered(_));
        if let Some(call) = self.calls.iter_mut().find(open) {
            call.state = State::Answered(output);
        }
    }

    /// A dispatched call has come to its end.
    pub fn dispatched_finished(&mut self, id: ToolCallId) {
        self.dispatched.retain(|(known, _)| *known != id);
    }

    pub fn response_completed(&mut self) {
        self.calls.iter_mut().for_each(|call| call.complete = true);
    }

    /// Answers that may be sent now; with the last open one the agent is asked to speak, if
    /// `speak` says that it still has something to say.
    pub fn take_answers(&mut self, speak: bool) -> Vec<Answer> {
        let (ready, open): (Vec<_>, Vec<_>) =
            self.calls.drain(..).partition(|call| call.complete && matches!(call.state, State::Answered(_)));
        self.calls = open;
        let count = ready.len();
        let nothing_open = self.calls.is_empty();
        let ready = ready.into_iter().filter_map(|call| match call.state {
            State::Answered(output) => Some((call.provider_id, output)),
            _ => None,
        });
        ready
            .enumerate()
            .map(|(index, (call_id, output))| {
                let last = nothing_open && index + 1 == count;
                Answer { call_id, output, reply: if last && speak { Reply::Wanted } else { Reply::NotNow } }
            })
            .collect()
    }

    /// The agent is gone, and another one will come: what runs goes on, answered by nobody. Those calls, and
    /// the answers that the agent was still to get.
    pub fn orphan(&mut self) -> (Vec<ToolCallId>, Vec<String>) {
        let (mut running, mut answered) = (Vec::new(), Vec::new());
        for call in self.calls.drain(..) {
            match call.state {
                State::Running { deadline, .. } => {
                    self.dispatched.push((call.id, deadline));
                    running.push(call.id);
                }
                State::Answered(output) => answered.push(output),
                State::Open | State::Waiting { .. } => {}
            }
        }
        (running, answered)
    }

    /// An answer to it is still owed.
    pub fn is_open(&self, id: ToolCallId) -> bool {
        self.calls.iter().any(|call| call.id == id)
    }

    /// A call of this provider's id is open.
    pub fn knows(&self, provider_id: &str) -> bool {
        self.calls.iter().any(|call| call.provider_id == provider_id)
    }

    /// The provider took a call back. The one that runs, if it does.
    pub fn withdraw(&mut self, provider_id: &str) -> Option<ToolCallId> {
        let at = self.calls.iter().position(|call| call.provider_id == provider_id)?;
        let call = self.calls.remove(at);
        matches!(call.state, State::Running { .. }).then_some(call.id)
    }

    /// Forgets everything (the agent is gone) and tells the calls that still run.
    pub fn abandon(&mut self) -> Vec<ToolCallId> {
        let calls = self.calls.drain(..).filter(|call| matches!(call.state, State::Running { .. }));
        let mut running: Vec<_> = calls.map(|call| call.id).collect();
        running.extend(self.dispatched.drain(..).map(|(id, _)| id));
        running
    }

    fn set(&mut self, id: ToolCallId, state: State) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
            call.state = state;
        }
    }
}
