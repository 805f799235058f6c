//! When no agent can be had: a menu of keys that needs no vendor at all.

use super::{CallMachine, Departure, Phase, Timer};
use crate::call::{
    end::EndReason,
    record::{Initiator, TransferTarget},
    rules::Exit,
    track::Purpose,
    words::Output,
};
use std::time::Instant;

/// The menu is open; each round is heard whole, then a key is waited for.
#[derive(Debug)]
pub(super) struct Menu {
    reason: EndReason,
    rounds_left: u32,
}

impl CallMachine {
    /// `false`: this context has none.
    pub(super) fn open_menu(&mut self, reason: EndReason, out: &mut Vec<Output>) -> bool {
        let Some(rounds) = self.plan.rules.last_resort.as_ref().map(|menu| menu.rounds) else { return false };
        let Some(spoken) = self.plan.clips.menu.clone() else { return false };
        self.menu = Some(Menu { reason, rounds_left: rounds.saturating_sub(1) });
        self.say_verbatim(&spoken, Purpose::Menu, out);
        true
    }

    /// The clock for a key runs once the menu was heard.
    pub(super) fn await_choice(&mut self, now: Instant) {
        let wait = self.plan.rules.last_resort.as_ref().map(|menu| menu.wait);
        match (wait, &self.menu) {
            (Some(wait), Some(_))
                if self.track.is_empty() && self.hold.is_none() && matches!(self.phase, Phase::Talking) =>
            {
                self.timers.set_if_idle(Timer::Menu, now + wait);
            }
            _ => self.timers.clear(Timer::Menu),
        }
    }

    pub(super) fn on_no_choice(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Some(Menu { reason, rounds_left }) = self.menu.take() else { return };
        match self.plan.clips.menu.clone() {
            Some(spoken) if rounds_left > 0 => {
                self.menu = Some(Menu { reason, rounds_left: rounds_left - 1 });
                self.say_verbatim(&spoken, Purpose::Menu, out);
            }
            _ => self.leave_failed(reason, now),
        }
    }

    /// A key while the menu is open. One that leads nowhere does nothing: the menu goes on.
    pub(super) fn on_choice(&mut self, key: char, now: Instant, out: &mut Vec<Output>) {
        let exit = self.plan.rules.last_resort.as_ref().and_then(|menu| menu.keys.get(&key)).cloned();
        let (Some(exit), Some(Menu { reason, .. })) = (exit, &self.menu) else { return };
        let to = |to| Departure::Transfer { to, by: Initiator::Menu, reason: *reason };
        let departure = match exit {
            Exit::Transfer(destination) => to(TransferTarget::Destination(destination)),
            Exit::Voicemail(mailbox) => to(TransferTarget::Mailbox(mailbox)),
            Exit::Dialplan => Departure::ToDialplan(*reason),
            Exit::HangUp => Departure::HangUp(*reason),
        };
        self.menu = None;
        self.track.silence_clips();
        self.depart(departure, now, out);
    }
}
