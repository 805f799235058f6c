//! The pure core of offhook: what a call is, what an agent may do in it, and every decision about both.
//!
//! There is no I/O here and no clock; time is an argument. Layers, each knowing only those before it:
//!
//! 1. [`chance`]; [`redact`], [`facts`], [`sentences`], [`audio`], [`gate`]: values, and the rules of who may do what
//! 2. [`tool`]: what an agent may do
//! 3. [`call`]: the life of one call, every decision of it
//!
//! The crate `offhook` has these modules under its own name too: `offhook::call` is this crate's.

pub mod call;
pub mod chance;
pub mod facts;
pub mod gate;
pub mod redact;
pub mod sentences;
pub mod tool;

pub use offhook_audio as audio;
