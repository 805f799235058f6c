//! What can be named in a configuration: the kinds of provider and of voice, and the built-in tools.
//!
//! It is handed in, so this layer imports no provider.

use serde_json::Value;

#[derive(Debug, Clone, Default)]
pub struct Catalog {
    pub providers: Vec<ProviderKind>,
    pub voices: Vec<VoiceKind>,
    /// Exposed names of the built-in tools.
    pub tools: Vec<&'static str>,
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
}

/// One kind of voice: the key below `voices.NAME`. Its fields are those of a [`ProviderKind`].
#[derive(Debug, Clone)]
pub struct VoiceKind {
    pub kind: &'static str,
    pub summary: &'static str,
    pub schema: Value,
    pub check: fn(&Value) -> Vec<OptionProblem>,
}

/// A mistake in the options of a provider or a voice.
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
    pub(super) fn provider(&self, kind: &str) -> Option<&ProviderKind> {
        self.providers.iter().find(|provider| provider.kind == kind)
    }

    pub(super) fn voice(&self, kind: &str) -> Option<&VoiceKind> {
        self.voices.iter().find(|voice| voice.kind == kind)
    }
}
