//! How loud, and whether somebody speaks.

use std::{
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
    /// What of a sample is left one sample later, and two, three and four.
    keep: [f32; 4],
    last: f32,
    passed: f32,
}

impl VoiceLevel {
    /// A little below where the band of a telephone begins.
    const EDGE_HZ: f32 = 200.0;

    pub fn new(rate: u32) -> Self {
        let keep = 1.0 / (1.0 + TAU * Self::EDGE_HZ / rate as f32);
        Self { keep: [1, 2, 3, 4].map(|later| keep.powi(later)), last: 0.0, passed: 0.0 }
    }

    /// Of the next samples, in dB below full scale as [`rms_dbfs`] measures it.
    pub fn of(&mut self, samples: &[i16]) -> f32 {
        let mut energies = [0.0; 4];
        // Four at a time, since each waits for the one before: every frame of every call passes here.
        let (fours, rest) = samples.as_chunks::<4>();
        for four in fours {
            self.pass(four, &mut energies);
        }
        for one in rest {
            self.pass(&[*one], &mut energies);
        }
        let energy: f32 = energies.iter().sum();
        let power = energy / samples.len().max(1) as f32;
        (10.0 * (power / f32::from(i16::MAX).powi(2)).log10()).max(-96.0)
    }

    /// y[n] = keep · (y[n−1] + x[n] − x[n−1]), so that of what had passed before these samples a power of `keep` is left in
    /// each of them.
    fn pass<const N: usize>(&mut self, samples: &[i16; N], energies: &mut [f32; 4]) {
        let (before, mut own) = (self.passed, 0.0);
        for ((&sample, left), energy) in samples.iter().zip(self.keep).zip(energies) {
            let sample = f32::from(sample);
            own = self.keep[0] * (own + (sample - self.last));
            self.last = sample;
            self.passed = own + left * before;
            *energy += self.passed * self.passed;
        }
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
    use super::*;
    use crate::audio::FRAME;

    #[test]
    fn a_click_is_not_speech_and_a_short_pause_is_not_the_end() {
        let mut detector = ActivityDetector::new(-40.0, Duration::from_millis(40), Duration::from_millis(200));
        let (loud, quiet) = ([8_000i16; 160], [0i16; 160]);
        let mut now = crate::audio::level::tests::start();
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

    #[allow(clippy::disallowed_methods)] // A test needs some instant to count from.
    fn start() -> Instant {
        Instant::now()
    }
}
