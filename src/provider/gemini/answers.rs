//! The model's answers, which the protocol does not number: one begins with its first sound, and ends
//! when the server says that all of it was sent, that a tool is called, or that it was interrupted.

use super::caller::Words;
use crate::call::{AgentEvent, Noise, ResponseId, ResponseStatus, Speaker};
use bytes::Bytes;

#[derive(Debug, Default)]
enum State {
    #[default]
    Silent,
    Speaking(ResponseId),
    /// It called a tool, and is told to be over: the server may say nothing more before the call is
    /// answered. Sound that comes all the same is still its own.
    Called {
        response: ResponseId,
        spoke_on: bool,
    },
    /// All of it was sent, or it was interrupted. What comes before the turn is over is stale.
    Over,
}

#[derive(Debug, Default)]
pub(super) struct Answers {
    count: u64,
    state: State,
    words: Words,
}

impl Answers {
    pub(super) fn is_speaking(&self) -> bool {
        matches!(self.state, State::Speaking(_))
    }

    /// Whether the next sound begins an answer.
    pub(super) fn begins_next(&self) -> bool {
        matches!(self.state, State::Silent)
    }

    pub(super) fn audio(&mut self, audio: Bytes, events: &mut Vec<AgentEvent>) {
        let response = match &mut self.state {
            State::Over => return events.push(AgentEvent::Noise(Noise::LateAudio)),
            State::Speaking(response) => response.clone(),
            State::Called { response, spoke_on } => {
                *spoke_on = true;
                response.clone()
            }
            State::Silent => {
                let response = self.begin(events);
                self.state = State::Speaking(response.clone());
                response
            }
        };
        events.push(AgentEvent::Audio { item: response.clone(), response, audio });
    }

    pub(super) fn said(&mut self, fragment: &str) {
        self.words.push(fragment);
    }

    /// The calls belong to the answer under way, or are all of one.
    pub(super) fn calls(&mut self, calls: Vec<AgentEvent>, events: &mut Vec<AgentEvent>) {
        let (response, spoke_on) = match std::mem::take(&mut self.state) {
            State::Speaking(response) => (response, false),
            // The call can be answered, which is all that matters; what was said is heard.
            State::Called { response, spoke_on } => (response, spoke_on),
            State::Silent | State::Over => (self.begin(events), false),
        };
        self.report_words(events);
        events.extend(calls);
        events.push(AgentEvent::ResponseDone { response: response.clone(), status: ResponseStatus::Completed });
        self.state = State::Called { response, spoke_on };
    }

    /// The server has sent all of it.
    pub(super) fn generated(&mut self, events: &mut Vec<AgentEvent>) {
        if !self.begins_next() {
            self.end(ResponseStatus::Completed, events);
            self.state = State::Over;
        }
    }

    /// The caller spoke; what still comes of it is stale.
    pub(super) fn interrupted(&mut self, events: &mut Vec<AgentEvent>) {
        self.end(ResponseStatus::Cancelled, events);
        self.state = State::Over;
    }

    /// Nothing more comes of it.
    pub(super) fn end(&mut self, status: ResponseStatus, events: &mut Vec<AgentEvent>) {
        self.report_words(events);
        match std::mem::take(&mut self.state) {
            State::Speaking(response) => events.push(AgentEvent::ResponseDone { response, status }),
            State::Called { response, .. } => {
                events.push(AgentEvent::Audio { item: response.clone(), response, audio: Bytes::new() });
            }
            State::Silent | State::Over => {}
        }
    }

    /// An answer that was to come, and has nothing in it.
    pub(super) fn empty(&mut self, status: ResponseStatus, events: &mut Vec<AgentEvent>) {
        let response = self.begin(events);
        events.push(AgentEvent::ResponseDone { response, status });
    }

    /// The model was asked for something, or the caller has gone on: what comes next is the answer to that.
    pub(super) fn next(&mut self) {
        if !self.is_speaking() {
            self.state = State::Silent;
        }
    }

    /// Its calls were answered. A model that `talks_on` may be in the middle of a sentence, and takes the
    /// answer up after it.
    pub(super) fn answered(&mut self, talks_on: bool) {
        let mid_sentence = matches!(self.state, State::Called { spoke_on: true, .. });
        if !(talks_on && mid_sentence) {
            self.next();
        }
    }

    fn begin(&mut self, events: &mut Vec<AgentEvent>) -> ResponseId {
        self.count += 1;
        let response = ResponseId::from(format!("answer-{}", self.count));
        events.push(AgentEvent::ResponseStarted { response: response.clone() });
        response
    }

    fn report_words(&mut self, events: &mut Vec<AgentEvent>) {
        if let Some(text) = self.words.take() {
            events.push(AgentEvent::Transcript { speaker: Speaker::Agent, text, utterance: None });
        }
    }
}
