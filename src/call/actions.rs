//! Tool calls under way: each is answered exactly once, and the agent is asked to speak exactly
//! once for all of them.
//!
//! Answers wait until the response that made the calls is complete: only then is the set complete,
//! and providers refuse to start a new response before.

use super::agent::Reply;
use std::time::{Duration, Instant};

/// More calls at once than any conversation needs; the next one is refused.
const IN_FLIGHT_MAX: usize = 16;

#[derive(Debug, Default)]
pub struct Actions {
    calls: Vec<Action>,
}

#[derive(Debug)]
struct Action {
    id: String,
    name: String,
    deadline: Instant,
    /// The envelope, once there is one.
    answer: Option<String>,
    /// The response that made the call is complete.
    complete: bool,
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
        self.calls.len() >= IN_FLIGHT_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub fn begin(&mut self, id: &str, name: &str, now: Instant, limit: Duration) {
        let (id, name) = (id.to_owned(), name.to_owned());
        self.calls.push(Action { id, name, deadline: now + limit, answer: None, complete: false });
    }

    /// The next moment at which a call has run too long.
    pub fn deadline(&self) -> Option<Instant> {
        self.calls.iter().filter(|call| call.answer.is_none()).map(|call| call.deadline).min()
    }

    /// Ids of calls that have run too long at `now`.
    pub fn overdue(&self, now: Instant) -> Vec<String> {
        let overdue = |call: &&Action| call.answer.is_none() && call.deadline <= now;
        self.calls.iter().filter(overdue).map(|call| call.id.clone()).collect()
    }

    /// Enters an answer and tells the tool's name; `None` when the call is not open (any more), so
    /// a late or doubled answer goes nowhere.
    pub fn finish(&mut self, id: &str, output: String) -> Option<String> {
        let call = self.calls.iter_mut().find(|call| call.id == id && call.answer.is_none())?;
        call.answer = Some(output);
        Some(call.name.clone())
    }

    pub fn response_completed(&mut self) {
        self.calls.iter_mut().for_each(|call| call.complete = true);
    }

    /// Answers that may be sent now; with the last open one the agent is asked to speak, if
    /// `speak` says that it still has something to say.
    pub fn take_answers(&mut self, speak: bool) -> Vec<Answer> {
        let (ready, open): (Vec<_>, Vec<_>) =
            self.calls.drain(..).partition(|call| call.complete && call.answer.is_some());
        self.calls = open;
        let count = ready.len();
        let nothing_open = self.calls.is_empty();
        let ready = ready.into_iter().filter_map(|call| Some((call.id, call.answer?))).enumerate();
        ready
            .map(|(index, (call_id, output))| {
                let last = nothing_open && index + 1 == count;
                Answer { call_id, output, reply: if last && speak { Reply::Wanted } else { Reply::NotNow } }
            })
            .collect()
    }

    /// Forgets everything (the agent is gone) and tells id and name of the calls that still run.
    pub fn abandon(&mut self) -> Vec<(String, String)> {
        self.calls.drain(..).filter(|call| call.answer.is_none()).map(|call| (call.id, call.name)).collect()
    }
}
