//! The services of one stage in order of preference: the first that is healthy is asked.

use crate::remote::{Fault, health::Health};
use std::{collections::VecDeque, sync::Arc};

/// Services that can stand in for each other, with the names they have in the configuration.
pub(super) struct Ranks<T: ?Sized> {
    /// `stt`, `llm` or `voices`.
    section: &'static str,
    ranks: Vec<(String, Arc<T>)>,
    health: Arc<Health>,
}

impl<T: ?Sized> Ranks<T> {
    pub fn new(section: &'static str, ranks: Vec<(String, Arc<T>)>, health: Arc<Health>) -> Self {
        Self { section, ranks, health }
    }

    /// Those to be asked, one after the other.
    pub fn to_ask(&self) -> ToAsk<T> {
        let rank = |(name, service): &(String, Arc<T>)| Rank {
            service: Arc::clone(service),
            place: format!("{}.{name}", self.section),
            health: Arc::clone(&self.health),
        };
        ToAsk { ranks: self.ranks.iter().map(rank).collect(), asked: false }
    }
}

/// Services in their order, without those that rest when it is their turn. If all of them rest, the last one is asked all
/// the same: a caller waits, and nobody else is there.
pub(super) struct ToAsk<T: ?Sized> {
    ranks: VecDeque<Rank<T>>,
    asked: bool,
}

impl<T: ?Sized> Iterator for ToAsk<T> {
    type Item = Rank<T>;

    fn next(&mut self) -> Option<Rank<T>> {
        while let Some(rank) = self.ranks.pop_front() {
            let nobody_else = self.ranks.is_empty() && !self.asked;
            if rank.health.admits(&rank.place) || nobody_else {
                self.asked = true;
                return Some(rank);
            }
        }
        None
    }
}

/// One that is asked.
pub(super) struct Rank<T: ?Sized> {
    pub service: Arc<T>,
    place: String,
    health: Arc<Health>,
}

impl<T: ?Sized> Rank<T> {
    pub fn worked(&self) {
        self.health.spoke(&self.place);
        self.health.worked(&self.place);
    }

    pub fn failed(&self, fault: &Fault) {
        tracing::warn!(service = self.place, fault = fault.label(), "{fault}");
        self.health.failed(&self.place, fault.loss());
    }
}
