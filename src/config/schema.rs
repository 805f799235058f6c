//! The JSON Schema of the whole file: one for editors, which also judges what is loaded.

use super::{catalog::Catalog, raw::Raw, raw_mcp::Server};
use jsonschema::Validator;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The JSON Schema of configurations, compiled for validation.
#[derive(Debug)]
pub struct CompiledSchema {
    pub schema: Value,
    /// `Err`: the schema of this build is broken.
    pub validator: Result<Validator, String>,
}

impl CompiledSchema {
    pub fn new(catalog: &Catalog) -> Self {
        let schema = schema(catalog);
        let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string());
        Self { schema, validator }
    }
}

/// The schema of `catalog`'s configurations (JSON Schema 2020-12), without references, so that
/// every place of it can be reached by a path.
pub fn schema(catalog: &Catalog) -> Value {
    let mut root = inlined::<Raw>();
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    if let Some(object) = root.as_object_mut() {
        object.remove("title");
        object.remove("description");
    }
    let providers = catalog.providers.iter().map(|row| (row.kind, row.summary, &row.schema));
    root["properties"]["providers"]["additionalProperties"] = one_of("provider", providers);
    for section in ["stt", "llm", "voices"] {
        let (what, kinds) = catalog.services(section).unwrap_or_default();
        let kinds = kinds.iter().map(|row| (row.kind, row.summary, &row.schema));
        root["properties"][section]["additionalProperties"] = one_of(what, kinds);
    }
    root["properties"]["contexts"]["additionalProperties"]["properties"]["tools"]["items"]["examples"] =
        catalog.tools.clone().into();
    root
}

/// The schema of one entry of `mcp.servers`. A variable may stand wherever a value is checked.
pub fn mcp_server_schema() -> Value {
    let mut server = inlined::<Server>();
    allow_variables(&mut server);
    server["title"] = "an entry of mcp.servers".into();
    let one = |transport: &str, required: &[&str], others: &[&str]| {
        let mut properties: Map<String, Value> =
            others.iter().map(|key| ((*key).into(), json!({ "not": {} }))).collect();
        properties.insert("transport".into(), json!({ "anyOf": [{ "enum": [transport] }, variable()] }));
        json!({ "required": required, "properties": properties })
    };
    let (of_stdio, of_http) = (["command", "cwd", "env"], ["url", "headers", "bearer_token"]);
    server["oneOf"] = json!([one("stdio", &["command"], &of_http), one("http", &["transport", "url"], &of_stdio)]);
    server
}

/// The schema of a text with a variable of the environment in it.
fn variable() -> Value {
    json!({ "type": "string", "pattern": "\\$\\{[A-Za-z_]" })
}

/// The schema of a type, without references.
fn inlined<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut root = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut root, &Map::new(), 0);
    drop_null(&mut root);
    root
}

/// [`schema`] as it is printed and committed for editors. There, a variable may stand wherever
/// a value is checked.
pub fn schema_text(catalog: &Catalog) -> String {
    let mut root = schema(catalog);
    allow_variables(&mut root);
    root["title"] = "offhook configuration".into();
    format!("{root:#}\n")
}

/// An entry with one key, the kind, and its options below it.
fn one_of<'a>(what: &str, kinds: impl Iterator<Item = (&'a str, &'a str, &'a Value)>) -> Value {
    let kinds = kinds.map(|(kind, summary, schema)| (kind.to_owned(), options_schema(summary, schema)));
    json!({
        "type": "object",
        "title": format!("one kind of {what} with its options"),
        "properties": kinds.collect::<Map<_, _>>(),
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
    })
}

fn options_schema(summary: &str, schema: &Value) -> Value {
    let mut schema = schema.clone();
    let definitions = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    tidy(&mut schema, &definitions, 0);
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.insert("description".into(), summary.into());
    }
    schema
}

/// Puts definitions in place of references. References that nest deeper than any configuration
/// does are left open.
fn tidy(schema: &mut Value, definitions: &Map<String, Value>, depth: usize) {
    const DEPTH_MAX: usize = 24;

    match schema {
        Value::Array(list) => list.iter_mut().for_each(|item| tidy(item, definitions, depth)),
        Value::Object(object) => {
            object.remove("$schema");
            object.remove("$defs");
            // `uint64` and the like; an object here is a key of that name.
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            // A definition may be a reference again.
            for _ in depth..DEPTH_MAX {
                let target = object.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/"));
                let Some(definition) = target.and_then(|name| definitions.get(name)).cloned() else { break };
                object.remove("$ref");
                merge(object, definition);
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            object.values_mut().for_each(|value| tidy(value, definitions, depth + 1));
        }
        _ => {}
    }
}

/// What stands beside a reference wins over what it refers to.
fn merge(object: &mut Map<String, Value>, definition: Value) {
    if let Value::Object(definition) = definition {
        for (key, value) in definition {
            object.entry(key).or_insert(value);
        }
    }
}

/// A key without a value counts as not written, so `null` need not be allowed. Not so below a
/// provider: there `null` may have a meaning.
fn drop_null(schema: &mut Value) {
    let object = match schema {
        Value::Array(list) => return list.iter_mut().for_each(drop_null),
        Value::Object(object) => object,
        _ => return,
    };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    for keyword in ["anyOf", "enum"] {
        let Some(Value::Array(branches)) = object.get_mut(keyword) else { continue };
        branches.retain(|branch| !branch.is_null() && *branch != json!({ "type": "null" }));
        if let ("anyOf", [only]) = (keyword, branches.as_slice()) {
            let only = only.clone();
            object.remove("anyOf");
            merge(object, only);
        }
    }
    object.values_mut().for_each(drop_null);
}

/// Lets every value that is checked by more than its being text be a variable as well.
fn allow_variables(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(allow_variables),
        Value::Object(object) => {
            let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
            let checked = ["pattern", "enum"].iter().any(|keyword| object.contains_key(*keyword));
            let leaf = matches!(kind, "integer" | "number" | "boolean") || (kind == "string" && checked);
            if !leaf {
                object.values_mut().for_each(allow_variables);
                return;
            }
            let (words, mut test) = (["title", "description", "default"], Map::new());
            for key in object.keys().cloned().collect::<Vec<_>>() {
                if !words.contains(&key.as_str())
                    && let Some(value) = object.remove(&key)
                {
                    test.insert(key, value);
                }
            }
            object.insert("anyOf".into(), json!([test, variable()]));
        }
        _ => {}
    }
}
