//! Notices an agent that goes in circles: the same call a third time in one turn, or one more call
//! to a tool that has found nothing twice.
//!
//! One [`LoopGuard`] belongs to one call. A turn is the caller's; its id is the engine's. What the
//! caller says next can make the same call sensible again, so turns are counted apart; the last
//! few are kept because a result may come when the next turn has begun.

use super::canonical::arguments_digest;
use serde_json::{Map, Value};
use std::collections::VecDeque;

/// Counting from this one, a call equal to others of its turn is a loop.
const SAME_CALLS_MAX: usize = 3;
/// After as many empty results of a tool, calling it again in that turn is a loop.
const EMPTY_RESULTS_MAX: usize = 2;
/// Turns remembered: a tool that outlives five of them is not waited for anyway.
const TURNS_MAX: usize = 5;
/// Calls and empty results remembered per turn. Budgets allow about ten calls, so this is met only
/// where an operator lifted them; the oldest is then forgotten and counted.
const ENTRIES_MAX: usize = 64;

/// Why a call is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    pub kind: LoopKind,
    /// How often it has happened, this call included when it is the call that repeats.
    pub count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoopKind {
    SameCallRepeated,
    EmptyResultsRepeated,
}

impl LoopKind {
    /// `loopType` in the details of the error.
    pub const fn label(self) -> &'static str {
        match self {
            Self::SameCallRepeated => "SAME_CALL_REPEATED",
            Self::EmptyResultsRepeated => "EMPTY_RESULTS_REPEATED",
        }
    }
}

impl Loop {
    /// What the model reads: what happened and what else to do.
    pub fn message(self, tool: &str) -> String {
        let count = self.count;
        match self.kind {
            LoopKind::SameCallRepeated => {
                format!(
                    "{tool} was called {count} times with the same arguments; ask for something else or go on without it"
                )
            }
            LoopKind::EmptyResultsRepeated => {
                format!("{tool} found nothing {count} times; go on without it")
            }
        }
    }
}

/// The calls of a call's last turns.
#[derive(Debug, Default)]
pub struct LoopGuard {
    /// Oldest first.
    turns: VecDeque<Turn>,
    forgotten: u64,
}

#[derive(Debug)]
struct Turn {
    id: String,
    calls: VecDeque<(String, [u8; 32])>,
    /// The tool of each empty result.
    empty: VecDeque<String>,
}

impl LoopGuard {
    /// Whether this call would close a loop. Changes nothing: a call that is stopped elsewhere
    /// does not count.
    pub fn check(&self, turn: &str, tool: &str, arguments: &Map<String, Value>) -> Option<Loop> {
        let turn = self.turns.iter().find(|known| known.id == turn)?;
        let digest = arguments_digest(arguments);
        let same = turn.calls.iter().filter(|(name, known)| name == tool && *known == digest).count() + 1;
        if same >= SAME_CALLS_MAX {
            return Some(Loop { kind: LoopKind::SameCallRepeated, count: same });
        }
        let empty = turn.empty.iter().filter(|name| *name == tool).count();
        (empty >= EMPTY_RESULTS_MAX).then_some(Loop { kind: LoopKind::EmptyResultsRepeated, count: empty })
    }

    /// Counts a call that begins to run.
    pub fn count(&mut self, turn: &str, tool: &str, arguments: &Map<String, Value>) {
        let entry = (tool.to_owned(), arguments_digest(arguments));
        let dropped = push(&mut self.turn(turn).calls, entry);
        self.forgotten += u64::from(dropped);
    }

    /// Notes that a call of this turn worked and brought nothing, which [`is_empty`] tells. Errors
    /// are no empty results. A turn that is no longer remembered stays forgotten.
    pub fn found_nothing(&mut self, turn: &str, tool: &str) {
        if let Some(known) = self.turns.iter_mut().find(|known| known.id == turn) {
            let dropped = push(&mut known.empty, tool.to_owned());
            self.forgotten += u64::from(dropped);
        }
    }

    /// Calls and empty results dropped because a turn held too many.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn turn(&mut self, id: &str) -> &mut Turn {
        let index = self.turns.iter().position(|known| known.id == id).unwrap_or_else(|| {
            if self.turns.len() == TURNS_MAX {
                self.turns.pop_front();
            }
            self.turns.push_back(Turn { id: id.to_owned(), calls: VecDeque::new(), empty: VecDeque::new() });
            self.turns.len() - 1
        });
        &mut self.turns[index]
    }
}

/// Appends; `true` if the oldest had to go.
fn push<T>(list: &mut VecDeque<T>, entry: T) -> bool {
    let full = list.len() == ENTRIES_MAX;
    if full {
        list.pop_front();
    }
    list.push_back(entry);
    full
}

/// Whether the data of a call that worked says nothing: missing, blank text, an empty list or
/// object, or an object whose `results` are an empty list. Zero and `false` are answers.
pub fn is_empty(data: &Value) -> bool {
    match data {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => {
            object.is_empty() || object.get("results").and_then(Value::as_array).is_some_and(Vec::is_empty)
        }
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arguments(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    /// P answer 12: the third call of a turn with the same tool and the same arguments, however spelled,
    /// is a loop; another tool, other arguments or another turn is none.
    #[test]
    fn the_third_equal_call_of_a_turn_is_a_loop() {
        let mut guard = LoopGuard::default();
        let spelled = arguments(r#"{"query": "opening hours", "top_k": 3}"#);
        let otherwise = arguments(r#"{"top_k":3.0,"query":"opening\u0020hours"}"#);
        for call in [&spelled, &otherwise] {
            assert_eq!(guard.check("1", "kb_search", call), None);
            guard.count("1", "kb_search", call);
        }
        let found = guard.check("1", "kb_search", &spelled);
        assert_eq!(found, Some(Loop { kind: LoopKind::SameCallRepeated, count: 3 }));
        assert_eq!(found.unwrap().kind.label(), "SAME_CALL_REPEATED");
        assert_eq!(guard.check("1", "kb_get", &spelled), None, "another tool");
        assert_eq!(guard.check("1", "kb_search", &arguments(r#"{"query":"prices"}"#)), None, "other arguments");
        assert_eq!(guard.check("2", "kb_search", &spelled), None, "another turn");
        assert_eq!(LoopGuard::default().check("1", "kb_search", &spelled), None, "another call");
    }

    /// P answer 12: checking is not counting, so what policy stops elsewhere is no repetition.
    #[test]
    fn a_call_that_was_only_checked_does_not_count() {
        let mut guard = LoopGuard::default();
        guard.count("1", "t", &Map::new());
        for _ in 0..10 {
            assert_eq!(guard.check("1", "t", &Map::new()), None);
        }
    }

    /// P answer 12: after two empty results a tool is not called again in that turn, whatever the arguments.
    #[test]
    fn a_tool_that_found_nothing_twice_is_not_asked_again() {
        let mut guard = LoopGuard::default();
        for query in ["a", "b"] {
            let call = arguments(&format!(r#"{{"query":"{query}"}}"#));
            assert_eq!(guard.check("1", "kb_search", &call), None);
            guard.count("1", "kb_search", &call);
            guard.found_nothing("1", "kb_search");
        }
        let next = arguments(r#"{"query":"c"}"#);
        let found = guard.check("1", "kb_search", &next).unwrap();
        assert_eq!(found, Loop { kind: LoopKind::EmptyResultsRepeated, count: 2 });
        assert_eq!(found.kind.label(), "EMPTY_RESULTS_REPEATED");
        assert_eq!(guard.check("1", "kb_get", &next), None);
        assert_eq!(guard.check("2", "kb_search", &next), None);
    }

    #[test]
    fn a_result_that_comes_late_counts_for_its_own_turn() {
        let mut guard = LoopGuard::default();
        guard.count("1", "t", &Map::new());
        guard.count("2", "t", &Map::new());
        guard.found_nothing("1", "t");
        guard.found_nothing("1", "t");
        assert!(guard.check("1", "t", &arguments(r#"{"n":1}"#)).is_some());
        assert_eq!(guard.check("2", "t", &arguments(r#"{"n":1}"#)), None);
    }

    #[test]
    fn nothing_is_told_from_something() {
        for empty in [json!(null), json!(""), json!(" \n"), json!([]), json!({}), json!({ "results": [], "took": 3 })] {
            assert!(is_empty(&empty), "{empty}");
        }
        for full in
            [json!(0), json!(false), json!("x"), json!([null]), json!({ "count": 0 }), json!({ "results": [1] })]
        {
            assert!(!is_empty(&full), "{full}");
        }
    }

    #[test]
    fn only_the_last_five_turns_and_so_many_calls_are_kept() {
        let mut guard = LoopGuard::default();
        for turn in 0..100 {
            let turn = turn.to_string();
            guard.count(&turn, "t", &Map::new());
            guard.count(&turn, "t", &Map::new());
        }
        assert_eq!(guard.turns.len(), TURNS_MAX);
        assert!(guard.check("95", "t", &Map::new()).is_some(), "the fifth last is known");
        assert_eq!(guard.check("94", "t", &Map::new()), None, "the sixth last is forgotten");
        guard.found_nothing("94", "t");
        assert_eq!(guard.turns.len(), TURNS_MAX, "a forgotten turn does not come back");
        for n in 0..ENTRIES_MAX {
            guard.count("99", "t", &arguments(&format!(r#"{{"n":{n}}}"#)));
            guard.found_nothing("99", "t");
        }
        let turn = guard.turns.back().unwrap();
        assert_eq!((turn.calls.len(), turn.empty.len()), (ENTRIES_MAX, ENTRIES_MAX));
        assert_eq!(guard.forgotten(), 2, "the two calls from before");
    }
}
