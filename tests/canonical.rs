//! Canonical text and its hashes against vectors that Node made with its own reading of JSON
//! (`tests/fixtures/canonical/make.mjs`).

use offhook::tool::canonical::{Versioned, canonical, idempotency_key, registry_version};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Vectors {
    canonical: Vec<Text>,
    keys: Vec<Key>,
    versions: Vec<Registry>,
}

#[derive(Deserialize)]
struct Text {
    json: String,
    canonical: String,
}

#[derive(Deserialize)]
struct Key {
    provider_id: Option<String>,
    tool: String,
    json: String,
    turn: String,
    key: String,
}

#[derive(Deserialize)]
struct Registry {
    tools: Vec<Tool>,
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    tool_id: String,
    version: String,
    schema: Value,
    summary: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("fixtures/canonical/vectors.json")).expect("vectors as the script writes them")
}

/// P30: numbers of all magnitudes, escapes, the order of keys, as JavaScript has them.
#[test]
fn canonical_text_is_the_one_javascript_writes() {
    let vectors = vectors().canonical;
    assert!(vectors.len() >= 300, "{} vectors", vectors.len());
    let differing = vectors.iter().filter_map(|vector| {
        let value: Value = serde_json::from_str(&vector.json).expect("JSON");
        let ours = canonical(&value);
        (ours != vector.canonical)
            .then(|| format!("{}\n  JavaScript {}\n  ours       {ours}", vector.json, vector.canonical))
    });
    let differing: Vec<String> = differing.collect();
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

/// P29, P30: `provider:<id>` or `hash:` and 16 hex digits over the text stringified twice.
#[test]
fn keys_of_calls_are_the_ones_javascript_computes() {
    let vectors = vectors().keys;
    let (provider, hash): (Vec<&Key>, Vec<&Key>) =
        vectors.iter().partition(|vector| vector.key.starts_with("provider:"));
    assert!(provider.len() >= 10 && hash.len() >= 20, "both kinds are in the vectors");
    for vector in &vectors {
        let arguments: Map<String, Value> = serde_json::from_str(&vector.json).expect("an object");
        let ours = idempotency_key(vector.provider_id.as_deref(), &vector.tool, &arguments, &vector.turn);
        assert_eq!(ours, vector.key, "{} {} {}", vector.tool, vector.json, vector.turn);
    }
}

/// P2: the version of a registry is the same here and there.
#[test]
fn versions_of_registries_are_the_ones_javascript_computes() {
    for vector in vectors().versions {
        let tools: Vec<Versioned<'_>> = vector
            .tools
            .iter()
            .map(|tool| Versioned {
                tool_id: &tool.tool_id,
                version: &tool.version,
                schema: &tool.schema,
                summary: &tool.summary,
            })
            .collect();
        assert_eq!(registry_version(&tools), vector.version);
    }
}
