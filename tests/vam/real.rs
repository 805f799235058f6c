//! VAM/1.0 as others meet it, in real time: a client of Python, action servers that are programs, a network of the tests' own,
//! and what an engine leaves behind.

pub mod client;
pub mod desk;
mod elsewhere;
mod price;
mod programs;
mod python;
mod secrets;
mod tones;

use client::ask;
use desk::*;
