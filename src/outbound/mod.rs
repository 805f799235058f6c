//! What offhook sends to others than Asterisk and the providers.
//!
//! - [`mail`]: messages and transcripts, after the call

pub mod mail;
