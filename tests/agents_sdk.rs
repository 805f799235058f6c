//! Every message that the providers Deepgram and ElevenLabs can send, checked by the types of the
//! vendors' own packages.

use crate::kit::{processes::words_of, python};

use offhook::{
    audio::Format,
    call::{AgentCommand, CallerTurn, Reply},
    facts::CallId,
    provider::{self, AgentSetup, Codec, Opens, Wire},
    tool::schemas::{Dialect, ToolText},
};
use python::{check_lines, feed, sdk, target};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    process::{Command, Output},
    time::Duration,
};

fn check(kind: &str, lines: &str) -> Output {
    if kind == "deepgram_agent" {
        return check_lines("deepgram", "check_deepgram.py", &[], lines);
    }
    // Where tests/lab/setup.sh puts it; the two name one place, however cargo is told.
    let modules = target().join("npm/node_modules");
    assert!(modules.join("@elevenlabs/types").exists(), "{} lacks a package: run `make setup`", modules.display());
    feed(Command::new("node").arg(sdk("check_elevenlabs.mjs")).arg(modules), lines)
}

fn options(kind: &str) -> Vec<Value> {
    let endpoint = json!({ "url": "https://example.org/v1", "headers": { "authorization": "Bearer x" } });
    match kind {
        "deepgram_agent" => vec![
            json!({ "api_key": "k" }),
            json!({
                "api_key": "k", "mip_opt_out": true,
                "listen": { "version": "v1", "language": "de", "keyterms": ["Offhook"], "smart_format": true },
                "think": { "provider": "anthropic", "model": "claude-sonnet-5", "temperature": 0.2, "endpoint": endpoint },
                "speak": { "type": "deepgram", "model": "flux-kit-en", "speed": 1.1 },
            }),
            json!({
                "api_key": "k",
                "listen": {
                    "version": "v2", "model": "flux-general-multi", "language_hints": ["de"], "eot_threshold": 0.8,
                    "eager_eot_threshold": 0.4, "eot_timeout_ms": 4000, "keyterms": ["Offhook"],
                },
                "think": { "provider": "google", "model": "gemini-3.5-flash" },
                "speak": { "type": "eleven_labs", "model_id": "eleven_turbo_v2_5", "language": "de", "endpoint": endpoint },
            }),
            json!({
                "api_key": "k", "think": { "provider": "groq", "model": "openai/gpt-oss-20b", "endpoint": endpoint },
                "speak": {
                    "type": "cartesia", "model_id": "sonic-2", "voice_id": "v", "language": "de", "endpoint": endpoint,
                },
            }),
            json!({
                "api_key": "k", "think": { "provider": "deepgram", "model": "think-fast" },
                "speak": { "type": "open_ai", "model": "tts-1", "voice": "alloy", "endpoint": endpoint },
            }),
        ],
        _ => vec![
            json!({ "agent_id": "a" }),
            json!({
                "agent_id": "a", "overrides": true, "language": "de", "voice_id": "v",
                "dynamic_variables": { "name": "Meier", "vip": true, "age": 41 },
            }),
        ],
    }
}

fn commands() -> Vec<AgentCommand> {
    let result =
        |output: &str| AgentCommand::ToolResult { call_id: "c".into(), output: output.into(), reply: Reply::Wanted };
    let (response, item, heard) = ("r1".into(), "r1".into(), Duration::from_millis(1));
    vec![
        AgentCommand::Audio(vec![0x55; 160].into()),
        AgentCommand::Turn(CallerTurn::Began),
        AgentCommand::Turn(CallerTurn::Ended),
        AgentCommand::Greet { text: Some("Hello.".into()) },
        AgentCommand::Greet { text: None },
        AgentCommand::Say { text: "Ask whether the caller is still there.".into() },
        AgentCommand::Tell { text: "The caller pressed a key.".into(), reply: Reply::Wanted },
        AgentCommand::Tell { text: "The caller pressed a key.".into(), reply: Reply::NotNow },
        AgentCommand::Written { text: "Are you open?".into() },
        AgentCommand::Interrupt { response, item, heard, cancel: true },
        result("{\"ok\":true}"),
        result("{\"ok\":false}"),
    ]
}

/// What the server says so that everything can be answered.
fn heard(kind: &str) -> Vec<Value> {
    let formats = json!({
        "conversation_id": "c", "agent_output_audio_format": "ulaw_8000", "user_input_audio_format": "ulaw_8000",
    });
    match kind {
        "deepgram_agent" => vec![
            json!({ "type": "SettingsApplied" }),
            json!({ "type": "FunctionCallRequest", "functions": [{
                "id": "c", "name": "transfer", "arguments": "{}", "client_side": true,
            }] }),
        ],
        _ => vec![
            json!({
                "type": "conversation_initiation_metadata", "conversation_initiation_metadata_event": formats,
            }),
            json!({ "type": "ping", "ping_event": { "event_id": 1 } }),
        ],
    }
}

fn codec(kind: &str, options: &Value, leg: Format, opens: Opens, told_turns: bool) -> Box<dyn Codec> {
    let parameters = json!({
        "type": "object", "properties": { "destination": { "type": "string", "enum": ["sales"] } },
        "required": ["destination"],
    });
    let text = ToolText { name: "transfer", description: "Hands the caller on.", parameters: &parameters };
    let dialect = if kind == "deepgram_agent" { Dialect::Deepgram } else { Dialect::ElevenLabs };
    let tools = [dialect.render(text).expect("it can be told")].into();
    let provider = provider::build(kind, options).expect("good options");
    let told_turns = told_turns && provider.traits().takes_turns;
    let instructions = "Be brief.".into();
    let setup = AgentSetup { instructions, tools, opens, told_turns, ..AgentSetup::new(CallId::random(), leg) };
    provider.remote().codec(&setup)
}

/// All that one session sends as text.
fn session(mut codec: Box<dyn Codec>, kind: &str) -> Vec<Value> {
    let mut sent = Vec::new();
    codec.open(&mut sent);
    for message in heard(kind) {
        codec.decode(Wire::Text(message.to_string()), &mut Vec::new(), &mut sent);
    }
    commands().into_iter().for_each(|command| codec.encode(command, &mut sent));
    sent.extend(codec.keep_alive().into_iter().flat_map(|(_, wires)| wires));
    let texts = sent.into_iter().filter_map(|wire| match wire {
        Wire::Text(text) => Some(serde_json::from_str(&text).expect("JSON")),
        Wire::Binary(_) => None,
    });
    texts.collect()
}

fn every_message_passes(kind: &str, expected: &[&str]) {
    let (mut lines, mut kinds) = (String::new(), BTreeSet::new());
    for options in options(kind) {
        for leg in [Format::ULAW, Format::ALAW, Format::SLIN16] {
            for (opens, told_turns) in [(Opens::Greets(Some("Hello.".into())), true), (Opens::Waits, false)] {
                for message in session(codec(kind, &options, leg, opens, told_turns), kind) {
                    kinds.insert(message["type"].as_str().unwrap_or("user_audio_chunk").to_owned());
                    lines.push_str(&message.to_string());
                    lines.push('\n');
                }
            }
        }
    }
    let expected: BTreeSet<String> = expected.iter().map(|kind| (*kind).to_owned()).collect();
    assert_eq!(kinds, expected, "the commands above no longer bring out every message");
    let output = check(kind, &lines);
    let words = words_of(&output);
    assert!(output.status.success() && words.contains(" 0 violations"), "{words}");
}

/// Each message is refused, in these words.
fn are_found(kind: &str, messages: &[(Value, &str)]) {
    let lines: String = messages.iter().map(|(message, _)| format!("{message}\n")).collect();
    let output = check(kind, &lines);
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{words}");
    for (number, (message, part)) in messages.iter().enumerate() {
        let mut found = words.lines().filter(|line| line.starts_with(&format!("message {} ", number + 1)));
        assert!(found.any(|line| line.contains(part)), "{message} passed: {words}");
    }
}

#[test]
fn every_message_to_deepgram_is_one_the_vendors_package_knows() {
    let expected = [
        "ForceEndTurn",
        "FunctionCallResponse",
        "InjectAgentMessage",
        "InjectUserMessage",
        "KeepAlive",
        "Settings",
        "UpdatePrompt",
    ];
    every_message_passes("deepgram_agent", &expected);
}

#[test]
fn every_message_to_elevenlabs_is_one_the_vendors_package_knows() {
    let expected = [
        "client_tool_result",
        "contextual_update",
        "conversation_initiation_client_data",
        "pong",
        "user_audio_chunk",
        "user_message",
    ];
    every_message_passes("elevenlabs_agent", &expected);
}

#[test]
fn the_check_for_deepgram_finds_unknown_keys_wrong_types_and_the_retired_dialect() {
    let settings = |agent: Value| json!({ "type": "Settings", "audio": {}, "agent": agent });
    let speak = json!({ "provider": { "type": "deepgram", "model": "m", "voice": "v" } });
    let listen = json!({ "provider": { "type": "deepgram", "version": "v2", "model": "m", "language": "de" } });
    let think = json!({ "provider": { "type": "open_ai", "model": "m" }, "instructions": "Be brief." });
    let messages = [
        (settings(json!({ "speak": speak })), "$.agent.speak.provider.voice"),
        (settings(json!({ "listen": listen })), "$.agent.listen.provider.language"),
        (settings(json!({ "think": think })), "$.agent.think.instructions"),
        (json!({ "type": "InjectAgentMessage", "content": "x" }), "message"),
        (json!({ "type": "FunctionCallResponse", "name": "x", "content": "{}" }), "$.id: missing"),
        (json!({ "type": "FunctionCallResponse", "id": "c", "name": "x", "content": {} }), "content"),
        (json!({ "type": "SettingsConfiguration" }), "$.type"),
    ];
    are_found("deepgram_agent", &messages);
}

#[test]
fn the_check_for_elevenlabs_finds_unknown_keys_wrong_types_and_missing_members() {
    let messages = [
        (json!({ "type": "pong", "event_id": "7" }), "not assignable"),
        (json!({ "type": "pong", "event_id": 7, "x": 1 }), "\"x\""),
        (json!({ "type": "client_tool_result", "tool_call_id": "c", "result": "{}" }), "is_error"),
        (
            json!({ "type": "conversation_initiation_client_data", "conversation_config_override": {
                "agent": { "first_mesage": "Hello." },
            } }),
            "first_mesage",
        ),
        (json!({ "user_audio": "/w==" }), "user_audio"),
        (json!({ "type": "user_audio_chunk", "audio": "/w==" }), "$.type"),
    ];
    are_found("elevenlabs_agent", &messages);
}
