//! `docs/configuration.md`, written from the schema: what is not true of the code is not in it.

use super::{catalog::Catalog, prompt, schema::schema};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write};

/// The configuration reference in Markdown.
pub fn reference(catalog: &Catalog) -> String {
    let mut page = Page { text: INTRODUCTION.to_owned() };
    page.section("", &schema(catalog));
    page.text += "\n## Placeholders in `prompt` and `greeting`\n\n";
    page.text += PLACEHOLDERS;
    page.text += "\n| placeholder | default | meaning |\n| --- | --- | --- |\n";
    for variable in prompt::VARIABLES {
        let default = code(variable.default);
        page.line(format_args!("| `{{{}}}` | {default} | {} |", variable.name, variable.meaning));
    }
    page.line(format_args!(
        "| `{{channel.NAME}}` | (empty) | the variable `NAME` of the caller's channel when the call begins, such as `{{channel.AMDSTATUS}}`: \
         letters, digits and `_`; at most {} different ones in a file |",
        prompt::CHANNEL_VARIABLES_MAX
    ));
    page.text += "\n## Tools\n\nBuilt in, for `contexts.NAME.tools`:\n\n";
    for tool in &catalog.tools {
        page.line(format_args!("- `{tool}`"));
    }
    page.text
}

const INTRODUCTION: &str = "\
# Configuration

<!-- Generated from the code. `OFFHOOK_BLESS=1 cargo test --lib config` writes it anew. -->

One YAML file. `offhook check --config FILE` reports all of its problems at once, each with its line; unknown keys are
problems. An editor that reads the first line of `config/offhook.yaml` completes and checks keys as you type, by
`config/offhook.schema.json`.

`SIGHUP` and `POST /reload` read the file again. New calls get the new configuration, running calls keep theirs; a file
with a problem, or one that cannot be read within ten seconds, changes nothing.

**Variables.** `${NAME}` in a value is replaced by the environment variable of that name, and it is a problem if that is
not set. `${NAME:-default}` takes the default if it is unset or empty. `$${` stands for a literal `${`. Inside `{ }` and
`[ ]` YAML wants quotes around it: `\"${NAME}\"`. Keep passwords and keys in variables; their values are never printed.

**Durations** are a whole number and a unit: `500ms`, `12s`, `5m`, `1h`; at most a day. In the options of `scripted` the
number may have decimals, as in `2.5s`, and an hour is the most.

**Names** of contexts, providers and destinations have letters, digits, `_` and `-`. Below, `NAME` stands for one.

**Text that looks like a number** needs quotes: `extension: \"200\"`. A key without a value, or with `null`, counts as not
written, except among the options of a provider: there `null` switches off what can be switched off.
";

const PLACEHOLDERS: &str = "\
They are filled for each call before the model sees them. Placeholders that are not in this list stay as they are
written. What comes from outside loses control characters and braces and is cut at 128 characters.
";

struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: std::fmt::Arguments) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// A heading, the keys of an object as a table, then the objects among them.
    fn section(&mut self, path: &str, schema: &Value) {
        let mut keys = Vec::new();
        collect_keys(schema, &mut keys);
        if keys.is_empty() {
            return;
        }
        if path.is_empty() {
            self.text += "\n## The file\n\n";
        } else {
            self.heading(path, schema);
        }
        self.text += "| key | type | default | meaning |\n| --- | --- | --- | --- |\n";
        for Key { key, value, required } in &keys {
            let default = match value.get("default") {
                _ if *required => "**required**".into(),
                Some(value) => code(&flow(value)),
                None => "–".into(),
            };
            let mut meaning = value.get("description").and_then(Value::as_str).map(one_line).unwrap_or_default();
            for (choice, about) in described_choices(value) {
                meaning += &format!(" `{choice}`: {}", one_line(about));
            }
            self.line(format_args!("| `{key}` | {} | {default} | {} |", type_words(value), cell(&meaning)));
        }
        for Key { key, value, .. } in keys {
            let path = if path.is_empty() { key } else { format!("{path}.{key}") };
            self.children(&path, &value);
        }
    }

    fn heading(&mut self, path: &str, schema: &Value) {
        let level = if path.replace(".NAME", "").contains('.') { "###" } else { "##" };
        self.line(format_args!("\n{level} `{path}`\n"));
        if let Some(description) = schema.get("description").and_then(Value::as_str) {
            self.line(format_args!("{}\n", one_line(description)));
        }
    }

    fn children(&mut self, path: &str, schema: &Value) {
        // Its title has said in a few words what may stand there.
        if schema.get("title").is_some() {
            return;
        }
        match schema.get("additionalProperties") {
            Some(entry @ Value::Object(_)) => self.named(path, schema, entry),
            _ => self.section(path, schema),
        }
        if let Some(items) = schema.get("items") {
            self.section(&format!("{path}[]"), items);
        }
    }

    /// Entries by a name of the operator's choice.
    fn named(&mut self, path: &str, schema: &Value, entry: &Value) {
        let path = format!("{path}.NAME");
        let section = path.trim_end_matches(".NAME");
        if !["providers", "stt", "llm", "voices"].contains(&section) {
            // Its title has said in a few words what may stand there.
            if entry.get("title").is_none() {
                self.section(&path, entry);
            }
            return;
        }
        let description = schema.get("description").and_then(Value::as_str).map(one_line).unwrap_or_default();
        self.line(format_args!("\n## `{section}`\n\n{description}"));
        for (kind, options) in entry.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let path = format!("{path}.{kind}");
            let before = self.text.len();
            self.section(&path, options);
            if self.text.len() == before {
                self.heading(&path, options);
                self.text += "It has no options.\n";
            }
        }
    }
}

struct Key {
    key: String,
    value: Value,
    required: bool,
}

/// The keys of an object, those of all its alternatives included.
fn collect_keys(schema: &Value, keys: &mut Vec<Key>) {
    let alternatives = alternatives(schema);
    let names_itself = |(key, value): (&String, &Value)| Some((key.clone(), value.get("const")?.as_str()?.to_owned()));
    let tag = |schema: &Value| schema.get("properties")?.as_object()?.iter().find_map(names_itself);
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = schema.get("required").and_then(Value::as_array);
    for (key, value) in properties.into_iter().flatten() {
        let required = names.is_some_and(|names| names.iter().any(|name| name == key));
        let mut value = value.clone();
        // What a variant with one key means is said of the variant.
        if properties.is_some_and(|properties| properties.len() == 1)
            && value.get("description").is_none()
            && let (Value::Object(value), Some(description)) = (&mut value, schema.get("description"))
        {
            value.insert("description".into(), description.clone());
        }
        match keys.iter_mut().find(|known| known.key == *key) {
            Some(known) => add_choices(&mut known.value, &value),
            None => keys.push(Key { key: key.clone(), value, required }),
        }
    }
    // `type: server_vad` decides which other keys there are.
    let mut only_with: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for alternative in &alternatives {
        let from = keys.len();
        collect_keys(alternative, keys);
        if alternatives.len() > 1 {
            keys[from..].iter_mut().for_each(|key| key.required = false);
        }
        let Some((tag, name)) = tag(alternative) else { continue };
        for key in alternative.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key) {
            if *key != tag {
                only_with.entry(key.clone()).or_default().push(format!("`{tag}: {name}`"));
            }
        }
        if let Some(key) = keys.iter_mut().find(|key| key.key == tag) {
            key.required = true;
            if let Some(about) = alternative.get("description").and_then(Value::as_str) {
                describe(&mut key.value, &format!("`{name}`: {about}"));
            }
        }
    }
    for (key, tags) in only_with {
        if let Some(key) = keys.iter_mut().find(|known| known.key == key).filter(|_| tags.len() < alternatives.len()) {
            describe(&mut key.value, &format!("Only with {}.", tags.join(" or ")));
        }
    }
}

/// Adds a sentence to what is said about a key.
fn describe(schema: &mut Value, sentence: &str) {
    let before = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let all = format!("{before} {sentence}");
    schema["description"] = all.trim().into();
}

/// As it would be written on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(entries) if !entries.is_empty() => {
            let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}: {}", flow(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// What a schema may be instead, `null` aside.
fn alternatives(schema: &Value) -> Vec<&Value> {
    let lists = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
    lists.flatten().filter(|branch| branch.get("type").is_none_or(|kind| kind != "null")).collect()
}

/// The tag of one variant beside those of the others.
fn add_choices(known: &mut Value, other: &Value) {
    let all = [choices(known), choices(other)].concat();
    if let Value::Object(known) = known
        && other.get("const").is_some()
        && (known.remove("const").is_some() || known.contains_key("enum"))
    {
        known.insert("enum".into(), all.into());
    }
}

fn type_words(schema: &Value) -> String {
    let words = |name: &str| match name {
        "string" => "text".into(),
        "integer" => "whole number".into(),
        "number" => "number".into(),
        "boolean" => "`true` or `false`".into(),
        "array" => match schema.get("items") {
            Some(items) if items.get("type").is_some_and(|kind| kind == "string") => "list of text".into(),
            _ => "list".to_owned(),
        },
        "object" if schema.get("additionalProperties").is_some_and(Value::is_object) => "entries by name".into(),
        "object" => "section".into(),
        other => other.into(),
    };
    let listed = choices(schema);
    if !listed.is_empty() {
        return listed.iter().map(|choice| code(choice)).collect::<Vec<_>>().join(", ");
    }
    if let Some(title) = schema.get("title").and_then(Value::as_str) {
        return cell(title.trim_start_matches("an ").trim_start_matches("a "));
    }
    match schema.get("type") {
        Some(Value::String(name)) => words(name) + &bounds(schema),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            names.map(words).collect::<Vec<_>>().join(" or ") + &bounds(schema)
        }
        _ => {
            let mut several: Vec<String> = alternatives(schema).into_iter().map(type_words).collect();
            several.dedup();
            several.join(" or ")
        }
    }
}

fn bounds(schema: &Value) -> String {
    match (schema.get("minimum").filter(|least| **least != 0), schema.get("maximum")) {
        (None, None) => String::new(),
        (Some(least), None) => format!(", at least {least}"),
        (None, Some(most)) => format!(", at most {most}"),
        (Some(least), Some(most)) => format!(", {least} to {most}"),
    }
}

/// Choices of which the schema says what each means.
fn described_choices(schema: &Value) -> Vec<(&str, &str)> {
    let about = |choice| -> Option<(&str, &str)> {
        let choice: &Value = choice;
        Some((choice.get("const")?.as_str()?, choice.get("description")?.as_str()?))
    };
    alternatives(schema).into_iter().filter_map(about).collect()
}

/// The values of a constant, of an `enum`, or of alternatives that are such.
fn choices(schema: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(constant) = schema.get("const") {
        return vec![text(constant)];
    }
    if let Some(Value::Array(options)) = schema.get("enum") {
        return options.iter().filter(|option| !option.is_null()).map(text).collect();
    }
    let found: Vec<Vec<String>> = alternatives(schema).into_iter().map(choices).collect();
    if found.iter().any(Vec::is_empty) { Vec::new() } else { found.concat() }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn code(text: &str) -> String {
    if text.is_empty() { "(empty)".into() } else { format!("`{}`", cell(text)) }
}
