//! Tables of kinds: one row for each kind of listener, model or voice.

use crate::config::{OptionProblem, ServiceKind};
use serde_json::Value;
use std::sync::Arc;

/// One row. `T` is what it makes.
pub struct Kind<T: ?Sized> {
    /// The key below `stt.NAME`, `llm.NAME` or `voices.NAME`, which is also the metric label.
    pub kind: &'static str,
    /// One line for the configuration reference.
    pub summary: &'static str,
    /// JSON Schema of the options.
    pub schema: fn() -> Value,
    /// Every mistake in the options that can be found without side effects.
    pub check: fn(&Value) -> Vec<OptionProblem>,
    /// The tools that these options call by name: every context that uses them has to list these.
    pub calls: fn(&Value) -> Vec<String>,
    /// Tag of the only language that one with these options hears or speaks, where they tell it.
    pub language: fn(&Value) -> Option<String>,
    pub build: fn(&Value) -> Result<Arc<T>, Vec<OptionProblem>>,
}

/// For kinds whose options call no tool.
pub fn no_calls(_: &Value) -> Vec<String> {
    Vec::new()
}

/// For kinds whose options tell no language.
pub fn no_language(_: &Value) -> Option<String> {
    None
}

/// For kinds whose options may tell the language.
pub fn language_option(options: &Value) -> Option<String> {
    options["language"].as_str().map(str::to_owned)
}

/// The locale that the name of a voice begins with: `de_DE` in `de_DE-thorsten-medium`. Without the region in capitals it may be
/// another mark: `af` in Kokoro's `af_heart` is not Afrikaans.
pub fn locale(voice: &str) -> Option<String> {
    let mut parts = voice.split(['_', '-']);
    let (language, region) = (parts.next()?, parts.next()?);
    let is_language = language.len() == 2 && language.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_region = region.len() == 2 && region.bytes().all(|byte| byte.is_ascii_uppercase());
    (is_language && is_region).then(|| format!("{language}-{region}"))
}

/// What a configuration has to know of a table.
pub fn catalog<T: ?Sized>(kinds: &[Kind<T>]) -> Vec<ServiceKind> {
    let row = |row: &Kind<T>| ServiceKind {
        kind: row.kind,
        summary: row.summary,
        schema: (row.schema)(),
        check: row.check,
        calls: row.calls,
        language: row.language,
    };
    kinds.iter().map(row).collect()
}

/// Makes one of this kind.
pub fn build<T: ?Sized>(kinds: &[Kind<T>], kind: &str, options: &Value) -> Result<Arc<T>, Vec<OptionProblem>> {
    let Some(row) = kinds.iter().find(|row| row.kind == kind) else {
        let known: Vec<_> = kinds.iter().map(|row| row.kind).collect();
        let problem = OptionProblem::new("", format!("unknown kind \"{kind}\""));
        return Err(vec![problem.hint(format!("known kinds: {}", known.join(", ")))]);
    };
    (row.build)(options)
}
