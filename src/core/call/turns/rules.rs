//! What an admin says about turns.

use super::{Backchannels, SpokenLanguages};
use std::{sync::Arc, time::Duration};

/// What the context says about turns.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRules {
    /// Whose word counts.
    pub owner: TurnOwner,
    /// Speech of this length is an interruption for sure; at most [`TurnRules::MIN_SPEECH_MAX`] …
    pub min_speech: Duration,
    /// … or so many words that are no backchannels, or one such as "stop" or "no", where words are known in time.
    pub min_words: u32,
    /// Silence that ends the caller's turn. Callers who pause a lot get up to twice as much, and who spells 1.6 s at the least.
    pub end_silence: Duration,
    /// Words that are no interruption.
    pub backchannels: Arc<Backchannels>,
    /// Languages of the callers: in which of them a word may end a sentence.
    pub spoken: Arc<SpokenLanguages>,
    /// `false`: the agent cannot be interrupted by voice at all.
    pub interruptible: bool,
    /// The greeting is heard to its end.
    pub protect_greeting: bool,
}

impl TurnRules {
    /// Later no verdict could be given in time.
    pub const MIN_SPEECH_MAX: Duration = Duration::from_millis(560);

    pub(super) fn usual_min_speech(&self) -> Duration {
        self.min_speech.min(Self::MIN_SPEECH_MAX)
    }
}

impl Default for TurnRules {
    fn default() -> Self {
        Self {
            owner: TurnOwner::Offhook,
            min_speech: Duration::from_millis(520),
            min_words: 2,
            end_silence: Duration::from_millis(600),
            backchannels: Arc::default(),
            spoken: Arc::default(),
            interruptible: true,
            protect_greeting: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnOwner {
    /// offhook's own ears.
    Offhook,
    /// The provider's turn detection; a [`TurnTaker`](super::TurnTaker) then says nothing.
    Provider,
}
