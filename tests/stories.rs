//! Stories of whole calls on a hand-moved clock.

mod call;
