//! A stream that is asked only once something has woken it.

use futures_util::{Stream, StreamExt as _, stream::BoxStream, task::AtomicWaker};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// A session has several dozen other reasons a second to look whether anything came, and each look at a WebSocket clears a
/// buffer of kilobytes.
pub(super) struct Gate<T> {
    stream: BoxStream<'static, T>,
    open: Arc<Open>,
    /// Opens the gate.
    opener: Waker,
}

struct Open {
    /// The stream may have something, or has not been asked yet.
    flag: AtomicBool,
    /// Whoever waits before the gate.
    waiting: AtomicWaker,
}

impl Wake for Open {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.flag.store(true, Ordering::Release);
        self.waiting.wake();
    }
}

impl<T> Gate<T> {
    pub fn before(stream: BoxStream<'static, T>) -> Self {
        let open = Arc::new(Open { flag: AtomicBool::new(true), waiting: AtomicWaker::new() });
        Self { stream, opener: Waker::from(Arc::clone(&open)), open }
    }
}

impl<T> Stream for Gate<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        // In this order: who opens the gate after the look wakes whoever is written down.
        self.open.waiting.register(cx.waker());
        if !self.open.flag.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let Self { stream, open, opener } = &mut *self;
        let next = stream.poll_next_unpin(&mut Context::from_waker(opener));
        if next.is_ready() {
            // There may be more.
            open.flag.store(true, Ordering::Release);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::task::ready;
    use tokio::sync::mpsc;

    #[test]
    fn what_is_behind_it_is_asked_when_it_was_woken_and_not_else_and_nothing_is_missed() {
        let (sender, mut receiver) = mpsc::channel(2);
        let asked = Arc::new(AtomicBool::new(false));
        let was_asked = || asked.swap(false, Ordering::Relaxed);
        let asks = Arc::clone(&asked);
        let behind = stream::poll_fn(move |cx| {
            asks.store(true, Ordering::Relaxed);
            Poll::Ready(ready!(receiver.poll_recv(cx)))
        });
        let mut gate = Gate::before(behind.boxed());
        // Whoever waits before a gate can tell that they were woken as the gate can.
        let waits = Arc::new(Open { flag: AtomicBool::new(false), waiting: AtomicWaker::new() });
        let was_woken = || waits.flag.swap(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&waits));
        let mut look = || gate.poll_next_unpin(&mut Context::from_waker(&waker));
        assert!(look().is_pending() && was_asked(), "it takes a look to know that nothing has come");
        for _ in 0..3 {
            assert!(look().is_pending() && !was_asked(), "nobody has woken it");
        }
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        assert!(was_woken());
        assert_eq!((look(), look()), (Poll::Ready(Some(1)), Poll::Ready(Some(2))), "two may come for one time");
        assert!(look().is_pending());
        drop(sender);
        assert!(was_woken());
        assert_eq!(look(), Poll::Ready(None), "the end comes through as well");
    }
}
