//! The caller's turns, and which turn a transcript belongs to.
//!
//! Transcripts come late: the words of the turn in which a question was provoked may arrive after
//! the question. They are no answer to it.

use super::CallPolicy;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

/// Utterances whose transcript may still come. More are a provider that does not transcribe.
const AWAITED_MAX: usize = 8;
/// A transcript that has not come by then does not come.
const TRANSCRIPT_MAX: Duration = Duration::from_secs(8);

#[derive(Debug, Default)]
pub struct Turns {
    number: u64,
    awaited: VecDeque<Utterance>,
    latest_words: Option<u64>,
}

#[derive(Debug)]
struct Utterance {
    /// The provider's own name of it, where it has one.
    id: Option<Arc<str>>,
    turn: u64,
    stopped: Option<Instant>,
    /// A decision still waits for its words.
    waited_for: bool,
}

impl Turns {
    /// Counts up; the first turn of the caller is 1, and what the agent does before is in turn 0.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// As budgets and keys name it.
    pub fn id(&self) -> String {
        format!("turn-{}", self.number)
    }

    pub fn began(&mut self, id: Option<Arc<str>>) {
        self.number += 1;
        if self.awaited.len() == AWAITED_MAX {
            self.awaited.pop_front();
        }
        self.awaited.push_back(Utterance { id, turn: self.number, stopped: None, waited_for: true });
    }

    /// The oldest turn that has no name yet is this one: names come in the order of the turns.
    pub fn named(&mut self, id: Arc<str>) {
        if let Some(unnamed) = self.awaited.iter_mut().find(|utterance| utterance.id.is_none()) {
            unnamed.id = Some(id);
        }
    }

    pub fn stopped(&mut self, now: Instant) {
        if let Some(last) = self.awaited.back_mut() {
            last.stopped.get_or_insert(now);
        }
    }

    /// A key is a turn of its own.
    pub fn pressed(&mut self) {
        self.number += 1;
    }

    /// The turn that a transcript belongs to; `None` if that cannot be told.
    pub fn transcribed(&mut self, id: Option<&str>, now: Instant) -> Option<u64> {
        self.forget(now);
        let named = |utterance: &Utterance| id.is_some() && utterance.id.as_deref() == id;
        // Transcripts without an id come in the order of the utterances.
        let at = self.awaited.iter().position(named).or_else(|| self.first_unnamed());
        self.latest_words = at.and_then(|at| self.awaited.remove(at)).map(|utterance| utterance.turn);
        self.latest_words
    }

    /// The turn of the latest transcript.
    pub const fn latest_words(&self) -> Option<u64> {
        self.latest_words
    }

    fn first_unnamed(&self) -> Option<usize> {
        self.awaited.iter().position(|utterance| utterance.id.is_none())
    }

    /// The caller has said something after turn `turn` that is not transcribed yet.
    pub fn awaits_words_after(&mut self, turn: u64, now: Instant) -> bool {
        self.forget(now);
        self.awaited.iter().any(|utterance| utterance.waited_for && utterance.turn > turn)
    }

    /// Nobody waits any more for the transcripts that are due; one that comes all the same still counts.
    pub fn give_up(&mut self) {
        self.awaited.iter_mut().for_each(|utterance| utterance.waited_for = false);
    }

    /// What was said is nobody's any more.
    pub fn forget_all(&mut self) {
        self.awaited.clear();
    }

    fn forget(&mut self, now: Instant) {
        let late = |since: Instant| now.saturating_duration_since(since) > TRANSCRIPT_MAX;
        self.awaited.retain(|utterance| utterance.stopped.is_none_or(|stopped| !late(stopped)));
    }
}

impl CallPolicy {
    /// Whether the latest words of the caller are of the turn that counts now, as far as that can be told.
    pub fn words_are_of_this_turn(&self) -> bool {
        self.turns.latest_words() == Some(self.turns.number())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // A hand-moved clock has to start somewhere.
mod tests {
    use super::*;

    #[test]
    fn a_late_transcript_belongs_to_the_turn_in_which_it_was_said() {
        let start = Instant::now();
        let mut turns = Turns::default();
        turns.began(Some("a".into()));
        turns.stopped(start);
        turns.began(Some("b".into()));
        assert!(turns.awaits_words_after(1, start));
        assert_eq!(turns.transcribed(Some("a"), start + Duration::from_secs(2)), Some(1));
        assert_eq!(turns.transcribed(Some("b"), start + Duration::from_secs(2)), Some(2));
        assert_eq!(turns.transcribed(Some("b"), start + Duration::from_secs(2)), None, "once");
        assert!(!turns.awaits_words_after(1, start));
    }

    #[test]
    fn without_ids_transcripts_are_taken_in_order_and_lost_ones_are_given_up() {
        let start = Instant::now();
        let mut turns = Turns::default();
        turns.began(None);
        turns.stopped(start);
        let later = start + TRANSCRIPT_MAX + Duration::from_secs(1);
        turns.began(None);
        assert_eq!(turns.transcribed(None, later), Some(2), "the first one's words never came");
    }
}
