//! What a call leaves to be sent, and its sending when the call is over.

use crate::{
    call::{Delivery, Note, Speaker},
    config::{Config, Context},
    facts::CallFacts,
    outbound::mail::{Letter, Line, Mailer, Transcript},
    tool::Message,
};
use std::{collections::BTreeMap, time::Duration};
use tracing::{info, warn};

/// Messages and transcripts of one call. More are a model in a loop.
const DELIVERIES_MAX: usize = 8;

#[derive(Default)]
pub(super) struct Post {
    deliveries: Vec<Letterbox>,
    transcript: Transcript,
    /// How much was heard of an answer whose words are not told yet.
    interrupted: Option<Duration>,
    /// Another party is in the caller's place and has said nothing yet.
    by_another: bool,
}

/// A delivery with the mailbox of the context whose agent asked for it, and the call as it was then.
struct Letterbox {
    delivery: Delivery,
    facts: CallFacts,
    mailbox: Option<String>,
}

impl Letterbox {
    /// The mailbox that is named, else the context's own.
    fn address<'a>(&self, mailboxes: &'a BTreeMap<String, String>) -> Option<&'a String> {
        let (Delivery::Message(Message { to, .. }) | Delivery::Transcript { to }) = &self.delivery;
        let known = |name: &String| mailboxes.get(name);
        to.as_ref().and_then(known).or_else(|| self.mailbox.as_ref().and_then(known))
    }
}

impl Post {
    /// `context` has the call at this moment: its mailbox counts, also if the call is handed on later.
    pub fn add(&mut self, delivery: Delivery, facts: &CallFacts, context: Option<&Context>) {
        if self.deliveries.len() >= DELIVERIES_MAX {
            warn!("this call has sent enough; one more is left out");
            return;
        }
        let mailbox = context.and_then(|context| context.mailbox.clone());
        self.deliveries.push(Letterbox { delivery, facts: facts.clone(), mailbox });
    }

    /// What was said so far.
    pub const fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    pub fn note(&mut self, at: Duration, note: &Note) {
        match note {
            Note::Said { speaker, text } => {
                // The words of an answer may come when it is cut short already; those of the caller belong to the next one.
                let heard = self.interrupted.take().filter(|_| *speaker == Speaker::Agent);
                let by_another = *speaker == Speaker::Caller && std::mem::take(&mut self.by_another);
                self.transcript.push(Line { heard, by_another, ..Line::new(at, *speaker, text.clone()) });
            }
            Note::PartyChanged(_) => self.by_another = true,
            Note::BargeIn { heard } if !self.transcript.interrupt(*heard) => self.interrupted = Some(*heard),
            _ => {}
        }
    }

    /// Hands everything to the mailer, which does not wait.
    pub fn send(self, mailer: Option<&Mailer>, config: &Config, began: jiff::Timestamp) {
        for (number, waiting) in self.deliveries.iter().enumerate() {
            let letter = match &waiting.delivery {
                Delivery::Message(message) => Letter::message(&waiting.facts, began, message, number),
                Delivery::Transcript { .. } => Letter::transcript(&waiting.facts, began, &self.transcript, number),
            };
            let address = config.mail.as_ref().and_then(|mail| waiting.address(&mail.mailboxes));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config, facts::CallId, provider};

    /// Whoever reads it, a person or the next agent, must not believe that all of an answer was heard.
    #[test]
    fn an_answer_that_was_interrupted_says_how_much_of_it_was_heard() {
        let said = |speaker, text: &str| Note::Said { speaker, text: text.to_owned().into() };
        let interrupted = Note::BargeIn { heard: Duration::from_millis(2_140) };
        let agent = said(Speaker::Agent, "We are open until six, and");
        let caller = said(Speaker::Caller, "On Sunday?");
        let next = said(Speaker::Agent, "No.");
        for notes in [[&agent, &interrupted, &caller, &next], [&interrupted, &agent, &caller, &next]] {
            let mut post = Post::default();
            notes.iter().for_each(|note| post.note(Duration::ZERO, note));
            let remarks: Vec<String> = post.transcript.lines().iter().map(Line::remark).collect();
            assert_eq!(remarks, [" [interrupted: the first 2.1 s were heard]", "", ""]);
        }
        // One whose words nobody told is none of the next one's.
        let mut post = Post::default();
        [&interrupted, &caller, &next].into_iter().for_each(|note| post.note(Duration::ZERO, note));
        assert!(post.transcript.lines().iter().all(|line| line.heard.is_none()));
    }

    /// A message goes to the mailbox of the agent that took it, whoever has the call when it ends.
    #[test]
    fn a_mail_goes_to_the_mailbox_of_its_own_agent() {
        let yaml = "mail: { server: localhost, tls: none, from: a@b.example, mailboxes: { desk: d@b.example, bills: b@b.example } }\n\
                    providers: { a: { scripted: { script: [silence] } } }\n\
                    contexts:\n  front: { prompt: A, provider: a, mailbox: desk }\n  \
                    billing: { prompt: B, provider: a, mailbox: bills }\n";
        let config = config::load_str("test.yaml", yaml, &|_| None, provider::catalog()).unwrap();
        let mut post = Post::default();
        for (context, to) in [("front", None), ("billing", None), ("billing", Some("desk")), ("billing", Some("gone"))]
        {
            let to = to.map(str::to_owned);
            let facts = CallFacts::new(CallId::random(), context, "a");
            post.add(Delivery::Transcript { to }, &facts, config.contexts.get(context).map(AsRef::as_ref));
        }
        let mailboxes = &config.mail.unwrap().mailboxes;
        let addresses: Vec<_> = post.deliveries.iter().filter_map(|waiting| waiting.address(mailboxes)).collect();
        assert_eq!(addresses, ["d@b.example", "b@b.example", "d@b.example", "b@b.example"]);
    }
}
