//! Tags and stage directions, which are no words.

use super::{Around, pattern, replace};
use regex::{Captures, Regex};
use std::{borrow::Cow, sync::LazyLock};

/// Stage directions. Models write them in English also between sentences of another language.
const DIRECTIONS: &[&str] = &[
    "breathes",
    "chuckle",
    "chuckles",
    "chuckling",
    "coughs",
    "exhales",
    "gasp",
    "gasps",
    "giggle",
    "giggles",
    "giggling",
    "groans",
    "hums",
    "inhales",
    "lacht",
    "laugh",
    "laughs",
    "laughing",
    "laughter",
    "nods",
    "pausa",
    "pause",
    "pauses",
    "pausing",
    "pauze",
    "ríe",
    "seufzt",
    "sigh",
    "sighs",
    "sighing",
    "silence",
    "smile",
    "smiles",
    "smiling",
    "sniffs",
    "sospira",
    "soupire",
    "suspira",
    "whispers",
    "whispering",
    "yawns",
    "zucht",
];
/// Further words of a direction, besides adverbs.
const BESIDE: &[&str] = &[
    "a", "and", "beat", "bit", "brief", "breath", "clears", "deep", "for", "little", "long", "moment", "short",
    "throat",
];
const DIRECTION_WORDS_MAX: usize = 4;

/// Whether these words, out of brackets, tell how something is said: "laughs softly", "short pause", "clears throat".
pub(super) fn is_stage_direction(text: &str) -> bool {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let direction = |word: &&String| DIRECTIONS.contains(&word.as_str());
    let beside = |word: &String| BESIDE.contains(&word.as_str()) || word.ends_with("ly");
    let has_one = words.iter().any(|word| direction(&word)) || words == ["clears", "throat"];
    has_one && words.len() <= DIRECTION_WORDS_MAX && words.iter().all(|word| direction(&word) || beside(word))
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
