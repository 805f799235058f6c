//! What is looked at only once something has woken it.
//!
//! A call's task and a session wait for several things at once, and each frame of audio makes them look at all of them.
//! What seldom has anything is not worth a look dozens of times a second.

use futures_util::task::AtomicWaker;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Stands before a look at something that wakes whoever looked in vain.
///
/// What is behind it must remember its waker from one look to the next, as receivers of channels and timers do. A future
/// that is dropped between two looks may forget it.
pub(crate) struct Woken {
    bell: Arc<Bell>,
    /// Rings the bell.
    waker: Waker,
}

struct Bell {
    /// It has rung since the last look, or there was none yet.
    rung: AtomicBool,
    /// Whoever waits for it.
    waiting: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.waiting.wake();
    }
}

impl Default for Woken {
    fn default() -> Self {
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), waiting: AtomicWaker::new() });
        Self { waker: Waker::from(Arc::clone(&bell)), bell }
    }
}

impl Woken {
    /// Looks, if it was woken since it looked in vain.
    pub fn poll<T>(&self, cx: &mut Context<'_>, look: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        // In this order: who rings after the look wakes whoever is written down.
        self.bell.waiting.register(cx.waker());
        if !self.bell.rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let looked = look(&mut Context::from_waker(&self.waker));
        if looked.is_ready() {
            // There may be more.
            self.look_again();
        }
        looked
    }

    /// What is behind it is another now, and has not been looked at.
    pub fn look_again(&self) {
        self.bell.rung.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::sync::mpsc;

    #[test]
    fn what_is_behind_it_is_looked_at_when_it_was_woken_and_not_else_and_nothing_is_missed() {
        let (sender, mut receiver) = mpsc::channel(2);
        let (woken, looked) = (Woken::default(), Cell::new(false));
        // Whoever waits can tell that they were woken as the thing itself can.
        let waits = Arc::new(Bell { rung: AtomicBool::new(false), waiting: AtomicWaker::new() });
        let was_woken = || waits.rung.swap(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&waits));
        let mut look = || {
            looked.set(false);
            woken.poll(&mut Context::from_waker(&waker), |cx| {
                looked.set(true);
                receiver.poll_recv(cx)
            })
        };
        assert!(look().is_pending() && looked.get(), "it takes a look to know that nothing has come");
        for _ in 0..3 {
            assert!(look().is_pending() && !looked.get(), "nobody has woken it");
        }
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        assert!(was_woken());
        assert_eq!((look(), look()), (Poll::Ready(Some(1)), Poll::Ready(Some(2))), "two may come for one ring");
        assert!(look().is_pending());
        woken.look_again();
        assert!(look().is_pending() && looked.get(), "it was asked to");
        drop(sender);
        assert!(was_woken());
        assert_eq!(look(), Poll::Ready(None), "the end comes through as well");
    }
}
