//! Stories of whole calls on a hand-moved clock: no sockets, no tasks, no waiting.

mod endings;
mod hardships;
mod properties;
mod stage;
mod tools;
mod transfers;
mod turns;
