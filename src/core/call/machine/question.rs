//! Whether a tool may run, asked in the operator's own words: by a clip, so that it is these words and no others that the
//! caller says yes to. The agent's words before it are heard first.

use super::CallMachine;
use crate::call::{
    agent::{AgentCommand, Reply, ResponseId, Speaker},
    clips::Spoken,
    record::Note,
    track::{ClipHeard, Floor, Purpose},
    words::Output,
};
use std::time::{Duration, Instant};

/// Who speaks into the last second of a question has heard it, if that is not the half of it.
const MAY_BE_MISSED: Duration = Duration::from_secs(1);

/// A question on its way to the caller.
#[derive(Debug)]
pub(super) enum Question {
    Ready(Spoken),
    /// A voice speaks it.
    Awaited {
        text: String,
        /// The caller's turn in which it is wanted.
        turn: u64,
        /// The agent was told to be silent for it.
        due: bool,
    },
    /// No voice spoke it in time.
    Failed(String),
}

impl Question {
    fn text(&self) -> &str {
        match self {
            Self::Ready(Spoken { text, .. }) | Self::Awaited { text, .. } | Self::Failed(text) => text,
        }
    }
}

impl CallMachine {
    /// Has a voice speak a question that is not rendered. It is put with the answers that are due.
    pub(super) fn prepare_question(&mut self, question: String, out: &mut Vec<Output>) {
        let is_awaited = matches!(&self.question, Some(Question::Awaited { text, .. }) if *text == question);
        if let Some(ready) = self.plan.clips.line(&question) {
            self.question = Some(Question::Ready(ready));
        } else if !is_awaited {
            out.push(Output::Speak(question.clone().into()));
            self.question = Some(Question::Awaited { text: question, turn: self.policy.turn(), due: false });
        }
    }

    /// Puts the question that waits, if there is one; whether the agent has to be silent for it. A caller who speaks meanwhile
    /// is not spoken into, and one who was asked already is not asked again.
    pub(super) fn ask(&mut self, caller_speaks: bool, out: &mut Vec<Output>) -> bool {
        let Some(question) = self.question.take() else { return false };
        let is_new = self.policy.puts_question();
        if caller_speaks || matches!(question, Question::Failed(_)) {
            if is_new {
                self.tell_unheard(question.text(), out);
            }
            return false;
        }
        match question {
            Question::Ready(spoken) if is_new => self.put(&spoken, out),
            Question::Awaited { text, turn, due } if is_new || due => {
                self.question = Some(Question::Awaited { text, turn, due: true });
            }
            Question::Ready(_) | Question::Awaited { .. } | Question::Failed(_) => {}
        }
        self.manners.asks = true;
        true
    }

    /// The voice has spoken the question that waits for it, or has not. A caller who has said something meanwhile is answered
    /// first.
    pub(super) fn on_spoken(&mut self, spoken: Option<Spoken>, now: Instant, out: &mut Vec<Output>) {
        let is_it = |text: &str| spoken.as_ref().is_none_or(|spoken| spoken.text == text);
        let awaited =
            self.question.take_if(|question| matches!(question, Question::Awaited { text, .. } if is_it(text)));
        let Some(Question::Awaited { text, turn, due }) = awaited else { return };
        let is_answered_first = self.track.floor() == Floor::Caller || self.policy.turn() != turn;
        match spoken {
            Some(spoken) if !due => self.question = Some(Question::Ready(spoken)),
            None if !due => self.question = Some(Question::Failed(text)),
            _ if is_answered_first => self.tell_unheard(&text, out),
            Some(spoken) => self.put(&spoken, out),
            None => {
                self.policy.question_was_not_heard();
                self.tell(&format!("The caller could not be asked. Say to them, word for word: \"{text}\""), now, out);
            }
        }
    }

    fn put(&mut self, question: &Spoken, out: &mut Vec<Output>) {
        self.track.say(question, Purpose::Question);
        out.push(Output::Note(Note::Spoke { purpose: Purpose::Question.label() }));
        self.ears.answered();
        self.ears.agent_said(&question.text);
        // Without it the caller's yes says nothing to whoever carries the call on.
        self.succession.somebody_speaks();
        out.push(Output::Note(Note::Said { speaker: Speaker::Agent, text: question.text.clone().into() }));
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
