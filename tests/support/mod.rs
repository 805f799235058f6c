//! What integration tests share.
#![allow(dead_code)] // Each test binary uses a part of it.

pub mod openai_server;
pub mod openai_shapes;
