//! What the tests stand on: a real Asterisk, real phones, and sound that can be measured.

// Each test program takes what it needs; the rest is unused in that one.
#![allow(dead_code)]

pub mod asterisk;
pub mod audio;
pub mod phone;
pub mod tied;
