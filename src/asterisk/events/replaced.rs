//! Callers whose channel is replaced by another one: by the attended transfer of a telephone (REFER with Replaces), or by a
//! blind one of the caller's own. Asterisk puts the new channel into the call's bridge by itself; variables and arguments of the old one
//! are not the new one's. So the call goes on as it is, with another party.

use super::{
    event::{Event, Started},
    router::{CallerSide, Chore, EventRouter, Presence, Route},
};
use crate::{asterisk::ari::ChannelInfo, facts::Party};
use tokio::sync::watch;

/// A party that has taken the caller's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewParty {
    /// Position of this party among those who have come, from 1.
    pub ordinal: u64,
    /// As Asterisk knows it, also where it withholds its number.
    pub party: Party,
    /// [`crate::asterisk::ari::PRESENTATION`].
    pub presentation: Option<String>,
}

/// The caller's place in a call.
pub(super) struct CallerPlace {
    /// Parties that have taken it.
    taken: u64,
    /// The telephone of the last one rings.
    pub(super) rings: bool,
    party: watch::Sender<Option<NewParty>>,
}

impl CallerPlace {
    pub(super) fn new() -> (Self, watch::Receiver<Option<NewParty>>) {
        let (party, is_party) = watch::channel(None);
        (Self { taken: 0, rings: false, party }, is_party)
    }
}

impl EventRouter {
    /// Hands an event of Asterisk to the call that it belongs to.
    pub(super) fn dispatch(&self, mut event: Event) -> Option<Chore> {
        if let Some(channel) = event.channel_mut() {
            // A channel that was replaced tells of its own end, which is not the call's.
            *channel = self.names().identities().id_of(std::mem::take(channel))?;
        }
        let ended = match &event {
            Event::StasisEnd { channel } | Event::ChannelDestroyed { channel, .. } => Some(channel.clone()),
            _ => None,
        };
        let chore = self.take(event);
        // What is asked for it from now on is in vain, whichever channel it is.
        ended.into_iter().for_each(|channel| self.names().identities().forget(&channel));
        chore
    }

    /// A channel takes the place of a caller's. `false`: that one is not a caller's.
    pub(super) fn replaces_caller(&self, id: &str, by: &Started) -> bool {
        let mut routes = self.routes();
        let Some(route) = routes.by_channel.get_mut(id) else { return false };
        let is_here = *route.presence.borrow() == Presence::Here;
        let Some(caller) = route.caller.as_mut().filter(|_| is_here) else { return false };
        if !self.names().identities().replace(id, &by.channel) {
            return false;
        }
        caller.place.taken += 1;
        // A blind transfer puts the new channel there before the telephone that is called for it has answered. Asterisk does
        // all of it; the agent waits.
        caller.place.rings = !by.answered;
        // Who consulted the agent before they transfer has had another call on hold, not this one.
        caller.is_told_of_hold(false);
        let (channel, rings) = (&*by.channel, caller.place.rings);
        tracing::info!(
            peer = id,
            channel,
            rings,
            "another party has taken the caller's place, by a transfer; the call goes on with them"
        );
        true
    }

    /// Another party has the place of the caller with this id.
    pub(super) fn is_another_party(&self, id: &str) -> bool {
        self.routes().caller(id).is_some_and(|caller| caller.place.taken > 0)
    }

    /// A telephone is answered: if it is that of a new party, the agent is with them, and more may be known of who they are.
    pub(super) fn party_answers(&self, id: &str) -> Option<Chore> {
        let mut routes = self.routes();
        let caller = routes.caller(id).filter(|caller| caller.place.rings)?;
        caller.place.rings = false;
        caller.tell_of_hold();
        Some(Chore::AskParty(id.to_owned()))
    }

    /// The callers whose new party's telephone rings.
    pub(super) fn ringing_parties(&self) -> Vec<String> {
        let routes = self.routes();
        let rings = |route: &Route| route.caller.as_ref().is_some_and(|caller| caller.place.rings);
        routes.by_channel.iter().filter(|(_, route)| rings(route)).map(|(id, _)| id.clone()).collect()
    }

    /// Asterisk was asked what has become of one of those.
    pub(super) fn settle_party(&self, id: &str, now: Option<&ChannelInfo>) -> Option<Chore> {
        now.filter(|info| info.state == "Up").and_then(|_| self.party_answers(id))
    }

    /// The party that has the caller's place, among those who have come.
    pub(super) fn party_ordinal(&self, id: &str) -> Option<u64> {
        self.routes().caller(id).map(|caller| caller.place.taken)
    }

    /// Asterisk was asked who that party is. An answer that comes after the next one, or after this one has left, tells nothing.
    pub(super) fn is_party(&self, id: &str, new: NewParty) {
        let mut routes = self.routes();
        let Some(caller) = routes.caller(id).filter(|caller| caller.place.taken == new.ordinal) else { return };
        caller.place.party.send_if_modified(|was| {
            let is_known = |was: &NewParty| was.ordinal == new.ordinal && was.presentation.is_some();
            if was.as_ref() == Some(&new) || new.presentation.is_none() && was.as_ref().is_some_and(is_known) {
                return false;
            }
            *was = Some(new);
            true
        });
    }
}

impl super::router::Routes {
    fn caller(&mut self, id: &str) -> Option<&mut CallerSide> {
        self.by_channel.get_mut(id)?.caller.as_mut()
    }
}
