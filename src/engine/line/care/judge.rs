//! Whether silence is the path's fault: a caller may be silent, a phone may send nothing, and one that is on hold does neither
//! hear nor speak. So Asterisk is asked what passes between it and the caller, and only where that goes on, or where what is
//! sent here gets no further than there, is the path at fault. That the caller hears nothing, nothing tells of itself: while
//! something is played, Asterisk is asked all the same. Pure: time is an argument.

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
/// While something is played, it is looked this often whether it gets to the caller.
const LISTENED_EVERY: Duration = Duration::from_millis(600);
/// So long after the last sound that was played nobody has to hear anything.
const SOUND_LASTS: Duration = Duration::from_millis(200);
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

/// What became of one that was to be played.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// It was sent, and not refused.
    pub left: bool,
    /// It is no silence.
    pub sounds: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// Another path is to take its place.
    Fault(PathFault),
    /// Nothing has ever come over it, nor over the one before it: another one would lead to the same address. Told once.
    NeverWorked(PathFault),
}

pub(super) struct Judge {
    /// Since when the path stands, once something is played over it.
    stands: Option<Instant>,
    /// A frame was refused since the last look.
    refused: bool,
    /// When a frame that was no silence was played last.
    sounded: Option<Instant>,
    /// Asterisk has passed something on of what was sent over it.
    passed: bool,
    /// At the last look Asterisk passed nothing on. A key that is sent to the caller makes a gap, too: one look is no proof.
    unpassed: bool,
    /// One over which nothing had ever come was replaced.
    tried: bool,
    /// Nothing has ever come over it, which was told.
    told: bool,
    /// When the caller was on hold last.
    held: Option<Instant>,
    /// When a key of the caller came last.
    keyed: Option<Instant>,
    /// Not before this; `None`: Asterisk cannot tell what passes between it and this caller.
    next_look: Option<Instant>,
}

impl Judge {
    pub fn new(now: Instant) -> Self {
        Self {
            stands: None,
            refused: false,
            sounded: None,
            passed: false,
            unpassed: false,
            tried: false,
            told: false,
            held: None,
            keyed: None,
            next_look: Some(now),
        }
    }

    /// Another path stands.
    pub fn begins_anew(&mut self) {
        (self.stands, self.sounded) = (None, None);
        (self.refused, self.passed, self.unpassed) = (false, false, false);
    }

    /// A frame was sent, or refused, as happens every 20 ms; the last packet came `heard` ago, `None`: none ever did. Whether
    /// Asterisk should be looked at.
    pub fn plays(&mut self, now: Instant, frame: Frame, heard: Option<Duration>, held: bool) -> bool {
        self.stands.get_or_insert(now);
        self.refused |= !frame.left;
        if frame.sounds {
            self.sounded = Some(now);
        }
        if held {
            self.held = Some(now);
        }
        let due = self.next_look.is_some_and(|next| next <= now);
        due && !held && (self.refused || self.sounds(now) || self.silent_for(now, heard) >= SILENT_AFTER)
    }

    /// A key of the caller came. Asterisk passes no sound on while it takes keys, which follow one another without a pause where a
    /// phone sends them fast (SIP INFO): the silence is theirs.
    pub fn key(&mut self, now: Instant) {
        self.keyed = Some(now);
    }

    /// Something is played for the caller to hear.
    fn sounds(&self, now: Instant) -> bool {
        let lasts = |since: Instant| now.saturating_duration_since(since) <= SOUND_LASTS;
        self.sounded.is_some_and(lasts)
    }

    /// Nothing has come for so long; before the first packet, since the path stands. On hold and beside keys nothing has to come.
    fn silent_for(&self, now: Instant, heard: Option<Duration>) -> Duration {
        let silent = heard.unwrap_or_else(|| now.saturating_duration_since(self.stands.unwrap_or(now)));
        let others = [self.held, self.keyed].into_iter().flatten();
        others.fold(silent, |silent, other| silent.min(now.saturating_duration_since(other)))
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
        let again = match silent {
            silent if silent > LONG && !self.sounds(now) => SELDOM_AFTER,
            silent if silent >= SILENT_AFTER => AGAIN_AFTER,
            _ => LISTENED_EVERY,
        };
        self.next_look = Some(now + again);
        let refused = std::mem::take(&mut self.refused);
        // A phone on hold sends nothing, and Asterisk need not send it anything.
        if held || self.held.is_some_and(|held| held >= since) {
            self.unpassed = false;
            return Verdict::Fine;
        }
        self.passed |= sent > 0;
        // The path stood, and all of this while frames were sent.
        let unpassed = sent == 0 && self.stands.is_some_and(|stands| stands <= since);
        let twice = std::mem::replace(&mut self.unpassed, unpassed) && unpassed;
        // Else it began to speak while Asterisk was asked.
        let still = silent >= now.saturating_duration_since(since);
        let fault = if still && received >= SPEAKING {
            PathFault::Deaf
        } else if (still || refused) && sent == 0 {
            PathFault::Dead
        } else if twice {
            PathFault::Mute
        } else {
            if unpassed {
                self.next_look = Some(now);
            }
            return Verdict::Fine;
        };
        let worked = if fault == PathFault::Mute { self.passed } else { heard.is_some() };
        if worked || !std::mem::replace(&mut self.tried, true) {
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
