//! What a model is told to do, in words.

use crate::{llm::Order, provider::asides};

/// For a model whose answer ended by a fault after the caller had heard its beginning.
pub(super) const BROKE_OFF: &str = "Your last answer broke off where it ends. Go on from there, without repeating it.";

pub(super) fn in_words(order: &Order) -> String {
    match order {
        Order::Greet => asides::GREET.to_owned(),
        Order::Say(words) => format!("{} {words}", asides::SAY),
        Order::SumUp => asides::SUM_UP.to_owned(),
    }
}
