//! The caller's yes to one call with these very arguments.
//!
//! ```text
//! ask ─▶ open ── yes on the caller's channel, in a later turn ─▶ granted ── the same call with the token ─▶ spent
//!          ├── no ─▶ gone                                            ├── no ─▶ gone
//!          └── 5 min ─▶ gone                                         └── 5 min ─▶ gone
//! ```
//!
//! One question at a time: were two open, nobody could tell to which of them a yes belongs.

use super::{
    judge::{self, Answer},
    rules::ConfirmRules,
};
use crate::redact::Redacted;
use jiff::Timestamp;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

/// Words of the agent kept to find the question in them: a minute of fast talk.
const HEARD_BYTES_MAX: usize = 4096;

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
    /// What the agent said since.
    heard: Redacted<String>,
    by: By,
    /// The caller's turn in which the engine put it.
    put_in: Option<u64>,
    /// The caller's turn in which the model wanted it put.
    wanted_in: u64,
    granted: bool,
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
    /// The engine has it as a clip.
    pub by_engine: bool,
}

impl Confirmations {
    /// Opens a question and gives its `confirmation_request`; `None` while another one is open that
    /// was asked in this same turn.
    pub fn ask(
        &mut self,
        Proposal { tool, arguments, shown, preview, by_engine }: Proposal<'_>,
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
        let (asked_in, heard, by, put_in) = match before {
            Some(Question { asked_in, heard, by: by @ By::Engine { .. }, put_in, .. }) if by_engine => {
                (asked_in, heard, by, put_in)
            }
            Some(open) => (open.asked_in, open.heard, by, None),
            None => (turn, String::new().into(), by, None),
        };
        let open = self.open.insert(Question {
            token: format!("{:032x}", rand::random::<u128>()).into(),
            tool: tool.to_owned(),
            arguments,
            expires: now.checked_add(rules.expires).unwrap_or(Timestamp::MAX),
            asked_in,
            preview: preview.into(),
            heard,
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

    /// The agent's words, as its provider reports them.
    pub fn agent_said(&mut self, text: &str) {
        self.agent_is_transcribed = true;
        if let Some(open) = &mut self.open {
            let mut heard = open.heard.reveal().clone();
            heard.push(' ');
            heard.push_str(text);
            let start = heard.len().saturating_sub(HEARD_BYTES_MAX);
            let start = (start..heard.len()).find(|at| heard.is_char_boundary(*at)).unwrap_or(0);
            open.heard = heard[start..].to_owned().into();
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
            && open.preview.reveal() == question
        {
            open.by = By::Engine { heard: true };
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
            open.heard = String::new().into();
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
        let open = self.open.as_mut().filter(|open| turn > open.asked_in)?;
        if open.expires <= now {
            self.open = None;
            return None;
        }
        let told = !rules.heard
            || match open.by {
                By::Engine { heard } => heard,
                By::Agent => !self.agent_is_transcribed || judge::tells(open.heard.reveal(), open.preview.reveal()),
            };
        match answer {
            // Said already.
            Answer::Yes if open.granted => None,
            Answer::Yes if told => {
                open.granted = true;
                Some(Verdict::Granted)
            }
            // Also one who has said yes can think better of it until the tool runs.
            Answer::No => {
                self.open = None;
                Some(Verdict::Declined)
            }
            Answer::Yes => {
                open.by = By::Agent;
                Some(Verdict::Unheard)
            }
            Answer::Unclear => None,
        }
    }
}

impl Question {
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

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: [u8; 32] = [7; 32];

    fn proposal(arguments: [u8; 32], preview: &str) -> Proposal<'static> {
        Proposal { tool: "pay", arguments, shown: json!({}), preview: preview.into(), by_engine: false }
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
    fn a_yes_to_another_question_than_the_one_of_the_engine_does_not_count() {
        let (mut confirmations, _, rules) = asked();
        confirmations.agent_said("Shall I send you a brochure?");
        assert_eq!(confirmations.caller_said("yes", 4, at(2), &rules), Some(Verdict::Unheard));
        confirmations.agent_said("I will pay 40 euros, is that right?");
        assert_eq!(confirmations.caller_said("yes", 5, at(3), &rules), Some(Verdict::Granted));
    }

    #[test]
    fn a_question_that_the_caller_talked_into_was_not_heard() {
        let (mut confirmations, _, rules) = asked();
        confirmations.agent_said("I will pay 40 euros, is that right?");
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
