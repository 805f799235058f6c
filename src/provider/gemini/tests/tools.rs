//! Tools: what is declared, called and answered.

use super::*;
use crate::{
    provider::gemini::calls,
    tool::{COLLECT_DIGITS, schemas::ToolText},
};

/// P9, P10: the calls come before the end of their response, and the response ends with them, since the
/// server waits.
#[test]
fn a_call_ends_its_response_and_what_follows_the_answer_is_another_one() {
    let mut talk = Talk::ready();
    talk.speaks();
    let events = talk.calls(&["c1", "c2"]);
    let [AgentEvent::ToolCall(first), AgentEvent::ToolCall(_), AgentEvent::ResponseDone { response, .. }] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((first.id.as_str(), &**response), ("c1", "answer-1"));
    assert!(talk.answer("c1", Reply::NotNow).is_empty(), "the model waits for both");
    let messages = talk.answer("c2", Reply::Wanted);
    let ids: Vec<_> = responses(&messages).iter().map(|response| &response["id"]).collect();
    assert_eq!(ids, ["c1", "c2"]);
    let events = talk.speaks();
    assert!(matches!(&events[0], AgentEvent::ResponseStarted { response } if &**response == "answer-2"), "{events:?}");
}

/// P21, P25, P26: the answer goes out under the call's id and name, the whole envelope as it is.
#[test]
fn an_answer_goes_out_whole_under_the_calls_id_and_name() {
    let mut talk = Talk::ready();
    talk.calls(&["c1"]);
    let messages = talk.answer("c1", Reply::Wanted);
    let output = json!({ "ok": true, "message": "Until six." });
    let expected = json!({ "id": "c1", "name": "hours", "response": { "output": output } });
    assert_eq!(responses(&messages), &[expected]);
    talk.calls(&["c2"]);
    let output = json!({ "ok": false, "error": { "type": "TIMEOUT" } });
    let (call_id, reply) = ("c2".into(), Reply::Wanted);
    let messages = talk.tell(AgentCommand::ToolResult { call_id, output: output.to_string(), reply });
    assert_eq!(responses(&messages)[0]["response"], json!({ "error": output }));
}

#[test]
fn speech_between_a_call_and_its_answer_is_heard_and_holds_up_nothing() {
    let mut talk = Talk::ready();
    talk.speaks();
    talk.calls(&["c1"]);
    talk.content(json!({ "turnComplete": true }));
    let events = talk.speaks();
    assert!(matches!(&events[..], [AgentEvent::Audio { response, .. }] if &**response == "answer-1"), "{events:?}");
}

#[test]
fn a_call_that_was_taken_back_is_not_answered_and_neither_is_an_unknown_or_an_answered_one() {
    let mut talk = Talk::ready();
    talk.calls(&["c1", "c2"]);
    let (events, _) = talk.hear(json!({ "toolCallCancellation": { "ids": ["c1", "c9"] } }));
    let cancelled = |id: &str| AgentEvent::ToolCallCancelled { call_id: id.into() };
    assert_eq!(events, [cancelled("c1"), cancelled("c9")], "which of them it has, the core knows");
    assert!(talk.answer("c1", Reply::NotNow).is_empty());
    assert_eq!(responses(&talk.answer("c2", Reply::Wanted)).len(), 1);
    assert!(talk.answer("c2", Reply::Wanted).is_empty());
    assert!(talk.answer("c9", Reply::Wanted).is_empty());
}

#[test]
fn calls_without_an_id_are_told_apart_and_answered_without_one() {
    let mut talk = Talk::ready();
    let calls = json!([{ "name": "a" }, { "id": "", "name": "b", "args": { "x": 1 } }]);
    let (events, _) = talk.hear(json!({ "toolCall": { "functionCalls": calls } }));
    let ids: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::ToolCall(call) => Some(call.id.clone()),
            _ => None,
        })
        .collect();
    talk.answer(&ids[1], Reply::NotNow);
    let messages = talk.answer(&ids[0], Reply::Wanted);
    let named: Vec<_> = responses(&messages).iter().map(|told| (&told["name"], told.get("id"))).collect();
    assert_eq!(named, [(&json!("b"), None), (&json!("a"), None)]);
}

#[test]
fn more_calls_than_a_conversation_needs_are_not_run() {
    let ids: Vec<String> = (0..calls::OPEN_MAX + 3).map(|n| n.to_string()).collect();
    let events = Talk::ready().calls(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    let run = events.iter().filter(|event| matches!(event, AgentEvent::ToolCall(_))).count();
    let refused = events.iter().filter(|event| **event == AgentEvent::Noise(Noise::Malformed)).count();
    assert_eq!((run, refused), (calls::OPEN_MAX, 3));
}

#[test]
fn an_answer_that_nobody_wants_spoken_waits_until_something_is_said_anyway() {
    let mut talk = Talk::ready();
    talk.calls(&["c1"]);
    assert!(talk.answer("c1", Reply::NotNow).is_empty());
    assert_eq!(kinds(&talk.say("Goodbye.")), ["toolResponse", "clientContent"]);
    let mut talk = Talk::told_turns();
    talk.calls(&["c1"]);
    talk.answer("c1", Reply::NotNow);
    let messages = talk.tell(AgentCommand::Turn(CallerTurn::Began));
    assert_eq!(kinds(&messages), ["toolResponse", "realtimeInput"]);
}

#[test]
fn what_is_to_be_said_does_not_take_a_call_back() {
    let mut talk = Talk::ready();
    talk.calls(&["c1"]);
    assert!(talk.say("Goodbye.").is_empty());
    assert_eq!(kinds(&talk.answer("c1", Reply::NotNow)), ["toolResponse", "clientContent"]);
}

#[test]
fn a_model_that_talks_on_is_told_when_to_take_an_answer_up() {
    let options = json!({ "api_key": "k", "tool_behavior": "non_blocking" });
    let mut talk = Talk::with(&options, &agent());
    talk.speaks();
    talk.calls(&["c1", "c2"]);
    talk.speaks();
    assert_eq!(responses(&talk.answer("c1", Reply::NotNow))[0]["scheduling"], "SILENT");
    assert_eq!(responses(&talk.answer("c2", Reply::Wanted))[0]["scheduling"], "WHEN_IDLE");
    let events = talk.speaks();
    assert!(matches!(&events[..], [AgentEvent::Audio { response, .. }] if &**response == "answer-1"), "mid-sentence");
    talk.content(json!({ "generationComplete": true }));
    talk.content(json!({ "turnComplete": true }));
    let events = talk.speaks();
    assert!(matches!(&events[0], AgentEvent::ResponseStarted { response } if &**response == "answer-2"), "{events:?}");
}

/// It has to ask the caller what they are to type, and says nothing while it waits for a tool.
#[test]
fn a_model_asks_for_what_is_to_be_typed_while_the_tool_runs() {
    let parameters = json!({ "type": "object", "properties": {} });
    let tool = |name: &'static str| ToolText { name, description: "", parameters: &parameters };
    let tools = ["hours", COLLECT_DIGITS].map(|name| Dialect::Gemini.render(tool(name)).unwrap());
    let agent = AgentSetup { tools: tools.into(), ..agent() };
    let declared = |model: &str| {
        let setup = setup_of(&json!({ "api_key": "k", "model": model }), &agent);
        setup["tools"][0]["functionDeclarations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["behavior"].clone())
            .collect()
    };
    let (waits, talks_on) = (json!("BLOCKING"), json!("NON_BLOCKING"));
    let of_models: [Vec<Value>; 3] =
        ["gemini-3.8-live", "gemini-2.5-flash-native-audio-preview-12-2025", "gemini-3.1-flash-live-preview"]
            .map(declared);
    assert_eq!(of_models, [vec![waits, talks_on.clone()], vec![Value::Null, talks_on], vec![Value::Null, Value::Null]]);

    let mut talk = Talk::with(&json!({ "api_key": "k" }), &agent);
    let call = json!({ "id": "d1", "name": COLLECT_DIGITS, "args": { "prompt": "Your number?" } });
    talk.hear(json!({ "toolCall": { "functionCalls": [call] } }));
    assert_eq!(told(&talk.say("Your number?")).len(), 1, "at once");
    talk.speaks();
    talk.content(json!({ "generationComplete": true }));
    talk.content(json!({ "turnComplete": true }));
    // Beside a tool that it waits for it is held all the same.
    talk.calls(&["c1"]);
    assert!(talk.say("Your number?").is_empty());
    assert!(talk.answer("d1", Reply::Wanted).is_empty());
    let answers = talk.answer("c1", Reply::Wanted);
    let scheduled: Vec<_> = responses(&answers).iter().map(|answer| &answer["scheduling"]).collect();
    assert_eq!(scheduled, [&json!("WHEN_IDLE"), &Value::Null]);
}

/// Vertex closes a session over a word that it does not know.
#[test]
fn on_vertex_no_answer_says_when_it_is_to_be_taken_up() {
    let vertex = json!({ "project": "p", "access_token": "t" });
    let mut talk = Talk::with(&json!({ "vertex": vertex, "tool_behavior": "non_blocking" }), &agent());
    talk.calls(&["c1"]);
    assert_eq!(responses(&talk.answer("c1", Reply::NotNow))[0]["scheduling"], Value::Null);
}

#[test]
fn the_length_of_answers_is_the_operators_to_choose() {
    let most = |options: Value| provider(&options).traits().answer_bytes_max.unwrap() + r#"{"output":}"#.len();
    assert_eq!(most(json!({ "api_key": "k" })), 2048);
    assert_eq!(most(json!({ "api_key": "k", "tool_answer_bytes": 8192 })), 8192);
}
