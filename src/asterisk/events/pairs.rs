//! Callers who were handed on: each is in a bridge with whoever took them over, and nobody of the
//! two may be left alone there.

use crate::facts::CallId;
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
