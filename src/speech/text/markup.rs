//! Tags and stage directions, which are no words.

use super::{Around, pattern, replace};
use regex::{Captures, Regex};
use std::{borrow::Cow, sync::LazyLock};

/// How stage directions begin. Models write them in English also between sentences of another language.
const DIRECTIONS: &[&str] = &[
    "beat",
    "breath",
    "breathes",
    "chuckle",
    "chuckles",
    "chuckling",
    "clears",
    "cough",
    "coughs",
    "cries",
    "excited",
    "excitedly",
    "exhales",
    "gasp",
    "gasps",
    "giggle",
    "giggles",
    "giggling",
    "groans",
    "hums",
    "inhales",
    "laugh",
    "laughs",
    "laughing",
    "laughter",
    "lacht",
    "long",
    "nods",
    "pause",
    "pauses",
    "pausing",
    "pausa",
    "pauze",
    "ride",
    "ríe",
    "rire",
    "rit",
    "seufzt",
    "short",
    "sigh",
    "sighs",
    "sighing",
    "silence",
    "smile",
    "smiles",
    "smiling",
    "sniffs",
    "softly",
    "sospira",
    "soupire",
    "suspira",
    "typing",
    "whisper",
    "whispers",
    "whispering",
    "yawns",
    "zucht",
];
/// How a direction goes on that begins with a word of other meanings.
const PAUSES: &[&str] = &["pause", "silence", "beat", "breath", "sigh"];
const DIRECTION_WORDS_MAX: usize = 4;

/// Whether these words, out of brackets, tell how something is said.
pub fn is_stage_direction(text: &str) -> bool {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let Some(first) = words.first() else { return false };
    let kind = match first.as_str() {
        "short" | "long" => words.get(1).is_some_and(|next| PAUSES.contains(&next.as_str())),
        "clears" => words.last().is_some_and(|last| last == "throat"),
        first => DIRECTIONS.contains(&first),
    };
    kind && words.len() <= DIRECTION_WORDS_MAX && text.chars().all(|c| c.is_alphabetic() || c.is_whitespace())
}

pub(super) fn removed(text: &str) -> Cow<'_, str> {
    static TAG: LazyLock<Regex> = LazyLock::new(|| pattern(r"</?[A-Za-z][A-Za-z0-9:-]*(?:\s[^<>]*)?/?>"));
    static BRACKETS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\[([^\[\]]{1,40})\]|\(([^()]{1,40})\)"));
    let text = replace(text.into(), &TAG, |_, _| Some(" ".into()));
    replace(text, &BRACKETS, |found: &Captures<'_>, _: &Around<'_>| {
        let inside = found.get(1).or_else(|| found.get(2))?.as_str();
        is_stage_direction(inside).then(|| " ".into())
    })
}
