//! Whether the caller's words are a yes. Decided by fixed words on the caller's channel, never by a
//! model: careful, so that doubt is no yes.

/// Longer answers are not an answer to the question alone.
const WORDS_MAX: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    Unclear,
}

/// Words and phrases in lower case; an operator may replace them.
#[derive(Clone, PartialEq, Eq)]
pub struct Words {
    pub yes: Vec<String>,
    pub no: Vec<String>,
    /// With one of these a yes is not a plain yes.
    pub doubt: Vec<String>,
}

impl Default for Words {
    fn default() -> Self {
        let list = |words: &str| words.split(", ").map(str::to_owned).collect();
        Self {
            yes: list(
                "yes, yeah, yep, yup, sure, correct, right, okay, ok, confirm, confirmed, go ahead, do it, \
                 absolutely, definitely, exactly, please do, ja, jawohl, genau, richtig, stimmt, einverstanden, \
                 passt, oui, d'accord, c'est bon, sí, si, claro, correcto, de acuerdo, sì, certo, va bene, sim, \
                 isso, tak, zgadza się, haan, haan ji, ji haan, हाँ, हां, जी, जी हाँ, ठीक है, evet, da, да",
            ),
            no: list(
                "no, nope, nah, not, don't, do not, never, stop, cancel, wrong, incorrect, wait, nein, nicht, \
                 falsch, stopp, abbrechen, halt, non, pas, annuler, cancela, cancelar, espera, não, nie, nahi, nahin, \
                 नहीं, मत, hayır, net, нет",
            ),
            doubt: list(
                "but, if, maybe, perhaps, unless, what, why, how, which, later, aber, wenn, vielleicht, was, \
                 warum, wie, mais, peut-être, quoi, pero, quizás, qué, forse, ma, mas, talvez, ale, może, lekin, शायद",
            ),
        }
    }
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Words({} for yes, {} for no)", self.yes.len(), self.no.len())
    }
}

impl Words {
    /// What the caller's words say to a question of yes or no.
    pub fn judge(&self, text: &str) -> Answer {
        let words = words(text);
        let has = |list: &[String]| list.iter().any(|phrase| contains(&words, phrase));
        let (yes, no) = (has(&self.yes), has(&self.no));
        match (yes, no) {
            (true, false) if words.len() <= WORDS_MAX && !text.contains('?') && !has(&self.doubt) => Answer::Yes,
            (false, true) => Answer::No,
            _ => Answer::Unclear,
        }
    }
}

/// Lower-case words without punctuation; apostrophes and hyphens inside words stay.
fn words(text: &str) -> Vec<String> {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '’' | '-') || is_mark(c);
    let plain = |word: &str| word.trim_matches(|c| matches!(c, '\'' | '’' | '-')).replace('’', "'").to_lowercase();
    text.split(|c| !inside(c)).map(plain).filter(|word| !word.is_empty()).collect()
}

/// Vowel signs of Indic scripts are neither letters nor digits.
fn is_mark(c: char) -> bool {
    ('\u{900}'..='\u{DFF}').contains(&c) && !matches!(c, '\u{964}' | '\u{965}')
}

fn contains(words: &[String], phrase: &str) -> bool {
    let phrase = self::words(phrase);
    !phrase.is_empty() && words.windows(phrase.len()).any(|window| window == phrase)
}

/// Whether somebody who said `said` has told what `preview` tells: every number, and most words.
///
/// Numbers are compared as the sequence of their digits, since a transcript groups them as it likes.
pub fn tells(said: &str, preview: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let (spoken, heard) = (words(said), digits(said));
    let (mut words_all, mut words_told) = (0, 0);
    for word in words(preview) {
        let number = digits(&word);
        if number.is_empty() {
            // Short words are in every sentence.
            if word.chars().count() >= 4 {
                words_all += 1;
                words_told += usize::from(spoken.contains(&word));
            }
        } else if !heard.contains(&number) {
            return false;
        }
    }
    words_told * 2 >= words_all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_yes_is_a_yes_and_doubt_is_none() {
        let words = Words::default();
        for yes in ["Yes.", "yes please", "Yeah, go ahead!", "Ja, genau.", "d’accord", "हाँ जी", "sí, claro", "OK"]
        {
            assert_eq!(words.judge(yes), Answer::Yes, "{yes}");
        }
        for no in ["No.", "nope", "please don't", "Nein, das ist falsch", "wait, stop", "नहीं"] {
            assert_eq!(words.judge(no), Answer::No, "{no}");
        }
        for unclear in [
            "",
            "Yes, but not today",
            "yes?",
            "no wait yes",
            "not sure",
            "yes if it is free",
            "hmm",
            "I would like to say yes to the other offer that you made to me last week on Monday",
            "is that correct?",
            "the yesterday order",
        ] {
            assert_eq!(words.judge(unclear), Answer::Unclear, "{unclear}");
        }
    }

    #[test]
    fn a_question_with_other_numbers_or_other_words_was_not_asked() {
        let preview = "Send 40 euros to account 1234567, reference rent?";
        assert!(tells("So I will send 40 euros to the account 123-45-67 with reference rent. Is that right?", preview));
        assert!(!tells("So I will send 4 euros to the account 1234567, reference rent. Right?", preview));
        assert!(!tells("Shall I send you our brochure?", preview));
        assert!(!tells("", preview));
    }
}
