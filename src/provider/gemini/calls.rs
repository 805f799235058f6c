//! Tool calls that are not answered yet, and answers that cannot go yet.

use super::{
    options::{Options, ToolBehavior},
    server::FunctionCall,
};
use crate::{
    call::{AgentEvent, Noise, Reply},
    tool::ToolCall,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Calls open at once: twice what may run. More is no conversation, and each costs memory.
pub(super) const OPEN_MAX: usize = 32;
/// Bytes of a `response` where the operator says nothing of it: large ones have ended sessions with 1011.
pub(super) const RESPONSE_BYTES: usize = 2048;
/// Less holds no envelope of an answer.
pub(super) const RESPONSE_BYTES_MIN: usize = 256;
/// As much as any agent is told.
pub(super) const RESPONSE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of the answer in a `response` of so many.
pub(super) const fn answer_bytes(response_bytes: usize) -> usize {
    response_bytes.saturating_sub(r#"{"output":}"#.len())
}

#[derive(Debug)]
pub(super) struct Calls {
    options: Arc<Options>,
    open: Vec<Open>,
    /// Not sent yet; no more than calls were open.
    answers: Vec<Answer>,
    unnamed: u64,
}

#[derive(Debug)]
struct Open {
    id: String,
    name: String,
    /// The server gave no id, so it gets none back.
    unnamed: bool,
    /// The model goes on talking meanwhile.
    talks_on: bool,
}

#[derive(Debug)]
struct Answer {
    to: Open,
    output: Value,
    reply: Reply,
}

impl Calls {
    pub(super) fn new(options: Arc<Options>) -> Self {
        Self { options, open: Vec::new(), answers: Vec::new(), unnamed: 0 }
    }

    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The model says nothing before it has an answer.
    pub(super) fn hold_the_model(&self) -> bool {
        self.open.iter().any(|open| !open.talks_on)
    }

    /// The model goes on talking while it waits for the answer to this one.
    pub(super) fn talks_on(&self, call_id: &str) -> bool {
        self.open.iter().any(|open| open.id == call_id && open.talks_on)
    }

    pub(super) fn take_in(&mut self, calls: Vec<FunctionCall>) -> Vec<AgentEvent> {
        calls.into_iter().map(|call| self.enter(call)).collect()
    }

    /// A call that is open already, or one too many, is not run, but not unseen.
    fn enter(&mut self, call: FunctionCall) -> AgentEvent {
        let name = call.name.unwrap_or_default();
        let given = call.id.filter(|id| !id.is_empty());
        let unnamed = given.is_none();
        let id = given.unwrap_or_else(|| {
            self.unnamed += 1;
            format!("{}{}", ToolCall::UNNAMED, self.unnamed)
        });
        if self.open.len() == OPEN_MAX || self.open.iter().any(|open| open.id == id) {
            return AgentEvent::Noise(Noise::Malformed);
        }
        let arguments = call.args;
        let talks_on = self.options.behavior_of(&name) == Some(ToolBehavior::NonBlocking);
        self.open.push(Open { id: id.clone(), name: name.clone(), unnamed, talks_on });
        AgentEvent::ToolCall(ToolCall { id, name, arguments })
    }

    /// The server took these back, and wants no answer to them, also none that waits here. Those that nobody knows are
    /// reported too.
    pub(super) fn cancel(&mut self, ids: Vec<String>, events: &mut Vec<AgentEvent>) {
        for call_id in ids {
            let answers = self.answers.len();
            self.answers.retain(|answer| answer.to.id != call_id);
            self.open.retain(|open| open.id != call_id);
            if self.answers.len() == answers {
                events.push(AgentEvent::ToolCallCancelled { call_id });
            }
        }
    }

    /// Enters an answer. One to a call that nobody waits for goes nowhere: the server ends the session
    /// over it.
    pub(super) fn answer(&mut self, call_id: &str, output: &str, reply: Reply) {
        if let Some(at) = self.open.iter().position(|open| open.id == call_id) {
            let output = serde_json::from_str(output).unwrap_or_else(|_| Value::from(output));
            self.answers.push(Answer { to: self.open.remove(at), output, reply });
        }
    }

    /// The answers that are there, as one message, and whether the model goes on talking anyway; with the last goes what is
    /// noted, if it fits.
    pub(super) fn take(&mut self, notes: &mut Vec<String>) -> Option<(Value, bool)> {
        let answer_bytes_max = answer_bytes(self.options.tool_answer_bytes);
        if let Some(Value::Object(told)) = self.answers.last_mut().map(|answer| &mut answer.output)
            && !notes.is_empty()
        {
            told.insert("alsoKnow".into(), notes.join("\n").into());
            if serde_json::to_string(told).is_ok_and(|told| told.len() <= answer_bytes_max) {
                notes.clear();
            } else {
                told.remove("alsoKnow");
            }
        }
        // Vertex does not know the word.
        let schedules = self.options.vertex.is_none();
        let talks_on = self.answers.iter().all(|answer| answer.to.talks_on);
        let answers: Vec<Value> = self.answers.drain(..).map(|answer| answer.render(schedules)).collect();
        (!answers.is_empty()).then(|| (json!({ "toolResponse": { "functionResponses": answers } }), talks_on))
    }
}

impl Answer {
    fn render(self, schedules: bool) -> Value {
        let kind = if self.output["ok"] == false { "error" } else { "output" };
        let mut answer = json!({ "name": self.to.name, "response": { kind: self.output } });
        if !self.to.unnamed {
            answer["id"] = self.to.id.into();
        }
        if schedules && self.to.talks_on {
            let when = if self.reply == Reply::Wanted { "WHEN_IDLE" } else { "SILENT" };
            answer["scheduling"] = when.into();
        }
        answer
    }
}
