//! Channels that call out and are in our application before anybody has answered, as diallers of an installation's own make them
//! (`POST /channels/create`, then `/dial`). Each is a call once it is answered: until then there is nobody to talk with, and
//! Asterisk refuses to ring or answer such a channel.

use super::{
    event::Started,
    pairs::PAIRS_MAX,
    router::{Chore, EventRouter},
};
use crate::asterisk::ari::{ChannelInfo, Queue};
use std::collections::HashMap;

/// By the channel's id.
pub(super) type Unanswered = HashMap<String, Started>;

/// As many as may be handed on, which is as many as `limits.calls` may be.
const UNANSWERED_MAX: usize = PAIRS_MAX;

impl EventRouter {
    /// Keeps one that is not answered yet.
    pub(super) fn waits_for_answer(&self, started: Started) -> Option<Chore> {
        let mut routes = self.routes();
        if routes.unanswered.len() < UNANSWERED_MAX {
            routes.unanswered.insert(started.channel.clone(), started);
            return None;
        }
        drop(routes);
        self.overflowed(Queue::Arrivals);
        Some(Chore::Decline { channel: started.channel, status: "FULL" })
    }

    /// A channel is answered: if it waited for that, it is a call.
    pub(super) fn answered(&self, channel: &str) -> Option<Chore> {
        let started = self.routes().unanswered.remove(channel)?;
        self.arrive(Started { answered: true, ..started }, false)
    }

    /// Those that wait.
    pub(super) fn unanswered(&self) -> Vec<String> {
        self.routes().unanswered.keys().cloned().collect()
    }

    /// Asterisk was asked what has become of one that waits.
    pub(super) fn settle_unanswered(&self, channel: &str, now: Option<&ChannelInfo>) -> Option<Chore> {
        match now.map(|info| &*info.state) {
            None => {
                self.routes().unanswered.remove(channel);
                None
            }
            Some("Up") => self.answered(channel),
            Some(_) => None,
        }
    }
}
