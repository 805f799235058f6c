//! Dry runs: a few at a time, each within a limit.

use super::StoreError;
use serde_json::Value;
use std::{future::Future, time::Duration};
use tokio::{sync::Semaphore, time::timeout};

/// Under way through one door; a live one holds connections to other services.
pub(super) const TRIALS_AT_ONCE: usize = 4;
/// Under the limit for all answers, so that the asker is told what it was.
const TRIAL_MAX: Duration = Duration::from_secs(12);

pub(in crate::http) struct Trials(Semaphore);

/// Why a dry run did not take place.
pub(in crate::http) enum TrialError {
    Busy,
    Slow,
    Store(StoreError),
}

impl TrialError {
    pub const BUSY: &'static str = "too many dry runs are under way";
    pub const SLOW: &'static str = "the dry run took too long and was stopped";
}

impl Default for Trials {
    fn default() -> Self {
        Self(Semaphore::new(TRIALS_AT_ONCE))
    }
}

impl Trials {
    pub async fn run(&self, trial: impl Future<Output = Result<Value, StoreError>>) -> Result<Value, TrialError> {
        let Ok(_permit) = self.0.try_acquire() else {
            tracing::warn!(limit = TRIALS_AT_ONCE, "too many dry runs at once");
            return Err(TrialError::Busy);
        };
        match timeout(TRIAL_MAX, trial).await {
            Ok(trace) => trace.map_err(TrialError::Store),
            Err(_) => Err(TrialError::Slow),
        }
    }
}
