//! Barge-in commands: words that ask the agent to be silent, and interrupt it however short they are.

use super::backchannels::normalised;
use std::{collections::BTreeSet, sync::LazyLock};

/// Commands per language, as a speech recogniser writes them.
const LISTS: [(&str, &[&str]); 11] = [
    ("en", &["stop", "wait", "no", "hold on", "hang on"]),
    ("de", &["stop", "stopp", "halt", "warte", "warten", "moment", "nein"]),
    ("fr", &["stop", "arrêtez", "arrête", "attendez", "attends", "non"]),
    ("es", &["alto", "espera", "espere", "pare", "no"]),
    ("it", &["stop", "ferma", "fermo", "basta", "aspetta", "aspetti", "no"]),
    ("nl", &["stop", "wacht", "nee"]),
    ("pt", &["espera", "espere", "pare", "não"]),
    (
        "hi",
        &[
            "रुको",
            "रुकिए",
            "रुकिये",
            "रुकें",
            "रुक जाओ",
            "ठहरो",
            "ठहरिए",
            "बस",
            "नहीं",
            "एक मिनट",
            "ruko",
            "rukiye",
            "nahi",
            "nahin",
        ],
    ),
    ("ar", &["قف", "توقف", "توقفي", "انتظر", "انتظري", "استنى", "لحظة", "مهلًا", "كفى", "لا"]),
    ("ur", &["رکو", "رکیے", "رکیں", "رک جاؤ", "ٹھہرو", "ٹھہریے", "ٹھہریں", "بس", "نہیں", "ایک منٹ"]),
    ("no", &["stopp", "stans", "vent", "nei", "øyeblikk"]),
];
const PHRASE_WORDS_MAX: usize = 2;

/// Whether `text` has one of them, in any language.
pub(super) fn asks_for_silence(text: &str) -> bool {
    static ALL: LazyLock<BTreeSet<String>> =
        LazyLock::new(|| LISTS.iter().flat_map(|(_, list)| *list).map(|phrase| normalised(phrase).join(" ")).collect());

    let words = normalised(text);
    let mut phrases = (1..=PHRASE_WORDS_MAX).flat_map(|length| words.windows(length));
    phrases.any(|phrase| ALL.contains(&phrase.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::turns::Backchannels;

    #[test]
    fn a_word_that_stops_the_agent_is_known_in_each_language_and_a_nod_is_none() {
        for text in
            ["Stop!", "Wait, wait.", "no", "okay, hold on", "Nein!", "Arrêtez", "espere", "Aspetti.", "wacht", "Não"]
        {
            assert!(asks_for_silence(text), "{text}");
        }
        for text in [
            "रुकिए!",
            "नहीं, नहीं।",
            "जी, एक मिनट",
            "توقف!",
            "لا، لا.",
            "مهلا",
            "رکیے۔",
            "نہیں",
            "رك جاؤ",
            "Nei!",
            "Vent litt.",
            "Et øyeblikk",
        ] {
            assert!(asks_for_silence(text), "{text}");
        }
        for text in ["हाँ", "ठीक है", "نعم", "طيب", "جی ہاں", "ٹھیک ہے", "akkurat"] {
            assert!(!asks_for_silence(text), "{text}");
        }
        for text in ["", "yes", "okay", "mhm", "nonstop", "know", "I see", "ja genau"] {
            assert!(!asks_for_silence(text), "{text}");
        }
    }

    #[test]
    fn none_is_a_backchannel_and_each_can_be_found() {
        for phrase in LISTS.iter().flat_map(|(_, list)| *list) {
            assert!(Backchannels::default().other_words(phrase) > 0, "{phrase}");
            assert!(asks_for_silence(phrase), "{phrase}");
        }
    }
}
