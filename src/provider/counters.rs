//! What is counted about all sessions.

use super::PROVIDERS;
use crate::call::{AgentLoss, Noise};
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

/// Counters of one process, registered once. Labels are closed sets: the kinds in
/// [`PROVIDERS`](super::PROVIDERS), the labels of `AgentLoss` (and `ready`), the labels of `Noise`.
#[derive(Debug, Clone)]
pub struct ProviderCounters {
    /// Attempts to set up a session, by how they came out.
    pub dials: IntCounterVec,
    /// Oddities that sessions survived.
    pub noise: IntCounterVec,
    /// Pieces of caller audio, 20 ms each as a rule, that did not fit into the pre-roll.
    pub preroll_dropped: IntCounter,
}

impl ProviderCounters {
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let dials = IntCounterVec::new(
            Opts::new("offhook_provider_dials_total", "Attempts to set up a session with a provider, by outcome"),
            &["provider", "outcome"],
        )?;
        let noise = IntCounterVec::new(
            Opts::new("offhook_provider_noise_total", "Oddities that a provider session survived, by kind"),
            &["provider", "kind"],
        )?;
        let preroll_dropped = IntCounter::new(
            "offhook_provider_preroll_dropped_frames_total",
            "Caller audio dropped because the provider was not ready in time, in frames",
        )?;
        // Every child shows as zero from the start, so that rates work from the first event.
        for row in PROVIDERS {
            let outcomes = AgentLoss::ALL.map(AgentLoss::label).into_iter().chain(["ready"]);
            outcomes.for_each(|outcome| drop(dials.with_label_values(&[row.kind, outcome])));
            Noise::ALL.iter().for_each(|kind| drop(noise.with_label_values(&[row.kind, kind.label()])));
        }
        registry.register(Box::new(dials.clone()))?;
        registry.register(Box::new(noise.clone()))?;
        registry.register(Box::new(preroll_dropped.clone()))?;
        Ok(Self { dials, noise, preroll_dropped })
    }
}
