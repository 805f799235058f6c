//! What the control side counts.

use super::Operation;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// Counters of the control side of Asterisk. All labels are closed sets and all children exist
/// from the start, so that a dashboard shows zero rather than nothing.
#[derive(Debug, Clone)]
pub struct AriCounters {
    /// Ends of the events socket (failed attempts included), by reason.
    pub(crate) reconnects: IntCounterVec,
    /// Events that matter to a call, by Asterisk's names.
    pub(crate) events: IntCounterVec,
    pub(crate) events_malformed: IntCounter,
    pub(crate) requests: IntCounterVec,
    pub(crate) requests_failed: IntCounterVec,
    pub(crate) orphans_removed: IntCounterVec,
    pub(crate) overflow: IntCounterVec,
    /// Callers who were handed on and are still connected.
    pub(crate) handed_on: IntGauge,
    /// Channels that a telephone was forwarded to beyond what one may be.
    pub(crate) forwards_refused: IntCounter,
    /// Clean-ups that did not finish in time.
    pub(crate) teardown_overrun: IntCounter,
}

/// The bounded queues of this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// New calls the engine has not looked at.
    Arrivals,
    /// Keys of one call.
    Digits,
    /// Removals and refusals under way.
    Chores,
    /// Callers who were handed on.
    Pairs,
}

impl Queue {
    pub(crate) const ALL: [Self; 4] = [Self::Arrivals, Self::Digits, Self::Chores, Self::Pairs];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Arrivals => "arrivals",
            Self::Digits => "digits",
            Self::Chores => "chores",
            Self::Pairs => "pairs",
        }
    }
}

/// What can be left over from an earlier process or a broken set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Orphan {
    Channel,
    Bridge,
}

impl Orphan {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Bridge => "bridge",
        }
    }
}

impl AriCounters {
    /// Ends of the events socket, failed attempts included.
    pub fn losses(&self) -> u64 {
        crate::asterisk::events::Loss::ALL
            .iter()
            .map(|loss| self.reconnects.with_label_values(&[loss.label()]).get())
            .sum()
    }

    /// # Errors
    /// When one of the names is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let vec = |name, help, label, values: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), &[label])?;
            for value in values {
                counter.with_label_values(&[*value]);
            }
            registry.register(Box::new(counter.clone()))?;
            prometheus::Result::Ok(counter)
        };
        let one = |name, help| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            prometheus::Result::Ok(counter)
        };
        Ok(Self {
            reconnects: vec(
                "offhook_ari_reconnects_total",
                "Ends of the ARI events socket, failed attempts included, by reason",
                "reason",
                &crate::asterisk::events::Loss::ALL.map(|loss| loss.label()),
            )?,
            events: vec(
                "offhook_ari_events_total",
                "ARI events that matter to a call, by kind; Ringing and Busy come in several events of Asterisk's",
                "event",
                &crate::asterisk::events::EVENTS,
            )?,
            events_malformed: one("offhook_ari_events_malformed_total", "ARI events that could not be read")?,
            requests: vec(
                "offhook_ari_requests_total",
                "ARI requests, by operation; one that is sent a second time counts once",
                "operation",
                &Operation::ALL.map(Operation::label),
            )?,
            requests_failed: vec(
                "offhook_ari_requests_failed_total",
                "ARI requests that did not do what was asked, by operation",
                "operation",
                &Operation::ALL.map(Operation::label),
            )?,
            orphans_removed: vec(
                "offhook_ari_orphans_removed_total",
                "Channels and bridges of ours that belonged to no call and were removed",
                "kind",
                &[Orphan::Channel, Orphan::Bridge].map(Orphan::label),
            )?,
            overflow: vec(
                "offhook_ari_overflow_total",
                "Entries that found a queue of the ARI side full, by queue",
                "queue",
                &Queue::ALL.map(Queue::label),
            )?,
            handed_on: {
                let gauge = IntGauge::new(
                    "offhook_ari_handed_on",
                    "Callers who were connected with a dialled destination and still are",
                )?;
                registry.register(Box::new(gauge.clone()))?;
                gauge
            },
            forwards_refused: one(
                "offhook_ari_forwards_refused_total",
                "Channels that a telephone of a destination was forwarded to, beyond the 20 that one may have",
            )?,
            teardown_overrun: one(
                "offhook_ari_teardown_overrun_total",
                "Clean-ups of a call that Asterisk did not finish in time",
            )?,
        })
    }

    pub(crate) fn overflowed(&self, queue: Queue) {
        self.overflow.with_label_values(&[queue.label()]).inc();
    }

    pub(crate) fn orphan_removed(&self, kind: Orphan) {
        self.orphans_removed.with_label_values(&[kind.label()]).inc();
    }
}
