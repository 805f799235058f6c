//! Calls that stay up together: what their callers heard, and what the engine grew by meanwhile.

use super::{MEGABYTE, Outcome, grown, is_theirs, ways::Ends};
use crate::report::Bars;
use std::time::Duration;

/// While they stay nothing new begins: a leak of ten bytes a second in each of 100 calls comes to as much in an hour.
const GROWTH_WITHIN_STEADY_MAX: f64 = 4.0 * MEGABYTE;

/// Calls that stayed.
pub struct Steady {
    /// How long each was to be up, and what its caller met.
    pub outcomes: Vec<(Duration, Outcome)>,
    /// Of the engine, once a minute, in bytes.
    pub memory: Vec<u64>,
    /// Slots that the engine gave up.
    pub missed: f64,
}

impl Steady {
    pub fn report(&self, bars: &mut Bars) {
        const PACKETS_A_SECOND: f64 = 50.0;
        /// The load has clocks of its own, which lose a packet now and then.
        const HEARD_SHARE: f64 = 0.995;
        /// Of the slots, as in every bench.
        const MISSED_SHARE: f64 = 0.001;
        let calls = self.outcomes.len();
        let slots: f64 = self.outcomes.iter().map(|(stayed, _)| stayed.as_secs_f64() * PACKETS_A_SECOND).sum();
        // Without a second at the beginning and one at the end.
        let heard = |stayed: &Duration, outcome: &Outcome| {
            f64::from(outcome.loud) / ((stayed.as_secs_f64() - 2.0).max(1.0) * PACKETS_A_SECOND)
        };
        let whole = |(stayed, outcome): &&(Duration, Outcome)| {
            is_theirs(Ends::ByCaller, outcome) && heard(stayed, outcome) >= HEARD_SHARE
        };
        let kept = self.outcomes.iter().filter(whole).count();
        let least = self.outcomes.iter().map(|(stayed, outcome)| heard(stayed, outcome)).fold(1.0, f64::min);
        let packets: u64 = self.outcomes.iter().map(|(_, outcome)| u64::from(outcome.packets)).sum();
        println!(
            "\n{calls} calls that stayed: {packets} packets heard, by none less than {:.3} % of its own; \
             {} slots given up by the engine",
            least * 100.0,
            self.missed
        );
        let value = format!("{kept} of {calls}");
        bars.bar("calls heard to their end, at least 99.5 % of their packets", &value, "all", kept == calls, false);
        let missed = self.missed / slots;
        let value = format!("{:.4} %", missed * 100.0);
        bars.bar("20 ms slots given up by the engine", &value, "0.1 %", missed <= MISSED_SHARE, false);
        if let [first, .., last] = self.memory[..] {
            let name = "memory gained from the first minute to the last";
            grown(name, [first, last], GROWTH_WITHIN_STEADY_MAX, bars);
        }
    }
}
