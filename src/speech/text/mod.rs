//! Text normalisation: what is written, as people say it.
//!
//! Voices read figures; signs between figures they read wrongly, or not at all: `$4.50` as "dollar four point five zero". What is
//! rewritten here has its figures left to the voice. Only where the language of a voice is known is there more than markup to
//! take away: cloud voices, which are not told one, have rules of their own.
//!
//! Neither ICU4X nor another library for Rust spells these out in these languages.

mod addresses;
mod dates;
mod formulas;
mod language;
mod markdown;
mod markup;
mod money;
#[cfg(test)]
mod tests;

pub use language::VoiceLanguage;
pub use markdown::{is_spoken, speakable};
use regex::{Captures, Regex};
use schemars::JsonSchema;
use serde::Deserialize;
use std::borrow::Cow;

/// Options that every kind of voice has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct TextOptions {
    /// Whether the voice is sent what is written as people say it: no tags and stage directions, addresses without `https://`,
    /// and, where its language is known, amounts of money, dates, times, telephone numbers and e-mail addresses in words.
    /// `false` for a voice that reads tags itself.
    #[serde(default = "yes")]
    pub text_normalization: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self { text_normalization: yes() }
    }
}

impl TextOptions {
    /// What a voice of this language is sent.
    pub fn text(self, written: &str, language: Option<VoiceLanguage>) -> String {
        if self.text_normalization { normalized(written, language) } else { written.into() }
    }
}

const fn yes() -> bool {
    true
}

/// What is written, as it is said in this language.
fn normalized(text: &str, language: Option<VoiceLanguage>) -> String {
    let text = markup::removed(text);
    let text = match language {
        Some(language) => {
            let text = addresses::spoken(text, language);
            // Before numbers: a date has some of their signs.
            let text = dates::spoken(text, language);
            let text = money::spoken(text, language);
            addresses::numbers(text, language)
        }
        None => addresses::without_scheme(text),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What stands around a match: a rule has to see whether it goes on there.
struct Around<'a> {
    before: &'a str,
    after: &'a str,
}

impl Around<'_> {
    /// Whether the match is a part of a longer number or word.
    fn goes_on(&self) -> bool {
        let before = self.before.chars().next_back();
        let mut after = self.after.chars();
        let (next, then) = (after.next(), after.next());
        before.is_some_and(|c| c.is_alphanumeric() || matches!(c, ':' | '/' | '.' | ',' | '-' | '_' | '@'))
            || next.is_some_and(char::is_alphanumeric)
            || next.is_some_and(|c| matches!(c, ':' | '/' | '.' | ',' | '-'))
                && then.is_some_and(|c| c.is_ascii_digit())
    }
}

/// Replaces what matches and for which there are words.
fn replace<'a>(
    text: Cow<'a, str>,
    pattern: &Regex,
    words: impl Fn(&Captures<'_>, &Around<'_>) -> Option<String>,
) -> Cow<'a, str> {
    let mut said = String::new();
    let mut from = 0;
    for found in pattern.captures_iter(&text) {
        let Some(whole) = found.get(0) else { continue };
        let around = Around { before: &text[..whole.start()], after: &text[whole.end()..] };
        if let Some(words) = words(&found, &around) {
            said.push_str(&text[from..whole.start()]);
            said.push_str(&words);
            from = whole.end();
        }
    }
    if from == 0 {
        return text;
    }
    said.push_str(&text[from..]);
    said.into()
}

/// A pattern of this module, which is right: its tests use each.
fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a regular expression")
}
