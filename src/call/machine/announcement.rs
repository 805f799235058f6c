//! What a caller hears of a tool that takes long.
//!
//! Silence is what is announced into, so both clocks have to have run: the tool's own, and that of the
//! silence. A caller who is hearing the agent, live or from what is queued, knows that somebody is there;
//! the announcement is put off until they have heard nobody for as long as the tool's author allows.

use super::{Agent, CallMachine, Phase, Timer};
use crate::call::{actions::Slow, agent::AgentCommand, record::Note, words::Output};
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Announcements {
    /// Since when the caller has heard nobody and said nothing.
    silent_since: Option<Instant>,
    /// The caller's turn of the last announcement: one is enough for any number of slow tools.
    last_turn: Option<u64>,
    /// The agent was told to announce, and has not begun to.
    expected: bool,
    /// Also where the agent talks over them, and so has the floor.
    caller_speaks: bool,
}

impl Announcements {
    /// A response begins; whether it is the announcement.
    pub fn begins(&mut self) -> bool {
        std::mem::take(&mut self.expected)
    }

    /// Who has spoken is answered, and hears no sentence about what they asked before.
    pub fn caller_speaks(&mut self) {
        (self.expected, self.caller_speaks) = (false, true);
    }

    pub fn caller_stopped(&mut self) {
        self.caller_speaks = false;
    }

    /// The old one's word that the caller stopped will not come.
    pub fn new_agent(&mut self) {
        (self.expected, self.caller_speaks) = (false, false);
    }

    /// What begins from here on is not the announcement.
    pub fn expect_none(&mut self) {
        self.expected = false;
    }
}

impl CallMachine {
    /// Keeps the clock of the silence, and arms the timer while an announcement would be right.
    pub(super) fn await_announcement(&mut self, now: Instant) {
        if self.track.is_empty() && !self.announcements.caller_speaks {
            self.announcements.silent_since.get_or_insert(now);
        } else {
            self.announcements.silent_since = None;
        }
        match self.next_announcement().map(|(due, _)| due) {
            Some(due) => self.timers.set(Timer::Announce, due),
            None => self.timers.clear(Timer::Announce),
        }
    }

    fn next_announcement(&self) -> Option<(Instant, &Slow)> {
        let silent_since = self.announcements.silent_since?;
        let announces = self.plan.agent.announces && self.agent == Agent::Ready;
        let stays = matches!(self.phase, Phase::Talking) && self.handoff.is_none();
        // The agent is speaking, is about to, or would not be heard; or the caller is typing.
        let taken = self.response.is_some()
            || self.timers.is_set(Timer::AgentSilence)
            || self.manners.audio_held
            || self.capture.is_some();
        let already = self.announcements.last_turn == Some(self.policy.turn());
        if announces && stays && !taken && !already { self.actions.announcement(silent_since) } else { None }
    }

    pub(super) fn announce(&mut self, out: &mut Vec<Output>) {
        let Some((_, slow)) = self.next_announcement().filter(|(due, _)| *due <= self.at) else { return };
        let Slow { tool, announce, .. } = slow.clone();
        self.announcements.last_turn = Some(self.policy.turn());
        self.announcements.expected = true;
        // A caller who presses a key meanwhile is not told of the same tools again.
        self.actions.forget_announcements();
        out.push(Output::Note(Note::Announced { tool }));
        self.to_agent(AgentCommand::Announce { text: announce.text }, out);
    }
}
