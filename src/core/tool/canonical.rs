//! Canonical JSON text, and the hashes made of it: keys of calls, the version of a registry,
//! digests of arguments.
//!
//! Other programs compute the same hashes in JavaScript, so the text is what JavaScript would
//! write: keys in the order of their UTF-16 code units, numbers as its `Number` prints them,
//! strings as `JSON.stringify` escapes them, no spaces. `tests/fixtures/canonical` holds vectors
//! made by Node.
//!
//! The published algorithm does not escape keys. Two different objects can then give one text
//! (`{"a\":1,\"b":2}` and `{"a":1,"b":2}`), which is harmless where only the hash is compared with
//! someone else's, but not where it stands for what a caller agreed to. So [`canonical`] and
//! what must equal JavaScript's hashes follow the published form; [`arguments_digest`] and
//! [`fingerprint`] escape keys.
//!
//! The writer calls itself for each level of nesting. Values that came as text are at most 128
//! levels deep, serde_json's own limit.

use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// A provider's id of a call has to be longer than this, in UTF-16 code units, to be trusted as
/// unique: shorter ones are counters.
const PROVIDER_ID_UNITS: usize = 8;
/// Hex digits of the hash in a key.
const KEY_HEX: usize = 16;
/// Hex digits of the hash in a registry's version.
const VERSION_HEX: usize = 8;

/// The key under which the result of a call is kept: `provider:<id>` if the provider gave an id
/// that is long enough to be unique, else `hash:` and 16 hex digits over tool, arguments and turn.
///
/// A tool's name that stands in for a missing id is no provider id: pass `None` then.
pub fn idempotency_key(provider_id: Option<&str>, tool: &str, arguments: &Map<String, Value>, turn: &str) -> String {
    if let Some(id) = provider_id
        && id.encode_utf16().nth(PROVIDER_ID_UNITS).is_some()
    {
        return format!("provider:{id}");
    }
    // The three keys in their sorted order.
    let mut text = String::from("{\"args\":");
    write_object(arguments, Keys::Plain, &mut text);
    text.push_str(",\"tool\":");
    write_string(tool, &mut text);
    text.push_str(",\"turn\":");
    write_string(turn, &mut text);
    text.push('}');
    // The canonical text is stringified once more before it is hashed.
    let mut quoted = String::new();
    write_string(&text, &mut quoted);
    format!("hash:{}", hex(&Sha256::digest(quoted), KEY_HEX))
}

/// `sha256:` and 32 hex digits of a text that is too long to keep.
pub fn digest_of(text: &str) -> String {
    format!("sha256:{}", hex(&Sha256::digest(text), 32))
}

/// What of a tool enters the version of a registry.
#[derive(Debug, Clone, Copy)]
pub struct Versioned<'a> {
    pub tool_id: &'a str,
    pub version: &'a str,
    pub schema: &'a Value,
    pub summary: &'a str,
}

/// `1.0.` and 8 hex digits over the tools in the order given; `1.0.00000000` for none.
///
/// The order counts, so that the version equals JavaScript's. Callers pass the tools sorted by
/// name: the same tools then have the same version.
pub fn registry_version(tools: &[Versioned<'_>]) -> String {
    if tools.is_empty() {
        return format!("1.0.{}", "0".repeat(VERSION_HEX));
    }
    let mut text = String::from("[");
    for (index, tool) in tools.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str("{\"schema\":");
        write_value(tool.schema, Keys::Plain, &mut text);
        for (key, value) in [("summary", tool.summary), ("toolId", tool.tool_id), ("version", tool.version)] {
            text.push_str(",\"");
            text.push_str(key);
            text.push_str("\":");
            write_string(value, &mut text);
        }
        text.push('}');
    }
    text.push(']');
    format!("1.0.{}", hex(&Sha256::digest(text), VERSION_HEX))
}

/// What a confirmation is bound to, and by what two calls are told apart: equal for equal
/// arguments however they were spelled, different for different ones.
pub fn arguments_digest(arguments: &Map<String, Value>) -> [u8; 32] {
    let mut text = String::new();
    write_object(arguments, Keys::Escaped, &mut text);
    Sha256::digest(text).into()
}

/// Digest by which two calls under one id are told apart: of the tool and what `arguments_digest` covers.
pub fn call_digest(tool: &str, arguments: &Map<String, Value>) -> [u8; 32] {
    let mut text = String::new();
    write_string(tool, &mut text);
    write_object(arguments, Keys::Escaped, &mut text);
    Sha256::digest(text).into()
}

/// Stands for a value in a record that may not hold the value itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Fingerprint {
    /// 64 lower-case hex digits over the canonical text.
    pub sha256: String,
    /// Characters of the canonical text.
    pub length: usize,
}

pub fn fingerprint(value: &Value) -> Fingerprint {
    let mut text = String::new();
    write_value(value, Keys::Escaped, &mut text);
    Fingerprint { length: text.chars().count(), sha256: hex(&Sha256::digest(text), 64) }
}

/// The canonical text in its published form.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_value(value, Keys::Plain, &mut text);
    text
}

#[derive(Clone, Copy)]
enum Keys {
    /// Between quotes as they are: the published form.
    Plain,
    /// As strings: the form in which no two values share a text.
    Escaped,
}

fn write_value(value: &Value, keys: Keys, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(number, text),
        Value::String(string) => write_string(string, text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(item, keys, text);
            }
            text.push(']');
        }
        Value::Object(object) => write_object(object, keys, text),
    }
}

fn write_object(object: &Map<String, Value>, keys: Keys, text: &mut String) {
    let mut entries: Vec<(&String, &Value)> = object.iter().collect();
    // Not the order of Rust's strings: U+FF5E comes after U+1F600 there, before it here.
    entries.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    text.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        match keys {
            Keys::Plain => {
                text.push('"');
                text.push_str(key);
                text.push('"');
            }
            Keys::Escaped => write_string(key, text),
        }
        text.push(':');
        write_value(value, keys, text);
    }
    text.push('}');
}

/// JavaScript knows only doubles, so integers go through one: 2^53 + 1 prints as 2^53.
fn write_number(number: &Number, text: &mut String) {
    match number.as_f64() {
        Some(double) if double.is_finite() => text.push_str(ryu_js::Buffer::new().format_finite(double)),
        // What JSON.stringify makes of a number that is none.
        _ => text.push_str("null"),
    }
}

/// As `JSON.stringify` does, which escapes the quote, the backslash and what is below U+0020 and
/// nothing else (lone surrogates aside, which no `str` holds).
fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            '\0'..='\u{1f}' => write!(text, "\\u{:04x}", u32::from(character)).unwrap_or_default(),
            _ => text.push(character),
        }
    }
    text.push('"');
}

/// The first `digits` hex digits, lower case.
fn hex(bytes: &[u8], digits: usize) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap_or_default();
    }
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(object) => object,
            other => panic!("not an object: {other}"),
        }
    }

    /// P30: the text does not depend on how the model spelled the arguments.
    #[test]
    fn spelling_does_not_count_and_meaning_does() {
        let read = |text: &str| object(serde_json::from_str(text).unwrap());
        let one = read(r#"{"n": 1.0, "s": "\u00e9", "o": {"b": [1, 2], "a": null}}"#);
        let same = read(r#"{"o":{"a":null,"b":[1,2]},"s":"é","n":1}"#);
        let other = read(r#"{"o":{"a":null,"b":[2,1]},"s":"é","n":1}"#);
        assert_eq!(arguments_digest(&one), arguments_digest(&same));
        assert_ne!(arguments_digest(&one), arguments_digest(&other));
        let key = |arguments| idempotency_key(None, "t", arguments, "turn-1");
        assert_eq!(key(&one), key(&same));
        assert_ne!(key(&one), key(&other));
        assert_ne!(key(&one), idempotency_key(None, "u", &one, "turn-1"));
        assert_ne!(key(&one), idempotency_key(None, "t", &one, "turn-2"));
    }

    /// P29, P30: an id of nine UTF-16 units is a provider's, one of eight is not.
    #[test]
    fn only_a_long_id_of_the_provider_becomes_the_key() {
        let key = |id| idempotency_key(id, "t", &Map::new(), "1");
        assert_eq!(key(Some("call_1234")), "provider:call_1234");
        assert_eq!(key(Some("😀😀😀😀1")), "provider:😀😀😀😀1");
        let hashed = key(None);
        assert!(hashed.starts_with("hash:") && hashed.len() == "hash:".len() + 16, "{hashed}");
        for short in ["", "call_123", "😀😀😀😀"] {
            assert_eq!(key(Some(short)), hashed, "{short}");
        }
    }

    /// P2: nothing loaded has a version too.
    #[test]
    fn a_registry_without_tools_has_the_version_of_zeros() {
        assert_eq!(registry_version(&[]), "1.0.00000000");
    }

    /// P15, P answer 3: a digest that a confirmation is bound to cannot be met by a forged key.
    #[test]
    fn a_key_that_looks_like_two_members_changes_the_digest() {
        let plain = json!({ "a": 1, "b": 2 });
        let forged = json!({ "a\":1,\"b": 2 });
        assert_eq!(canonical(&plain), canonical(&forged), "the published form cannot tell them apart");
        assert_ne!(fingerprint(&plain), fingerprint(&forged));
        assert_ne!(arguments_digest(&object(plain)), arguments_digest(&object(forged)));
    }

    #[test]
    fn a_fingerprint_counts_characters() {
        let print = fingerprint(&json!("é😀"));
        assert_eq!(print.length, 4);
        assert_eq!(print.sha256.len(), 64);
    }
}
