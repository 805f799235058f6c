//! What of the call's sound may be kept: that is decided here, and kept elsewhere.

use super::{CallMachine, Phase};
use crate::call::{
    record::{Note, Recording},
    track::Purpose,
    words::Output,
};
use std::time::Instant;

/// What is known of it between two steps.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    /// As it was told last.
    told: Recording,
    /// The caller does not want it.
    refused: bool,
}

impl CallMachine {
    pub(super) fn refuse_recording(&mut self) {
        self.keeping.refused = true;
    }

    /// A context that records takes over from one that does not: its callers are told first.
    pub(super) fn announce_recording(&mut self, recorded_before: bool, out: &mut Vec<Output>) {
        if self.plan.rules.recording
            && !recorded_before
            && let Some(notice) = self.plan.clips.notice.clone()
        {
            self.say_verbatim(&notice, Purpose::Notice, out);
        }
    }

    /// Tells when something else may be kept from here on.
    pub(super) fn settle_recording(&mut self, now: Instant, out: &mut Vec<Output>) {
        let may = match self.phase {
            Phase::Connecting | Phase::Ended => return,
            _ if self.keeping.refused => Recording::Discarded,
            _ if !self.plan.rules.recording => Recording::Off,
            _ if self.is_confidential(now) => Recording::Private,
            _ if self.track.owes_notice() => Recording::Notice,
            _ => Recording::On,
        };
        if may != self.keeping.told {
            self.keeping.told = may;
            out.push(Output::Note(Note::Recording(may)));
        }
    }
}
