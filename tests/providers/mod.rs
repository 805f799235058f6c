//! Every realtime provider, one behaviour: whole calls through a running engine, a synthetic caller on one side who
//! speaks, listens and keeps a recording, and an emulated vendor on the other (`tests/kit/vendor.rs` says how one
//! is added). Each test is written once and runs against every vendor (`table.rs`); the table in
//! `docs/providers-behaviour.md` is made from their names (`page.rs`).

use crate::kit;

mod agents;
mod attendant;
mod clips;
mod clocks;
mod conversation;
mod desk;
mod ear;
mod echoes;
mod failover;
mod faults;
mod figures;
mod fillers;
mod openings;
mod outages;
mod packages;
mod page;
mod questions;
mod records;
pub mod sessions;
mod stages;
mod states;
mod survived;
mod table;
mod tools;
mod turns;
mod waits;

pub use crate::kit::ms;
