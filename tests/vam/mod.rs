//! VAM/1.0 as others meet it: a client in Python, made from the .proto files, an action server over HTTP, and an engine between
//! them.

use crate::kit;

mod acting;
mod backends;
mod changing;
pub mod desk;
mod elsewhere;
mod keeping;
mod limits;
mod oddities;
mod peer;
mod registering;
mod talking;

use desk::*;
use kit::python;
