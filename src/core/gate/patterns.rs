//! Secrets and personal data in evidence, and words that make a read public.
//!
//! The patterns are part of the contract. Their classes (`\b`, `\s`) mean what they mean in Python, which differs
//! from Unicode's recommendation for marks, joiners, numerals and four control characters: such
//! characters are replaced before matching.

use regex::Regex;
use std::{borrow::Cow, sync::LazyLock};

/// A key by its issuer's prefix, an assignment of one, a US social security number, a payment card.
const SECRETS: [&str; 6] = [
    r"\bsk-[A-Za-z0-9_-]{12,}\b",
    r"\bsk-or-v1-[A-Za-z0-9]{20,}\b",
    r"\bAKIA[0-9A-Z]{16}\b",
    r#"(?i)\b(api[_-]?key|secret|token|password)\s*[:=]\s*['"]?[A-Za-z0-9_.\-]{8,}"#,
    r"\b\d{3}-\d{2}-\d{4}\b",
    r"\b(?:\d[ -]*?){13,16}\b",
];

/// An e-mail address, a North American telephone number.
const PERSONAL: [&str; 2] =
    [r"(?i)\b[A-Z0-9._%+-]+@[A-Z0-9.-]+\.[A-Z]{2,}\b", r"\b(?:\+?1[-.\s]?)?\(?\d{3}\)?[-.\s]?\d{3}[-.\s]?\d{4}\b"];

/// Words after which a read counts as public, whoever it is about.
const PUBLIC: &str = r"\b(?:search|find|list|lookup|catalog|availability|opening hours|public)\b";

/// The same pattern twice: ASCII text, which is nearly all there is, needs no tables of Unicode.
struct Pattern {
    ascii: regex::bytes::Regex,
    unicode: Regex,
}

impl Pattern {
    #[expect(clippy::panic, reason = "the patterns are constants, and a test compiles every one")]
    fn new(pattern: &str) -> Self {
        let ascii = regex::bytes::RegexBuilder::new(pattern).unicode(false).build();
        match (ascii, Regex::new(pattern)) {
            (Ok(ascii), Ok(unicode)) => Self { ascii, unicode },
            (Err(error), _) | (_, Err(error)) => panic!("{error}"),
        }
    }

    fn is_match(&self, text: &Text) -> bool {
        match text {
            Text::Ascii(text) => self.ascii.is_match(text.as_bytes()),
            Text::Unicode(text) => self.unicode.is_match(text),
        }
    }
}

static SECRET_PATTERNS: LazyLock<[Pattern; 6]> = LazyLock::new(|| SECRETS.map(Pattern::new));
static PERSONAL_PATTERNS: LazyLock<[Pattern; 2]> = LazyLock::new(|| PERSONAL.map(Pattern::new));
static PUBLIC_PATTERN: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(PUBLIC));

/// Part of a word for Unicode's recommendation, not for Python: marks, connectors but `_`, joiners.
static NO_WORD: LazyLock<Regex> =
    LazyLock::new(|| constant(r"[[\p{M}\p{Pc}\p{Alphabetic}\x{200c}\x{200d}]--[\p{L}\p{N}_]]"));
/// Part of a word for Python only: numerals that are no decimal digits.
static WORD: LazyLock<Regex> = LazyLock::new(|| constant(r"[\p{No}\p{Nl}]"));
/// Space for Python only.
static SPACE: LazyLock<Regex> = LazyLock::new(|| constant(r"[\x1c-\x1f]"));

#[expect(clippy::panic, reason = "the patterns are constants, and a test compiles every one")]
fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| panic!("{error}"))
}

/// A text in which the patterns mean what they mean in Python.
pub enum Text<'a> {
    Ascii(Cow<'a, str>),
    Unicode(String),
}

impl<'a> Text<'a> {
    pub fn new(text: &'a str) -> Self {
        let spaced = if text.bytes().any(|byte| (0x1c..=0x1f).contains(&byte)) {
            // A tab is space like those, and unlike a blank it stands in none of the patterns by itself.
            SPACE.replace_all(text, "\t")
        } else {
            Cow::Borrowed(text)
        };
        if spaced.is_ascii() {
            return Self::Ascii(spaced);
        }
        let text = NO_WORD.replace_all(&spaced, "\u{ac}");
        Self::Unicode(WORD.replace_all(&text, "\u{e9}").into_owned())
    }

    pub fn holds_secret(&self) -> bool {
        if let Self::Ascii(text) = self {
            // What the patterns cannot do without; most evidence has none of it.
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let assigned = text.contains([':', '=']);
            let [openai, router, amazon, assignment, social, card] = &*SECRET_PATTERNS;
            return (text.contains("sk-") && (openai.is_match(self) || router.is_match(self)))
                || (text.contains("AKIA") && amazon.is_match(self))
                || (assigned && assignment.is_match(self))
                || (digits >= 9 && (social.is_match(self) || (digits >= 13 && card.is_match(self))));
        }
        SECRET_PATTERNS.iter().any(|pattern| pattern.is_match(self))
    }

    pub fn holds_personal_data(&self) -> bool {
        if let Self::Ascii(text) = self {
            let [mail, phone] = &*PERSONAL_PATTERNS;
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            return (text.contains('@') && mail.is_match(self)) || (digits >= 10 && phone.is_match(self));
        }
        PERSONAL_PATTERNS.iter().any(|pattern| pattern.is_match(self))
    }

    /// The text is expected in lower case.
    pub fn names_public_read(&self) -> bool {
        PUBLIC_PATTERN.is_match(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_shape_is_seen() {
        for text in [
            "key sk-abcdefghijkl",
            "sk-or-v1-abcdefghij0123456789",
            "AKIA0123456789ABCDEF",
            "API_KEY = 'abcdefgh'",
            "my Password:hunter2.hunter2",
            "token\u{1c}=12345678",
            "ssn 123-45-6789",
            "card 4111 1111 1111 1111",
            "1763582071621",
            "é 4111-1111-1111-1111",
            "é token: abcdefgh",
        ] {
            assert!(Text::new(text).holds_secret(), "{text}");
        }
        for text in [
            "sk-short",
            "tokens: abcdefgh",
            "xAKIA0123456789ABCDEF",
            "123-45-67890",
            "411111111111",
            "12345678901234567",
            "password: short",
            "सk-abcdefghijklm",
        ] {
            assert!(!Text::new(text).holds_secret(), "{text}");
        }
    }

    #[test]
    fn addresses_and_numbers_of_people_are_seen() {
        for text in [
            "a@b.io",
            "to a.b+c@x-y.example",
            "555-123-4567",
            "+1 (555) 123 4567",
            // What a PBX calls a channel: ten digits are a telephone number.
            "1763582071.6214",
            "5551234567",
            "é a@b.io",
        ] {
            assert!(Text::new(text).holds_personal_data(), "{text}");
        }
        for text in ["a@b", "a@b.c", "555-12-4567", "55512345678"] {
            assert!(!Text::new(text).holds_personal_data(), "{text}");
        }
    }

    #[test]
    fn words_end_where_they_end_in_python() {
        for (text, public) in [
            ("a public read", true),
            ("get_public_x", false),
            ("opening hours", true),
            ("republic", false),
            ("épublic", false),
            ("²public", false),
            // A vowel sign is no letter to Python.
            ("की\u{93f}public", true),
            ("\u{200d}public", true),
            ("‿public", true),
        ] {
            assert_eq!(Text::new(text).names_public_read(), public, "{text}");
        }
    }
}
