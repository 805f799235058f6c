//! Whether what a caller has said so far sounds finished, as far as the last words tell.

/// What the last words say about the end of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ending {
    /// Something has to follow: "and", "my number is", a number that is being dictated.
    Open,
    #[default]
    Unknown,
    /// A sentence, as the transcriber punctuates it, or as it believes by itself.
    Finished,
}

/// Digits at the end that are part of a longer number: "table for 4" is a sentence, "0 7 1" hardly.
const DICTATED_DIGITS_MIN: usize = 3;

/// Words that no sentence ends with, in English, German, French, Spanish, Italian, Dutch and Portuguese. Words that
/// end sentences in another of these languages are left out, and so are single letters: callers spell.
const OPEN_WORDS: &[&str] = &[
    "and", "but", "or", "because", "the", "an", "my", "your", "with", "from", "um", "uh", "er", "und", "aber", "oder",
    "weil", "der", "die", "das", "ein", "eine", "einen", "mit", "von", "für", "mein", "meine", "äh", "ähm", "et",
    "mais", "parce", "le", "les", "une", "du", "pour", "avec", "euh", "mon", "ma", "pero", "porque", "el", "los",
    "una", "para", "con", "mi", "perché", "il", "lo", "di", "per", "ehm", "mio", "maar", "omdat", "het", "een", "van",
    "voor", "met", "mijn", "mas", "os", "uma", "com", "meu", "minha", "que", "che", "dat", "dass", "if", "wenn", "si",
    "als", "se",
];

impl Ending {
    pub fn of(text: &str) -> Self {
        let text = text.trim_end();
        match text.chars().next_back() {
            None => return Self::Unknown,
            Some(',' | ';' | ':' | '-' | '–' | '…') => return Self::Open,
            Some('?' | '!') => return Self::Finished,
            Some(_) => {}
        }
        if text.ends_with("...") {
            return Self::Open;
        }
        let bare = text.trim_end_matches('.');
        let dictated = bare.chars().rev().take_while(|c| c.is_ascii_digit() || " -.".contains(*c));
        if dictated.filter(char::is_ascii_digit).count() >= DICTATED_DIGITS_MIN {
            return Self::Open;
        }
        let last = bare.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_lowercase();
        match OPEN_WORDS.contains(&&*last) {
            true => Self::Open,
            false if bare.len() < text.len() => Self::Finished,
            false => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_to_go_on_is_told_from_what_is_said() {
        for text in [
            "I would like to book a table and",
            "Meine Nummer ist 0 3 0",
            "parce que",
            "well,",
            "my number is 555-12",
            "Um",
        ] {
            assert_eq!(Ending::of(text), Ending::Open, "{text}");
        }
        for text in ["How are you?", "I want a table for four.", "A table for 4.", "Ja, genau!"] {
            assert_eq!(Ending::of(text), Ending::Finished, "{text}");
        }
        for text in ["", "  ", "opening hours", "a table for 4", "E", "I spell it A"] {
            assert_eq!(Ending::of(text), Ending::Unknown, "{text}");
        }
    }
}
