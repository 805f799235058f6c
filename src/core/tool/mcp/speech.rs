//! From the result of a call to what the caller hears of it.

use super::{Speech, kept, text::for_speech};
use crate::tool::{Done, Failure, ToolError, ToolOutcome};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Half a minute of speech. Who wants more asks again; the rest is in the data.
const MESSAGE_CHARS_MAX: usize = 600;
/// What the operator has chosen to be spoken is spoken: two minutes, which is a long weather report.
const CHOSEN_CHARS_MAX: usize = 2000;
/// A text that nobody marked as speech is spoken as it is only when it is about as short as speech.
const PLAIN_TEXT_CHARS_MAX: usize = 300;
/// Of what a server says about its failure.
const FAILURE_CHARS_MAX: usize = 300;
/// Message of a result that has no words for a caller.
pub const FETCHED: &str = "I've fetched the result.";
const FAILED: &str = "The tool could not do that.";

/// A piece of a template.
enum Piece<'t> {
    Text(&'t str),
    Path(&'t str),
}

/// A `CallToolResult` of the shape that MCP has it in.
struct Answer<'a> {
    parts: Vec<&'a Map<String, Value>>,
    structured: Option<&'a Value>,
    is_error: bool,
}

/// What became of a call, from the JSON of its `CallToolResult`. What the caller hears is, in this order: the template,
/// the field, the JSON's own `message`, a short first text, a fixed sentence; never JSON. `data` is the result without
/// what is no text (see `kept`).
///
/// An `isError` result is `PERMANENT`, or `TRANSIENT` with `error_retryable`. One of another shape is `PERMANENT`: the
/// server will not get better by asking again. Whether something was done all the same is for who knows the tool to say.
pub fn outcome(result: &Value, speech: &Speech, error_retryable: bool) -> ToolOutcome {
    match Answer::read(result) {
        Err(why) => {
            ToolOutcome::failed(ToolError::Permanent, format!("The tool's answer is not of the form of MCP: {why}."))
        }
        Ok(answer) if answer.is_error => {
            let kind = if error_retryable { ToolError::Transient } else { ToolError::Permanent };
            let failure = Failure::new(kind, answer.failure().unwrap_or_else(|| FAILED.to_owned()));
            ToolOutcome::Failed(Failure { retryable: error_retryable, ..failure })
        }
        Ok(answer) => {
            let message = answer.message(speech).unwrap_or_else(|| FETCHED.to_owned());
            let data = kept::data(&answer.parts, answer.structured);
            ToolOutcome::Done(Done { message: Some(message), data, ..Done::default() })
        }
    }
}

/// A `CallToolResult` with the first of its texts alone. One without any is as it was.
pub fn first_text(mut result: Value) -> Value {
    let is_text = |part: &&Value| part.get("type").is_some_and(|kind| kind == "text");
    let parts = result.get("content").and_then(Value::as_array);
    if let Some(first) = parts.and_then(|parts| parts.iter().find(is_text)).cloned() {
        result["content"] = Value::Array(vec![first]);
        result["structuredContent"] = Value::Null;
    }
    result
}

impl Speech {
    /// Whether the paths and the template can be read, for whoever reads a configuration.
    ///
    /// # Errors
    /// Names the key and what is wrong with it. Such a rule would never apply.
    pub fn check(&self) -> Result<(), String> {
        let path = |key: &str, path: &str| match steps(path).all(|step| !step.is_empty()) {
            true => Ok(()),
            false => Err(format!("{key}: \"{path}\" is no path: names or places in lists, with dots between them")),
        };
        if let Some(field) = &self.field {
            path("speech_field", field)?;
        }
        let template = self.template.as_deref().unwrap_or_default();
        for piece in pieces(template).ok_or("speech_template: a \"{\" has no \"}\"")? {
            if let Piece::Path(inner) = piece {
                path("speech_template", inner)?;
            }
        }
        Ok(())
    }
}

impl<'a> Answer<'a> {
    fn read(result: &'a Value) -> Result<Self, &'static str> {
        let result = result.as_object().ok_or("it is no object")?;
        let member = |key: &str| result.get(key).filter(|value| !value.is_null());
        if member("resultType").is_some_and(|kind| kind != "complete") {
            return Err("resultType is not \"complete\"");
        }
        let is_error = match member("isError") {
            None => false,
            Some(flag) => flag.as_bool().ok_or("isError is neither true nor false")?,
        };
        let structured = member("structuredContent");
        let parts = match (member("content"), structured) {
            (Some(content), _) => content.as_array().ok_or("content is no list")?.as_slice(),
            // Said in another way, and understood.
            (None, Some(_)) => &[],
            (None, None) => return Err("content is missing"),
        };
        let part = |part: &'a Value| {
            let part = part.as_object().ok_or("a part of content is no object")?;
            match part.get("type").and_then(Value::as_str) {
                None => Err("a part of content has no type"),
                Some("text") if !part.get("text").is_some_and(Value::is_string) => {
                    Err("a text part of content has no text")
                }
                Some(_) => Ok(part),
            }
        };
        Ok(Self { parts: parts.iter().map(part).collect::<Result<_, _>>()?, structured, is_error })
    }

    fn texts(&self) -> impl Iterator<Item = &'a str> {
        self.parts.iter().filter_map(|part| text_of(part))
    }

    fn json(&self) -> Option<Cow<'a, Value>> {
        self.structured.map(Cow::Borrowed).or_else(|| self.texts().find_map(json_in).map(Cow::Owned))
    }

    fn message(&self, speech: &Speech) -> Option<String> {
        let json = self.json();
        let json = json.as_deref();
        let template = || sayable(&filled(speech.template.as_deref()?, json?)?, CHOSEN_CHARS_MAX);
        let field = || sayable(&printed(found(json?, speech.field.as_deref()?)?)?, CHOSEN_CHARS_MAX);
        let own = || sayable(json?.get("message")?.as_str()?, MESSAGE_CHARS_MAX);
        let plain = || {
            let text = self.texts().next()?.trim();
            // Counted only as far as it matters.
            let is_short = text.chars().nth(PLAIN_TEXT_CHARS_MAX).is_none();
            is_short.then(|| sayable(text, MESSAGE_CHARS_MAX)).flatten()
        };
        template().or_else(field).or_else(own).or_else(plain)
    }

    /// What the server says of its failure: in words, or in JSON under one of the usual names.
    fn failure(&self) -> Option<String> {
        let own = || {
            let json = self.json()?;
            let words = ["/message", "/error/message", "/error"].into_iter().filter_map(|place| json.pointer(place));
            words.filter_map(Value::as_str).find_map(|words| sayable(words, FAILURE_CHARS_MAX))
        };
        self.texts().next().and_then(|text| sayable(text, FAILURE_CHARS_MAX)).or_else(own)
    }
}

/// The text of a part that is one.
pub(super) fn text_of(part: &Map<String, Value>) -> Option<&str> {
    part.get("text").filter(|_| part.get("type").is_some_and(|kind| kind == "text"))?.as_str()
}

/// The object or list that a text is. A number or a word alone is taken for text.
pub(super) fn json_in(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// On one line and cut; nothing when nothing is left, or nothing that a person would say.
fn sayable(text: &str, chars_max: usize) -> Option<String> {
    let is_speech = |text: &String| !text.is_empty() && !is_json(text);
    // A cut can leave JSON of text, and text of JSON.
    (!is_json(text)).then(|| for_speech(text, chars_max)).filter(is_speech)
}

/// Whether a text is an object or a list, whole or only its beginning.
fn is_json(text: &str) -> bool {
    let text = text.trim_start();
    let mut letters = text.chars();
    let first = letters.next();
    let second = letters.find(|letter| !letter.is_whitespace());
    match (first, second) {
        (Some('{'), Some('"' | '}')) | (Some('['), Some('{' | '[' | '"' | ']')) => true,
        _ => text.starts_with("```") || json_in(text).is_some(),
    }
}

/// The value as it is said. What has parts that have parts cannot be.
fn printed(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Object(_) => None,
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        // Cut here already, so that a template cannot multiply a long value.
        Value::String(text) => (!is_json(text)).then(|| for_speech(text, CHOSEN_CHARS_MAX)),
        Value::Array(items) if items.is_empty() || items.iter().any(Value::is_array) => None,
        Value::Array(items) => {
            let words = items.iter().take(CHOSEN_CHARS_MAX).map(printed).collect::<Option<Vec<_>>>()?;
            Some(for_speech(&words.join(", "), CHOSEN_CHARS_MAX))
        }
    }
}

/// The template with its values, or nothing if one is missing. Values are put in as they are: braces in them stay.
fn filled(template: &str, json: &Value) -> Option<String> {
    let words = pieces(template)?.into_iter().map(|piece| match piece {
        Piece::Text(text) => Some(Cow::Borrowed(text)),
        Piece::Path(path) => found(json, path).and_then(printed).map(Cow::Owned),
    });
    words.collect()
}

/// `None`: a brace is not closed.
fn pieces(template: &str) -> Option<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (path, after) = after.split_once('}')?;
        pieces.extend([Piece::Text(before), Piece::Path(path.trim())]);
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    Some(pieces)
}

/// What is at a path: `report.clouds.0.base`, or `report.clouds[0].base`.
fn found<'v>(json: &'v Value, path: &str) -> Option<&'v Value> {
    steps(path).try_fold(json, |value, step| match value {
        Value::Object(members) => members.get(step),
        Value::Array(items) if step.bytes().all(|byte| byte.is_ascii_digit()) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    let path = path.strip_prefix('[').unwrap_or(path);
    path.split(['.', '[']).map(|step| step.strip_suffix(']').unwrap_or(step))
}
