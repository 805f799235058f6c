//! How a caller's voice ends. It falls at the end of a turn as a rule, and stays up where more follows: in a pause within a sentence,
//! and behind a phrase that breaks off.
//!
//! The fall is measured from the loud vowels of the turn (their 90th percentile) to the last 300 ms of its speech, and is compared with
//! this caller's usual one: telephones that even out the loudness, and people, differ. On human recordings of one half of the set
//! (docs/turn-taking.md) the voice is up at the end of 38 % of the sentences, at 72 % of the real pauses in sentences, and behind 82 % of
//! the phrases that break off.

/// Frames at the end that are compared: 300 ms.
const END_FRAMES: usize = 15;
/// Percentile of a turn's frames of speech that stands for its loud vowels.
const LOUD_PERCENT: u32 = 90;
/// Frames of speech without which nothing is told: 600 ms. A "yes" has no middle to fall from.
const FRAMES_MIN: u32 = 30;
/// Percentile of the frames of speech that stands for its soft sounds.
const SOFT_PERCENT: u32 = 25;
/// Distance from the loud vowels to the soft sounds below which nothing is told: a sound that is always as loud is not a voice.
const SPREAD_MIN_DB: u32 = 4;
/// Fall of a caller who has not had a turn: the median of the sentences.
const USUAL_DB: f32 = 10.0;
/// How much smaller than the usual one a fall is where more may follow.
const UP_DB: f32 = 1.0;
/// Share of a turn's fall in what is usual for this caller.
const LEARNT: f32 = 0.25;
/// Lowest level of the histogram, whose steps are of 1 dB.
const SOFTEST_DBFS: f32 = -64.0;
const STEPS: usize = 64;

/// The voice of one caller in their turn.
#[derive(Debug)]
pub(super) struct Fall {
    /// Power of the last frames.
    recent: [f32; END_FRAMES],
    next: usize,
    /// Frames of speech by their level.
    levels: [u16; STEPS],
    speech: u32,
    /// Level of the last 300 ms up to the last frame of speech.
    end_dbfs: f32,
    usual_db: f32,
}

impl Default for Fall {
    fn default() -> Self {
        Self {
            recent: [0.0; END_FRAMES],
            next: 0,
            levels: [0; STEPS],
            speech: 0,
            end_dbfs: SOFTEST_DBFS,
            usual_db: USUAL_DB,
        }
    }
}

impl Fall {
    /// A turn begins.
    pub fn begin(&mut self) {
        *self = Self { usual_db: self.usual_db, ..Self::default() };
    }

    /// Takes one frame of the turn, with its level in dBFS.
    pub fn hear(&mut self, level: f32, is_speech: bool) {
        self.recent[self.next] = 10_f32.powf(level / 10.0);
        self.next = (self.next + 1) % END_FRAMES;
        if is_speech {
            let step = (level - SOFTEST_DBFS).clamp(0.0, STEPS as f32 - 1.0) as usize;
            self.levels[step] = self.levels[step].saturating_add(1);
            self.speech += 1;
            let mean = self.recent.iter().sum::<f32>() / END_FRAMES as f32;
            self.end_dbfs = 10.0 * mean.max(1e-9).log10();
        }
    }

    /// The step of this percentile of the frames of speech.
    fn percentile(&self, percent: u32) -> u32 {
        let rank = (self.speech * percent).div_ceil(100).max(1);
        let mut below = 0;
        let reaches = |count: &u16| {
            below += u32::from(*count);
            below >= rank
        };
        self.levels.iter().position(reaches).unwrap_or_default() as u32
    }

    /// How far the voice has fallen, in dB; `None` where that cannot be told.
    pub fn measured(&self) -> Option<f32> {
        let loud = self.percentile(LOUD_PERCENT);
        let varies = loud.saturating_sub(self.percentile(SOFT_PERCENT)) >= SPREAD_MIN_DB;
        (self.speech >= FRAMES_MIN && varies).then_some(SOFTEST_DBFS + loud as f32 + 0.5 - self.end_dbfs)
    }

    /// Whether the voice is up, as where more follows; not where too little has been said to tell.
    pub fn is_up(&self) -> bool {
        self.measured().is_some_and(|fall| fall < self.usual_db - UP_DB)
    }

    /// Learns from a turn that was over: the caller did not go on with it.
    pub fn learn(&mut self, fall: f32) {
        self.usual_db += LEARNT * (fall.clamp(0.0, 2.0 * USUAL_DB) - self.usual_db);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of speech with its ups and downs, and 300 ms at the end with this level in dBFS.
    fn sentence(fall: &mut Fall, end: f32) {
        fall.begin();
        (0..50).for_each(|frame| fall.hear(if frame % 5 < 2 { -20.0 } else { -27.0 }, true));
        (0..END_FRAMES).for_each(|_| fall.hear(end, true));
        // Silence behind it changes nothing.
        (0..END_FRAMES).for_each(|_| fall.hear(-70.0, false));
    }

    #[test]
    fn a_voice_is_up_or_has_fallen_at_the_end_of_a_sentence() {
        for (end, is_up) in [(-20.0, true), (-27.0, true), (-29.0, false), (-34.0, false)] {
            let mut fall = Fall::default();
            sentence(&mut fall, end);
            assert_eq!(fall.is_up(), is_up, "{end} dBFS");
        }
    }

    #[test]
    fn of_a_short_answer_and_of_a_sound_that_is_always_as_loud_nothing_is_told() {
        let mut fall = Fall::default();
        (0..FRAMES_MIN - 1).for_each(|frame| fall.hear(if frame % 2 == 0 { -20.0 } else { -30.0 }, true));
        assert_eq!(fall.measured(), None, "a short answer");
        fall.begin();
        (0..100).for_each(|_| fall.hear(-20.0, true));
        assert_eq!(fall.measured(), None, "a hum");
    }

    #[test]
    fn where_every_sentence_ends_as_loud_a_loud_end_is_usual() {
        let mut fall = Fall::default();
        for _ in 0..12 {
            sentence(&mut fall, -24.0);
            let measured = fall.measured().expect("a sentence");
            fall.learn(measured);
        }
        sentence(&mut fall, -24.0);
        assert!(!fall.is_up());
        sentence(&mut fall, -20.0);
        assert!(fall.is_up());
    }
}
