//! Words by which a caller says "I am listening", and wants nothing.

use std::{collections::BTreeSet, sync::LazyLock};

/// The longest phrase, in words, that is looked for.
const PHRASE_WORDS_MAX: usize = 4;

/// Per language, as a speech recogniser writes them. Words of refusal or of a question are not here, however
/// short: "no" is an answer.
const LISTS: [(&str, &[&str]); 11] = [
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
    (
        "hi",
        &[
            "हम्म",
            "हूँ",
            "आह",
            "ओह",
            "जी",
            "जी हाँ",
            "हाँ",
            "हाँ जी",
            "अच्छा",
            "ठीक",
            "ठीक है",
            "सही",
            "सही है",
            "बिल्कुल",
            "बिलकुल",
            "ज़रूर",
            "समझ गया",
            "समझ गई",
            "मैं समझ गया",
            "मैं समझ गई",
            "बढ़िया",
            "बहुत अच्छा",
            "ओके",
            "haan",
            "haan ji",
            "ji",
            "ji haan",
            "achha",
            "accha",
            "theek",
            "theek hai",
            "bilkul",
        ],
    ),
    (
        "ar",
        &[
            "ممم",
            "همم",
            "آه",
            "أها",
            "أوه",
            "نعم",
            "أجل",
            "أيوه",
            "أيوة",
            "حسنًا",
            "طيب",
            "تمام",
            "ماشي",
            "صحيح",
            "صح",
            "بالضبط",
            "مضبوط",
            "أكيد",
            "بالتأكيد",
            "طبعًا",
            "مفهوم",
            "فهمت",
            "فاهم",
            "واضح",
            "جيد",
            "جميل",
            "ممتاز",
            "حاضر",
            "إن شاء الله",
            "أوكي",
            "اوكيه",
        ],
    ),
    (
        "ur",
        &[
            "ہمم",
            "ہوں",
            "آہ",
            "اوہ",
            "جی",
            "جی ہاں",
            "ہاں",
            "ہاں جی",
            "اچھا",
            "ٹھیک",
            "ٹھیک ہے",
            "صحیح",
            "درست",
            "بالکل",
            "جی بالکل",
            "ضرور",
            "یقیناً",
            "سمجھ گیا",
            "سمجھ گئی",
            "میں سمجھ گیا",
            "میں سمجھ گئی",
            "بہت اچھا",
            "بہت خوب",
            "اوکے",
        ],
    ),
    (
        "no",
        &[
            "mhm",
            "mm",
            "hm",
            "hmm",
            "aha",
            "ah",
            "eh",
            "å ja",
            "ja",
            "jaha",
            "jaja",
            "jo",
            "jepp",
            "ok",
            "okay",
            "greit",
            "den er grei",
            "fint",
            "bra",
            "akkurat",
            "nettopp",
            "riktig",
            "stemmer",
            "det stemmer",
            "skjønner",
            "jeg skjønner",
            "forstår",
            "jeg forstår",
            "klart",
            "selvfølgelig",
            "flott",
            "supert",
            "sant",
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
    let text: String = text.chars().filter(|&c| !is_left_out(c)).flat_map(char::to_lowercase).map(plain).collect();
    text.split(|c| !is_of_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Letters, digits, and the nukta and the virama of Devanagari, which Unicode does not count among letters as it does vowel signs.
pub(super) fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\u{93c}' | '\u{94d}')
}

/// Marks that some recognisers write and others do not: apostrophes, combining accents, Arabic vowels and the stroke that
/// lengthens a word, the nukta of Devanagari, and signs without width.
const fn is_left_out(c: char) -> bool {
    matches!(c, '\'' | '’' | '\u{300}'..='\u{36f}' | '\u{640}' | '\u{64b}'..='\u{655}' | '\u{670}' | '\u{93c}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2066}'..='\u{2069}')
}

/// A letter without its accent, as far as the languages above have them; of letters that Arabic and Urdu keyboards write
/// differently, the Arabic one.
fn plain(letter: char) -> char {
    match letter {
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => 'a',
        'ç' => 'c',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'ì' | 'í' | 'î' | 'ï' => 'i',
        'ñ' => 'n',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' => 'o',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        // Letters with a nukta in one character.
        '\u{958}' => 'क',
        '\u{959}' => 'ख',
        '\u{95a}' => 'ग',
        '\u{95b}' => 'ज',
        '\u{95c}' => 'ड',
        '\u{95d}' => 'ढ',
        '\u{95e}' => 'फ',
        '\u{95f}' => 'य',
        // Both nasalise the vowel before them.
        'ँ' => 'ं',
        'آ' | 'أ' | 'إ' | 'ٱ' => 'ا',
        'ی' | 'ى' => 'ي',
        'ک' => 'ك',
        'ہ' | 'ھ' => 'ه',
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

    /// Vowel signs and joined consonants are inside a word, and recognisers write some letters in more than one way.
    #[test]
    fn words_of_other_scripts_are_whole() {
        assert_eq!(normalised("अच्छा, ठीक है।"), ["अच्छा", "ठीक", "है"]);
        assert_eq!(normalised("نعم، حسنًا؟"), ["نعم", "حسنا"]);
        let all = Backchannels::default();
        for text in [
            "हां जी",
            "हाँ।",
            "अच्छा, अच्छा।",
            "ठीक है, बिल्कुल!",
            "ज़रूर",
            "\u{95b}रूर",
            "समझ गया",
            "Haan ji",
            "حسناً",
            "حسنا، تمام.",
            "إن شاء الله",
            "ان شاء الله",
            "أكيد",
            "اكيد",
            "جی ہاں۔",
            "ٹھیک ہے، اچھا",
            "ٹھيک ہے",
            "یقینا",
            "Å ja, akkurat.",
            "Jeg skjønner",
            "tre\u{300}s bien",
        ] {
            assert_eq!(all.other_words(text), 0, "{text}");
        }
        let counts =
            ["हाँ, लेकिन मुझे कल आना है", "نعم لكن أريد موعدًا آخر", "جی مگر مجھے کل آنا ہے", "ja, men jeg vil endre det"];
        assert_eq!(counts.map(|text| all.other_words(text)), [5, 4, 5, 5]);
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
        let western =
            ["no", "nein", "non", "nee", "não", "nei", "stop", "halt", "wait", "warte", "vent", "but", "aber"];
        let eastern = ["नहीं", "रुको", "लेकिन", "क्या", "لا", "توقف", "لكن", "نہیں", "رکو", "لیکن", "کیا"];
        for word in western.into_iter().chain(eastern) {
            assert_eq!(Backchannels::default().other_words(word), 1, "{word}");
        }
    }
}
