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

/// Whether a text holds what is written like an Indian identity number: Aadhaar (twelve digits, also in
/// groups of four with spaces or hyphens between) or PAN (five letters, four digits, a letter). Letters
/// and digits around it make it something else; an underscore does not.
///
/// ```
/// use offhook::redact::holds_identity_number;
/// assert!(holds_identity_number("id 1234 5678 9012") && holds_identity_number("pan_ABCDE1234F"));
/// assert!(!holds_identity_number("1763582071") && !holds_identity_number("call_00001"));
/// ```
pub fn holds_identity_number(text: &str) -> bool {
    let begins = |at: &usize| *at == 0 || !text.as_bytes().get(at - 1).is_some_and(u8::is_ascii_alphanumeric);
    let mut starts = (0..text.len()).filter(begins);
    starts.any(|at| text.as_bytes().get(at..).is_some_and(|rest| is_aadhaar(rest) || is_pan(rest)))
}

fn ends(rest: &[u8]) -> bool {
    !rest.first().is_some_and(u8::is_ascii_alphanumeric)
}

/// So many bytes of this kind, and what follows them.
fn run(text: &[u8], length: usize, kind: fn(&u8) -> bool) -> Option<&[u8]> {
    let (run, rest) = text.split_at_checked(length)?;
    run.iter().all(kind).then_some(rest)
}

fn past_gap(text: &[u8]) -> &[u8] {
    text.strip_prefix(b" ").or_else(|| text.strip_prefix(b"-")).unwrap_or(text)
}

fn is_aadhaar(text: &[u8]) -> bool {
    let four = |rest| run(rest, 4, u8::is_ascii_digit);
    four(text).map(past_gap).and_then(four).map(past_gap).and_then(four).is_some_and(ends)
}

fn is_pan(text: &[u8]) -> bool {
    let letters = run(text, 5, u8::is_ascii_alphabetic);
    let digits = letters.and_then(|rest| run(rest, 4, u8::is_ascii_digit));
    digits.and_then(|rest| run(rest, 1, u8::is_ascii_alphabetic)).is_some_and(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G answer 6: both shapes, in each of their spellings, wherever they stand; nothing that merely is long.
    #[test]
    fn identity_numbers_are_known_by_their_shape() {
        for held in [
            "123456789012",
            "1234 5678 9012",
            "1234-5678-9012",
            "12345678 9012",
            "aadhaar:1234 5678 9012.",
            "id_123456789012",
            "ABCDE1234F",
            "abcde1234f",
            "my PAN is ABCDE1234F, please",
            "pan_ABCDE1234F",
            "\u{fc} ABCDE1234F",
        ] {
            assert!(holds_identity_number(held), "{held}");
        }
        for other in [
            "",
            "12345678901",
            "1234567890123",
            "1234  5678 9012",
            "1234 5678 901",
            "1763582071.6214",
            "ABCDE1234",
            "ABCDE12345",
            "ABCDEF1234G",
            "xABCDE1234F",
            "ABCDE1234FG",
            "call_00001",
            "4111 1111 1111 111\u{fc}",
        ] {
            let numbers = other == "4111 1111 1111 111\u{fc}";
            assert_eq!(holds_identity_number(other), numbers, "{other}");
        }
    }
}
