//! How often, and after which wait, a server is started again.

use crate::config::{McpRestart, McpServer, McpTransport};
use std::time::Duration;

/// Up for so long, a server has shown its health: the next trouble is a new one.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// The longest wait before another start.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// How often a server is started again.
pub(super) struct Patience {
    restart: McpRestart,
    is_program: bool,
    pub failures: u32,
}

impl Patience {
    pub fn new(config: &McpServer) -> Self {
        let is_program = matches!(config.transport, McpTransport::Stdio { .. });
        Self { restart: config.restart, is_program, failures: 0 }
    }

    /// Starting it again may help, and no number of such ends is one too many: a caller's question can make a server
    /// silent, and must not switch it off.
    pub fn was_silent(&self) -> Option<Duration> {
        self.restart.enabled.then(|| backoff(self.restart.backoff, 1))
    }

    pub fn was_up(&mut self, time: Duration) {
        if time >= HEALTHY_AFTER {
            self.failures = 0;
        }
    }

    /// The wait before the next start; `None`: it is given up.
    pub fn failed(&mut self) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        // An endpoint somewhere else costs nothing to try on; a program that cannot live would be started for ever.
        let is_given_up = !self.restart.enabled || (self.is_program && self.failures > self.restart.max);
        (!is_given_up).then(|| backoff(self.restart.backoff, self.failures))
    }
}

/// Before the `failures`-th start again.
fn backoff(first: Duration, failures: u32) -> Duration {
    let times = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(times).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M37, M answer 11: twice as long each time, up to half a minute.
    #[test]
    fn the_wait_before_a_start_doubles_up_to_half_a_minute() {
        let waits =
            |first: u64| (1..=7).map(move |failures| backoff(Duration::from_millis(first), failures).as_millis());
        assert_eq!(waits(1000).collect::<Vec<_>>(), [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(backoff(Duration::from_millis(1000), u32::MAX), BACKOFF_MAX);
        assert_eq!(waits(10).next(), Some(10));
    }

    fn patience(enabled: bool, is_program: bool) -> Patience {
        let restart = McpRestart { enabled, max: 2, backoff: Duration::from_secs(1) };
        Patience { restart, is_program, failures: 0 }
    }

    /// M37, M answer 11: so many starts in vain, and no more; 60 s of health are a new beginning, 59 are none.
    #[test]
    fn a_server_is_given_up_after_its_starts_in_vain_and_health_is_a_new_beginning() {
        let waits = |patience: &mut Patience, times| (0..times).map(|_| patience.failed()).collect::<Vec<_>>();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let mut program = patience(true, true);
        assert_eq!(waits(&mut program, 3), [seconds(1), seconds(2), None]);
        program.was_up(Duration::from_secs(59));
        assert_eq!(program.failed(), None);
        program.was_up(HEALTHY_AFTER);
        assert_eq!(waits(&mut program, 3), [seconds(1), seconds(2), None]);
    }

    /// M37: an endpoint is tried on and on; nothing is tried again where the operator does not want it.
    #[test]
    fn an_endpoint_is_tried_on_and_what_may_not_restart_is_not() {
        let mut endpoint = patience(true, false);
        assert!((0..1000).all(|_| endpoint.failed().is_some()));
        for is_program in [true, false] {
            assert_eq!(patience(false, is_program).failed(), None);
        }
    }
}
