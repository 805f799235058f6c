//! The clock of one session: its pings, and what is due by its watch.

use crate::{remote::peer::Pulse, woken::Woken};
use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::time::{Instant, Sleep, sleep_until};

/// What the clock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ring {
    Beat,
    /// Something may be due.
    Alarm,
}

/// It is never put off: what is due a moment after the last frame moves with every frame, several dozen times a second, and
/// to ring in vain once costs less.
pub(super) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    set: bool,
    woken: Woken,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self { sleep: Box::pin(sleep_until(Instant::now())), set: false, woken: Woken::default() }
    }

    /// It rings then, if not sooner.
    pub(super) fn no_later_than(&mut self, at: Instant) {
        if !self.set || at < self.sleep.deadline() {
            self.sleep.as_mut().reset(at);
            self.set = true;
            self.woken.look_again();
        }
    }

    /// May be dropped at any time.
    pub(super) async fn rings(&mut self, pulse: &mut Pulse, pings: bool) -> Ring {
        let Self { sleep, set, woken } = self;
        let mut look = |cx: &mut Context<'_>| {
            if pings && pulse.poll_beat(cx).is_ready() {
                return Poll::Ready(Ring::Beat);
            }
            if !*set {
                return Poll::Pending;
            }
            ready!(sleep.as_mut().poll(cx));
            *set = false;
            Poll::Ready(Ring::Alarm)
        };
        poll_fn(|cx| woken.poll(cx, &mut look)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn it_rings_at_the_earliest_time_that_was_named_and_once() {
        let (mut alarm, mut pulse) = (Alarm::new(), Pulse::new(10 * SECOND, 20 * SECOND));
        let began = Instant::now();
        for seconds in [5, 3, 4] {
            alarm.no_later_than(began + seconds * SECOND);
            // Somebody has looked before it was set anew.
            assert!(timeout(Duration::ZERO, alarm.rings(&mut pulse, true)).await.is_err());
        }
        assert_eq!(alarm.rings(&mut pulse, true).await, Ring::Alarm);
        assert_eq!(began.elapsed(), 3 * SECOND);
        alarm.no_later_than(began + 4 * SECOND);
        assert_eq!(alarm.rings(&mut pulse, true).await, Ring::Alarm);
        assert_eq!(began.elapsed(), 4 * SECOND);
        assert_eq!(alarm.rings(&mut pulse, true).await, Ring::Beat);
        assert_eq!(began.elapsed(), 10 * SECOND);
        assert!(timeout(60 * SECOND, alarm.rings(&mut pulse, false)).await.is_err(), "without pings nothing is left");
    }
}
