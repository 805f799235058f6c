//! JSON Schema passed on as it is, for providers that read it, after a look for what they refuse:
//! a root that is not plainly an object, lists without `items`, references that lead outside.

use super::Notes;
use serde_json::{Map, Value};

/// Refused at the root by OpenAI's servers, fine further down.
const NOT_AT_THE_ROOT: [&str; 6] = ["oneOf", "anyOf", "allOf", "not", "enum", "$ref"];
/// Say nothing to a model, and some servers do not know them.
const NOTES: [&str; 3] = ["$schema", "$id", "$comment"];
/// Keywords whose value is one schema.
pub(in crate::tool) const ONE: [&str; 12] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "additionalItems",
    "contentSchema",
];
/// Keywords whose value is a list of schemas.
pub(in crate::tool) const LISTS: [&str; 4] = ["oneOf", "anyOf", "allOf", "prefixItems"];
/// Keywords whose value holds schemas by name.
pub(in crate::tool) const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

pub(super) fn write(parameters: &Value, notes: &mut Notes) -> Option<Value> {
    let Some(root) = parameters.as_object() else {
        notes.add("parameters", "is not an object");
        return None;
    };
    if root.get("type").and_then(Value::as_str) != Some("object") {
        notes.add("parameters.type", "has to be \"object\"");
    }
    for keyword in NOT_AT_THE_ROOT.iter().filter(|keyword| root.contains_key(**keyword)) {
        notes.add(format!("parameters.{keyword}"), "is refused at the root");
    }
    check(root, "parameters", 1, notes);
    let mut written = root.clone();
    written.retain(|keyword, _| !NOTES.contains(&keyword.as_str()));
    // An object without it is refused, also for a tool without arguments.
    written.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    Some(Value::Object(written))
}

fn check(schema: &Map<String, Value>, path: &str, depth: usize, notes: &mut Notes) {
    if !notes.enter(path, depth) {
        return;
    }
    let is_array = match schema.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        _ => false,
    };
    if is_array && !schema.contains_key("items") && !schema.contains_key("prefixItems") {
        notes.add(path, "is an array without items");
    }
    for keyword in ["$ref", "$dynamicRef"] {
        let target = schema.get(keyword).and_then(Value::as_str);
        if target.is_some_and(|target| !target.starts_with('#')) {
            notes.add(format!("{path}.{keyword}"), "leads outside the tool");
        }
    }
    let mut inner = |value: &Value, path: String| {
        if let Value::Object(schema) = value {
            check(schema, &path, depth + 1, notes);
        }
    };
    for (keyword, value) in schema {
        let here = format!("{path}.{keyword}");
        match value {
            Value::Array(schemas) if LISTS.contains(&keyword.as_str()) => {
                schemas.iter().enumerate().for_each(|(index, schema)| inner(schema, format!("{here}[{index}]")));
            }
            Value::Object(schemas) if MAPS.contains(&keyword.as_str()) => {
                schemas.iter().for_each(|(name, schema)| inner(schema, format!("{here}.{name}")));
            }
            Value::Object(_) if ONE.contains(&keyword.as_str()) => inner(value, here),
            _ => {}
        }
    }
}
