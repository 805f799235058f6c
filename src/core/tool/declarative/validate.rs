//! Rules of `validate`, and parameters against what the tool declares.

use super::{
    condition::{number_order, same},
    definition::{Definition, Kind, Parameter},
    fault::Fault,
    scene::Reading,
    template::{Template, ValueTemplate},
};
use crate::tool::{ToolError, UnknownArgs, memory::Path};
use regex::Regex;
use serde_json::{Map, Number, Value};

/// Of a compiled pattern: a few bytes of text can mean megabytes of program.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// What one value has to be. A value that is not there passes everything but `required`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rule {
    pub(super) path: Path,
    pub(super) checks: Vec<Check>,
    pub(super) message: Option<Template>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Check {
    Required,
    Type(Kind),
    Enum(Vec<Value>),
    Min(Number),
    Max(Number),
    /// Characters of a text, items of an array.
    MinLength(usize),
    MaxLength(usize),
    Pattern(Pattern),
    Equals(ValueTemplate),
    NotEquals(ValueTemplate),
}

/// A regular expression that has to match the whole text.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) source: String,
    regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Pattern {
    pub(super) fn new(source: &str) -> Result<Self, regex::Error> {
        // Checked alone first: `)(` would be fine inside the group.
        regex::RegexBuilder::new(source).size_limit(PATTERN_BYTES_MAX).build()?;
        let anchored = format!("^(?:{source})$");
        let regex = regex::RegexBuilder::new(&anchored).size_limit(PATTERN_BYTES_MAX).build()?;
        Ok(Self { source: source.to_owned(), regex })
    }
}

impl Rule {
    pub(super) fn check(&self, reading: &Reading<'_>, public: &Reading<'_>) -> Result<(), Fault> {
        let found = reading.look(&self.path);
        let value = found.as_deref().unwrap_or(&Value::Null);
        for check in &self.checks {
            if !check.passes(value, reading)? {
                let message = match &self.message {
                    Some(message) => message.fill(public)?,
                    None => format!("{} {}.", self.path.to_string().trim_start_matches("params."), check.complaint()),
                };
                return Err(Fault::new(ToolError::Validation, "rule", message));
            }
        }
        Ok(())
    }
}

impl Check {
    fn passes(&self, value: &Value, reading: &Reading<'_>) -> Result<bool, Fault> {
        if value.is_null() {
            return Ok(*self != Self::Required);
        }
        let length = || match value {
            Value::String(text) => Some(text.chars().count()),
            Value::Array(list) => Some(list.len()),
            _ => None,
        };
        let order = |limit: &Number| number_order(value, &Value::Number(limit.clone()));
        Ok(match self {
            // Empty text is what models send for what they do not know.
            Self::Required => value.as_str() != Some(""),
            Self::Type(kind) => kind.fits(value),
            Self::Enum(choices) => choices.iter().any(|choice| same(choice, value)),
            Self::Min(limit) => order(limit).is_some_and(|order| order.is_ge()),
            Self::Max(limit) => order(limit).is_some_and(|order| order.is_le()),
            Self::MinLength(limit) => length().is_some_and(|length| length >= *limit),
            Self::MaxLength(limit) => length().is_some_and(|length| length <= *limit),
            Self::Pattern(pattern) => value.as_str().is_some_and(|text| pattern.regex.is_match(text)),
            Self::Equals(other) => same(value, &other.fill(reading)?),
            Self::NotEquals(other) => !same(value, &other.fill(reading)?),
        })
    }

    fn complaint(&self) -> String {
        match self {
            Self::Required => "is needed".into(),
            Self::Type(kind) => format!("has to be of type {}", kind.label()),
            Self::Enum(choices) => {
                let choices: Vec<String> = choices.iter().map(super::template::print).collect();
                format!("has to be one of {}", choices.join(", "))
            }
            Self::Min(limit) => format!("has to be at least {limit}"),
            Self::Max(limit) => format!("may be at most {limit}"),
            Self::MinLength(limit) => format!("is too short: at least {limit}"),
            Self::MaxLength(limit) => format!("is too long: at most {limit}"),
            Self::Pattern(_) => "does not have the right form".into(),
            Self::Equals(_) | Self::NotEquals(_) => "is not the right value".into(),
        }
    }
}

impl Definition {
    /// The arguments with defaults filled in, or everything that is wrong with them. No value is
    /// turned into another type (D answer 12).
    pub(super) fn bind(&self, mut arguments: Map<String, Value>) -> Result<Map<String, Value>, Fault> {
        let mut problems = Vec::new();
        for parameter in &self.parameters {
            match (arguments.get(&parameter.name), &parameter.default) {
                (Some(value), _) => problems.extend(parameter.complaint(value)),
                (None, Some(default)) => drop(arguments.insert(parameter.name.clone(), default.clone())),
                (None, None) if parameter.required => problems.push(format!("{} is needed", parameter.name)),
                (None, None) => {}
            }
        }
        let known = |name: &str| self.parameters.iter().any(|parameter| parameter.name == name);
        match self.policy.unknown_args.unwrap_or_default() {
            UnknownArgs::Drop => arguments.retain(|name, _| known(name)),
            UnknownArgs::Reject if arguments.keys().any(|name| !known(name)) => {
                problems.push("there are arguments the tool does not have".into());
            }
            UnknownArgs::Reject => {}
        }
        if problems.is_empty() {
            Ok(arguments)
        } else {
            Err(Fault::new(ToolError::Validation, "parameters", format!("Invalid parameters: {}", problems.join("; "))))
        }
    }
}

impl Parameter {
    /// What is wrong with a value of it.
    pub(super) fn complaint(&self, value: &Value) -> Option<String> {
        let name = &self.name;
        if !self.kind.fits(value) {
            return Some(format!("{name} has to be of type {}", self.kind.label()));
        }
        if !self.choices.is_empty() && !self.choices.iter().any(|choice| same(choice, value)) {
            return Some(format!("{name} is none of the values it can have"));
        }
        let kind = self.items?;
        let fits = value.as_array().is_none_or(|list| list.iter().all(|item| kind.fits(item)));
        (!fits).then(|| format!("{name} has an item that is not of type {}", kind.label()))
    }
}
