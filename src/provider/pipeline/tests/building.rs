//! What a pipeline is refused for when it is loaded, and what it says of itself.

use crate::{
    config::{OptionProblem, ProviderConfig, Services},
    provider::{
        Among, Provider,
        pipeline::{Pipeline, made},
    },
    remote::wards::Wards,
};
use serde_json::{Value, json};
use std::time::Duration;

fn problems(options: Value) -> Vec<OptionProblem> {
    built(options).err().unwrap_or_default()
}

/// A pipeline of these listeners, or whatever else is written; the other stages are right.
fn built(options: Value) -> Result<Pipeline, Vec<OptionProblem>> {
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
        llm: [
            entry("house", "openai_chat", json!({ "model": "m" })),
            entry("thinker", "openai_chat", json!({ "model": "m", "timeout_ms": 20_000 })),
            entry("list", "attendant", json!({ "entries": [{ "key": "1", "say": "One." }] })),
        ]
        .into(),
        voices: [
            entry("piper", "wyoming_speech", json!({ "address": "127.0.0.1:2" })),
            entry("robot", "espeak_ng", json!({})),
        ]
        .into(),
    };
    let mut all = json!({ "llm": "house", "tts": "piper" });
    options.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
    made(&all, &Among { services: &services, wards: &Wards::default() })
}

/// 3 s are for what fails at once. A listener that is alone is asked twice.
#[test]
fn a_call_waits_for_a_pipeline_as_long_as_all_of_its_services_may_take() {
    for (options, answer, gap) in [
        (json!({ "stt": "flux" }), 4 + 4 + 5 + 4 + 3, 5 + 4 + 3),
        (json!({ "stt": ["flux", "whisper"], "tts": ["piper", "robot"] }), 4 + 4 + 5 + 4 + 2 + 3, 5 + 4 + 2 + 3),
        (json!({ "stt": ["flux", "nova", "eager"], "llm": ["house", "thinker"] }), 12 + 5 + 20 + 4 + 3, 20 + 4 + 3),
    ] {
        let Ok(pipeline) = built(options.clone()) else { panic!("{options}") };
        let (answer, gap) = (Duration::from_secs(answer), Duration::from_secs(gap));
        assert_eq!((pipeline.traits().answer_max, pipeline.traits().gap_max), (answer, gap), "{options}");
    }
}

/// The record of a call may be asked of any model of the list, and one that sums nothing up has none to give.
#[test]
fn a_model_is_asked_for_summaries_where_it_gives_them_and_nobody_forbids_it() {
    for (options, of_calls, of_history) in [
        (json!({}), true, true),
        (json!({ "summaries": false }), false, false),
        (json!({ "llm": "list" }), false, false),
        (json!({ "llm": ["house", "list"] }), false, true),
        (json!({ "llm": ["house", "list"], "summaries": false }), false, false),
    ] {
        let mut all = json!({ "stt": "flux" });
        options.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
        let Ok(pipeline) = built(all) else { panic!("{options}") };
        assert_eq!((pipeline.traits().summarises, pipeline.sums_up), (of_calls, of_history), "{options}");
    }
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
