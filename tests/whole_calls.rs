//! Whole calls on a paused clock: engine, emulated vendors and callers in one thread, with real sockets between them.

mod calls;
#[expect(clippy::disallowed_methods, reason = "its threads are what the clock is tested with")]
mod clock;
mod exchange;
mod lab_selftest;
mod provider_openai;
mod providers;
mod toy_provider;
mod turn_taking;
mod vam;

use offhook_kit as kit;
use offhook_kit::scenes;
