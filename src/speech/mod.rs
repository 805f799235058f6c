//! Text to sound, for what the engine says word for word and without an agent.
//!
//! A [`Voice`] is one file and one row in [`VOICES`]. A [`Studio`] has it speak when a configuration is loaded, and
//! keeps what it said for as long as a configuration uses it.

mod counters;
mod espeak;
mod openai;
mod studio;
#[cfg(test)]
mod tests;

pub use counters::SpeechCounters;
pub use espeak::{Espeak, is_installed};
pub use studio::{Speaker, Studio, TextFailed};

use crate::{
    audio::{Clip, ClipError},
    config::{self, OptionProblem},
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::{io, sync::Arc, time::Duration};

/// Somebody who can be asked to say something.
pub trait Voice: Send + Sync {
    /// The name in [`VOICES`], which is also the metric label.
    fn kind(&self) -> &'static str;
    /// Speaks `text`. It takes no longer than the voice's own limit.
    fn speak<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Clip, VoiceError>>;
}

/// Why a voice said nothing. Its words never repeat the text: that may hold a caller's name.
#[derive(Debug, thiserror::Error)]
pub enum VoiceError {
    #[error("the program espeak-ng is not installed")]
    Missing,
    #[error("cannot run espeak-ng: {0}")]
    Run(#[from] io::Error),
    #[error("espeak-ng failed: {0}")]
    Failed(String),
    #[error("it took longer than {} s", .0.as_secs_f32())]
    TooSlow(Duration),
    #[error("the service cannot be reached: {0}")]
    Unreachable(String),
    /// HTTP status, and the service's own word for the fault.
    #[error("the service answered {status}{}", .code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Refused { status: u16, code: Option<String> },
    #[error("the answer is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    #[error("the answer is no sound: {0}")]
    NoSound(#[from] ClipError),
    #[error("the answer is no sound, but {0}")]
    OtherContent(String),
}

impl VoiceError {
    pub const LABELS: [&str; 6] = ["missing", "failed", "slow", "unreachable", "refused", "no_sound"];

    /// A closed set: it is a metric label.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Run(_) | Self::Failed(_) => "failed",
            Self::TooSlow(_) => "slow",
            Self::Unreachable(_) => "unreachable",
            Self::Refused { .. } => "refused",
            Self::TooLarge(_) | Self::NoSound(_) | Self::OtherContent(_) => "no_sound",
        }
    }

    /// What an operator can do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Missing => "apt install espeak-ng",
            Self::Run(_) => "see whether it can be run by hand",
            Self::Failed(_) => "see `espeak-ng --voices` for the voices there are",
            Self::TooSlow(_) => "see whether the voice answers by hand; a service may want a longer timeout_ms",
            Self::Unreachable(_) => "check base_url, and whether this machine can reach it",
            Self::Refused { status: 401 | 403, .. } => "check api_key",
            Self::Refused { status: 404 | 405, .. } => "check base_url and model",
            Self::Refused { status: 429, .. } => "the account has no more quota, or the service is asked too fast",
            Self::Refused { status: 500.., .. } => "the service has a fault; try again later",
            Self::Refused { .. } => "check model, voice and response_format",
            Self::TooLarge(_) | Self::NoSound(_) | Self::OtherContent(_) => {
                "the service has to answer with 16-bit mono; check base_url and response_format"
            }
        }
    }
}

type Build = fn(&Value) -> Result<Arc<dyn Voice>, Vec<OptionProblem>>;

/// One row of [`VOICES`].
pub struct VoiceKind {
    /// The key below `voices.NAME`.
    pub kind: &'static str,
    /// One line for the configuration reference.
    pub summary: &'static str,
    /// JSON Schema of the options.
    pub schema: fn() -> Value,
    /// Every mistake in the options that can be found without side effects.
    pub check: fn(&Value) -> Vec<OptionProblem>,
    build: Build,
}

/// Every kind of voice there is.
pub const VOICES: &[VoiceKind] = &[espeak::KIND, openai::KIND];

/// Every kind of voice there is, for the configuration.
pub fn catalog() -> Vec<config::VoiceKind> {
    let kind = |row: &VoiceKind| config::VoiceKind {
        kind: row.kind,
        summary: row.summary,
        schema: (row.schema)(),
        check: row.check,
    };
    VOICES.iter().map(kind).collect()
}

/// Makes the voice of this kind.
pub fn build(kind: &str, options: &Value) -> Result<Speaker, Vec<OptionProblem>> {
    let Some(row) = VOICES.iter().find(|row| row.kind == kind) else {
        return Err(vec![OptionProblem::new("", format!("unknown kind of voice \"{kind}\""))]);
    };
    Ok(Speaker::new(kind, options, (row.build)(options)?))
}

/// Runs what `work` makes to its end on a thread of its own, which can be waited for with and without a runtime around.
pub fn wait_for<T: Send, F: Future<Output = T>>(work: impl FnOnce() -> F + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(work()))
        });
        working.join().unwrap_or_else(|_| Err(io::Error::other("the thread has panicked")))
    })
}

fn read_options<T: serde::de::DeserializeOwned>(options: &Value) -> Result<T, Vec<OptionProblem>> {
    T::deserialize(options).map_err(|error| vec![OptionProblem::new("", error.to_string())])
}
