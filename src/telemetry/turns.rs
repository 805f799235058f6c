//! The latency that callers hear, turn by turn and stage by stage.

use super::{
    metrics::{TURN, TURN_STAGE},
    names::NamedHistograms,
};
use crate::call::TurnTimes;
use prometheus::Registry;

/// People leave about 0.2 s between turns and grow uneasy past one second; past four they say hello.
const TURN_BUCKETS: &[f64] =
    &[0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0];
/// From one slot of playout to a provider that thinks for as long as a turn may take.
const STAGE_BUCKETS: &[f64] =
    &[0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0];

/// In the order in which they follow each other.
const STAGES: [&str; 4] = ["endpointing", "thinking", "speaking", "playout"];

pub(super) struct TurnMetrics {
    latency: NamedHistograms,
    stages: NamedHistograms,
}

impl TurnMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            latency: NamedHistograms::alone(TURN.register_histograms(registry, TURN_BUCKETS)),
            stages: NamedHistograms::new(TURN_STAGE.register_histograms(registry, STAGE_BUCKETS), &STAGES),
        }
    }

    pub(super) fn know<'a>(&self, providers: impl Iterator<Item = &'a str> + Clone) {
        self.latency.know(providers.clone());
        self.stages.know(providers);
    }

    pub(super) fn answered(&self, provider: &str, times: &TurnTimes) {
        self.latency.with(provider, 0, |latency| latency.observe(times.total().as_secs_f64()));
        let stages = [times.endpointing, times.thinking, times.speaking, times.playout];
        for (stage, took) in stages.into_iter().enumerate() {
            self.stages.with(provider, stage, |latency| latency.observe(took.as_secs_f64()));
        }
    }
}
