//! Letters and digits at the end of what a caller has said: whether more of them follow.
//!
//! Who spells pauses behind each letter, and who dictates a number behind each group, longer than between two sentences.
//! A number that is said at once ("4711", "1984", "a table for four") is not dictated.

use super::Ending;

/// A number of so many digits may be complete: most telephone numbers are.
const NUMBER_DIGITS: usize = 10;
/// Digits that are said as one group: "017".
const GROUP_DIGITS: usize = 3;
/// A single letter or digit so many words behind a cue belongs to it: "my name is spelled with an M".
const CUE_WITHIN: usize = 4;

/// Digits as words in the seven languages of [`super::OPEN_WORDS`]. Those that are articles or other words as well are
/// [`PERHAPS`].
const DIGIT_WORDS: &[&str] = &[
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "null", "eins", "zwei", "zwo",
    "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zéro", "deux", "trois", "quatre", "cinq", "sept",
    "huit", "neuf", "cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "due", "tre",
    "quattro", "cinque", "sei", "sette", "otto", "nove", "nul", "één", "twee", "drie", "vijf", "zes", "zeven", "negen",
    "dois", "três", "quatro", "sete", "oito", "meia",
];
/// Tens: "zéro six, quarante-huit" is dictated, "twenty-five" is a number.
const TENS: &[&str] = &[
    "ten",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
    "zehn",
    "zwanzig",
    "dreißig",
    "vierzig",
    "fünfzig",
    "sechzig",
    "siebzig",
    "achtzig",
    "neunzig",
    "dix",
    "vingt",
    "trente",
    "quarante",
    "cinquante",
    "soixante",
    "veinte",
    "treinta",
    "cuarenta",
    "cincuenta",
    "sesenta",
    "venti",
    "trenta",
    "quaranta",
    "cinquanta",
];
/// Letters and digits among others, and ordinary words elsewhere.
const PERHAPS: &[&str] = &["a", "e", "i", "o", "u", "y", "à", "è", "é", "oh", "un", "um", "een"];
/// What is said between letters and digits.
const JOINERS: &[&str] = &[
    "double",
    "triple",
    "doppel",
    "doble",
    "doppia",
    "dubbel",
    "dash",
    "hyphen",
    "dot",
    "slash",
    "underscore",
    "bindestrich",
    "punkt",
    "punt",
    "point",
    "punto",
    "ponto",
];
/// Parts of words by which somebody says that they spell or dictate.
const CUES: &[&str] = &[
    "spel", "letter", "lettre", "letra", "buchstab", "épel", "deletre", "soletr", "compit", "number", "nummer",
    "numéro", "número", "numero", "digit", "dígit", "ziffer", "cijfer", "code", "código", "codice", "leitzahl", "name",
];
/// "M wie Martha", "M as in Mike".
const LINKS: &[&str] = &["wie", "in", "for", "like", "comme", "come", "como", "van", "de"];
/// Abbreviations of single letters.
const ABBREVIATIONS: &[&str] = &["a.m", "p.m", "u.s", "u.s.a", "u.k", "e.u"];

/// What a run of letters and digits consists of.
#[derive(Debug, Default)]
struct Run {
    /// Words of it.
    words: usize,
    letters: usize,
    digit_words: usize,
    tens: usize,
    perhaps: usize,
    /// Those of them that are single letters.
    perhaps_letters: usize,
    /// Groups of digits in figures.
    groups: usize,
    /// Digits in these.
    digits: usize,
    /// One of them begins with a zero.
    leading_zero: bool,
}

/// What `words` (in lower case, without punctuation around them) say, if they end in letters or digits that are spelled.
pub(super) fn ending(words: &[String]) -> Option<Ending> {
    if names_a_letter(words) {
        return Some(Ending::Spelled);
    }
    let mut run = Run::default();
    for word in words.iter().rev() {
        if !run.take(word) {
            break;
        }
        run.words += 1;
    }
    let before = &words[..words.len() - run.words];
    let is_cue = |word: &String| CUES.iter().any(|cue| word.contains(cue));
    let cued = before.is_empty() || before.iter().rev().take(CUE_WITHIN).any(is_cue);
    run.ending(cued, before.is_empty())
}

/// "M as in Mike", "B wie Berta": the next letter follows.
fn names_a_letter(words: &[String]) -> bool {
    let is_letter = |word: &str| !PERHAPS.contains(&word) && is_one_letter(word);
    match words {
        [.., letter, how, link, _] if how == "as" && link == "in" => is_one_letter(letter),
        [.., letter, link, _] if link == "wie" => is_one_letter(letter),
        [.., letter, link, _] => is_letter(letter) && LINKS.contains(&&**link),
        _ => false,
    }
}

fn is_one_letter(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none()
}

impl Run {
    /// Takes a word, or several that are joined ("m-u-e", "555-12"); `false` if it is not a part of the run.
    fn take(&mut self, word: &str) -> bool {
        if ABBREVIATIONS.contains(&word) {
            return false;
        }
        let is_part = |part: &str| {
            is_one_letter(part)
                || part.bytes().all(|byte| byte.is_ascii_digit())
                || [DIGIT_WORDS, TENS, PERHAPS, JOINERS].iter().any(|list| list.contains(&part))
        };
        // "14.30" and "3.50" are one number each.
        let joined = if word.contains(|c: char| c.is_ascii_digit()) { &['-', '/'][..] } else { &['-', '.'][..] };
        let parts = || word.split(joined).filter(|part| !part.is_empty());
        if !parts().all(is_part) {
            return false;
        }
        parts().for_each(|part| self.count(part));
        true
    }

    fn count(&mut self, part: &str) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            self.groups += 1;
            self.digits += part.len();
            self.leading_zero |= part.len() > 1 && part.starts_with('0');
        } else if PERHAPS.contains(&part) {
            self.perhaps += 1;
            self.perhaps_letters += usize::from(is_one_letter(part));
        } else if is_one_letter(part) {
            self.letters += 1;
        } else if DIGIT_WORDS.contains(&part) {
            self.digit_words += 1;
        } else if TENS.contains(&part) {
            self.tens += 1;
        }
    }

    /// `cued`: spelling was announced, or nothing else was said; `alone`: the latter.
    fn ending(&self, cued: bool, alone: bool) -> Option<Ending> {
        let sure = self.letters + self.digit_words + self.groups;
        let signs = match sure {
            0 if cued => self.perhaps_letters,
            0 => 0,
            _ => sure + self.perhaps,
        };
        let digits = self.digits + self.digit_words;
        if self.letters == 0 && digits >= NUMBER_DIGITS && signs > 1 {
            return Some(Ending::Open);
        }
        match signs {
            0 => None,
            1 if self.letters == 1 => Some(if cued { Ending::Spelled } else { Ending::Open }),
            1 if self.groups == 0 => (cued && self.tens == 0).then_some(Ending::Spelled),
            1 if self.leading_zero => Some(Ending::Spelled),
            1 if self.digits == 1 => cued.then_some(Ending::Spelled),
            1 => ((alone || cued) && self.digits <= GROUP_DIGITS).then_some(Ending::Open),
            // "seven thirty-five" is a time.
            2 if self.tens > 0 => None,
            _ => Some(Ending::Spelled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::all_are, *};

    #[test]
    fn letters_that_are_spelled_are_known_from_the_first_one() {
        all_are(
            Ending::Spelled,
            &[
                "M",
                "M.",
                "E?",
                "My name is spelled M",
                "M U E",
                "M, U, E,",
                "M-U-E",
                "M. U. E.",
                "It is M U",
                "double L",
                "Ich buchstabiere: M",
                "B wie Berta",
                "M as in Mike.",
                "M comme Marie",
            ],
        );
    }

    #[test]
    fn digits_that_are_dictated_are_known_in_figures_and_in_words() {
        all_are(
            Ending::Spelled,
            &[
                "4",
                "4.",
                "four",
                "4 4 0",
                "4-4-0.",
                "my number is 555-12",
                "Meine Nummer ist 0 3 0",
                "My number is 017",
                "four four zero",
                "My number is four",
                "null drei null",
                "zéro six quarante-huit",
                "cero nueve",
                "A 4 B",
            ],
        );
    }

    #[test]
    fn a_number_that_is_said_at_once_or_is_as_long_as_a_telephone_number_is_not_waited_for_as_long() {
        all_are(Ending::Whole, &["My PIN is 4711.", "I was born in 1984.", "A table for 4.", "At 14.30."]);
        all_are(Ending::Whole, &["a table for four", "twenty-five people", "I am twenty-five", "at seven thirty-five"]);
        all_are(Ending::Open, &["555-123-4567.", "my number is 212 555 1234", "48"]);
    }

    #[test]
    fn single_letters_that_are_words_or_abbreviations_are_not_spelled() {
        all_are(Ending::Whole, &["At 5 p.m.", "I live in the U.S.", "So do I."]);
        all_are(Ending::Finished, &["Combien il y a ?"]);
        all_are(Ending::Open, &["Combien il y a", "Option B", "quiero pan y", "What a"]);
    }
}
