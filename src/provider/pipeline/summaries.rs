//! What the model is asked beside the conversation: to sum up what gave way of the history, and what the call would tell an
//! agent that takes it over.

use crate::call::{AgentEvent, Noise};

/// Of one summary; a model that goes on and on has lost its mind.
const CHARS_MAX: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    History,
    Call { mark: u64 },
}

#[derive(Debug)]
pub(super) enum Summary {
    OfHistory(String),
    /// What the call is told.
    OfCall(AgentEvent),
}

#[derive(Debug)]
struct Wanted {
    ask: u64,
    purpose: Purpose,
    about: String,
    words: String,
}

/// One for each purpose at most.
#[derive(Debug, Default)]
pub(super) struct Summaries(Vec<Wanted>);

impl Summaries {
    pub fn are_of_history(&self) -> bool {
        self.0.iter().any(|wanted| wanted.purpose == Purpose::History)
    }

    /// The ask that it replaces: what is told of a call includes all that an older wish was about.
    pub fn begin(&mut self, ask: u64, purpose: Purpose, about: String) -> Option<u64> {
        let same = |wanted: &Wanted| (wanted.purpose == Purpose::History) == (purpose == Purpose::History);
        let replaced = self.0.iter().position(same).map(|at| self.0.swap_remove(at).ask);
        self.0.push(Wanted { ask, purpose, about, words: String::new() });
        replaced
    }

    /// Words of a model; `false` if they are of no summary.
    pub fn says(&mut self, ask: u64, text: &str) -> bool {
        let Some(wanted) = self.0.iter_mut().find(|wanted| wanted.ask == ask) else { return false };
        let room = CHARS_MAX.saturating_sub(wanted.words.len());
        wanted.words.push_str(&text[..text.floor_char_boundary(room)]);
        true
    }

    /// What came of the ask; `None` if it was for no summary.
    pub fn over(&mut self, ask: u64, whole: bool) -> Option<Summary> {
        let at = self.0.iter().position(|wanted| wanted.ask == ask)?;
        let Wanted { purpose, about, words, .. } = self.0.swap_remove(at);
        let text = Some(words.trim()).filter(|text| whole && !text.is_empty()).map(str::to_owned);
        Some(match (purpose, text) {
            // Without a summary the end of it is better than nothing.
            (Purpose::History, text) => Summary::OfHistory(text.unwrap_or(about)),
            (Purpose::Call { mark }, Some(text)) => Summary::OfCall(AgentEvent::Summary { mark, text }),
            (Purpose::Call { .. }, None) => Summary::OfCall(AgentEvent::Noise(Noise::CommandRefused)),
        })
    }
}
