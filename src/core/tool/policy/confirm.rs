//! The caller's yes to one call with these very arguments.
//!
//! ```text
//! ask ─▶ open ── put to the caller, and their next words are a yes ─▶ granted ── the same call with the token ─▶ spent
//!        ▲ ├── no, or an answer to something else ─▶ gone               ├── no ─▶ gone
//!        │ ├── 5 min ─▶ gone                                            └── 5 min ─▶ gone
//!        └─┴── neither yes nor no: it has to be put again
//! ```
//!
//! A yes belongs to what the caller heard last: to this question only where it was put since their last words, and nothing else
//! was said after it. One question at a time: were two open, nobody could tell to which of them a yes belongs.

use super::{
    judge::{Answer, words},
    read_back::{ReadBack, Wanted, read_back},
    rules::{Asker, ConfirmRules},
};
use crate::redact::Redacted;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use subtle::ConstantTimeEq as _;

/// Words of the agent kept to find the question in them: a minute of fast talk.
const SAID_BYTES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub struct Confirmations {
    open: Option<Question>,
    /// The provider tells what the agent said, so it can be held to it.
    agent_is_transcribed: bool,
}

#[derive(Debug)]
struct Question {
    /// 128 random bits in hex.
    token: Redacted<String>,
    tool: String,
    arguments: [u8; 32],
    expires: Timestamp,
    /// The caller's turn in which it was asked.
    asked_in: u64,
    preview: Redacted<String>,
    /// The preview as it is asked, with what comes before it.
    sentence: Redacted<String>,
    /// Words of the arguments, which the agent has to say when it puts the question.
    values: Redacted<BTreeSet<String>>,
    said: Said,
    by: By,
    /// The caller's turn in which the engine put it.
    put_in: Option<u64>,
    /// The caller's turn in which the model wanted it put.
    wanted_in: u64,
    granted: bool,
}

/// Words of the agent since the question was opened and since the caller's last words.
#[derive(Debug, Default)]
struct Said {
    /// Each with the number of the caller's turn before it.
    parts: VecDeque<(u64, Redacted<String>)>,
    /// The caller's turn with words that were neither yes nor no: they answered what was said before.
    answered_in: Option<u64>,
}

impl Said {
    fn add(&mut self, text: &str, turn: u64) {
        let start = (text.len().saturating_sub(SAID_BYTES_MAX)..text.len()).find(|at| text.is_char_boundary(*at));
        self.parts.push_back((turn, text[start.unwrap_or(0)..].to_owned().into()));
        let bytes = |parts: &VecDeque<(u64, Redacted<String>)>| {
            parts.iter().map(|(_, text)| text.reveal().len()).sum::<usize>()
        };
        while bytes(&self.parts) > SAID_BYTES_MAX {
            self.parts.pop_front();
        }
    }

    /// Words of the agent that the caller answers in this turn.
    fn before(&self, turn: u64) -> String {
        let from = self.answered_in.unwrap_or(0);
        let parts = self.parts.iter().filter(|(said_in, _)| (from..turn).contains(said_in));
        parts.map(|(_, text)| text.reveal().as_str()).collect::<Vec<_>>().join(" ")
    }

    fn answered(&mut self, turn: u64) {
        self.answered_in = Some(turn);
        self.parts.retain(|(said_in, _)| *said_in >= turn);
    }
}

/// Who puts a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Agent,
    /// By a clip, of which is known whether it was heard.
    Engine {
        heard: bool,
    },
}

/// What a token is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// The caller said yes to this. It is spent now.
    Granted,
    /// It belongs to the open question, which the caller has not answered.
    Open,
    /// Forged, expired, spent, or for another call.
    Worthless,
}

/// What the caller's answer made of the open question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Granted,
    Declined,
    /// A yes before the caller can have known to what: the agent has to read the question out.
    Unheard,
}

/// What the caller is to be asked about.
pub struct Proposal<'a> {
    pub tool: &'a str,
    /// Digest of the canonical arguments.
    pub arguments: [u8; 32],
    /// The arguments without secrets.
    pub shown: Value,
    pub preview: String,
    /// The preview as it is asked.
    pub sentence: String,
    /// The engine asks it.
    pub by_engine: bool,
}

impl Confirmations {
    /// Opens a question and gives its `confirmation_request`; `None` while another one is open that
    /// was asked in this same turn.
    pub fn ask(
        &mut self,
        Proposal { tool, arguments, shown, preview, sentence, by_engine }: Proposal<'_>,
        turn: u64,
        now: Timestamp,
        rules: &ConfirmRules,
    ) -> Option<Value> {
        let other = |open: &Question| open.arguments != arguments || open.tool != tool;
        if let Some(open) = self.open.as_ref().filter(|open| open.granted && open.expires > now && !other(open)) {
            // The caller has said yes, and the model forgot the token: nobody is asked twice.
            return Some(open.request(shown));
        }
        if self.open.as_ref().is_some_and(|open| open.asked_in == turn && open.expires > now && other(open)) {
            return None;
        }
        // The same question once more: an answer that was given to it, and is only not transcribed yet,
        // still counts.
        let before = self.open.take().filter(|open| open.expires > now && !other(open));
        let by = if by_engine { By::Engine { heard: false } } else { By::Agent };
        let (asked_in, said, by, put_in) = match before {
            Some(Question { asked_in, said, by: by @ By::Engine { .. }, put_in, .. }) if by_engine => {
                (asked_in, said, by, put_in)
            }
            Some(open) => (open.asked_in, open.said, by, None),
            None => (turn, Said::default(), by, None),
        };
        let open = self.open.insert(Question {
            token: format!("{:032x}", rand::random::<u128>()).into(),
            tool: tool.to_owned(),
            arguments,
            expires: now.checked_add(rules.expires).unwrap_or(Timestamp::MAX),
            asked_in,
            preview: preview.into(),
            sentence: sentence.into(),
            values: values_of(&shown).into(),
            said,
            by,
            put_in,
            wanted_in: turn,
            granted: false,
        });
        Some(open.request(shown))
    }

    /// Spends the token if the caller said yes to this call.
    pub fn spend(&mut self, token: &str, tool: &str, arguments: [u8; 32], now: Timestamp) -> Token {
        let Some(open) = &self.open else { return Token::Worthless };
        let same = bool::from(open.token.reveal().as_bytes().ct_eq(token.as_bytes()));
        if !same || open.tool != tool || open.arguments != arguments {
            return Token::Worthless;
        }
        if open.expires <= now {
            self.open = None;
            return Token::Worthless;
        }
        if !open.granted {
            return Token::Open;
        }
        self.open = None;
        Token::Granted
    }

    /// The turn in which the open question was asked.
    pub fn asked_in(&self) -> Option<u64> {
        self.open.as_ref().filter(|open| !open.granted).map(|open| open.asked_in)
    }

    /// The agent is told to say something of this meaning: another thing than the open question.
    pub fn agent_is_to_say(&mut self, text: &str, turn: u64) {
        if let Some(open) = &mut self.open {
            open.said.add(text, turn);
        }
    }

    /// The agent's words, as its provider reports them, behind the caller's turn `turn`.
    pub fn agent_said(&mut self, text: &str, turn: u64) {
        self.agent_is_transcribed = true;
        if let Some(open) = &mut self.open {
            open.said.add(text, turn);
        }
    }

    /// The engine puts the open question; `false` if it has, and the caller has said nothing since.
    pub fn is_put(&mut self) -> bool {
        let new = self.open.as_mut().filter(|open| open.put_in != Some(open.wanted_in));
        new.map(|open| open.put_in = Some(open.wanted_in)).is_some()
    }

    /// The caller has said yes, and the call was not made.
    pub fn is_granted(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.granted)
    }

    /// The caller has heard this clip, to its end or nearly so.
    pub fn was_heard(&mut self, question: &str) {
        if let Some(open) = &mut self.open
            && open.by != By::Agent
            && open.sentence.reveal() == question
        {
            open.by = By::Engine { heard: true };
            open.said.parts.clear();
        }
    }

    /// The clip was not heard: the agent has to put the question.
    pub fn was_not_heard(&mut self) {
        if let Some(open) = &mut self.open {
            open.by = By::Agent;
        }
    }

    /// The caller interrupted while the question was being put: they have not heard it.
    pub fn was_cut(&mut self) {
        if let Some(open) = &mut self.open {
            open.said.parts.clear();
        }
    }

    /// The caller's words of turn `turn`.
    pub fn caller_said(&mut self, text: &str, turn: u64, now: Timestamp, rules: &ConfirmRules) -> Option<Verdict> {
        if rules.by_voice { self.answered(rules.words.judge(text), turn, now, rules) } else { None }
    }

    /// A key of the caller in turn `turn`.
    pub fn caller_pressed(&mut self, key: char, turn: u64, now: Timestamp, rules: &ConfirmRules) -> Option<Verdict> {
        let answer = match key {
            key if key == rules.yes_key => Answer::Yes,
            key if key == rules.no_key => Answer::No,
            _ => Answer::Unclear,
        };
        self.answered(answer, turn, now, rules)
    }

    fn answered(&mut self, answer: Answer, turn: u64, now: Timestamp, rules: &ConfirmRules) -> Option<Verdict> {
        let agent_is_transcribed = self.agent_is_transcribed;
        let open = self.open.as_mut().filter(|open| turn > open.asked_in)?;
        if open.expires <= now {
            self.open = None;
            return None;
        }
        let before = open.before(turn, agent_is_transcribed, rules);
        match (answer, before) {
            (Answer::Nothing, _) => None,
            // Said already.
            (Answer::Yes, _) if open.granted => None,
            // Also one who has said yes can think better of it until the tool runs.
            (Answer::No, _) if open.granted => {
                self.open = None;
                Some(Verdict::Declined)
            }
            (Answer::Unclear, _) => {
                open.said.answered(turn);
                if matches!(open.by, By::Engine { heard: true }) {
                    open.by = By::Agent;
                }
                None
            }
            (_, ReadBack::Other) => {
                self.open = None;
                None
            }
            (Answer::No, _) => {
                self.open = None;
                Some(Verdict::Declined)
            }
            (Answer::Yes, ReadBack::Same) => {
                open.granted = true;
                Some(Verdict::Granted)
            }
            (Answer::Yes, ReadBack::Wrong | ReadBack::Nothing) => {
                open.by = By::Agent;
                open.said.answered(turn);
                Some(Verdict::Unheard)
            }
        }
    }
}

impl Question {
    /// Compares what was said before the caller's words of this turn with the question.
    fn before(&self, turn: u64, agent_is_transcribed: bool, rules: &ConfirmRules) -> ReadBack {
        let values = self.values.reveal();
        let word_for_word = rules.asked_by == Asker::Engine;
        let keys = [rules.yes_key, rules.no_key];
        let wanted = Wanted { preview: self.preview.reveal(), values, keys, word_for_word };
        let said = self.said.before(turn);
        // An agent whose words are not known was told to put the question since they were answered by others.
        let is_put_anyway =
            !agent_is_transcribed && self.said.answered_in.is_none_or(|answered| answered <= self.wanted_in);
        match (self.by, read_back(&said, &wanted)) {
            (By::Engine { heard: true }, ReadBack::Nothing) => ReadBack::Same,
            (By::Engine { heard: false }, _) if rules.heard => ReadBack::Nothing,
            (By::Agent, ReadBack::Nothing) if is_put_anyway => ReadBack::Same,
            (_, ReadBack::Wrong | ReadBack::Nothing) if !rules.heard => ReadBack::Same,
            (_, said) => said,
        }
    }

    /// P15: what the model is told. `expires` is in milliseconds since 1970.
    fn request(&self, shown: Value) -> Value {
        json!({
            "token": self.token.reveal(),
            "expires": self.expires.as_millisecond(),
            "tool": self.tool,
            "args": shown,
            "preview": self.preview.reveal(),
        })
    }
}

/// Words of everything that the arguments hold.
fn values_of(arguments: &Value) -> BTreeSet<String> {
    match arguments {
        Value::Null => BTreeSet::new(),
        Value::String(text) => words(text).into_iter().collect(),
        Value::Array(items) => items.iter().flat_map(values_of).collect(),
        Value::Object(fields) => fields.values().flat_map(values_of).collect(),
        Value::Bool(_) | Value::Number(_) => words(&arguments.to_string()).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: [u8; 32] = [7; 32];

    fn proposal(arguments: [u8; 32], preview: &str) -> Proposal<'static> {
        let sentence = preview.into();
        Proposal { tool: "pay", arguments, shown: json!({}), preview: preview.into(), sentence, by_engine: false }
    }

    fn asked() -> (Confirmations, String, ConfirmRules) {
        let rules = ConfirmRules::default();
        let mut confirmations = Confirmations::default();
        let request = confirmations.ask(proposal(CALL, "Pay 40 euros?"), 3, Timestamp::UNIX_EPOCH, &rules).unwrap();
        let token = request["token"].as_str().unwrap().to_owned();
        assert_eq!(request["expires"], 300_000, "in milliseconds");
        (confirmations, token, rules)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_yes_in_a_later_turn_is_good_for_one_call() {
        let (mut confirmations, token, rules) = asked();
        assert_eq!(confirmations.spend(&token, "pay", CALL, at(1)), Token::Open, "echoed at once");
        assert_eq!(confirmations.caller_said("yes", 3, at(1), &rules), None, "said before the question");
        assert_eq!(confirmations.caller_said("yes", 4, at(2), &rules), Some(Verdict::Granted));
        assert_eq!(confirmations.spend(&token, "pay", [8; 32], at(3)), Token::Worthless, "other arguments");
        assert_eq!(confirmations.spend(&token, "send", CALL, at(3)), Token::Worthless, "another tool");
        assert_eq!(confirmations.spend("0", "pay", CALL, at(3)), Token::Worthless, "forged");
        assert_eq!(confirmations.spend(&token, "pay", CALL, at(3)), Token::Granted);
        assert_eq!(confirmations.spend(&token, "pay", CALL, at(4)), Token::Worthless, "spent");
    }

    #[test]
    fn nobody_is_asked_twice_because_the_model_forgot_the_token() {
        let (mut confirmations, token, rules) = asked();
        assert_eq!(confirmations.caller_said("yes", 4, at(2), &rules), Some(Verdict::Granted));
        let again = confirmations.ask(proposal(CALL, "Pay 40 euros?"), 4, at(3), &rules).unwrap();
        assert_eq!(again["token"], token.as_str());
        assert_eq!(confirmations.spend(&token, "pay", CALL, at(4)), Token::Granted);
    }

    #[test]
    fn a_question_expires_and_a_no_ends_it() {
        let (mut confirmations, token, rules) = asked();
        assert_eq!(confirmations.caller_pressed('1', 4, at(2), &rules), Some(Verdict::Granted));
        assert_eq!(confirmations.spend(&token, "pay", CALL, at(300)), Token::Worthless);
        let (mut confirmations, token, rules) = asked();
        assert_eq!(confirmations.caller_pressed('2', 4, at(2), &rules), Some(Verdict::Declined));
        assert_eq!(confirmations.caller_pressed('1', 5, at(2), &rules), None);
        assert_eq!(confirmations.spend(&token, "pay", CALL, at(3)), Token::Worthless);
    }

    #[test]
    fn a_yes_to_another_question_does_not_count_and_ends_this_one() {
        let (mut confirmations, token, rules) = asked();
        confirmations.agent_said("I will pay 40 euros, is that right?", 3);
        confirmations.agent_said("Would you like to get our newsletter?", 3);
        assert_eq!(confirmations.caller_said("yes", 4, at(2), &rules), None);
        assert_eq!(confirmations.spend(&token, "pay", CALL, at(3)), Token::Worthless);
    }

    #[test]
    fn a_question_that_the_caller_did_not_answer_has_to_be_put_again() {
        let (mut confirmations, token, rules) = asked();
        confirmations.agent_said("I will pay 40 euros, is that right?", 3);
        assert_eq!(confirmations.caller_said("Hm, what is my balance?", 4, at(2), &rules), None);
        confirmations.agent_said("Your balance is ten. I will pay 40 euros, is that right?", 4);
        assert_eq!(confirmations.caller_said("um", 5, at(3), &rules), None, "no answer yet");
        assert_eq!(confirmations.caller_said("yes", 6, at(3), &rules), Some(Verdict::Granted));
        assert_eq!(confirmations.spend(&token, "pay", CALL, at(3)), Token::Granted);
        let (mut confirmations, token, rules) = asked();
        confirmations.agent_said("I will pay 40 euros, is that right?", 3);
        confirmations.caller_said("Hm, what is my balance?", 4, at(2), &rules);
        assert_eq!(confirmations.caller_said("yes", 5, at(3), &rules), Some(Verdict::Unheard));
        assert_eq!(confirmations.spend(&token, "pay", CALL, at(3)), Token::Open);
    }

    #[test]
    fn a_key_for_a_menu_answers_the_menu() {
        let (mut confirmations, token, rules) = asked();
        confirmations.agent_said("I will pay 40 euros, is that right?", 3);
        confirmations.caller_said("I need somebody in your office", 4, at(2), &rules);
        confirmations.agent_said("For sales press 1, for support press 2.", 4);
        assert_eq!(confirmations.caller_pressed('1', 5, at(3), &rules), None);
        assert_eq!(confirmations.spend(&token, "pay", CALL, at(3)), Token::Worthless);
    }

    #[test]
    fn what_was_said_behind_a_clip_counts() {
        for (said, verdict) in [
            ("", Some(Verdict::Granted)),
            ("Press 1 for yes or 2 for no.", Some(Verdict::Granted)),
            ("So I pay 400 euros.", Some(Verdict::Unheard)),
            ("Are you still there?", None),
        ] {
            let rules = ConfirmRules::default();
            let mut confirmations = Confirmations::default();
            let proposal = Proposal { by_engine: true, ..proposal(CALL, "Pay 40 euros?") };
            confirmations.ask(proposal, 3, Timestamp::UNIX_EPOCH, &rules).unwrap();
            confirmations.agent_said("One moment.", 3);
            confirmations.was_heard("Pay 40 euros?");
            confirmations.agent_said(said, 3);
            assert_eq!(confirmations.caller_said("yes", 4, at(2), &rules), verdict, "{said}");
        }
    }

    #[test]
    fn a_question_that_the_caller_talked_into_was_not_heard() {
        let (mut confirmations, _, rules) = asked();
        confirmations.agent_said("I will pay 40 euros, is that right?", 3);
        confirmations.was_cut();
        assert_eq!(confirmations.caller_said("yes", 4, at(2), &rules), Some(Verdict::Unheard));
    }

    #[test]
    fn an_answer_that_is_transcribed_late_is_one_to_the_same_question_put_again() {
        let (mut confirmations, _, rules) = asked();
        let again = confirmations.ask(proposal(CALL, "Pay 40 euros?"), 4, at(3), &rules).unwrap();
        assert_eq!(confirmations.caller_said("yes", 4, at(4), &rules), Some(Verdict::Granted));
        assert_eq!(confirmations.spend(again["token"].as_str().unwrap(), "pay", CALL, at(5)), Token::Granted);
    }

    #[test]
    fn a_second_question_in_the_same_turn_is_not_opened() {
        let (mut confirmations, _, rules) = asked();
        let second = |turn, confirmations: &mut Confirmations| {
            confirmations.ask(proposal([9; 32], "Pay 900?"), turn, at(1), &rules).is_some()
        };
        assert!(!second(3, &mut confirmations));
        assert!(second(4, &mut confirmations), "the caller has spoken since, the first one is void");
    }
}
