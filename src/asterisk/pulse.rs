//! One 20 ms clock for the silence of all legs.
//!
//! Hundreds of legs share one timer: a leg that is being played to costs one atomic addition per
//! tick here, instead of a timer of its own that is moved with every frame.

use super::counters::Filler;
use crate::audio::FRAME;
use std::sync::{
    Mutex, PoisonError, Weak,
    atomic::{AtomicU32, Ordering::Relaxed},
};
use tokio::time::{MissedTickBehavior, interval};

/// Ticks without a frame from the call after which the leg sends silence itself. Three (60 ms) is
/// beyond any jitter of a healthy call task and far below the 2 s after which Asterisk drops an
/// `AudioSocket()` call whose both sides are silent.
const STARVED_TICKS: u32 = 3;

/// The count of a leg that has not been played to yet. Half the range: a year of ticks separates
/// it from both ends.
const NEVER: u32 = u32::MAX / 2;

/// Counts the ticks since the call last played.
pub(super) struct Quiet(AtomicU32);

impl Quiet {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(NEVER))
    }

    /// The call played a frame.
    pub(super) fn end(&self) {
        self.0.store(0, Relaxed);
    }

    /// 20 ms passed. `Some`: the leg must send silence now, for this reason.
    pub(super) fn tick(&self) -> Option<Filler> {
        match self.0.fetch_add(1, Relaxed) {
            0..STARVED_TICKS => None,
            STARVED_TICKS..NEVER => Some(Filler::Starved),
            NEVER.. => Some(Filler::Start),
        }
    }
}

/// What the pulse does to a leg. Must not block.
pub(super) trait Beat: Send + Sync {
    fn beat(&self);
}

/// All open legs. It owns none of them: a leg that was dropped falls out at the next tick.
#[derive(Default)]
pub(super) struct Pulse {
    legs: Mutex<Vec<Weak<dyn Beat>>>,
}

impl Pulse {
    pub(super) fn add(&self, leg: Weak<dyn Beat>) {
        self.legs.lock().unwrap_or_else(PoisonError::into_inner).push(leg);
    }

    pub(super) async fn run(&self) {
        let mut ticks = interval(FRAME);
        // After a stall the silence that was not sent is not worth sending.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut legs = Vec::new();
        loop {
            ticks.tick().await;
            // Writing happens outside the lock, so that a new leg never waits for a whole round.
            legs.append(&mut self.legs.lock().unwrap_or_else(PoisonError::into_inner));
            legs.retain(|leg: &Weak<dyn Beat>| match leg.upgrade() {
                Some(leg) => {
                    leg.beat();
                    true
                }
                None => false,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_due_every_tick_until_the_first_frame_and_again_after_60_ms_without_one() {
        let quiet = Quiet::new();
        assert_eq!([quiet.tick(), quiet.tick()], [Some(Filler::Start); 2]);
        quiet.end();
        assert_eq!([quiet.tick(), quiet.tick(), quiet.tick()], [None; 3]);
        assert_eq!([quiet.tick(), quiet.tick()], [Some(Filler::Starved); 2]);
        quiet.end();
        assert_eq!(quiet.tick(), None);
    }
}
