//! One answer of a pipeline, from the first token to the last sample.

use super::clauses::Cutter;
use crate::{
    call::{ResponseId, ResponseStatus},
    llm::Order,
    tool::ToolCall,
};
use bytes::Bytes;
use std::{collections::VecDeque, time::Duration};

/// Asks for one answer, where models answer without saying anything or break off. Each ask has its own fall-backs and
/// retries.
pub(super) const ASKS_MAX: u32 = 2;
/// Tool calls of one answer; more is no answer to a caller.
pub(super) const CALLS_MAX: usize = 32;
/// Text of one answer: some ten minutes of speech, which no caller listens to.
pub(super) const ANSWER_CHARS_MAX: usize = 10_000;

pub(super) struct Answer {
    pub response: ResponseId,
    /// The words that it answers, if they may not be all: nothing of it is told then.
    pub guess: Option<String>,
    /// What it is to be, if it is no answer to the conversation.
    pub order: Option<Order>,
    /// It is the rest of one that broke off after the caller had heard its beginning.
    pub rest: bool,
    /// The model is writing it.
    pub ask: Option<u64>,
    /// How often a model was asked.
    pub asked: u32,
    /// Of its text so far.
    pub chars: usize,
    cutter: Cutter,
    /// What was not heard to its end yet.
    pub clauses: VecDeque<Clause>,
    /// A clause was written.
    wrote: bool,
    /// Something of it is on its way to the caller.
    pub heard: bool,
    pub calls: Vec<ToolCall>,
    pub status: ResponseStatus,
}

/// A clause on its way from the model to the caller.
pub(super) struct Clause {
    pub id: u64,
    pub text: String,
    /// The voice is speaking it.
    pub asked: bool,
    /// The voice has spoken it.
    pub done: bool,
    /// Something of it was spoken.
    pub sounded: bool,
    /// It is in the history.
    pub told: bool,
    /// What was spoken and is not told yet: one before it is being told, or the answer is a guess.
    pub held: VecDeque<(Bytes, Duration)>,
}

impl Answer {
    pub fn new(response: ResponseId, guess: Option<String>, order: Option<Order>) -> Self {
        Self {
            response,
            guess,
            order,
            rest: false,
            ask: None,
            asked: 0,
            chars: 0,
            cutter: Cutter::default(),
            clauses: VecDeque::new(),
            wrote: false,
            heard: false,
            calls: Vec::new(),
            status: ResponseStatus::Completed,
        }
    }

    pub fn is_guess(&self) -> bool {
        self.guess.is_some()
    }

    /// It answers these very words. How they are punctuated changes no answer.
    pub fn guesses(&self, text: &str) -> bool {
        let words = |text: &str| {
            let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
            words.map(str::to_lowercase).collect::<Vec<_>>()
        };
        self.guess.as_ref().is_some_and(|guess| words(guess) == words(text))
    }

    /// Neither a word nor a call came of it.
    pub fn is_empty(&self) -> bool {
        !self.wrote && self.calls.is_empty()
    }

    /// The model broke off, and nobody has heard a word of it.
    pub fn begin_anew(&mut self) {
        self.cutter = Cutter::default();
        self.clauses.clear();
        self.calls.clear();
        (self.wrote, self.chars) = (false, 0);
    }

    pub fn write(&mut self, text: &str, ids: &mut u64) {
        self.chars += text.len();
        let mut clauses = Vec::new();
        self.cutter.push(text, &mut clauses);
        self.append(clauses, ids);
    }

    /// The model is done.
    pub fn written(&mut self, ids: &mut u64) {
        let mut clauses = Vec::new();
        self.cutter.finish(&mut clauses);
        self.append(clauses, ids);
    }

    fn append(&mut self, clauses: Vec<String>, ids: &mut u64) {
        for text in clauses {
            *ids += 1;
            self.wrote = true;
            self.clauses.push_back(Clause {
                id: *ids,
                text,
                asked: false,
                done: false,
                sounded: false,
                told: false,
                held: VecDeque::new(),
            });
        }
    }

    /// The next clause that the voice is to speak, while it speaks no more than `ahead`.
    pub fn next_to_speak(&self, ahead: usize) -> Option<usize> {
        let at = self.clauses.iter().position(|clause| !clause.asked)?;
        (at < ahead).then_some(at)
    }
}

impl Clause {
    pub fn hold(&mut self, audio: Bytes, length: Duration) {
        self.sounded = true;
        self.held.push_back((audio, length));
    }
}
