//! Events of one call's channels, for its task.

use super::router::{ChannelEvent, Gone, Presence};
use tokio::sync::{mpsc, watch};

/// One call's events, in order. The end of the caller is kept apart from the queue, so that it
/// comes through however many keys were pressed.
pub struct CallEvents {
    pub(super) digits: mpsc::Receiver<char>,
    pub(super) caller: watch::Receiver<Presence>,
    pub(super) media: watch::Receiver<Presence>,
    pub(super) media_told: bool,
    pub(super) over: bool,
}

impl CallEvents {
    /// The next event; `None` after [`ChannelEvent::CallerGone`] or when the registration was
    /// dropped. May be cancelled at any time without losing one.
    pub async fn next(&mut self) -> Option<ChannelEvent> {
        if self.over {
            return None;
        }
        let event = tokio::select! {
            biased;
            Some(digit) = self.digits.recv() => ChannelEvent::Digit(digit),
            Some(how) = gone(&mut self.caller) => ChannelEvent::CallerGone(how),
            Some(how) = gone(&mut self.media), if !self.media_told => ChannelEvent::MediaGone(how),
            else => return None,
        };
        self.media_told |= matches!(event, ChannelEvent::MediaGone(_));
        self.over = matches!(event, ChannelEvent::CallerGone(_));
        Some(event)
    }

    /// How the caller has gone, if they have.
    pub fn caller_gone(&self) -> Option<Gone> {
        match *self.caller.borrow() {
            Presence::Gone(how) => Some(how),
            Presence::Expected | Presence::Here => None,
        }
    }

    /// Another media channel has taken the place of the one that went: its end is told too.
    pub fn media_is_back(&mut self) {
        self.media_told = false;
    }
}

/// `None` when nobody can tell any more.
pub(super) async fn gone(presence: &mut watch::Receiver<Presence>) -> Option<Gone> {
    match *presence.wait_for(|presence| matches!(presence, Presence::Gone(_))).await.ok()? {
        Presence::Gone(how) => Some(how),
        Presence::Expected | Presence::Here => None,
    }
}
