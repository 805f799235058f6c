//! The metrics of all records of one process.

use super::RecordingCounters;
use crate::telemetry::Definition;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Registry};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const KEPT: Definition = Definition::new("offhook_records_total", "Records of ended calls that the archive has taken.");
const LOST: Definition = Definition::labelled(
    "offhook_records_lost_total",
    &["why"],
    "Records of ended calls that were lost: more were waiting for the disk than are held in memory (full), the engine \
     stopped before the disk took them (stopped), or the spool's file could not be read again (unreadable; it is kept).",
);
const RETRIES: Definition = Definition::labelled(
    "offhook_records_retries_total",
    &["step"],
    "How often the spool's disk (spool) or the archive (archive) did not take records and was asked again, or what was \
     deleted stayed in the archive's journal because somebody was reading (journal).",
);
const BEGINNINGS_LOST: Definition = Definition::labelled(
    "offhook_record_beginnings_lost_total",
    &["why"],
    "Calls whose beginning was not written down, so that they have no record if the engine is killed meanwhile: too much was \
     waiting for the disk (full), the disk did not take it (disk), or the engine stopped before it did (stopped).",
);
const WAITING: Definition = Definition::new(
    "offhook_records_waiting",
    "Records that the archive has not taken yet: in the spool, or in memory until the spool's disk takes them.",
);
const CLOCK_DOUBTED: Definition = Definition::new(
    "offhook_records_clock_doubted",
    "1 where nothing is deleted for its age, because the clock is far ahead of what it said before.",
);
const EXPIRED: Definition = Definition::new(
    "offhook_records_expired_total",
    "Records deleted because they were older than `records.keep_days`.",
);

/// Where records wait, by number.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub in_memory: i64,
    pub in_spool: i64,
}

/// Of all records of one process.
#[derive(Debug, Clone)]
pub struct RecordCounters {
    pub(super) kept: IntCounter,
    pub(super) lost: IntCounterVec,
    pub(super) beginnings_lost: IntCounterVec,
    pub(super) retries: IntCounterVec,
    pub(super) waiting: IntGauge,
    waits: Arc<Mutex<Waiting>>,
    pub(super) clock_doubted: IntGauge,
    /// Held while a record comes into the spool or those in it are counted: else one is counted twice, or never.
    counting: Arc<Mutex<()>>,
    pub(super) expired: IntCounter,
    pub(super) recordings: RecordingCounters,
}

impl RecordCounters {
    pub fn new(registry: &Registry) -> Self {
        let (lost, retries) = (LOST.register_counters(registry), RETRIES.register_counters(registry));
        for why in ["full", "stopped", "unreadable"] {
            lost.with_label_values(&[why]);
        }
        let beginnings_lost = BEGINNINGS_LOST.register_counters(registry);
        for why in ["full", "disk", "stopped"] {
            beginnings_lost.with_label_values(&[why]);
        }
        for step in ["spool", "archive", "journal"] {
            retries.with_label_values(&[step]);
        }
        Self {
            kept: KEPT.register_counter(registry),
            lost,
            beginnings_lost,
            retries,
            waiting: WAITING.register_int_gauge(registry),
            waits: Arc::default(),
            clock_doubted: CLOCK_DOUBTED.register_int_gauge(registry),
            counting: Arc::default(),
            expired: EXPIRED.register_counter(registry),
            recordings: RecordingCounters::new(registry),
        }
    }

    /// Changes how many wait. Nothing may wait in `change`: it is called where calls end.
    pub(super) fn wait(&self, change: impl FnOnce(&mut Waiting)) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut waits);
        self.waiting.set(waits.in_memory + waits.in_spool);
    }

    /// Until it is dropped, nobody else changes how many are in the spool.
    pub(super) fn counting(&self) -> MutexGuard<'_, ()> {
        self.counting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lost(&self, why: &'static str, count: usize) {
        self.lost.with_label_values(&[why]).inc_by(count as u64);
    }

    pub(super) fn lost_beginnings(&self, why: &'static str, count: usize) {
        self.beginnings_lost.with_label_values(&[why]).inc_by(count as u64);
    }

    pub(super) fn again(&self, step: &'static str) {
        self.retries.with_label_values(&[step]).inc();
    }
}
