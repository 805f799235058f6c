//! VAM/1.0 as others meet it: a client in Python, made from the .proto files, an action server over HTTP, and an engine between
//! them.

mod acting;
mod desk;
mod limits;
#[path = "../support/python.rs"]
mod python;
mod registering;
mod talking;

use desk::*;
