//! Whether a tool may run, asked in the operator's own words: by a clip, so that it is these words and no others that the
//! caller says yes to. The agent's words before it are heard first.

use super::{CallMachine, Phase};
use crate::{
    audio::Clip,
    call::{
        agent::{AgentCommand, Reply, ResponseId, Speaker},
        clips::Spoken,
        record::Note,
        timers::Timer,
        track::{ClipHeard, Floor, Purpose},
        words::Output,
    },
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Sound of a question that may be missed: its end falls silent. The values of a question often come last.
const MAY_BE_MISSED: Duration = Duration::from_millis(300);

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

/// Voice that asks the caller, decided when the answers of tools go to the agent.
pub(super) enum Asking {
    Nothing,
    /// By the engine: the agent has to be silent.
    ByEngine,
    /// By the agent, once it has the answers.
    ByAgent(String),
}

impl CallMachine {
    /// Has a voice speak a question that is not rendered. It is put with the answers that are due.
    pub(super) fn prepare_question(&mut self, question: String, out: &mut Vec<Output>) {
        if let Some(Question::Awaited { text, turn, .. }) = &mut self.question
            && *text == question
        {
            *turn = self.policy.turn();
        } else if let Some(ready) = self.plan.clips.line(&question) {
            self.question = Some(Question::Ready(ready));
        } else {
            out.push(Output::Speak(question.clone().into()));
            self.question = Some(Question::Awaited { text: question, turn: self.policy.turn(), due: false });
        }
    }

    /// Puts the question that waits, if there is one. A caller who speaks meanwhile is not spoken into, one who was asked already is
    /// not asked again, and one who is about to go is not asked.
    pub(super) fn ask(&mut self, caller_speaks: bool, out: &mut Vec<Output>) -> Asking {
        let Some(question) = self.question.take() else { return Asking::Nothing };
        if self.may_not_be_asked() {
            self.policy.question_was_not_heard();
            return Asking::Nothing;
        }
        let is_new = self.policy.puts_question();
        match question {
            Question::Ready(Spoken { text, .. }) if caller_speaks && is_new => Asking::ByAgent(text),
            Question::Awaited { text, due, .. } if caller_speaks && (is_new || due) => Asking::ByAgent(text),
            _ if caller_speaks => Asking::Nothing,
            Question::Failed(text) if is_new => Asking::ByAgent(text),
            Question::Failed(_) => Asking::Nothing,
            Question::Awaited { text, turn, due: true } if turn != self.policy.turn() => Asking::ByAgent(text),
            Question::Ready(spoken) => {
                if is_new {
                    self.put(&spoken, out);
                }
                self.manners.asks = true;
                Asking::ByEngine
            }
            Question::Awaited { text, turn, due } => {
                if is_new || due {
                    self.question = Some(Question::Awaited { text, turn, due: true });
                }
                self.manners.asks = true;
                Asking::ByEngine
            }
        }
    }

    /// The voice has spoken the question that waits for it, or has not. A caller who has said something meanwhile is answered
    /// first.
    pub(super) fn on_spoken(&mut self, sentence: &str, clip: Option<Arc<Clip>>, now: Instant, out: &mut Vec<Output>) {
        let awaited =
            self.question.take_if(|question| matches!(question, Question::Awaited { text, .. } if text == sentence));
        let Some(Question::Awaited { text, turn, due }) = awaited else { return };
        let is_answered_first = self.track.floor() == Floor::Caller || self.policy.turn() != turn;
        match clip {
            Some(clip) if !due => self.question = Some(Question::Ready(Spoken { text, clip })),
            None if !due => self.question = Some(Question::Failed(text)),
            _ if self.may_not_be_asked() => self.policy.question_was_not_heard(),
            Some(clip) if !is_answered_first => self.put(&Spoken { text, clip }, out),
            _ => self.leave_question_to_agent(&text, now, out),
        }
    }

    /// The agent puts a question that the engine did not: at once, or with what it owes the caller anyway.
    pub(super) fn leave_question_to_agent(&mut self, question: &str, now: Instant, out: &mut Vec<Output>) {
        self.manners.asks = false;
        if self.caller_is_answered_anyway() || self.timers.is_set(Timer::AgentSilence) {
            return self.tell_unheard(question, out);
        }
        self.policy.question_was_not_heard();
        self.tell(&unheard(question), now, out);
    }

    /// The question is not put yet: its voice is still speaking it.
    pub(super) const fn question_is_due(&self) -> bool {
        matches!(self.question, Some(Question::Awaited { due: true, .. }))
    }

    /// The caller is on the way to somebody else, or out.
    const fn may_not_be_asked(&self) -> bool {
        !matches!(self.phase, Phase::Talking) || self.handoff.is_some()
    }

    fn put(&mut self, question: &Spoken, out: &mut Vec<Output>) {
        self.track.say(question, Purpose::Question);
        out.push(Output::Note(Note::Spoke { purpose: Purpose::Question.label() }));
        self.ears.answered();
        self.ears.agent_said(&question.text);
        // The agent that carries the call on has to know what the caller says yes to.
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

    pub(super) fn question_was_cut(&mut self, ClipHeard { text, left, .. }: &ClipHeard, out: &mut Vec<Output>) {
        if *left > MAY_BE_MISSED {
            self.tell_unheard(text, out);
        } else {
            self.policy.question_was_heard(text);
        }
    }

    /// A key at the very end of a question answers it.
    pub(super) fn question_may_be_known(&mut self) {
        if let Some(ClipHeard { text, left, .. }) = self.track.question()
            && left <= MAY_BE_MISSED
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

    /// Drops a question whose agent is gone before it was put.
    pub(super) fn forget_question(&mut self) {
        if self.question.take().is_some() {
            self.manners.asks = false;
            self.policy.question_was_not_heard();
        }
    }

    fn tell_unheard(&mut self, question: &str, out: &mut Vec<Output>) {
        self.policy.question_was_not_heard();
        let text = unheard(question);
        self.succession_keeps(&text);
        self.to_agent(AgentCommand::Tell { text, reply: Reply::NotNow }, out);
    }
}

fn unheard(question: &str) -> String {
    format!("The caller has not heard the question. Where it still matters, say it, word for word: \"{question}\"")
}
