//! Which channel stands for the id that a call knows its caller by.
//!
//! A caller's channel may be replaced under the call: in an attended transfer Asterisk puts the new party's channel into the
//! bridge, in the place of the one that transfers. The call goes on under the id that it has: requests go to the channel that
//! stands for it, and what Asterisk tells of that channel is told of the id.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// As many as `limits.calls` may be. Beyond it a channel that replaces a caller's is a call of its own.
const REPLACED_MAX: usize = 10_000;

/// The channels that were replaced. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Identities {
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    channel_of: HashMap<String, String>,
    id_of: HashMap<String, String>,
}

impl Identities {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Both maps are changed together and without a call in between, so a panic elsewhere leaves them whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel that stands for this id: the one of that name, unless it was replaced.
    pub fn channel_of<'a>(&self, id: &'a str) -> Cow<'a, str> {
        self.known().channel_of.get(id).map_or(Cow::Borrowed(id), |channel| Cow::Owned(channel.clone()))
    }

    /// The id that this channel stands for; `None`: it was replaced, and stands for nothing.
    pub fn id_of(&self, channel: String) -> Option<String> {
        let known = self.known();
        match known.id_of.get(&channel) {
            Some(id) => Some(id.clone()),
            None => (!known.channel_of.contains_key(&channel)).then_some(channel),
        }
    }

    pub fn is_replaced(&self, id: &str) -> bool {
        self.known().channel_of.contains_key(id)
    }

    /// From now on this channel stands for the id. `false`: there is no room.
    pub fn replace(&self, id: &str, channel: &str) -> bool {
        let mut known = self.known();
        if known.channel_of.len() >= REPLACED_MAX && !known.channel_of.contains_key(id) {
            return false;
        }
        if let Some(before) = known.channel_of.insert(id.to_owned(), channel.to_owned()) {
            known.id_of.remove(&before);
        }
        known.id_of.insert(channel.to_owned(), id.to_owned());
        true
    }

    /// The channel that stood for this id is no longer ours.
    pub fn forget(&self, id: &str) {
        let mut known = self.known();
        if let Some(channel) = known.channel_of.remove(id) {
            known.id_of.remove(&channel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_keeps_its_id_however_often_its_caller_s_channel_is_replaced() {
        let identities = Identities::default();
        let id_of = |channel: &str| identities.id_of(channel.to_owned());
        assert_eq!((&*identities.channel_of("a"), id_of("a").as_deref()), ("a", Some("a")));
        assert!(identities.replace("a", "b") && identities.replace("a", "c"));
        assert_eq!((&*identities.channel_of("a"), id_of("c").as_deref(), id_of("a")), ("c", Some("a"), None));
        assert_eq!(id_of("b").as_deref(), Some("b"), "what it was replaced by before stands for itself");
        identities.forget("a");
        assert_eq!((&*identities.channel_of("a"), id_of("c").as_deref()), ("a", Some("c")));
        let known = identities.known();
        assert!(known.channel_of.is_empty() && known.id_of.is_empty());
    }

    #[test]
    fn there_is_a_limit() {
        let identities = Identities::default();
        for n in 0..REPLACED_MAX {
            assert!(identities.replace(&format!("a{n}"), &format!("b{n}")));
        }
        assert!(!identities.replace("a", "b") && identities.replace("a0", "c"));
    }
}
