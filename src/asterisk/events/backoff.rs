//! How long to wait before the next attempt.

use super::Timing;
use crate::chance;
use std::time::Duration;

/// Doubles from attempt to attempt; half of each wait is chance, so that many engines do not come
/// back to a restarted Asterisk in step.
pub(super) struct Backoff {
    attempt: u32,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { attempt: 0 }
    }

    /// The wait after a connection that stood for `lasted`. A connection must have been healthy for
    /// a while to count as one: a server that accepts and closes in a loop is waited for longer and
    /// longer.
    pub(super) fn after(&mut self, lasted: Duration, timing: &Timing) -> Duration {
        if lasted >= timing.healthy_after {
            self.attempt = 0;
        }
        let full = timing.backoff_first.saturating_mul(2u32.saturating_pow(self.attempt)).min(timing.backoff_max);
        self.attempt = self.attempt.saturating_add(1);
        jittered(full)
    }
}

/// Between half of `full` and all of it.
pub(super) fn jittered(full: Duration) -> Duration {
    full.mul_f64(chance::within(0.5..1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Duration = Duration::ZERO;

    fn within(wait: Duration, full: Duration) -> bool {
        full / 2 <= wait && wait <= full
    }

    #[test]
    fn waits_double_up_to_their_limit() {
        let (mut backoff, timing) = (Backoff::new(), Timing::default());
        for full in [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000].map(Duration::from_millis) {
            assert!(within(backoff.after(NOTHING, &timing), full), "{full:?}");
        }
        for _ in 0..100 {
            backoff.after(NOTHING, &timing);
        }
        assert!(within(backoff.after(NOTHING, &timing), timing.backoff_max));
    }

    #[test]
    fn only_a_connection_that_lasted_starts_the_count_again() {
        let (mut backoff, timing) = (Backoff::new(), Timing::default());
        for _ in 0..5 {
            backoff.after(timing.healthy_after / 2, &timing);
        }
        assert!(backoff.after(NOTHING, &timing) > Duration::from_secs(1));
        assert!(within(backoff.after(timing.healthy_after, &timing), timing.backoff_first));
    }
}
