//! A load that never sleeps while it measures.
//!
//! Whoever sends to somebody asleep pays for waking them: some two microseconds on a virtual machine, a tenth of what a call
//! costs in a slot. The floor sends so much at once that it finds the load awake, an engine does not, and in a telephone
//! system, where each call is a thread of its own, both would pay. Here neither does, so that the ratio tells what the two do
//! themselves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{task::yield_now, time::Instant};
use tokio_util::task::AbortOnDropHandle;

/// A turn of the runtime's loop in which nothing had come takes less, one with a message more.
const NOTHING_CAME: Duration = Duration::from_micros(3);

pub struct Awake {
    /// In nanoseconds.
    idle: Arc<AtomicU64>,
    _task: AbortOnDropHandle<()>,
}

impl Awake {
    /// From now on until the answer is dropped. The core has to be the load's own.
    pub fn keep() -> Self {
        let idle = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(watch(Arc::clone(&idle)));
        Self { idle, _task: AbortOnDropHandle::new(task) }
    }

    /// How long the load had nothing to do so far.
    pub fn idle(&self) -> Duration {
        Duration::from_nanos(self.idle.load(Relaxed))
    }
}

async fn watch(idle: Arc<AtomicU64>) {
    let mut last = Instant::now();
    loop {
        yield_now().await;
        let now = Instant::now();
        let turn = now - last;
        if turn < NOTHING_CAME {
            idle.fetch_add(turn.as_nanos() as u64, Relaxed);
        }
        last = now;
    }
}
