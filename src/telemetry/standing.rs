//! What holds at this moment; the engine looks it up at each scrape.

use super::definition::Definition;
use prometheus::{IntGauge, IntGaugeVec, Registry};
use std::thread::available_parallelism;

const TASKS: Definition =
    Definition::new("offhook_tasks", "Tasks alive in the engine; the same before and after a call.");
const OPEN: Definition = Definition::labelled(
    "offhook_media_open",
    &["kind"],
    "What calls hold open: AudioSocket legs, connections that have not named their call, calls that wait for their \
     connection, RTP ports, WebSocket legs.",
);
const READY: Definition = Definition::labelled(
    "offhook_ready",
    &["check"],
    "Whether a new call would be taken and answered well, as on `/ready`: 1 or 0 for each thing that it takes.",
);
const CALLS_LIMIT: Definition =
    Definition::new("offhook_calls_limit", "Calls that are taken at once: `limits.calls` of the configuration.");
const PROCESSORS: Definition =
    Definition::new("offhook_processors", "Processors that the engine may use, its control group's quota included.");

pub(super) struct Standing {
    tasks: IntGauge,
    open: IntGaugeVec,
    ready: IntGaugeVec,
    calls_limit: IntGauge,
}

impl Standing {
    pub(super) fn new(registry: &Registry) -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        PROCESSORS.register_int_gauge(registry).set(whole(processors));
        Self {
            tasks: TASKS.register_int_gauge(registry),
            open: OPEN.register_int_gauges(registry),
            ready: READY.register_int_gauges(registry),
            calls_limit: CALLS_LIMIT.register_int_gauge(registry),
        }
    }

    pub(super) fn open(&self, tasks: usize, media: [(&'static str, usize); 5]) {
        self.tasks.set(whole(tasks));
        for (kind, count) in media {
            self.open.with_label_values(&[kind]).set(whole(count));
        }
    }

    pub(super) fn ready(&self, checks: [(&'static str, bool); 4]) {
        for (check, ok) in checks {
            self.ready.with_label_values(&[check]).set(ok.into());
        }
    }

    pub(super) fn calls_limit(&self, calls: usize) {
        self.calls_limit.set(whole(calls));
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
