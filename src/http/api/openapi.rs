//! The OpenAPI document, made from the list of addresses and from the types that handlers take and give.

use crate::http::{
    login::{CSRF_HEADER, Door},
    routes::{Content, Doc, Listed},
    site::App,
};
use axum::{
    extract::State,
    http::{Method, header},
    response::{IntoResponse as _, Response},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// What every error is.
#[derive(Serialize, JsonSchema)]
struct Error {
    /// What is wrong, in a sentence.
    error: String,
}

/// The document's text, written when somebody first asks for it, so that an engine starts sooner.
#[derive(Default)]
pub struct Document {
    listed: OnceLock<Vec<Listed>>,
    text: OnceLock<String>,
}

impl Document {
    /// Takes the addresses that it is about.
    pub fn is_of(&self, listed: Vec<Listed>) {
        // A second time they would be the same.
        let _ = self.listed.set(listed);
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let listed = self.listed.get().map_or(&[][..], Vec::as_slice);
            serde_json::to_string_pretty(&document_of(listed)).unwrap_or_default()
        })
    }
}

pub async fn document(State(app): State<App>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], app.document.text().to_owned()).into_response()
}

pub fn document_of(listed: &[Listed]) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = "/components/schemas".into());
    // What has a default may be left out of a request, and is there in every answer.
    let mut schemas =
        Schemas { asked: settings.clone().into_generator(), told: settings.for_serialize().into_generator() };
    let error = schemas.told.subschema_for::<Error>();
    let mut paths = Map::new();
    for (address, doc) in listed.iter().filter_map(|address| Some((address, address.doc.as_ref()?))) {
        let operation = operation(address, doc, &error, &mut schemas);
        let path = paths.entry(address.path).or_insert_with(|| json!({}));
        path[address.method.as_str().to_lowercase()] = operation;
    }
    let mut definitions = schemas.told.take_definitions(true);
    schemas.asked.take_definitions(true).into_iter().for_each(|(name, schema)| drop(definitions.insert(name, schema)));
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "offhook",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What the page does, for programs (docs/web.md): calls as they happen and calls that have ended, conversations in \
                writing, the configuration with its versions, tools and their dry runs, MCP servers, providers, and the engine itself. \
                The API of tenants' tools is another one: docs/tools-api.md.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "A token of `offhook token`, or http.admin_token of the configuration" },
                "session": {
                    "type": "apiKey", "in": "cookie", "name": "offhook_15000",
                    "description": format!("What POST /api/v1/login sets; its name ends with the engine's port. Requests that change something need {CSRF_HEADER} as well."),
                },
            },
        },
    });
    plain_formats(&mut document);
    document
}

/// Gives numbers formats that OpenAPI knows, in place of those of Rust.
fn plain_formats(value: &mut Value) {
    if let Some(format) = value.get("format").and_then(Value::as_str) {
        let (plain, most) = match format {
            "uint8" => ("int32", Some(u32::from(u8::MAX))),
            "uint16" => ("int32", Some(u32::from(u16::MAX))),
            "uint32" => ("int64", Some(u32::MAX)),
            "uint64" | "uint" => ("int64", None),
            known => (known, None),
        };
        let plain = plain.to_owned();
        most.into_iter().for_each(|most| value["maximum"] = most.into());
        value["format"] = plain.into();
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(plain_formats),
        Value::Array(items) => items.iter_mut().for_each(plain_formats),
        _ => {}
    }
}

/// Types as requests and as answers have them.
struct Schemas {
    asked: SchemaGenerator,
    told: SchemaGenerator,
}

fn operation(address: &Listed, doc: &Doc, error: &Schema, schemas: &mut Schemas) -> Value {
    let mut parameters = path_parameters(address.path);
    parameters.extend(doc.headers.iter().map(header_parameter));
    parameters.extend(doc.query.map(|query| query_parameters(&query(&mut schemas.asked))).unwrap_or_default());
    let mut answers = Map::new();
    for (status, what, content) in &doc.answers {
        let mut answer = json!({ "description": what });
        let contents = contents(content, &mut schemas.told);
        if !contents.is_empty() {
            answer["content"] = contents.into();
        }
        answers.insert(status.to_string(), answer);
    }
    // What an address itself says of an answer is more.
    for (status, what) in doc.refusals.iter().copied().chain(errors(address, doc)) {
        let told = json!({ "description": what, "content": { "application/json": { "schema": error } } });
        answers.entry(status.to_string()).or_insert(told);
    }
    let mut operation = json!({
        "operationId": operation_id(&address.method, address.path),
        "tags": [parts(address.path).next().unwrap_or_default()],
        "summary": doc.summary,
        "parameters": parameters,
        "responses": answers,
    });
    if let Some(body) = doc.body {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": body(&mut schemas.asked) } } });
    }
    if let Door::Api(role) = address.door {
        let session = json!({ "session": [] });
        operation["security"] = if doc.accounts_alone { json!([session]) } else { json!([{ "token": [] }, session]) };
        operation["description"] = format!("For accounts with the role {role} or more.").into();
    }
    operation
}

/// Segments of a path below `/api/v1`.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.trim_start_matches("/api/v1/").split('/')
}

/// Name of an operation for generated clients: `getCallsByIdRecording` of `GET /api/v1/calls/{id}/recording`. It stays as long as the
/// address does.
fn operation_id(method: &Method, path: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    let part = |part: &str| {
        let by = if part.starts_with('{') { "By" } else { "" };
        let words = part.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        by.to_owned() + &words.map(capital).collect::<String>()
    };
    method.as_str().to_lowercase() + &parts(path).map(part).collect::<String>()
}

/// What can go wrong at an address.
fn errors(address: &Listed, doc: &Doc) -> Vec<(u16, &'static str)> {
    let mut errors = vec![
        (401, "No token, or a wrong one; not logged in, or not any more."),
        (403, "The role does not suffice, or the request comes from another site."),
        (503, "Too much at once, or something that is needed does not answer."),
    ];
    if address.path.contains('{') || doc.query.is_some() {
        errors.push((404, "Nothing has this name or id."));
    }
    if doc.query.is_some() || doc.body.is_some() {
        errors.push((400, "The request cannot be read."));
    }
    if doc.body.is_some() {
        errors.extend([
            (413, "The body is too long."),
            (415, "The body is not JSON."),
            (422, "The body is not what this address takes."),
            (429, "Too many attempts."),
        ]);
    }
    if !doc.headers.is_empty() {
        errors.push((428, "A header is missing that this address needs."));
    }
    if address.method != Method::GET && doc.body.is_none() {
        errors.push((413, "The body is too long."));
    }
    errors
}

fn contents(content: &Content, schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let json = |schema: Schema| ("application/json".to_owned(), json!({ "schema": schema }));
    let text = |kind: &str| (kind.to_owned(), json!({ "schema": { "type": "string" } }));
    match content {
        Content::Nothing => Map::new(),
        Content::Json(schema) => [json(schema(schemas))].into_iter().collect(),
        Content::Events(events) => {
            let events: Vec<_> = events.iter().map(|(name, data)| event(name, &data(schemas))).collect();
            [("text/event-stream".to_owned(), json!({ "schema": { "oneOf": events } }))].into_iter().collect()
        }
        Content::File(kind) => {
            [((*kind).to_owned(), json!({ "schema": { "type": "string", "format": "binary" } }))].into_iter().collect()
        }
        Content::Either(schema, kinds) => {
            [json(schema(schemas))].into_iter().chain(kinds.iter().map(|kind| text(kind))).collect()
        }
    }
}

/// One event of a stream, as OpenAPI 3.2 tells of them ("Server-Sent Events"): its data is a text, in which JSON stands.
fn event(name: &str, data: &Schema) -> Value {
    json!({
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": { "const": name },
            "data": { "type": "string", "contentMediaType": "application/json", "contentSchema": data },
        },
    })
}

fn header_parameter((name, what): &(&str, &str)) -> Value {
    json!({ "name": name, "in": "header", "required": true, "description": what, "schema": { "type": "string" } })
}

/// What is called `id` in a path is a call's; anything else is a name of the configuration, or of a version of it.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let parameter = |name: &str| match name {
        "id" => json!({
            "name": name, "in": "path", "required": true, "description": "A call's id.",
            "schema": { "type": "string", "format": "uuid" },
        }),
        "kept" => json!({
            "name": name, "in": "path", "required": true, "description": "A version's id.",
            "schema": { "type": "string", "minLength": 1 },
        }),
        "token" => json!({
            "name": name, "in": "path", "required": true, "description": "The name of a token.",
            "schema": { "type": "string", "minLength": 1 },
        }),
        _ => json!({
            "name": name, "in": "path", "required": true, "description": "A name of the configuration.",
            "schema": { "type": "string", "minLength": 1 },
        }),
    };
    names.map(parameter).collect()
}

/// The fields of a type, each a parameter of its own.
fn query_parameters(schema: &Schema) -> Vec<Value> {
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let text = schema.as_object_mut().and_then(|schema| schema.remove("description")).unwrap_or_default();
        // What is optional is left out, not null.
        if let Some(kinds) = schema.get_mut("type").filter(|kinds| kinds.is_array()) {
            *kinds = kinds[0].take();
        }
        if let Some(choice) = schema.get("anyOf").and_then(|choices| choices.get(0)).cloned() {
            schema = choice;
        }
        json!({ "name": name, "in": "query", "required": false, "description": text, "schema": schema })
    };
    fields.map(parameter).collect()
}
