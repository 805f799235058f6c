//! Every message the OpenAI Realtime provider can send, checked by the types of the vendor's own
//! Python package.

#[path = "support/python.rs"]
mod python;

use offhook::{
    audio::Format,
    call::{AgentCommand, Reply},
    facts::CallId,
    provider::{self, AgentSetup, Wire},
    tool::schemas::{Dialect, ToolText},
};
use python::{check_lines, words_of};
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
        AgentCommand::Greet { text: None },
        AgentCommand::Greet { text: Some("Hello.".into()) },
        AgentCommand::Say { text: "Ask whether the caller is still there.".into() },
        AgentCommand::Tell { text: "The caller pressed a key.".into(), reply: Reply::Wanted },
        AgentCommand::Tell { text: "The caller pressed a key.".into(), reply: Reply::NotNow },
        interrupt(true),
        interrupt(false),
        result(Reply::NotNow),
        result(Reply::Wanted),
    ]
}

/// All that one session sends when each command is given while the floor is free.
fn session(options: &Value, leg: Format) -> Vec<Value> {
    let parameters = json!({
        "type": "object", "properties": { "destination": { "type": "string", "enum": ["sales"] } },
        "required": ["destination"],
    });
    let text = ToolText { name: "transfer", description: "Hands the caller on.", parameters: &parameters };
    let tools = [Dialect::OpenAiRealtime.render(text).expect("it can be told")];
    let setup =
        AgentSetup { instructions: "Be brief.".into(), tools: tools.into(), ..AgentSetup::new(CallId::random(), leg) };
    let mut codec = provider::build("openai_realtime", options).expect("good options").codec(&setup);
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
            for message in session(&options, leg) {
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
