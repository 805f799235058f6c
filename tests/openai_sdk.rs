//! Every message the OpenAI Realtime provider can send, and every request for chat completions, checked by
//! the types of the vendor's own Python package.

use crate::kit::{processes::words_of, python};

use offhook::{
    audio::Format,
    call::{AgentCommand, CallerTurn, Reply},
    facts::CallId,
    llm::{Ask, Message, openai_chat},
    provider::{self, AgentSetup, Wire},
    tool::{
        ToolCall,
        schemas::{Dialect, ToolText},
    },
};
use python::check_lines;
use serde_json::{Value, json};
use std::{collections::BTreeSet, process::Output, time::Duration};

fn check(lines: &str) -> Output {
    check_lines("openai", "check_openai.py", &[], lines)
}

fn options() -> Vec<Value> {
    vec![
        json!({ "api_key": "k" }),
        json!({
            "api_key": "k", "voice": "cedar", "speed": 0.9, "max_output_tokens": 1024, "noise_reduction": "near_field",
            "transcription": { "model": "gpt-transcribe", "language": "de" },
            "turn_detection": {
                "type": "server_vad", "threshold": 0.6, "prefix_padding_ms": 200, "silence_duration_ms": 400,
                "idle_timeout_ms": 8000,
            },
        }),
        json!({
            "api_key": "k", "transcription": null, "noise_reduction": "far_field",
            "turn_detection": { "type": "semantic_vad", "eagerness": "high" },
            "reasoning_effort": "minimal", "parallel_tool_calls": true, "truncation": { "retention_ratio": 0.8 },
        }),
        json!({
            "api_key": "k", "reasoning_effort": "xhigh",
            "truncation": { "retention_ratio": 0.5, "post_instructions_tokens": 8000 },
        }),
    ]
}

fn commands() -> Vec<AgentCommand> {
    let interrupt = |cancel| AgentCommand::Interrupt {
        response: "r".into(),
        item: "i".into(),
        heard: Duration::from_millis(1),
        cancel,
    };
    let result = |reply| AgentCommand::ToolResult { call_id: "c".into(), output: "{\"ok\":true}".into(), reply };
    vec![
        AgentCommand::Audio(vec![0x55; 160].into()),
        AgentCommand::Turn(CallerTurn::Began),
        AgentCommand::Turn(CallerTurn::Ended),
        AgentCommand::Greet { text: None },
        AgentCommand::Greet { text: Some("Hello.".into()) },
        AgentCommand::Summarise { mark: 3, record: "> Caller: Hello.".into() },
        AgentCommand::Say { text: "Ask whether the caller is still there.".into() },
        AgentCommand::Tell { text: "The caller pressed a key.".into(), reply: Reply::Wanted },
        AgentCommand::Tell { text: "The caller pressed a key.".into(), reply: Reply::NotNow },
        AgentCommand::Written { text: "Are you open?".into() },
        interrupt(true),
        interrupt(false),
        result(Reply::NotNow),
        result(Reply::Wanted),
    ]
}

fn transfer(dialect: Dialect) -> Value {
    let parameters = json!({
        "type": "object", "properties": { "destination": { "type": "string", "enum": ["sales"] } },
        "required": ["destination"],
    });
    let text = ToolText { name: "transfer", description: "Hands the caller on.", parameters: &parameters };
    dialect.render(text).expect("it can be told")
}

/// All that one session sends when each command is given while the floor is free.
fn session(options: &Value, leg: Format, told_turns: bool) -> Vec<Value> {
    let tools = [transfer(Dialect::OpenAiRealtime)];
    let setup = AgentSetup {
        instructions: "Be brief.".into(),
        tools: tools.into(),
        told_turns,
        ..AgentSetup::new(CallId::random(), leg)
    };
    let mut codec = provider::build("openai_realtime", options).expect("good options").remote().codec(&setup);
    let mut sent = Vec::new();
    codec.open(&mut sent);
    let format = match leg {
        Format::ULAW => "audio/pcmu",
        Format::ALAW => "audio/pcma",
        _ => "audio/pcm",
    };
    let direction = json!({ "format": { "type": format } });
    let audio = json!({ "input": direction, "output": direction });
    let opening = [
        json!({ "type": "session.created", "session": {} }),
        json!({ "type": "session.updated", "session": { "type": "realtime", "audio": audio } }),
    ];
    let speaking = [
        json!({ "type": "response.created", "response": { "id": "r" } }),
        json!({ "type": "response.output_audio.delta", "response_id": "r", "item_id": "i", "delta": "/////////////w==" }),
    ];
    let done = json!({ "type": "response.done", "response": { "id": "r", "status": "completed" } });
    let hear = |codec: &mut Box<dyn provider::Codec>, message: &Value, sent: &mut Vec<Wire>| {
        codec.decode(Wire::Text(message.to_string()), &mut Vec::new(), sent);
    };
    opening.iter().for_each(|message| hear(&mut codec, message, &mut sent));
    for command in commands() {
        if matches!(command, AgentCommand::Interrupt { .. }) {
            speaking.iter().for_each(|message| hear(&mut codec, message, &mut sent));
        }
        codec.encode(command, &mut sent);
        hear(&mut codec, &done, &mut sent);
    }
    sent.into_iter()
        .map(|wire| match wire {
            Wire::Text(text) => serde_json::from_str(&text).expect("JSON"),
            Wire::Binary(_) => panic!("the vendor takes text only"),
        })
        .collect()
}

#[test]
fn every_message_we_can_send_is_one_the_vendors_package_knows() {
    let (mut lines, mut kinds) = (String::new(), BTreeSet::new());
    for options in options() {
        for leg in [Format::ULAW, Format::ALAW, Format::SLIN16] {
            for message in [true, false].into_iter().flat_map(|told| session(&options, leg, told)) {
                kinds.insert(message["type"].as_str().expect("a type").to_owned());
                lines.push_str(&message.to_string());
                lines.push('\n');
            }
        }
    }
    let expected = [
        "conversation.item.create",
        "conversation.item.truncate",
        "input_audio_buffer.append",
        "input_audio_buffer.commit",
        "response.cancel",
        "response.create",
        "session.update",
    ];
    assert_eq!(kinds, expected.map(str::to_owned).into(), "the commands above no longer bring out every message");
    let output = check(&lines);
    assert!(output.status.success(), "{}", words_of(&output));
}

#[test]
fn the_check_itself_finds_unknown_keys_wrong_types_and_the_retired_dialect() {
    for (message, part) in [
        (json!({ "type": "response.cancel", "reason": "x" }), "$.reason"),
        (
            json!({ "type": "session.update", "session": { "type": "realtime", "audio": {
                "input": { "format": { "type": "audio/pcmu", "rate": 8000 } },
            } } }),
            "$.session.audio.input.format.rate",
        ),
        (json!({ "type": "session.update", "session": { "type": "realtime", "temperature": 0.8 } }), "temperature"),
        (
            json!({ "type": "conversation.item.truncate", "item_id": "i", "content_index": 0, "audio_end_ms": 1.5 }),
            "audio_end_ms",
        ),
        (json!({ "type": "session.start", "session": {} }), "$.type"),
    ] {
        let output = check(&format!("{message}\n"));
        let words = words_of(&output);
        assert!(!output.status.success() && words.contains(part), "{message} passed: {words}");
    }
}

/// Conversations in which everything occurs, at a server that knows all keys and at one that does not.
fn chat_requests() -> Vec<Value> {
    let call =
        |id: &str, arguments: &str| ToolCall { id: id.into(), name: "transfer".into(), arguments: arguments.into() };
    let calls = vec![call("a", "{\"destination\":\"sales\"}"), call("b", "{\"destination\":")];
    let messages = vec![
        Message::System("Be brief.".into()),
        Message::Agent { text: "Hello.".into(), calls: Vec::new() },
        Message::Caller("Sales, please.".into()),
        Message::Agent { text: "One moment.".into(), calls },
        Message::Caller("Wait!".into()),
        Message::Agent { text: String::new(), calls: vec![call("c", "{}")] },
        Message::Result { call_id: "a".into(), output: "{\"ok\":true}".into() },
        Message::Result { call_id: "c".into(), output: "{\"ok\":true}".into() },
    ];
    let asks = [(true, true), (true, false), (false, true)].map(|(has_tools, may_call)| {
        let tools = if has_tools { vec![transfer(Dialect::ChatCompletions)] } else { Vec::new() };
        Ask {
            messages: messages.clone(),
            order: None,
            tools: tools.into(),
            may_call,
            cache_key: "call-1".into(),
            sentences: std::sync::Arc::default(),
        }
    });
    let options = [
        json!({ "model": "m" }),
        json!({ "model": "m", "base_url": "http://127.0.0.1:8000/v1", "max_output_tokens": 300, "include_usage": false }),
        json!({
            "api_key": "k", "model": "m", "temperature": 0.4, "max_output_tokens": 300, "reasoning_effort": "low",
            "service_tier": "priority", "parallel_tool_calls": true,
        }),
        json!({ "model": "m", "temperature": 1, "max_output_tokens": 300, "max_tokens_key": "max_tokens" }),
    ];
    let body = |options: &Value, ask: &Ask| openai_chat::request_body(options, ask).expect("good options");
    options.iter().flat_map(|options| asks.iter().map(|ask| body(options, ask)).collect::<Vec<_>>()).collect()
}

#[test]
fn every_request_for_chat_completions_is_one_the_vendors_package_knows() {
    let (mut lines, mut keys) = (String::new(), BTreeSet::new());
    for request in chat_requests() {
        keys.extend(request.as_object().expect("an object").keys().cloned());
        lines.push_str(&request.to_string());
        lines.push('\n');
    }
    let expected = [
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "parallel_tool_calls",
        "prompt_cache_key",
        "reasoning_effort",
        "service_tier",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
    ];
    assert_eq!(keys, expected.map(str::to_owned).into(), "the requests above no longer have every key");
    let output = check_lines("openai", "check_openai_chat.py", &[], &lines);
    assert!(output.status.success(), "{}", words_of(&output));
}

/// Servers that are not the vendor's refuse what only it knows, and the vendor refuses these keys without tools.
#[test]
fn a_request_has_no_key_that_its_server_would_refuse() {
    for request in chat_requests() {
        let has = |key: &str| request.get(key).is_some();
        assert!(has("tools") || !has("tool_choice") && !has("parallel_tool_calls"), "{request}");
        assert!(has("stream_options") || !has("prompt_cache_key") && !has("max_completion_tokens"), "{request}");
        assert!(!has("max_tokens") || !has("max_completion_tokens"), "{request}");
    }
}

#[test]
fn the_check_of_requests_itself_finds_unknown_keys_and_wrong_types() {
    let message = json!({ "role": "user", "content": "Hello." });
    let request = |key: &str, value: Value| {
        let mut request = json!({ "model": "m", "messages": [message], "stream": true });
        request[key] = value;
        request
    };
    for (request, part) in [
        (request("max_output_tokens", json!(1)), "$.max_output_tokens"),
        (request("messages", json!([{ "role": "user", "content": "Hello.", "lang": "en" }])), "$.messages[0].lang"),
        (request("messages", json!([{ "role": "tool", "content": "{}" }])), "tool_call_id"),
        (request("tools", json!([{ "type": "function", "function": { "name": "f", "strength": 1 } }])), "strength"),
        (request("stream_options", json!({ "usage": true })), "$.stream_options.usage"),
        (request("temperature", json!("1")), "temperature"),
        (request("reasoning_effort", json!("some")), "reasoning_effort"),
    ] {
        let output = check_lines("openai", "check_openai_chat.py", &[], &format!("{request}\n"));
        let words = words_of(&output);
        assert!(!output.status.success() && words.contains(part), "{request} passed: {words}");
    }
}
