//! What a pipeline is refused for when it is loaded.

use crate::{
    config::{OptionProblem, ProviderConfig, Services},
    provider::{Among, build_among},
    remote::wards::Wards,
};
use serde_json::{Value, json};

/// What is wrong with a pipeline of these listeners; the other stages are right.
fn problems(options: Value) -> Vec<OptionProblem> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let entry =
        |name: &str, kind: &str, options: Value| (name.to_owned(), ProviderConfig { kind: kind.into(), options });
    let deepgram = |model: &str| json!({ "api_key": "key", "model": model });
    let mut eager = deepgram("nova-3");
    eager["endpointing_ms"] = 300.into();
    let services = Services {
        stt: [
            entry("flux", "deepgram_listen", deepgram("flux-general-en")),
            entry("nova", "deepgram_listen", deepgram("nova-3")),
            entry("eager", "deepgram_listen", eager),
            entry("whisper", "wyoming_transcribe", json!({ "address": "127.0.0.1:1" })),
        ]
        .into(),
        llm: [entry("house", "openai_chat", json!({ "model": "m" }))].into(),
        voices: [entry("piper", "wyoming_speech", json!({ "address": "127.0.0.1:2" }))].into(),
    };
    let mut all = json!({ "llm": "house", "tts": "piper" });
    options.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
    build_among("pipeline", &all, &Among { services: &services, wards: &Wards::default() }).err().unwrap_or_default()
}

#[test]
fn a_listener_that_is_to_end_turns_has_to_be_able_to() {
    for stt in [json!("flux"), json!("eager"), json!(["flux", "eager"])] {
        assert_eq!(problems(json!({ "stt": stt, "turn": "listener" })), []);
    }
    for (stt, who) in [(json!("nova"), "stt.nova"), (json!(["flux", "whisper"]), "stt.whisper")] {
        let [OptionProblem { path, message, hint: Some(hint) }] =
            &problems(json!({ "stt": stt, "turn": "listener" }))[..]
        else {
            panic!("{stt}");
        };
        assert_eq!((&**path, &**message), ("turn", &*format!("{who} does not tell where a turn ends")));
        assert!(hint.contains("Flux") && hint.contains("local"), "{hint}");
        assert_eq!(problems(json!({ "stt": stt, "turn": "local" })), []);
    }
    assert_eq!(problems(json!({ "stt": "flux", "turn": "nobody" })).len(), 1);
}
