//! VAM/1.0 as others meet it: a client, an action server over HTTP, and an engine between them, on a paused clock. What runs
//! other programs is in `real.rs`.

mod acting;
mod backends;
mod changing;
mod client;
mod desk;
mod identified;
mod keeping;
mod limits;
mod oddities;
mod peer;
mod price;
mod registering;
mod talking;
mod tones;

use crate::kit::virtual_time;
use client::ask;
use desk::*;
