//! Label values that come from the configuration: bounded, and zero before they first count.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
};

/// Stands in for every name that the configuration does not know (a tool that the model made up).
const UNKNOWN: &str = "unknown";

/// Names one metric can tell apart in the life of the process; reloads add to them. Far above what
/// one engine is configured with, and low enough that a reload in a loop cannot fill the memory.
const NAMES_MAX: usize = 128;

/// Counters by configured name × closed value.
pub(super) struct NamedCounters {
    counters: IntCounterVec,
    values: &'static [&'static str],
    known: RwLock<BTreeMap<String, Vec<IntCounter>>>,
}

impl NamedCounters {
    /// `counters` has two labels: the name, and one of `values`.
    pub(super) fn new(counters: IntCounterVec, values: &'static [&'static str]) -> Self {
        let named = Self { counters, values, known: RwLock::default() };
        named.know([UNKNOWN]);
        named
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
            let children = self.values.iter().map(|value| self.counters.with_label_values(&[name, value]));
            known.insert(name.to_owned(), children.collect());
        }
    }

    /// `value` is an index into the values given at the start.
    pub(super) fn add(&self, name: &str, value: usize, by: u64) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let children = known.get(name).or_else(|| known.get(UNKNOWN));
        if let Some(counter) = children.and_then(|children| children.get(value)) {
            counter.inc_by(by);
        }
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
