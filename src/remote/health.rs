//! A circuit breaker per service, shared by all calls: who has failed again and again is not asked for a while.
//!
//! ```text
//!            FAILURES in a row, or a final loss
//!   closed ─────────────────────────────────────▶ open
//!      ▲                                          │ ▲
//!      │ it spoke                 cool-down over  ▼ │ it failed: twice the cool-down
//!      └──────────────────────────────────── half-open (one call tries)
//! ```

use crate::{
    call::{AgentLoss, Recovery},
    chance,
};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// So many failures in a row are no accident.
const FAILURES: u32 = 3;
/// A failure so long after the one before is another accident.
const HEALED_AFTER: Duration = Recovery::HEALED_AFTER;
/// The first cool-down: the shortest outages of vendors last some seconds.
const COOL_DOWN: Duration = Duration::from_secs(15);
/// The longest one: a vendor who is back is found within minutes.
const COOL_DOWN_MAX: Duration = Duration::from_secs(5 * 60);
/// A try that has neither spoken nor failed after this long (its caller hung up, say) is forgotten.
const TRY_MAX: Duration = Duration::from_secs(30);
/// One engine's services, over many reloads; names beyond them are not watched.
const SERVICES_MAX: usize = 256;

/// What a breaker lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaker {
    Closed,
    HalfOpen,
    Open,
}

#[derive(Default)]
pub struct Health {
    /// Those that have failed since they last worked.
    failing: Mutex<HashMap<String, Failing>>,
}

#[derive(Debug, Clone, Copy)]
struct Failing {
    /// In a row, each within [`HEALED_AFTER`] of the one before.
    failures: u32,
    last: Instant,
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    until: Instant,
    cool_down: Duration,
    /// The call that tries, since when.
    tried: Option<Instant>,
}

impl Breaker {
    /// For the gauge.
    pub const fn value(self) -> i64 {
        match self {
            Self::Closed => 0,
            Self::HalfOpen => 1,
            Self::Open => 2,
        }
    }
}

impl Health {
    /// A session failed. A final loss opens the breaker at once; the vendor's own limit of a session is no failure.
    pub fn failed(&self, service: &str, loss: AgentLoss) {
        if loss == AgentLoss::Expired {
            return;
        }
        let now = Instant::now();
        let mut failing = self.lock();
        if !failing.contains_key(service) && failing.len() >= SERVICES_MAX {
            return;
        }
        let entry = failing.entry(service.to_owned()).or_insert(Failing { failures: 0, last: now, open: None });
        let before = if now < entry.last + HEALED_AFTER { entry.failures } else { 0 };
        (entry.failures, entry.last) = (before.saturating_add(1), now);
        match &mut entry.open {
            // Sessions that began before it opened, and end only now, tell nothing new.
            Some(open) if now < open.until => {}
            Some(open) => *open = Open::after(now, (open.cool_down * 2).min(COOL_DOWN_MAX)),
            None if loss.is_final() || entry.failures >= FAILURES => {
                tracing::warn!(service, loss = loss.label(), "the service fails; it rests, and others are asked");
                entry.open = Some(Open::after(now, COOL_DOWN));
            }
            None => {}
        }
    }

    /// It did what it was asked for: what was tried has worked.
    pub fn spoke(&self, service: &str) {
        let mut failing = self.lock();
        if failing.get(service).is_some_and(|entry| entry.open.is_some_and(|open| Instant::now() >= open.until)) {
            failing.remove(service);
            tracing::info!(service, "the service works again");
        }
    }

    /// Its part in a call has ended well, and it was heard.
    pub fn worked(&self, service: &str) {
        let mut failing = self.lock();
        if failing.get(service).is_some_and(|entry| entry.open.is_none()) {
            failing.remove(service);
        }
    }

    /// It is configured anew: what was known of it was known of another.
    pub fn forget(&self, service: &str) {
        self.lock().remove(service);
    }

    /// Whether a call may dial it now. When it is half-open this call is the one that tries.
    pub fn admits(&self, service: &str) -> bool {
        let mut failing = self.lock();
        let Some(Failing { open: Some(open), .. }) = failing.get_mut(service) else { return true };
        let now = Instant::now();
        let admitted = now >= open.until && open.tried.is_none_or(|since| now >= since + TRY_MAX);
        if admitted {
            open.tried = Some(now);
        }
        admitted
    }

    pub fn breaker(&self, service: &str) -> Breaker {
        match self.lock().get(service).and_then(|entry| entry.open) {
            None => Breaker::Closed,
            Some(open) if Instant::now() < open.until => Breaker::Open,
            Some(_) => Breaker::HalfOpen,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Jittered, so that the engines of one installation do not all try at the same moment.
    fn after(now: Instant, cool_down: Duration) -> Self {
        Self { until: now + cool_down.mul_f64(chance::within(0.75..1.25)), cool_down, tried: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    /// Longer than any jitter makes it.
    fn surely(cool_down: Duration) -> Duration {
        cool_down.mul_f64(1.26)
    }

    fn fail(health: &Health) {
        health.failed("p", AgentLoss::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn three_failures_in_a_row_open_it_and_a_call_that_went_well_starts_the_count_anew() {
        let health = Health::default();
        fail(&health);
        fail(&health);
        health.worked("p");
        fail(&health);
        fail(&health);
        assert_eq!(health.breaker("p"), Breaker::Closed);
        assert!(health.admits("p"));
        fail(&health);
        assert_eq!(health.breaker("p"), Breaker::Open);
        assert!(!health.admits("p"));
        assert!(health.admits("another"));
        health.worked("p");
        assert_eq!(health.breaker("p"), Breaker::Open, "a call from before it opened proves nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_are_far_apart_are_no_row() {
        let health = Health::default();
        for _ in 0..9 {
            fail(&health);
            advance(HEALED_AFTER).await;
        }
        assert_eq!(health.breaker("p"), Breaker::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_final_loss_opens_it_at_once_and_a_sessions_own_limit_never() {
        let health = Health::default();
        (0..9).for_each(|_| health.failed("p", AgentLoss::Expired));
        assert_eq!(health.breaker("p"), Breaker::Closed);
        health.failed("p", AgentLoss::Unauthorized);
        assert_eq!(health.breaker("p"), Breaker::Open);
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_cool_down_one_call_tries_and_its_word_counts() {
        let health = Health::default();
        (0..3).for_each(|_| fail(&health));
        advance(COOL_DOWN.mul_f64(0.74)).await;
        assert_eq!(health.breaker("p"), Breaker::Open);
        advance(surely(COOL_DOWN)).await;
        assert_eq!(health.breaker("p"), Breaker::HalfOpen);
        assert!(health.admits("p"));
        assert!(!health.admits("p"), "one tries");
        fail(&health);
        assert_eq!(health.breaker("p"), Breaker::Open);
        advance(surely(COOL_DOWN)).await;
        assert_eq!(health.breaker("p"), Breaker::Open, "the second cool-down is longer");
        advance(surely(COOL_DOWN)).await;
        assert!(health.admits("p"));
        health.spoke("p");
        assert_eq!(health.breaker("p"), Breaker::Closed);
        assert!(health.admits("p") && health.admits("p"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_comes_to_nothing_is_forgotten() {
        let health = Health::default();
        (0..3).for_each(|_| fail(&health));
        advance(surely(COOL_DOWN)).await;
        assert!(health.admits("p"));
        advance(TRY_MAX - Duration::from_secs(1)).await;
        assert!(!health.admits("p"));
        advance(Duration::from_secs(1)).await;
        assert!(health.admits("p"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_configured_anew_begins_anew() {
        let health = Health::default();
        for service in ["p", "q"] {
            health.failed(service, AgentLoss::Unauthorized);
        }
        health.forget("p");
        assert_eq!((health.admits("p"), health.admits("q")), (true, false));
    }

    #[tokio::test(start_paused = true)]
    async fn the_cool_down_grows_and_is_bounded() {
        let health = Health::default();
        health.failed("p", AgentLoss::Quota);
        for _ in 0..20 {
            advance(surely(COOL_DOWN_MAX)).await;
            assert_eq!(health.breaker("p"), Breaker::HalfOpen);
            fail(&health);
            assert_eq!(health.breaker("p"), Breaker::Open);
        }
        let open = health.lock()["p"].open.unwrap();
        assert_eq!(open.cool_down, COOL_DOWN_MAX);
    }
}
