//! VAM/1.0 as others meet it: a client, an action server over HTTP, and an engine between them. Most clients are
//! `client.rs`; one of each kind of conversation and request is of Python, made from the .proto files by gRPC's own tools.

use crate::kit;

mod acting;
mod backends;
mod changing;
pub mod client;
pub mod desk;
mod elsewhere;
mod keeping;
mod limits;
mod oddities;
mod peer;
mod registering;
mod talking;

use client::ask;
use desk::*;
use kit::{again, python};
