//! Whether a caller's turn is over, as far as the words so far tell.

mod spelling;

/// What the words so far say about the end of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ending {
    /// Letters or digits are being spelled: the next one follows after a pause.
    Spelled,
    /// Something has to follow: "and", "my number is", a comma.
    Open,
    /// No words are known, and letters or digits were asked for.
    Asked,
    /// No words are known.
    #[default]
    Unknown,
    /// May be a sentence; nothing says that it is not. A full stop says no more: recognisers write one at each pause.
    Whole,
    /// Clearly a complete turn: a question, a yes, a thank-you, or the recogniser's own belief.
    Finished,
}

/// Words that never end a sentence in English, German, French, Spanish, Italian, Dutch or Portuguese, and fillers. A word
/// that ends sentences in another of these languages is not here; a full stop behind one of these means nothing, since
/// recognisers write full stops at pauses.
const OPEN_WORDS: &[&str] = &[
    "a", "aber", "and", "au", "aux", "because", "but", "che", "chez", "com", "con", "cuando", "dans", "dass", "de",
    "del", "della", "des", "di", "e", "ehm", "einem", "einen", "el", "em", "en", "erm", "et", "euh", "för", "für",
    "gli", "i'd", "i'll", "i'm", "i've", "if", "it's", "las", "les", "lo", "ma", "mais", "mas", "meinem", "meinen",
    "mi", "mijn", "my", "nel", "ob", "omdat", "or", "os", "ou", "our", "para", "parce", "per", "pero", "por", "porque",
    "quando", "que", "se", "sondern", "su", "sus", "that's", "the", "their", "there's", "uh", "uhm", "und", "uw",
    "von", "we're", "weil", "wenn", "y", "your", "à", "äh", "ähm", "è",
];

/// Words that something follows as a rule, each with the languages in which sentences end with it now and then: English "with", and
/// "an", which English never ends with, but German does in "Rufen Sie mich an.".
const MOSTLY_OPEN_WORDS: &[(&str, &[&str])] = &[
    ("al", &["nl"]),
    ("als", &[]),
    ("an", &["de"]),
    ("are", &["en"]),
    ("at", &["en"]),
    ("avec", &["fr"]),
    ("da", &["de"]),
    ("das", &["de"]),
    ("dat", &["nl"]),
    ("der", &["de"]),
    ("die", &["de", "nl"]),
    ("do", &["en"]),
    ("du", &["de"]),
    ("een", &["nl"]),
    ("ein", &["de"]),
    ("eine", &["de"]),
    ("er", &["de", "nl"]),
    ("es", &["de", "es"]),
    ("est", &["fr"]),
    ("for", &["en"]),
    ("from", &["en"]),
    ("het", &["nl"]),
    ("i", &["en"]),
    ("il", &["fr"]),
    ("is", &["en", "nl"]),
    ("ist", &["de"]),
    ("je", &["nl"]),
    ("la", &["fr"]),
    ("le", &["fr"]),
    ("los", &["de"]),
    ("maar", &["nl"]),
    ("mein", &["de"]),
    ("meine", &["de"]),
    ("met", &["nl"]),
    ("meu", &["pt"]),
    ("mia", &["it"]),
    ("minha", &["pt"]),
    ("mio", &["it"]),
    ("mit", &["de"]),
    ("mon", &[]),
    ("naar", &["nl"]),
    ("oder", &["de"]),
    ("of", &["en"]),
    ("perché", &["it"]),
    ("pour", &["fr"]),
    ("si", &["es", "fr"]),
    ("sur", &["fr"]),
    ("to", &["en"]),
    ("um", &["de"]),
    ("uma", &["pt"]),
    ("un", &["fr"]),
    ("una", &["es", "it"]),
    ("une", &["fr"]),
    ("van", &["nl"]),
    ("voor", &["nl"]),
    ("votre", &[]),
    ("was", &["de", "en"]),
    ("with", &["en"]),
    ("é", &["pt"]),
];

/// Alone they hold the turn, also with the full stop of a recogniser that writes one behind everything.
const FILLERS: &[&str] = &["eh", "ehm", "er", "erm", "euh", "hm", "hmm", "mm", "uh", "uhm", "um", "äh", "ähm"];

/// A turn of nothing but these is complete.
const ANSWERS: &[&str] = &[
    "bedankt", "bitte", "bye", "ciao", "correct", "danke", "dank", "exactly", "genau", "goodbye", "gracias", "graag",
    "grazie", "ja", "je", "merci", "nee", "nein", "no", "non", "nope", "não", "obrigada", "obrigado", "ok", "okay",
    "oui", "please", "si", "sim", "sure", "sì", "sí", "thank", "thanks", "tschüss", "u", "vale", "wel", "yeah", "yep",
    "yes", "you",
];
/// More words than an answer has.
const ANSWER_WORDS_MAX: usize = 4;

/// Signs that end a sentence, besides those of questions and exclamations: Latin, Chinese, Hindi, Urdu.
const FULL_STOPS: &[char] = &['.', '。', '｡', '।', '॥', '۔'];
const QUESTIONS: &[char] = &['?', '!', '？', '！', '؟'];
/// Signs behind which a sentence goes on.
const GOES_ON: &[char] = &[',', ';', ':', '-', '–', '—', '…', '،', '؛', '，', '、'];

/// Languages in which callers speak, as far as the context tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpokenLanguages(Option<Vec<String>>);

impl SpokenLanguages {
    pub const fn new(languages: Vec<String>) -> Self {
        Self(Some(languages))
    }

    /// Tells whether something follows on a word of [`MOSTLY_OPEN_WORDS`] that ends sentences in these languages. Where nobody says which are
    /// spoken, the full stop of a recogniser decides.
    fn holds(&self, ends_in: &[&str], stopped: bool) -> bool {
        self.0.as_ref().map_or(!stopped, |spoken| !spoken.iter().any(|language| ends_in.contains(&&**language)))
    }
}

impl Ending {
    pub fn of(text: &str, spoken: &SpokenLanguages) -> Self {
        let text = text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '”' | '“' | '»' | ')'));
        let words: Vec<String> = text.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect();
        let (Some(mark), Some(last)) = (text.chars().next_back(), words.last()) else { return Self::Unknown };
        // The question mark behind a letter is that of a voice that rises because more follows.
        if let Some(spelled) = spelling::ending(&words) {
            return spelled;
        }
        if GOES_ON.contains(&mark) || text.ends_with("...") {
            return Self::Open;
        }
        if QUESTIONS.contains(&mark) {
            return Self::Finished;
        }
        let all = |list: &[&str]| words.iter().all(|word| list.contains(&&**word));
        if all(FILLERS) {
            return Self::Open;
        }
        if words.len() <= ANSWER_WORDS_MAX && all(ANSWERS) {
            return Self::Finished;
        }
        let stopped = FULL_STOPS.contains(&mark);
        let mostly_open = MOSTLY_OPEN_WORDS.iter().find(|(word, _)| word == last);
        let open =
            OPEN_WORDS.contains(&&**last) || mostly_open.is_some_and(|(_, ends_in)| spoken.holds(ends_in, stopped));
        if open || last.ends_with('\'') { Self::Open } else { Self::Whole }
    }
}

/// A word in lower case without the punctuation around it. An apostrophe at its end belongs to it: "l'", "qu'".
fn bare(word: &str) -> String {
    let word = word.replace('’', "'").to_lowercase();
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
    word.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '\'').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::turns::Backchannels;

    pub(super) fn all_are(ending: Ending, texts: &[&str]) {
        texts.iter().for_each(|text| assert_eq!(Ending::of(text, &SpokenLanguages::default()), ending, "{text:?}"));
    }

    #[test]
    fn no_sentence_ends_behind_a_function_word_whatever_full_stop_a_recogniser_writes() {
        all_are(
            Ending::Open,
            &[
                "I would like to book a table and",
                "I would like to book the.",
                "Please tell me your",
                "It's",
                "My number is",
                "parce que",
                "Je voudrais l'",
                "Ich möchte einen.",
                "quiero hablar con",
                "vorrei parlare con il",
                "ik wil graag de",
                "eu queria falar com",
            ],
        );
    }

    #[test]
    fn a_filler_or_a_comma_holds_the_turn() {
        all_are(Ending::Open, &["well,", "Um", "Um.", "Er...", "äh, ähm", "I think…", "أريد،", "我想，"]);
    }

    #[test]
    fn words_that_end_sentences_in_one_of_the_languages_are_closed_by_a_full_stop() {
        for text in [
            "Rufen Sie mich bitte an",
            "Das nehme ich mit",
            "Ja, ich brauche das",
            "Doe maar",
            "Ja, dat is het",
            "That is the man I spoke with",
            "Je viens avec",
        ] {
            assert_eq!(Ending::of(text, &SpokenLanguages::default()), Ending::Open, "{text}");
            assert_eq!(Ending::of(&format!("{text}."), &SpokenLanguages::default()), Ending::Whole, "{text}.");
        }
    }

    #[test]
    fn the_languages_of_the_context_decide_whether_a_word_ends_sentences() {
        let [german, english] = ["de", "en"].map(|language| SpokenLanguages::new(vec![language.to_owned()]));
        let both = SpokenLanguages::new(vec!["en".to_owned(), "de".to_owned()]);
        for (text, of_german, of_english) in [
            ("Rufen Sie mich bitte an", Ending::Whole, Ending::Open),
            ("That is the man I spoke with", Ending::Open, Ending::Whole),
            ("I would like to book the", Ending::Open, Ending::Open),
        ] {
            for text in [text.to_owned(), format!("{text}.")] {
                assert_eq!(Ending::of(&text, &german), of_german, "{text}");
                assert_eq!(Ending::of(&text, &english), of_english, "{text}");
            }
        }
        assert_eq!(Ending::of("Rufen Sie mich bitte an", &both), Ending::Whole);
        let known = |(word, ends_in): &(&str, &[&str])| {
            ends_in.iter().all(|language| Backchannels::LANGUAGES.contains(language)) && !OPEN_WORDS.contains(word)
        };
        assert!(MOSTLY_OPEN_WORDS.iter().all(known));
    }

    #[test]
    fn a_sentence_may_be_whole_with_a_full_stop_or_without() {
        all_are(
            Ending::Whole,
            &[
                "opening hours",
                "a table for four",
                "a table for 4",
                "I have no idea",
                "मेरा नाम राम है",
                "I want a table for four.",
                "A table for 4.",
                "He said so.",
                "मेरा नाम राम है।",
                "میرا نام احمد ہے۔",
                "我要一张桌子。",
            ],
        );
    }

    #[test]
    fn questions_and_answers_finish_a_turn_in_every_script() {
        all_are(
            Ending::Finished,
            &["How are you?", "Ja, genau!", "yes", "No", "Si.", "thank you", "dank je wel", "كم الساعة؟", "你好吗？"],
        );
    }

    #[test]
    fn without_words_nothing_is_known() {
        all_are(Ending::Unknown, &["", "  ", "...", "?"]);
    }
}
