//! A call that the caller's phone has on hold. Nobody there hears the agent, and what comes from there is nobody's words: music of
//! a telephone system, an announcement, a talk with somebody else.
//!
//! The agent hears silence meanwhile, and what it says waits. It is not asked to speak, and nobody misses the caller.

use super::{CallMachine, Phase};
use crate::call::{
    agent::{AgentCommand, Reply},
    record::Note,
    timers::Timer,
    words::Output,
};
use std::time::{Duration, Instant};

/// Who is back so soon has pressed a key by mistake, or looked who else calls: a sentence goes on where it was. After more, its
/// beginning is forgotten.
const SOON: Duration = Duration::from_secs(3);

/// What was going on when it began.
#[derive(Debug)]
pub(super) struct Hold {
    since: Instant,
    /// Somebody was being heard.
    in_a_sentence: bool,
}

impl CallMachine {
    pub(super) fn on_held(&mut self, held: bool, now: Instant, out: &mut Vec<Output>) {
        if held == self.hold.is_some() {
            return;
        }
        out.push(Output::Note(Note::Held(held)));
        self.track.hold(held);
        if held {
            self.hold = Some(Hold { since: now, in_a_sentence: self.track.is_speaking() });
        } else if let Some(hold) = self.hold.take() {
            self.is_back(&hold, now, out);
        }
    }

    /// The caller is there again, and hears a sentence: one that has waited, or that somebody is there.
    fn is_back(&mut self, hold: &Hold, now: Instant, out: &mut Vec<Output>) {
        let away = now.saturating_duration_since(hold.since);
        if away < SOON || !matches!(self.phase, Phase::Talking) {
            return;
        }
        if hold.in_a_sentence {
            let active = self.response.as_ref().map(|response| response.id.clone());
            let (interrupted, clips) = self.track.cut(active.as_ref(), now, out);
            self.tell_interrupted(interrupted, true, out);
            self.tell_clips_were_cut(clips, out);
        }
        let waits = !self.track.is_empty() || self.timers.is_set(Timer::AgentSilence) || self.actions.is_running();
        if waits && !hold.in_a_sentence {
            return;
        }
        let seconds = away.as_secs();
        let text = format!(
            "The caller had the call on hold for {seconds} seconds and heard nothing of what you said meanwhile. Go on from \
             what they have heard."
        );
        self.to_agent(AgentCommand::Tell { text, reply: Reply::NotNow }, out);
        self.say("I am still here.", now, out);
    }
}
