//! How long the caller waited for an answer, stage by stage.

use crate::call::record::TurnTimes;
use std::time::Instant;

/// The moments of the turn that is to be answered.
#[derive(Debug, Default)]
pub(super) struct TurnClock(Option<Moments>);

#[derive(Debug)]
struct Moments {
    turn: u64,
    last_voiced: Instant,
    ended: Instant,
    /// When the response that is heard began.
    began: Option<Instant>,
    /// When its first audio came.
    audio: Option<Instant>,
    tools: bool,
    filled: bool,
}

impl TurnClock {
    /// The caller's turn is over, as was found at `now`.
    pub fn turn_ended(&mut self, turn: u64, last_voiced: Instant, now: Instant) {
        let last_voiced = last_voiced.min(now);
        self.0 = Some(Moments { turn, last_voiced, ended: now, began: None, audio: None, tools: false, filled: false });
    }

    /// The caller speaks again: what was not answered so far never will be.
    pub fn caller_speaks(&mut self) {
        self.0 = None;
    }

    pub fn response_began(&mut self, now: Instant) {
        if let Some(moments) = &mut self.0 {
            moments.began.get_or_insert(now);
        }
    }

    /// The response brought no speech.
    pub fn response_was_silent(&mut self, called_tools: bool) {
        if let Some(moments) = &mut self.0 {
            moments.began = None;
            moments.tools |= called_tools;
        }
    }

    pub fn audio_came(&mut self, now: Instant) {
        if let Some(moments) = &mut self.0 {
            moments.began.get_or_insert(now);
            moments.audio.get_or_insert(now);
        }
    }

    pub fn filled(&mut self) {
        if let Some(moments) = &mut self.0 {
            moments.filled = true;
        }
    }

    /// The first frame of an answer has left.
    pub fn heard(&mut self, now: Instant) -> Option<TurnTimes> {
        let Moments { turn, last_voiced, ended, began, audio, tools, filled } = self.0.take()?;
        // A response can have begun before the turn was over; then no time was lost in between.
        let began = began.unwrap_or(now).max(ended);
        let audio = audio.unwrap_or(now).max(began);
        Some(TurnTimes {
            turn,
            endpointing: ended.saturating_duration_since(last_voiced),
            thinking: began.saturating_duration_since(ended),
            speaking: audio.saturating_duration_since(began),
            playout: now.saturating_duration_since(audio),
            tools,
            filled,
        })
    }
}
