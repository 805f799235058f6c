//! Another party in the caller's place: a telephone has transferred its call with the agent, or the one who consulted the agent
//! hands somebody else to it.
//!
//! The call goes on, and whatever belonged to the former party alone does not: what they proved, typed or agreed to, and what was
//! being said to them.

use super::{Agent, CallMachine, Phase};
use crate::{
    call::{
        agent::{AgentCommand, Reply},
        record::Note,
        words::Output,
    },
    facts::Party,
};
use std::time::Instant;

const CHANGED: &str = "The call was transferred by telephone: another person is on the line in the caller's place. What you know of the \
                       one before them, their name and number among it, is not about this person, and what that one proved or agreed to does \
                       not count any more.";

impl CallMachine {
    pub(super) fn on_party_changed(&mut self, party: Party, now: Instant, out: &mut Vec<Output>) {
        self.policy.change_party(party.number.reveal().is_some(), now);
        self.drop_question();
        self.prompts_used = 0;
        out.push(Output::Note(Note::PartyChanged(party)));
        match &mut self.hold {
            // The party's telephone rings.
            Some(hold) => hold.is_for_another = true,
            // A party who was consulted about knows to whom they are transferred, and waits to be spoken to.
            None if matches!(self.phase, Phase::Talking) => {
                // Words for one person are not another's to hear.
                self.cut_unasked(true, now, out);
                self.tell(CHANGED, now, out);
            }
            None => self.tell_of_another(out),
        }
    }

    pub(super) fn on_party_known(&mut self, party: Party, now: Instant, out: &mut Vec<Output>) {
        if party.number.reveal().is_some() {
            self.policy.number_is_known(now);
        }
        out.push(Output::Note(Note::PartyKnown(party)));
    }

    /// Tells the agent, which keeps it in mind: a person who answers a telephone speaks first.
    pub(super) fn tell_of_another(&mut self, out: &mut Vec<Output>) {
        self.succession_keeps(CHANGED);
        if self.agent == Agent::Ready {
            self.to_agent(AgentCommand::Tell { text: CHANGED.to_owned(), reply: Reply::NotNow }, out);
        }
    }
}
