//! The first second of a call: ringing, the answer, what is heard first.

use super::{Agent, CallMachine, Phase, Timer, conversation::FAREWELL_BEGINS_MAX};
use crate::call::{
    leg::LegCommand,
    record::{Measure, Note},
    track::Purpose,
    words::Output,
};
use std::time::Instant;

impl CallMachine {
    /// The caller is answered: there is something to be heard, or they have heard ringing for long enough.
    pub(super) fn answer(&mut self, out: &mut Vec<Output>) {
        self.timers.clear(Timer::Answer);
        if matches!(self.phase, Phase::Connecting) && !std::mem::replace(&mut self.answered, true) {
            out.push(Output::ToLeg(LegCommand::Answer));
        }
    }

    pub(super) fn on_up(&mut self, now: Instant, out: &mut Vec<Output>) {
        if !matches!(self.phase, Phase::Connecting) {
            return;
        }
        self.phase = Phase::Talking;
        self.timers.clear(Timer::Answer);
        self.timers.set(Timer::Slot, now);
        out.push(Output::Note(Note::Answered));
        out.extend(self.early_words.drain(..).map(Output::Note));
        out.push(Output::Measure(Measure::SetUp(now - self.began)));
        self.gap.audio_came(now);
        if let Some(notice) = self.plan.clips.notice.clone() {
            self.say_verbatim(&notice, Purpose::Notice, out);
        }
        if let Some(reason) = self.lost_untold.take() {
            return self.fail(reason, now, out);
        }
        match self.plan.clips.greeting.clone() {
            Some(greeting) => {
                self.greeted = true;
                let protected = self.plan.rules.turns.protect_greeting;
                self.say_verbatim(&greeting, Purpose::Greeting { protected }, out);
            }
            None if self.agent == Agent::Ready && !self.greeted => self.greet(now, out),
            // It was asked while the caller heard ringing.
            None if self.agent == Agent::Ready && !self.track.agent_waits() && self.early_calls.is_empty() => {
                self.expect_speech(now);
            }
            None => {}
        }
        self.take_early_calls(now, out);
    }

    /// An answer that was begun and is not over has to go on.
    pub(super) fn await_rest_of_answer(&mut self, now: Instant) {
        let leaving = matches!(self.phase, Phase::Leaving(_));
        let stays = (matches!(self.phase, Phase::Talking) || leaving) && self.agent == Agent::Ready;
        let limit = match &self.response {
            Some(response) if response.spoke => Some(self.plan.agent.gap_max),
            // It says nothing, and no tool runs that it could be waiting for.
            Some(_) if !self.actions.is_running() => Some(self.silence_max()),
            _ => None,
        };
        let waits = stays && !self.track.agent_waits() && !self.timers.is_set(Timer::AgentSilence);
        match limit.filter(|_| waits) {
            Some(limit) => {
                let limit = if leaving { limit.min(FAREWELL_BEGINS_MAX) } else { limit };
                self.timers.set_if_idle(Timer::Stalled, now + limit);
            }
            None => self.timers.clear(Timer::Stalled),
        }
    }
}
