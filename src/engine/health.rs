//! Which providers can be counted on: what `/ready` tells a load balancer.

use crate::call::{EndClass, EndReason};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// So many calls in a row that the provider failed, and the provider counts as unusable.
const FAILURES: u32 = 3;
/// After this long it is given another chance; without calls nobody would ever find out.
const FORGIVE_AFTER: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct ProviderHealth {
    /// Failed calls in a row, and when the last one failed.
    failing: Mutex<HashMap<String, (u32, Instant)>>,
}

impl ProviderHealth {
    /// A call ended, or a provider's part in it. `heard`: the provider spoke in it.
    pub fn ended(&self, provider: &str, reason: EndReason, heard: bool) {
        let mut failing = self.lock();
        if reason.class() == EndClass::Provider {
            let entry = failing.entry(provider.to_owned()).or_insert((0, Instant::now()));
            *entry = (entry.0.saturating_add(1), Instant::now());
        } else if heard {
            failing.remove(provider);
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
    use crate::call::AgentLoss;

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_fails_three_times_is_unusable_until_it_works_or_a_minute_has_passed() {
        let health = ProviderHealth::default();
        let fail = || health.ended("p", EndReason::AgentLost(AgentLoss::Closed), true);
        fail();
        fail();
        assert!(health.is_usable("p"));
        fail();
        assert!(!health.is_usable("p"));
        health.ended("p", EndReason::CallerHungUp, false);
        assert!(!health.is_usable("p"), "a caller who heard nothing proves nothing");
        health.ended("p", EndReason::CallerHungUp, true);
        assert!(health.is_usable("p"));
        (0..3).for_each(|_| fail());
        tokio::time::advance(FORGIVE_AFTER + Duration::from_secs(1)).await;
        assert!(health.is_usable("p"));
    }
}
