//! The whole way of a file, from text to configuration or to problems.

use super::*;
use serde_json::{Value, json};
use std::fs;

mod effects;
mod mcp;
mod mistakes;
mod price;
mod shipped;
mod slips;
mod speech;
mod vam;

/// The providers and tools of these tests, small enough to be read here.
fn catalog() -> Catalog {
    let realtime = json!({
        "type": "object",
        "properties": {
            "api_key": { "type": "string" },
            "model": { "type": "string" },
            "temperature": { "type": "number", "minimum": 0, "maximum": 2 },
            "turn": { "anyOf": [{ "$ref": "#/$defs/Turn" }, { "type": "null" }] },
        },
        "required": ["api_key"],
        "additionalProperties": false,
        "$defs": {
            "Turn": {
                "oneOf": [
                    { "const": "semantic", "description": "By meaning." },
                    { "const": "server", "description": "By silence." },
                ],
            },
        },
    });
    let scripted = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    Catalog {
        providers: vec![
            ProviderKind {
                kind: "scripted",
                summary: "A script.",
                schema: scripted,
                check: |_| Vec::new(),
                calls: |_| Vec::new(),
                names: |_| Vec::new(),
            },
            ProviderKind {
                kind: "openai_realtime",
                summary: "A model.",
                schema: realtime,
                check: check_realtime,
                calls: |_| Vec::new(),
                names: |_| Vec::new(),
            },
        ],
        stt: Vec::new(),
        llm: Vec::new(),
        voices: vec![ServiceKind {
            kind: "espeak_ng",
            summary: "A program.",
            schema: json!({
                "type": "object",
                "properties": { "voice": { "type": "string" } },
                "additionalProperties": false,
            }),
            check: |options| match options["voice"].as_str() {
                Some("zzzz") => vec![OptionProblem::new("voice", "is no voice")],
                _ => Vec::new(),
            },
            calls: |_| Vec::new(),
            language: |_| None,
        }],
        tools: crate::tool::BUILT_IN.to_vec(),
        ..Catalog::default()
    }
}

fn check_realtime(options: &Value) -> Vec<OptionProblem> {
    let mut problems = Vec::new();
    let mut problem = |path: &str, message: &str| {
        problems.push(OptionProblem { path: path.into(), message: message.into(), hint: None });
    };
    if options.get("api_key").is_none() {
        problem("api_key", "the key is needed");
    }
    if options.get("model").is_some_and(|model| model == "gpt-1") {
        problem("model", "this model does not speak");
    }
    if options.get("model").is_some_and(|model| model == "tell") {
        problem("api_key", &format!("{} is a bad key", options["api_key"]));
    }
    problems
}

fn env(name: &str) -> Option<String> {
    let table = [
        ("ARI_PASSWORD", "12345678"),
        ("OPENAI_API_KEY", "sk-test-key"),
        ("PORT", "15001"),
        ("CALLS", "42"),
        ("SECRET_WORD", "swordfish"),
        ("EMPTY", ""),
    ];
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

/// The smallest configuration there is.
const SMALL: &str = "\
providers:
  front: { scripted: }
contexts:
  desk:
    prompt: Be kind.
    provider: front
";

fn loaded(text: &str) -> Config {
    load_str("test.yaml", text, &env, &catalog()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The problems of `text`, as an operator reads them.
fn problems(text: &str) -> String {
    match load_str("test.yaml", text, &env, &catalog()) {
        Ok(_) => String::from("none"),
        Err(problems) => problems.to_string(),
    }
}

/// The problems of [`SMALL`] with `lines` after it.
fn problems_with(lines: &str) -> String {
    problems(&format!("{SMALL}{lines}"))
}

#[test]
fn what_is_not_written_has_its_default() {
    let config = loaded(SMALL);
    assert!(config.asterisk.is_none());
    assert_eq!(config.media.default.to_string(), "audiosocket/slin");
    assert_eq!(config.media.audiosocket.advertise, "127.0.0.1:9092");
    assert_eq!(config.media.rtp.ports, 21000..=21999);
    assert_eq!(config.http.bind.to_string(), "127.0.0.1:15000");
    assert_eq!((config.limits.calls, config.limits.drain), (200, Duration::from_secs(60)));
    let desk = &config.contexts["desk"];
    assert_eq!(desk.rules, CallRules::default());
    assert!(desk.tools.is_empty() && desk.speech == Speech::default() && desk.audiosocket_id.is_none());
}

#[test]
fn what_is_written_holds() {
    let config = loaded(
        r#"
asterisk: { url: "https://pbx.example.com/x/", username: u, password: "${ARI_PASSWORD}", app: bot }
media:
  default: rtp/alaw
  audiosocket: { bind: 0.0.0.0:9000, advertise: "offhook:9000" }
  rtp: { bind: 10.0.0.1, ports: 30000-30999 }
http: { bind: "127.0.0.1:${PORT}" }
limits: { calls: 7, drain: 0s }
default_context: desk
providers:
  front: { openai_realtime: { api_key: "${SECRET_WORD}", turn: semantic } }
destinations: { sales: { description: People, context: from-internal, extension: "200" } }
contexts:
  desk:
    prompt: Be kind.
    greeting: Hello {caller_name}
    provider: front
    tools: [transfer, hangup_call]
    audio: audiosocket/slin16
    audiosocket_id: 0FF40001
    limits: { call: 1h, agent_ready: 500ms }
    no_input: { after: 5s, prompts: 0, say: Still there? }
    on_failure: { then: { transfer: sales } }
"#,
    );
    insta::assert_debug_snapshot!(config);
}

#[test]
fn a_variables_value_has_the_type_that_its_key_wants() {
    let asterisk = "asterisk: { password: \"${ARI_PASSWORD}\" }\nlimits:\n  calls: ${CALLS}\n";
    let plain = "asterisk:\n  password: ${ARI_PASSWORD}\n";
    for text in [asterisk, plain] {
        use secrecy::ExposeSecret;
        let config = loaded(&format!("{SMALL}{text}"));
        assert_eq!(config.asterisk.unwrap().password.expose_secret(), "12345678");
    }
    assert_eq!(loaded(&format!("{SMALL}{asterisk}")).limits.calls, 42);
}

#[test]
fn keys_of_providers_are_not_in_the_debug_output() {
    let text = SMALL.replace("{ scripted: }", "{ openai_realtime: { api_key: \"${SECRET_WORD}\" } }");
    let config = loaded(&text);
    assert_eq!(config.providers["front"].options["api_key"], "swordfish");
    assert!(!format!("{config:?}").contains("swordfish"));
}

#[test]
fn an_alias_repeats_a_value() {
    let text = "\
providers: { front: { scripted: } }
contexts:
  one: &base { prompt: Be kind., provider: front, limits: &limits { call: 5m } }
  two: *base
  three: { prompt: Be short., provider: front, limits: *limits }
";
    let config = loaded(text);
    assert!(config.contexts.values().all(|context| context.rules.call_max == Duration::from_secs(300)));
}

#[test]
fn a_relative_apology_is_looked_for_beside_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sounds")).unwrap();
    fs::write(folder.path().join("sounds/sorry.wav"), include_bytes!("../core/audio/apology.wav")).unwrap();
    let file = folder.path().join("offhook.yaml");
    fs::write(&file, format!("{SMALL}    on_failure: {{ apology: sounds/sorry.wav }}\n")).unwrap();
    let config = load(&file, &env, &catalog()).unwrap();
    assert_eq!(
        config.contexts["desk"].speech.apology.as_ref().and_then(|apology| apology.file.clone()),
        Some(folder.path().join("sounds/sorry.wav"))
    );
}

#[test]
fn music_for_those_who_wait_is_looked_for_beside_the_file_and_may_be_left_empty() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("music.wav"), include_bytes!("../core/audio/apology.wav")).unwrap();
    let file = folder.path().join("offhook.yaml");
    let loaded = |media: &str| {
        fs::write(&file, format!("{SMALL}media: {{ {media} }}\n")).unwrap();
        load(&file, &env, &catalog()).map(|config| config.media.ring_music).map_err(|problems| problems.to_string())
    };
    assert_eq!(loaded("ring_music: music.wav").unwrap(), Some(folder.path().join("music.wav")));
    assert_eq!(loaded("ring_music: ''").unwrap(), None);
    let told = loaded("ring_music: nowhere.wav").unwrap_err();
    assert!(told.contains("media.ring_music: cannot use ") && told.contains("nowhere.wav\": cannot read"), "{told}");
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let told = |path: &std::path::Path| load(path, &env, &catalog()).unwrap_err().to_string();
    let missing = folder.path().join("missing.yaml");
    assert!(told(&missing).starts_with(&format!("{}: cannot be read: No such file", missing.display())));
    let binary = folder.path().join("binary.yaml");
    fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    assert!(told(&binary).ends_with("is not text in UTF-8"));
    fs::write(&binary, vec![b'#'; 5 << 20]).unwrap();
    assert!(told(&binary).ends_with("is larger than 4 MiB"));
    assert!(told(folder.path()).contains("cannot be read"));
}
