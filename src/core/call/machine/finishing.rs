//! A caller who ends the call in order, and still hears what comes of it (V34): their last turn is over, its words are waited for,
//! tools that run come to their end, and what is being said is said. Whoever brings the caller's end bounds the time: when
//! it is over, the caller has left.

use super::{CallMachine, Departure, Phase};
use crate::call::{
    agent::{AgentTraits, Speaker},
    end::EndReason,
    words::Output,
};
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Finishing {
    /// The caller has ended the call.
    pub begun: bool,
    /// The agent has told what the caller said in this turn.
    words_came: bool,
    /// It has not, and the turn is over.
    words_due: bool,
}

impl Finishing {
    pub fn turn_began(&mut self) {
        self.words_came = false;
    }

    /// `is_told`: the agent was told so, and tells the words after that. One that finds turns itself may have told them before.
    pub fn turn_ended(&mut self, is_told: bool, agent: &AgentTraits) {
        self.words_due = is_told || (agent.transcribes && !self.words_came);
    }

    /// They have come, or will not.
    pub fn words_came(&mut self, speaker: Speaker) {
        if speaker == Speaker::Caller {
            (self.words_came, self.words_due) = (true, false);
        }
    }
}

impl CallMachine {
    pub(super) fn on_caller_done(&mut self, now: Instant, out: &mut Vec<Output>) {
        match self.phase {
            Phase::Talking => {
                self.end_turn(now, out);
                self.leave(Departure::HangUp(EndReason::CallerHungUp), now);
            }
            Phase::Leaving(_) => {}
            _ => {
                let reason = self.reason_of_leaving(EndReason::CallerHungUp);
                return self.end(reason, out);
            }
        }
        self.finishing.begun = true;
    }

    /// Lets the call go once nothing is under way. An answer that has not begun is for nobody.
    pub(super) fn finish(&mut self, now: Instant, out: &mut Vec<Output>) {
        let speaks = self.response.as_ref().is_some_and(|response| response.spoke);
        let listens = self.finishing.words_due || self.ears.is_in_a_turn();
        if !(speaks || self.actions.is_running() || listens) && self.track.is_empty() {
            self.depart(Departure::HangUp(self.reason_of_leaving(EndReason::CallerHungUp)), now, out);
        }
    }
}
