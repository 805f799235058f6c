//! What is counted about the sessions that carry calls on, and about providers that fail.

use super::{
    definition::Definition,
    names::{NamedCounters, NamedGauges},
};
use crate::call::{AgentLoss, Lapse};
use prometheus::Registry;

const ROLLOVERS: Definition = Definition::labelled(
    "offhook_session_rollovers_total",
    &["provider", "outcome"],
    "Sessions begun because the vendor's limit of the last one was near: took_over, failed, or dropped because it was \
     not wanted any more.",
);
const RECOVERIES: Definition = Definition::labelled(
    "offhook_session_recoveries_total",
    &["provider", "outcome"],
    "Sessions begun because the agent of a call was lost: took_over, failed, or dropped because it was not wanted any \
     more.",
);
pub(super) const LOSSES: Definition = Definition::labelled(
    "offhook_agent_losses_total",
    &["provider", "loss"],
    "Agents that calls lost, in the middle or before they were ready, by why; stalled: it took nothing more, or owed an \
     answer that did not come.",
);
const ODD_IDS: Definition = Definition::labelled(
    "offhook_agent_odd_ids_total",
    &["provider"],
    "Ids in what agents said that nothing bears: ends of answers that were not under way, calls taken back that were \
     not open. They change nothing.",
);
const ASKED_AGAIN: Definition = Definition::labelled(
    "offhook_agent_asked_again_total",
    &["provider", "answer"],
    "Answers that agents were asked for again, or for the rest of: empty, soundless (audio in which there was nothing to \
     hear), or broke_off after their first sound.",
);
const PASSED_OVER: Definition = Definition::labelled(
    "offhook_provider_passed_over_total",
    &["provider", "outcome"],
    "New calls that found their provider's breaker open: they began with a fallback, or tried it anyway for want of one.",
);
const BREAKER: Definition = Definition::labelled(
    "offhook_provider_breaker",
    &["provider"],
    "What calls may expect of a provider: 0 it is dialled, 1 one call tries it, 2 it failed and is left alone.",
);

/// What became of a session that was to carry a call on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuccessorEnd {
    TookOver,
    Failed,
    Dropped,
}

impl SuccessorEnd {
    const LABELS: [&'static str; 3] = ["took_over", "failed", "dropped"];
}

/// In the order of [`AgentLoss`].
const LOSS_LABELS: [&str; AgentLoss::ALL.len()] = {
    let mut labels = [""; AgentLoss::ALL.len()];
    let mut at = 0;
    while at < labels.len() {
        labels[AgentLoss::ALL[at] as usize] = AgentLoss::ALL[at].label();
        at += 1;
    }
    labels
};

const PASSED_OVER_LABELS: [&str; 2] = ["fallback", "tried_anyway"];

pub struct SessionMetrics {
    rollovers: NamedCounters,
    recoveries: NamedCounters,
    losses: NamedCounters,
    odd_ids: NamedCounters,
    asked_again: NamedCounters,
    passed_over: NamedCounters,
    breakers: NamedGauges,
}

impl SessionMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let counters =
            |definition: &Definition, values| NamedCounters::new(definition.register_counters(registry), values);
        Self {
            rollovers: counters(&ROLLOVERS, &SuccessorEnd::LABELS),
            recoveries: counters(&RECOVERIES, &SuccessorEnd::LABELS),
            losses: counters(&LOSSES, &LOSS_LABELS),
            odd_ids: counters(&ODD_IDS, &[]),
            asked_again: counters(&ASKED_AGAIN, &Lapse::LABELS),
            passed_over: counters(&PASSED_OVER, &PASSED_OVER_LABELS),
            breakers: NamedGauges::new(BREAKER.register_int_gauges(registry)),
        }
    }

    pub(super) fn know<'a>(&self, providers: impl IntoIterator<Item = &'a str> + Clone) {
        let counters =
            [&self.rollovers, &self.recoveries, &self.losses, &self.odd_ids, &self.asked_again, &self.passed_over];
        counters.into_iter().for_each(|counters| counters.know(providers.clone()));
        self.breakers.know(providers);
    }

    pub fn rollover(&self, provider: &str, end: SuccessorEnd) {
        self.rollovers.add(provider, end as usize, 1);
    }

    pub fn recovery(&self, provider: &str, end: SuccessorEnd) {
        self.recoveries.add(provider, end as usize, 1);
    }

    pub fn lost(&self, provider: &str, loss: AgentLoss) {
        self.losses.add(provider, loss as usize, 1);
    }

    pub fn odd_id(&self, provider: &str) {
        self.odd_ids.add(provider, 0, 1);
    }

    pub fn asked_again(&self, provider: &str, lapse: Lapse) {
        self.asked_again.add(provider, lapse as usize, 1);
    }

    /// `fallback`: there was one that could be dialled instead.
    pub fn passed_over(&self, provider: &str, fallback: bool) {
        self.passed_over.add(provider, usize::from(!fallback), 1);
    }

    pub fn breaker(&self, provider: &str, value: i64) {
        self.breakers.set(provider, value);
    }
}
