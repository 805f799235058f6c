//! How long tools took so far, so that callers are told of slow ones in time, and not of those that are
//! about to answer.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The runs that count, per tool: enough for a ninth decile, few enough to forget a bad day.
const RUNS_MAX: usize = 20;
/// Fewer say nothing.
const RUNS_MIN: usize = 3;
/// Names come from the configuration and from MCP servers, which have a few hundred tools at most.
const TOOLS_MAX: usize = 4_096;

/// Shared by all calls of the process.
#[derive(Debug, Default)]
pub struct Latencies {
    runs: Mutex<BTreeMap<String, VecDeque<Duration>>>,
}

/// What a tool usually takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usual {
    pub median: Duration,
    /// Nine of ten runs were over by then.
    pub mostly: Duration,
}

impl Latencies {
    /// One run that came to its end by itself.
    pub fn ran(&self, tool: &str, took: Duration) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if !runs.contains_key(tool) && runs.len() >= TOOLS_MAX {
            return;
        }
        let runs = runs.entry(tool.to_owned()).or_default();
        if runs.len() == RUNS_MAX {
            runs.pop_front();
        }
        runs.push_back(took);
    }

    /// `None` for a tool that has hardly run.
    pub fn usual(&self, tool: &str) -> Option<Usual> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sorted: Vec<Duration> = runs.get(tool).filter(|runs| runs.len() >= RUNS_MIN)?.iter().copied().collect();
        sorted.sort_unstable();
        let at = |tenths: usize| sorted[(sorted.len() - 1) * tenths / 10];
        Some(Usual { median: at(5), mostly: at(9) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_twenty_runs_tell_what_a_tool_usually_takes() {
        let latencies = Latencies::default();
        let ran = |ms: u64| latencies.ran("weather", Duration::from_millis(ms));
        (0..2).for_each(|_| ran(9_000));
        assert_eq!(latencies.usual("weather"), None, "two runs say nothing");
        (1..=20).for_each(|tenth| ran(tenth * 100));
        let usual = Usual { median: Duration::from_millis(1_000), mostly: Duration::from_millis(1_800) };
        assert_eq!(latencies.usual("weather"), Some(usual), "the oldest are forgotten");
        assert_eq!(latencies.usual("traffic"), None);
    }
}
