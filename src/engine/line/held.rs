//! A call by ARI as it stays known in every state of its channel.

use super::Places;
use crate::{
    asterisk::{
        ari::AriClient,
        events::{CallEvents, ChannelEvent, Gone, NewParty},
        leg::{Ending, decline},
    },
    call::LegEvent,
    engine::caller,
    redact::Redacted,
};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::time::Instant;
use tracing::warn;

/// Between the end of a channel's time by our reckoning and Asterisk's word that the channel has ended: a slow answer to the question
/// for that time, and events that wait.
const TIMEOUT_SLACK: Duration = Duration::from_secs(2);

pub(super) struct Held {
    pub ari: AriClient,
    pub caller: String,
    pub events: CallEvents,
    pub places: Arc<Places>,
    pub caller_name: Redacted<Option<String>>,
    pub caller_number: Redacted<Option<String>>,
    /// When the dialplan's time for the channel is over.
    pub times_out: Option<Instant>,
    pub caller_gone: bool,
    /// Those who withhold their number are known by it all the same.
    pub keeps_withheld_numbers: bool,
    /// Those who have taken the caller's place.
    pub parties: u64,
}

impl Held {
    /// Reads the reason of the caller's leaving. A hang-up, by whomever, is announced before the channel ends; the end of its time is
    /// not.
    pub fn left(&self, how: Gone) -> LegEvent {
        let now = Instant::now();
        let off = |at: Instant| at.saturating_duration_since(now).max(now.saturating_duration_since(at));
        match how {
            // The reason of a caller who went while nobody could see it is not known.
            Gone::Lost => LegEvent::CallerVanished,
            Gone::Released if self.times_out.is_some_and(|at| off(at) <= TIMEOUT_SLACK) => LegEvent::TimedOut,
            Gone::Released | Gone::Left | Gone::Unbridged => LegEvent::CallerLeft,
        }
    }

    pub async fn next(&mut self) -> ChannelEvent {
        match self.events.next().await {
            Some(event) => {
                self.caller_gone |= matches!(event, ChannelEvent::CallerGone(_));
                event
            }
            // Everything has been told.
            None => pending().await,
        }
    }

    /// Another party has taken the caller's place, or more is known of who that is.
    pub fn is_with(&mut self, party: NewParty) -> Option<LegEvent> {
        let NewParty { ordinal, party, presentation } = party;
        // The dialplan's time was that of the channel that went.
        self.times_out = None;
        let party = caller::known(party, presentation.as_deref(), self.keeps_withheld_numbers);
        let is_new = std::mem::replace(&mut self.parties, ordinal) != ordinal;
        Some(if is_new { LegEvent::PartyChanged(party) } else { LegEvent::PartyKnown(party) })
    }

    /// Parts from a caller who was never set up.
    pub async fn part(self, ending: Ending) {
        let result = match ending {
            _ if self.caller_gone => Ok(()),
            Ending::CallerGone => Ok(()),
            Ending::HangUp => self.ari.hang_up(&self.caller, "normal").await,
            Ending::ReturnToDialplan { status } => decline(&self.ari, &self.caller, status).await,
        };
        if let Err(error) = result {
            warn!(%error, "the caller could not be parted from properly");
        }
    }
}
