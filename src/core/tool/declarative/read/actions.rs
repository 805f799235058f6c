//! Reads actions, in every shape they have had.

use super::{
    Reader,
    pieces::{TEXT_BYTES_MAX, join},
};
use crate::tool::{
    declarative::{
        address::{Address, AddressError, endpoint_template},
        definition::{ACTIONS_MAX, Action, ApiCall, BRANCH_DEPTH_MAX, Handoff, Level, Method, Words},
        template::{Template, ValueTemplate},
        transform::{Field, Function, Operation, Transform},
    },
    memory::{Path, Scope, Target},
};
use serde_json::{Map, Value};
use std::time::Duration;

const HEADERS_MAX: usize = 32;
/// Of paths in one action, rules of one `validate`, fields of one `pick`.
pub(super) const ENTRIES_MAX: usize = 64;
/// The ADR's own bounds are 30 s and three retries; these keep a slip of the pen from being minutes.
const ATTEMPT_SECONDS_MAX: f64 = 120.0;
const RETRIES_MAX: usize = 10;
const RETRY_DELAY_SECONDS_MAX: f64 = 30.0;
/// Made by whoever sends the request.
const HEADERS_NOT_SET: [&str; 8] =
    ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "idempotency-key"];

pub(super) type Fields = Map<String, Value>;

impl Reader<'_> {
    pub(super) fn list_of_actions(&mut self, map: &Fields, name: &str, prefix: &str) -> Vec<Action> {
        self.actions_at(map.get(name), &format!("{prefix}{name}"), 0)
    }

    fn actions_at(&mut self, value: Option<&Value>, at: &str, depth: usize) -> Vec<Action> {
        let list = self.list(value, at, ACTIONS_MAX);
        let read = |(index, value): (usize, &Value)| self.action(value, &format!("{at}[{index}]"), depth);
        list.iter().enumerate().filter_map(read).collect()
    }

    fn action(&mut self, value: &Value, at: &str, depth: usize) -> Option<Action> {
        let map = self.object(value, at)?;
        self.actions += 1;
        let kind = self.required(map, "type", at)?.as_str().unwrap_or_default();
        match kind {
            "context.set" => self.context_set(map, at),
            "context.get" => self.context_get(map, at),
            "context.delete" => self.context_delete(map, at),
            "api_call" | "webhook" => self.api_call(map, at),
            "handoff" => self.handoff(map, at),
            "respond" => self.respond(map, at),
            "flag.set" | "flag.clear" => self.flag_action(map, at, kind == "flag.set"),
            "conditional" => self.conditional(map, at, depth),
            "validate" => self.validate(map, at),
            "transform" => self.transform(map, at),
            "log" => self.log(map, at),
            _ => {
                let all = Action::TYPES.map(|name| (name, ()));
                self.choice(map.get("type")?, &format!("{at}.type"), &all);
                None
            }
        }
    }

    fn context_set(&mut self, map: &Fields, at: &str) -> Option<Action> {
        self.fields(map, at, &["type", "path", "key", "value", "data"], &[]);
        if let Some((name, target)) = self.one_of(map, &["path", "key"], at) {
            let target = self.target(target, &join(at, name));
            let (name, value) = self.needed(map, &["value", "data"], at)?;
            let value = self.public_value(value, &join(at, name), Scope::Run);
            return Some(Action::ContextSet(vec![(target?, value?)]));
        }
        let data = self.required(map, "data", at)?;
        let at = join(at, "data");
        let data = self.object(data, &at)?;
        if data.len() > ENTRIES_MAX {
            self.problem(&at, format!("{} entries; at most {ENTRIES_MAX}", data.len()));
            return None;
        }
        let mut entries: Vec<(Target, ValueTemplate)> = Vec::new();
        for (path, value) in data {
            let at = join(&at, path);
            let target = self.target_text(path, &at);
            let value = self.public_value(value, &at, Scope::Run);
            if entries.iter().any(|(other, _)| Some(other) == target.as_ref()) {
                self.problem(&at, "is written twice");
            }
            entries.extend(target.zip(value));
        }
        Some(Action::ContextSet(entries))
    }

    fn context_get(&mut self, map: &Fields, at: &str) -> Option<Action> {
        self.fields(map, at, &["type", "path", "key", "as"], &[]);
        let read = |reader: &mut Self, value: &Value, at: &str| {
            let path = reader.path(value, at, Scope::Run, true)?;
            reader.keep_secrets(&[&path], at);
            Some(path)
        };
        let paths = self.one_or_many(map, at, read)?;
        let into = map.get("as").and_then(|value| self.target(value, &join(at, "as")));
        Some(Action::ContextGet { paths, into })
    }

    fn context_delete(&mut self, map: &Fields, at: &str) -> Option<Action> {
        self.fields(map, at, &["type", "path", "key"], &[]);
        let read = |reader: &mut Self, value: &Value, at: &str| {
            let target = reader.target(value, at)?;
            if target.append {
                reader.problem(at, "[+] is no place that can be deleted");
                return None;
            }
            Some(target)
        };
        Some(Action::ContextDelete(self.one_or_many(map, at, read)?))
    }

    /// `path` or `key`: one, or a list.
    fn one_or_many<T>(
        &mut self,
        map: &Fields,
        at: &str,
        mut read: impl FnMut(&mut Self, &Value, &str) -> Option<T>,
    ) -> Option<Vec<T>> {
        let (name, value) = self.needed(map, &["path", "key"], at)?;
        let at = join(at, name);
        let Value::Array(_) = value else { return read(self, value, &at).map(|one| vec![one]) };
        let list = self.list(Some(value), &at, ENTRIES_MAX);
        if list.is_empty() {
            self.problem(&at, "names no path");
        }
        let one = |(index, value): (usize, &Value)| read(self, value, &format!("{at}[{index}]"));
        Some(list.iter().enumerate().filter_map(one).collect())
    }

    fn api_call(&mut self, map: &Fields, at: &str) -> Option<Action> {
        let known = [
            "type",
            "url",
            "endpoint",
            "method",
            "body",
            "payload",
            "headers",
            "timeout",
            "retry_count",
            "retry_delay",
            "on_error",
            "response_path",
            "allow",
        ];
        self.fields(map, at, &known, &[]);
        let ordinal = self.actions;
        let address = self.address(map, at);
        let method = map.get("method").and_then(|value| {
            let upper = Value::String(value.as_str().unwrap_or_default().to_ascii_uppercase());
            self.choice(&upper, &join(at, "method"), &Method::ALL)
        });
        let body = self.one_of(map, &["body", "payload"], at);
        let body = match body {
            Some((name, value)) => self.value(value, &join(at, name), Scope::Run),
            None => Some(ValueTemplate::Object(Vec::new())),
        };
        let headers = self.headers(map, at);
        let timeout = self.seconds(map, "timeout", at, 0.1, ATTEMPT_SECONDS_MAX);
        let retry_count = self.whole(map, "retry_count", at, RETRIES_MAX).unwrap_or(3);
        let retry_delay = self.seconds(map, "retry_delay", at, 0.0, RETRY_DELAY_SECONDS_MAX);
        let goes_on = map
            .get("on_error")
            .and_then(|value| self.choice(value, &join(at, "on_error"), &[("fail", false), ("continue", true)]));
        let response_path = map.get("response_path").filter(|value| !value.is_null());
        let response_path = response_path.and_then(|value| self.target(value, &join(at, "response_path")));
        let allow = self.allowed(map, at);
        let address = address?;
        Some(Action::ApiCall(Box::new(ApiCall {
            method: method.or(address.method).unwrap_or(Method::Post),
            address,
            body: body?,
            headers,
            timeout: timeout.unwrap_or(Duration::from_secs(30)),
            retry_count: u32::try_from(retry_count).unwrap_or(u32::MAX),
            retry_delay: retry_delay.unwrap_or(Duration::from_millis(500)),
            goes_on: goes_on.unwrap_or(false),
            response_path,
            allow,
            ordinal,
        })))
    }

    fn address(&mut self, map: &Fields, at: &str) -> Option<Address> {
        let (name, value) = self.needed(map, &["url", "endpoint"], at)?;
        let at = join(at, name);
        let text = self.text(value, &at, TEXT_BYTES_MAX)?;
        let source = if name == "endpoint" { endpoint_template(&text) } else { text };
        match Address::parse(&source, self.surroundings, &self.parameters) {
            Ok(address) => return Some(address),
            Err(AddressError::Template(error)) => self.template_problem(&at, &error),
            Err(error @ AddressError::UnknownEndpoint(_)) => {
                let known: Vec<&str> = self.surroundings.endpoints.keys().map(String::as_str).collect();
                self.hinted(&at, error.to_string(), Some(format!("known: {}", known.join(", "))));
            }
            Err(error @ AddressError::OpenHost) => {
                let hint = "write scheme and host out, or name an endpoint of the tenant's settings";
                self.hinted(&at, error.to_string(), Some(hint.into()));
            }
            Err(error) => self.problem(&at, error.to_string()),
        }
        None
    }

    fn headers(&mut self, map: &Fields, at: &str) -> Vec<(String, Template)> {
        let at = join(at, "headers");
        let Some(map) = map.get("headers").and_then(|value| self.object(value, &at)) else { return Vec::new() };
        if map.len() > HEADERS_MAX {
            self.problem(&at, format!("{} headers; at most {HEADERS_MAX}", map.len()));
            return Vec::new();
        }
        let mut headers = Vec::new();
        for (name, value) in map {
            let at = join(&at, name);
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(token) {
                self.problem(&at, "is no name of a header");
            } else if HEADERS_NOT_SET.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                self.problem(&at, "is set by whoever sends the request");
            } else if let Some(template) = self.template(value, &at, Scope::Run) {
                if template.source().chars().any(char::is_control) {
                    self.problem(&at, "has control characters");
                }
                headers.push((name.clone(), template));
            }
        }
        headers
    }

    /// A failure's ending reaches outside only where that is said.
    fn allowed(&mut self, map: &Fields, at: &str) -> bool {
        let allow = self.flag(map, "allow", at).unwrap_or(false);
        if self.in_failure && !allow {
            self.hinted(at, "reaches outside of the call in on_failure", Some("allow: true, if it is meant".into()));
        }
        allow
    }

    fn handoff(&mut self, map: &Fields, at: &str) -> Option<Action> {
        let known = ["type", "target", "target_agent", "agent", "message", "context_passed", "allow"];
        self.fields(map, at, &known, &[]);
        let allow = self.allowed(map, at);
        let message = map.get("message").and_then(|value| self.public_template(value, &join(at, "message")));
        let context_passed = map.contains_key("context_passed");
        let context_passed =
            context_passed.then(|| self.words(map.get("context_passed"), &join(at, "context_passed"), ENTRIES_MAX));
        let (name, target) = self.needed(map, &["target", "target_agent", "agent"], at)?;
        let at = join(at, name);
        let target = self.public_template(target, &at)?;
        if let Some(name) = target.fixed()
            && !self.surroundings.contexts.contains(name)
        {
            let known: Vec<&str> = self.surroundings.contexts.iter().map(String::as_str).collect();
            let hint = format!("known: {}", known.join(", "));
            self.hinted(&at, format!("the tenant has no context \"{name}\""), Some(hint));
            return None;
        }
        Some(Action::Handoff(Handoff { target, message, context_passed, allow }))
    }

    fn respond(&mut self, map: &Fields, at: &str) -> Option<Action> {
        self.fields(map, at, &["type", "message", "message_key", "immediate"], &[]);
        let immediate = self.flag(map, "immediate", at).unwrap_or(false);
        let (name, value) = self.needed(map, &["message", "message_key"], at)?;
        let at = join(at, name);
        if name == "message" {
            let words = Words::Message(self.public_template(value, &at)?);
            return Some(Action::Respond { words, immediate });
        }
        let key = self.text(value, &at, TEXT_BYTES_MAX)?;
        let Some(texts) = self.surroundings.messages.get(&key) else {
            let known: Vec<&str> = self.surroundings.messages.keys().map(String::as_str).collect();
            self.hinted(&at, format!("there is no message \"{key}\""), Some(format!("known: {}", known.join(", "))));
            return None;
        };
        let text = |(language, text): (&String, &String)| {
            Some((language.clone(), self.public_template(&Value::String(text.clone()), &at)?))
        };
        let texts = texts.iter().filter_map(text).collect();
        Some(Action::Respond { words: Words::Key { key, texts }, immediate })
    }

    fn flag_action(&mut self, map: &Fields, at: &str, set: bool) -> Option<Action> {
        self.fields(map, at, if set { &["type", "flag", "value"] } else { &["type", "flag"] }, &[]);
        let value = match map.get("value").filter(|_| set) {
            Some(value @ (Value::Bool(_) | Value::String(_))) => {
                self.public_value(value, &join(at, "value"), Scope::Run)
            }
            Some(_) => {
                self.problem(&join(at, "value"), "has to be true, false or a template of one");
                None
            }
            None => Some(ValueTemplate::Fixed(Value::Bool(true))),
        };
        let flag = self.required(map, "flag", at)?;
        let at = join(at, "flag");
        let text = self.text(flag, &at, TEXT_BYTES_MAX)?;
        let name = self.word(&Value::from(text.strip_prefix("flags.").unwrap_or(&text)), &at)?;
        let flag = Target { path: Path::new(crate::tool::memory::Root::Flags, &[&name]), append: false };
        Some(if set { Action::FlagSet { flag, value: value? } } else { Action::FlagClear { flag } })
    }

    fn conditional(&mut self, map: &Fields, at: &str, depth: usize) -> Option<Action> {
        self.fields(map, at, &["type", "condition", "then", "else"], &[]);
        if depth >= BRANCH_DEPTH_MAX {
            self.problem(at, format!("branches in branches; at most {BRANCH_DEPTH_MAX} deep"));
            return None;
        }
        let condition = self.required(map, "condition", at);
        let condition = condition.and_then(|value| self.condition(value, &join(at, "condition"), Scope::Run));
        let then = self.required(map, "then", at);
        let then = self.actions_at(then, &join(at, "then"), depth + 1);
        let otherwise = self.actions_at(map.get("else"), &join(at, "else"), depth + 1);
        Some(Action::Conditional { condition: condition?, then, otherwise })
    }

    fn log(&mut self, map: &Fields, at: &str) -> Option<Action> {
        self.fields(map, at, &["type", "level", "message"], &[]);
        let level = map.get("level").and_then(|value| self.choice(value, &join(at, "level"), &Level::ALL));
        let message = self.required(map, "message", at)?;
        let message = self.public_template(message, &join(at, "message"))?;
        Some(Action::Log { level: level.unwrap_or_default(), message })
    }

    fn transform(&mut self, map: &Fields, at: &str) -> Option<Action> {
        let known = [
            "type",
            "source",
            "operation",
            "template",
            "condition",
            "function",
            "field",
            "fields",
            "separator",
            "target",
        ];
        self.fields(map, at, &known, &[]);
        let target = map.get("target").and_then(|value| self.target(value, &join(at, "target")));
        let source =
            self.required(map, "source", at).and_then(|value| self.transform_source(value, &join(at, "source")));
        let names = ["map", "filter", "reduce", "pick", "count", "join"].map(|name| (name, name));
        let operation = self.required(map, "operation", at)?;
        let operation = match self.choice(operation, &join(at, "operation"), &names)? {
            "map" => {
                let template = self.required(map, "template", at)?;
                Operation::Map(self.public_value(template, &join(at, "template"), Scope::Item)?)
            }
            "filter" => {
                let condition = self.required(map, "condition", at)?;
                Operation::Filter(self.condition(condition, &join(at, "condition"), Scope::Item)?)
            }
            "reduce" => {
                let function = self.required(map, "function", at)?;
                let function = self.choice(function, &join(at, "function"), &Function::ALL)?;
                Operation::Reduce { function, field: self.field(map, at) }
            }
            "pick" => {
                let fields = self.required(map, "fields", at);
                Operation::Pick(self.words(fields, &join(at, "fields"), ENTRIES_MAX))
            }
            "join" => {
                let separator = map.get("separator");
                let separator = separator.map(|value| self.text(value, &join(at, "separator"), TEXT_BYTES_MAX));
                let separator = separator.flatten().unwrap_or_else(|| ", ".into());
                Operation::Join { separator, field: self.field(map, at) }
            }
            _ => Operation::Count,
        };
        Some(Action::Transform(Box::new(Transform { source: source?, operation, target })))
    }

    /// A path, with or without braces and root; or a list written out.
    fn transform_source(&mut self, value: &Value, at: &str) -> Option<ValueTemplate> {
        if !value.is_string() {
            return self.public_value(value, at, Scope::Run);
        }
        let path = self.path(value, at, Scope::Run, true)?;
        self.keep_secrets(&[&path], at);
        Some(ValueTemplate::Whole(path))
    }

    fn field(&mut self, map: &Fields, at: &str) -> Option<Field> {
        let at = join(at, "field");
        let text = self.text(map.get("field")?, &at, TEXT_BYTES_MAX)?;
        let text = text.strip_prefix("item.").unwrap_or(&text).to_owned();
        match Path::parse_steps(&text) {
            Ok(steps) => Some(Field { text, steps }),
            Err(error) => {
                self.template_problem(&at, &error.into());
                None
            }
        }
    }
}
