//! The conversation as the model is shown it: what was said, heard and done, and nothing else.
//!
//! Invariants: an answer is kept as far as the caller heard it; a result follows its call, and neither is dropped
//! without the other; the whole stays within a budget, beyond which the oldest turns give way, to a summary if there are any.

use crate::{call::ResponseId, llm::Message, tool::ToolCall};
use std::{collections::VecDeque, time::Duration};

/// Marks what the caller did not say.
const NOT_UNDERSTOOD: &str = "(The caller said something that could not be understood.)";
/// What stands for an answer of which nothing was heard, where its calls have to stay.
const CUT_OFF: &str = "…";
/// Part of the budget that is left after older turns gave way, so that this does not happen with every turn.
const KEPT_PERCENT: usize = 60;
/// Part of the budget that the end of what gave way takes, until it is summed up.
const STAND_IN_PERCENT: usize = 20;
/// What a character takes to be spoken, about: 15 in a second.
const A_CHARACTER: Duration = Duration::from_millis(66);
/// Of one summary; it is asked to be short.
const SUMMARY_CHARS_MAX: usize = 2_000;

#[derive(Debug)]
enum Entry {
    Caller(String),
    Note(String),
    Agent(Said),
    Result { call_id: String, output: String },
}

/// One answer.
#[derive(Debug)]
struct Said {
    response: ResponseId,
    clauses: Vec<Clause>,
    calls: Vec<ToolCall>,
    /// The caller interrupted it.
    cut: bool,
}

#[derive(Debug)]
struct Clause {
    text: String,
    length: Duration,
}

#[derive(Debug)]
pub(super) struct History {
    prompt: String,
    summary: Option<String>,
    entries: VecDeque<Entry>,
    chars_max: usize,
}

impl History {
    /// `chars_max`: of all that is shown beside the prompt. Four characters are about one token.
    pub(super) fn new(prompt: String, chars_max: usize) -> Self {
        Self { prompt, summary: None, entries: VecDeque::new(), chars_max }
    }

    /// All of it.
    pub(super) fn messages(&self) -> Vec<Message> {
        let prompt = Some(&self.prompt).filter(|prompt| !prompt.is_empty()).cloned();
        let summary = self.summary.as_ref().map(|summary| format!("What was said before, in short: {summary}"));
        let head = prompt.into_iter().chain(summary).map(Message::System);
        let body = self.entries.iter().flat_map(Entry::message);
        head.chain(body).collect()
    }

    pub(super) fn caller_said(&mut self, text: &str) {
        let text = if text.is_empty() { NOT_UNDERSTOOD } else { text };
        // A turn that nobody answered and the one after it are one.
        if let Some(Entry::Caller(before)) = self.entries.back_mut() {
            before.push(' ');
            before.push_str(text);
            return;
        }
        self.entries.push_back(Entry::Caller(text.to_owned()));
    }

    pub(super) fn note(&mut self, text: String) {
        self.entries.push_back(Entry::Note(text));
    }

    pub(super) fn result(&mut self, call_id: String, output: String) {
        let calls =
            |entry: &Entry| matches!(entry, Entry::Agent(said) if said.calls.iter().any(|call| call.id == call_id));
        let entry = match self.entries.iter().any(calls) {
            true => Entry::Result { call_id, output },
            // Its turn has given way already.
            false => Entry::Note(format!("A result that came late: {output}")),
        };
        self.entries.push_back(entry);
    }

    /// An answer begins.
    pub(super) fn answers(&mut self, response: ResponseId) {
        let said = Said { response, clauses: Vec::new(), calls: Vec::new(), cut: false };
        self.entries.push_back(Entry::Agent(said));
    }

    /// A clause of it is being spoken.
    pub(super) fn says(&mut self, response: &str, text: String) {
        if let Some(said) = self.said(response) {
            said.clauses.push(Clause { text, length: Duration::ZERO });
        }
    }

    /// So much more of its newest clause was spoken.
    pub(super) fn spoke(&mut self, response: &str, length: Duration) {
        if let Some(clause) = self.said(response).and_then(|said| said.clauses.last_mut()) {
            clause.length += length;
        }
    }

    /// Its newest clause is not spoken to its end: it will be about as long as its text.
    pub(super) fn goes_on(&mut self, response: &str) {
        if let Some(clause) = self.said(response).and_then(|said| said.clauses.last_mut()) {
            clause.length = clause.length.max(A_CHARACTER * clause.text.chars().count() as u32);
        }
    }

    pub(super) fn calls(&mut self, response: &str, calls: &[ToolCall]) {
        if let Some(said) = self.said(response) {
            said.calls.extend_from_slice(calls);
        }
    }

    /// The caller interrupted, having heard so much of it; what they did not hear was not said.
    pub(super) fn heard(&mut self, response: &str, heard: Duration) {
        if let Some(said) = self.said(response) {
            said.cut_at(heard);
        }
        let is_empty = |entry: &Entry| matches!(entry, Entry::Agent(said) if said.clauses.is_empty() && said.calls.is_empty() && *said.response == *response);
        self.entries.retain(|entry| !is_empty(entry));
    }

    /// The whole text of an answer, as far as it was heard.
    pub(super) fn text_of(&mut self, response: &str) -> String {
        self.said(response).map(|said| said.text()).unwrap_or_default()
    }

    fn said(&mut self, response: &str) -> Option<&mut Said> {
        self.entries.iter_mut().rev().find_map(|entry| match entry {
            Entry::Agent(said) if *said.response == *response => Some(said),
            _ => None,
        })
    }

    // ---- The budget ----

    fn chars(&self) -> usize {
        self.entries.iter().map(Entry::chars).sum::<usize>() + self.summary.as_ref().map_or(0, String::len)
    }

    /// What has to give way by now, as one text that can be summed up; it is gone from the conversation. Whole turns
    /// only: neither a call without its result, nor an answer without what it answers.
    pub(super) fn give_way(&mut self) -> Option<String> {
        if self.chars() <= self.chars_max {
            return None;
        }
        let target = self.chars_max * KEPT_PERCENT / 100;
        let next_turn =
            |entries: &VecDeque<Entry>| entries.iter().skip(1).position(|entry| matches!(entry, Entry::Caller(_)));
        // The newest turn stays, however long it is.
        next_turn(&self.entries)?;
        let mut gone = self.summary.take().unwrap_or_default();
        while self.chars() > target
            && let Some(next) = next_turn(&self.entries)
        {
            for entry in self.entries.drain(..=next) {
                if !gone.is_empty() {
                    gone.push('\n');
                }
                gone.push_str(&entry.line());
            }
        }
        // Results of calls that are gone would follow nothing.
        let calls = |entry: &Entry| match entry {
            Entry::Agent(said) => said.calls.iter().map(|call| call.id.clone()).collect(),
            _ => Vec::new(),
        };
        let kept: Vec<String> = self.entries.iter().flat_map(calls).collect();
        self.entries.retain(|entry| !matches!(entry, Entry::Result { call_id, .. } if !kept.contains(call_id)));
        // Until there is a better one, the end of it stands for all.
        let from = gone.ceil_char_boundary(gone.len().saturating_sub(self.chars_max * STAND_IN_PERCENT / 100));
        self.summary = Some(gone[from..].to_owned());
        Some(gone)
    }

    /// Nothing stands for what gave way.
    pub(super) fn forget(&mut self) {
        self.summary = None;
    }

    /// The end of it counts, if it is too long.
    pub(super) fn summed_up(&mut self, summary: &str) {
        let surplus = summary.chars().count().saturating_sub(SUMMARY_CHARS_MAX);
        self.summary = Some(summary.chars().skip(surplus).collect());
    }
}

impl Entry {
    fn message(&self) -> Option<Message> {
        Some(match self {
            Self::Caller(text) => Message::Caller(text.clone()),
            Self::Note(text) => Message::System(text.clone()),
            Self::Agent(said) if said.clauses.is_empty() && said.calls.is_empty() => return None,
            Self::Agent(said) => Message::Agent { text: said.shown(), calls: said.calls.clone() },
            Self::Result { call_id, output } => Message::Result { call_id: call_id.clone(), output: output.clone() },
        })
    }

    fn chars(&self) -> usize {
        match self {
            Self::Caller(text) | Self::Note(text) => text.len(),
            Self::Agent(said) => {
                let words: usize = said.clauses.iter().map(|clause| clause.text.len()).sum();
                words + said.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>()
            }
            Self::Result { output, .. } => output.len(),
        }
    }

    fn line(&self) -> String {
        match self {
            Self::Caller(text) => format!("Caller: {text}"),
            Self::Note(text) => format!("Note: {text}"),
            Self::Agent(said) => {
                let calls = said.calls.iter().map(|call| format!(" [{} {}]", call.name, call.arguments));
                format!("Agent: {}{}", said.shown(), calls.collect::<String>())
            }
            Self::Result { output, .. } => format!("Result: {output}"),
        }
    }
}

impl Said {
    fn text(&self) -> String {
        self.clauses.iter().map(|clause| &*clause.text).collect::<Vec<_>>().join(" ")
    }

    /// As the model is shown it: it has to know that it was not heard to its end.
    fn shown(&self) -> String {
        let text = self.text();
        match (self.cut, text.is_empty()) {
            (false, _) => text,
            (true, true) => CUT_OFF.into(),
            (true, false) => format!("{text} {CUT_OFF}"),
        }
    }

    fn cut_at(&mut self, heard: Duration) {
        self.cut = true;
        let mut left = heard;
        let mut kept = Vec::new();
        for mut clause in self.clauses.drain(..) {
            if left >= clause.length && !clause.length.is_zero() {
                left -= clause.length;
                kept.push(clause);
                continue;
            }
            // Speech runs evenly enough to tell how many words of a clause were heard.
            let words: Vec<&str> = clause.text.split_whitespace().collect();
            let share = if clause.length.is_zero() { 0.0 } else { left.as_secs_f64() / clause.length.as_secs_f64() };
            let count = (words.len() as f64 * share) as usize;
            if count > 0 {
                clause.text = words[..count].join(" ");
                clause.length = left;
                kept.push(clause);
            }
            break;
        }
        self.clauses = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn history() -> History {
        History::new("Be brief.".into(), 10_000)
    }

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.into(), name: "look".into(), arguments: "{}".into() }
    }

    fn says(history: &mut History, response: &str, clauses: &[&str]) {
        history.answers(response.into());
        for clause in clauses {
            history.says(response, (*clause).into());
            history.spoke(response, SECOND);
        }
    }

    fn agent(text: &str) -> Message {
        Message::Agent { text: text.into(), calls: Vec::new() }
    }

    #[test]
    fn an_answer_is_kept_as_far_as_it_was_heard() {
        for (heard, kept) in [(3_000, "One two. Three four. …"), (1_500, "One two. Three …"), (900, "One …")] {
            let mut history = history();
            history.caller_said("Hello.");
            says(&mut history, "r1", &["One two.", "Three four."]);
            history.heard("r1", Duration::from_millis(heard));
            assert_eq!(history.messages()[2..], [agent(kept)], "{heard} ms");
        }
    }

    #[test]
    fn an_answer_of_which_nothing_was_heard_was_not_given() {
        let mut history = history();
        history.caller_said("Hello.");
        says(&mut history, "r1", &["One two."]);
        history.heard("r1", Duration::from_millis(100));
        history.caller_said("Are you there?");
        assert_eq!(history.messages()[1..], [Message::Caller("Hello. Are you there?".into())]);
    }

    #[test]
    fn calls_of_an_unheard_answer_stay_with_their_results() {
        let mut history = history();
        history.caller_said("Look.");
        says(&mut history, "r1", &["One moment."]);
        history.calls("r1", &[call("c1")]);
        history.result("c1".into(), "found".into());
        history.heard("r1", Duration::ZERO);
        let kept = [
            Message::Agent { text: "…".into(), calls: vec![call("c1")] },
            Message::Result { call_id: "c1".into(), output: "found".into() },
        ];
        assert_eq!(history.messages()[2..], kept);
    }

    #[test]
    fn beyond_the_budget_whole_turns_give_way_to_a_summary() {
        let mut history = History::new("Be brief.".into(), 400);
        for turn in 0..6 {
            history.caller_said(&format!("Question {turn} {}", "x".repeat(40)));
            says(&mut history, &format!("r{turn}"), &["Let me look."]);
            history.calls(&format!("r{turn}"), &[call(&format!("c{turn}"))]);
            history.result(format!("c{turn}"), "found".into());
        }
        let gone = history.give_way().expect("it is too much");
        assert!(gone.starts_with("Caller: Question 0") && gone.contains("[look {}]\nResult: found"), "{gone}");
        assert_eq!(history.give_way(), None);
        history.summed_up("They asked.");
        let messages = history.messages();
        assert_eq!(messages[1], Message::System("What was said before, in short: They asked.".into()));
        assert!(matches!(&messages[2], Message::Caller(_)), "{messages:?}");
        let calls = messages.iter().filter(|message| matches!(message, Message::Agent { .. })).count();
        let results = messages.iter().filter(|message| matches!(message, Message::Result { .. })).count();
        assert_eq!(calls, results);
        assert!(
            messages.iter().any(|message| matches!(message, Message::Caller(text) if text.starts_with("Question 5")))
        );
    }

    #[test]
    fn one_turn_that_is_too_long_stays() {
        let mut history = History::new(String::new(), 10);
        history.caller_said("a very long question");
        assert_eq!(history.give_way(), None);
        assert_eq!(history.messages().len(), 1);
    }

    #[test]
    fn what_was_not_understood_is_told_as_such() {
        let mut history = history();
        history.caller_said("");
        assert_eq!(history.messages()[1], Message::Caller(NOT_UNDERSTOOD.into()));
    }
}
