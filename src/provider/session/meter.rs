//! How long the connections of a session stood: several vendors bill that and report nothing.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Read by the call, at any time and after the session's end; written by the session.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Reading>);

#[derive(Debug, Default)]
struct Reading {
    /// Of connections that are over.
    before: Duration,
    /// Since when one stands.
    since: Option<Instant>,
}

impl Meter {
    /// The time connected so far.
    pub fn connected(&self) -> Duration {
        let reading = self.lock();
        reading.before + reading.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// A connection stands until the answer is dropped.
    pub(crate) fn connect(self: &Arc<Self>) -> Connected {
        self.lock().since = Some(Instant::now());
        Connected(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Connected(Arc<Meter>);

impl Drop for Connected {
    fn drop(&mut self) {
        let mut reading = self.0.lock();
        if let Some(since) = reading.since.take() {
            reading.before += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn each_connection_counts_while_it_stands_and_the_pauses_do_not() {
        let meter = Arc::new(Meter::default());
        assert_eq!(meter.connected(), Duration::ZERO);
        let connection = meter.connect();
        advance(Duration::from_secs(3)).await;
        assert_eq!(meter.connected(), Duration::from_secs(3), "it still stands");
        drop(connection);
        advance(Duration::from_secs(10)).await;
        let second = meter.connect();
        advance(Duration::from_secs(4)).await;
        drop(second);
        assert_eq!(meter.connected(), Duration::from_secs(7));
    }
}
