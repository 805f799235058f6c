//! Values that may go out in an `api_call` and nowhere else.

use super::address::ENCODED;
use crate::tool::memory::{Path, Root};
use percent_encoding::utf8_percent_encode;
use serde_json::Value;

/// Stands where a secret stood.
pub(super) const MASK: &str = "***";
/// Shorter secrets are hidden where they are the whole of a text, not inside one: `7` is in every
/// other sentence.
const INSIDE_BYTES_MIN: usize = 4;

/// The token a call is dispatched with; secret whether listed or not.
pub(super) fn auth_token() -> Path {
    Path::new(Root::User, &["auth_token"])
}

/// The secret values of one run. No `Debug`.
#[derive(Default)]
pub(super) struct Secrets {
    /// Longest first, so that one that holds another is hidden whole.
    values: Vec<String>,
}

impl Secrets {
    /// Every text and number of these values.
    pub(super) fn of<'v>(values: impl IntoIterator<Item = std::borrow::Cow<'v, Value>>) -> Self {
        let mut secrets = Self::default();
        values.into_iter().for_each(|value| secrets.add(&value));
        secrets.values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.values.dedup();
        secrets
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) if !text.is_empty() => {
                // As an address and as JSON inside a text carry it: services echo both.
                let escaped = value.to_string();
                let inner = escaped.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                self.values.extend(inner.map(str::to_owned));
                self.values.push(utf8_percent_encode(text, ENCODED).to_string());
                self.values.push(text.clone());
            }
            Value::Number(number) => self.values.push(number.to_string()),
            Value::Array(list) => list.iter().for_each(|value| self.add(value)),
            Value::Object(map) => map.values().for_each(|value| self.add(value)),
            _ => {}
        }
    }

    pub(super) fn mask_text(&self, text: &str) -> String {
        if self.values.iter().any(|secret| secret == text) {
            return MASK.to_owned();
        }
        let inside = self.values.iter().filter(|secret| secret.len() >= INSIDE_BYTES_MIN);
        inside.fold(text.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), MASK) } else { text }
        })
    }

    pub(super) fn mask(&self, value: Value) -> Value {
        if self.values.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.mask_text(&text)),
            Value::Number(number) if self.values.contains(&number.to_string()) => MASK.into(),
            Value::Array(list) => list.into_iter().map(|value| self.mask(value)).collect(),
            Value::Object(map) => {
                map.into_iter().map(|(name, value)| (self.mask_text(&name), self.mask(value))).collect()
            }
            other => other,
        }
    }
}
