//! A tool as each provider wants it declared. Rendered once, when the tools are loaded: a tool that
//! a provider cannot carry is a mistake of the configuration, found before any call.
//!
//! What is left out for a provider may only be what narrows values (lengths, patterns, bounds,
//! formats, defaults): the engine checks arguments against the whole schema itself. What tells the
//! model *what to send* is carried or reported, never dropped.
//!
//! [`Dialect::OpenAiRealtime`] and [`Dialect::ChatCompletions`] take JSON Schema as it is
//! (`json_schema`). The others get a subset written anew (`subset`): Gemini knows no more, and
//! behind Deepgram and ElevenLabs any vendor's model may stand.

pub(in crate::tool) mod json_schema;
mod subset;

use serde_json::{Map, Value, json};
use std::fmt;

/// Levels of a schema, the root included. Vendors refuse deep schemas at different depths and say
/// so only when a session opens; no model fills ten levels on the telephone.
const DEPTH_MAX: usize = 10;
/// Schemas in one tool after references were written out, so that a few lines cannot become
/// megabytes.
const SCHEMAS_MAX: usize = 1000;
/// Reasons listed for one tool and provider.
const UNCARRIED_MAX: usize = 32;

/// How a provider wants its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    OpenAiRealtime,
    ChatCompletions,
    Gemini,
    Deepgram,
    ElevenLabs,
}

/// What the model is told of a tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolText<'a> {
    pub name: &'a str,
    pub description: &'a str,
    /// JSON Schema of the arguments; its root is an object.
    pub parameters: &'a Value,
}

/// Why a provider cannot be given a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{provider}: {path}: {reason}")]
pub struct Uncarried {
    pub provider: Dialect,
    /// Where, as `name` or `parameters.properties.x.oneOf`.
    pub path: String,
    pub reason: String,
}

impl Dialect {
    pub const ALL: [Self; 5] =
        [Self::OpenAiRealtime, Self::ChatCompletions, Self::Gemini, Self::Deepgram, Self::ElevenLabs];

    pub const fn label(self) -> &'static str {
        match self {
            Self::OpenAiRealtime => "openai_realtime",
            Self::ChatCompletions => "chat_completions",
            Self::Gemini => "gemini",
            Self::Deepgram => "deepgram",
            Self::ElevenLabs => "elevenlabs",
        }
    }

    /// The tool as one entry of the provider's list: `tools` (OpenAI, chat completions),
    /// `functionDeclarations` (Gemini), `agent.think.functions` (Deepgram; without `endpoint`, so
    /// the call comes to us; `defer_until_eot` is the session's to add) or the `tool_config` that
    /// is stored with an ElevenLabs agent. Gives every reason at once if it cannot be.
    pub fn render(self, tool: ToolText<'_>) -> Result<Value, Vec<Uncarried>> {
        let mut notes = Notes { provider: self, found: Vec::new(), schemas: 0 };
        self.check_name(tool.name, &mut notes);
        let parameters = match self {
            Self::OpenAiRealtime | Self::ChatCompletions => json_schema::write(tool.parameters, &mut notes).map(Some),
            Self::Gemini => subset::write(tool.parameters, subset::GEMINI, &mut notes),
            Self::Deepgram => subset::write(tool.parameters, subset::DEEPGRAM, &mut notes),
            Self::ElevenLabs => subset::write(tool.parameters, subset::ELEVENLABS, &mut notes),
        };
        let Some(parameters) = parameters.filter(|_| notes.found.is_empty()) else { return Err(notes.found) };
        Ok(self.entry(tool, parameters))
    }

    fn entry(self, tool: ToolText<'_>, parameters: Option<Value>) -> Value {
        let mut function = Map::new();
        function.insert("name".to_owned(), tool.name.into());
        function.insert("description".to_owned(), tool.description.into());
        function.extend(parameters.map(|parameters| ("parameters".to_owned(), parameters)));
        let with = |mut first: Value, rest: Map<String, Value>| {
            if let Value::Object(first) = &mut first {
                first.extend(rest);
            }
            first
        };
        match self {
            Self::OpenAiRealtime => with(json!({ "type": "function" }), function),
            Self::ChatCompletions => json!({ "type": "function", "function": function }),
            Self::Gemini | Self::Deepgram => Value::Object(function),
            // Without expects_response the agent goes on before the answer is there.
            Self::ElevenLabs => with(json!({ "type": "client", "expects_response": true }), function),
        }
    }

    /// 1 to 64 of letters, digits, `_` and `-` everywhere; Google, whose models Deepgram offers too,
    /// wants a letter or `_` first.
    fn check_name(self, name: &str, notes: &mut Notes) {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            notes.add("name", "is not 1 to 64 letters, digits, _ and -");
        } else if matches!(self, Self::Gemini | Self::Deepgram)
            && !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        {
            notes.add("name", "does not begin with a letter or _");
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// What has been found on the way through one tool.
struct Notes {
    provider: Dialect,
    found: Vec<Uncarried>,
    schemas: usize,
}

impl Notes {
    fn add(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        if self.found.len() < UNCARRIED_MAX {
            self.found.push(Uncarried { provider: self.provider, path: path.into(), reason: reason.into() });
        }
    }

    /// Whether one more schema may be entered at this depth (the root's is 1).
    fn enter(&mut self, path: &str, depth: usize) -> bool {
        self.schemas += 1;
        if depth > DEPTH_MAX {
            self.add(path, format!("is nested deeper than {DEPTH_MAX} levels"));
        } else if self.schemas == SCHEMAS_MAX + 1 {
            self.add(path, format!("the tool holds more than {SCHEMAS_MAX} schemas"));
        }
        depth <= DEPTH_MAX && self.schemas <= SCHEMAS_MAX
    }
}
