//! A sound while the agent speaks, until it is known what it is.

use super::{Answer, TurnedAway, VERDICT_MAX, background::TurnState};
use crate::audio::{FRAME, Heard};
use std::time::{Duration, Instant};

/// As sure as this, and a frame is speech …
const VOICED: f32 = 0.5;
/// … or as sure as this, if it has so much of a pitch and is so far above the line's noise: the network needs a moment
/// to be sure, and a vowel says it sooner.
const PERHAPS_VOICED: f32 = 0.4;
const WELL_PITCHED: f32 = 0.7;
const WELL_ABOVE_FLOOR_DB: f32 = 10.0;
/// With the next frame a verdict would be too late.
const LAST_LOOK: Duration = VERDICT_MAX.saturating_sub(FRAME);
/// So far above the line's own noise when it begins …
const ABOVE_FLOOR_DB: f32 = 5.0;
/// … and as long as it goes on. On a noisy line also where it begins while the agent is silent: half of the vowels of a caller 5 dB
/// above white noise rise no further, and the network takes that noise for no speech.
const STILL_ABOVE_FLOOR_DB: f32 = 2.0;
const NOISY_DBFS: f32 = -40.0;
/// Frames before the detector's first that were as loud: it needs a moment to be sure.
const BACK_DATED_FRAMES: u32 = 3;
/// What is so much quieter than the loudest of a sound is no longer part of it: the detector goes on for a while
/// after a word, into the noise of the line.
const FALL_DB: f32 = 30.0;
/// Frames of silence inside a word.
const GAP_FRAMES_MAX: u32 = 2;
/// Silence that ends a candidate.
const OVER_AFTER: Duration = Duration::from_millis(160);
/// Longest wait for the words of a sound, from the request: a recognizer on this machine needs 150 ms.
const WORDS_MAX: Duration = Duration::from_millis(300);
/// Voiced frames of the shortest sound whose words are requested. How many of them have a pitch does not matter: most of a "stop" is
/// noise.
const WORD_FRAMES: u32 = 4;
/// Further speech after which the words are requested again.
const MORE_WORDS_AFTER: Duration = Duration::from_millis(160);
/// Speech that pauses the agent, from its back-dated beginning: a pause is taken back without a loss, so that one
/// pitched frame after a loud one is enough.
const PAUSE_AFTER: Duration = Duration::from_millis(40);
/// The same after two false alarms in one answer, and after four.
const PAUSE_AFTER_ALARMS: [Duration; 2] = [Duration::from_millis(160), Duration::from_millis(240)];
/// A frame that repeats so much with a pitch is part of a vowel, or of another sound with a voice.
const PITCHED: f32 = 0.6;
/// A sound with a smaller share of such frames is noise.
const PITCHED_SHARE_MIN: f32 = 0.35;

/// Voiced frames that lower the agent's voice. After false alarms in the same answer it takes more.
pub(super) fn duck_after(false_alarms: u32) -> u32 {
    match false_alarms {
        0 | 1 => 1,
        2 | 3 => 3,
        _ => 6,
    }
}

/// The same for pausing it.
fn pause_after(false_alarms: u32) -> Duration {
    match false_alarms {
        0 | 1 => PAUSE_AFTER,
        2 | 3 => PAUSE_AFTER_ALARMS[0],
        _ => PAUSE_AFTER_ALARMS[1],
    }
}

/// One frame with what is thought of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub begin: Instant,
    pub end: Instant,
    pub level: f32,
    /// It has the pitch of a voice.
    pitched: bool,
    pub is_echo: bool,
    /// As the detector hears it.
    pub sounds_voiced: bool,
    /// Speech of the caller.
    pub voiced: bool,
    /// Loud enough for speech.
    loud: bool,
}

impl Frame {
    /// `wary`: it may be an echo that nothing is known of yet.
    pub fn new(heard: Heard, is_echo: bool, state: TurnState, wary: bool, end: Instant) -> Self {
        let above = match state {
            TurnState::Silence if heard.floor_dbfs > NOISY_DBFS => STILL_ABOVE_FLOOR_DB,
            TurnState::Silence | TurnState::Agent => ABOVE_FLOOR_DB,
            TurnState::Undecided | TurnState::Caller => STILL_ABOVE_FLOOR_DB,
        };
        let loud = heard.level_dbfs > heard.floor_dbfs + above;
        let vowel = !wary
            && heard.probability >= PERHAPS_VOICED
            && heard.voicing >= WELL_PITCHED
            && heard.level_dbfs > heard.floor_dbfs + WELL_ABOVE_FLOOR_DB;
        let sounds_voiced = (heard.probability >= VOICED || vowel) && loud;
        Self {
            begin: super::before(end, FRAME),
            end,
            level: heard.level_dbfs,
            pitched: heard.voicing >= PITCHED,
            is_echo,
            sounds_voiced,
            voiced: sounds_voiced && !is_echo,
            loud: loud && !is_echo,
        }
    }
}

/// The beginning of a sound, as long as it may still be nothing.
#[derive(Debug, Default)]
pub(super) struct Onset {
    began: Option<Instant>,
    last_voiced: Option<Instant>,
    /// Frames from its beginning until now, and those of them after the last voiced one.
    frames: u32,
    unvoiced: u32,
    voiced: u32,
    pitched: u32,
    /// Loud frames in a row until now.
    loud: u32,
}

impl Onset {
    /// Returns what is over with this frame.
    pub fn hear(&mut self, frame: &Frame) -> Option<Self> {
        let mut over = None;
        if frame.voiced {
            if self.began.is_none() {
                self.frames = self.loud.min(BACK_DATED_FRAMES);
                self.began = Some(super::before(frame.begin, FRAME * self.frames));
            }
            self.frames += 1;
            self.unvoiced = 0;
            self.voiced += 1;
            self.pitched += u32::from(frame.pitched);
            self.last_voiced = Some(frame.end);
        } else if self.unvoiced == GAP_FRAMES_MAX {
            over = Some(std::mem::take(self));
        } else if self.began.is_some() {
            self.frames += 1;
            self.unvoiced += 1;
        }
        self.loud = if frame.loud { self.loud + 1 } else { 0 };
        over
    }

    /// What was said while the agent spoke all the time.
    pub fn answer(&self) -> Option<Answer> {
        let is_noise = is_noise(self.pitched, self.voiced);
        let (onset, last_voiced) = self.span()?;
        (!is_noise).then(|| Answer { onset, last_voiced, spoken_over: FRAME * self.frames })
    }

    /// When it began, and when it was last heard.
    pub fn span(&self) -> Option<(Instant, Instant)> {
        self.began.zip(self.last_voiced)
    }

    pub fn voiced(&self) -> u32 {
        self.voiced
    }
}

#[derive(Debug)]
pub(super) struct Candidate {
    onset: Instant,
    last_voiced: Instant,
    /// Frames from the onset until now, and until the last voiced one.
    frames: u32,
    spoken: u32,
    voiced: u32,
    pitched: u32,
    peak: f32,
    pause_after: Duration,
    /// Frames of it in which the agent was heard.
    spoken_over: u32,
    pub paused: bool,
    /// The words that are known so far say nothing.
    pub only_backchannels: bool,
    asked: Option<Asked>,
}

/// A request for the words of the sound.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Instant,
    /// What had been said by then.
    speech: Duration,
    known: bool,
}

impl Candidate {
    /// With `frame` a sound has become a candidate.
    pub fn new(began: Instant, onset: &Onset, frame: &Frame, false_alarms: u32) -> Self {
        Self {
            onset: began,
            last_voiced: frame.end,
            frames: onset.frames,
            spoken: onset.frames,
            voiced: onset.voiced,
            pitched: onset.pitched,
            peak: frame.level,
            pause_after: pause_after(false_alarms),
            spoken_over: onset.frames,
            paused: false,
            only_backchannels: false,
            asked: None,
        }
    }

    pub fn hear(&mut self, frame: &Frame) {
        self.frames += 1;
        self.spoken_over += u32::from(!self.paused);
        if frame.voiced && frame.level > self.peak - FALL_DB {
            self.last_voiced = frame.end;
            self.spoken = self.frames;
            self.peak = self.peak.max(frame.level);
            self.voiced += 1;
            self.pitched += u32::from(frame.pitched);
        }
    }

    pub fn onset(&self) -> Instant {
        self.onset
    }

    /// From the first voiced frame to the last.
    pub fn speech(&self) -> Duration {
        FRAME * self.spoken
    }

    pub fn last_voiced(&self) -> Instant {
        self.last_voiced
    }

    pub fn voiced(&self) -> u32 {
        self.voiced
    }

    pub fn answer(&self) -> Answer {
        Answer { onset: self.onset, last_voiced: self.last_voiced, spoken_over: FRAME * self.spoken_over }
    }

    pub fn turned_away(&self) -> TurnedAway {
        TurnedAway { onset: self.onset, last_voiced: self.last_voiced }
    }

    pub fn must_pause(&self, frame: &Frame) -> bool {
        !self.paused && frame.voiced && self.pitched >= 1 && self.speech() >= self.pause_after
    }

    /// Whether the words would decide it now: it may be over, or is about to interrupt.
    pub fn wants_words(&self, long_enough: bool, now: Instant) -> bool {
        let pauses = self.frames - self.spoken > GAP_FRAMES_MAX;
        let more =
            self.asked.is_none_or(|asked| !self.awaits_words(now) && self.speech() >= asked.speech + MORE_WORDS_AFTER);
        let in_time = FRAME * self.frames <= VERDICT_MAX;
        in_time && more && self.paused && self.voiced >= WORD_FRAMES && (pauses || long_enough)
    }

    pub fn ask_words(&mut self, now: Instant) {
        self.asked = Some(Asked { at: now, speech: self.speech(), known: false });
    }

    pub fn words_came(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.known = true;
        }
    }

    pub fn awaits_words(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| !asked.known && now < asked.at + WORDS_MAX)
    }

    pub fn is_over(&self) -> bool {
        FRAME * (self.frames - self.spoken) >= OVER_AFTER
    }

    /// Whether it has to be decided with this frame: counted in frames, and by the clock if that is ahead of them.
    pub fn last_look(&self, frame: &Frame) -> bool {
        FRAME * self.frames >= LAST_LOOK || frame.end.saturating_duration_since(self.onset) >= LAST_LOOK
    }

    pub fn is_noise(&self) -> bool {
        is_noise(self.pitched, self.voiced)
    }
}

fn is_noise(pitched: u32, voiced: u32) -> bool {
    (pitched as f32) < PITCHED_SHARE_MIN * voiced as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)] // A test needs some instant to count from.
    fn on_a_noisy_line_speech_into_silence_need_not_rise_far_above_the_noise() {
        let is_speech = |level_dbfs, floor_dbfs, state| {
            let heard = Heard { probability: 0.9, voicing: 0.9, level_dbfs, floor_dbfs };
            Frame::new(heard, false, state, false, Instant::now()).sounds_voiced
        };
        assert!(is_speech(-22.0, -25.0, TurnState::Silence));
        assert!(!is_speech(-22.0, -25.0, TurnState::Agent), "over the agent noise may pass for speech");
        assert!(!is_speech(-42.0, -45.0, TurnState::Silence), "a quiet line");
    }
}
