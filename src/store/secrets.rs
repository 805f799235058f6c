//! Secrets that are written out in definitions: shown as `***`, and put back when a client sends the
//! mask back.
//!
//! A mask is put back only where nothing but the masked text could have changed: below the same
//! address. Otherwise whoever may write tools could read the secret by sending it elsewhere.

use crate::http::Problem;
use serde_json::{Map, Value};

pub(super) const MASK: &str = "***";

/// Parts of the names of headers, fields and query values that hold secrets.
const SECRET_NAMES: [&str; 13] = [
    "apikey",
    "api-key",
    "api_key",
    "authorization",
    "x-auth",
    "cookie",
    "credential",
    "passwd",
    "password",
    "private_key",
    "secret",
    "signature",
    "token",
];
/// Fields that say where a request goes.
const DESTINATIONS: [&str; 2] = ["url", "endpoint"];

/// Masks every secret in a definition, in place.
pub(super) fn mask(object: &mut Map<String, Value>) {
    for (name, value) in object.iter_mut() {
        match value {
            Value::String(text) => *text = masked(name, text),
            value => mask_below(value),
        }
    }
}

fn mask_below(value: &mut Value) {
    match value {
        Value::Object(object) => mask(object),
        Value::Array(items) => items.iter_mut().for_each(mask_below),
        _ => {}
    }
}

/// Puts secrets back where `new` has their mask. What remains masked is a problem: nobody has the
/// text that belongs there.
pub(super) fn restore(new: &mut Value, old: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    walk(new, old, "", &mut problems);
    problems
}

fn walk(new: &mut Value, old: &Value, path: &str, problems: &mut Vec<Problem>) {
    match new {
        Value::Object(object) => {
            let moved = DESTINATIONS.iter().any(|field| {
                let shown = |value: Option<&Value>| value.and_then(Value::as_str).map(|text| masked(field, text));
                shown(object.get(*field)) != shown(old.get(*field))
            });
            let old = if moved { &Value::Null } else { old };
            for (name, value) in object.iter_mut() {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let old = old.get(name).unwrap_or(&Value::Null);
                match value {
                    Value::String(text) => restore_text(name, text, old, path, problems),
                    value => walk(value, old, &path, problems),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, old.get(index).unwrap_or(&Value::Null), &format!("{path}[{index}]"), problems);
            }
        }
        _ => {}
    }
}

fn restore_text(name: &str, text: &mut String, old: &Value, path: String, problems: &mut Vec<Problem>) {
    let has_mask = (is_secret(name) && text == MASK)
        || (is_address(name) && queries(text).any(|(name, value)| is_secret(name) && value == MASK));
    if !has_mask {
        return;
    }
    match old.as_str() {
        Some(old) if masked(name, old) == *text => old.clone_into(text),
        _ => problems.push(Problem::new(path, "is masked here, and there is no secret to keep: write it out")),
    }
}

/// The text as it is shown. Templates stay: they name where a secret comes from and hold none.
fn masked(name: &str, text: &str) -> String {
    if is_secret(name) && is_literal(text) {
        return MASK.into();
    }
    if !is_address(name) {
        return text.into();
    }
    let mut shown = text.to_owned();
    for (name, value) in queries(text).filter(|(name, value)| is_secret(name) && is_literal(value)) {
        shown = shown.replace(&format!("{name}={value}"), &format!("{name}={MASK}"));
    }
    shown
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn is_address(name: &str) -> bool {
    DESTINATIONS.contains(&name)
}

fn queries(url: &str) -> impl Iterator<Item = (&str, &str)> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split(['&', '#']).filter_map(|pair| pair.split_once('='))
}

/// Whether anything stands here besides templates and the name of a scheme.
fn is_literal(text: &str) -> bool {
    let mut rest = text;
    let mut literal = String::new();
    while let Some((before, template)) = rest.split_once("{{") {
        literal.push_str(before);
        literal.push(' ');
        rest = template.split_once("}}").map_or("", |(_, after)| after);
    }
    literal.push_str(rest);
    let scheme =
        |word: &str| ["bearer", "basic", "token", "apikey", "key"].contains(&word.to_ascii_lowercase().as_str());
    literal.split_whitespace().any(|word| !scheme(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition() -> Value {
        json!({ "actions": [
            { "type": "api_call", "url": "https://a.example/x?api_key=k1&page=2",
              "headers": { "Authorization": "Bearer s3cret", "X-Api-Key": "k2", "Accept": "text/plain" } },
            { "type": "conditional", "then": [
                { "type": "api_call", "url": "https://b.example/", "headers": { "Authorization": "Bearer {{user.auth_token}}" } }
            ] }
        ] })
    }

    fn shown() -> Value {
        let mut shown = definition();
        mask_below(&mut shown);
        shown
    }

    /// D answer 26: written-out secrets are masked; templates, which hold none, are shown.
    #[test]
    fn secrets_are_masked_and_templates_are_not() {
        let shown = shown();
        let call = &shown["actions"][0];
        assert_eq!(call["url"], "https://a.example/x?api_key=***&page=2");
        assert_eq!(call["headers"], json!({ "Authorization": "***", "X-Api-Key": "***", "Accept": "text/plain" }));
        assert_eq!(shown["actions"][1]["then"][0]["headers"]["Authorization"], "Bearer {{user.auth_token}}");
        for text in ["k1", "k2", "s3cret"] {
            assert!(!shown.to_string().contains(text), "{text}");
        }
    }

    #[test]
    fn what_was_shown_can_be_sent_back() {
        let mut sent = shown();
        assert_eq!(restore(&mut sent, &definition()), []);
        assert_eq!(sent, definition());
    }

    #[test]
    fn new_secrets_replace_old_ones() {
        let mut sent = shown();
        sent["actions"][0]["headers"]["Authorization"] = "Bearer another".into();
        assert_eq!(restore(&mut sent, &definition()), []);
        assert_eq!(sent["actions"][0]["headers"]["Authorization"], "Bearer another");
        assert_eq!(sent["actions"][0]["headers"]["X-Api-Key"], "k2");
    }

    /// D answer 26: who may change a tool cannot send its secrets to another address.
    #[test]
    fn a_secret_does_not_follow_its_mask_to_another_address() {
        let mut elsewhere = shown();
        elsewhere["actions"][0]["url"] = "https://evil.example/x?api_key=***&page=2".into();
        let problems = restore(&mut elsewhere, &definition());
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["actions[0].url", "actions[0].headers.Authorization", "actions[0].headers.X-Api-Key"]);
        assert!(!elsewhere.to_string().contains("s3cret"));

        let mut swapped = shown();
        swapped["actions"].as_array_mut().unwrap().reverse();
        assert!(!restore(&mut swapped, &definition()).is_empty());
        assert!(!swapped.to_string().contains("s3cret"));

        let mut inserted = json!({ "actions": [{ "headers": { "Authorization": "***" } }] });
        assert_eq!(restore(&mut inserted, &Value::Null)[0].path, "actions[0].headers.Authorization");
    }
}
