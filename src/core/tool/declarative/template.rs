//! Text and values with `{{path}}` in them. Read once, when a tool is defined; filled in once, when it
//! runs: what a path brings is never looked at again.

use super::{fault::Fault, scene::Reading};
use crate::tool::memory::{Path, PathError, Scope};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Text with values in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    Text(String),
    Value(Path),
}

/// A JSON value with values in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ValueTemplate {
    Fixed(Value),
    Text(Template),
    /// Exactly one `{{path}}`: keeps the type of what is there.
    Whole(Path),
    /// A path without braces; a literal when nothing is there.
    Bare(Path),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("\"{{{{\" without \"}}}}\"")]
    Unclosed,
    #[error(transparent)]
    Path(#[from] PathError),
}

impl Template {
    pub(super) fn parse(text: &str, scope: Scope) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (path, after) = after.split_once("}}").ok_or(TemplateError::Unclosed)?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Value(Path::parse(path.trim(), scope)?));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The path, when there is nothing else.
    pub(super) fn whole(&self) -> Option<&Path> {
        match self.parts.as_slice() {
            [Part::Value(path)] => Some(path),
            _ => None,
        }
    }

    /// The text, when no value is in it.
    pub(super) fn fixed(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub(super) fn paths<'a>(&'a self, found: &mut Vec<&'a Path>) {
        found.extend(self.parts.iter().filter_map(|part| match part {
            Part::Value(path) => Some(path),
            Part::Text(_) => None,
        }));
    }

    /// Missing values are empty text.
    pub(super) fn fill(&self, reading: &Reading<'_>) -> Result<String, Fault> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(piece) => text.push_str(piece),
                Part::Value(path) => text.push_str(&print(&reading.value_or_null(path)?)),
            }
        }
        Ok(text)
    }

    /// Missing values are a failure.
    pub(super) fn fill_all(&self, reading: &Reading<'_>) -> Result<String, Fault> {
        for part in &self.parts {
            if let Part::Value(path) = part {
                reading.required(path)?;
            }
        }
        self.fill(reading)
    }

    /// The text it was read from, but for spaces inside braces.
    pub(super) fn source(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(piece) => text.push_str(piece),
                Part::Value(path) => {
                    let _ = write!(text, "{{{{{path}}}}}");
                }
            }
        }
        text
    }
}

impl ValueTemplate {
    /// `bare`: a text that is a path of a known root is that path.
    pub(super) fn parse(value: &Value, scope: Scope, bare: bool) -> Result<Self, TemplateError> {
        Ok(match value {
            Value::String(text) => {
                if bare && let Ok(path) = Path::parse(text, scope) {
                    return Ok(Self::Bare(path));
                }
                let template = Template::parse(text, scope)?;
                match (template.whole(), template.fixed()) {
                    (Some(path), _) => Self::Whole(path.clone()),
                    (None, Some(_)) => Self::Fixed(value.clone()),
                    (None, None) => Self::Text(template),
                }
            }
            Value::Array(list) => {
                Self::List(list.iter().map(|value| Self::parse(value, scope, bare)).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let entry = |(name, value): (&String, &Value)| Ok((name.clone(), Self::parse(value, scope, bare)?));
                Self::Object(map.iter().map(entry).collect::<Result<_, TemplateError>>()?)
            }
            other => Self::Fixed(other.clone()),
        })
    }

    pub(super) fn fill(&self, reading: &Reading<'_>) -> Result<Value, Fault> {
        Ok(match self {
            Self::Fixed(value) => {
                reading.spend(value)?;
                value.clone()
            }
            Self::Text(template) => template.fill(reading)?.into(),
            Self::Whole(path) => reading.value_or_null(path)?,
            Self::Bare(path) => match reading.value(path)? {
                Some(value) => value,
                None => path.to_string().into(),
            },
            Self::List(list) => list.iter().map(|item| item.fill(reading)).collect::<Result<_, _>>()?,
            Self::Object(entries) => {
                let entry = |(name, value): &(String, Self)| Ok((name.clone(), value.fill(reading)?));
                Value::Object(entries.iter().map(entry).collect::<Result<Map<_, _>, Fault>>()?)
            }
        })
    }

    pub(super) fn paths<'a>(&'a self, found: &mut Vec<&'a Path>) {
        match self {
            Self::Fixed(_) => {}
            Self::Text(template) => template.paths(found),
            Self::Whole(path) | Self::Bare(path) => found.push(path),
            Self::List(list) => list.iter().for_each(|item| item.paths(found)),
            Self::Object(entries) => entries.iter().for_each(|(_, item)| item.paths(found)),
        }
    }

    pub(super) fn source(&self) -> Value {
        match self {
            Self::Fixed(value) => value.clone(),
            Self::Text(template) => template.source().into(),
            Self::Whole(path) => format!("{{{{{path}}}}}").into(),
            Self::Bare(path) => path.to_string().into(),
            Self::List(list) => list.iter().map(Self::source).collect(),
            Self::Object(entries) => {
                Value::Object(entries.iter().map(|(name, value)| (name.clone(), value.source())).collect())
            }
        }
    }
}

/// A value inside text: texts as they are, nothing for null, everything else as compact JSON.
pub(super) fn print(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
