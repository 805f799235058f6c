//! From the arguments a model wrote to the ones a tool gets: what the schema does not know is
//! dropped, defaults are filled in, the rest is checked. Nothing is converted: `"3"` is no number.
//!
//! Dropping is careful. A member is dropped only where the schema says all there is to an object:
//! it lists `properties` (or allows no others) and nothing beside them, as `anyOf`,
//! `patternProperties` or `additionalProperties: true`, could give other members a meaning.

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

/// Names of dropped members that are kept; the rest is counted.
const DROPPED_MAX: usize = 16;
/// Characters of a dropped member's path.
const PATH_CHARS_MAX: usize = 128;
/// Mistakes that are listed; a model that made more will not read them all.
const PROBLEMS_MAX: usize = 16;
/// Characters of one mistake's text: a pattern or a list of allowed values can be long.
const MESSAGE_CHARS_MAX: usize = 300;
/// Hops from one local `$ref` to the next; more is a circle.
const REFERENCES_MAX: usize = 8;
/// Steps back a pattern may take. A schema from outside may hold a pattern that is slow on some
/// texts; past this the text counts as not matching. A hundredth of the library's own limit, since
/// someone waits on the telephone.
const BACKTRACKING_MAX: usize = 10_000;

/// Compiles a schema so that `format` is checked, patterns end, and nothing is fetched. Formats of
/// the standard are known (email, date-time, uri, uuid, ipv4, ipv6, …), others are let pass.
pub fn validator(schema: &Value) -> Result<Validator, String> {
    options().build(schema).map_err(|error| error.to_string())
}

/// The same, but a `format` no one knows is a mistake: for schemas that are written for us.
pub fn strict_validator(schema: &Value) -> Result<Validator, String> {
    options().should_ignore_unknown_formats(false).build(schema).map_err(|error| error.to_string())
}

fn options() -> jsonschema::ValidationOptions<'static> {
    jsonschema::options()
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACKING_MAX))
        // Drafts before 2019-09 do not have it, and schemas that name them use it.
        .with_format("uuid", |text: &str| text.len() == 36 && uuid::Uuid::try_parse(text).is_ok())
        .offline()
}

/// The schema of one tool's arguments, compiled once.
#[derive(Debug)]
pub struct Arguments {
    schema: Value,
    validator: Validator,
}

/// Arguments that fit their schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    pub arguments: Map<String, Value>,
    pub dropped: Dropped,
}

/// Arguments that do not fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Unfit {
    pub problems: Vec<Problem>,
    /// Mistakes beyond those listed.
    pub more: usize,
    pub dropped: Dropped,
}

/// One mistake. It names the place and the rule, never the value: that is the caller's.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// JSON Pointer into the arguments; empty for the whole.
    pub path: String,
    pub message: String,
}

/// Which members were dropped, as paths like `filters.typo` or `items[2].x`. A name that is not a
/// plain identifier is shown as `?`, since a model could put anything there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped {
    pub paths: Vec<String>,
    /// Dropped members beyond those named.
    pub more: usize,
}

impl Dropped {
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    fn add(&mut self, path: &str, name: &str) {
        if self.paths.len() == DROPPED_MAX {
            self.more += 1;
            return;
        }
        let whole = member(path, name);
        self.paths.push(shortened(whole, PATH_CHARS_MAX));
    }
}

impl Arguments {
    pub fn new(schema: Value) -> Result<Self, String> {
        Ok(Self { validator: validator(&schema)?, schema })
    }

    /// Drops, fills in, checks.
    pub fn check(&self, mut arguments: Map<String, Value>) -> Result<Checked, Unfit> {
        let dropped = prune(&self.schema, &mut arguments);
        fill_defaults(&self.schema, &mut arguments);
        let value = Value::Object(arguments);
        let (mut problems, mut more) = (Vec::new(), 0);
        for error in self.validator.iter_errors(&value) {
            if problems.len() == PROBLEMS_MAX {
                more += 1;
                continue;
            }
            let message = shortened(error.masked().to_string(), MESSAGE_CHARS_MAX);
            problems.push(Problem { path: error.instance_path().to_string(), message });
        }
        match value {
            Value::Object(arguments) if problems.is_empty() => Ok(Checked { arguments, dropped }),
            _ => Err(Unfit { problems, more, dropped }),
        }
    }
}

impl Unfit {
    /// The message the model reads.
    pub fn message(&self) -> String {
        let one = |problem: &Problem| match problem.path.as_str() {
            "" => problem.message.clone(),
            path => format!("{path}: {}", problem.message),
        };
        let listed: Vec<String> = self.problems.iter().map(one).collect();
        let rest = if self.more > 0 { format!("; and {} more", self.more) } else { String::new() };
        format!("Invalid parameters: {}{rest}", listed.join("; "))
    }
}

/// Drops the members that the schema does not know, in nested objects and the objects of lists too.
pub fn prune(schema: &Value, arguments: &mut Map<String, Value>) -> Dropped {
    let mut dropped = Dropped::default();
    prune_object(schema, schema, arguments, "", &mut dropped);
    dropped
}

fn prune_object(root: &Value, schema: &Value, object: &mut Map<String, Value>, path: &str, dropped: &mut Dropped) {
    let schema = resolved(root, schema);
    let known = schema.get("properties").and_then(Value::as_object);
    if is_closed(schema) {
        object.retain(|name, _| {
            let keep = known.is_some_and(|known| known.contains_key(name));
            if !keep {
                dropped.add(path, name);
            }
            keep
        });
    }
    for (name, value) in object.iter_mut() {
        if let Some(inner) = known.and_then(|known| known.get(name)) {
            prune_value(root, inner, value, &member(path, name), dropped);
        }
    }
}

fn prune_value(root: &Value, schema: &Value, value: &mut Value, path: &str, dropped: &mut Dropped) {
    match value {
        Value::Object(object) => prune_object(root, schema, object, path, dropped),
        Value::Array(items) => {
            let Some(inner) = resolved(root, schema).get("items") else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune_value(root, inner, item, &format!("{path}[{index}]"), dropped);
            }
        }
        _ => {}
    }
}

/// Whether the listed properties are all that an object of this schema can have.
fn is_closed(schema: &Value) -> bool {
    const MEANINGFUL: [&str; 11] = [
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "dependentSchemas",
        "dependencies",
        "unevaluatedProperties",
        "propertyNames",
    ];
    if schema.get("patternProperties").is_some() || schema.get("$ref").is_some() {
        return false;
    }
    match schema.get("additionalProperties") {
        // Others would be refused, whatever else the schema says.
        Some(Value::Bool(false)) => true,
        Some(_) => false,
        None => schema.get("properties").is_some() && MEANINGFUL.iter().all(|keyword| schema.get(keyword).is_none()),
    }
}

/// Puts the defaults of missing members in, in nested objects that are there and the objects of
/// lists too. A default is taken as it is written: its own members get no defaults.
pub fn fill_defaults(schema: &Value, arguments: &mut Map<String, Value>) {
    fill_object(schema, schema, arguments);
}

fn fill_object(root: &Value, schema: &Value, object: &mut Map<String, Value>) {
    let Some(known) = resolved(root, schema).get("properties").and_then(Value::as_object) else { return };
    for (name, inner) in known {
        match object.get_mut(name) {
            Some(value) => fill_value(root, inner, value),
            None => {
                let default = inner.get("default").or_else(|| resolved(root, inner).get("default"));
                if let Some(default) = default {
                    object.insert(name.clone(), default.clone());
                }
            }
        }
    }
}

fn fill_value(root: &Value, schema: &Value, value: &mut Value) {
    match value {
        Value::Object(object) => fill_object(root, schema, object),
        Value::Array(items) => {
            let Some(inner) = resolved(root, schema).get("items") else { return };
            items.iter_mut().for_each(|item| fill_value(root, inner, item));
        }
        _ => {}
    }
}

/// The schema a local `$ref` leads to, if only annotations stand beside it; else the schema itself.
fn resolved<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    const ANNOTATIONS: [&str; 6] = ["$ref", "title", "description", "default", "examples", "$comment"];
    for _ in 0..REFERENCES_MAX {
        let Some(object) = schema.as_object() else { break };
        let Some(pointer) = object.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'))
        else {
            break;
        };
        if !object.keys().all(|keyword| ANNOTATIONS.contains(&keyword.as_str())) {
            break;
        }
        let Some(target) = root.pointer(pointer) else { break };
        schema = target;
    }
    schema
}

/// A member's name that may be shown although a model chose it: one that is written like a name and like nobody's
/// number, else `?`.
pub(super) fn showable(name: &str) -> &str {
    let plain = name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'))
        && !crate::redact::holds_identity_number(name);
    if plain { name } else { "?" }
}

fn member(path: &str, name: &str) -> String {
    let name = showable(name);
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn shortened(mut text: String, chars_max: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(chars_max) {
        text.truncate(end);
        text.push('…');
    }
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

    /// What is left, and what was dropped.
    fn pruned(schema: &Value, arguments: Value) -> (Value, Vec<String>) {
        let mut arguments = object(arguments);
        let dropped = prune(schema, &mut arguments);
        (Value::Object(arguments), dropped.paths)
    }

    fn search() -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["query"],
            "properties": {
                "query": { "type": "string", "minLength": 3 },
                "top_k": { "type": "integer", "minimum": 1, "maximum": 10, "default": 5 },
                "filters": {
                    "type": "object", "additionalProperties": false,
                    "properties": { "kind": { "type": "string", "default": "any" }, "year": { "type": "integer" } },
                },
                "sort": { "type": "array", "items": {
                    "type": "object", "properties": { "by": { "type": "string" }, "down": { "type": "boolean", "default": false } },
                } },
            },
        })
    }

    /// P17: what a manifest does not list never reaches a tool, at any depth, and is named.
    #[test]
    fn arguments_outside_the_schema_are_dropped_at_every_depth() {
        let (left, dropped) = pruned(
            &search(),
            json!({
                "query": "abc", "verbose": true,
                "filters": { "year": 2024, "typo": 1 },
                "sort": [{ "by": "date" }, { "by": "name", "x": 1 }],
            }),
        );
        let kept = json!({ "query": "abc", "filters": { "year": 2024 }, "sort": [{ "by": "date" }, { "by": "name" }] });
        assert_eq!(left, kept);
        assert_eq!(dropped, ["verbose", "filters.typo", "sort[1].x"]);
    }

    #[test]
    fn members_that_may_mean_something_stay() {
        let open = [
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": true }),
            json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": { "type": "integer" } }),
            json!({ "type": "object", "properties": { "a": {} }, "patternProperties": { "^x": {} } }),
            json!({ "type": "object", "properties": { "a": {} }, "anyOf": [{ "required": ["x"] }] }),
        ];
        for schema in open {
            assert_eq!(pruned(&schema, json!({ "x": 1 })), (json!({ "x": 1 }), Vec::new()), "{schema}");
        }
        let closed = [
            json!({ "type": "object", "properties": {} }),
            json!({ "type": "object", "additionalProperties": false }),
            json!({ "type": "object", "properties": {}, "additionalProperties": false, "anyOf": [{}] }),
        ];
        for schema in closed {
            assert_eq!(pruned(&schema, json!({ "x": 1 })), (json!({}), vec!["x".to_owned()]), "{schema}");
        }
    }

    #[test]
    fn local_references_are_followed_and_circles_end() {
        let schema = json!({
            "type": "object", "properties": { "node": { "$ref": "#/$defs/node", "description": "a tree" } },
            "$defs": {
                "node": { "type": "object", "properties": {
                    "next": { "$ref": "#/$defs/node" }, "n": { "type": "integer", "default": 1 },
                } },
                "circle": { "$ref": "#/$defs/circle" },
            },
        });
        let (left, dropped) = pruned(&schema, json!({ "node": { "next": { "next": { "y": 1 } }, "x": 1 } }));
        assert_eq!(left, json!({ "node": { "next": { "next": {} } } }));
        assert_eq!(dropped, ["node.x", "node.next.next.y"]);
        let mut filled = object(left);
        fill_defaults(&schema, &mut filled);
        assert_eq!(Value::Object(filled), json!({ "node": { "next": { "next": { "n": 1 }, "n": 1 }, "n": 1 } }));
        let circle = json!({ "properties": { "a": { "$ref": "#/$defs/circle" } }, "$defs": schema["$defs"] });
        assert_eq!(pruned(&circle, json!({ "a": { "b": 1 } })).0, json!({ "a": { "b": 1 } }));
        let endless = json!({ "properties": { "a": { "$ref": "#", "default": {} } } });
        let mut filled = Map::new();
        fill_defaults(&endless, &mut filled);
        assert_eq!(Value::Object(filled), json!({ "a": {} }));
    }

    /// P17: defaults stand in for what is missing, not for what is there and wrong.
    #[test]
    fn defaults_are_filled_in_and_nothing_is_converted() {
        let arguments = Arguments::new(search()).unwrap();
        let checked = arguments.check(object(json!({ "query": "abc", "filters": {}, "sort": [{}] }))).unwrap();
        let expected = json!({
            "query": "abc", "filters": { "kind": "any" }, "sort": [{ "down": false }], "top_k": 5,
        });
        assert_eq!(Value::Object(checked.arguments), expected);
        for (wrong, path) in [
            (json!({ "query": "abc", "top_k": "3" }), "/top_k"),
            (json!({ "query": "abc", "top_k": null }), "/top_k"),
            (json!({ "query": 123 }), "/query"),
            (json!({ "query": "abc", "sort": [{ "down": "true" }] }), "/sort/0/down"),
        ] {
            let unfit = arguments.check(object(wrong.clone())).unwrap_err();
            assert_eq!(unfit.problems.len(), 1, "{wrong}");
            assert_eq!(unfit.problems[0].path, path);
        }
    }

    /// P17: every mistake is listed at once, and what was said is not repeated.
    #[test]
    fn every_mistake_is_named_and_no_value_shown() {
        let arguments = Arguments::new(search()).unwrap();
        let unfit = arguments.check(object(json!({ "top_k": 991_827, "filters": { "kind": ["hush"] } }))).unwrap_err();
        let paths: Vec<&str> = unfit.problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(unfit.problems.len(), 3, "{paths:?}");
        for path in ["", "/top_k", "/filters/kind"] {
            assert!(paths.contains(&path), "{paths:?}");
        }
        let message = unfit.message();
        assert!(message.starts_with("Invalid parameters: ") && message.contains("/top_k: "), "{message}");
        assert!(message.contains("\"query\" is a required property"), "{message}");
        assert!(!message.contains("991827") && !message.contains("hush"), "{message}");
    }

    /// P17: formats are checked, not taken as notes, in every draft.
    #[test]
    fn formats_are_asserted() {
        let cases = [
            ("email", "anna@example.org", "anna at example.org"),
            ("date-time", "2026-11-20T14:05:28Z", "2026-11-20 14:05"),
            ("date", "2024-02-29", "2023-02-29"),
            ("uri", "https://example.org/a?b=c", "example.org"),
            ("uuid", "0192f0c1-2b3c-7d4e-8f50-123456789abc", "0192f0c12b3c7d4e8f50123456789abc"),
            ("ipv4", "192.0.2.1", "192.0.2.256"),
            ("ipv6", "2001:db8::1", "2001:db8::g"),
            ("hostname", "example.org", "-example.org"),
        ];
        for draft in [None, Some("http://json-schema.org/draft-07/schema#")] {
            for (format, good, bad) in cases {
                let mut schema =
                    json!({ "type": "object", "properties": { "x": { "type": "string", "format": format } } });
                if let Some(draft) = draft {
                    schema["$schema"] = draft.into();
                }
                let arguments = Arguments::new(schema).unwrap();
                assert!(arguments.check(object(json!({ "x": good }))).is_ok(), "{draft:?} {format} {good}");
                assert!(arguments.check(object(json!({ "x": bad }))).is_err(), "{draft:?} {format} {bad}");
            }
        }
    }

    #[test]
    fn an_unknown_format_passes_unless_one_is_strict() {
        let schema = json!({ "type": "object", "properties": { "x": { "type": "string", "format": "phone" } } });
        assert!(validator(&schema).unwrap().is_valid(&json!({ "x": "anything" })));
        assert!(strict_validator(&schema).unwrap_err().contains("phone"));
    }

    #[test]
    fn nothing_is_fetched_and_no_pattern_runs_for_ever() {
        assert!(validator(&json!({ "$ref": "https://example.org/schema.json" })).is_err());
        assert!(validator(&json!({ "type": "objekt" })).is_err());
        let slow = json!({ "properties": { "x": { "type": "string", "pattern": "^(?=(a+)+$)(a|b\\1)+$" } } });
        let arguments = Arguments::new(slow).unwrap();
        let unfit = arguments.check(object(json!({ "x": format!("{}!", "a".repeat(60)) }))).unwrap_err();
        assert_eq!(unfit.problems.len(), 1);
    }

    #[test]
    fn what_is_reported_has_a_limit() {
        let schema =
            json!({ "type": "object", "properties": { "list": { "type": "array", "items": { "type": "integer" } } } });
        let mut wrong = object(json!({ "list": vec!["x"; 100], "call +15551234": 1 }));
        wrong.extend((0..100).map(|n| (format!("extra{n}"), json!(n))));
        let unfit = Arguments::new(schema).unwrap().check(wrong).unwrap_err();
        assert_eq!((unfit.problems.len(), unfit.more), (PROBLEMS_MAX, 100 - PROBLEMS_MAX));
        assert_eq!((unfit.dropped.paths.len(), unfit.dropped.more), (DROPPED_MAX, 101 - DROPPED_MAX));
        assert_eq!(unfit.dropped.paths[..2], ["?", "extra0"]);
        assert!(unfit.message().ends_with("; and 84 more"), "{}", unfit.message());
        let long = json!({ "type": "object", "properties": { "x": { "const": "y".repeat(10_000) } } });
        let unfit = Arguments::new(long).unwrap().check(object(json!({ "x": 1 }))).unwrap_err();
        assert_eq!(unfit.problems[0].message.chars().count(), MESSAGE_CHARS_MAX + 1);
    }
}
