//! A call that the caller's phone has on hold. Nobody there hears the agent, and what comes from there is nobody's words: music of
//! a telephone system, an announcement, a talk with somebody else.
//!
//! The agent hears silence meanwhile, and what it says waits. Nobody asks it to speak because of the caller's silence.

use super::{CallMachine, Departure, Phase};
use crate::{
    call::{
        agent::{AgentCommand, Reply},
        end::EndReason,
        record::Note,
        timers::Timer,
        words::Output,
    },
    sentences::Sentence,
};
use std::time::{Duration, Instant};

/// Hold up to this long is a slip of the finger, or a look at who else calls: a sentence goes on where it was. After more, its
/// beginning is forgotten.
const SOON: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Hold {
    since: Instant,
    /// The caller does not come back: another party takes their place, whose telephone rings.
    pub(super) is_for_another: bool,
}

impl CallMachine {
    /// Whether the sound of the call must not be recorded or listened to: keys are typed in secret, or the call is on hold.
    pub fn is_confidential(&self, now: Instant) -> bool {
        self.hold.is_some() || self.is_private(now)
    }

    pub(super) fn on_held(&mut self, held: bool, now: Instant, out: &mut Vec<Output>) {
        if held == self.hold.is_some() {
            return;
        }
        out.push(Output::Note(Note::Held(held)));
        self.track.hold(held);
        if held {
            self.hold = Some(Hold { since: now, is_for_another: false });
            self.await_last_words(now);
        } else if let Some(Hold { since, is_for_another }) = self.hold.take() {
            // Taking the call up shows that the caller is there, as a pressed key does.
            self.prompts_used = 0;
            if is_for_another {
                self.await_last_words(now);
                self.cut_unasked(true, now, out);
                self.tell_of_another(out);
            } else {
                self.is_back(now.saturating_duration_since(since), now, out);
            }
        }
    }

    /// Lets the returned caller hear something: what has waited, or that the agent is there.
    fn is_back(&mut self, away: Duration, now: Instant, out: &mut Vec<Output>) {
        self.await_last_words(now);
        if away < SOON || !matches!(self.phase, Phase::Talking) {
            return;
        }
        let broke_off = self.cut_unasked(false, now, out);
        let works = self.actions.is_running() && self.capture.is_none();
        let waits = !self.track.is_empty() || self.timers.is_set(Timer::AgentSilence) || works;
        if !broke_off && (waits || self.response.is_some()) {
            return;
        }
        let seconds = away.as_secs();
        let text = format!(
            "The caller had the call on hold for {seconds} seconds and heard nothing of what you said meanwhile. Go on from \
             what they have heard."
        );
        self.to_agent(AgentCommand::Tell { text, reply: Reply::NotNow }, out);
        self.say_own(Sentence::AfterHold, now, out);
    }

    /// Cuts what hold broke off, or all that waits where it was meant for somebody else. `false`: nothing was cut.
    pub(super) fn cut_unasked(&mut self, for_another: bool, now: Instant, out: &mut Vec<Output>) -> bool {
        let active = self.response.as_ref().map(|response| response.id.clone());
        let Some((interrupted, clips)) = self.track.cut_unasked(for_another, active.as_ref(), now, out) else {
            return false;
        };
        let unheard = self.unheard(&interrupted);
        for (index, cut) in interrupted.cuts.into_iter().enumerate() {
            let (response, item, heard) = (cut.response, cut.item, cut.heard);
            self.to_agent(AgentCommand::Interrupt { response, item, heard, cancel: index == 0 }, out);
        }
        self.tell_clips_were_cut(clips, out);
        self.cancel_unheard(unheard, out);
        true
    }

    /// Sets how long last words may take: nobody is let go who cannot hear them, but for a call that has reached its longest length.
    pub(super) fn await_last_words(&mut self, now: Instant) {
        let Phase::Leaving(departure) = &self.phase else { return };
        let is_over = *departure == Departure::HangUp(EndReason::CallTooLong);
        let spoken = now + self.track.queued() + self.plan.rules.farewell_max;
        let held = self.hold.is_some() && !is_over;
        let until = if held { spoken.max(self.began + self.plan.rules.call_max) } else { spoken };
        self.timers.set(Timer::LastWords, until);
    }

    /// Nobody asked for this response, and nobody is there to hear it: a provider has missed the caller.
    pub(super) fn is_for_nobody(&self) -> bool {
        self.hold.is_some() && !self.timers.is_set(Timer::AgentSilence) && self.actions.is_empty()
    }
}
