//! Answers and the caller's turns, for vendors that name neither.

use crate::call::{AgentEvent, ResponseId, ResponseStatus};
use std::{mem, sync::Arc};

/// Who speaks now. What began is told to end, once.
#[derive(Debug, Default)]
pub(super) struct Turns {
    responses_so_far: u64,
    /// The answer that is being spoken.
    speaking: Option<ResponseId>,
    caller_speaks: bool,
}

impl Turns {
    pub(super) fn caller_speaks(&self) -> bool {
        self.caller_speaks
    }

    /// The caller speaks, and the vendor's agent has stopped; returns the answer that was cut off.
    pub(super) fn caller_begins(&mut self, events: &mut Vec<AgentEvent>) -> Option<ResponseId> {
        self.caller_speaks = true;
        events.push(AgentEvent::CallerSpeechStarted { utterance: None });
        let cut_off = self.speaking.clone();
        self.end(ResponseStatus::Cancelled, events);
        cut_off
    }

    pub(super) fn caller_ends(&mut self, events: &mut Vec<AgentEvent>) {
        if mem::take(&mut self.caller_speaks) {
            events.push(AgentEvent::CallerSpeechStopped);
        }
    }

    /// The answer that is being spoken; a new one if there is none, with which the caller's turn is over.
    pub(super) fn begin(&mut self, events: &mut Vec<AgentEvent>) -> ResponseId {
        if let Some(response) = &self.speaking {
            return response.clone();
        }
        self.caller_ends(events);
        self.responses_so_far += 1;
        let response: ResponseId = Arc::from(format!("r{}", self.responses_so_far));
        self.speaking = Some(response.clone());
        events.push(AgentEvent::ResponseStarted { response: response.clone() });
        response
    }

    /// Ends the answer that is being spoken, if there is one.
    pub(super) fn end(&mut self, status: ResponseStatus, events: &mut Vec<AgentEvent>) {
        events.extend(self.speaking.take().map(|response| AgentEvent::ResponseDone { response, status }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told when `act` happens.
    fn told(turns: &mut Turns, act: impl FnOnce(&mut Turns, &mut Vec<AgentEvent>)) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        act(turns, &mut events);
        events
    }

    fn started(response: &str) -> AgentEvent {
        AgentEvent::ResponseStarted { response: response.into() }
    }

    fn done(response: &str, status: ResponseStatus) -> AgentEvent {
        AgentEvent::ResponseDone { response: response.into(), status }
    }

    #[test]
    fn an_answer_goes_on_until_it_ends_and_the_next_has_another_name() {
        let mut turns = Turns::default();
        let begin = |turns: &mut Turns, events: &mut Vec<AgentEvent>| drop(turns.begin(events));
        let end = |turns: &mut Turns, events: &mut Vec<AgentEvent>| turns.end(ResponseStatus::Completed, events);
        assert_eq!(told(&mut turns, begin), [started("r1")]);
        assert_eq!(told(&mut turns, begin), []);
        assert_eq!(told(&mut turns, end), [done("r1", ResponseStatus::Completed)]);
        assert_eq!(told(&mut turns, end), []);
        assert_eq!(told(&mut turns, begin), [started("r2")]);
    }

    #[test]
    fn a_caller_who_speaks_cuts_the_answer_off() {
        let (mut turns, mut events) = (Turns::default(), Vec::new());
        assert_eq!(turns.caller_begins(&mut events), None);
        turns.begin(&mut events);
        events.clear();
        assert_eq!(turns.caller_begins(&mut events).as_deref(), Some("r1"));
        let began = AgentEvent::CallerSpeechStarted { utterance: None };
        assert_eq!(events, [began, done("r1", ResponseStatus::Cancelled)]);
        assert!(turns.caller_speaks());
    }

    #[test]
    fn a_turn_of_the_caller_ends_once_at_the_latest_when_the_agent_answers() {
        let mut turns = Turns::default();
        told(&mut turns, |turns, events| drop(turns.caller_begins(events)));
        let answered = told(&mut turns, |turns, events| drop(turns.begin(events)));
        assert_eq!(answered, [AgentEvent::CallerSpeechStopped, started("r1")]);
        assert_eq!(told(&mut turns, Turns::caller_ends), []);
    }
}
