//! What a model is asked, and told to do, in words.

use crate::{
    llm::{Ask, Message, Order},
    provider::asides,
    sentences::{Sentence, Sentences},
};
use serde_json::Value;
use std::sync::Arc;

/// For a model whose answer ended by a fault after the caller had heard its beginning.
pub(super) const BROKE_OFF: &str = "Your last answer broke off where it ends. Go on from there, without repeating it.";

/// All that are asked in one call; each has a number.
pub(super) struct Questions {
    tools: Arc<[Value]>,
    cache_key: String,
    sentences: Arc<Sentences>,
    asked: u64,
}

impl Questions {
    pub fn new(tools: Arc<[Value]>, cache_key: String, sentences: Arc<Sentences>) -> Self {
        Self { tools, cache_key, sentences, asked: 0 }
    }

    /// Order for a model that had nothing to say to a caller who has heard nothing yet.
    pub fn again(&self) -> Order {
        Order::Say(self.sentences.get(Sentence::NotAnswered).to_owned())
    }

    /// What to say next in this conversation, to which these words of the caller may belong, or what was ordered.
    pub fn answer(&mut self, mut messages: Vec<Message>, guess: Option<String>, order: Option<Order>) -> (u64, Ask) {
        messages.extend(guess.map(Message::Caller));
        messages.extend(order.as_ref().map(|order| Message::System(self.in_words(order))));
        // What is to be said is known, so nothing is to be done about it.
        let may_call = order.is_none() && !self.tools.is_empty();
        self.ask(messages, order, Arc::clone(&self.tools), may_call)
    }

    /// What this part of the conversation was about.
    pub fn summary(&mut self, about: String) -> (u64, Ask) {
        let order = Order::SumUp;
        let messages = vec![Message::System(self.in_words(&order)), Message::Caller(about)];
        self.ask(messages, Some(order), Arc::from([]), false)
    }

    fn ask(&mut self, messages: Vec<Message>, order: Option<Order>, tools: Arc<[Value]>, may_call: bool) -> (u64, Ask) {
        self.asked += 1;
        let (cache_key, sentences) = (self.cache_key.clone(), Arc::clone(&self.sentences));
        (self.asked, Ask { messages, order, tools, may_call, cache_key, sentences })
    }

    fn in_words(&self, order: &Order) -> String {
        match order {
            Order::Greet => asides::greet(None, &self.sentences),
            Order::Say(words) => asides::say(words, &self.sentences),
            Order::SumUp => asides::SUM_UP.to_owned(),
        }
    }
}
