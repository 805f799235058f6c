//! What a run collects, and what becomes of it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// What was noted at one socket and is taken at another.
pub struct Note<T>(Mutex<Option<T>>);

impl<T> Default for Note<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

/// A moment whose other end is still to come.
pub type Mark = Note<Instant>;

impl<T: Copy> Note<T> {
    pub fn set(&self, value: T) {
        *self.lock() = Some(value);
    }

    pub fn is_set(&self) -> bool {
        self.lock().is_some()
    }

    /// It stays to be taken.
    pub fn get(&self) -> Option<T> {
        *self.lock()
    }

    pub fn clear(&self) -> Option<T> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mark {
    /// How long ago it was, once.
    pub fn take(&self, now: Instant) -> Option<Duration> {
        self.clear().map(|at| now.saturating_duration_since(at))
    }
}

/// Everything measured at the load's own sockets.
#[derive(Default, Clone)]
pub struct Samples {
    /// Dialled → first loud frame of the greeting.
    pub set_up: Vec<Duration>,
    /// Provider's audio written → first loud frame of it read by the caller.
    pub down: Vec<Duration>,
    /// Caller's loud frame written → read by the provider.
    pub up: Vec<Duration>,
    /// The caller interrupts, by the provider's word or its own voice → last sound of the agent read by the caller.
    pub barge_in: Vec<Duration>,
    /// Agents that fell silent for the caller and went on at once.
    pub went_on: u64,
    /// The longest silence of each caller whose provider's session was ended.
    pub silences: Vec<Duration>,
    /// What a pipeline adds to a turn: the caller's last voiced frame → request to the model, and the first sound of its
    /// voice → first loud frame read by the caller.
    pub share: Vec<Duration>,
    /// Tokens that the model had written beyond an answer's first clause when it came to the voice.
    pub clause_tokens: Vec<usize>,
    /// How late the load wrote what was due.
    pub late: Vec<Duration>,
    /// 20 ms slots in which callers should have got a frame, and those in which none came.
    pub slots: u64,
    pub missed: u64,
    pub longest_gap: Duration,
    /// Frames of callers that the system under test did not take from its socket.
    pub refused: u64,
    /// Calls that ended before the load ended them.
    pub lost: u64,
}

/// In milliseconds; `None` without samples.
pub fn percentile(samples: &[Duration], percent: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).map(|sample| sample.as_secs_f64() * 1_000.0)
}

pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample_and_the_hundredth_is_the_largest() {
        let samples: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!([50.0, 99.0, 100.0].map(|p| percentile(&samples, p)), [Some(100.0), Some(198.0), Some(200.0)]);
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn the_median_of_two_lies_between_them() {
        assert_eq!([median([3.0, 1.0]), median([9.0, 1.0, 2.0]), median([])], [Some(2.0), Some(2.0), None]);
    }
}
