//! How loud, and whether somebody speaks.

use std::{
    array::from_fn,
    f32::consts::TAU,
    time::{Duration, Instant},
};

/// Root mean square in dB below full scale; silence is -96 dB.
pub fn rms_dbfs(samples: &[i16]) -> f32 {
    if samples.is_empty() {
        return -96.0;
    }
    // Whole numbers may be added in any order, so several at once.
    let energy: i64 = samples.iter().map(|&sample| i64::from(i32::from(sample).pow(2))).sum();
    let power = energy as f64 / samples.len() as f64;
    (10.0 * (power / f64::from(i16::MAX).powi(2)).log10()).max(-96.0) as f32
}

/// The level of what a telephone passes: rumble, hum and wind below [`VoiceLevel::EDGE_HZ`] are louder than a quiet
/// voice on some lines, rise and fall by themselves, and say nothing about who speaks.
#[derive(Debug)]
pub(super) struct VoiceLevel {
    /// What of a sample is left one sample later.
    keep: f32,
    last: f32,
    passed: f32,
}

impl VoiceLevel {
    /// A little below where the band of a telephone begins.
    const EDGE_HZ: f32 = 200.0;
    /// Pieces of a frame that are passed side by side: in one piece each sample waits for the one before, and every frame of
    /// every call passes here.
    const PIECES: usize = 8;

    pub fn new(rate: u32) -> Self {
        Self { keep: 1.0 / (1.0 + TAU * Self::EDGE_HZ / rate as f32), last: 0.0, passed: 0.0 }
    }

    /// Of the next samples, in dB below full scale as [`rms_dbfs`] measures it.
    pub fn of(&mut self, samples: &[i16]) -> f32 {
        let (pieces, rest) = samples.split_at(samples.len() - samples.len() % Self::PIECES);
        let mut energy = self.pass_pieces(pieces);
        for &sample in rest {
            self.passed = self.keep * (self.passed + f32::from(sample) - self.last);
            self.last = f32::from(sample);
            energy += self.passed * self.passed;
        }
        let power = energy / samples.len().max(1) as f32;
        (10.0 * (power / f32::from(i16::MAX).powi(2)).log10()).max(-96.0)
    }

    /// Passes each piece as if nothing had been before it, then adds to each what the one before has left in the filter.
    fn pass_pieces(&mut self, samples: &[i16]) -> f32 {
        let length = samples.len() / Self::PIECES;
        if length == 0 {
            return 0.0;
        }
        let pieces: [&[i16]; Self::PIECES] = from_fn(|piece| &samples[piece * length..][..length]);
        let mut last: [f32; Self::PIECES] =
            from_fn(|piece| if piece == 0 { self.last } else { f32::from(pieces[piece - 1][length - 1]) });
        let (mut own, mut energy, mut shared) = ([0.0; Self::PIECES], [0.0; Self::PIECES], [0.0; Self::PIECES]);
        let (mut left, mut lefts) = (1.0, 0.0);
        let side_by_side = |at| -> [f32; Self::PIECES] { from_fn(|piece| f32::from(pieces[piece][at])) };
        for samples in (0..length).map(side_by_side) {
            left *= self.keep;
            lefts += left * left;
            for piece in 0..Self::PIECES {
                own[piece] = self.keep * (own[piece] + samples[piece] - last[piece]);
                last[piece] = samples[piece];
                energy[piece] += own[piece] * own[piece];
                shared[piece] += own[piece] * left;
            }
        }
        self.last = last[Self::PIECES - 1];
        let mut all = 0.0;
        for piece in 0..Self::PIECES {
            let before = self.passed;
            // The square of a sum, summed.
            all += energy[piece] + 2.0 * before * shared[piece] + before * before * lefts;
            self.passed = own[piece] + left * before;
        }
        // Rounding must not make less than nothing of it.
        f32::max(all, 0.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    Started,
    Stopped,
}

/// Speech by energy with hysteresis: enough for an agent in the same process and for tests on clean
/// lines; it makes no claim on noisy ones.
#[derive(Debug)]
pub struct ActivityDetector {
    threshold_dbfs: f32,
    onset: Duration,
    hangover: Duration,
    /// Since when the level has been on the other side of the threshold.
    crossing_since: Option<Instant>,
    speaking: bool,
}

impl ActivityDetector {
    pub fn new(threshold_dbfs: f32, onset: Duration, hangover: Duration) -> Self {
        Self { threshold_dbfs, onset, hangover, crossing_since: None, speaking: false }
    }

    /// One frame that ended at `now`.
    pub fn push(&mut self, samples: &[i16], now: Instant) -> Option<Activity> {
        let loud = rms_dbfs(samples) > self.threshold_dbfs;
        if loud == self.speaking {
            self.crossing_since = None;
            return None;
        }
        let since = *self.crossing_since.get_or_insert(now);
        let wait = if loud { self.onset } else { self.hangover };
        if now.saturating_duration_since(since) < wait {
            return None;
        }
        self.crossing_since = None;
        self.speaking = loud;
        Some(if loud { Activity::Started } else { Activity::Stopped })
    }
}

#[cfg(test)]
mod tests {
    use super::super::FRAME;
    use super::*;
    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

    #[test]
    fn a_click_is_not_speech_and_a_short_pause_is_not_the_end() {
        let mut detector = ActivityDetector::new(-40.0, Duration::from_millis(40), Duration::from_millis(200));
        let (loud, quiet) = ([8_000i16; 160], [0i16; 160]);
        let mut now = start();
        let mut heard = Vec::new();
        let timeline = [(&quiet, 5), (&loud, 1), (&quiet, 5), (&loud, 10), (&quiet, 4), (&loud, 5), (&quiet, 20)];
        for (frame, count) in timeline {
            for _ in 0..count {
                heard.extend(detector.push(frame, now));
                now += FRAME;
            }
        }
        assert_eq!(heard, [Activity::Started, Activity::Stopped]);
    }

    #[test]
    fn samples_that_are_passed_side_by_side_have_the_level_that_they_have_one_by_one() {
        let mut random = StdRng::seed_from_u64(1);
        for rate in [8_000, 11_025, 16_000, 44_100] {
            let (mut level, keep) =
                (VoiceLevel::new(rate), 1.0 / (1.0 + std::f64::consts::TAU * 200.0 / f64::from(rate)));
            let (mut last, mut passed) = (0.0, 0.0);
            for length in [160, 7, 8, 882, 0, 1, 320, 163] {
                // Loud and all but silent, with a step at the edge.
                let amplitude = 10_i32.pow(random.random_range(0..5)).min(30_000);
                let samples: Vec<i16> =
                    (0..length).map(|_| random.random_range(-amplitude..=amplitude) as i16).collect();
                let mut energy = 0.0;
                for &sample in &samples {
                    passed = keep * (passed + f64::from(sample) - last);
                    last = f64::from(sample);
                    energy += passed * passed;
                }
                let power = energy / f64::from(length.max(1)) / f64::from(i16::MAX).powi(2);
                let (found, wanted) = (f64::from(level.of(&samples)), (10.0 * power.log10()).max(-96.0));
                assert!(
                    (found - wanted).abs() < 0.01,
                    "{rate}, {length} samples to {amplitude}: {found}, not {wanted}"
                );
            }
        }
    }

    #[allow(clippy::disallowed_methods)] // A test needs some instant to count from.
    fn start() -> Instant {
        Instant::now()
    }
}
