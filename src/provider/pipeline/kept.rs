//! What is kept of the caller's words for a listener that takes over before they are known.

use crate::{call::TURN_KEPT, stt::Hear};

/// In frames of 20 ms.
pub(super) const KEPT_MAX: usize = TURN_KEPT.as_millis() as usize / 20;

/// Since the beginning of the oldest turn whose words are not known.
#[derive(Default)]
pub(super) struct Kept {
    hears: Vec<Hear>,
    /// Audio that is not kept any more.
    pub forgotten: usize,
}

impl Kept {
    pub fn keep(&mut self, hear: Hear) {
        match hear {
            Hear::TurnDropped => self.drop_open_turn(),
            Hear::Audio(_) if self.hears.is_empty() => {}
            hear => self.hears.push(hear),
        }
        if self.hears.len() > KEPT_MAX
            && let Some(oldest) = self.hears.iter().position(|hear| matches!(hear, Hear::Audio(_)))
        {
            self.hears.remove(oldest);
            self.forgotten += 1;
        }
    }

    /// One that has ended still waits for its words.
    fn drop_open_turn(&mut self) {
        let of = |kind: Hear| self.hears.iter().rposition(|hear| *hear == kind);
        if let Some(began) = of(Hear::TurnBegan).filter(|began| of(Hear::TurnEnded).is_none_or(|ended| ended < *began))
        {
            self.hears.truncate(began);
        }
        if self.hears.is_empty() {
            self.forgotten = 0;
        }
    }

    /// The words of the oldest turn have come, of which everything was forgotten first.
    pub fn turn_is_known(&mut self) {
        let ended = self.hears.iter().position(|hear| *hear == Hear::TurnEnded);
        self.hears.drain(..ended.map_or(0, |at| at + 1));
        self.forgotten = 0;
    }

    /// All of it in few pieces of at most so many bytes: services queue pieces, not time.
    pub fn told_again(&self, bytes: usize) -> Vec<Hear> {
        let mut joined: Vec<Hear> = Vec::new();
        for hear in &self.hears {
            match (joined.last_mut(), hear) {
                (Some(Hear::Audio(before)), Hear::Audio(more)) if before.len() + more.len() <= bytes => {
                    *before = [&before[..], &more[..]].concat().into();
                }
                _ => joined.push(hear.clone()),
            }
        }
        joined
    }
}
