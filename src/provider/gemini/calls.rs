//! Tool calls that are not answered yet, and answers that cannot go yet.

use super::server::FunctionCall;
use crate::{
    call::{AgentEvent, Noise, Reply},
    tool::ToolCall,
};
use serde_json::{Value, json};

/// Calls open at once: twice what may run. More is no conversation, and each costs memory.
pub(super) const OPEN_MAX: usize = 32;
/// Bytes of a `response`: large ones have ended sessions with 1011.
const RESPONSE_BYTES_MAX: usize = 2048;
/// Of the answer in it.
pub(super) const ANSWER_BYTES_MAX: usize = RESPONSE_BYTES_MAX - r#"{"output":}"#.len();

#[derive(Debug, Default)]
pub(super) struct Calls {
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
}

#[derive(Debug)]
struct Answer {
    to: Open,
    output: Value,
    reply: Reply,
}

impl Calls {
    /// The model waits for an answer.
    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
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
            format!("unnamed-{}", self.unnamed)
        });
        if self.open.len() == OPEN_MAX || self.open.iter().any(|open| open.id == id) {
            return AgentEvent::Noise(Noise::Malformed);
        }
        let arguments = Value::Object(call.args.unwrap_or_default()).to_string();
        self.open.push(Open { id: id.clone(), name: name.clone(), unnamed });
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

    /// The answers that are there, as one message; with the last goes what is noted, if it fits.
    pub(super) fn take(&mut self, scheduled: bool, notes: &mut Vec<String>) -> Option<Value> {
        if let Some(Value::Object(told)) = self.answers.last_mut().map(|answer| &mut answer.output)
            && !notes.is_empty()
        {
            told.insert("alsoKnow".into(), notes.join("\n").into());
            if serde_json::to_string(told).is_ok_and(|told| told.len() <= ANSWER_BYTES_MAX) {
                notes.clear();
            } else {
                told.remove("alsoKnow");
            }
        }
        let answers: Vec<Value> = self.answers.drain(..).map(|answer| answer.render(scheduled)).collect();
        (!answers.is_empty()).then(|| json!({ "toolResponse": { "functionResponses": answers } }))
    }
}

impl Answer {
    fn render(self, scheduled: bool) -> Value {
        let kind = if self.output["ok"] == false { "error" } else { "output" };
        let mut answer = json!({ "name": self.to.name, "response": { kind: self.output } });
        if !self.to.unnamed {
            answer["id"] = self.to.id.into();
        }
        if scheduled {
            let when = if self.reply == Reply::Wanted { "WHEN_IDLE" } else { "SILENT" };
            answer["scheduling"] = when.into();
        }
        answer
    }
}
