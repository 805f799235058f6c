//! What the metrics say of each provider, for the page and the API.

use super::{
    Metrics,
    metrics::{CONNECTED, COST, TOKENS, TURN},
    sessions::LOSSES,
};
use prometheus::proto::{Histogram, Metric};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Of one provider, since the engine started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProviderFigures {
    /// How long callers waited for its answers; the last band has no end.
    pub waited: Vec<Waited>,
    /// Agents that calls lost, by why; only what has happened.
    pub losses: BTreeMap<String, u64>,
    /// As it reports them, by kind; only what was used.
    pub tokens: BTreeMap<String, u64>,
    pub connected_seconds: f64,
    /// By currency.
    pub costs: BTreeMap<String, f64>,
}

/// Turns that were answered after more than the band before says and at most after so long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Waited {
    pub up_to_s: Option<f64>,
    pub turns: u64,
}

impl ProviderFigures {
    pub fn turns(&self) -> u64 {
        self.waited.iter().map(|band| band.turns).sum()
    }

    /// The end of the band in which so many of a hundred turns were answered; `None`: there were none, or it has no end.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let rank = (percent / 100.0 * self.turns() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let band = self.waited.iter().find(|band| {
            seen += band.turns;
            seen >= rank
        })?;
        band.up_to_s
    }
}

impl Metrics {
    /// Of every provider that has a name in the metrics.
    pub fn of_providers(&self) -> BTreeMap<String, ProviderFigures> {
        let mut all: BTreeMap<String, ProviderFigures> = BTreeMap::new();
        for family in self.registry().gather() {
            let name = family.name();
            for metric in family.get_metric() {
                let Some(provider) = label(metric, "provider") else { continue };
                let of = all.entry(provider.to_owned()).or_default();
                let counted = metric.get_counter().get_value();
                let kind = |key| label(metric, key).unwrap_or_default().to_owned();
                if name == TURN.name {
                    of.waited = bands(metric.get_histogram());
                } else if name == CONNECTED.name {
                    of.connected_seconds = counted;
                } else if counted <= 0.0 {
                    // What never happened is not told.
                } else if name == LOSSES.name {
                    of.losses.insert(kind("loss"), counted as u64);
                } else if name == TOKENS.name {
                    of.tokens.insert(kind("kind"), counted as u64);
                } else if name == COST.name {
                    of.costs.insert(kind("currency"), counted);
                }
            }
        }
        all
    }
}

pub(super) fn label<'a>(metric: &'a Metric, name: &str) -> Option<&'a str> {
    metric.get_label().iter().find(|label| label.name() == name).map(|label| label.value())
}

fn bands(histogram: &Histogram) -> Vec<Waited> {
    let mut before = 0;
    let buckets = histogram.get_bucket().iter().filter(|bucket| bucket.upper_bound().is_finite());
    let mut bands: Vec<Waited> = buckets
        .map(|bucket| {
            let turns = bucket.cumulative_count() - before;
            before = bucket.cumulative_count();
            Waited { up_to_s: Some(bucket.upper_bound()), turns }
        })
        .collect();
    bands.push(Waited { up_to_s: None, turns: histogram.get_sample_count() - before });
    bands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{AgentLoss, TurnTimes};
    use std::time::Duration;

    fn turn(ms: u64) -> TurnTimes {
        let zero = Duration::ZERO;
        TurnTimes {
            turn: 1,
            endpointing: Duration::from_millis(ms),
            thinking: zero,
            speaking: zero,
            playout: zero,
            tools: false,
            filled: false,
        }
    }

    #[test]
    fn each_provider_has_its_own_figures_and_what_never_happened_is_not_told() {
        let metrics = Metrics::new("0");
        metrics.know([], ["one", "two"]);
        for ms in [250, 250, 950, 30_000] {
            metrics.turn("one", &turn(ms));
        }
        metrics.sessions().lost("one", AgentLoss::Stalled);
        let all = metrics.of_providers();
        let one = &all["one"];
        assert_eq!((one.turns(), one.percentile(50.0), one.percentile(75.0)), (4, Some(0.3), Some(1.0)));
        assert_eq!(one.percentile(95.0), None, "longer than the longest band");
        assert_eq!(one.losses, [("stalled".to_owned(), 1)].into());
        assert_eq!((all["two"].turns(), all["two"].percentile(50.0), all["two"].losses.len()), (0, None, 0));
    }
}
