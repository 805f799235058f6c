//! Values that must never be readable in a log: callers' numbers, callers' words, keys.

use std::{borrow::Cow, fmt, ops::Range};

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
/// use offhook_core::redact::holds_identity_number;
/// assert!(holds_identity_number("id 1234 5678 9012") && holds_identity_number("pan_ABCDE1234F"));
/// assert!(!holds_identity_number("1763582071") && !holds_identity_number("call_00001"));
/// ```
pub fn holds_identity_number(text: &str) -> bool {
    let begins = |at: &usize| *at == 0 || !text.as_bytes().get(at - 1).is_some_and(u8::is_ascii_alphanumeric);
    let mut starts = (0..text.len()).filter(begins);
    starts.any(|at| text.as_bytes().get(at..).is_some_and(|rest| is_aadhaar(rest) || is_pan(rest)))
}

/// The longest that [`private_numbers`] finds: fifteen digits with a plus before them and a gap between each two.
pub const NUMBER_BYTES_MAX: usize = 30;
/// A telephone number is written in groups; what has more gaps is a list of small numbers.
const GAPS_MAX: usize = 4;

/// Where a text holds what is written like a number of a person, in order: Aadhaar or PAN (as in [`holds_identity_number`], but
/// with anything before them, such as the `n` of `\n`), or a telephone number: of India (ten digits, the first of them 6 to 9,
/// with or without a prefix), or any of 8 to 15 digits with a plus before them. One space or hyphen between two digits is part of
/// the number.
pub fn private_numbers(text: &str) -> Vec<Range<usize>> {
    let (bytes, mut found, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let is_inside = at > 0 && bytes[at].is_ascii_digit() && bytes[at - 1].is_ascii_digit();
        let length = if is_inside { None } else { private_number(&bytes[at..]) };
        if let Some(length) = length {
            found.push(at..at + length);
        }
        at += length.unwrap_or(1);
    }
    found
}

/// The text with `***` in place of each of [`private_numbers`].
///
/// ```
/// use offhook_core::redact::without_numbers;
/// assert_eq!(without_numbers("call +91 98765 43210 on 2026-02-18"), "call *** on 2026-02-18");
/// ```
pub fn without_numbers(text: &str) -> Cow<'_, str> {
    let numbers = private_numbers(text);
    if numbers.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut clean, mut from) = (String::with_capacity(text.len()), 0);
    for number in numbers {
        clean.push_str(&text[from..number.start]);
        clean.push_str("***");
        from = number.end;
    }
    clean.push_str(&text[from..]);
    Cow::Owned(clean)
}

/// The digits of the shortest number of a person: an Indian telephone's.
const DIGITS_MIN: usize = 10;
/// Between two digits that are dictated, as in `98765, 43210` or `(98765) 43210`.
const BETWEEN_MAX: usize = 3;

/// What is said, without [`private_numbers`] and without every run of at least ten digits of any script, however they are
/// grouped, as when a number is dictated digit by digit. Some dates with their times go as well.
///
/// ```
/// use offhook_core::redact::without_dictated_numbers;
/// assert_eq!(without_dictated_numbers("it is 9 8 7 6 5, 4 3 2 1 0."), "it is ***.");
/// assert_eq!(without_dictated_numbers("९८७६५ ४३२१०, room 12"), "***, room 12");
/// ```
pub fn without_dictated_numbers(text: &str) -> String {
    let text = without_numbers(text);
    let (mut clean, mut kept) = (String::with_capacity(text.len()), 0);
    let mut digits = text.char_indices().filter(|(_, c)| c.is_numeric()).peekable();
    while let Some((start, first)) = digits.next() {
        let (mut count, mut end) = (1, start + first.len_utf8());
        while let Some((at, digit)) = digits.next_if(|(at, _)| is_between(&text[end..*at])) {
            (count, end) = (count + 1, at + digit.len_utf8());
        }
        if count >= DIGITS_MIN {
            clean.push_str(&text[kept..start]);
            clean.push_str("***");
            kept = end;
        }
    }
    clean.push_str(&text[kept..]);
    clean
}

/// What may stand between two digits of one number.
fn is_between(text: &str) -> bool {
    text.chars().count() <= BETWEEN_MAX && !text.contains(|c: char| c.is_alphanumeric() || c == '*')
}

/// The length of the one that a text begins with.
fn private_number(text: &[u8]) -> Option<usize> {
    let no_digit = |rest: &&[u8]| !rest.first().is_some_and(u8::is_ascii_digit);
    let rest = match text.first()? {
        b'+' => international(&text[1..]),
        byte if byte.is_ascii_digit() => indian(text).or_else(|| aadhaar(text).filter(no_digit)),
        byte if byte.is_ascii_alphabetic() => is_pan(text).then(|| &text[10..]),
        _ => None,
    };
    rest.map(|rest| text.len() - rest.len())
}

fn international(text: &[u8]) -> Option<&[u8]> {
    let (digits, _, rest) = digits(text, 15);
    (digits >= 8 && !rest.first().is_some_and(u8::is_ascii_digit)).then_some(rest)
}

fn indian(text: &[u8]) -> Option<&[u8]> {
    let prefixes: [&[u8]; 4] = [b"", b"0", b"91", b"0091"];
    prefixes.into_iter().find_map(|prefix| {
        let number = text.strip_prefix(prefix)?;
        let number = if prefix.is_empty() { number } else { past_gap(number) };
        number.first().filter(|digit| (b'6'..=b'9').contains(*digit))?;
        let (digits, gaps, rest) = digits(number, 10);
        let ends = !rest.first().is_some_and(u8::is_ascii_digit);
        (digits == 10 && gaps <= GAPS_MAX && ends).then_some(rest)
    })
}

/// How many digits a text begins with, `most` at most, how many gaps are between them, and what follows.
fn digits(text: &[u8], most: usize) -> (usize, usize, &[u8]) {
    let (mut count, mut gaps, mut rest) = (0, 0, text);
    while count < most {
        let next = if count > 0 { past_gap(rest) } else { rest };
        let Some(after) = run(next, 1, u8::is_ascii_digit) else { break };
        gaps += usize::from(next.len() < rest.len());
        (count, rest) = (count + 1, after);
    }
    (count, gaps, rest)
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
    aadhaar(text).is_some_and(ends)
}

/// What follows three groups of four digits.
fn aadhaar(text: &[u8]) -> Option<&[u8]> {
    let four = |rest| run(rest, 4, u8::is_ascii_digit);
    four(text).map(past_gap).and_then(four).map(past_gap).and_then(four)
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

    /// V answer 16: in each spelling, wherever they stand, all of them and nothing around them; no times, dates and sizes.
    #[test]
    fn private_numbers_are_masked_whole_and_nothing_else_is() {
        for (text, masked) in [
            ("9876543210", "***"),
            ("98765 43210 and 98765-43210", "*** and ***"),
            ("+91-98765-43210, 09876543210, 0091 9876543210, 919876543210", "***, ***, ***, ***"),
            ("+49 30 1234567 or +12025550123", "*** or ***"),
            ("{\"to\":9876543210,\"id\":\"1234 5678 9012\"}", "{\"to\":***,\"id\":\"***\"}"),
            ("'a\\n9876543210\\nABCDE1234F\\n234512346789'", "'a\\n***\\n***\\n***'"),
            ("pan=abcde1234f.", "pan=***."),
            ("\u{fc}9876543210\u{fc}", "\u{fc}***\u{fc}"),
            ("2 9876543210 2", "2 *** 2"),
        ] {
            assert_eq!(without_numbers(text), masked, "{text}");
        }
        for other in [
            "",
            "+",
            "2026-02-18T10:12:13.123456Z",
            "2026-02-18 10:12:13,123 [98765] listening on 127.0.0.1:8080",
            "1763582071.6214",
            "1763582071621",
            "12345678901234567",
            "+1234567",
            "8 1 2 3 4 5 6 7 8 9",
            "ABCDE12345 v1.2.3-4567",
        ] {
            assert_eq!(without_numbers(other), other);
        }
        let longest = "+1 2 3 4 5 6 7 8 9 0 1 2 3 4 5";
        assert_eq!((private_numbers(longest).first(), longest.len()), (Some(&(0..NUMBER_BYTES_MAX)), NUMBER_BYTES_MAX));
    }
}
