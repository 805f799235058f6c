//! An attendant that follows a list: the model that needs neither a key nor the network, and never surprises anybody.
//!
//! It knows phrases and keys. It says what stands there, or calls the tool that stands there and says what comes of it.
//! A recogniser that writes down free words may mishear some, so a phrase is found with a confidence.

mod phrases;

use super::{Ask, Finish, Message, Model, ModelKind, Order, Piece};
use crate::{
    call::key_of,
    config::OptionProblem,
    remote::{
        Fault,
        checks::{self, Checked},
        kinds,
    },
    sentences::Sentence,
    tool::{
        CHECK_EXTENSION_STATUS, COLLECT_DIGITS, HANGUP_CALL, LEAVE_VOICEMAIL, REQUEST_TRANSCRIPT, SEND_DTMF,
        STOP_RECORDING, TAKE_MESSAGE, TRANSFER, ToolCall, VERIFY_PIN, declarative, mcp, schemas::Dialect,
    },
};
use futures_util::{FutureExt as _, future::BoxFuture};
use phrases::{CONFIDENCE_FLOOR, GAP, GAPS_MAX, confidence, words};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{collections::HashMap, sync::Arc};
use tokio::sync::mpsc;
use uuid::Uuid;

/// More entries than a caller can be told of.
const ENTRIES_MAX: usize = 50;
const KEYS: &str = "0123456789*#";

pub(super) const KIND: ModelKind = ModelKind {
    kind: "attendant",
    summary: "An attendant in this process that knows the phrases and keys it is given; needs no key of a vendor",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls,
    language: kinds::no_language,
    build: |options| Ok(Arc::new(Attendant(Arc::new(checks::read(options)?)))),
};

/// Options of `kind: attendant`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// What it says when it is to greet and the context has no greeting. Without it, "Hello. How can I help you?" in the
    /// context's language.
    #[serde(default)]
    greeting: Option<String>,
    /// What it says when it has understood nothing; best with what it would understand. Without it, "Sorry, I did not
    /// understand that." in the context's language.
    #[serde(default)]
    otherwise: Option<String>,
    /// What it says when a tool has failed. Without it, "Sorry, that did not work." in the context's language.
    #[serde(default)]
    failed: Option<String>,
    /// How surely a phrase has to be found, 0.7 to 1. It is the likeness of the word that was heard least like the phrase's
    /// own: at 0.85, "Sundays" counts for "Sunday", and "think" does not for "thank". Below, `otherwise` asks again. 1 is word
    /// for word.
    #[serde(default = "confidence_min")]
    confidence_min: f64,
    /// What it knows. The first that fits counts.
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Phrases: one of them has to be among the caller's words. `*` stands for up to five words: `when * open` is found in
    /// "tell me when you are open".
    #[serde(default)]
    hears: Vec<String>,
    /// The key that stands for it: 0 to 9, `*` or `#`.
    #[serde(default)]
    key: Option<String>,
    /// What it answers. With `call`, before the tool runs.
    #[serde(default)]
    say: Option<String>,
    /// The tool that it calls.
    #[serde(default)]
    call: Option<String>,
    /// The tool's arguments.
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Sentence about the tool's result; `{name}` is that part of its data. Without it, the tool's own words; where those
    /// are for a model, a sentence of offhook's in the context's language.
    #[serde(default)]
    result: Option<String>,
}

fn confidence_min() -> f64 {
    1.0
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if self.entries.is_empty() || self.entries.len() > ENTRIES_MAX {
            problems.push(OptionProblem::new("entries", format!("has to have 1 to {ENTRIES_MAX} of them")));
        }
        if !(CONFIDENCE_FLOOR..=1.0).contains(&self.confidence_min) {
            problems.push(OptionProblem::new("confidence_min", format!("has to be {CONFIDENCE_FLOOR} to 1")));
        }
        let mut keys = HashMap::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let at = |key: &str| format!("entries[{index}]{key}");
            if entry.hears.is_empty() && entry.key.is_none() {
                let problem = OptionProblem::new(at(""), "nobody can reach it");
                problems.push(problem.hint("write `hears`, `key` or both"));
            }
            for (nth, phrase) in entry.hears.iter().enumerate() {
                let wrong = |message: String| OptionProblem::new(at(&format!(".hears[{nth}]")), message);
                if words(phrase).is_empty() {
                    problems.push(wrong("has no word in it".into()));
                } else if phrase.matches(GAP).count() > GAPS_MAX {
                    problems.push(wrong(format!("has more than {GAPS_MAX} `{GAP}`")));
                }
            }
            if entry.say.is_none() && entry.call.is_none() {
                let problem = OptionProblem::new(at(""), "nothing comes of it");
                problems.push(problem.hint("write `say`, `call` or both"));
            }
            for (key, without) in [("arguments", !entry.arguments.is_empty()), ("result", entry.result.is_some())] {
                if entry.call.is_none() && without {
                    problems
                        .push(OptionProblem::new(at(&format!(".{key}")), "belongs to a `call`, which is not there"));
                }
            }
            let Some(key) = &entry.key else { continue };
            if key.chars().count() != 1 || !KEYS.contains(&**key) {
                problems.push(OptionProblem::new(at(".key"), format!("\"{key}\" is no key")).hint("0 to 9, * or #"));
            } else if let Some(first) = keys.insert(key.clone(), index) {
                problems.push(OptionProblem::new(at(".key"), format!("entries[{first}] has this key already")));
            }
        }
        problems
    }
}

/// The tools that these options call: every context that uses them has to list these.
fn calls(options: &Value) -> Vec<String> {
    let called = |entry: &Value| entry.get("call")?.as_str().map(str::to_owned);
    options["entries"].as_array().into_iter().flatten().filter_map(called).collect()
}

struct Attendant(Arc<Options>);

impl Model for Attendant {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn dialect(&self) -> Dialect {
        Dialect::ChatCompletions
    }

    fn takes_keys(&self) -> bool {
        true
    }

    fn summarises(&self) -> bool {
        false
    }

    fn answer(&self, ask: Ask, pieces: mpsc::Sender<Piece>) -> BoxFuture<'static, Result<Finish, Fault>> {
        let answer = self.0.answer(&ask);
        async move {
            for piece in answer {
                // Who does not take it has thrown the answer away.
                let _ = pieces.send(piece).await;
            }
            Ok(Finish::Stop)
        }
        .boxed()
    }
}

impl Options {
    fn answer(&self, ask: &Ask) -> Vec<Piece> {
        let own = |written: &Option<String>, sentence| {
            written.clone().unwrap_or_else(|| ask.sentences.get(sentence).to_owned())
        };
        match &ask.order {
            Some(Order::Greet) => return vec![Piece::Text(own(&self.greeting, Sentence::Hello))],
            Some(Order::Say(words)) => return vec![Piece::Text(words.clone())],
            // It knows its list, and nothing of what was said.
            Some(Order::SumUp) => return Vec::new(),
            None => {}
        }
        let text = |words: String| vec![Piece::Text(words)];
        let otherwise = || text(own(&self.otherwise, Sentence::NotUnderstood));
        let pressed = self.pressed(&ask.messages);
        let answer = match ask.messages.last() {
            Some(Message::Result { call_id, output }) => self.result(ask, call_id, output).map_or_else(otherwise, text),
            _ if pressed.is_some() => Vec::new(),
            _ => self.meant(&ask.messages).map_or_else(otherwise, Entry::reply),
        };
        let pause = (!answer.is_empty() && pressed.is_some()).then(|| Piece::Text(" ".into()));
        answer.into_iter().chain(pause).chain(pressed.map(Entry::reply).unwrap_or_default()).collect()
    }

    /// Entry that the caller's newest words since the agent spoke call for. A note of the telephone system may stand behind them.
    fn meant(&self, messages: &[Message]) -> Option<&Entry> {
        let mut since = messages.iter().rev().take_while(|message| !matches!(message, Message::Agent { .. }));
        let said =
            since.find_map(|message| if let Message::Caller(said) = message { Some(words(said)) } else { None })?;
        self.entries.iter().find(|entry| confidence(&entry.hears, &said) >= self.confidence_min)
    }

    /// The newest key since the agent spoke. It counts whatever was heard beside it: words may be misheard, and the sound
    /// of a key, too.
    fn pressed(&self, messages: &[Message]) -> Option<&Entry> {
        let since = messages.iter().rev().take_while(|message| !matches!(message, Message::Agent { .. }));
        let mut keys = since.filter_map(|message| match message {
            Message::System(note) => key_of(note),
            _ => None,
        });
        keys.find_map(|key| {
            self.entries.iter().find(|entry| entry.key.as_deref() == Some(key.encode_utf8(&mut [0; 4])))
        })
    }

    /// What is said of a result: as its entry says, else the tool's own sentence.
    fn result(&self, ask: &Ask, call_id: &str, output: &str) -> Option<String> {
        let output: Value = serde_json::from_str(output).unwrap_or_default();
        // Why it failed was written for a model, not for a caller.
        if !output["error"].is_null() {
            let failed = || ask.sentences.get(Sentence::DidNotWork).to_owned();
            return Some(self.failed.clone().unwrap_or_else(failed));
        }
        let call = ask.messages.iter().rev().find_map(|message| match message {
            Message::Agent { calls, .. } => calls.iter().find(|call| call.id == call_id),
            _ => None,
        });
        let is_of = |entry: &&Entry| {
            let arguments = |call: &ToolCall| serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
            call.is_some_and(|call| {
                entry.call.as_ref() == Some(&call.name) && Value::Object(entry.arguments.clone()) == arguments(call)
            })
        };
        let template = self.entries.iter().find(is_of).and_then(|entry| entry.result.as_ref());
        let filled = template.and_then(|template| fill(template, data_of(&output)));
        let own = || match for_callers(call.map_or("", |call| &call.name), &output) {
            Some(sentence) => Some(ask.sentences.get(sentence).to_owned()),
            None => output["message"].as_str().map(str::to_owned),
        };
        filled.or_else(own).filter(|text| !text.trim().is_empty())
    }
}

/// Data of a result; where models are told that alone (`policy.tool_result: data`), it is all of it.
fn data_of(output: &Value) -> &Value {
    output.get("data").unwrap_or(output)
}

/// Sentence for callers in place of a tool's message that was written for a model, or of none.
fn for_callers(tool: &str, output: &Value) -> Option<Sentence> {
    let data = data_of(output);
    Some(match tool {
        TRANSFER | LEAVE_VOICEMAIL => Sentence::Connecting,
        HANGUP_CALL => Sentence::Goodbye,
        TAKE_MESSAGE | REQUEST_TRANSCRIPT | SEND_DTMF | STOP_RECORDING => Sentence::Done,
        VERIFY_PIN if data["authenticated"] == true => Sentence::PinRight,
        VERIFY_PIN => Sentence::PinWrong,
        COLLECT_DIGITS => Sentence::DigitsTaken,
        CHECK_EXTENSION_STATUS => match data["status"].as_str() {
            Some("available") => Sentence::ExtensionFree,
            Some("in_use" | "ringing") => Sentence::ExtensionBusy,
            _ => Sentence::ExtensionUnreachable,
        },
        _ => match output["message"].as_str() {
            Some(mcp::FETCHED | declarative::SUCCESS) => Sentence::Done,
            Some(declarative::FAILURE) => Sentence::DidNotWork,
            None if output["ok"] == true => Sentence::Done,
            _ => return None,
        },
    })
}

impl Entry {
    fn reply(&self) -> Vec<Piece> {
        let call = self.call.as_ref().map(|name| {
            let arguments = Value::Object(self.arguments.clone()).to_string();
            Piece::Call(ToolCall { id: format!("call_{}", Uuid::new_v4().simple()), name: name.clone(), arguments })
        });
        self.say.clone().map(Piece::Text).into_iter().chain(call).collect()
    }
}

/// `None` if something that the template names is not there.
fn fill(template: &str, data: &Value) -> Option<String> {
    let (mut filled, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        filled.push_str(before);
        match data.get(name)? {
            Value::String(text) => filled.push_str(text),
            value @ (Value::Number(_) | Value::Bool(_)) => filled.push_str(&value.to_string()),
            _ => return None,
        }
        rest = after;
    }
    Some(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentences::{Language, Sentences};
    use serde_json::json;

    fn options() -> Value {
        json!({
            "otherwise": "Say opening hours, or press 1.",
            "entries": [
                { "hears": ["opening hours", "when are you open"], "key": "1", "say": "From nine to five." },
                {
                    "hears": ["weather"], "key": "2", "say": "One moment.", "call": "atis",
                    "arguments": { "icao": "KSFO" }, "result": "It is {code}, wind {wind}.",
                },
                { "key": "0", "call": "transfer", "arguments": { "destination": "office" } },
            ],
        })
    }

    /// What it answers, calls as `name arguments`.
    async fn answer(messages: Vec<Message>, order: Option<Order>) -> Vec<String> {
        let model = (KIND.build)(&options()).unwrap_or_else(|problems| panic!("{problems:?}"));
        let (pieces, mut told) = mpsc::channel(8);
        let (cache_key, sentences) = (String::new(), Arc::new(Sentences::of(Language::German)));
        let ask = Ask { messages, order, tools: [].into(), may_call: true, cache_key, sentences };
        assert_eq!(model.answer(ask, pieces).await, Ok(Finish::Stop));
        let mut said = Vec::new();
        while let Some(piece) = told.recv().await {
            said.push(match piece {
                Piece::Text(text) => text,
                Piece::Call(call) => format!("{} {}", call.name, call.arguments),
                other => panic!("{other:?}"),
            });
        }
        said
    }

    async fn hears(text: &str) -> Vec<String> {
        answer(vec![Message::Caller(text.into())], None).await
    }

    #[tokio::test]
    async fn it_answers_phrases_wherever_they_stand_and_keys() {
        for text in ["Opening hours, please.", "Hello, when are you open?"] {
            assert_eq!(hears(text).await, ["From nine to five."]);
        }
        assert_eq!(hears("the reopening hours").await, ["Say opening hours, or press 1."]);
        assert_eq!(hears("What is the weather?").await, ["One moment.", r#"atis {"icao":"KSFO"}"#]);
        let key = Message::System(crate::call::key_note('0'));
        assert_eq!(answer(vec![key], None).await, [r#"transfer {"destination":"office"}"#]);
    }

    /// As when it takes over from an agent that was lost before it answered.
    #[tokio::test]
    async fn words_with_a_note_of_the_telephone_system_behind_them_are_answered() {
        let note = || Message::System("The connection to you was interrupted. Go on.".into());
        let caller = || Message::Caller("when are you open".into());
        let agent = || Message::Agent { text: "Hello.".into(), calls: Vec::new() };
        for (told, said) in [
            (vec![agent(), caller(), note()], "From nine to five."),
            (vec![caller(), agent(), note()], "Say opening hours, or press 1."),
        ] {
            assert_eq!(answer(told.clone(), None).await, [said], "{told:?}");
        }
    }

    /// What `config/neural.yaml` answers to free words, up to the end of its first sentence; a tool by its name.
    async fn shipped_answers(said: &str) -> String {
        let file = crate::project("config/neural.yaml");
        let config = crate::config::load(&file, &|_| None, crate::provider::catalog()).unwrap();
        let model = (KIND.build)(&config.services.llm["attendant"].options).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let (pieces, mut told) = mpsc::channel(8);
        let messages = vec![Message::Caller(said.into())];
        let (cache_key, sentences) = (String::new(), Arc::default());
        let ask = Ask { messages, order: None, tools: [].into(), may_call: true, cache_key, sentences };
        assert_eq!(model.answer(ask, pieces).await, Ok(Finish::Stop));
        let mut first = String::new();
        while let Some(piece) = told.recv().await {
            match piece {
                Piece::Text(text) => first = text.split(['.', '?']).next().unwrap_or_default().to_owned(),
                Piece::Call(call) => return call.name,
                other => panic!("{other:?}"),
            }
        }
        first
    }

    #[tokio::test]
    async fn free_words_are_answered_where_they_are_understood_and_asked_for_again_where_not() {
        const HOURS: &str = "Of course";
        const SUNDAY: &str = "No, on Sundays we are closed";
        const AGAIN: &str = "Sorry, I did not understand";
        for (said, answer) in [
            ("Hi, could you tell me when you open on weekdays?", HOURS),
            ("Could you please tell me your opening hours?", HOURS),
            ("Can you please tell me you're opening hour?", HOURS),
            ("Until when do you guys stay open today?", HOURS),
            ("What time does the shop close on Saturday?", HOURS),
            ("Okay, are you open on Sundays as well?", SUNDAY),
            ("I would like to know what the weather is like today.", "mcp_aviation_atis"),
            ("Uh, can I leave somebody a message, please?", "leave_voicemail"),
            ("I'd rather speak to a real person.", "transfer"),
            ("No, that's all, thank you.", "hangup_call"),
            ("Okay, good-bye then.", "hangup_call"),
            ("Thanks a lot, that helps.", "Can I do anything else for you"),
            ("Yes, please.", "Please ask"),
            ("Er, hello?", AGAIN),
            ("Earth, hello.", AGAIN),
            ("When are you coming to mend my telephone?", AGAIN),
            ("I think you should call me back.", AGAIN),
            ("I do not know whether he is in on Monday.", AGAIN),
            ("When I called you last week somebody told me that the line would be open.", AGAIN),
            ("", AGAIN),
        ] {
            assert_eq!(shipped_answers(said).await, answer, "{said:?}");
        }
    }

    #[tokio::test]
    async fn a_key_counts_whatever_is_heard_beside_it_until_it_is_answered() {
        let key = |key| Message::System(crate::call::key_note(key));
        let caller = |text: &str| Message::Caller(text.into());
        let agent = || Message::Agent { text: "Hello.".into(), calls: Vec::new() };
        for (told, said) in [
            (vec![key('1'), caller("")], "From nine to five."),
            (vec![key('1'), caller("weather")], "From nine to five."),
            (vec![key('2'), caller("well"), key('1')], "From nine to five."),
            (vec![key('1'), Message::System("A result that came late: 7".into())], "From nine to five."),
            (vec![key('7'), caller("when are you open")], "From nine to five."),
            (vec![key('7')], "Say opening hours, or press 1."),
            (vec![key('1'), agent(), caller("what")], "Say opening hours, or press 1."),
        ] {
            assert_eq!(answer(told.clone(), None).await, [said], "{told:?}");
        }
        let waits = Message::Result { call_id: "c".into(), output: json!({ "message": "Fine." }).to_string() };
        assert_eq!(answer(vec![key('1'), waits], None).await, ["Fine.", " ", "From nine to five."]);
    }

    #[tokio::test]
    async fn of_a_result_it_says_what_stands_there_or_the_tools_own_sentence() {
        let call = |arguments: &str| ToolCall { id: "c".into(), name: "atis".into(), arguments: arguments.into() };
        let said = async |output: Value, arguments: &str| {
            let agent = Message::Agent { text: String::new(), calls: vec![call(arguments)] };
            let result = Message::Result { call_id: "c".into(), output: output.to_string() };
            answer(vec![agent, result], None).await.concat()
        };
        let known = r#"{"icao":"KSFO"}"#;
        let good = json!({ "ok": true, "message": "Fine.", "data": { "code": "Alpha", "wind": 7 } });
        assert_eq!(said(good.clone(), known).await, "It is Alpha, wind 7.");
        assert_eq!(said(good, "{}").await, "Fine.", "a call of another entry");
        assert_eq!(said(json!({ "message": "Fine.", "data": { "code": "Alpha" } }), known).await, "Fine.");
        let failed = json!({ "ok": false, "error": { "message": "Nobody knows." } });
        assert_eq!(said(failed, known).await, Sentence::DidNotWork.text(Language::German));
        assert_eq!(said(json!("what"), known).await, "Say opening hours, or press 1.");
    }

    /// The message of such a tool, "The caller is connected after your words", is for a model.
    #[tokio::test]
    async fn of_a_result_that_tells_a_model_what_to_do_it_says_its_own_sentence() {
        let status = |status: &str| json!({ "extension": "100", "status": status });
        for (tool, data, sentence) in [
            (TRANSFER, json!(null), Sentence::Connecting),
            (LEAVE_VOICEMAIL, json!(null), Sentence::Connecting),
            (HANGUP_CALL, json!(null), Sentence::Goodbye),
            (TAKE_MESSAGE, json!(null), Sentence::Done),
            (VERIFY_PIN, json!({ "authenticated": true }), Sentence::PinRight),
            (VERIFY_PIN, json!({ "authenticated": false }), Sentence::PinWrong),
            (COLLECT_DIGITS, json!({ "digits": "123" }), Sentence::DigitsTaken),
            (COLLECT_DIGITS, json!({ "handle": "h", "count": 3 }), Sentence::DigitsTaken),
            (CHECK_EXTENSION_STATUS, status("available"), Sentence::ExtensionFree),
            (CHECK_EXTENSION_STATUS, status("ringing"), Sentence::ExtensionBusy),
            (CHECK_EXTENSION_STATUS, status("unknown"), Sentence::ExtensionUnreachable),
        ] {
            let call = ToolCall { id: "c".into(), name: tool.into(), arguments: "{}".into() };
            let agent = Message::Agent { text: String::new(), calls: vec![call] };
            let output = json!({ "ok": true, "message": "Do this, and then that.", "data": data }).to_string();
            let said = answer(vec![agent, Message::Result { call_id: "c".into(), output }], None).await.concat();
            assert_eq!(said, sentence.text(Language::German), "{tool}");
        }
    }

    #[tokio::test]
    async fn of_a_result_without_words_it_says_how_it_went() {
        let done = Sentence::Done;
        for (output, sentence) in [
            (json!({ "ok": true, "message": mcp::FETCHED, "data": { "temperature": 7 } }), done),
            (json!({ "ok": true, "message": declarative::SUCCESS }), done),
            (json!({ "ok": true, "data": { "status": "dispatched" } }), done),
            (json!({ "ok": true, "message": declarative::FAILURE }), Sentence::DidNotWork),
        ] {
            let call = ToolCall { id: "c".into(), name: "mcp_atis".into(), arguments: "{}".into() };
            let agent = Message::Agent { text: String::new(), calls: vec![call] };
            let result = Message::Result { call_id: "c".into(), output: output.to_string() };
            assert_eq!(answer(vec![agent, result], None).await.concat(), sentence.text(Language::German), "{output}");
        }
    }

    #[tokio::test]
    async fn what_it_is_to_say_it_says_word_for_word() {
        assert_eq!(answer(Vec::new(), Some(Order::Say("Goodbye.".into()))).await, ["Goodbye."]);
        assert_eq!(answer(Vec::new(), Some(Order::Greet)).await, [Sentence::Hello.text(Language::German)]);
    }

    #[tokio::test]
    async fn it_sums_nothing_up() {
        let about = Message::Caller("Caller: opening hours\nAgent: From nine to five.".into());
        assert_eq!(answer(vec![about], Some(Order::SumUp)).await, [""; 0]);
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let problems = (KIND.check)(&json!({
            "confidence_min": 0.5,
            "entries": [
                { "say": "x" },
                { "key": "1" },
                { "key": "11", "say": "x", "hears": ["!", "a * b * c * d * e", "*"] },
                { "key": "1", "say": "x", "arguments": { "a": 1 } },
            ],
        }));
        let paths: Vec<_> = problems.iter().map(|problem| &*problem.path).collect();
        assert_eq!(
            paths,
            [
                "confidence_min",
                "entries[0]",
                "entries[1]",
                "entries[2].hears[0]",
                "entries[2].hears[1]",
                "entries[2].hears[2]",
                "entries[2].key",
                "entries[3].arguments",
                "entries[3].key"
            ]
        );
        assert_eq!((KIND.check)(&options()), []);
        assert_eq!(calls(&options()), ["atis", "transfer"]);
    }
}
