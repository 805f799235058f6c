//! What a [`Conductor`](super::conductor::Conductor) is told, and what it wants to be done.

use crate::{
    call::{AgentCommand, AgentEvent, Stumble},
    llm::{Ask, Finish, Piece},
    remote::Fault,
    stt::{Hear, Heard},
};
use bytes::Bytes;
use std::time::Duration;

#[derive(Debug)]
pub(super) enum Input {
    Command(AgentCommand),
    Heard(Heard),
    /// Something of the answer to this ask.
    Piece {
        ask: u64,
        piece: Piece,
    },
    /// It is over. A fault is told when no model of the list has answered, or when one broke off. `by` is the place of the
    /// last in the list.
    Answered {
        ask: u64,
        by: usize,
        how: Result<Finish, Fault>,
    },
    /// Speech of this clause, in the leg's format.
    Sound {
        clause: u64,
        audio: Bytes,
        length: Duration,
    },
    /// It is over. A fault is told when no voice of the list has spoken.
    Spoken {
        clause: u64,
        how: Result<(), Fault>,
    },
    /// A service failed; another attempt, or the next service, follows where there is one.
    Stumbled(Stumble),
    /// Nobody listens any more.
    Deaf(Fault),
    /// The listener has not taken what it was told.
    Stalled,
    /// Time has come ([`Conductor::deadline`](super::conductor::Conductor::deadline)).
    Time,
}

#[derive(Debug)]
pub(super) enum Output {
    Tell(AgentEvent),
    Listen(Hear),
    Ask {
        ask: u64,
        what: Ask,
    },
    StopAsking(u64),
    Speak {
        clause: u64,
        text: String,
    },
    /// All that is being spoken is given up.
    Quiet,
    /// The models are not shown the oldest turns any more, nor what they were about.
    Forgot,
}
