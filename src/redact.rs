//! Values that must never be readable in a log: callers' numbers, callers' words, keys.

use std::fmt;

/// Wraps a private value. `Debug` and `Display` print `***`, so a private value can sit in any
/// struct that is logged; reading it takes an explicit [`Redacted::reveal`].
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The private value, for the one place that has to use it (a prompt, a wire message).
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Redacted<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T> fmt::Display for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
