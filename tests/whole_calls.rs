//! Whole calls on a paused clock: engine, emulated vendors and callers in one thread, with real sockets between them.

mod calls;
mod clock;
mod exchange;
mod kit;
mod lab_selftest;
mod provider_openai;
mod providers;
mod toy_provider;
mod turn_taking;
mod vam;
