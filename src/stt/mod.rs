//! Sound to text: listeners, who write down what a caller says.
//!
//! A [`Listener`] is one file and one row in [`LISTENERS`]. The engine finds the caller's turns and tells them; a
//! listener hears the line all the time and answers each turn with its words.

mod deepgram;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod lead;
mod openai_realtime;
mod openai_transcription;
mod pocketsphinx;
mod session;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod tests;
mod text;
mod utterance;
mod wyoming;

use crate::{
    audio::Format,
    call::Usage,
    config::OptionProblem,
    remote::{
        Fault,
        checks::{self, within},
        kinds::Kind,
        wards::Oddity,
    },
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use tokio::sync::mpsc;

/// [`Hear::TurnBegan`] is told when it is sure that the caller speaks; the first word is this old at most.
pub const LEAD: Duration = Duration::from_millis(1_200);
/// How long a listener is waited for, and how often it is asked again: a part of the options of every listener over the
/// network.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
struct Patience {
    /// The longest wait for the words of a turn after its end.
    #[serde(default = "timeout_ms")]
    #[schemars(range(min = 500, max = 15_000))]
    timeout_ms: u64,
    /// How often it is asked again when it fails in passing, before the next listener of a pipeline is asked.
    #[serde(default = "checks::retries")]
    #[schemars(range(max = 5))]
    retries: u32,
}

/// Later words are no answer to a caller who waits.
const fn timeout_ms() -> u64 {
    4_000
}

impl Patience {
    fn problems(self) -> impl Iterator<Item = OptionProblem> {
        let turn = within("timeout_ms", Some(self.timeout_ms as f64), 500.0, 15_000.0);
        turn.into_iter().chain(checks::few_retries(self.retries))
    }

    /// From the end of a turn to its words.
    const fn turn(self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// Somebody who can be asked to write down what a caller says.
pub trait Listener: Send + Sync {
    /// The name in [`LISTENERS`], which is also the metric label.
    fn kind(&self) -> &'static str;
    /// How often it is begun again when it fails in passing, before its first words.
    fn retries(&self) -> u32 {
        0
    }
    /// How long the words of a turn are waited for after its end.
    fn turn_max(&self) -> Duration;
    /// Tells by itself where a turn ends ([`Heard::Complete`]).
    fn ends_turns(&self) -> bool {
        false
    }
    /// Tells words of a turn that goes on only when it is asked for them ([`Hear::TurnMayEnd`]).
    fn words_on_request(&self) -> bool {
        false
    }
    /// What it wants to hear of a leg of this format: the leg's own, where the vendor takes it.
    fn format(&self, leg: Format) -> Format;
    /// One call's session; `format` is what [`Self::format`] said. It ends when `input` is closed, which is `Ok`, or
    /// with a fault. Dropping it ends it at once.
    fn listen(
        &self,
        format: Format,
        input: mpsc::Receiver<Hear>,
        words: mpsc::Sender<Heard>,
    ) -> BoxFuture<'static, Result<(), Fault>>;
}

/// What a listener is told. Outside of turns there may be audio or none; a turn brings some from before its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hear {
    /// 20 ms and more, whole samples.
    Audio(Bytes),
    /// The caller's turn has begun, up to [`LEAD`] ago.
    TurnBegan,
    /// A short silence: now would be a good time to have the words ready.
    TurnMayEnd,
    /// It was only a pause.
    TurnGoesOn,
    TurnEnded,
    /// It was none: nothing is to be told about it.
    TurnDropped,
}

/// What a listener tells.
#[derive(Clone, PartialEq, Eq)]
pub enum Heard {
    /// Once: it hears now. The connection stands, and what was asked for is acknowledged.
    Ready,
    /// All words of the turn so far. `stable`: they would be the whole turn if it ended now.
    Partial {
        text: String,
        stable: bool,
    },
    /// The listener's own belief that the turn is over, or that it goes on after all.
    Complete(bool),
    /// Exactly one for each [`Hear::TurnEnded`], in order: all words of the turn, empty if there were none.
    Turn {
        text: String,
    },
    Usage(Usage),
    /// Something was wrong, and the session goes on.
    Oddity(Oddity),
}

/// Without the caller's words.
impl std::fmt::Debug for Heard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready => f.write_str("Ready"),
            Self::Partial { text, stable } => write!(f, "Partial({} bytes, stable: {stable})", text.len()),
            Self::Complete(over) => write!(f, "Complete({over})"),
            Self::Turn { text } => write!(f, "Turn({} bytes)", text.len()),
            Self::Usage(usage) => usage.fmt(f),
            Self::Oddity(oddity) => oddity.fmt(f),
        }
    }
}

/// One row of [`LISTENERS`].
type ListenerKind = Kind<dyn Listener>;

/// Every kind of listener there is.
pub const LISTENERS: &[ListenerKind] =
    &[deepgram::KIND, openai_transcription::KIND, pocketsphinx::KIND, openai_realtime::KIND, wyoming::KIND];
