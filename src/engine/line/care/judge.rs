//! Whether silence is the path's fault: a caller may be silent, a phone may send nothing, and one that is on hold does neither
//! hear nor speak. So Asterisk is asked what passes between it and the caller, and only where that goes on, or where what is
//! sent here gets no further than there, is the path at fault. Pure: time is an argument.

use crate::asterisk::counters::PathFault;
use std::time::Duration;
use tokio::time::Instant;

/// Packets come every 20 ms. A key that is pressed makes a gap, too.
const SILENT_AFTER: Duration = Duration::from_millis(600);
/// Between the two looks at what Asterisk receives of the caller.
pub(super) const LOOK: Duration = Duration::from_millis(300);
/// Packets between the looks that prove that the caller is sending sound: some phones send one every 60 ms, and comfort noise
/// comes a few times a second.
const SPEAKING: u64 = 4;
/// A caller who stays silent is looked at this often,
const AGAIN_AFTER: Duration = Duration::from_millis(800);
/// and, once they have been silent for long, this often.
const SELDOM_AFTER: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(10);

/// Packets that passed between Asterisk and the caller during a look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looked {
    pub since: Instant,
    pub received: u64,
    pub sent: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// Another path is to take its place.
    Fault(PathFault),
    /// Nothing has ever come over it: another one would lead to the same address. Told once.
    NeverWorked(PathFault),
}

pub(super) struct Judge {
    /// Since when the path stands, once something is played over it.
    stands: Option<Instant>,
    /// A frame was refused since the last look.
    refused: bool,
    /// Nothing has ever come over it, which was told.
    told: bool,
    /// When the caller was on hold last.
    held: Option<Instant>,
    /// Not before this; `None`: Asterisk cannot tell what passes between it and this caller.
    next_look: Option<Instant>,
}

impl Judge {
    pub fn new(now: Instant) -> Self {
        Self { stands: None, refused: false, told: false, held: None, next_look: Some(now) }
    }

    /// Another path stands.
    pub fn begins_anew(&mut self) {
        (self.stands, self.refused) = (None, false);
    }

    /// A frame was sent (`left`), or refused, as happens every 20 ms; the last packet came `heard` ago, `None`: none ever did.
    /// Whether Asterisk should be looked at.
    pub fn plays(&mut self, now: Instant, left: bool, heard: Option<Duration>, held: bool) -> bool {
        self.stands.get_or_insert(now);
        self.refused |= !left;
        if held {
            self.held = Some(now);
        }
        let due = self.next_look.is_some_and(|next| next <= now);
        due && !held && (self.refused || self.silent_for(now, heard) >= SILENT_AFTER)
    }

    /// Nothing has come for so long; before the first packet, since the path stands. On hold nothing has to come.
    fn silent_for(&self, now: Instant, heard: Option<Duration>) -> Duration {
        let silent = heard.unwrap_or_else(|| now.saturating_duration_since(self.stands.unwrap_or(now)));
        self.held.map_or(silent, |held| silent.min(now.saturating_duration_since(held)))
    }

    /// Asterisk could not be asked this time.
    pub fn not_told(&mut self, now: Instant) {
        self.next_look = self.next_look.map(|_| now + AGAIN_AFTER);
    }

    /// What Asterisk told; `None` when it cannot.
    pub fn looked(&mut self, looked: Option<Looked>, now: Instant, heard: Option<Duration>, held: bool) -> Verdict {
        let Some(Looked { since, received, sent }) = looked else {
            self.next_look = None;
            return Verdict::Fine;
        };
        let silent = self.silent_for(now, heard);
        self.next_look = Some(now + if silent > LONG { SELDOM_AFTER } else { AGAIN_AFTER });
        let refused = std::mem::take(&mut self.refused);
        // A phone on hold sends nothing, and Asterisk need not send it anything.
        if held || self.held.is_some_and(|held| held >= since) {
            return Verdict::Fine;
        }
        // Else it began to speak while Asterisk was asked.
        let still = silent >= now.saturating_duration_since(since);
        let fault = if still && received >= SPEAKING {
            PathFault::Deaf
        } else if (still || refused) && sent == 0 {
            PathFault::Dead
        } else {
            return Verdict::Fine;
        };
        if heard.is_some() {
            Verdict::Fault(fault)
        } else if std::mem::replace(&mut self.told, true) {
            Verdict::Fine
        } else {
            Verdict::NeverWorked(fault)
        }
    }
}

#[cfg(test)]
mod tests;
