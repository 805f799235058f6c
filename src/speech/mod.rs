//! Text to sound: what the engine says word for word and without an agent, and what a pipeline's agent says.
//!
//! A [`Voice`] is one file and one row in [`VOICES`]. A [`Studio`] has it speak when a configuration is loaded, and
//! keeps what it said for as long as a configuration uses it.

mod counters;
mod deepgram;
mod elevenlabs;
mod espeak;
mod openai;
mod stream;
mod studio;
#[cfg(test)]
mod tests;
mod text;
mod wyoming;

pub use counters::SpeechCounters;
#[cfg(any(test, fuzzing))]
pub use deepgram::fuzz as fuzz_deepgram;
pub use espeak::{Espeak, is_installed};
#[cfg(any(test, fuzzing))]
pub use stream::fuzz;
pub use studio::{Speaker, Studio, TextFailed};
pub use text::{is_spoken, speakable};

use crate::{
    audio::{Clip, ClipError, Format},
    config::OptionProblem,
    remote::{
        Fault,
        kinds::{self, Kind},
    },
};
use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};
use serde_json::Value;
use std::{io, time::Duration};

/// Somebody who can be asked to say something.
pub trait Voice: Send + Sync {
    /// The name in [`VOICES`], which is also the metric label.
    fn kind(&self) -> &'static str;
    /// How often it is asked again for a clause when it fails in passing.
    fn retries(&self) -> u32 {
        0
    }
    /// How long the first sound of a clause is waited for.
    fn first_sound_max(&self) -> Duration;
    /// Speaks `text`. It takes no longer than the voice's own limit.
    fn speak<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Clip, VoiceError>>;
    /// Speaks a clause of an answer, told as it is made; dropping the stream stops it. It is in the format of `leg`
    /// where the voice has that. A text without a letter or figure is no sound, and no mistake.
    fn stream(&self, text: String, leg: Format) -> BoxStream<'static, Result<Sound, VoiceError>>;
}

/// A piece of what a voice says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sound {
    /// The same in all pieces of a clause.
    pub format: Format,
    /// Whole samples, at least one.
    pub audio: Bytes,
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
    #[error("the text is longer than {0} characters")]
    TooLong(usize),
    #[error("the service has no voice {wanted}; it has {there}")]
    NoSuchVoice { wanted: String, there: String },
    #[error(transparent)]
    Remote(#[from] Fault),
    #[error("the answer is no sound: {0}")]
    NoSound(#[from] ClipError),
    #[error("the answer is no sound, but {0}")]
    OtherContent(String),
}

impl From<VoiceError> for Fault {
    fn from(error: VoiceError) -> Self {
        match error {
            VoiceError::Remote(fault) => fault,
            VoiceError::TooSlow(limit) => Self::Slow(limit),
            VoiceError::Missing | VoiceError::Run(_) | VoiceError::Failed(_) => Self::Unreachable(error.to_string()),
            VoiceError::NoSuchVoice { .. } => Self::Reported { like: None, code: Some("no_such_voice".into()) },
            VoiceError::TooLong(_) => Self::Garbage("the text is too long for it"),
            VoiceError::NoSound(_) | VoiceError::OtherContent(_) => Self::Garbage("no sound"),
        }
    }
}

impl VoiceError {
    pub const LABELS: [&str; 7] = ["missing", "failed", "slow", "unreachable", "refused", "no_place", "no_sound"];

    /// A closed set: it is a metric label.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Run(_) | Self::Failed(_) | Self::TooLong(_) => "failed",
            Self::TooSlow(_) => "slow",
            Self::Remote(Fault::Slow(_)) => "slow",
            Self::Remote(Fault::Unreachable(_) | Fault::Closed(_)) => "unreachable",
            Self::Remote(Fault::Refused { .. } | Fault::Reported { .. }) | Self::NoSuchVoice { .. } => "refused",
            Self::Remote(Fault::NoPlace(_)) => "no_place",
            Self::Remote(Fault::TooLarge(_) | Fault::Garbage(_)) | Self::NoSound(_) | Self::OtherContent(_) => {
                "no_sound"
            }
        }
    }

    /// What an operator can do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Missing => "apt install espeak-ng",
            Self::Run(_) => "see whether it can be run by hand",
            Self::Failed(_) => "see `espeak-ng --voices` for the voices there are",
            Self::TooLong(_) => "say it in several sentences",
            Self::TooSlow(_) | Self::Remote(Fault::Slow(_)) => {
                "see whether the voice answers by hand; a service may want a longer timeout_ms"
            }
            Self::Remote(Fault::Unreachable(_) | Fault::Closed(_)) => {
                "check the address, and whether this machine can reach it"
            }
            Self::Remote(Fault::NoPlace(_)) => "try again with fewer calls, or give the machine more cores",
            Self::Remote(Fault::Refused { status: 401 | 403, .. } | Fault::Reported { like: Some(401 | 403), .. }) => {
                "check api_key"
            }
            Self::Remote(Fault::Refused { status: 404 | 405, .. }) => "check base_url, model and voice",
            Self::Remote(Fault::Refused { status: 429, .. } | Fault::Reported { like: Some(429), .. }) => {
                "the account has no more quota, or the service is asked too fast"
            }
            Self::Remote(Fault::Refused { status: 500.., .. } | Fault::Reported { like: Some(500..), .. }) => {
                "the service has a fault; try again later"
            }
            Self::Remote(Fault::Reported { like: None, .. }) => {
                "its own log says more; check voice, speaker and language"
            }
            Self::NoSuchVoice { .. } => "name one that it has, or leave `voice` out",
            Self::Remote(Fault::Refused { .. } | Fault::Reported { .. }) => "check model, voice and response_format",
            Self::Remote(Fault::TooLarge(_) | Fault::Garbage(_)) | Self::NoSound(_) | Self::OtherContent(_) => {
                "the service has to answer with 16-bit mono; check base_url and response_format"
            }
        }
    }
}

/// One row of [`VOICES`].
type VoiceKind = Kind<dyn Voice>;

/// Every kind of voice there is.
pub const VOICES: &[VoiceKind] = &[deepgram::KIND, elevenlabs::KIND, espeak::KIND, openai::KIND, wyoming::KIND];

/// Makes the voice of this kind.
pub fn build(kind: &str, options: &Value) -> Result<Speaker, Vec<OptionProblem>> {
    Ok(Speaker::new(kind, options, kinds::build(VOICES, kind, options)?))
}

/// Runs what `work` makes to its end on a thread of its own, which can be waited for with and without a runtime around.
pub fn wait_for<T: Send, F: Future<Output = T>>(work: impl FnOnce() -> F + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().thread_name("speech").enable_all().build()?;
            Ok(runtime.block_on(work()))
        });
        working.join().unwrap_or_else(|_| Err(io::Error::other("the thread has panicked")))
    })
}
