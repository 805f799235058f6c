//! How long a caller's silence has to be to end their turn.

use super::ending::Ending;
use std::time::{Duration, Instant};

/// A caller who goes on within this time was only pausing, unless the agent has spoken since.
const PAUSE_MAX: Duration = Duration::from_millis(1500);
/// How much longer than the longest usual pause is waited.
const LONGER_PERCENT: u32 = 140;
/// The most that a caller's pace may stretch what is configured.
const STRETCH_MAX: u32 = 2;
/// What is waited of it after words that sound finished …
const FINISHED_PERCENT: u32 = 75;
/// … but never less than this: the pause between two words.
const FINISHED_MIN: Duration = Duration::from_millis(200);
/// What is waited of it after words that something has to follow.
const OPEN_PERCENT: u32 = 160;
/// What is left of a long pause after each turn: one pause for thought does not slow down a whole call.
const KEPT_PERCENT: u32 = 80;

/// The pauses of one caller.
#[derive(Debug)]
pub(super) struct Pace {
    base: Duration,
    longest: Duration,
    /// As the words of this turn tell.
    ending: Ending,
    /// Who transcribes the caller decides …
    trusts: bool,
    /// … and has said that the turn is over.
    told_over: bool,
    /// When the last turn ended, until the agent speaks.
    ended: Option<Instant>,
}

impl Pace {
    pub fn new(base: Duration) -> Self {
        Self { base, longest: Duration::ZERO, ending: Ending::Unknown, trusts: false, told_over: false, ended: None }
    }

    pub fn set_base(&mut self, base: Duration) {
        self.base = base;
    }

    pub fn end_silence(&self) -> Duration {
        if self.trusts {
            return if self.told_over { FINISHED_MIN.min(self.base) } else { self.base * STRETCH_MAX };
        }
        let usual = (self.longest * LONGER_PERCENT / 100).clamp(self.base, self.base * STRETCH_MAX);
        match self.ending {
            Ending::Unknown => usual,
            Ending::Finished => (usual * FINISHED_PERCENT / 100).max(FINISHED_MIN.min(usual)),
            Ending::Open => (usual * OPEN_PERCENT / 100).min(self.base * STRETCH_MAX),
        }
    }

    /// What the last words of the turn say.
    pub fn hint(&mut self, ending: Ending) {
        self.ending = ending;
    }

    pub fn trust(&mut self, trusts: bool) {
        self.trusts = trusts;
    }

    pub fn told_over(&mut self, over: bool) {
        self.told_over = over;
    }

    pub fn paused(&mut self, pause: Duration) {
        self.longest = self.longest.max(pause);
    }

    pub fn ended(&mut self, last_voiced: Instant) {
        self.longest = self.longest * KEPT_PERCENT / 100;
        self.ending = Ending::Unknown;
        self.told_over = false;
        self.ended = Some(last_voiced);
    }

    pub fn agent_spoke(&mut self) {
        self.ended = None;
    }

    /// A turn begins: if the last one has only just ended, it was cut off too soon.
    pub fn began(&mut self, onset: Instant) {
        if let Some(ended) = self.ended.take() {
            let pause = onset.saturating_duration_since(ended);
            if pause < PAUSE_MAX {
                self.paused(pause);
            }
        }
    }
}
