//! What the form of a server holds, and the entry of the configuration that it makes.

use crate::{
    config::Problem,
    http::pages::{form::Wrong, text},
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The form, field by field; what was not sent is empty.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Draft {
    /// The entry's name in the file; empty: a new one is made.
    pub server: String,
    /// Of the file whose difference was shown.
    pub based_on: String,
    pub action: Option<Action>,
    pub id: String,
    pub enabled: Option<String>,
    pub transport: String,
    pub command: String,
    pub cwd: String,
    pub env: String,
    pub url: String,
    pub headers: String,
    pub bearer_token: String,
    pub access: String,
    pub risk_domain: String,
    pub timeout_ms: String,
    pub start_timeout_ms: String,
    pub slow_response_threshold_ms: String,
    pub slow_response_message: String,
    pub restart: Option<String>,
    pub max_restarts: String,
    pub backoff_ms: String,
    pub tools: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Show what would change.
    Look,
    Publish,
    /// Show what would change if it were removed.
    LookRemove,
    Remove,
}

const YES: &str = "yes";
/// Keys that stand under another one in the entry, with the fields of the form that they are.
const DEFAULTS: [&str; 6] =
    ["access", "risk_domain", "timeout_ms", "start_timeout_ms", "slow_response_threshold_ms", "slow_response_message"];
const RESTART: [&str; 2] = ["max_restarts", "backoff_ms"];

impl Draft {
    pub fn new() -> Self {
        let yes = || Some(YES.to_owned());
        Self { enabled: yes(), restart: yes(), transport: "stdio".into(), ..Self::default() }
    }

    /// Of an entry whose secrets are masked.
    pub fn of(name: &str, server: &Map<String, Value>) -> Self {
        let of = |key: &str| line_of(server.get(key));
        let under = |section: &str, key: &str| line_of(server.get(section).and_then(|section| section.get(key)));
        let default = |key: &str| under("defaults", key);
        let switch = |value: Option<&Value>| (value != Some(&Value::Bool(false))).then(|| YES.to_owned());
        let pairs = |key: &str, between: &str| {
            let pairs = server.get(key).and_then(Value::as_object).into_iter().flatten();
            pairs.map(|(name, value)| format!("{name}{between}{}", line_of(Some(value)))).collect::<Vec<_>>().join("\n")
        };
        let is_http = of("transport") == "http" || (!server.contains_key("command") && server.contains_key("url"));
        let command = server.get("command").and_then(Value::as_array).into_iter().flatten();
        Self {
            server: name.to_owned(),
            id: name.to_owned(),
            enabled: switch(server.get("enabled")),
            transport: if is_http { "http" } else { "stdio" }.into(),
            command: command.map(|word| line_of(Some(word))).collect::<Vec<_>>().join("\n"),
            cwd: of("cwd"),
            env: pairs("env", "="),
            url: of("url"),
            headers: pairs("headers", ": "),
            bearer_token: of("bearer_token"),
            access: default("access"),
            risk_domain: default("risk_domain"),
            timeout_ms: default("timeout_ms"),
            start_timeout_ms: default("start_timeout_ms"),
            slow_response_threshold_ms: default("slow_response_threshold_ms"),
            slow_response_message: default("slow_response_message"),
            restart: switch(server.get("restart").and_then(|restart| restart.get("enabled"))),
            max_restarts: under("restart", "max_restarts"),
            backoff_ms: under("restart", "backoff_ms"),
            tools: server
                .get("tools")
                .map(|tools| serde_json::to_string_pretty(tools).unwrap_or_default())
                .unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Fields of text, in the order of the form; for a form that shows nothing of them.
    pub fn fields(&self) -> Vec<(&'static str, &str)> {
        let mut fields = vec![
            ("server", self.server.as_str()),
            ("id", &self.id),
            ("transport", &self.transport),
            ("command", &self.command),
            ("cwd", &self.cwd),
            ("env", &self.env),
            ("url", &self.url),
            ("headers", &self.headers),
            ("bearer_token", &self.bearer_token),
            ("tools", &self.tools),
        ];
        fields.extend(DEFAULTS.into_iter().chain(RESTART).map(|name| (name, self.text(name))));
        for (name, value) in [("enabled", &self.enabled), ("restart", &self.restart)] {
            fields.extend(value.as_deref().map(|value| (name, value)));
        }
        fields
    }

    fn text(&self, name: &str) -> &str {
        match name {
            "access" => &self.access,
            "risk_domain" => &self.risk_domain,
            "timeout_ms" => &self.timeout_ms,
            "start_timeout_ms" => &self.start_timeout_ms,
            "slow_response_threshold_ms" => &self.slow_response_threshold_ms,
            "slow_response_message" => &self.slow_response_message,
            "max_restarts" => &self.max_restarts,
            _ => &self.backoff_ms,
        }
    }

    /// The name of the entry in the file.
    pub fn name(&self) -> &str {
        if self.server.is_empty() { self.id.trim() } else { &self.server }
    }

    /// # Errors
    /// What cannot be read at all; what it means is judged with the whole configuration.
    pub fn entry(&self) -> Result<Map<String, Value>, Vec<Wrong>> {
        let mut wrongs = Vec::new();
        let mut entry = Map::new();
        if self.name().is_empty() {
            wrongs.push(wrong("id", "is needed"));
        }
        if self.enabled.is_none() {
            entry.insert("enabled".into(), false.into());
        }
        entry.insert("transport".into(), self.transport.trim().into());
        let words: Vec<Value> = lines(&self.command).map(|(_, word)| word.into()).collect();
        if !words.is_empty() {
            entry.insert("command".into(), words.into());
        }
        for (key, text) in [("cwd", &self.cwd), ("url", &self.url), ("bearer_token", &self.bearer_token)] {
            put(&mut entry, key, text);
        }
        for (key, text, between) in [("env", &self.env, '='), ("headers", &self.headers, ':')] {
            match pairs(text, between) {
                Ok(pairs) if pairs.is_empty() => {}
                Ok(pairs) => drop(entry.insert(key.into(), pairs.into())),
                Err(line) => {
                    wrongs.push(wrong(key, &format!("line {line} has no \"{between}\" between a name and a value")))
                }
            }
        }
        let mut restart = self.section(&RESTART);
        if self.restart.is_none() {
            restart.insert("enabled".into(), false.into());
        }
        for (key, section) in [("restart", restart), ("defaults", self.section(&DEFAULTS))] {
            if !section.is_empty() {
                entry.insert(key.into(), section.into());
            }
        }
        if !self.tools.trim().is_empty() {
            match serde_json::from_str::<Value>(&self.tools) {
                Ok(tools) => drop(entry.insert("tools".into(), tools)),
                Err(error) => wrongs.push(wrong("tools", &format!("cannot be read as JSON: {error}"))),
            }
        }
        if wrongs.is_empty() { Ok(entry) } else { Err(wrongs) }
    }

    fn section(&self, names: &[&str]) -> Map<String, Value> {
        let mut section = Map::new();
        names.iter().for_each(|name| put(&mut section, name, self.text(name)));
        section
    }
}

/// A problem of the configuration, beside the field that it is about if it is about one.
pub fn judged(name: &str, problem: &Problem) -> Wrong {
    let own = problem.path.strip_prefix(&format!("mcp.servers.{name}"));
    let mut steps = own.unwrap_or_default().split(['.', '[']).filter(|step| !step.is_empty());
    let field = match (own, steps.next()) {
        (None, _) => "",
        (Some(_), None) => "id",
        (Some(_), Some("defaults" | "restart")) => steps.next().unwrap_or_default(),
        (Some(_), Some(step)) => step,
    };
    let place = if problem.line > 0 { format!("{} ", text::line(problem.line)) } else { String::new() };
    Wrong {
        field: field.to_owned(),
        path: if own.is_some() { problem.path.clone() } else { format!("{place}{}", problem.path) },
        message: problem.message.clone(),
        hint: problem.hint.clone(),
    }
}

fn wrong(field: &str, message: &str) -> Wrong {
    Wrong { field: field.into(), path: field.into(), message: message.into(), hint: None }
}

/// What is a number is written as one; anything else is told to be none by the configuration.
fn put(map: &mut Map<String, Value>, key: &str, text: &str) {
    let text = text.trim();
    if !text.is_empty() {
        let is_number = key.ends_with("_ms") || key == "max_restarts";
        let number = text.parse::<u64>().ok().filter(|_| is_number);
        map.insert(key.into(), number.map_or_else(|| text.into(), Value::from));
    }
}

/// Lines with something in them, and their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty())
}

fn pairs(text: &str, between: char) -> Result<Map<String, Value>, usize> {
    let pair = |(number, line): (usize, &str)| {
        let (name, value) = line.split_once(between).ok_or(number)?;
        Ok((name.trim().to_owned(), Value::from(value.trim())))
    };
    lines(text).map(pair).collect()
}

/// A value as a form has it.
fn line_of(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
