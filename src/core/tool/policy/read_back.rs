//! Comparison of an agent's words with the question that the caller is to be asked: the same values, and nothing else after it.
//!
//! An agent puts a question in its own words. They count where every number and every name of the question was said, no other
//! number, no negation, and behind them no more than "is that right?".

use super::judge::words;
use regex::Regex;
use std::{collections::BTreeSet, sync::LazyLock};
use text2num::{Language, replace_numbers_in_text};

/// Outcome of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBack {
    /// The question.
    Same,
    /// One about something else, or something else after the question.
    Other,
    /// The question with other values.
    Wrong,
    /// Neither this question nor another.
    Nothing,
}

/// The question that a caller is to be asked.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub preview: &'a str,
    /// Words of its arguments.
    pub values: &'a BTreeSet<String>,
    /// Keys for yes and no, which a sentence about them names.
    pub keys: [char; 2],
    /// Requires the words of the preview in their order, with no other between them.
    pub word_for_word: bool,
}

/// Numbers up to this have words that mean something else in another language, as "once" is eleven in Spanish.
const SMALL_MAX: f64 = 12.0;
/// Words of less than this are in every sentence.
const LONG_WORD: usize = 4;

/// Words of which short sentences consist that ask for a yes: "Is that right?", "Press 1 for yes or 2 for no."
const TAGS: &str = "\
    is it that this right correct ok okay fine yes no or and do you agree confirm shall should may can i go ahead with please say \
    what want press key for just so proceed now then sure \
    ist das so richtig korrekt stimmt ja oder nein soll darf ich einverstanden passt in ordnung bitte sagen sie drücken drücke taste \
    die für und also tun machen \
    c'est ça est ce que cela correct exact d'accord oui ou non dites appuyez sur la touche pour et s'il vous plaît puis-je je \
    es correcto esto está bien de acuerdo sí o confirma diga pulse tecla para y por favor lo hago \
    è corretto giusto va bene d'accordo conferma sì dica prema il tasto per favore procedo \
    está certo correto isso confirma sim ou não diga prima tecla posso \
    klopt dat goed akkoord zegt u druk op de toets voor ja of nee alstublieft mag ik \
    er det riktig rigtigt greit stemmer det nei nej eller trykk tryk si skal jeg gøre gjøre \
    सही है क्या यह ठीक हाँ या नहीं कहिए \
    هل هذا صحيح نعم أو لا من فضلك قل";

/// Words that turn a sentence into its opposite.
const NEGATIONS: &[&str] = &[
    "not",
    "don't",
    "doesn't",
    "didn't",
    "isn't",
    "aren't",
    "won't",
    "wouldn't",
    "can't",
    "cannot",
    "couldn't",
    "shouldn't",
    "never",
    "without",
    "nicht",
    "kein",
    "keine",
    "keinen",
    "keiner",
    "nie",
    "niemals",
    "ohne",
    "ne",
    "pas",
    "jamais",
    "aucun",
    "sans",
    "no",
    "nunca",
    "jamás",
    "sin",
    "non",
    "senza",
    "não",
    "sem",
    "niet",
    "geen",
    "nooit",
    "zonder",
    "ikke",
    "aldri",
    "aldrig",
    "uten",
    "uden",
    "नहीं",
    "मत",
    "न",
    "nahi",
    "nahin",
    "لا",
    "لن",
    "ليس",
    "لم",
];
/// Words for what is done with a key.
const PRESS: &[&str] = &[
    "press", "push", "hit", "dial", "drücken", "drücke", "wählen", "taste", "appuyez", "tapez", "touche", "pulse",
    "marque", "tecla", "prema", "premere", "tasto", "prima", "prime", "druk", "toets", "kies",
];
const MINUS: &[&str] = &["minus", "negative", "moins", "menos", "meno"];

static TAG_WORDS: LazyLock<BTreeSet<String>> = LazyLock::new(|| words(TAGS).into_iter().collect());
/// Digits with single separators between them.
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\d+(?:[.,:/'’ \u{a0}\u{202f}-]\d+)*")
        .unwrap_or_else(|error| unreachable!("the pattern is fixed: {error}"))
});
/// Without Danish, whose "to" for two is in most sentences of English.
static LANGUAGES: LazyLock<[Language; 7]> = LazyLock::new(|| {
    [
        Language::english(),
        Language::german(),
        Language::french(),
        Language::spanish(),
        Language::italian(),
        Language::portugese(),
        Language::dutch(),
    ]
});

/// Compares `said`, the agent's words before the caller's answer, with the question that is wanted.
pub fn read_back(said: &str, wanted: &Wanted<'_>) -> ReadBack {
    let found: Vec<ReadBack> = languages_of(said)
        .map(|language| {
            let put = Question::of(wanted, language).is_put(&said_sentences(said, language, wanted.keys));
            let is_own = wanted.word_for_word && !is_in(wanted.preview, said, language);
            if put == ReadBack::Same && is_own { ReadBack::Wrong } else { put }
        })
        .collect();
    // What is a number in one language may be another word in the one that is spoken.
    let best = [ReadBack::Same, ReadBack::Wrong, ReadBack::Other].into_iter().find(|one| found.contains(one));
    best.unwrap_or(ReadBack::Nothing)
}

/// Words and numbers that an agent has to say when it puts a question.
struct Question {
    words: Vec<String>,
    numbers: BTreeSet<String>,
    /// Those that it has in words.
    in_words: BTreeSet<String>,
    /// Words of its values, and its longer words.
    names: BTreeSet<String>,
    long: BTreeSet<String>,
    keys: [char; 2],
}

impl Question {
    fn of(wanted: &Wanted<'_>, language: &Language) -> Self {
        let words = words(wanted.preview);
        let in_letters = words.iter().filter(|word| !has_digit(word));
        let (names, others): (BTreeSet<String>, BTreeSet<String>) =
            in_letters.cloned().partition(|word| wanted.values.contains(word));
        let long = others.into_iter().filter(|word| word.chars().count() >= LONG_WORD).collect();
        let in_words = numbers_of(&replace_numbers_in_text(wanted.preview, language, 0.0));
        Self { numbers: numbers_of(wanted.preview), in_words, words, names, long, keys: wanted.keys }
    }

    /// Whether a clause is about it.
    fn is_told_in(&self, clause: &Clause) -> bool {
        let told = self.long.intersection(&clause.words).count();
        let is_key = |word: &str| self.keys.iter().any(|key| word.chars().eq([*key]));
        clause.words.iter().any(|word| has_digit(word) && !is_key(word))
            || !self.numbers.is_disjoint(&clause.all)
            || !self.names.is_disjoint(&clause.words)
            || told > 0 && told * 2 >= self.long.len()
    }

    fn is_put(&self, sentences: &[Vec<Clause>]) -> ReadBack {
        let clauses = || sentences.iter().flatten();
        if !clauses().any(|clause| self.is_told_in(clause)) {
            return if clauses().any(|clause| clause.asks) { ReadBack::Other } else { ReadBack::Nothing };
        }
        if !clauses().last().is_some_and(|last| self.is_told_in(last)) {
            return ReadBack::Other;
        }
        // What was said before the sentences that put it is no part of it.
        let Some(put) = (0..sentences.len()).rev().map(|from| &sentences[from..]).find(|put| self.has_all(put)) else {
            return ReadBack::Wrong;
        };
        let whole = (1..=put.len()).find(|to| self.has_all(&put[..*to])).unwrap_or(put.len());
        let is_more = put[whole..].iter().flatten().any(|clause| clause.asks || !self.is_repeated_in(clause));
        if is_more || !self.has_nothing_else(put) { ReadBack::Wrong } else { ReadBack::Same }
    }

    /// Tells whether a clause adds nothing to the question.
    fn is_repeated_in(&self, clause: &Clause) -> bool {
        clause.words.iter().all(|word| has_digit(word) || self.words.contains(word) || TAG_WORDS.contains(word))
    }

    fn has_all(&self, sentences: &[Vec<Clause>]) -> bool {
        let told = |word: &String| sentences.iter().flatten().any(|clause| clause.words.contains(word));
        let numbers: BTreeSet<&String> = sentences.iter().flatten().flat_map(|clause| &clause.all).collect();
        let most_words = self.long.iter().filter(|word| told(word)).count() * 2 >= self.long.len();
        self.numbers.iter().all(|number| numbers.contains(number)) && self.names.iter().all(told) && most_words
    }

    fn has_nothing_else(&self, sentences: &[Vec<Clause>]) -> bool {
        let turns = |word: &&&str| !self.words.iter().any(|own| own == **word);
        let mut clauses = sentences.iter().flatten();
        clauses.all(|clause| {
            clause.sure.iter().all(|number| self.numbers.contains(number) || self.in_words.contains(number))
                && !NEGATIONS.iter().filter(turns).any(|word| clause.words.contains(*word))
        })
    }
}

/// Words between two commas, their numbers in figures.
struct Clause {
    words: BTreeSet<String>,
    /// It is of a question, or names a key.
    asks: bool,
    /// Every number in it, and those that are surely meant as such: "one" is often none.
    all: BTreeSet<String>,
    sure: BTreeSet<String>,
}

/// Those in which most of a text is numbers above the small ones; where it has none, all of them.
fn languages_of(text: &str) -> impl Iterator<Item = &'static Language> {
    let left = |language: &Language| {
        let text = replace_numbers_in_text(text, language, SMALL_MAX + 1.0);
        text.chars().filter(|c| c.is_alphabetic()).count()
    };
    let least = LANGUAGES.iter().map(left).min().unwrap_or_default();
    LANGUAGES.iter().filter(move |language| left(language) == least)
}

/// Sentences of a text, without clauses that only ask for a yes.
fn said_sentences(text: &str, language: &Language, keys: [char; 2]) -> Vec<Vec<Clause>> {
    let is_key = |word: &str| keys.iter().any(|key| word.chars().eq([*key]));
    let clause = |clause: &str, is_question: bool| {
        let [all, sure] = [0.0, 1.5].map(|least| replace_numbers_in_text(clause, language, least));
        let (raw, found) = (words(clause), words(&all));
        let names_key = found.iter().any(|word| is_key(word)) && raw.iter().any(|word| PRESS.contains(&word.as_str()));
        let is_tag = found.iter().all(|word| TAG_WORDS.contains(word) || is_key(word));
        (!is_tag).then(|| Clause {
            asks: is_question || names_key,
            all: numbers_of(&all),
            sure: numbers_of(&sure),
            words: raw.into_iter().chain(found).chain(words(&sure)).collect(),
        })
    };
    let sentence = |sentence: &str| {
        let is_question = sentence.ends_with(['?', '？', '؟']);
        parts(sentence, &[',', '،']).filter_map(|part| clause(part, is_question)).collect::<Vec<Clause>>()
    };
    let ends = ['.', '?', '!', '…', ';', '\n', '।', '؟', '۔', '。', '？'];
    parts(text, &ends).map(sentence).filter(|sentence| !sentence.is_empty()).collect()
}

/// Tells whether a text has the words of a sentence, in their order and with no other between them. Numbers are compared by value.
fn is_in(sentence: &str, text: &str, language: &Language) -> bool {
    let [sentence, text] = [sentence, text].map(|text| {
        let text = replace_numbers_in_text(text, language, 0.0);
        words(&NUMBER.replace_all(&text, |found: &regex::Captures<'_>| format!(" {} ", value_of(&found[0]))))
    });
    sentence.is_empty() || text.windows(sentence.len()).any(|window| window == sentence)
}

/// Parts that end with one of these signs, where no digit follows.
fn parts<'a>(text: &'a str, ends: &'a [char]) -> impl Iterator<Item = &'a str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_end = |(at, letter): &(usize, char)| {
            let after = &rest[at + letter.len_utf8()..];
            ends.contains(letter) && !after.starts_with(|next: char| next.is_ascii_digit())
        };
        let end = rest.char_indices().find(is_end).map_or(rest.len(), |(at, letter)| at + letter.len_utf8());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part).filter(|part| !part.is_empty())
    })
}

fn has_digit(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

/// Numbers of a text by value, or digit by digit where they are none: "5.000,00" and "5000" are one, "123-45-67" is "1234567".
fn numbers_of(text: &str) -> BTreeSet<String> {
    let number = |found: regex::Match<'_>| {
        let before = &text[..found.start()];
        let bare = before.trim_end_matches(['-', '−']);
        let is_alone = !bare.ends_with(|c: char| c.is_alphanumeric());
        let minus = (bare.len() < before.len() && is_alone)
            || words(before).last().is_some_and(|word| MINUS.contains(&word.as_str()));
        let value = value_of(found.as_str());
        if minus { format!("-{value}") } else { value }
    };
    NUMBER.find_iter(text).map(number).collect()
}

fn value_of(number: &str) -> String {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let separators: Vec<char> = number.chars().filter(|c| !c.is_ascii_digit()).collect();
    let groups: Vec<&str> = number.split(|c: char| !c.is_ascii_digit()).collect();
    let Some((last, first)) = groups.split_last().filter(|(_, first)| !first.is_empty()) else { return digits };
    let thousands =
        |groups: &[&str]| (1..=3).contains(&groups[0].len()) && groups[1..].iter().all(|group| group.len() == 3);
    let same = |separators: &[char]| separators.windows(2).all(|pair| pair[0] == pair[1]);
    let is_decimal = matches!(separators.last(), Some('.' | ','));
    let by_thousands = |separator: &char| !matches!(separator, ':' | '/' | '-');
    if separators.iter().all(by_thousands) {
        if same(&separators) && thousands(&groups) {
            return digits;
        }
        let (before, point) = separators.split_at(separators.len() - 1);
        if is_decimal && same(before) && !before.contains(&point[0]) && (first.len() == 1 || thousands(first)) {
            let fraction = last.trim_end_matches('0');
            let whole: String = first.concat();
            return if fraction.is_empty() { whole } else { format!("{whole}.{fraction}") };
        }
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(said: &str, preview: &str, values: &str) -> ReadBack {
        let values = words(values).into_iter().collect();
        read_back(said, &Wanted { preview, values: &values, keys: ['1', '2'], word_for_word: false })
    }

    #[test]
    fn word_for_word_no_word_of_the_sentence_is_another_one() {
        let values = words("5000 Bob").into_iter().collect();
        let wanted = Wanted { preview: "Pay 5000 to Bob?", values: &values, keys: ['1', '2'], word_for_word: true };
        for same in ["Pay 5000 to Bob?", "Sure. Pay five thousand to Bob? Yes or no?", "So: pay 5,000 to Bob?"] {
            assert_eq!(read_back(same, &wanted), ReadBack::Same, "{same}");
        }
        for own in ["Shall I send 5000 to Bob?", "To Bob I pay 5000, is that right?", "Pay the 5000 to Bob?"] {
            assert_eq!(read_back(own, &wanted), ReadBack::Wrong, "{own}");
        }
        assert_eq!(read_back("Pay 5000 to Bob? Are you still there?", &wanted), ReadBack::Other);
        assert_eq!(read_back("Is that right?", &wanted), ReadBack::Nothing);
    }

    #[test]
    fn a_question_counts_by_its_values() {
        let preview = "Pay 5000 to Bob?";
        for same in [
            "Pay 5000 to Bob?",
            "Sure, I can do that. So I pay 5,000 to Bob. Is that right?",
            "Pay five thousand to Bob?",
            "Your balance is ten. I will pay 5000 to Bob, okay?",
            "Pay 5000 to Bob? So 5000 to Bob. Yes or no?",
            "Pay 5 000.00 to Bob, yes or no?",
            "I pay Bob 5000. Press 1 for yes or 2 for no.",
        ] {
            assert_eq!(said(same, preview, "5000 Bob"), ReadBack::Same, "{same}");
        }
        for wrong in [
            "Pay 50000 to Bob?",
            "Pay 15000 to Bob?",
            "Pay fifty thousand to Bob?",
            "Pay -5000 to Bob?",
            "Pay 5 to Bob? Reference 0001.",
            "Pay 5000 to Ann?",
            "Pay 5000 to Bobby?",
            "Pay 5000 to Bob on the 5th of May?",
            "I will not pay 5000 to Bob. Is that right?",
            "So you want to pay Bob?",
            "I will not, under no circumstances, pay 5000 to Bob.",
            "Pay 5 million to Bob?",
            "Pay 5000 to Bob and fifty to me?",
            "Pay 5000 to Bob? Pay 5000 to Ann?",
            "Pay 5000 to Bob? That is 5000 for Ann. Yes or no?",
        ] {
            assert_eq!(said(wrong, preview, "5000 Bob"), ReadBack::Wrong, "{wrong}");
        }
        for other in [
            "Shall I send you our brochure?",
            "For sales press 1, for support press 2.",
            "I will not pay 5000 to Bob. Would you like to hear our opening hours?",
            "Pay 5000 to Bob? Are you still there?",
        ] {
            assert_eq!(said(other, preview, "5000 Bob"), ReadBack::Other, "{other}");
        }
        for nothing in ["", "Is that right?", "Ja oder nein?", "One moment, let me see."] {
            assert_eq!(said(nothing, preview, "5000 Bob"), ReadBack::Nothing, "{nothing}");
        }
    }

    #[test]
    fn numbers_in_words_count_in_many_languages() {
        for told in [
            "Ich überweise fünftausend Euro an Bob, ist das richtig?",
            "Je verse cinq mille euros à Bob, c'est correct ?",
            "Pago cinco mil euros a Bob, ¿es correcto?",
            "Pago cinquemila euro a Bob, è corretto?",
            "Ik betaal vijfduizend euro aan Bob, klopt dat?",
        ] {
            assert_eq!(said(told, "Bob: 5000?", "5000 Bob"), ReadBack::Same, "{told}");
            assert_eq!(said(told, "Bob: 500?", "500 Bob"), ReadBack::Wrong, "{told}");
        }
        assert_eq!(said("One ticket, is that right?", "Book 1 ticket?", "1"), ReadBack::Same);
        assert_eq!(said("I book two tickets for this one, is that right?", "Book 2 tickets?", "2"), ReadBack::Same);
    }

    #[test]
    fn long_numbers_are_said_in_groups_and_a_question_may_hold_a_negation() {
        let preview = "Send 40 euros to account 1234567, reference rent?";
        let values = "40 1234567 rent";
        let said_so = "So I will send 40 euros to the account 123-45-67 with reference rent. Is that right?";
        assert_eq!(said(said_so, preview, values), ReadBack::Same);
        assert_eq!(said(&said_so.replace("123-45-67", "1 2 3 4 5 6 7"), preview, values), ReadBack::Same);
        assert_eq!(said(&said_so.replace("40 euros", "4 euros"), preview, values), ReadBack::Wrong);
        assert_eq!(said("Do not disturb room 12?", "Do not disturb room 12?", "12"), ReadBack::Same);
    }

    proptest! {
        #[test]
        fn no_other_amount_and_no_other_name_passes(
            amount in 0_u32..2_000_000, other in 0_u32..2_000_000, name in "[A-Z][a-z]{1,7}", another in "[A-Z][a-z]{1,7}",
            before in "(Sure\\. |I can do that for you\\. )?", after in "( Is that right\\?| Yes or no\\?)?",
        ) {
            prop_assume!([&name, &another].iter().all(|name| !["pay", "to"].contains(&name.to_lowercase().as_str())));
            let preview = format!("Pay {amount} to {name}?");
            let values = format!("{amount} {name}");
            let sentence = |amount: u32, name: &str| format!("{before}Pay {amount} to {name}?{after}");
            prop_assert_eq!(said(&sentence(amount, &name), &preview, &values), ReadBack::Same);
            if other != amount {
                prop_assert_ne!(said(&sentence(other, &name), &preview, &values), ReadBack::Same);
            }
            if !another.eq_ignore_ascii_case(&name) {
                prop_assert_ne!(said(&sentence(amount, &another), &preview, &values), ReadBack::Same);
            }
        }
    }
}
