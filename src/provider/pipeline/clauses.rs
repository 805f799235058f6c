//! Text that a model writes token by token, cut into clauses that can be spoken.
//!
//! A clause ends where a speaker would breathe: after a sentence, or after a comma when it is long enough. It is known
//! to end with the first character behind it, so one is handed on within one token of its end. The first clause of an
//! answer may be shorter than the others: the caller waits for it.

use crate::speech::{is_spoken, speakable};

/// Shorter than this, a comma does not end the first clause: one word alone sounds chopped off.
const FIRST_MIN: usize = 16;
/// The same for all others: intonation suffers from every cut, and nobody waits.
const NEXT_MIN: usize = 100;
/// Some ten seconds of speech. Longer ones are cut between words: no voice takes text without end, and what is
/// being spoken cannot be taken back in parts.
const CHARS_MAX: usize = 220;

/// Abbreviations that a sentence does not end with, in lower case and without their last dot.
const NEVER_LAST: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "st", "vs", "approx", "e.g", "i.e", "z.b", "d.h", "u.a", "bzw", "ca", "hr", "fr",
    "inkl", "evtl", "mme", "mm", "env", "sr", "sra", "srta", "ud", "uds", "dra", "sig", "dott", "dhr", "mevr", "bijv",
    "tel", "gen", "rev", "ing", "art",
];
/// Abbreviations that may be a sentence's last word: they are, if a capital letter follows.
const MAYBE_LAST: &[&str] =
    &["etc", "a.m", "p.m", "usw", "inc", "ltd", "co", "ave", "blvd", "jr", "min", "max", "std", "sek", "mio", "mrd"];
/// Abbreviations that stand before a number. So do those of weekdays and [`MONTHS`]; a capital letter behind one of them begins
/// another sentence.
const BEFORE_NUMBER: &[&str] = &[
    "no", "nr", "art", "tel", "pp", "ext", "apt", "mon", "tue", "tues", "wed", "thu", "thur", "thurs", "fri", "sat",
    "sun", "mo", "di", "mi", "do", "sa", "so",
];
/// In short. They can follow the number of a day as well: "am 5. Feb. wieder".
const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "okt", "nov", "dec", "dez", "janv", "févr",
    "avr", "juil", "déc", "ene", "abr", "dic", "ott",
];
/// What follows the number of a day, or another that counts, so that its dot is no end: "3. Mai", "das 100. Mal".
const COUNTED: &[&str] = &[
    "mal",
    "stock",
    "etage",
    "klasse",
    "platz",
    "geburtstag",
    "jahrhundert",
    "januar",
    "februar",
    "märz",
    "april",
    "mai",
    "juni",
    "juli",
    "august",
    "september",
    "oktober",
    "november",
    "dezember",
];

/// What a character behind a possible end says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Yes,
    No,
    /// Only what comes next can tell.
    Unknown,
}

/// Cuts one answer.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    text: String,
    /// Clauses that were handed on.
    cut: usize,
}

impl Cutter {
    /// Takes what the model wrote next; appends the clauses that are complete.
    pub(super) fn push(&mut self, text: &str, clauses: &mut Vec<String>) {
        for c in text.chars().filter(|&c| is_spoken(c)) {
            self.text.push(c);
            while let Some(end) = self.end() {
                self.take(end, clauses);
            }
        }
    }

    /// The answer is complete: so is what is left of it.
    pub(super) fn finish(&mut self, clauses: &mut Vec<String>) {
        self.take(self.text.len(), clauses);
    }

    fn take(&mut self, end: usize, clauses: &mut Vec<String>) {
        let rest = self.text.split_off(end);
        let clause = std::mem::replace(&mut self.text, rest.trim_start().to_owned());
        let clause = speakable(&clause);
        if clause.chars().any(char::is_alphanumeric) {
            clauses.push(clause);
            self.cut += 1;
        }
    }

    /// Where the first clause of the text ends, if that is known by its last character.
    fn end(&self) -> Option<usize> {
        let text = &self.text;
        let last = text.chars().next_back()?;
        if last == '\n' || matches!(last, '。' | '！' | '？') {
            return Some(text.len());
        }
        if text.chars().count() > CHARS_MAX {
            return Some(text.rfind([',', ';', ' ']).filter(|&at| at > 0).map_or(text.len(), |at| at + 1));
        }
        if has_open_link(text) {
            return None;
        }
        // An end is looked for when a word behind it is complete or has at least begun.
        let body = text.trim_end_matches(|c: char| !c.is_whitespace());
        let (said, word) = (body.trim_end(), &text[body.len()..]);
        if said.len() == body.len() || said.is_empty() {
            return None;
        }
        // Behind a space the word before it counts; its own beginning can decide as well.
        match end_of(said, word, last.is_whitespace()) {
            End::Yes => Some(body.len()),
            End::No | End::Unknown if last.is_whitespace() => {
                let before = said.trim_end_matches(|c: char| !c.is_whitespace());
                let (earlier, following) = (before.trim_end(), &said[before.len()..]);
                let late = !earlier.is_empty() && end_of(earlier, following, true) == End::Yes;
                (late && is_open(earlier)).then_some(before.len()).or_else(|| self.at_comma(said, body.len()))
            }
            End::No | End::Unknown => None,
        }
    }

    fn at_comma(&self, said: &str, end: usize) -> Option<usize> {
        let min = if self.cut == 0 { FIRST_MIN } else { NEXT_MIN };
        let pause = said.ends_with([',', ';', ':', '،', '؛']) || said.ends_with(" –") || said.ends_with(" -");
        (pause && said.chars().count() >= min).then_some(end)
    }
}

/// Whether the text ends within a link, `[words](address)`.
fn has_open_link(text: &str) -> bool {
    let Some((_, link)) = text.rsplit_once('[') else { return false };
    link.split_once(']').is_none_or(|(_, address)| address.starts_with('(') && !address.contains(')'))
}

/// Whether the dot at the end could not be judged by the first letter behind it.
fn is_open(said: &str) -> bool {
    end_of(said, "", true) == End::Unknown
}

/// Whether a sentence ends with `said`, which is followed by `word`, of which there may be more unless `whole`.
fn end_of(said: &str, word: &str, whole: bool) -> End {
    let bare = said.trim_end_matches(['"', '\'', ')', ']', '»', '”', '’']);
    match bare.chars().next_back() {
        Some('!' | '?' | '…') => return End::Yes,
        // Hindi and its neighbours, Urdu, Arabic: no abbreviation or number ends with one of these.
        Some('।' | '॥' | '۔' | '؟') => return End::Yes,
        Some('.') => {}
        _ => return End::No,
    }
    let stem = bare.trim_end_matches('.');
    if bare.len() - stem.len() > 1 {
        return End::Yes;
    }
    let last = stem.rsplit([' ', '(', '"', '„', '“']).next().unwrap_or_default().to_lowercase();
    let capital = word.chars().next().map(char::is_uppercase);
    let by_the_next = capital.map_or(End::Unknown, |capital| if capital { End::Yes } else { End::No });
    if BEFORE_NUMBER.contains(&&*last)
        || MONTHS.contains(&&*last)
        || MAYBE_LAST.contains(&&*last)
        || last.ends_with("str")
    {
        return by_the_next;
    }
    let mut parts = last.split('.');
    if last.chars().all(|c| c.is_ascii_digit() || c == '.') && last.starts_with(|c: char| c.is_ascii_digit()) {
        // "1." and what is listed; "am 24.12. um zehn"; "am 3. Mai" and "der 2. Stock", but "Room 3. Then go left."
        return match capital {
            _ if stem.to_lowercase() == last => End::No,
            Some(true) if parts.nth(1).is_some() || last.len() > 3 => End::Yes,
            Some(true) if whole => {
                let word = word.trim_end_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
                if COUNTED.contains(&&*word) || MONTHS.contains(&&*word) { End::No } else { End::Yes }
            }
            Some(false) => End::No,
            Some(true) | None => End::Unknown,
        };
    }
    // Initials: "J. R. Ewing", "the U.S. office".
    let initials = parts.all(|part| part.chars().count() == 1);
    if NEVER_LAST.contains(&&*last) || initials { End::No } else { End::Yes }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clauses of `text`, however it is cut into tokens.
    fn cut(text: &str) -> Vec<String> {
        let by = |size: usize| {
            let (mut cutter, mut clauses) = (Cutter::default(), Vec::new());
            let letters: Vec<char> = text.chars().collect();
            for token in letters.chunks(size) {
                cutter.push(&token.iter().collect::<String>(), &mut clauses);
            }
            cutter.finish(&mut clauses);
            clauses
        };
        assert_eq!(by(1), by(1000), "tokens decide nothing");
        assert_eq!(by(1), by(3), "tokens decide nothing");
        by(1)
    }

    #[test]
    fn sentences_are_clauses() {
        assert_eq!(cut("Hello. How are you? Fine!"), ["Hello.", "How are you?", "Fine!"]);
        assert_eq!(cut("He said \"no.\" Then he left."), ["He said \"no.\"", "Then he left."]);
        assert_eq!(cut("Wait... I see."), ["Wait...", "I see."]);
        assert_eq!(cut("One\nTwo"), ["One", "Two"]);
        assert_eq!(cut("好的。再见。"), ["好的。", "再见。"]);
    }

    #[test]
    fn sentences_end_with_the_signs_of_hindi_urdu_and_arabic() {
        assert_eq!(
            cut("नमस्ते। आप कैसे हैं? हम रविवार को खुले हैं॥ धन्यवाद।"),
            ["नमस्ते।", "आप कैसे हैं?", "हम रविवार को खुले हैं॥", "धन्यवाद।"]
        );
        assert_eq!(cut("جی ہاں۔ ہم کل کھلے ہیں۔ شکریہ۔"), ["جی ہاں۔", "ہم کل کھلے ہیں۔", "شکریہ۔"]);
        assert_eq!(cut("كيف حالك؟ أنا بخير."), ["كيف حالك؟", "أنا بخير."]);
        assert_eq!(cut("قال «نعم؟» ثم ذهب."), ["قال «نعم؟»", "ثم ذهب."]);
        assert_eq!(
            cut("بالتأكيد يمكنني مساعدتك، فقط أخبرني متى."),
            ["بالتأكيد يمكنني مساعدتك،", "فقط أخبرني متى."],
            "a comma ends the first clause"
        );
    }

    #[test]
    fn a_link_stays_whole() {
        assert_eq!(
            cut("See [opening hours, prices and more. And directions](https://example.com/x). Bye."),
            ["See opening hours, prices and more. And directions.", "Bye."]
        );
        assert_eq!(cut("It is [very] late. Go."), ["It is [very] late.", "Go."]);
    }

    #[test]
    fn abbreviations_of_urdu_without_spaces_stay_whole() {
        assert_eq!(cut("پی۔آئی۔اے کا دفتر کھلا ہے۔"), ["پی۔آئی۔اے کا دفتر کھلا ہے۔"]);
    }

    #[test]
    fn numbers_dates_times_and_addresses_stay_whole() {
        for text in [
            "It costs 3.50 dollars and 1,000 yen.",
            "We open at 9.30 a.m. and close at 5 p.m. on Fridays.",
            "Ihr Termin ist am 3. Mai um 14.30 Uhr.",
            "Im 2. stock links.",
            "Write to info@example.com or see www.example.com/help for more.",
            "Version 2.0.1 is out.",
            "Ihr Termin ist am 24.12. um 10 Uhr oder am 23.12.2026.",
            "Your appointment is on Mon. 5 Jan. 2026 or on Feb. 3 at noon.",
            "Von Mo. bis Do. und ab 2. Jan. auch am 5. Feb. wieder.",
            "Das 100. Mal im 3. Stock.",
            "Le 5 janv. 2026 à midi.",
        ] {
            assert_eq!(cut(text), [text]);
        }
        assert_eq!(cut("Room 3. Then go left."), ["Room 3.", "Then go left."]);
        assert_eq!(cut("It is 9.30. Then we go."), ["It is 9.30.", "Then we go."]);
        assert_eq!(cut("It was in 1984. Then we went."), ["It was in 1984.", "Then we went."]);
        assert_eq!(cut("It rains in Jan. Then it snows."), ["It rains in Jan.", "Then it snows."]);
        assert_eq!(cut("1. Call us.\n2. Write."), ["1. Call us.", "2. Write."]);
        assert_eq!(cut("We close at 5 p.m. Then we go."), ["We close at 5 p.m.", "Then we go."]);
    }

    #[test]
    fn abbreviations_and_initials_end_nothing() {
        for text in [
            "Room No. 5 is Dr. Smith and Mrs. Jones are in.",
            "Das kostet z.B. bei Hr. Meier ca. zehn Euro.",
            "M. Dupont vous rappelle.",
            "El Sr. López no está.",
            "J. R. Ewing called.",
            "The U.S. office has Ext. 12 and Apt. 4.",
            "Hauptstr. 5 ist 10 Min. von hier.",
            "T.a.v. de heer Jansen.",
        ] {
            assert_eq!(cut(text), [text]);
        }
    }

    #[test]
    fn a_comma_ends_the_first_clause_soon_and_later_ones_late() {
        assert_eq!(
            cut("Of course, I can help you with that, just tell me when, and I will look."),
            ["Of course, I can help you with that,", "just tell me when, and I will look."]
        );
        assert_eq!(cut("Yes, sure."), ["Yes, sure."], "one word alone sounds chopped off");
    }

    #[test]
    fn the_first_clause_is_known_within_one_token_of_its_end() {
        let (mut cutter, mut clauses) = (Cutter::default(), Vec::new());
        for token in ["Certainly", ".", " I"] {
            assert!(clauses.is_empty());
            cutter.push(token, &mut clauses);
        }
        assert_eq!(clauses, ["Certainly."]);
    }

    #[test]
    fn a_text_without_any_end_is_cut_between_words_and_one_without_words_anywhere() {
        let clauses = cut(&"word ".repeat(2_000));
        assert!(clauses.len() > 40 && clauses.iter().all(|clause| clause.len() <= CHARS_MAX));
        assert!(clauses.iter().all(|clause| clause.starts_with("word") && clause.ends_with("word")));
        assert!(cut(&"x".repeat(10_000)).iter().all(|clause| clause.len() <= CHARS_MAX + 1));
    }

    #[test]
    fn what_is_only_for_the_eye_is_not_spoken() {
        assert_eq!(cut("**Sure** 😀 `now`.\n- one\n# two\n---\n"), ["Sure  now.", "one", "two"]);
        for text in ["Press # or *.", "-5 degrees outside.", "Write to john_smith@example.com."] {
            assert_eq!(cut(text), [text]);
        }
    }
}
