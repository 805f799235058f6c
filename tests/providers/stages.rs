//! The pipeline's column of the table: the same behaviours, shown of calls whose agent listens, thinks and speaks by
//! three services (`tests/kit/stages.rs`).

mod asides;
pub mod breaks;
pub mod conversation;
pub mod faults;
pub mod figures;
pub mod guesses;
pub mod memory;
pub mod openings;
pub mod programs;
pub mod protocols;
pub mod questions;
pub mod ranks;
pub mod records;
pub mod services;
pub mod sound;
mod states;
pub mod tools;
pub mod turns;
pub mod vanishes;
pub mod waits;

pub use crate::providers::{
    attendant::of_stages as attendant, clocks::of_stages as clocks, echoes::of_stages as echoes,
    fillers::of_stages as fillers,
};
use crate::providers::{
    desk::{Desk, has_heard},
    ear::Caller,
    kit::{stages::Stages, vendor::hertz},
    ms,
};
use std::{ops::Range, time::Duration};

/// A caller whom the agent has greeted.
async fn greeted(stages: &Stages) -> (Desk, Caller) {
    let desk = Desk::of_stages(stages).await;
    let caller = called(&desk).await;
    (desk, caller)
}

async fn called(desk: &Desk) -> Caller {
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    caller
}

/// The caller says something, and hears so much of this pitch after it.
async fn answered(caller: &Caller, hz: f64, length: Duration) -> Range<Duration> {
    let said = speaks(caller).await;
    caller.hears_from(said.end, hz, length).await;
    said
}

/// The caller says something, once more perhaps.
async fn speaks(caller: &Caller) -> Range<Duration> {
    caller.asks().await
}

/// What the caller heard, for a test that fails.
fn story(caller: &Caller) -> String {
    caller.look(|tape| format!("{tape:?}"))
}
