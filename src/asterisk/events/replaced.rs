//! Callers whose channel is replaced by another one: by the attended transfer of a telephone (REFER with Replaces), or by a
//! blind one of the caller's own. Asterisk puts the new channel into the call's bridge by itself; variables and arguments of the old one
//! are not the new one's. So the call goes on as it is, with another party.

use super::{
    event::Event,
    router::{Chore, EventRouter, Presence},
};

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
    pub(super) fn replaces_caller(&self, id: &str, channel: &str) -> bool {
        let mut routes = self.routes();
        let Some(route) = routes.by_channel.get_mut(id) else { return false };
        let is_here = *route.presence.borrow() == Presence::Here;
        let Some(caller) = route.caller.as_mut().filter(|_| is_here) else { return false };
        if !self.names().identities().replace(id, channel) {
            return false;
        }
        // Who consulted the agent before they transfer has had another call on hold, not this one.
        caller.is_told_of_hold(false);
        tracing::info!(
            peer = id,
            channel,
            "another party has taken the caller's place, by a transfer; the call goes on with them"
        );
        true
    }
}
