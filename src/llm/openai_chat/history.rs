//! A conversation as chat completions want it written.

use super::options::Options;
use crate::{
    llm::{Ask, Message},
    tool::ToolCall,
};
use serde_json::{Map, Value, json};

/// What a model is told of a call whose result is not there, when something was said meanwhile.
const CANCELLED: &str =
    r#"{"ok":false,"error":{"type":"CANCELLED","message":"It was cancelled before it had a result."}}"#;

/// Before what stands in the caller's place and is none of their words.
const NOTE: &str = "[Message of the telephone system, not of the caller]";

/// The body of a request.
pub(super) fn body(options: &Options, ask: &Ask) -> Value {
    let told = if options.strict_roles() { &by_turns(&ask.messages) } else { &ask.messages };
    let mut body = json!({ "model": options.model, "messages": messages(told), "stream": true });
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body[key] = value;
        }
    };
    set("stream_options", options.include_usage.then(|| json!({ "include_usage": true })));
    if !ask.tools.is_empty() {
        // Without tools these keys are refused, and so is an empty list.
        set("tools", Some(ask.tools.iter().cloned().collect()));
        set("tool_choice", (!ask.may_call).then(|| "none".into()));
        set("parallel_tool_calls", options.parallel_tool_calls.map(Value::from));
    }
    set("temperature", options.temperature.map(Value::from));
    set(options.max_tokens_key().name(), options.max_output_tokens.map(Value::from));
    set("reasoning_effort", options.reasoning_effort.map(|effort| effort.name().into()));
    set("service_tier", options.service_tier.as_deref().map(Value::from));
    set("prompt_cache_key", options.server.is_vendor().then(|| ask.cache_key.as_str().into()));
    body
}

/// The same with one system message, the first, and then caller and agent by turns.
fn by_turns(told: &[Message]) -> Vec<Message> {
    let mut written: Vec<Message> = Vec::with_capacity(told.len() + 1);
    for message in told {
        let only_head = matches!(&written[..], [] | [Message::System(_)]);
        let message = match message {
            Message::System(note) if only_head => Message::System(note.clone()),
            Message::System(note) => Message::Caller(format!("{NOTE} {note}")),
            // Somebody has to be answered.
            Message::Agent { .. } if only_head => {
                written.push(Message::Caller(format!("{NOTE} The caller is connected.")));
                message.clone()
            }
            message => message.clone(),
        };
        // A result is written behind its call, wherever it stands.
        let before = written.iter_mut().rev().find(|message| !matches!(message, Message::Result { .. }));
        match (before, message) {
            (Some(Message::System(before)), Message::System(more))
            | (Some(Message::Caller(before)), Message::Caller(more)) => append(before, &more),
            (Some(Message::Agent { text: before, calls }), Message::Agent { text, calls: more })
                if calls.is_empty() =>
            {
                append(before, &text);
                calls.extend(more);
            }
            (_, message) => written.push(message),
        }
    }
    written
}

fn append(before: &mut String, more: &str) {
    if !before.is_empty() && !more.is_empty() {
        before.push('\n');
    }
    before.push_str(more);
}

/// Each message with calls is followed by one result for each of them, wherever those stand in `told`: everything else
/// is refused, and would be in every later request of the conversation.
fn messages(told: &[Message]) -> Vec<Value> {
    let mut written = Vec::with_capacity(told.len());
    for (at, message) in told.iter().enumerate() {
        match message {
            Message::System(text) => written.extend(said("system", text)),
            Message::Caller(text) => written.extend(said("user", text)),
            Message::Agent { text, calls } if calls.is_empty() => written.extend(said("assistant", text)),
            Message::Agent { text, calls } => write_calls(text, calls, &told[at + 1..], &mut written),
            Message::Result { .. } => {}
        }
    }
    written
}

/// Servers refuse messages without a word in them.
fn said(role: &str, text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({ "role": role, "content": text }))
}

fn write_calls(text: &str, calls: &[ToolCall], later: &[Message], written: &mut Vec<Value>) {
    let mut distinct: Vec<&ToolCall> = Vec::with_capacity(calls.len());
    for call in calls {
        if distinct.iter().all(|known| known.id != call.id) {
            distinct.push(call);
        }
    }
    let function = |call: &ToolCall| json!({ "name": name(call), "arguments": arguments(call) });
    let entry = |call: &&ToolCall| json!({ "id": call.id, "type": "function", "function": function(call) });
    let entries: Vec<Value> = distinct.iter().map(entry).collect();
    let content = if text.is_empty() { Value::Null } else { text.into() };
    written.push(json!({ "role": "assistant", "content": content, "tool_calls": entries }));
    written.extend(distinct.iter().map(|call| {
        let content = result_of(&call.id, later).unwrap_or(CANCELLED);
        json!({ "role": "tool", "tool_call_id": call.id, "content": content })
    }));
}

/// The newest result, of those before another call has the same id: what a vendor calls its calls may come again.
fn result_of<'a>(id: &str, later: &'a [Message]) -> Option<&'a str> {
    let calls_again = |message: &Message| match message {
        Message::Agent { calls, .. } => calls.iter().any(|call| call.id == id),
        _ => false,
    };
    let own = later.iter().take_while(|message| !calls_again(message));
    let results = own.filter_map(|message| match message {
        Message::Result { call_id, output } if call_id == id => Some(output.as_str()),
        _ => None,
    });
    results.last()
}

/// Servers refuse a request with a call that has no name; the model knows from the result that it had none.
fn name(call: &ToolCall) -> &str {
    if call.name.is_empty() { "unnamed" } else { &call.name }
}

/// Many servers read the arguments of earlier calls when they write the prompt, and refuse every request in which they
/// cannot; the model knows from the result what was wrong with them.
fn arguments(call: &ToolCall) -> &str {
    if serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok() { &call.arguments } else { "{}" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(id: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.into(), name: "look".into(), arguments: arguments.into() }
    }

    fn agent(text: &str, calls: &[&str]) -> Message {
        Message::Agent { text: text.into(), calls: calls.iter().map(|id| call(id, "{}")).collect() }
    }

    fn result(id: &str, output: &str) -> Message {
        Message::Result { call_id: id.into(), output: output.into() }
    }

    /// Each message in a few letters: who, and what.
    fn short(told: &[Message]) -> Vec<String> {
        let one = |message: Value| {
            let content = message["content"].as_str().unwrap_or("-");
            let content = if content == CANCELLED { "cancelled" } else { content };
            let ids = message["tool_calls"].as_array().map(|calls| {
                calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("+")
            });
            let of = ids.or(message["tool_call_id"].as_str().map(str::to_owned)).unwrap_or_default();
            format!("{} {of}: {content}", message["role"].as_str().unwrap())
        };
        messages(told).into_iter().map(one).collect()
    }

    #[test]
    fn a_call_without_a_name_has_one_in_the_history() {
        let nameless = ToolCall { name: String::new(), ..call("a", "{}") };
        let told = messages(&[Message::Agent { text: String::new(), calls: vec![nameless] }]);
        assert_eq!(told[0]["tool_calls"][0]["function"]["name"], "unnamed");
    }

    #[test]
    fn a_conversation_is_written_as_it_was_said() {
        let told = [
            Message::System("Be brief.".into()),
            agent("Hello.", &[]),
            Message::Caller("Where is my parcel?".into()),
            agent("Let me see.", &["a", "b"]),
            result("b", "2"),
            result("a", "1"),
            agent("", &["c"]),
            result("c", "3"),
            agent("It is here.", &[]),
        ];
        let expected = [
            "system : Be brief.",
            "assistant : Hello.",
            "user : Where is my parcel?",
            "assistant a+b: Let me see.",
            "tool a: 1",
            "tool b: 2",
            "assistant c: -",
            "tool c: 3",
            "assistant : It is here.",
        ];
        assert_eq!(short(&told), expected);
    }

    #[test]
    fn a_call_without_a_result_is_told_as_cancelled_and_a_late_result_takes_its_place() {
        let mut told = vec![agent("", &["a", "b"]), result("a", "1"), Message::Caller("Stop!".into())];
        let mut expected = vec!["assistant a+b: -", "tool a: 1", "tool b: cancelled", "user : Stop!"];
        assert_eq!(short(&told), expected);
        told.push(result("b", "2"));
        expected[2] = "tool b: 2";
        assert_eq!(short(&told), expected);
    }

    #[test]
    fn an_id_that_comes_again_keeps_each_result_with_its_own_call() {
        let told = [agent("", &["call_0"]), agent("", &["call_0"]), result("call_0", "second")];
        let expected = ["assistant call_0: -", "tool call_0: cancelled", "assistant call_0: -", "tool call_0: second"];
        assert_eq!(short(&told), expected);
    }

    #[test]
    fn nothing_empty_and_no_result_of_nobodys_call_is_written() {
        let told =
            [Message::System(String::new()), agent("", &[]), Message::Caller(String::new()), result("x", "lost")];
        assert!(short(&told).is_empty());
        assert_eq!(short(&[agent("", &["a", "a"]), result("a", "1")]), ["assistant a: -", "tool a: 1"]);
    }

    #[test]
    fn by_turns_there_is_one_system_message_and_nobody_speaks_twice_in_a_row() {
        let note = |text: &str| Message::System(text.into());
        let caller = |text: &str| Message::Caller(text.into());
        let told = [
            note("Be brief."),
            note("They asked before."),
            agent("Hello.", &[]),
            agent("Are you there?", &[]),
            note("A key: 1."),
            caller("Yes."),
            agent("Let me see.", &["a"]),
            note("A key: 2."),
            result("a", "1"),
            agent("It is here.", &[]),
            agent("", &["b"]),
            result("b", "2"),
            note("Say goodbye."),
        ];
        let expected = [
            "system : Be brief.\nThey asked before.".to_owned(),
            format!("user : {NOTE} The caller is connected."),
            "assistant : Hello.\nAre you there?".into(),
            format!("user : {NOTE} A key: 1.\nYes."),
            "assistant a: Let me see.".into(),
            "tool a: 1".into(),
            format!("user : {NOTE} A key: 2."),
            "assistant b: It is here.".into(),
            "tool b: 2".into(),
            format!("user : {NOTE} Say goodbye."),
        ];
        assert_eq!(short(&by_turns(&told)), expected);
        assert_eq!(short(&by_turns(&[caller("Hello.")])), ["user : Hello."]);
    }

    #[test]
    fn roles_are_strict_where_the_server_is_not_the_vendors() {
        let ask = Ask {
            messages: vec![Message::Caller("Hi.".into()), Message::System("A key: 1.".into())],
            order: None,
            tools: [].into(),
            may_call: true,
            cache_key: String::new(),
            sentences: std::sync::Arc::default(),
        };
        let roles = |options: Value| {
            let body = crate::llm::openai_chat::request_body(&options, &ask).expect("good options");
            body["messages"].as_array().map(Vec::len)
        };
        let local = "http://127.0.0.1:8000/v1";
        assert_eq!(roles(json!({ "model": "m" })), Some(2));
        assert_eq!(roles(json!({ "model": "m", "strict_roles": true })), Some(1));
        assert_eq!(roles(json!({ "model": "m", "base_url": local })), Some(1));
        assert_eq!(roles(json!({ "model": "m", "base_url": local, "strict_roles": false })), Some(2));
    }

    #[test]
    fn arguments_that_no_server_can_read_are_not_written_again() {
        for (written, expected) in
            [("{\"n\": 1}", "{\"n\": 1}"), ("", "{}"), ("{\"n\":", "{}"), ("[1]", "{}"), ("\"x\"", "{}")]
        {
            let told = [Message::Agent { text: String::new(), calls: vec![call("a", written)] }];
            assert_eq!(messages(&told)[0]["tool_calls"][0]["function"]["arguments"], expected, "{written}");
        }
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let id = || prop::sample::select(vec!["a", "b", "c"]);
        prop_oneof![
            "[a-z]{0,3}".prop_map(Message::Caller),
            "[a-z]{0,3}".prop_map(Message::System),
            ("[a-z]{0,3}", prop::collection::vec(id(), 0..4)).prop_map(|(text, calls)| agent(&text, &calls)),
            (id(), "[0-9]").prop_map(|(id, output)| result(id, &output)),
        ]
    }

    proptest! {
        /// What strict templates demand, of whatever may be told.
        #[test]
        fn by_turns_caller_and_agent_take_turns(told in prop::collection::vec(any_message(), 0..12)) {
            let turns = by_turns(&told);
            let spoken = |message: &&Message| !matches!(message, Message::Result { .. });
            let spoken: Vec<_> = turns.iter().filter(spoken).collect();
            for pair in spoken.windows(2) {
                let twice = match (pair[0], pair[1]) {
                    (Message::Agent { calls, .. }, Message::Agent { .. }) => calls.is_empty(),
                    (one, next) => std::mem::discriminant(one) == std::mem::discriminant(next),
                };
                prop_assert!(!twice, "{pair:?}");
            }
            let system = |message: &&Message| matches!(message, Message::System(_));
            prop_assert!(turns.iter().skip(1).filter(system).count() == 0);
        }

        /// What the vendor demands, of whatever may be told.
        #[test]
        fn every_call_is_followed_by_exactly_one_result_and_no_result_stands_alone(
            told in prop::collection::vec(any_message(), 0..12),
        ) {
            let written = messages(&told);
            let mut wanted: Vec<Value> = Vec::new();
            for message in &written {
                if message["role"] == "tool" {
                    prop_assert!(!wanted.is_empty(), "{written:?}");
                    prop_assert_eq!(wanted.remove(0), message["tool_call_id"].clone());
                } else {
                    prop_assert!(wanted.is_empty(), "{written:?}");
                    let calls = message["tool_calls"].as_array();
                    wanted.extend(calls.into_iter().flatten().map(|call| call["id"].clone()));
                }
            }
            prop_assert!(wanted.is_empty(), "{written:?}");
        }
    }
}
