//! What a metric is called, counts and means, written once and as a constant.

use prometheus::{
    CounterVec, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, core::Collector,
};

/// Name, labels and help of one metric. Each `register_…` makes the metric and puts it into the
/// registry; a name that is registered twice is a fault of the program and panics at start.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// `offhook_<what>_<unit>`, and `_total` for counters.
    pub name: &'static str,
    /// Closed or bounded sets only.
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Definition {
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, labels: &[], help }
    }

    pub const fn labelled(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, labels, help }
    }

    pub fn register_counter(&self, registry: &Registry) -> IntCounter {
        self.register(registry, IntCounter::new(self.name, self.help))
    }

    /// Make every child at once, at zero: a rate needs the zero before the first event, and the
    /// reference page shows only metrics that have children.
    pub fn register_counters(&self, registry: &Registry) -> IntCounterVec {
        self.register(registry, IntCounterVec::new(Opts::new(self.name, self.help), self.labels))
    }

    /// Like [`Self::register_counters`], for sums that are not whole.
    pub fn register_sums(&self, registry: &Registry) -> CounterVec {
        self.register(registry, CounterVec::new(Opts::new(self.name, self.help), self.labels))
    }

    pub fn register_int_gauge(&self, registry: &Registry) -> IntGauge {
        self.register(registry, IntGauge::new(self.name, self.help))
    }

    pub fn register_int_gauges(&self, registry: &Registry) -> IntGaugeVec {
        self.register(registry, IntGaugeVec::new(Opts::new(self.name, self.help), self.labels))
    }

    pub fn register_gauge(&self, registry: &Registry) -> Gauge {
        self.register(registry, Gauge::new(self.name, self.help))
    }

    /// `buckets`: upper bounds in seconds, ascending.
    pub fn register_histogram(&self, registry: &Registry, buckets: &[f64]) -> Histogram {
        let options = HistogramOpts::new(self.name, self.help).buckets(buckets.to_vec());
        self.register(registry, Histogram::with_opts(options))
    }

    pub fn register_histograms(&self, registry: &Registry, buckets: &[f64]) -> HistogramVec {
        let options = HistogramOpts::new(self.name, self.help).buckets(buckets.to_vec());
        self.register(registry, HistogramVec::new(options, self.labels))
    }

    fn register<M: Collector + Clone + 'static>(&self, registry: &Registry, metric: prometheus::Result<M>) -> M {
        let metric = metric.expect("names, labels and buckets are constants that the tests have built");
        registry.register(Box::new(metric.clone())).expect("each definition is registered once per registry");
        metric
    }
}
