//! What holds for every kind of listener.

use super::*;
use crate::remote::kinds;
use serde_json::{Value, json};

#[test]
fn every_kind_has_a_schema_and_a_name_of_its_own() {
    let mut kinds: Vec<&str> = LISTENERS.iter().map(|row| row.kind).collect();
    for row in LISTENERS {
        assert_eq!((row.schema)()["additionalProperties"], false, "{}", row.kind);
        assert!(!row.summary.is_empty());
        let problems = (row.check)(&json!({ "nonsense": 1 }));
        assert!(
            !problems.is_empty() && kinds::build(LISTENERS, row.kind, &json!({ "nonsense": 1 })).is_err(),
            "{}",
            row.kind
        );
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), LISTENERS.len());
}

#[test]
fn what_the_caller_says_is_in_no_log_line() {
    for heard in [Heard::Turn { text: "my name".into() }, Heard::Partial { text: "my name".into(), stable: true }] {
        assert!(!format!("{heard:?}").contains("my name"));
    }
}

/// Options by what is wrong with them.
#[test]
fn mistakes_are_told_by_their_place() {
    let told = |kind: &str, options: Value| -> Vec<String> {
        let row = LISTENERS.iter().find(|row| row.kind == kind).unwrap();
        (row.check)(&options).into_iter().map(|problem| problem.path).collect()
    };
    let nova = |key: &str, value: Value| told("deepgram_listen", json!({ "api_key": "k", key: value }));
    assert!(nova("language", json!("de")).is_empty());
    assert_eq!(nova("base_url", json!("https://api.deepgram.com")), ["base_url"]);
    assert_eq!(nova("base_url", json!("wss://api.deepgram.com?a=b")), ["base_url"]);
    assert_eq!(nova("eot_threshold", json!(0.8)), ["eot_threshold"], "is for Flux");
    assert_eq!(nova("endpointing_ms", json!(1)), ["endpointing_ms"]);
    assert_eq!(nova("keyterms", json!(vec!["a"; 101])), ["keyterms"]);
    let flux = |key: &str, value: Value| {
        told("deepgram_listen", json!({ "api_key": "k", "model": "flux-general-en", key: value }))
    };
    assert!(flux("eot_timeout_ms", json!(3000)).is_empty());
    assert_eq!(flux("language", json!("de")), ["language"], "is for Nova");
    assert_eq!(flux("language_hints", json!(["de"])), ["language_hints"]);
    assert_eq!(flux("eager_eot_threshold", json!(1)), ["eager_eot_threshold"]);
    assert!(flux("version", json!("v1")).is_empty(), "a name may mislead");
    assert_eq!(told("openai_transcription", json!({ "model": " ", "base_url": "wss://a" })), ["base_url", "model"]);
    let both = json!({ "model": "m", "language": "de", "languages": ["de"] });
    assert_eq!(told("openai_transcription", both), ["languages"]);
    let realtime = json!({ "api_key": "a key", "base_url": "http://a", "project": "" });
    assert_eq!(told("openai_realtime_transcription", realtime), ["api_key", "base_url", "project"]);
    for address in ["localhost", "localhost:0", ":10300", "tcp://localhost:10300", "localhost:99999"] {
        assert_eq!(told("wyoming_transcribe", json!({ "address": address })), ["address"], "{address}");
    }
    assert!(told("wyoming_transcribe", json!({ "address": "[::1]:10300" })).is_empty());
}
