//! What providers are paid for: tokens, connected time, and the cost where there is a price.

use super::{
    metrics::{CONNECTED, COST, TOKENS},
    names::{NamedCounters, NamedSums},
};
use crate::call::Usage;
use prometheus::{CounterVec, Registry};
use std::{
    collections::BTreeSet,
    sync::{PoisonError, RwLock},
};

/// Providers are bounded where they are known; an operator pays in a few currencies.
const PRICED_MAX: usize = 128;

pub(super) struct UsageMetrics {
    tokens: NamedCounters,
    connected: NamedSums,
    costs: CounterVec,
    /// Pairs of provider and currency that are labels of `costs`.
    priced: RwLock<BTreeSet<(String, String)>>,
}

impl UsageMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            tokens: NamedCounters::new(TOKENS.register_counters(registry), &Usage::TOKEN_KINDS),
            connected: NamedSums::alone(CONNECTED.register_sums(registry)),
            costs: COST.register_sums(registry),
            priced: RwLock::default(),
        }
    }

    pub(super) fn know<'a>(&self, providers: impl Iterator<Item = &'a str> + Clone) {
        self.tokens.know(providers.clone());
        self.connected.know(providers);
    }

    pub(super) fn know_price(&self, provider: &str, currency: &str) {
        let mut priced = self.priced.write().unwrap_or_else(PoisonError::into_inner);
        let pair = (provider.to_owned(), currency.to_owned());
        if priced.len() < PRICED_MAX && priced.insert(pair) {
            // Made now, so that it shows as zero.
            let _ = self.costs.with_label_values(&[provider, currency]);
        }
    }

    pub(super) fn used(&self, provider: &str, usage: &Usage) {
        for (kind, tokens) in usage.tokens().into_iter().enumerate() {
            self.tokens.add(provider, kind, tokens);
        }
        self.connected.with(provider, 0, |sum| sum.inc_by(usage.connected.as_secs_f64()));
    }

    pub(super) fn cost(&self, provider: &str, currency: &str, amount: f64) {
        let priced = self.priced.read().unwrap_or_else(PoisonError::into_inner);
        // A cost can only be negative or infinite by a fault of ours, and a counter would panic.
        if priced.contains(&(provider.to_owned(), currency.to_owned())) && amount.is_finite() && amount >= 0.0 {
            self.costs.with_label_values(&[provider, currency]).inc_by(amount);
        }
    }
}
