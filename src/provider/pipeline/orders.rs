//! What a model is told to do, in words.

use crate::{llm::Order, provider::asides};

/// For a model whose answer ended by a fault after the caller had heard its beginning.
pub(super) const BROKE_OFF: &str = "Your last answer broke off where it ends. Go on from there, without repeating it.";

/// What is said for a model that has nothing to say to a caller who has heard nothing yet.
pub(super) const AGAIN: &str = "I am sorry, I could not answer that. Please say it once more.";

pub(super) fn in_words(order: &Order) -> String {
    match order {
        Order::Greet => asides::GREET.to_owned(),
        Order::Say(words) => format!("{} {words}", asides::SAY),
        Order::SumUp => {
            "Sum up this part of a telephone conversation in at most five sentences, for somebody who takes over. \
                         Keep names, numbers, dates and what was agreed."
                .to_owned()
        }
    }
}
