//! How often somebody may ask: a bucket each, which fills up again evenly.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// A table of buckets that cannot outgrow `keys_max`: beyond it newcomers share one bucket.
pub(crate) struct Rates<K> {
    burst: f64,
    per_second: f64,
    keys_max: usize,
    buckets: Mutex<HashMap<Option<K>, Bucket>>,
}

struct Bucket {
    /// Requests that may still be made, in part.
    left: f64,
    at: Instant,
}

impl<K: Hash + Eq> Rates<K> {
    /// `burst` requests at once, and `per_second` after that; both above zero.
    pub fn new(burst: u32, per_second: f64, keys_max: usize) -> Self {
        Self { burst: f64::from(burst), per_second, keys_max, buckets: Mutex::default() }
    }

    /// Takes one request out of a bucket, or says how long until there is one.
    pub fn take(&self, key: K, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(key);
        if !buckets.contains_key(&key) && buckets.len() >= self.keys_max {
            // Whose bucket is full again is as if never seen.
            buckets.retain(|_, bucket| self.level(bucket, now) < self.burst);
            if buckets.len() >= self.keys_max {
                key = None;
            }
        }
        let bucket = buckets.entry(key).or_insert(Bucket { left: self.burst, at: now });
        (bucket.left, bucket.at) = (self.level(bucket, now), now);
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64(((1.0 - bucket.left) / self.per_second).ceil()))
    }

    /// What was taken is not counted after all.
    pub fn give_back(&self, key: K) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(&Some(key)) {
            bucket.left = (bucket.left + 1.0).min(self.burst);
        }
    }

    fn level(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.left + passed * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_at_once_then_one_by_one_and_each_for_itself() {
        let rates = Rates::new(60, 1.0, 10);
        let mut now = Instant::now();
        let taken = |key, now| std::iter::repeat_with(|| rates.take(key, now)).take_while(Result::is_ok).count();
        assert_eq!(taken("one", now), 60);
        assert_eq!(rates.take("one", now), Err(Duration::from_secs(1)));
        assert_eq!(taken("other", now), 60, "they do not share");
        now += Duration::from_secs(2);
        assert_eq!(taken("one", now), 2);
        rates.give_back("one");
        assert_eq!(taken("one", now), 1);
        now += Duration::from_secs(3600);
        assert_eq!(taken("one", now), 60, "it holds no more than a burst");
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_is_not_remembered_one_by_one() {
        let rates = Rates::new(1, 1.0, 100);
        let now = Instant::now();
        let let_in = (0..1_000).filter(|key| rates.take(*key, now).is_ok()).count();
        assert_eq!(let_in, 101, "those beyond it share one bucket");
        assert_eq!(rates.buckets.lock().unwrap().len(), 101);
        let later = now + Duration::from_secs(1);
        rates.take(5_000, later).unwrap();
        assert_eq!(rates.buckets.lock().unwrap().len(), 1);
    }
}
