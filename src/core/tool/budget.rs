//! How many tools an agent may use before the caller is heard again.
//!
//! A caller who waits through a chain of look-ups hears silence; so both limits are hard, and both
//! are per turn of the caller, not per message of the provider. Every call counts when it arrives, refused ones too: a model
//! in circles keeps the caller waiting as well. Look-ups count when they run.

use std::{collections::VecDeque, fmt};

/// The turns whose counts are kept. Calls are admitted for the turn that is under way; one more is
/// kept for a call that was decoded just before the caller spoke.
const TURNS_MAX: usize = 2;

/// The limits of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budgets {
    /// Calls of tools that look something up.
    pub retrieval: u32,
    /// Calls of any tool, those that look something up included.
    pub total: u32,
}

impl Default for Budgets {
    /// Two look-ups at their usual 0.8 s are the silence a caller bears; a third call leaves room
    /// for the action that follows from them.
    fn default() -> Self {
        Self { retrieval: 2, total: 3 }
    }
}

/// Which limit stopped a call; printed, it is the message the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    Retrieval { max: u32 },
    Total { max: u32 },
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retrieval { max } => write!(f, "Voice retrieval budget exceeded (max {max} per turn)"),
            Self::Total { max } => write!(f, "Voice call budget exceeded (max {max} per turn)"),
        }
    }
}

/// What one call has spent in its last turns.
#[derive(Debug)]
pub struct Spending {
    budgets: Budgets,
    /// Oldest first.
    turns: VecDeque<Turn>,
}

#[derive(Debug)]
struct Turn {
    id: String,
    retrieval: u32,
    total: u32,
}

impl Spending {
    pub const fn new(budgets: Budgets) -> Self {
        Self { budgets, turns: VecDeque::new() }
    }

    /// Whether the turn has room for a call that has arrived. Changes nothing.
    pub fn check(&self, turn: &str, is_retrieval: bool) -> Result<(), Exceeded> {
        let spent = self.turns.iter().find(|known| known.id == turn);
        let (retrieval, total) = spent.map_or((0, 0), |spent| (spent.retrieval, spent.total));
        let Budgets { retrieval: retrieval_max, total: total_max } = self.budgets;
        if is_retrieval && retrieval >= retrieval_max {
            return Err(Exceeded::Retrieval { max: retrieval_max });
        }
        if total > total_max {
            return Err(Exceeded::Total { max: total_max });
        }
        Ok(())
    }

    /// Counts a call, whatever becomes of it.
    pub fn arrives(&mut self, turn: &str) {
        let spent = self.turn(turn);
        spent.total = spent.total.saturating_add(1);
    }

    /// Counts a look-up that begins to run.
    pub fn looks_up(&mut self, turn: &str) {
        let spent = self.turn(turn);
        spent.retrieval = spent.retrieval.saturating_add(1);
    }

    fn turn(&mut self, turn: &str) -> &mut Turn {
        let known = self.turns.iter().position(|known| known.id == turn);
        let at = known.unwrap_or_else(|| {
            if self.turns.len() == TURNS_MAX {
                self.turns.pop_front();
            }
            self.turns.push_back(Turn { id: turn.to_owned(), retrieval: 0, total: 0 });
            self.turns.len() - 1
        });
        &mut self.turns[at]
    }

    /// Takes back a call that waits for the caller's words, and arrives again then.
    pub fn waits(&mut self, turn: &str) {
        let spent = self.turn(turn);
        spent.total = spent.total.saturating_sub(1);
    }

    /// Takes back a look-up that did not run after all: another gate stopped it.
    pub fn give_back(&mut self, turn: &str) {
        let spent = self.turn(turn);
        spent.retrieval = spent.retrieval.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK_UP: bool = true;
    const ACT: bool = false;

    /// P14, P22: the third look-up of a turn is stopped with the document's words, an action still
    /// goes through.
    #[test]
    fn two_look_ups_a_turn() {
        let mut spending = Spending::new(Budgets::default());
        for _ in 0..2 {
            spending.arrives("1");
            assert_eq!(spending.check("1", LOOK_UP), Ok(()));
            spending.looks_up("1");
        }
        spending.arrives("1");
        let stopped = spending.check("1", LOOK_UP).unwrap_err();
        assert_eq!(stopped.to_string(), "Voice retrieval budget exceeded (max 2 per turn)");
        assert_eq!(spending.check("1", ACT), Ok(()));
    }

    /// P22: the fourth call of a turn is stopped, whatever it is.
    #[test]
    fn three_calls_a_turn() {
        let mut spending = Spending::new(Budgets::default());
        for kind in [ACT, LOOK_UP, ACT] {
            spending.arrives("1");
            assert_eq!(spending.check("1", kind), Ok(()), "whether the others ran or were refused");
        }
        for kind in [ACT, LOOK_UP] {
            spending.arrives("1");
            let stopped = spending.check("1", kind).unwrap_err();
            assert_eq!(stopped.to_string(), "Voice call budget exceeded (max 3 per turn)");
        }
    }

    /// P22: a call that waits for the caller's words arrives once.
    #[test]
    fn a_call_that_waits_costs_once() {
        let mut spending = Spending::new(Budgets { retrieval: 1, total: 1 });
        for _ in 0..10 {
            spending.arrives("1");
            assert_eq!(spending.check("1", LOOK_UP), Ok(()));
            spending.waits("1");
        }
        (0..2).for_each(|_| spending.arrives("1"));
        assert!(spending.check("1", LOOK_UP).is_err());
    }

    /// P22: the caller's next turn has the whole budget, and a call that belongs to the former one
    /// still finds that one's spent.
    #[test]
    fn each_turn_of_the_caller_has_its_own_budget() {
        let mut spending = Spending::new(Budgets::default());
        (0..4).for_each(|_| spending.arrives("1"));
        spending.arrives("2");
        assert_eq!(spending.check("2", ACT), Ok(()));
        assert!(spending.check("1", ACT).is_err());
        for turn in 3..100 {
            spending.arrives(&turn.to_string());
        }
        assert_eq!(spending.turns.len(), TURNS_MAX);
    }

    #[test]
    fn limits_are_the_operators_and_named_in_the_words() {
        let none = Spending::new(Budgets { retrieval: 0, total: 5 });
        assert_eq!(
            none.check("1", LOOK_UP).unwrap_err().to_string(),
            "Voice retrieval budget exceeded (max 0 per turn)"
        );
        assert_eq!(none.check("1", ACT), Ok(()));
    }
}
