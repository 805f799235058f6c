//! Stories of whole calls on a hand-moved clock: no sockets, no tasks, no waiting.

mod announcement;
mod clock;
mod confirmation;
mod digits;
mod endings;
mod finishing;
mod handoff;
mod hardships;
mod hearing;
mod hold;
mod party;
mod properties;
mod recording;
mod recovery;
mod saying;
mod stage;
mod tool_properties;
mod tools;
mod transfers;
mod turns;
mod waits;
mod writing;
