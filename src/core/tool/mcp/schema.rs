//! The schema of a tool's arguments, as a server offers it and as it may be used.

use super::text::for_model;
use crate::tool::{
    prune::{showable, validator},
    schemas::json_schema::{LISTS, MAPS, ONE},
};
use serde_json::{Map, Value, json};

/// Of the whole schema as JSON. It is told to a model in every call that offers the tool; what fills more than this is
/// no tool for a telephone.
const BYTES_MAX: usize = 64 * 1024;
/// Levels of JSON, twice those of schemas that any provider takes: each schema has at least one level of names.
const DEPTH_MAX: usize = 32;
/// Of one title or description, as of the tool's own.
pub(super) const TEXT_CHARS_MAX: usize = 1024;
/// Of the name of an argument.
const NAME_CHARS_MAX: usize = 128;
/// Of what the compiler of schemas says, which may repeat the schema.
const REASON_CHARS_MAX: usize = 200;

/// Keywords whose value is no schema and that a validator reads. They are kept as they are.
const PLAIN: [&str; 36] = [
    "$schema",
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "type",
    "enum",
    "const",
    "default",
    "format",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
    "dependencies",
    "contentEncoding",
    "contentMediaType",
    "deprecated",
    "readOnly",
    "writeOnly",
];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// A root that has one of these and no type may be anything.
const UNTYPED: [&str; 8] = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "enum", "const"];

/// The schema of an object, without anything that only a reader sees but titles, descriptions and examples, and those
/// cleaned.
///
/// # Errors
/// Names the place, from `inputSchema` on, and what is wrong there.
pub(super) fn parameters(offered: &Value) -> Result<Value, String> {
    if !is_within(offered, DEPTH_MAX) {
        return Err(format!("inputSchema: is nested deeper than {DEPTH_MAX} levels"));
    }
    let bytes = offered.to_string().len();
    if bytes > BYTES_MAX {
        return Err(format!("inputSchema: is {bytes} bytes of JSON, more than {BYTES_MAX}"));
    }
    let offered = offered.as_object().ok_or("inputSchema: is no object")?;
    let mut root = cleaned(offered, "inputSchema")?;
    let untyped = || root.contains_key("properties") || !UNTYPED.iter().any(|keyword| root.contains_key(*keyword));
    match root.get("type") {
        Some(kind) if kind == "object" => {}
        None if untyped() => drop(root.insert("type".into(), "object".into())),
        _ => return Err("inputSchema.type: has to be \"object\"".into()),
    }
    root.entry("properties").or_insert_with(|| json!({}));
    let schema = Value::Object(root);
    match validator(&schema) {
        Ok(_) => Ok(schema),
        Err(why) => Err(format!("inputSchema: is no usable JSON Schema: {}", for_model(&why, REASON_CHARS_MAX))),
    }
}

/// What a schema says to a reader and not to a validator.
const NOTES: [&str; 4] = ["description", "title", "examples", "$schema"];

/// Whether a schema asks for exactly what another one does: the same keywords with the same values, whatever either says to
/// its readers, and the same required arguments in any order (V17).
pub fn conforms(canonical: &Value, offered: &Value) -> bool {
    if !is_within(offered, DEPTH_MAX) {
        return false;
    }
    plain(canonical, false) == plain(offered, false)
}

/// `names`: the members are arguments of any name, not keywords.
fn plain(value: &Value, names: bool) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    let kept = members.iter().filter(|(key, _)| names || !NOTES.contains(&key.as_str()));
    let member = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::Array(list) if !names && key == "required" => sorted(list),
            value => plain(value, !names && MAPS.contains(&key.as_str())),
        };
        (key.clone(), value)
    };
    Value::Object(kept.map(member).collect())
}

fn sorted(list: &[Value]) -> Value {
    let mut list = list.to_vec();
    list.sort_by_cached_key(Value::to_string);
    list.dedup();
    Value::Array(list)
}

/// Whether a value has at most so many levels.
fn is_within(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_within(item, below)),
        Value::Object(members) => members.values().all(|member| is_within(member, below)),
        _ => true,
    }
}

fn schema(value: &Value, place: &str) -> Result<Value, String> {
    match value {
        Value::Object(schema) => cleaned(schema, place).map(Value::Object),
        Value::Bool(_) => Ok(value.clone()),
        _ => Err(format!("{place}: is no schema")),
    }
}

fn cleaned(offered: &Map<String, Value>, place: &str) -> Result<Map<String, Value>, String> {
    let mut kept = Map::new();
    for (keyword, value) in offered {
        let key = keyword.as_str();
        let here = || format!("{place}.{key}");
        let value = match value {
            Value::String(text) if matches!(key, "title" | "description") => for_model(text, TEXT_CHARS_MAX).into(),
            Value::Array(_) if key == "examples" => without_unseen(value),
            Value::String(target) if REFERENCES.contains(&key) && !target.starts_with('#') => {
                return Err(format!("{}: leads outside the tool", here()));
            }
            // Before 2020-12 a list of items was written so.
            Value::Array(list) if LISTS.contains(&key) || key == "items" => {
                let inner =
                    list.iter().enumerate().map(|(index, value)| schema(value, &format!("{}[{index}]", here())));
                Value::Array(inner.collect::<Result<_, _>>()?)
            }
            Value::Object(named) if MAPS.contains(&key) => schemas(named, &here())?,
            Value::Object(named) if key == "dependencies" => dependencies(named, &here())?,
            _ if ONE.contains(&key) => schema(value, &here())?,
            _ if PLAIN.contains(&key) => value.clone(),
            // Of a known keyword: not what it has to be.
            _ if LISTS.contains(&key) || MAPS.contains(&key) => {
                return Err(format!("{}: is no set of schemas", here()));
            }
            // Notes, and what others made up: a validator does not read them, and a model should not.
            _ => continue,
        };
        kept.insert(keyword.clone(), value);
    }
    Ok(kept)
}

fn schemas(named: &Map<String, Value>, place: &str) -> Result<Value, String> {
    let inner = named.iter().map(|(name, value)| {
        if for_model(name, NAME_CHARS_MAX) != *name {
            let why = format!("has a name with invisible characters, or longer than {NAME_CHARS_MAX}");
            return Err(format!("{place}: {why}"));
        }
        Ok((name.clone(), schema(value, &format!("{place}.{}", showable(name)))?))
    });
    inner.collect::<Result<_, _>>().map(Value::Object)
}

/// Of draft 7: by name, either names that go with it or a schema.
fn dependencies(named: &Map<String, Value>, place: &str) -> Result<Value, String> {
    let inner = named.iter().map(|(name, value)| match value {
        Value::Array(_) => Ok((name.clone(), value.clone())),
        _ => Ok((name.clone(), schema(value, &format!("{place}.{}", showable(name)))?)),
    });
    inner.collect::<Result<_, String>>().map(Value::Object)
}

/// The same value; its texts are cleaned.
fn without_unseen(value: &Value) -> Value {
    match value {
        Value::String(text) => for_model(text, TEXT_CHARS_MAX).into(),
        Value::Array(items) => items.iter().map(without_unseen).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (for_model(name, NAME_CHARS_MAX), without_unseen(value))).collect()
        }
        other => other.clone(),
    }
}
