//! What a call leaves to be sent, and its sending when the call is over.

use crate::{
    call::{Delivery, Note},
    config::{Config, Context},
    facts::CallFacts,
    outbound::mail::{Letter, Line, Mailer, Transcript},
};
use std::time::Duration;
use tracing::{info, warn};

/// Messages and transcripts of one call. More are a model in a loop.
const DELIVERIES_MAX: usize = 8;

#[derive(Default)]
pub(super) struct Post {
    deliveries: Vec<Delivery>,
    transcript: Transcript,
}

impl Post {
    pub fn add(&mut self, delivery: Delivery) {
        if self.deliveries.len() >= DELIVERIES_MAX {
            warn!("this call has sent enough; one more is left out");
            return;
        }
        self.deliveries.push(delivery);
    }

    /// What was said so far.
    pub const fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    pub fn note(&mut self, at: Duration, note: &Note) {
        if let Note::Said { speaker, text } = note {
            self.transcript.push(Line { at, speaker: *speaker, text: text.clone() });
        }
    }

    /// Hands everything to the mailer, which does not wait.
    pub fn send(
        self,
        mailer: Option<&Mailer>,
        config: &Config,
        context: &Context,
        facts: &CallFacts,
        began: jiff::Timestamp,
    ) {
        for (number, delivery) in self.deliveries.iter().enumerate() {
            let (to, letter) = match delivery {
                Delivery::Message(message) => (&message.to, Letter::message(facts, began, message, number)),
                Delivery::Transcript { to } => (to, Letter::transcript(facts, began, &self.transcript, number)),
            };
            let addresses = config.mail.as_ref().map(|mail| &mail.mailboxes);
            let known = |name: &String| addresses.and_then(|addresses| addresses.get(name));
            let address = to.as_ref().and_then(known).or_else(|| context.mailbox.as_ref().and_then(known));
            match (mailer, address) {
                (Some(mailer), Some(address)) => {
                    info!("a mail of this call is on its way");
                    mailer.send(address, &letter);
                }
                _ => warn!("a mail of this call has nowhere to go: no mail section, or no mailbox for this context"),
            }
        }
    }
}
