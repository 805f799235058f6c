//! What the engine itself can say in a call, word for word and without any agent.

use crate::{
    audio::{BuiltIn, Clip},
    sentences::{Language, Sentence},
    tool::policy::ReadOut,
};
use std::{collections::BTreeMap, sync::Arc};

/// A sentence and its sound.
#[derive(Debug, Clone)]
pub struct Spoken {
    pub text: String,
    pub clip: Arc<Clip>,
}

/// The clips of one context, rendered when the configuration is loaded.
#[derive(Debug, Clone)]
pub struct Clips {
    /// Heard by everybody before anything else, and to its end: that the call is recorded, say.
    pub notice: Option<Spoken>,
    /// The greeting in these very words; `None`: the agent greets.
    pub greeting: Option<Spoken>,
    /// Where silence would be unexplained: "One moment, please."
    pub moment: Spoken,
    /// Where the wait goes on, every few seconds: "I am still here."
    pub patience: Spoken,
    /// When no agent can be had any more.
    pub apology: Spoken,
    /// After the apology, where callers have a choice of keys ([`LastResort`](super::LastResort)).
    pub menu: Option<Spoken>,
    /// In place of the ringing tone while a destination's telephones ring; all contexts share it.
    pub ring_music: Option<Arc<Clip>>,
    /// Announcements of slow tools and other fixed sentences, by their text.
    pub lines: BTreeMap<String, Arc<Clip>>,
    /// A voice is there that speaks the sentences of one call too.
    pub has_voice: bool,
}

impl Spoken {
    fn built_in(sentence: Sentence, recording: BuiltIn) -> Self {
        Self { text: sentence.text(Language::English).into(), clip: Clip::built_in(recording) }
    }
}

/// What needs no configuration and no voice.
impl Default for Clips {
    fn default() -> Self {
        Self {
            notice: None,
            greeting: None,
            moment: Spoken::built_in(Sentence::Moment, BuiltIn::Moment),
            patience: Spoken::built_in(Sentence::Patience, BuiltIn::Patience),
            apology: Spoken::built_in(Sentence::Apology, BuiltIn::Apology),
            menu: None,
            ring_music: None,
            lines: BTreeMap::new(),
            has_voice: false,
        }
    }
}

impl Clips {
    /// Questions before a tool that the engine can put.
    pub fn read_out(&self) -> ReadOut {
        ReadOut { lines: self.lines.keys().cloned().collect(), any: self.has_voice }
    }

    /// The sentence with this text, if it was rendered.
    pub fn line(&self, text: &str) -> Option<Spoken> {
        self.lines.get(text).map(|clip| Spoken { text: text.to_owned(), clip: Arc::clone(clip) })
    }
}
