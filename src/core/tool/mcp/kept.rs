//! What of a result a model may read.
//!
//! - `structuredContent` alone, where there is one: the text beside it says the same again
//! - one text: the JSON in it, or `{text}`
//! - several parts: `{content: [..]}`, with `{type, mimeType, bytes}` in the place of images, sound and files
//! - nothing: null, which a look-up that found nothing is known by

use super::speech::{json_in, text_of};
use serde_json::{Map, Value, json};

/// As JSON. A call keeps what its model was told, and this is many times what any model is told of a result; of more only
/// the size is kept.
pub(super) const BYTES_MAX: usize = 256 * 1024;
/// What is kept of a link to a resource, and of an embedded one.
const LINK: [&str; 7] = ["type", "uri", "name", "title", "description", "mimeType", "size"];

pub(super) fn data(parts: &[&Map<String, Value>], structured: Option<&Value>) -> Value {
    let data = match (structured, parts) {
        (Some(structured), _) => structured.clone(),
        (None, []) => Value::Null,
        (None, [only]) if text_of(only).is_some() => {
            let text = text_of(only).unwrap_or_default();
            match json_in(text) {
                Some(json) => json,
                None if text.trim().is_empty() => Value::Null,
                None => json!({ "text": text }),
            }
        }
        (None, parts) => json!({ "content": parts.iter().map(|part| readable(part)).collect::<Vec<_>>() }),
    };
    let bytes = data.to_string().len();
    if bytes > BYTES_MAX { json!({ "truncated": true, "bytes": bytes }) } else { data }
}

/// A part without what is no text.
fn readable(part: &Map<String, Value>) -> Value {
    let member = |of: &Map<String, Value>, key: &str| of.get(key).cloned().unwrap_or(Value::Null);
    let kind = member(part, "type");
    match kind.as_str().unwrap_or_default() {
        "text" => json!({ "type": "text", "text": member(part, "text") }),
        "resource_link" => only(part, &LINK),
        "resource" => {
            let nothing = Map::new();
            let resource = part.get("resource").and_then(Value::as_object).unwrap_or(&nothing);
            let mut kept = only(resource, &LINK);
            kept["type"] = kind;
            match (resource.get("text"), resource.get("blob").and_then(Value::as_str)) {
                (Some(text), _) => kept["text"] = text.clone(),
                (None, Some(blob)) => kept["bytes"] = decoded_length(blob).into(),
                (None, None) => {}
            }
            kept
        }
        _ => {
            let bytes = part.get("data").and_then(Value::as_str).map_or(0, decoded_length);
            json!({ "type": kind, "mimeType": member(part, "mimeType"), "bytes": bytes })
        }
    }
}

fn only(object: &Map<String, Value>, keys: &[&str]) -> Value {
    keys.iter().filter_map(|key| Some(((*key).to_owned(), object.get(*key)?.clone()))).collect()
}

/// Of what is written in base 64.
fn decoded_length(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}
