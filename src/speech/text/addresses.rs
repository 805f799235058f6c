//! Addresses of pages and mailboxes, and numbers that are read figure by figure.

use super::{
    language::{Signs, VoiceLanguage},
    pattern, replace,
};
use regex::Regex;
use std::{borrow::Cow, sync::LazyLock};

static PAGE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)<?(?:https?://(?:www\.)?|\bwww\.)([^\s<>()\[\]{}|\x22]+)>?"));
/// Figures from which on a number is an identifier, not a quantity.
const FIGURES_MIN: usize = 7;

/// Of the address of a page only what somebody would write down; it may end with the sign that ends the sentence.
fn page(address: &str) -> (&str, &str) {
    let said = address.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', '"', '*', '_']);
    let sign = &address[said.len()..];
    let said = said.split(['?', '#']).next().unwrap_or_default();
    (said.trim_end_matches('/'), sign)
}

/// Addresses of pages without `https://`, for a voice whose language is not known.
pub(super) fn without_scheme(text: Cow<'_, str>) -> Cow<'_, str> {
    replace(text, &PAGE, |found, _| {
        let (said, sign) = page(&found[1]);
        Some(format!("{said}{sign}"))
    })
}

pub(super) fn spoken(text: Cow<'_, str>, language: VoiceLanguage) -> Cow<'_, str> {
    static MAILBOX: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+"));
    let signs = language.signs();
    let text = replace(text, &PAGE, |found, _| {
        let (said, sign) = page(&found[1]);
        Some(format!("{}{sign}", in_words(said, &signs)))
    });
    replace(text, &MAILBOX, |found, _| Some(in_words(&found[0], &signs)))
}

fn in_words(address: &str, signs: &Signs) -> String {
    let word = |c: char| match c {
        '@' => Some(signs.at),
        '.' => Some(signs.dot),
        '-' => Some(signs.dash),
        '_' => Some(signs.underscore),
        '+' => Some(signs.plus),
        '/' => Some(signs.slash),
        _ => None,
    };
    let mut said = String::new();
    for c in address.chars() {
        match word(c) {
            Some(word) => said.extend([" ", word, " "]),
            None => said.push(c),
        }
    }
    said
}

/// Telephone numbers and other long ones, figure by figure, with a breath where they are parted.
pub(super) fn numbers(text: Cow<'_, str>, language: VoiceLanguage) -> Cow<'_, str> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        let international = r"\+[0-9]{1,3}[ .\x{a0}-]?(?:\([0-9]{1,5}\)|[0-9]{1,5})(?:[ ./\x{a0}-]?[0-9]{1,8}){1,6}";
        let national = r"\b0[0-9]{1,5}[ ./-]?[0-9]{2,8}(?:[ -][0-9]{2,8}){0,4}";
        let american = r"(?:\b1[ .-])?\(?\b[0-9]{3}\)?[ .-][0-9]{3}[ .-][0-9]{4}";
        pattern(&format!(r"{international}|{national}|{american}|\b[0-9]{{7,24}}"))
    });
    replace(text, &NUMBER, |found, around| {
        let number = found[0].trim_start_matches('(');
        let groups: Vec<&str> = number.split(|c: char| !c.is_ascii_digit()).filter(|group| !group.is_empty()).collect();
        let figures: usize = groups.iter().map(|group| group.len()).sum();
        // As a date that nobody can tell is left as it is, and a number of people.
        let date = groups.iter().map(|group| group.len()).take(3).eq([2, 2, 4]) && !number.starts_with('+');
        let count = groups.len() == 1 && number.ends_with("000");
        if around.goes_on() || date || count || figures < FIGURES_MIN {
            return None;
        }
        let groups: Vec<String> = groups.iter().flat_map(|group| parted(group)).collect();
        let plus = if number.starts_with('+') { format!("{} ", language.signs().plus) } else { String::new() };
        Some(format!("{plus}{}", groups.join(", ")))
    })
}

/// Three figures at a time, where nobody parted them, and no single one at the end.
fn parted(group: &str) -> Vec<String> {
    let figures: Vec<String> = group.chars().map(String::from).collect();
    let mut groups: Vec<String> = Vec::new();
    let mut rest = &*figures;
    while !rest.is_empty() {
        let size =
            if rest.len() == 4 || rest.len() == 5 && figures.len() == 5 { rest.len() } else { rest.len().min(3) };
        groups.push(rest[..size].join(" "));
        rest = &rest[size..];
    }
    groups
}
