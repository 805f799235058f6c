//! Who has the turn, as it is written. As in [`raw`](super::raw), operators read the comments.

use super::{raw::DurationText, values};
use crate::call::{Backchannels, TurnRules};
use schemars::JsonSchema;
use serde::Deserialize;

/// Nobody says more than this without meaning it.
const PHRASES_MAX: usize = 200;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Turns {
    /// Whose word counts about who speaks: `offhook`, by its own ears, or `provider`, whose turn detection
    /// then decides alone.
    #[schemars(extend("default" = "offhook", "enum" = ["offhook", "provider"]))]
    pub owner: Option<String>,
    /// Speech of this length interrupts the agent, 100ms to 560ms. A longer "okay" stops it, a shorter
    /// "no, wait" does not.
    #[schemars(extend("default" = values::duration_text(TurnRules::default().min_speech)))]
    pub min_speech: Option<DurationText>,
    /// So many words interrupt it sooner, where they are told in time, as pipelines do. Words that only say "I am
    /// listening" do not count; "stop", "wait" or "no" suffices alone.
    #[schemars(range(min = 1, max = 10), extend("default" = TurnRules::default().min_words))]
    pub min_words: Option<u32>,
    /// Silence that ends the caller's turn, 200ms to 5s. Callers who pause a lot get up to twice as much, and who spells 1.6 s at the least.
    #[schemars(extend("default" = values::duration_text(TurnRules::default().end_silence)))]
    pub end_silence: Option<DurationText>,
    /// The languages that callers speak: their words for "I am listening" are known, and which words end a sentence. Without this
    /// key, all of them.
    #[schemars(length(min = 1), extend("items" = { "type": "string", "enum": Backchannels::LANGUAGES }))]
    pub languages: Option<Vec<Option<String>>>,
    /// Words and phrases of your callers that do not interrupt either, of at most four words each.
    #[schemars(length(max = PHRASES_MAX))]
    pub backchannels: Option<Vec<Option<String>>>,
    /// Whether the caller's voice can interrupt the agent at all.
    #[schemars(extend("default" = TurnRules::default().interruptible))]
    pub interruptible: Option<bool>,
    /// Whether the greeting is heard to its end.
    #[schemars(extend("default" = TurnRules::default().protect_greeting))]
    pub protect_greeting: Option<bool>,
}
