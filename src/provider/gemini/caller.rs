//! What the server tells of the caller: when they speak, as far as it says so, and their words.

use crate::call::{AgentEvent, Speaker};

/// Bytes of one turn's words: minutes of speech. What is said beyond is not in the transcript.
pub(super) const WORDS_BYTES_MAX: usize = 16 << 10;
/// A text so long that repeats all words so far is no new one that begins alike: digits and short
/// words come twice, sentences do not.
const REPEATED_BYTES_MIN: usize = 16;

/// Words that come in fragments, with their own spaces.
#[derive(Debug, Default)]
pub(super) struct Words(String);

impl Words {
    pub(super) fn push(&mut self, fragment: &str) {
        if self.0.trim().len() >= REPEATED_BYTES_MIN && fragment.trim_start().starts_with(self.0.trim()) {
            self.0.clear();
        }
        if self.0.len() + fragment.len() <= WORDS_BYTES_MAX {
            self.0.push_str(fragment);
        }
    }

    pub(super) fn so_far(&self) -> &str {
        self.0.trim()
    }

    pub(super) fn take(&mut self) -> Option<String> {
        let words = std::mem::take(&mut self.0);
        let words = words.trim();
        (!words.is_empty()).then(|| words.to_owned())
    }
}

#[derive(Debug)]
pub(super) struct Caller {
    /// The server finds the turns, so it is the one to tell of them.
    finds_turns: bool,
    speaks: bool,
    words: Words,
    /// What was reported last in this turn; some models send it once more.
    reported: String,
}

impl Caller {
    pub(super) fn new(finds_turns: bool) -> Self {
        Self { finds_turns, speaks: false, words: Words::default(), reported: String::new() }
    }

    pub(super) fn speaks(&self) -> bool {
        self.speaks
    }

    pub(super) fn begins(&mut self, events: &mut Vec<AgentEvent>) {
        if self.finds_turns && !std::mem::replace(&mut self.speaks, true) {
            events.push(AgentEvent::CallerSpeechStarted { utterance: None });
        }
    }

    pub(super) fn ends(&mut self, events: &mut Vec<AgentEvent>) {
        if self.finds_turns && std::mem::take(&mut self.speaks) {
            events.push(AgentEvent::CallerSpeechStopped);
        }
    }

    /// The engine says so, where it finds the turns.
    pub(super) fn told(&mut self, speaks: bool) {
        self.speaks = speaks;
    }

    /// Words that replace each other until the real ones come.
    pub(super) fn interim(&mut self, text: &str, events: &mut Vec<AgentEvent>) {
        let text = format!("{} {}", self.words.so_far(), text.trim());
        if !text.trim().is_empty() {
            events.push(AgentEvent::PartialTranscript { text: text.trim().to_owned(), utterance: None });
        }
    }

    pub(super) fn said(&mut self, fragment: &str, finished: bool, events: &mut Vec<AgentEvent>) {
        if finished && !self.reported.is_empty() && fragment.trim() == self.reported {
            return;
        }
        self.words.push(fragment);
        if finished {
            self.report(events);
        } else if !fragment.trim().is_empty() {
            let text = self.words.so_far().to_owned();
            events.push(AgentEvent::PartialTranscript { text, utterance: None });
        }
    }

    /// No more words of this turn are waited for.
    pub(super) fn report(&mut self, events: &mut Vec<AgentEvent>) {
        if let Some(text) = self.words.take() {
            self.reported.clone_from(&text);
            events.push(AgentEvent::Transcript { speaker: Speaker::Caller, text, utterance: None });
        }
    }

    /// The same words again are now said again.
    pub(super) fn new_turn(&mut self) {
        self.reported.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(fragments: &[&str]) -> String {
        let mut words = Words::default();
        fragments.iter().for_each(|fragment| words.push(fragment));
        words.take().unwrap_or_default()
    }

    #[test]
    fn fragments_are_joined_as_they_come_and_a_repetition_of_all_replaces_them() {
        assert_eq!(joined(&[" I", " would", " like to"]), "I would like to");
        assert_eq!(joined(&[" five", " five", "5", "5"]), "five five55");
        assert_eq!(
            joined(&[" I would like to come", " I would like to come tomorrow"]),
            "I would like to come tomorrow"
        );
        assert_eq!(joined(&["  "]), "");
    }

    #[test]
    fn words_have_a_limit() {
        let mut words = Words::default();
        (0..WORDS_BYTES_MAX).for_each(|_| words.push("ää ö"));
        assert!(words.take().unwrap().len() <= WORDS_BYTES_MAX);
    }
}
