//! The metrics of all recordings of one process.

use crate::telemetry::Definition;
use prometheus::{CounterVec, IntCounter, IntCounterVec, IntGauge, Registry};

const MADE: Definition = Definition::labelled(
    "offhook_recordings_total",
    &["outcome"],
    "Recordings of calls that have ended: whole, with silence in it where sound was lost (incomplete), or deleted during \
     the call because the caller or somebody else asked for it (discarded).",
);
const LOST: Definition = Definition::labelled(
    "offhook_recording_lost_seconds_total",
    &["why"],
    "Seconds of calls that are silent in their recordings: the disk did not take them (disk), it was so slow that no more \
     could wait (queue), or the file had reached its greatest length (length); and the caller's alone where the phone's \
     clock is faster than the engine's (clock).",
);
const BYTES: Definition = Definition::new("offhook_recording_bytes_total", "Bytes written to recordings.");
const FILES: Definition = Definition::new("offhook_recording_files", "Recordings that are being written.");
const WAITING: Definition = Definition::new(
    "offhook_recording_parts_waiting",
    "Parts of recordings, of a second each, that wait for the disk.",
);
const EXPIRED: Definition = Definition::new(
    "offhook_recordings_expired_total",
    "Recordings deleted because they were older than `records.recordings_keep_days`.",
);

#[derive(Debug, Clone)]
pub struct RecordingCounters {
    pub(super) made: IntCounterVec,
    pub(super) lost: CounterVec,
    pub(super) bytes: IntCounter,
    pub(super) files: IntGauge,
    pub(super) waiting: IntGauge,
    pub(in crate::records) expired: IntCounter,
}

/// Why sound is not in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lost {
    Disk,
    Queue,
    Length,
    Clock,
}

impl Lost {
    const ALL: [Self; 4] = [Self::Disk, Self::Queue, Self::Length, Self::Clock];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Queue => "queue",
            Self::Length => "length",
            Self::Clock => "clock",
        }
    }
}

impl RecordingCounters {
    pub fn new(registry: &Registry) -> Self {
        let (made, lost) = (MADE.register_counters(registry), LOST.register_sums(registry));
        for outcome in ["whole", "incomplete", "discarded"] {
            made.with_label_values(&[outcome]);
        }
        for why in Lost::ALL {
            lost.with_label_values(&[why.label()]);
        }
        Self {
            made,
            lost,
            bytes: BYTES.register_counter(registry),
            files: FILES.register_int_gauge(registry),
            waiting: WAITING.register_int_gauge(registry),
            expired: EXPIRED.register_counter(registry),
        }
    }

    pub(super) fn made(&self, outcome: &'static str) {
        self.made.with_label_values(&[outcome]).inc();
    }

    pub(super) fn lost(&self, why: Lost, seconds: f64) {
        self.lost.with_label_values(&[why.label()]).inc_by(seconds);
    }
}
