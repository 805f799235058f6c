//! The small things every part of a definition is read from. Each notes what is wrong and gives
//! `None`.

use super::Reader;
use crate::tool::{
    declarative::{
        definition::DefinitionProblem,
        template::{Template, TemplateError, ValueTemplate},
    },
    memory::{Path, PathError, Root, Scope, Target},
};
use serde_json::{Map, Value};
use std::time::Duration;

/// Of one text in a definition.
pub(super) const TEXT_BYTES_MAX: usize = 16 * 1024;
const WORD_BYTES_MAX: usize = 64;
/// A name this near is what was meant.
const SIMILAR: f64 = 0.7;

impl Reader<'_> {
    pub(super) fn problem(&mut self, at: &str, message: impl Into<String>) {
        self.problems.push(DefinitionProblem { path: at.to_owned(), message: message.into(), hint: None });
    }

    pub(super) fn hinted(&mut self, at: &str, message: impl Into<String>, hint: Option<String>) {
        self.problems.push(DefinitionProblem { path: at.to_owned(), message: message.into(), hint });
    }

    pub(super) fn object<'v>(&mut self, value: &'v Value, at: &str) -> Option<&'v Map<String, Value>> {
        let map = value.as_object();
        if map.is_none() {
            self.problem(at, "has to be an object");
        }
        map
    }

    /// The items of a list; nothing when it is not there.
    pub(super) fn list<'v>(&mut self, value: Option<&'v Value>, at: &str, max: usize) -> &'v [Value] {
        match value {
            None | Some(Value::Null) => &[],
            Some(Value::Array(list)) if list.len() <= max => list,
            Some(Value::Array(list)) => {
                self.problem(at, format!("{} entries; at most {max}", list.len()));
                &[]
            }
            Some(_) => {
                self.problem(at, "has to be a list");
                &[]
            }
        }
    }

    /// Complains of fields that are neither known nor passed over.
    pub(super) fn fields(&mut self, map: &Map<String, Value>, at: &str, known: &[&str], passed_over: &[&str]) {
        for name in map.keys().filter(|name| !known.contains(&name.as_str()) && !passed_over.contains(&name.as_str())) {
            let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            self.hinted(&path, "is not a field here", nearest(name, known));
        }
    }

    pub(super) fn required<'v>(&mut self, map: &'v Map<String, Value>, name: &str, at: &str) -> Option<&'v Value> {
        let value = map.get(name);
        if value.is_none() {
            self.problem(&join(at, name), "is needed");
        }
        value
    }

    /// The one of these fields that is given, with its name. Two of them contradict each other.
    pub(super) fn one_of<'v>(
        &mut self,
        map: &'v Map<String, Value>,
        names: &[&'static str],
        at: &str,
    ) -> Option<(&'static str, &'v Value)> {
        let mut given = names.iter().filter_map(|name| map.get(*name).map(|value| (*name, value)));
        let first = given.next();
        if let (Some((first, _)), Some((second, _))) = (first, given.next()) {
            self.problem(&join(at, second), format!("{first} and {second} are the same thing; give one"));
        }
        first
    }

    pub(super) fn needed<'v>(
        &mut self,
        map: &'v Map<String, Value>,
        names: &[&'static str],
        at: &str,
    ) -> Option<(&'static str, &'v Value)> {
        let found = self.one_of(map, names, at);
        if found.is_none() {
            let first = names.first().copied().unwrap_or_default();
            self.problem(&join(at, first), "is needed");
        }
        found
    }

    pub(super) fn text(&mut self, value: &Value, at: &str, max: usize) -> Option<String> {
        match value {
            Value::String(text) if text.len() <= max => Some(text.clone()),
            Value::String(_) => {
                self.problem(at, format!("longer than {max} bytes"));
                None
            }
            _ => {
                self.problem(at, "has to be a text");
                None
            }
        }
    }

    /// A name of letters, digits, `_` and `-`.
    pub(super) fn word(&mut self, value: &Value, at: &str) -> Option<String> {
        let word = self.text(value, at, WORD_BYTES_MAX)?;
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
            self.problem(at, "has to be a name of letters, digits, _ and -");
            return None;
        }
        Some(word)
    }

    pub(super) fn words(&mut self, value: Option<&Value>, at: &str, max: usize) -> Vec<String> {
        let list = self.list(value, at, max);
        list.iter().enumerate().filter_map(|(index, value)| self.word(value, &format!("{at}[{index}]"))).collect()
    }

    pub(super) fn choice<T: Copy>(&mut self, value: &Value, at: &str, all: &[(&'static str, T)]) -> Option<T> {
        let text = self.text(value, at, WORD_BYTES_MAX)?;
        let found = all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            // The message has them all.
            let hint = nearest(&text, &names).filter(|hint| hint.ends_with('?'));
            self.hinted(at, format!("has to be one of {}", names.join(", ")), hint);
        }
        found
    }

    pub(super) fn flag(&mut self, map: &Map<String, Value>, name: &str, at: &str) -> Option<bool> {
        let value = map.get(name)?;
        if !value.is_boolean() {
            self.problem(&join(at, name), "has to be true or false");
        }
        value.as_bool()
    }

    /// Seconds, above `least` and up to `most`.
    pub(super) fn seconds(
        &mut self,
        map: &Map<String, Value>,
        name: &str,
        at: &str,
        least: f64,
        most: f64,
    ) -> Option<Duration> {
        let value = map.get(name)?;
        let seconds = value.as_f64().filter(|seconds| (least..=most).contains(seconds));
        if seconds.is_none() {
            self.problem(&join(at, name), format!("has to be seconds from {least} to {most}"));
        }
        Duration::try_from_secs_f64(seconds?).ok()
    }

    pub(super) fn whole(&mut self, map: &Map<String, Value>, name: &str, at: &str, most: usize) -> Option<usize> {
        let value = map.get(name)?;
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok()).filter(|number| *number <= most);
        if number.is_none() {
            self.problem(&join(at, name), format!("has to be a whole number from 0 to {most}"));
        }
        number
    }

    pub(super) fn template(&mut self, value: &Value, at: &str, scope: Scope) -> Option<Template> {
        let text = self.text(value, at, TEXT_BYTES_MAX)?;
        let template = Template::parse(&text, scope);
        template.map_err(|error| self.template_problem(at, &error)).ok()
    }

    /// A template whose text is said, shown, kept or handed on: no secret may be in it.
    pub(super) fn public_template(&mut self, value: &Value, at: &str) -> Option<Template> {
        let template = self.template(value, at, Scope::Run)?;
        let mut paths = Vec::new();
        template.paths(&mut paths);
        self.keep_secrets(&paths, at);
        Some(template)
    }

    pub(super) fn value(&mut self, value: &Value, at: &str, scope: Scope) -> Option<ValueTemplate> {
        let template = ValueTemplate::parse(value, scope, true);
        template.map_err(|error| self.template_problem(at, &error)).ok()
    }

    pub(super) fn public_value(&mut self, value: &Value, at: &str, scope: Scope) -> Option<ValueTemplate> {
        let template = self.value(value, at, scope)?;
        let mut paths = Vec::new();
        template.paths(&mut paths);
        self.keep_secrets(&paths, at);
        Some(template)
    }

    /// A path, with or without braces around it.
    pub(super) fn path(&mut self, value: &Value, at: &str, scope: Scope, in_workflow: bool) -> Option<Path> {
        let text = self.text(value, at, TEXT_BYTES_MAX)?;
        let bare = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).map_or(text.as_str(), str::trim);
        let path = if in_workflow { Path::parse_in_workflow(bare, scope) } else { Path::parse(bare, scope) };
        path.map_err(|error| self.template_problem(at, &error.into())).ok()
    }

    pub(super) fn target(&mut self, value: &Value, at: &str) -> Option<Target> {
        let text = self.text(value, at, TEXT_BYTES_MAX)?;
        self.target_text(&text, at)
    }

    pub(super) fn target_text(&mut self, text: &str, at: &str) -> Option<Target> {
        let target = Target::parse(text).map_err(|error| self.template_problem(at, &error.into())).ok()?;
        if target.path.root == Root::User && !self.surroundings.user_writable {
            self.hinted(at, "user cannot be written", Some("the tenant's settings can allow it: user_writable".into()));
            return None;
        }
        Some(target)
    }

    /// Secrets may go out in a request and nowhere else.
    pub(super) fn keep_secrets(&mut self, paths: &[&Path], at: &str) {
        let secret = paths.iter().find(|path| self.secrets.iter().any(|secret| path.is_within(secret)));
        if let Some(path) = secret.map(ToString::to_string) {
            self.problem(at, format!("{path} is secret: it can be used in api_call only"));
        }
    }

    pub(super) fn template_problem(&mut self, at: &str, error: &TemplateError) {
        let hint = match error {
            TemplateError::Path(PathError::UnknownRoot(path)) => Some(format!(
                "workflow.{path}? Paths begin with params, user, workflow, agents, flags, tenant, call, result or now"
            )),
            _ => None,
        };
        self.hinted(at, error.to_string(), hint);
    }
}

pub(super) fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

fn nearest(name: &str, known: &[&str]) -> Option<String> {
    let scored = known.iter().map(|other| (strsim::jaro_winkler(name, other), *other));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(score, _)| *score >= SIMILAR);
    Some(match best {
        Some((_, other)) => format!("{other}?"),
        None => format!("known here: {}", known.join(", ")),
    })
}
