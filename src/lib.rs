//! offhook: a telephone voice-agent engine.
//!
//! Asterisk carries the call; offhook attaches to it and puts an AI agent on the line.
//!
//! Layers, each knowing only those before it:
//!
//! 1. [`chance`]; [`redact`], [`facts`], [`audio`], [`gate`]: values, and the rules of who may do what
//! 2. [`tool`]: what an agent may do
//! 3. [`call`]: the life of one call, every decision of it, without I/O; these are the crate `offhook_core`, in `src/core`
//! 4. [`wall_clock`]: the date and time; `connections`: places of a listener that anybody may reach; [`config`]: what an admin wrote
//! 5. [`telemetry`]: metrics and logs; [`records`]: what is kept of calls that have ended
//! 6. [`remote`]: services that are asked over the network
//! 7. [`stt`], [`llm`], [`speech`]: listeners, who write down what callers say; models that answer; voices, also for
//!    what the engine says itself
//! 8. [`asterisk`], [`provider`], [`outbound`], [`mcp`], [`http`]: adapters, which do not know each other
//! 9. [`store`]: tools that are made at run time, as files; [`vam`]: tools that others register by gRPC
//! 10. [`doctor`]: what is wrong with an installation, found before a caller does
//! 11. [`engine`]: one task per call carries the core's decisions to the adapters

// A provider that is written as `docs/adding-a-provider.md` says is outside of this crate, and is run in it by a test.
#[cfg(test)]
extern crate self as offhook;

pub mod asterisk;
pub mod config;
mod connections;
pub mod doctor;
pub mod engine;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
pub mod llm;
pub mod mcp;
pub mod outbound;

pub mod provider;
pub mod records;
pub mod remote;
pub mod speech;
pub mod store;
pub mod stt;
pub mod telemetry;
pub mod vam;
pub mod wall_clock;
mod woken;

pub use offhook_core::{audio, call, chance, facts, gate, redact, sentences, tool};

/// A file of the project. Cargo tells where that is when a test runs: what was compiled may be of another clone.
#[cfg(test)]
fn project(path: &str) -> std::path::PathBuf {
    std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo tells")).join(path)
}
