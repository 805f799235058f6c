//! Callers who were handed on: each is in a bridge with whoever took them over, and nobody of the
//! two may be left alone there.

use super::router::{EventRouter, Routes};
use crate::{asterisk::ari::Queue, facts::CallId};
use std::collections::HashMap;

/// As many as `limits.calls` may be. Nobody is handed on beyond it: the caller stays with the agent.
pub(super) const PAIRS_MAX: usize = 10_000;

/// Who is connected with whom. A channel is in one pair at most.
#[derive(Default)]
pub(super) struct Pairs {
    parties: HashMap<CallId, [String; 2]>,
    by_channel: HashMap<String, CallId>,
}

/// A pair of which one has gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Widowed {
    pub(super) call: CallId,
    pub(super) other: String,
}

impl Pairs {
    /// `false` when there is no room.
    pub(super) fn insert(&mut self, call: CallId, parties: [String; 2]) -> bool {
        if self.parties.len() >= PAIRS_MAX && !self.parties.contains_key(&call) {
            return false;
        }
        self.remove(call);
        for channel in &parties {
            self.by_channel.insert(channel.clone(), call);
        }
        self.parties.insert(call, parties);
        true
    }

    pub(super) fn remove(&mut self, call: CallId) -> Option<[String; 2]> {
        let parties = self.parties.remove(&call)?;
        for channel in &parties {
            self.by_channel.remove(channel);
        }
        Some(parties)
    }

    pub(super) fn has(&self, channel: &str) -> bool {
        self.by_channel.contains_key(channel)
    }

    pub(super) fn len(&self) -> usize {
        self.parties.len()
    }

    pub(super) fn all(&self) -> Vec<(CallId, [String; 2])> {
        self.parties.iter().map(|(call, parties)| (*call, parties.clone())).collect()
    }

    /// One of a pair went; the pair is no more.
    pub(super) fn left(&mut self, channel: &str) -> Option<Widowed> {
        let call = *self.by_channel.get(channel)?;
        let [one, two] = self.remove(call)?;
        Some(Widowed { call, other: if one == channel { two } else { one } })
    }

    /// Another channel takes a party's place; `false` when `channel` is in no pair.
    pub(super) fn replace(&mut self, channel: &str, by: &str) -> bool {
        let Some(call) = self.by_channel.remove(channel) else { return false };
        if let Some(parties) = self.parties.get_mut(&call) {
            parties.iter_mut().filter(|party| *party == channel).for_each(|party| by.clone_into(party));
        }
        self.by_channel.insert(by.to_owned(), call);
        true
    }
}

impl EventRouter {
    pub(super) fn count_pairs(&self, routes: &Routes) {
        self.counters().handed_on.set(i64::try_from(routes.pairs.len()).unwrap_or(i64::MAX));
    }

    /// From now on, when one of the two goes, the other is hung up. `false`: there is no room.
    pub fn hand_on(&self, call: CallId, parties: [String; 2]) -> bool {
        self.insert_pair(&mut self.routes(), call, parties)
    }

    pub(super) fn insert_pair(&self, routes: &mut Routes, call: CallId, parties: [String; 2]) -> bool {
        let taken = routes.pairs.insert(call, parties);
        self.count_pairs(routes);
        if !taken {
            self.overflowed(Queue::Pairs);
        }
        taken
    }

    /// Takes a pair back; `false` when it was no more.
    pub fn release(&self, call: CallId) -> bool {
        let mut routes = self.routes();
        let was = routes.pairs.remove(call).is_some();
        self.count_pairs(&routes);
        was
    }

    pub(super) fn pairs(&self) -> Vec<(CallId, [String; 2])> {
        self.routes().pairs.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(one: &str, two: &str) -> [String; 2] {
        [one.into(), two.into()]
    }

    #[test]
    fn when_one_goes_the_other_is_told_of_and_nothing_is_left() {
        let (mut pairs, call) = (Pairs::default(), CallId::random());
        assert!(pairs.insert(call, pair("a", "b")));
        assert_eq!(pairs.left("c"), None);
        assert_eq!(pairs.left("b"), Some(Widowed { call, other: "a".into() }));
        assert_eq!(pairs.left("a"), None, "once");
        assert!(pairs.by_channel.is_empty() && pairs.parties.is_empty());
    }

    #[test]
    fn a_channel_that_took_a_party_s_place_counts_as_the_party() {
        let (mut pairs, call) = (Pairs::default(), CallId::random());
        pairs.insert(call, pair("a", "b"));
        assert!(pairs.replace("b", "c") && !pairs.replace("b", "d"));
        assert_eq!(pairs.left("b"), None);
        assert_eq!(pairs.left("c"), Some(Widowed { call, other: "a".into() }));
    }

    #[test]
    fn there_is_a_limit() {
        let mut pairs = Pairs::default();
        for n in 0..PAIRS_MAX {
            assert!(pairs.insert(CallId::random(), pair(&format!("a{n}"), &format!("b{n}"))));
        }
        assert!(!pairs.insert(CallId::random(), pair("a", "b")));
        assert_eq!((pairs.len(), pairs.has("a")), (PAIRS_MAX, false));
    }
}
