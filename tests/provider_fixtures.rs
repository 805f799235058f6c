//! Every recorded conversation in `tests/fixtures/provider/KIND/*.jsonl`, decoded: what the codec of
//! that kind makes of each server message is held in a snapshot. A new provider needs its folder and
//! its options here; the toy of `docs/adding-a-provider.md` has them too.

#[path = "toy_provider/toy.rs"]
mod toy;

use offhook::{
    audio::Format,
    call::AgentEvent,
    config::Services,
    facts::CallId,
    provider::{self, AgentSetup, Among, Codec, Wire},
    remote::wards::Wards,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{fmt::Write, fs, path::PathBuf};

const KINDS: [&str; 5] = ["deepgram_agent", "elevenlabs_agent", "gemini_live", "openai_realtime", "toy"];

fn options(kind: &str) -> Value {
    match kind {
        "gemini_live" => json!({ "api_key": "test" }),
        "deepgram_agent" => json!({ "api_key": "dg-test" }),
        "elevenlabs_agent" => json!({ "agent_id": "agent_1" }),
        "openai_realtime" => json!({ "api_key": "sk-test" }),
        "toy" => json!({ "base_url": "wss://toy.example" }),
        other => panic!("write down options for the provider {other}"),
    }
}

fn codec(kind: &str) -> Box<dyn Codec> {
    let setup =
        AgentSetup { instructions: "Be brief.".into(), ..AgentSetup::new(CallId(uuid::Uuid::nil()), Format::ULAW) };
    let among = Among { services: &Services::default(), wards: &Wards::default() };
    // The toy is no row of `provider::PROVIDERS`.
    let built = match kind {
        "toy" => (toy::KIND.build)(&options(kind), &among),
        other => provider::build_among(other, &options(other), &among),
    };
    built.expect("good options").remote().codec(&setup)
}

fn fixtures() -> Vec<(String, PathBuf)> {
    let root = offhook_kit::project().join("tests/fixtures/provider");
    let list = |folder: PathBuf| {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    };
    list(root)
        .into_iter()
        .flat_map(|kind| {
            let name = kind.file_name().expect("a name").to_string_lossy().into_owned();
            list(kind).into_iter().map(move |path| (name.clone(), path))
        })
        .collect()
}

/// A line is a message of text; `{"binary":"00ff"}` stands for one of bytes.
fn wire(line: &str, message: &Value) -> Wire {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("a byte");
    match message["binary"].as_str() {
        Some(digits) => Wire::Binary(digits.as_bytes().chunks(2).map(byte).collect()),
        None => Wire::Text(line.into()),
    }
}

fn show(event: &AgentEvent) -> String {
    match event {
        AgentEvent::Audio { response, item, audio } if audio.is_empty() => format!("end of audio {response} {item}"),
        AgentEvent::Audio { response, item, audio } => format!("audio {response} {item} {:02x?}", audio.as_ref()),
        other => format!("{other:?}"),
    }
}

/// The message's type, or what it holds where messages have none.
fn name_of(line: &str) -> String {
    match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(message)) if !message.contains_key("type") => {
            let keys = message.iter().map(|(key, value)| {
                let within = value.as_object().map(|value| value.keys().cloned().collect::<Vec<_>>().join(", "));
                within.filter(|within| !within.is_empty()).map_or(key.clone(), |within| format!("{key} {{ {within} }}"))
            });
            keys.collect::<Vec<_>>().join(", ")
        }
        Ok(message) => message["type"].to_string(),
        Err(_) => line.into(),
    }
}

#[test]
fn recorded_conversations_are_understood_as_before() {
    for (kind, path) in fixtures() {
        let mut codec = codec(&kind);
        let mut shown = String::new();
        for line in fs::read_to_string(&path).expect("a readable fixture").lines() {
            let (mut events, mut replies) = (Vec::new(), Vec::new());
            let message = serde_json::from_str::<Value>(line).unwrap_or_default();
            codec.decode(wire(line, &message), &mut events, &mut replies);
            let name = if message["binary"].is_null() { name_of(line) } else { "(binary)".into() };
            writeln!(shown, "{name}").expect("a string grows");
            for event in &events {
                writeln!(shown, "    {}", show(event)).expect("a string grows");
            }
            for reply in &replies {
                writeln!(shown, "  > {reply:?}").expect("a string grows");
            }
        }
        let name = format!("{kind}__{}", path.file_stem().expect("a name").to_string_lossy());
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, shown);
        });
    }
}

/// A message with one value somewhere replaced by another.
fn bent(message: &Value, at: usize, by: &Value) -> Value {
    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(values) => values.iter().map(count).sum(),
            Value::Object(map) => map.values().map(count).sum(),
            _ => 0,
        }
    }
    fn replace(value: &mut Value, at: &mut usize, by: &Value) {
        if *at == 0 {
            *value = by.clone();
        }
        *at = at.wrapping_sub(1);
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| replace(value, at, by)),
            Value::Object(map) => map.values_mut().for_each(|value| replace(value, at, by)),
            _ => {}
        }
    }
    let mut bent = message.clone();
    replace(&mut bent, &mut (at % count(message)), by);
    bent
}

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[{}]])),
    ]
}

proptest! {
    #[test]
    fn no_bytes_make_a_codec_panic(text in any::<bool>(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for kind in KINDS {
            let wire = if text {
                Wire::Text(String::from_utf8_lossy(&bytes).into_owned())
            } else {
                Wire::Binary(bytes.clone().into())
            };
            codec(kind).decode(wire, &mut Vec::new(), &mut Vec::new());
        }
    }

    #[test]
    fn no_bent_message_makes_a_codec_panic(bends in proptest::collection::vec((any::<usize>(), any::<usize>(), odd_value()), 1..30)) {
        let messages: Vec<(String, Value)> = fixtures()
            .into_iter()
            .flat_map(|(kind, path)| {
                let text = fs::read_to_string(path).expect("a readable fixture");
                let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
                lines.into_iter().map(move |message| (kind.clone(), message))
            })
            .collect();
        let mut codecs: Vec<_> = KINDS.iter().map(|kind| (*kind, codec(kind))).collect();
        for (which, at, by) in bends {
            let (kind, message) = &messages[which % messages.len()];
            let (_, codec) = codecs.iter_mut().find(|(name, _)| name == kind).expect("a kind of `KINDS`");
            let wire = Wire::Text(bent(message, at, &by).to_string());
            codec.decode(wire, &mut Vec::new(), &mut Vec::new());
        }
    }
}
