//! What a session on a WebSocket knows of its peer: whether it lives, and whether it speaks the protocol.

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// One unreadable message is an accident; so many in a row are another protocol.
const MALFORMED_IN_A_ROW_MAX: u32 = 20;
/// Who comes so late to a beat was not awake and has read nothing meanwhile.
const OVERSLEPT: Duration = Duration::from_secs(1);

/// Tells an accident from another protocol.
#[derive(Default)]
pub struct Garble(u32);

impl Garble {
    /// A message has come; whether it is one too many of those that cannot be read.
    pub fn is_too_much(&mut self, malformed: bool) -> bool {
        self.0 = if malformed { self.0 + 1 } else { 0 };
        self.0 >= MALFORMED_IN_A_ROW_MAX
    }
}

/// Tells a peer that is gone from one that has nothing to say: whoever lives answers pings.
pub struct Pulse {
    beats: Interval,
    heard_at: Instant,
    patience: Duration,
}

impl Pulse {
    /// Pings so often; a peer that lives is silent for less than `patience`.
    pub fn new(every: Duration, patience: Duration) -> Self {
        let mut beats = interval_at(Instant::now() + every, every);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { beats, heard_at: Instant::now(), patience }
    }

    /// Something has come, or is looked for only now.
    pub fn heard(&mut self) {
        self.heard_at = Instant::now();
    }

    /// Until it is time for a ping, and for a look at [`Self::is_gone`]. May be dropped at any time.
    pub async fn beat(&mut self) {
        poll_fn(|cx| self.poll_beat(cx)).await;
    }

    /// As [`Self::beat`].
    pub fn poll_beat(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if ready!(self.beats.poll_tick(cx)).elapsed() > OVERSLEPT {
            self.heard();
        }
        Poll::Ready(())
    }

    pub fn is_gone(&self) -> bool {
        self.heard_at.elapsed() >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[test]
    fn unreadable_messages_are_accidents_unless_nothing_else_comes() {
        let mut garble = Garble::default();
        assert!((1..MALFORMED_IN_A_ROW_MAX).all(|_| !garble.is_too_much(true)));
        assert!(!garble.is_too_much(false), "it was understood again");
        assert!((1..MALFORMED_IN_A_ROW_MAX).all(|_| !garble.is_too_much(true)));
        assert!(garble.is_too_much(true));
    }

    #[tokio::test(start_paused = true)]
    async fn who_answers_a_ping_lives_and_who_says_nothing_for_too_long_is_gone() {
        let (every, patience) = (Duration::from_secs(3), Duration::from_secs(7));
        let mut pulse = Pulse::new(every, patience);
        let since = Instant::now();
        for _ in 0..4 {
            pulse.beat().await;
            assert!(!pulse.is_gone());
            pulse.heard();
        }
        assert_eq!(since.elapsed(), 4 * every);
        advance(patience - Duration::from_millis(1)).await;
        assert!(!pulse.is_gone());
        advance(Duration::from_millis(1)).await;
        assert!(pulse.is_gone());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_stood_still_has_missed_what_came_and_looks_again() {
        let mut pulse = Pulse::new(Duration::from_secs(3), Duration::from_secs(7));
        advance(Duration::from_secs(60)).await;
        pulse.beat().await;
        assert!(!pulse.is_gone());
        for _ in 0..3 {
            pulse.beat().await;
        }
        assert!(pulse.is_gone(), "nothing came then either");
    }
}
