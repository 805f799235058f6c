//! Who is to be in a call's bridge just now, so that a bridge that was taken from a call, or somebody out of it, is noticed.

use super::router::{EventRouter, Gone, Presence, Registered, Routes};
use crate::facts::CallId;
use std::collections::HashSet;

/// Whether a call's two are to be in its bridge.
#[derive(Debug, Default)]
pub(super) enum Bridging {
    /// Not both: the call is being set up, or its media channel replaced.
    #[default]
    Pending,
    Stands(Bridged),
    /// The caller is being sent elsewhere, or the call cleared away.
    Leaving,
}

/// A caller and a media channel who are to be in one bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bridged {
    caller: Registered,
    media: String,
    pub(super) call: CallId,
    /// Tells this time from a later one.
    serial: u64,
}

impl Bridged {
    /// Whether the caller is among these channels.
    pub(super) fn is_of(&self, channels: &HashSet<String>) -> bool {
        channels.contains(&self.caller.channel)
    }

    /// Whether both are among them.
    pub(super) fn are_in(&self, members: &[String]) -> bool {
        [&self.caller.channel, &self.media].into_iter().all(|channel| members.contains(channel))
    }
}

/// What a call says of its bridge, also when its registration is out of reach.
#[derive(Clone)]
pub(in crate::asterisk) struct CallBridge {
    router: EventRouter,
    caller: Registered,
}

impl CallBridge {
    pub(super) fn new(router: EventRouter, caller: Registered) -> Self {
        Self { router, caller }
    }

    /// Caller and media channel are in it; unless the caller has begun to leave it meanwhile.
    pub(in crate::asterisk) fn stands(&self, media: &str) {
        self.change(media, |bridging| !matches!(bridging, Bridging::Leaving));
    }

    /// The media channel is being replaced.
    pub(in crate::asterisk) fn breaks(&self) {
        if let Some(bridging) = self.router.routes().bridging(&self.caller)
            && matches!(bridging, Bridging::Stands(_))
        {
            *bridging = Bridging::Pending;
        }
    }

    /// The caller is taken out of it on purpose.
    pub(in crate::asterisk) fn is_left(&self) {
        if let Some(bridging) = self.router.routes().bridging(&self.caller) {
            *bridging = Bridging::Leaving;
        }
    }

    /// The caller was put back.
    pub(in crate::asterisk) fn is_joined_again(&self, media: &str) {
        self.change(media, |_| true);
    }

    /// Whether a caller who is not in the call's bridge should be.
    pub(in crate::asterisk) fn lacks_caller(&self, call: CallId) -> bool {
        let mut routes = self.router.routes();
        !self.router.hands_on(&routes, call, &self.caller.channel)
            && routes.bridging(&self.caller).is_some_and(|bridging| !matches!(bridging, Bridging::Leaving))
    }

    fn change(&self, media: &str, may: impl FnOnce(&Bridging) -> bool) {
        let Some(call) = self.router.names().call_of_media(media) else { return };
        let mut routes = self.router.routes();
        let serial = routes.next_serial();
        if let Some(bridging) = routes.bridging(&self.caller).filter(|bridging| may(bridging)) {
            *bridging =
                Bridging::Stands(Bridged { caller: self.caller.clone(), media: media.to_owned(), call, serial });
        }
    }
}

impl Routes {
    /// Of this stay of a caller, while they are here.
    fn bridging(&mut self, caller: &Registered) -> Option<&mut Bridging> {
        let route = self.by_channel.get_mut(&caller.channel).filter(|route| route.is_here(caller))?;
        route.caller.as_mut().map(|side| &mut side.bridging)
    }
}

impl EventRouter {
    /// Whether this call's caller is with somebody else, or may be in a moment.
    fn hands_on(&self, routes: &Routes, call: CallId, caller: &str) -> bool {
        let is_for = |channel: &String| self.names().call_of_dialled(channel) == Some(call);
        routes.pairs.has(caller) || routes.dialled.channels().iter().any(is_for)
    }

    /// Those who are to be in the bridge of their call.
    pub(super) fn bridged(&self) -> Vec<Bridged> {
        let routes = self.routes();
        let callers = routes.by_channel.values().filter_map(|route| route.caller.as_ref());
        let stand = callers.filter_map(|side| match &side.bridging {
            Bridging::Stands(bridged) => Some(bridged.clone()),
            Bridging::Pending | Bridging::Leaving => None,
        });
        stand.filter(|bridged| !self.hands_on(&routes, bridged.call, &bridged.caller.channel)).collect()
    }

    /// Tells a call that its bridge is gone, or one of the two not in it; `false` when that is as it should be by now, or
    /// the call knows.
    pub(super) fn unbridged(&self, lost: &Bridged) -> bool {
        let mut routes = self.routes();
        if self.hands_on(&routes, lost.call, &lost.caller.channel) {
            return false;
        }
        let Some(bridging) = routes.bridging(&lost.caller) else { return false };
        if !matches!(&*bridging, Bridging::Stands(now) if now == lost) {
            return false;
        }
        *bridging = Bridging::Pending;
        let media = routes.by_channel.get(&lost.media).filter(|route| *route.presence.borrow() == Presence::Here);
        media.is_some_and(|route| route.leave(Gone::Unbridged))
    }
}
