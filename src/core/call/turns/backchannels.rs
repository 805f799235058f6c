//! Words by which a caller says "I am listening", and wants nothing.

use std::{collections::BTreeSet, sync::LazyLock};

/// The longest phrase, in words, that is looked for.
const PHRASE_WORDS_MAX: usize = 4;

/// Per language, as a speech recogniser writes them. Words of refusal or of a question are not here, however
/// short: "no" is an answer.
const LISTS: [(&str, &[&str]); 7] = [
    (
        "en",
        &[
            "mhm",
            "mm",
            "mmm",
            "mm-hmm",
            "mmhmm",
            "hm",
            "hmm",
            "uh-huh",
            "uhuh",
            "uh",
            "um",
            "ah",
            "aha",
            "oh",
            "yeah",
            "yep",
            "yup",
            "yes",
            "ok",
            "okay",
            "right",
            "sure",
            "alright",
            "all right",
            "I see",
            "got it",
            "of course",
            "exactly",
            "great",
            "good",
            "fine",
            "oh I see",
            "I know",
            "cool",
            "perfect",
        ],
    ),
    (
        "de",
        &[
            "mhm",
            "hm",
            "hmm",
            "aha",
            "ah",
            "ach",
            "ach so",
            "achso",
            "äh",
            "ähm",
            "oh",
            "ja",
            "jaja",
            "jo",
            "jep",
            "ok",
            "okay",
            "genau",
            "gut",
            "stimmt",
            "richtig",
            "klar",
            "alles klar",
            "verstehe",
            "ich verstehe",
            "eben",
            "natürlich",
            "sicher",
            "prima",
            "super",
            "in Ordnung",
        ],
    ),
    (
        "fr",
        &[
            "mhm",
            "hm",
            "hum",
            "mmh",
            "ah",
            "euh",
            "oh",
            "ouais",
            "oui",
            "ok",
            "okay",
            "d'accord",
            "bien",
            "très bien",
            "bien sûr",
            "voilà",
            "exact",
            "exactement",
            "je vois",
            "je comprends",
            "entendu",
            "parfait",
            "ça marche",
            "ah bon",
            "ah oui",
            "c'est ça",
        ],
    ),
    (
        "es",
        &[
            "mhm",
            "hm",
            "ajá",
            "ah",
            "eh",
            "oh",
            "sí",
            "ya",
            "ok",
            "okay",
            "vale",
            "claro",
            "bien",
            "muy bien",
            "bueno",
            "entiendo",
            "ya veo",
            "de acuerdo",
            "perfecto",
            "exacto",
            "correcto",
            "claro que sí",
            "por supuesto",
            "eso",
        ],
    ),
    (
        "it",
        &[
            "mhm",
            "hm",
            "ah",
            "eh",
            "oh",
            "sì",
            "già",
            "ok",
            "okay",
            "va bene",
            "bene",
            "certo",
            "esatto",
            "capisco",
            "ho capito",
            "giusto",
            "d'accordo",
            "chiaro",
            "perfetto",
            "ecco",
            "certamente",
        ],
    ),
    (
        "nl",
        &[
            "mhm",
            "hm",
            "hmm",
            "aha",
            "ah",
            "eh",
            "oh",
            "ja",
            "jaja",
            "ok",
            "oké",
            "okay",
            "goed",
            "prima",
            "precies",
            "klopt",
            "juist",
            "begrijp ik",
            "ik begrijp het",
            "snap ik",
            "duidelijk",
            "natuurlijk",
            "inderdaad",
            "helemaal goed",
        ],
    ),
    (
        "pt",
        &[
            "mhm",
            "hm",
            "ah",
            "ahã",
            "uhum",
            "é",
            "oh",
            "sim",
            "pois",
            "pois é",
            "ok",
            "okay",
            "certo",
            "está bem",
            "tá",
            "tá bom",
            "bem",
            "claro",
            "entendo",
            "percebo",
            "entendi",
            "exato",
            "exatamente",
            "com certeza",
            "perfeito",
            "isso",
        ],
    ),
];

/// A set of such words and phrases, in the form that `normalised` gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backchannels(BTreeSet<String>);

impl Backchannels {
    /// The languages there are lists of.
    pub const LANGUAGES: [&str; LISTS.len()] = {
        let mut names = [""; LISTS.len()];
        let mut index = 0;
        while index < LISTS.len() {
            names[index] = LISTS[index].0;
            index += 1;
        }
        names
    };

    /// The lists of these languages, and `own` phrases.
    pub fn new(languages: &[impl AsRef<str>], own: &[impl AsRef<str>]) -> Self {
        let spoken = |name: &str| languages.iter().any(|language| language.as_ref() == name);
        let lists = LISTS.iter().filter(|(name, _)| spoken(name)).flat_map(|(_, list)| *list);
        let all = lists.copied().chain(own.iter().map(AsRef::as_ref));
        Self(all.map(|phrase| normalised(phrase).join(" ")).filter(|phrase| !phrase.is_empty()).collect())
    }

    /// Whether a phrase can be found in what is said.
    pub fn can_match(phrase: &str) -> bool {
        (1..=PHRASE_WORDS_MAX).contains(&normalised(phrase).len())
    }

    /// How many words of `text` belong to no backchannel. Several in a row are still none.
    pub fn other_words(&self, text: &str) -> u32 {
        let words = normalised(text);
        let (mut at, mut others) = (0, 0);
        while at < words.len() {
            let longest = PHRASE_WORDS_MAX.min(words.len() - at);
            let phrase = (1..=longest).rev().find(|&length| self.0.contains(&words[at..at + length].join(" ")));
            others += u32::from(phrase.is_none());
            at += phrase.unwrap_or(1);
        }
        others
    }
}

impl Default for Backchannels {
    /// All languages: a caller says "okay" in any of them, and no list has a word that refuses.
    fn default() -> Self {
        static ALL: LazyLock<Backchannels> =
            LazyLock::new(|| Backchannels::new(&Backchannels::LANGUAGES, &[] as &[&str]));

        ALL.clone()
    }
}

/// The words of a text without case, accents and punctuation. An apostrophe joins, a hyphen parts.
pub(super) fn normalised(text: &str) -> Vec<String> {
    let text: String =
        text.chars().filter(|c| !matches!(c, '\'' | '’')).flat_map(char::to_lowercase).map(plain).collect();
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// A letter without its accent, as far as the languages above have them.
fn plain(letter: char) -> char {
    match letter {
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => 'a',
        'ç' => 'c',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'ì' | 'í' | 'î' | 'ï' => 'i',
        'ñ' => 'n',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' => 'o',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_accents_and_punctuation_make_no_difference() {
        let all = Backchannels::default();
        for text in ["Mhm.", "OKAY!", "D’accord", "d'accord,", "sì", "Si.", "Très bien", "Oké", "uh-huh", "Ach so…", ""]
        {
            assert_eq!(all.other_words(text), 0, "{text}");
        }
    }

    #[test]
    fn several_in_a_row_are_one_and_what_else_is_said_is_counted() {
        let all = Backchannels::default();
        let counts = ["ja, ja, genau", "okay, alles klar", "okay but wait a moment", "ja aber ich möchte", "no"];
        assert_eq!(counts.map(|text| all.other_words(text)), [0, 0, 4, 3, 1]);
    }

    #[test]
    fn a_phrase_counts_as_a_whole_only() {
        let english = Backchannels::new(&["en"], &[] as &[&str]);
        assert_eq!(english.other_words("I see"), 0);
        assert_eq!(english.other_words("I want to see"), 4);
    }

    #[test]
    fn the_admins_own_are_added_to_the_languages_that_were_chosen() {
        let own = Backchannels::new(&["en"], &["Roger that", "copy"]);
        let counts = ["roger that", "copy, okay", "genau"];
        assert_eq!(counts.map(|text| own.other_words(text)), [0, 0, 1]);
    }

    #[test]
    fn no_phrase_is_longer_than_what_is_looked_for_and_none_refuses() {
        for phrase in &Backchannels::default().0 {
            assert!(phrase.split(' ').count() <= PHRASE_WORDS_MAX, "{phrase}");
        }
        for word in ["no", "nein", "non", "nee", "não", "stop", "halt", "wait", "warte", "but", "aber"] {
            assert_eq!(Backchannels::default().other_words(word), 1, "{word}");
        }
    }
}
