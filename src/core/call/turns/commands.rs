//! Barge-in commands: words that ask the agent to be silent, and interrupt it however short they are.

use super::backchannels::normalised;

/// Commands per language, as a speech recogniser writes them, without accents.
const LISTS: [(&str, &[&str]); 7] = [
    ("en", &["stop", "wait", "no", "hold on", "hang on"]),
    ("de", &["stop", "stopp", "halt", "warte", "warten", "moment", "nein"]),
    ("fr", &["stop", "arretez", "arrete", "attendez", "attends", "non"]),
    ("es", &["alto", "espera", "espere", "pare", "no"]),
    ("it", &["stop", "ferma", "fermo", "basta", "aspetta", "aspetti", "no"]),
    ("nl", &["stop", "wacht", "nee"]),
    ("pt", &["espera", "espere", "pare", "nao"]),
];
const PHRASE_WORDS_MAX: usize = 2;

/// Whether `text` has one of them, in any language.
pub(super) fn asks_for_silence(text: &str) -> bool {
    let words = normalised(text);
    let phrases = (1..=PHRASE_WORDS_MAX).flat_map(|length| words.windows(length));
    phrases.map(|phrase| phrase.join(" ")).any(|phrase| LISTS.iter().any(|(_, list)| list.contains(&&*phrase)))
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
        for text in ["", "yes", "okay", "mhm", "nonstop", "know", "I see", "ja genau"] {
            assert!(!asks_for_silence(text), "{text}");
        }
    }

    #[test]
    fn none_is_a_backchannel_and_each_is_written_as_it_is_looked_for() {
        for phrase in LISTS.iter().flat_map(|(_, list)| *list) {
            assert!(Backchannels::default().other_words(phrase) > 0, "{phrase}");
            assert_eq!(normalised(phrase).join(" "), **phrase);
            assert!(normalised(phrase).len() <= PHRASE_WORDS_MAX, "{phrase}");
        }
    }
}
