//! The services of one stage in order of preference: the first that is healthy is asked.

use crate::remote::{Fault, wards::Ward};
use std::{collections::VecDeque, ops::Deref, sync::Arc, time::Duration};
use tokio::time::sleep;

/// Services that can stand in for each other.
pub(super) struct Ranks<T: ?Sized>(Vec<Rank<T>>);

/// One of them.
pub(super) struct Rank<T: ?Sized> {
    pub service: Arc<T>,
    /// Among the others.
    pub place: usize,
    ward: Ward,
    /// How often it may be asked again for the same …
    retries: u32,
    /// … and how often still.
    left: u32,
}

impl<T: ?Sized> Ranks<T> {
    pub fn new(mut ranks: Vec<Rank<T>>) -> Self {
        ranks.iter_mut().enumerate().for_each(|(place, rank)| rank.place = place);
        Self(ranks)
    }

    pub fn services(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|rank| &*rank.service)
    }

    /// How long a caller waits for one of them when each that is asked says nothing. Each is asked once then, and `least` of
    /// them at least: the same one again where there is no other.
    pub fn silence_max(&self, least: usize, of: impl Fn(&T) -> Duration) -> Duration {
        let all = self.0.iter().cycle().take(self.0.len().max(least));
        all.map(|rank| of(&rank.service)).sum()
    }

    /// The one that is asked first when all are healthy.
    pub fn first(&self) -> Option<&Rank<T>> {
        self.0.first()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Those to be asked, one after the other.
    pub fn to_ask(&self) -> ToAsk<T> {
        self.to_ask_from(0)
    }

    /// The same beginning with the one at this place; those before it come last.
    pub fn to_ask_from(&self, place: usize) -> ToAsk<T> {
        let (before, from) = self.0.split_at(place.min(self.0.len()));
        ToAsk { ranks: from.iter().chain(before).cloned().collect(), asked: false, again: None }
    }
}

/// Services in their order, without those that rest when it is their turn. If all of them rest, the last one is asked all
/// the same: a caller waits, and nobody else is there.
pub(super) struct ToAsk<T: ?Sized> {
    ranks: VecDeque<Rank<T>>,
    asked: bool,
    /// The one that was asked last, if it is to be asked again.
    again: Option<Rank<T>>,
}

impl<T: ?Sized> Iterator for ToAsk<T> {
    type Item = Rank<T>;

    fn next(&mut self) -> Option<Rank<T>> {
        if let Some(again) = self.again.take() {
            return Some(again);
        }
        while let Some(rank) = self.ranks.pop_front() {
            let nobody_else = self.ranks.is_empty() && !self.asked;
            if rank.admits() || nobody_else {
                self.asked = true;
                return Some(rank);
            }
        }
        None
    }
}

impl<T: ?Sized> ToAsk<T> {
    /// How many come after the one that is asked now.
    pub fn others(&self) -> u32 {
        u32::try_from(self.ranks.len()).unwrap_or(u32::MAX - 1)
    }

    /// An attempt of this one has failed: it comes next once more after a moment, if that may help, or is given up.
    pub async fn failed(&mut self, mut rank: Rank<T>, fault: &Fault, may_repeat: bool) {
        rank.ward.stumbled(fault);
        let Some(pause) = fault.pause().filter(|_| may_repeat && rank.left > 0) else {
            return rank.ward.failed(fault);
        };
        rank.left -= 1;
        sleep(pause).await;
        self.again = Some(rank);
    }
}

impl<T: ?Sized> Rank<T> {
    pub fn new(service: Arc<T>, ward: Ward, retries: u32) -> Self {
        Self { service, place: 0, ward, retries, left: retries }
    }

    /// It has worked meanwhile: what failed before is forgotten.
    pub fn renew(&mut self) {
        self.left = self.retries;
    }
}

impl<T: ?Sized> Deref for Rank<T> {
    type Target = Ward;

    fn deref(&self) -> &Ward {
        &self.ward
    }
}

impl<T: ?Sized> Clone for Rank<T> {
    fn clone(&self) -> Self {
        let Self { service, place, ward, retries, left } = self;
        Self { service: Arc::clone(service), place: *place, ward: ward.clone(), retries: *retries, left: *left }
    }
}
