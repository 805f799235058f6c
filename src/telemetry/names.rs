//! Label values that come from the configuration: bounded, and zero before they first count.

use prometheus::{
    CounterVec, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec,
    core::{MetricVec, MetricVecBuilder},
};
use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
};

/// Stands in for every name that the configuration does not know (a tool that the model made up).
const UNKNOWN: &str = "unknown";

/// Names one metric can tell apart in the life of the process; reloads add to them. Far above what
/// one engine is configured with, and low enough that a reload in a loop cannot fill the memory.
const NAMES_MAX: usize = 128;

pub(super) type NamedCounters = Named<<IntCounterVec as Vector>::Builder>;
pub(super) type NamedSums = Named<<CounterVec as Vector>::Builder>;
pub(super) type NamedHistograms = Named<<HistogramVec as Vector>::Builder>;

/// The way from a vector of metrics to its builder, which the library does not name.
pub(super) trait Vector {
    type Builder: MetricVecBuilder;
}

impl<B: MetricVecBuilder> Vector for MetricVec<B> {
    type Builder = B;
}

/// Metrics by configured name, or by configured name × closed value.
pub(super) struct Named<B: MetricVecBuilder> {
    metrics: MetricVec<B>,
    values: &'static [&'static str],
    known: RwLock<BTreeMap<String, Vec<B::M>>>,
}

impl<B: MetricVecBuilder> Named<B> {
    /// `metrics` has two labels: the name, and one of `values`.
    pub(super) fn new(metrics: MetricVec<B>, values: &'static [&'static str]) -> Self {
        let named = Self { metrics, values, known: RwLock::default() };
        named.know([UNKNOWN]);
        named
    }

    /// `metrics` has one label, the name.
    pub(super) fn alone(metrics: MetricVec<B>) -> Self {
        Self::new(metrics, &[])
    }

    pub(super) fn know<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if known.contains_key(name) {
                continue;
            }
            if known.len() >= NAMES_MAX {
                tracing::warn!(limit = NAMES_MAX, "too many names for one metric; the rest count as unknown");
                return;
            }
            let children = match self.values {
                [] => vec![self.metrics.with_label_values(&[name])],
                values => values.iter().map(|value| self.metrics.with_label_values(&[name, value])).collect(),
            };
            known.insert(name.to_owned(), children);
        }
    }

    /// `value` is an index into the values given at the start; 0 where there are none.
    pub(super) fn with(&self, name: &str, value: usize, change: impl FnOnce(&B::M)) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let children = known.get(name).or_else(|| known.get(UNKNOWN));
        if let Some(child) = children.and_then(|children| children.get(value)) {
            change(child);
        }
    }
}

impl NamedCounters {
    pub(super) fn add(&self, name: &str, value: usize, by: u64) {
        self.with(name, value, |counter| counter.inc_by(by));
    }
}

/// Gauges by configured name.
pub(super) struct NamedGauges {
    gauges: IntGaugeVec,
    known: RwLock<BTreeMap<String, IntGauge>>,
}

impl NamedGauges {
    /// `gauges` has one label.
    pub(super) fn new(gauges: IntGaugeVec) -> Self {
        Self { gauges, known: RwLock::default() }
    }

    pub(super) fn know<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if known.len() < NAMES_MAX && !known.contains_key(name) {
                known.insert(name.to_owned(), self.gauges.with_label_values(&[name]));
            }
        }
    }

    /// A name that is not known is left out.
    pub(super) fn set(&self, name: &str, value: i64) {
        if let Some(gauge) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            gauge.set(value);
        }
    }
}
