//! Which providers can be counted on: what `/ready` tells a load balancer.

use crate::call::{AgentLoss, EndReason};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// So many sessions in a row that never got ready, and the provider counts as unusable.
const FAILURES: u32 = 3;
/// After this long it is given another chance; without calls nobody would ever find out.
const FORGIVE_AFTER: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct ProviderHealth {
    /// Failed sessions in a row, and when the last one failed.
    failing: Mutex<HashMap<String, (u32, Instant)>>,
}

impl ProviderHealth {
    pub fn ready(&self, provider: &str) {
        self.lock().remove(provider);
    }

    /// A call ended; only endings that speak against the provider count.
    pub fn ended(&self, provider: &str, reason: EndReason) {
        use AgentLoss::{Handshake, Quota, Unauthorized, Unreachable};
        if let EndReason::AgentLost(Unreachable | Unauthorized | Quota | Handshake) = reason {
            let mut failing = self.lock();
            let entry = failing.entry(provider.to_owned()).or_insert((0, Instant::now()));
            *entry = (entry.0.saturating_add(1), Instant::now());
        }
    }

    pub fn is_usable(&self, provider: &str) -> bool {
        self.lock().get(provider).is_none_or(|(failures, at)| *failures < FAILURES || at.elapsed() > FORGIVE_AFTER)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (u32, Instant)>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_fails_three_times_is_unusable_until_it_works_or_a_minute_has_passed() {
        let health = ProviderHealth::default();
        let fail = || health.ended("p", EndReason::AgentLost(AgentLoss::Unreachable));
        fail();
        fail();
        assert!(health.is_usable("p"));
        fail();
        assert!(!health.is_usable("p"));
        health.ready("p");
        assert!(health.is_usable("p"));
        (0..3).for_each(|_| fail());
        tokio::time::advance(FORGIVE_AFTER + Duration::from_secs(1)).await;
        assert!(health.is_usable("p"));
        health.ended("q", EndReason::CallerHungUp);
        assert!(health.is_usable("q"));
    }
}
