//! What can be named in a configuration: the kinds of provider, listener, model and voice, and the built-in tools.
//!
//! It is handed in, so this layer imports no provider.

use super::schema::CompiledSchema;
use serde_json::Value;
use std::sync::OnceLock;

#[derive(Debug, Default)]
pub struct Catalog {
    pub providers: Vec<ProviderKind>,
    /// Those of the sections `stt`, `llm` and `voices`.
    pub stt: Vec<ServiceKind>,
    pub llm: Vec<ServiceKind>,
    pub voices: Vec<ServiceKind>,
    /// Exposed names of the built-in tools.
    pub tools: Vec<&'static str>,
    /// Compiled when a file is first loaded, and kept: most of the time of loading a small file.
    pub compiled: OnceLock<CompiledSchema>,
}

/// One kind of provider: the key below `providers.NAME`.
#[derive(Debug, Clone)]
pub struct ProviderKind {
    /// `openai_realtime`, say.
    pub kind: &'static str,
    /// One line for the reference.
    pub summary: &'static str,
    /// JSON Schema of its options, as `schemars` derives it. Make it refuse unknown keys, and
    /// document each key. `title` of a leaf says in words what is expected ("a duration such as
    /// 500ms"); `default` goes into the reference.
    pub schema: Value,
    /// What a schema cannot say. It gets the options, variables put in. If the schema found
    /// something already, the parts it refused are left out and what is said about them is dropped.
    pub check: fn(&Value) -> Vec<OptionProblem>,
    /// The tools that these options call by name, whatever a context allows.
    pub calls: fn(&Value) -> Vec<String>,
    /// What these options name of other sections.
    pub names: fn(&Value) -> Vec<Named>,
}

/// One kind of listener, model or voice: the key below `stt.NAME`, `llm.NAME` or `voices.NAME`. Most fields are those of a
/// [`ProviderKind`].
#[derive(Debug, Clone)]
pub struct ServiceKind {
    pub kind: &'static str,
    pub summary: &'static str,
    pub schema: Value,
    pub check: fn(&Value) -> Vec<OptionProblem>,
    pub calls: fn(&Value) -> Vec<String>,
    /// Tag of the only language that one with these options hears or speaks, where they tell it.
    pub language: fn(&Value) -> Option<String>,
}

/// An entry of another section that options name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Below the options: `stt`, `tts[1]`.
    pub path: String,
    /// `stt`, `llm` or `voices`.
    pub section: &'static str,
    pub name: String,
}

/// A mistake in the options of a provider or another service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionProblem {
    /// Below the options: `turn_detection.threshold`, `lines[2].say`; empty for the options as a whole.
    pub path: String,
    /// Without the value itself: it may be a secret.
    pub message: String,
    pub hint: Option<String>,
}

impl OptionProblem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), hint: None }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Catalog {
    pub(super) fn compiled_schema(&self) -> &CompiledSchema {
        self.compiled.get_or_init(|| CompiledSchema::new(self))
    }

    pub(super) fn provider(&self, kind: &str) -> Option<&ProviderKind> {
        self.providers.iter().find(|provider| provider.kind == kind)
    }

    /// The kinds of this section, with what one is called; none for another section.
    pub(super) fn services(&self, section: &str) -> Option<(&'static str, &[ServiceKind])> {
        match section {
            "stt" => Some(("listener", &self.stt)),
            "llm" => Some(("model", &self.llm)),
            "voices" => Some(("voice", &self.voices)),
            _ => None,
        }
    }

    pub(super) fn service(&self, section: &str, kind: &str) -> Option<&ServiceKind> {
        self.services(section)?.1.iter().find(|service| service.kind == kind)
    }
}
