//! Audio that a phone does not send.

use crate::audio::FRAME;
use std::time::{Duration, Instant};

/// Providers tell speech from silence by audio alone, so it must not stop when a phone sends nothing (silence suppression,
/// hold, mute, a key held down). Later than this a gap has begun, and all the silence since the last packet is made up for. Sooner
/// it would be put into the middle of a word that the network or Asterisk only holds up: a recognizer then hears two.
const GAP: Duration = Duration::from_millis(160);

/// Frames that are made up for at once: a second. What waits longer for its turn takes no more.
const BURST_MAX: u128 = 50;

/// How much of the time since the last packet is filled.
#[derive(Debug)]
pub(super) struct Gap {
    audio_at: Instant,
    /// Frames of silence since then.
    filled: u128,
    /// When a deadline was last handled too late.
    held_up_at: Option<Instant>,
}

impl Gap {
    pub(super) fn new(now: Instant) -> Self {
        Self { audio_at: now, filled: 0, held_up_at: None }
    }

    pub(super) fn audio_came(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// The frames of silence that are missing at this slot.
    pub(super) fn missing(&mut self, due: Instant, now: Instant) -> u128 {
        if now.saturating_duration_since(due) >= FRAME {
            self.held_up_at = Some(now);
        }
        let since = now.saturating_duration_since(self.audio_at);
        // If the engine itself was held up, what has come meanwhile is still to be read.
        if since < GAP || self.held_up_at == Some(now) {
            return 0;
        }
        let all = since.as_millis() / FRAME.as_millis();
        let missing = all.saturating_sub(self.filled);
        self.filled = all;
        missing.min(BURST_MAX)
    }
}
