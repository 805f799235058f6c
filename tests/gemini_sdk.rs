//! Every message the Gemini Live provider can send, checked by the types of the vendor's own Python
//! package; and the server messages that its tests stand on.

use crate::kit::{processes::words_of, python};

use offhook::{
    audio::Format,
    call::{AgentCommand, CallerTurn, Reply},
    facts::CallId,
    provider::{self, AgentSetup, Codec, Wire},
    tool::schemas::{Dialect, ToolText},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, process::Output};

fn check(arguments: &[&str], lines: &str) -> Output {
    python::check_lines("google-genai", "check_gemini.py", arguments, lines)
}

fn options() -> Vec<Value> {
    vec![
        json!({ "api_key": "k" }),
        json!({
            "api_key": "k", "model": "gemini-3.8-live-extended-thinking", "voice": "Kore", "temperature": 0.7,
            "max_output_tokens": 900, "thinking": "xhigh",
            "transcription": { "languages": ["de-DE", "en-US"], "vocabulary": ["offhook"] },
            "turn_detection": {
                "start_sensitivity": "low", "end_sensitivity": "high", "prefix_padding_ms": 40,
                "silence_duration_ms": 600,
            },
        }),
        json!({
            "vertex": { "project": "p", "access_token": "t" }, "model": "gemini-live-2.5-flash-native-audio",
            "thinking": -1, "transcription": null, "turn_detection": { "start_sensitivity": "high" },
        }),
    ]
}

fn agents() -> Vec<AgentSetup> {
    let parameters = json!({
        "type": "object", "properties": { "destination": { "type": "string", "enum": ["sales"] } },
        "required": ["destination"],
    });
    let text = ToolText { name: "transfer", description: "Hands the caller on.", parameters: &parameters };
    let tools = [Dialect::Gemini.render(text).expect("it can be told")];
    let plain = AgentSetup::new(CallId::random(), Format::ULAW);
    let agent = AgentSetup { instructions: "Be brief.".into(), tools: tools.into(), ..plain.clone() };
    vec![plain, AgentSetup { told_turns: true, resume: Some("handle".into()), ..agent.clone() }, agent]
}

/// All that one session sends. Each step is what is heard before, and what is told.
fn session(options: &Value, agent: &AgentSetup) -> Vec<Value> {
    let mut codec = provider::build("gemini_live", options).expect("good options").remote().codec(agent);
    let mut sent = Vec::new();
    codec.open(&mut sent);
    let result = |call_id: &str, ok: bool, reply| AgentCommand::ToolResult {
        call_id: call_id.into(),
        output: json!({ "ok": ok, "message": "Done." }).to_string(),
        reply,
    };
    let tell = |reply| AgentCommand::Tell { text: "The caller pressed a key.".into(), reply };
    let called = json!({ "toolCall": { "functionCalls": [
        { "id": "c1", "name": "transfer", "args": { "destination": "sales" } }, { "name": "transfer" },
    ] } });
    let over = json!({ "serverContent": { "generationComplete": true, "turnComplete": true } });
    for (heard, command) in [
        (json!({ "setupComplete": {} }), AgentCommand::Greet { text: None }),
        (over.clone(), AgentCommand::Greet { text: Some("Hello.".into()) }),
        (over.clone(), AgentCommand::Audio(vec![0xff; 640].into())),
        (over.clone(), AgentCommand::Turn(CallerTurn::Began)),
        (over.clone(), AgentCommand::Turn(CallerTurn::Ended)),
        (over.clone(), tell(Reply::NotNow)),
        (called, result("c1", false, Reply::NotNow)),
        (json!({ "usageMetadata": {} }), result("unnamed-1", true, Reply::Wanted)),
        (over.clone(), tell(Reply::Wanted)),
        (over.clone(), AgentCommand::Written { text: "Are you open?".into() }),
        (over, AgentCommand::Say { text: "Ask whether the caller is still there.".into() }),
    ] {
        hear(&mut codec, &heard, &mut sent);
        codec.encode(command, &mut sent);
    }
    sent.into_iter()
        .map(|wire| match wire {
            Wire::Text(text) => serde_json::from_str(&text).expect("JSON"),
            Wire::Binary(_) => panic!("we send text"),
        })
        .collect()
}

fn hear(codec: &mut Box<dyn Codec>, message: &Value, sent: &mut Vec<Wire>) {
    codec.decode(Wire::Binary(message.to_string().into()), &mut Vec::new(), sent);
}

#[test]
fn every_message_we_can_send_is_one_the_vendors_package_knows() {
    let (mut lines, mut kinds) = (String::new(), BTreeSet::new());
    for options in options() {
        for agent in agents() {
            for message in session(&options, &agent) {
                for (kind, within) in message.as_object().expect("an object") {
                    let part = within.as_object().and_then(|within| within.keys().next());
                    let part = part.filter(|_| kind == "realtimeInput").map_or("", |part| part.as_str());
                    kinds.insert(format!("{kind} {part}").trim_end().to_owned());
                }
                lines.push_str(&message.to_string());
                lines.push('\n');
            }
        }
    }
    let expected = [
        "clientContent",
        "realtimeInput activityEnd",
        "realtimeInput activityStart",
        "realtimeInput audio",
        "setup",
        "toolResponse",
    ];
    assert_eq!(kinds, expected.map(str::to_owned).into(), "the steps above no longer bring out every message");
    for part in ["\"scheduling\":\"WHEN_IDLE\"", "\"scheduling\":\"SILENT\"", "\"error\":{", "alsoKnow"] {
        assert!(lines.contains(part), "no {part} was sent");
    }
    let output = check(&[], &lines);
    assert!(output.status.success(), "{}", words_of(&output));
}

/// The fixtures but for those that show what no server should say.
#[test]
fn the_recorded_server_messages_are_ones_the_vendors_package_knows() {
    let folder = offhook_kit::project().join("tests/fixtures/provider/gemini_live");
    let read = |name: &str| fs::read_to_string(folder.join(name).with_extension("jsonl")).expect("a fixture");
    let lines = ["answer", "interruption", "function_calls", "empty_turns", "lifetime"].map(read).concat();
    let output = check(&["--server"], &lines);
    assert!(output.status.success(), "{}", words_of(&output));
}

#[test]
fn the_check_itself_finds_unknown_keys_wrong_types_and_what_is_missing() {
    let setup = |key: &str, value: Value| {
        let generation = json!({ "responseModalities": ["AUDIO"] });
        json!({ "setup": { "model": "models/m", "generationConfig": generation, key: value } })
    };
    let response = |response: Value| json!({ "toolResponse": { "functionResponses": [response] } });
    let wrong = [
        (setup("voice", json!("Kore")), "$.setup.voice"),
        (setup("systemInstruction", json!("Be brief.")), "$.setup.systemInstruction"),
        (setup("generationConfig", json!({ "responseModalities": ["SOUND"] })), "SOUND"),
        (setup("generationConfig", json!({ "responseModalities": ["AUDIO"], "maxOutputTokens": "5" })), "'5'"),
        (setup("realtimeInputConfig", json!({ "automaticActivityDetection": { "silence": 1 } })), "silence"),
        (response(json!({ "id": "c", "response": {} })), "name: missing"),
        (response(json!({ "id": "c", "name": "n", "response": "text" })), "response"),
        (response(json!({ "id": "c", "name": "n", "response": {}, "scheduling": "LATER" })), "LATER"),
        (json!({ "clientContent": { "turns": [{ "parts": [] }], "turnComplete": true } }), "role"),
        (json!({ "realtimeInput": { "activityStart": {}, "activityEnd": {} } }), "2 things"),
        (json!({ "realtimeInput": { "audio": { "data": "AQI=" } } }), "mimeType: missing"),
        (json!({ "session.update": {} }), "session.update"),
    ];
    let lines: String = wrong.iter().map(|(message, _)| format!("{message}\n")).collect();
    let output = check(&[], &lines);
    let words = words_of(&output);
    assert!(!output.status.success(), "all passed: {words}");
    for (number, (message, part)) in wrong.iter().enumerate() {
        let about = format!("message {} ", number + 1);
        let found = words.lines().any(|line| line.starts_with(&about) && line.contains(part));
        assert!(found, "{message} passed: {words}");
    }
}
