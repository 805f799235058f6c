//! The subset of JSON Schema that every provider's model understands, written anew: type,
//! properties, required, items, enum of strings, description, and bounds where they are known.
//!
//! Four things are said in another way without loss: a local `$ref` is written out, `anyOf` or
//! `oneOf` of one schema and null is that schema or nothing, `allOf` of one schema is that schema,
//! and `const` of a text is an `enum` of one.

use super::Notes;
use serde_json::{Map, Value};

/// How the providers of this subset differ.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// `STRING` instead of `string`.
    upper_case_types: bool,
    /// `nullable: true` is understood. Elsewhere null is said by leaving a member out, so what is
    /// required cannot be null.
    nullable: bool,
    /// `minimum` and `maximum` are understood.
    bounds: bool,
    /// An object may come without any properties.
    free_objects: bool,
    /// `anyOf` of several schemas is understood.
    unions: bool,
    /// Every value has to have a description: by it the vendor knows that the model fills it in.
    describes_all: bool,
}

/// <https://ai.google.dev/api/caching#Schema>. `parametersJsonSchema` would take more, but Live
/// models then send empty arguments. Integers are `INTEGER`, which the vendor's types have, not
/// `NUMBER`: a model that may say 2.5 will.
pub(super) const GEMINI: Rules = Rules {
    upper_case_types: true,
    nullable: true,
    bounds: true,
    free_objects: false,
    unions: true,
    describes_all: false,
};
pub(super) const DEEPGRAM: Rules = Rules {
    upper_case_types: false,
    nullable: false,
    bounds: true,
    free_objects: true,
    unions: false,
    describes_all: false,
};
/// <https://elevenlabs.io/docs/agents-platform/customization/tools/client-tools>: a value is
/// the model's only if it has a `description`; the name stands in where the tool gives none.
pub(super) const ELEVENLABS: Rules = Rules {
    upper_case_types: false,
    nullable: false,
    bounds: false,
    free_objects: true,
    unions: false,
    describes_all: true,
};

/// Keywords beside a wrapping that say nothing of the value.
const BESIDE: [&str; 8] =
    ["title", "description", "default", "examples", "deprecated", "$defs", "definitions", "$comment"];

/// Keywords that tell what to send and have no counterpart.
const STRUCTURE: [&str; 15] = [
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "const",
    "$ref",
    "$dynamicRef",
    "patternProperties",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "prefixItems",
];
/// Either may be a boolean, which only narrows, or a schema, which tells what else to send.
const OPEN: [&str; 3] = ["additionalProperties", "unevaluatedProperties", "unevaluatedItems"];
const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];

/// The parameters in the subset; the inner `None` where the provider wants them left out because
/// there are none. `None` if they cannot be written; the notes say why.
pub(super) fn write(parameters: &Value, rules: Rules, notes: &mut Notes) -> Option<Option<Value>> {
    let mut writer = Writer { root: parameters, rules, notes };
    let plain = writer.plain(parameters, "parameters")?;
    if plain.kind != "object" || plain.nullable {
        writer.notes.add("parameters.type", "has to be \"object\"");
        return None;
    }
    let has_members =
        plain.schema.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty());
    if !has_members && !rules.free_objects {
        writer.refuse_structure(&plain.schema, "parameters");
        return Some(None);
    }
    let place = Place { path: "parameters", name: None, depth: 1, required: true };
    writer.value(parameters, place).map(Some)
}

struct Writer<'a> {
    root: &'a Value,
    rules: Rules,
    notes: &'a mut Notes,
}

/// Where a schema stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    /// The member it describes; `None` at the root.
    name: Option<&'a str>,
    depth: usize,
    /// Leaving the value out is no way to say null.
    required: bool,
}

/// A schema after what can be said in another way was.
struct Plain {
    schema: Map<String, Value>,
    kind: &'static str,
    nullable: bool,
}

impl Writer<'_> {
    fn value(&mut self, schema: &Value, place: Place<'_>) -> Option<Value> {
        if !self.notes.enter(place.path, place.depth) {
            return None;
        }
        let (schema, nullable) = self.opened(schema, place.path)?;
        if let Some(branches) = branches(&schema).filter(|_| self.rules.unions) {
            return Some(self.union(&schema, &branches, nullable, place));
        }
        let plain = self.typed(schema, nullable, place.path)?;
        self.refuse_structure(&plain.schema, place.path);
        let mut written = Map::new();
        let kind = if self.rules.upper_case_types { plain.kind.to_ascii_uppercase() } else { plain.kind.to_owned() };
        written.insert("type".to_owned(), kind.into());
        if plain.nullable && self.rules.nullable {
            written.insert("nullable".to_owned(), true.into());
        } else if plain.nullable && place.required {
            self.notes
                .add(place.path, "may be null and is required; this provider knows null only as a member left out");
        }
        let description = plain.schema.get("description").and_then(Value::as_str).filter(|text| !text.is_empty());
        let stand_in = place.name.filter(|_| self.rules.describes_all);
        if let Some(description) = description.or(stand_in) {
            written.insert("description".to_owned(), description.into());
        }
        if let Some(values) = plain.schema.get("enum") {
            self.texts(values, &plain, place.path, &mut written);
        }
        if self.rules.bounds && matches!(plain.kind, "number" | "integer") {
            let bounds = ["minimum", "maximum"].into_iter().filter_map(|keyword| plain.schema.get_key_value(keyword));
            written.extend(bounds.map(|(keyword, bound)| (keyword.clone(), bound.clone())));
        }
        match plain.kind {
            "object" => self.members(&plain.schema, place, &mut written),
            "array" => self.items(&plain.schema, place, &mut written),
            _ => {}
        }
        Some(Value::Object(written))
    }

    /// One of several schemas; null among them is said by `nullable`.
    fn union(&mut self, schema: &Map<String, Value>, branches: &[Value], nullable: bool, place: Place<'_>) -> Value {
        let is_null = |branch: &&Value| branch.get("type").is_some_and(|kind| kind == "null");
        let mut written = Map::new();
        let mut any_of = Vec::new();
        for (number, branch) in branches.iter().filter(|branch| !is_null(branch)).enumerate() {
            let path = format!("{}.anyOf[{number}]", place.path);
            any_of
                .extend(self.value(branch, Place { path: &path, name: None, depth: place.depth + 1, required: true }));
        }
        written.insert("anyOf".to_owned(), any_of.into());
        if nullable || branches.iter().any(|branch| is_null(&branch)) {
            written.insert("nullable".to_owned(), true.into());
        }
        if let Some(description) = schema.get("description").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            written.insert("description".to_owned(), description.into());
        }
        Value::Object(written)
    }

    fn members(&mut self, schema: &Map<String, Value>, place: Place<'_>, written: &mut Map<String, Value>) {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        if properties.is_empty() && !self.rules.free_objects {
            self.notes.add(place.path, "is an object without properties");
        }
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        for name in required.iter().filter(|name| !properties.contains_key(**name)) {
            self.notes.add(format!("{}.required", place.path), format!("\"{name}\" has no schema"));
        }
        let mut members = Map::new();
        for (name, member) in properties {
            let path = format!("{}.properties.{name}", place.path);
            if !is_plain_name(name) {
                self.notes.add(&path, "the name is not a letter or _ and up to 63 letters, digits and _");
            }
            let required = required.contains(&name.as_str());
            let inner = Place { path: &path, name: Some(name), depth: place.depth + 1, required };
            members.extend(self.value(member, inner).map(|member| (name.clone(), member)));
        }
        written.insert("properties".to_owned(), Value::Object(members));
        if !required.is_empty() {
            written.insert("required".to_owned(), required.into());
        }
    }

    fn items(&mut self, schema: &Map<String, Value>, place: Place<'_>, written: &mut Map<String, Value>) {
        let Some(items) = schema.get("items") else {
            self.notes.add(place.path, "is an array without items");
            return;
        };
        let path = format!("{}.items", place.path);
        let inner = Place { path: &path, depth: place.depth + 1, required: true, ..place };
        written.extend(self.value(items, inner).map(|items| ("items".to_owned(), items)));
    }

    fn texts(&mut self, values: &Value, plain: &Plain, path: &str, written: &mut Map<String, Value>) {
        let values: Vec<&Value> = values.as_array().into_iter().flatten().collect();
        // The null of a nullable enum is said by `nullable`.
        let texts: Vec<&Value> = values.into_iter().filter(|value| !(plain.nullable && value.is_null())).collect();
        if plain.kind != "string" || texts.is_empty() || !texts.iter().all(|value| value.is_string()) {
            self.notes.add(format!("{path}.enum"), "holds other values than texts");
            return;
        }
        written.insert("enum".to_owned(), texts.into_iter().cloned().collect());
    }

    fn refuse_structure(&mut self, schema: &Map<String, Value>, path: &str) {
        for keyword in STRUCTURE.iter().filter(|keyword| schema.contains_key(**keyword)) {
            self.notes.add(format!("{path}.{keyword}"), "cannot be said to this provider");
        }
        for keyword in OPEN {
            if schema.get(keyword).is_some_and(|value| value.as_object().is_some_and(|schema| !schema.is_empty())) {
                self.notes.add(format!("{path}.{keyword}"), "only listed members can be said to this provider");
            }
        }
    }

    /// Follows references, takes null apart, finds the type.
    fn plain(&mut self, schema: &Value, path: &str) -> Option<Plain> {
        let (schema, nullable) = self.opened(schema, path)?;
        self.typed(schema, nullable, path)
    }

    /// What is inside of references and wrappings, and whether it may be null.
    fn opened(&mut self, schema: &Value, path: &str) -> Option<(Map<String, Value>, bool)> {
        let Some(schema) = schema.as_object() else {
            self.notes.add(path, "takes any value or none");
            return None;
        };
        let mut schema = schema.clone();
        let mut nullable = false;
        // Each round takes one wrapping off. Circles end by the limit, which no honest schema meets.
        for _ in 0..super::DEPTH_MAX {
            let Some((inner, or_null)) = self.unwrapped(&schema) else { break };
            nullable |= or_null;
            for keyword in ["$ref", "anyOf", "oneOf", "allOf"] {
                schema.remove(keyword);
            }
            // What stands beside the wrapping is nearer to this place: it wins.
            for (keyword, value) in inner {
                schema.entry(keyword).or_insert(value);
            }
        }
        Some((schema, nullable))
    }

    fn typed(&mut self, mut schema: Map<String, Value>, nullable: bool, path: &str) -> Option<Plain> {
        if let Some(text) = schema.get("const").filter(|value| value.is_string()).cloned() {
            schema.remove("const");
            schema.insert("enum".to_owned(), Value::Array(vec![text]));
        }
        let (kind, or_null) = self.kind(&schema, path)?;
        Some(Plain { schema, kind, nullable: nullable || or_null })
    }

    /// The schema inside a wrapping that adds nothing but perhaps null.
    fn unwrapped(&self, schema: &Map<String, Value>) -> Option<(Map<String, Value>, bool)> {
        let wraps = |keyword: &str| schema.keys().all(|other| other == keyword || BESIDE.contains(&other.as_str()));
        if let Some(pointer) = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#')) {
            let target = self.root.pointer(pointer).and_then(Value::as_object)?;
            return wraps("$ref").then(|| (target.clone(), false));
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let Some(branches) = schema.get(keyword).and_then(Value::as_array).filter(|_| wraps(keyword)) else {
                continue;
            };
            let is_null = |branch: &Value| keyword != "allOf" && branch.get("type").is_some_and(|kind| kind == "null");
            let mut rest = branches.iter().filter(|branch| !is_null(branch));
            if let (Some(Value::Object(only)), None) = (rest.next(), rest.next()) {
                return Some((only.clone(), branches.iter().any(is_null)));
            }
        }
        None
    }

    /// The one type and whether null is another.
    fn kind(&mut self, schema: &Map<String, Value>, path: &str) -> Option<(&'static str, bool)> {
        let known = |name: &str| TYPES.into_iter().find(|known| *known == name);
        let found = match schema.get("type") {
            Some(Value::String(name)) => known(name).map(|kind| (kind, false)),
            Some(Value::Array(names)) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                let mut kinds = names.iter().filter(|name| **name != "null");
                let only = kinds.next().and_then(|name| known(name)).filter(|_| kinds.next().is_none());
                only.map(|kind| (kind, names.contains(&"null")))
            }
            Some(_) => None,
            None if schema.contains_key("properties") => Some(("object", false)),
            None if schema.contains_key("items") => Some(("array", false)),
            None if schema.contains_key("enum") => Some(("string", false)),
            None => {
                // A wrapping that could not be taken off says more than the type it hides.
                self.refuse_structure(schema, path);
                if !STRUCTURE.iter().any(|keyword| schema.contains_key(*keyword)) {
                    self.notes.add(path, "has no type");
                }
                return None;
            }
        };
        if found.is_none() {
            self.notes.add(format!("{path}.type"), "is not one known type, or one and null");
        }
        found
    }
}

/// The schemas of which a value fits one, if there are several.
fn branches(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    let is_null = |kind: Option<&Value>| kind.is_some_and(|kind| kind == "null");
    if let Some(Value::Array(kinds)) = schema.get("type") {
        let branch = |kind: &Value| {
            let mut branch = schema.clone();
            for keyword in BESIDE {
                branch.remove(keyword);
            }
            branch.insert("type".to_owned(), kind.clone());
            Value::Object(branch)
        };
        let several = kinds.iter().filter(|kind| !is_null(Some(kind))).count() > 1;
        return several.then(|| kinds.iter().map(branch).collect());
    }
    for keyword in ["anyOf", "oneOf"] {
        let alone = schema.keys().all(|other| other == keyword || BESIDE.contains(&other.as_str()));
        if let Some(Value::Array(branches)) = schema.get(keyword).filter(|_| alone) {
            let several = branches.iter().filter(|branch| !is_null(branch.get("type"))).count() > 1;
            return several.then(|| branches.clone());
        }
    }
    None
}

fn is_plain_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
