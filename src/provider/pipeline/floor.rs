//! Who has the turn, as the call says, and what the listener is told of it.

use crate::{call::CallerTurn, stt::Hear};

#[derive(Default)]
pub(super) struct Floor {
    turn: Turn,
    /// Turns that are over and whose words are not known yet …
    unheard: u32,
    /// … and those before them for whose words nobody waits any more.
    late: u32,
}

/// Of what turn words are, which come in the order of the turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// They were waited for.
    Awaited,
    /// Something else was said meanwhile, and they are answered with the next turn.
    Late,
    /// Nobody asked for them.
    OfNoTurn,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Nobody,
    /// It is not decided whether the caller takes it. `asked`: the listener was asked for its words, and hears no end of them.
    Undecided {
        asked: bool,
    },
    Caller {
        may_end: bool,
    },
}

impl Floor {
    /// What the listener is told of this.
    pub fn turn(&mut self, turn: CallerTurn) -> Vec<Hear> {
        match turn {
            CallerTurn::MayBegin => self.begins(Turn::Undecided { asked: false }),
            CallerTurn::WordsWanted => self.words_wanted(),
            CallerTurn::WasNone => Vec::from_iter(self.was_none()),
            CallerTurn::Began => self.begins(Turn::Caller { may_end: false }),
            CallerTurn::MayEnd => {
                self.turn = Turn::Caller { may_end: true };
                vec![Hear::TurnMayEnd]
            }
            CallerTurn::GoesOn => {
                self.turn = Turn::Caller { may_end: false };
                vec![Hear::TurnGoesOn]
            }
            CallerTurn::Ended => {
                self.turn = Turn::Nobody;
                self.unheard += 1;
                vec![Hear::TurnEnded]
            }
        }
    }

    fn begins(&mut self, turn: Turn) -> Vec<Hear> {
        match (std::mem::replace(&mut self.turn, turn), turn) {
            // It was undecided and is one: what was said counts.
            (Turn::Undecided { asked }, Turn::Caller { .. }) => Vec::from_iter(asked.then_some(Hear::TurnGoesOn)),
            (Turn::Nobody, _) => vec![Hear::TurnBegan],
            _ => vec![Hear::TurnDropped, Hear::TurnBegan],
        }
    }

    fn words_wanted(&mut self) -> Vec<Hear> {
        let Turn::Undecided { asked } = &mut self.turn else { return Vec::new() };
        let again = std::mem::replace(asked, true).then_some(Hear::TurnGoesOn);
        again.into_iter().chain([Hear::TurnMayEnd]).collect()
    }

    /// Nobody has the turn, whose words nobody wants to know. A farewell may have seen to that already.
    pub fn was_none(&mut self) -> Option<Hear> {
        (std::mem::take(&mut self.turn) != Turn::Nobody).then_some(Hear::TurnDropped)
    }

    /// The words of a turn are known.
    pub fn words_came(&mut self) -> Words {
        for (turns, words) in [(&mut self.late, Words::Late), (&mut self.unheard, Words::Awaited)] {
            if *turns > 0 {
                *turns -= 1;
                return words;
            }
        }
        Words::OfNoTurn
    }

    /// Nobody waits for the words of the turns that are over.
    pub fn forget_words(&mut self) {
        self.late += std::mem::take(&mut self.unheard);
    }

    pub fn awaits_words(&self) -> bool {
        self.unheard > 0
    }

    pub fn is_callers(&self) -> bool {
        matches!(self.turn, Turn::Caller { .. })
    }

    /// A pause of the caller, which may be the end of the turn.
    pub fn may_become_free(&self) -> bool {
        self.turn == Turn::Caller { may_end: true }
    }

    /// The agent may speak: the caller has said all, and its words are known.
    pub fn is_free(&self) -> bool {
        !self.is_callers() && !self.awaits_words()
    }
}
