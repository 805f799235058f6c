//! Whether a tool may run, asked in the operator's own words: by a clip, so that it is these words and no others that the
//! caller says yes to. The agent's words before it are heard first.

use super::CallMachine;
use crate::call::{
    agent::{AgentCommand, Reply, ResponseId, Speaker},
    record::Note,
    track::{ClipHeard, Purpose},
    words::Output,
};
use std::time::Duration;

/// Who speaks into the last second of a question has heard it, if that is not the half of it.
const MAY_BE_MISSED: Duration = Duration::from_secs(1);

impl CallMachine {
    /// Puts the question that waits, if there is one; whether the agent has to be silent for it. A caller who speaks meanwhile
    /// is not spoken into, and one who was asked already is not asked again.
    pub(super) fn ask(&mut self, caller_speaks: bool, out: &mut Vec<Output>) -> bool {
        let Some(question) = self.question.take() else { return false };
        let is_new = self.policy.puts_question();
        if caller_speaks {
            if is_new {
                self.tell_unheard(&question.text, out);
            }
            return false;
        }
        if is_new {
            self.track.say(&question, Purpose::Question);
            out.push(Output::Note(Note::Spoke { purpose: Purpose::Question.label() }));
            self.ears.answered();
            self.ears.agent_said(&question.text);
            // Without it the caller's yes says nothing to whoever carries the call on.
            self.succession.somebody_speaks();
            out.push(Output::Note(Note::Said { speaker: Speaker::Agent, text: question.text.into() }));
        }
        self.manners.asks = true;
        true
    }

    /// Some vendors' agents answer each result, whoever is being asked what. The caller hears one voice and one question, so
    /// what such an agent begins to say is not heard until they have answered, or it owes them speech.
    pub(super) fn speaks_into_question(&mut self, response: &ResponseId) -> bool {
        let speaks = self.manners.asks && self.last_response.as_ref() != Some(response);
        if speaks {
            // Nor is the rest of it afterwards.
            self.track.cut_off(response.clone());
        }
        speaks
    }

    pub(super) fn question_was_cut(&mut self, ClipHeard { text, heard, left, .. }: &ClipHeard, out: &mut Vec<Output>) {
        if *left > MAY_BE_MISSED.min(*heard) {
            self.tell_unheard(text, out);
        } else {
            self.policy.question_was_heard(text);
        }
    }

    /// Who presses a key in the second half of a question knows what it is about.
    pub(super) fn question_may_be_known(&mut self) {
        if let Some(ClipHeard { text, heard, left, .. }) = self.track.question()
            && heard >= left
        {
            self.policy.question_was_heard(&text);
        }
    }

    /// It is answered, or another context has the call: nobody is asked any more.
    pub(super) fn drop_question(&mut self) {
        self.manners.asks = false;
        self.forget_question();
        self.track.drop_questions();
    }

    /// Its agent is gone before it was put.
    pub(super) fn forget_question(&mut self) {
        if self.question.take().is_some() {
            self.policy.question_was_not_heard();
        }
    }

    fn tell_unheard(&mut self, question: &str, out: &mut Vec<Output>) {
        self.policy.question_was_not_heard();
        let text = format!(
            "The caller has not heard the question. Where it still matters, say it, word for word: \"{question}\""
        );
        self.to_agent(AgentCommand::Tell { text, reply: Reply::NotNow }, out);
    }
}
