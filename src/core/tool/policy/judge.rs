//! Whether the caller's words are a yes. Decided by fixed words on the caller's channel, never by a
//! model: careful, so that doubt is no yes.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// Something else, or both.
    Unclear,
    /// No words, or none that say anything.
    Nothing,
}

/// Words and phrases in lower case; an operator may replace yes and no.
#[derive(Clone, PartialEq, Eq)]
pub struct Words {
    pub yes: Vec<String>,
    pub no: Vec<String>,
    /// What may stand beside a yes without changing it.
    pub courtesy: Vec<String>,
}

impl Default for Words {
    fn default() -> Self {
        let list = |words: &str| words.split(", ").map(str::to_owned).collect();
        Self {
            yes: list(
                "yes, yeah, yep, yup, sure, correct, right, okay, ok, confirm, confirmed, i confirm, i agree, agreed, \
                 go ahead, do it, do that, it is, that's right, that is right, that's correct, that is correct, \
                 that's fine, that is fine, that's it, sounds good, absolutely, definitely, exactly, of course, \
                 please do, ja, jawohl, genau, richtig, das stimmt, stimmt, das ist richtig, einverstanden, passt, \
                 in ordnung, oui, d'accord, c'est bon, c'est ça, exact, bien sûr, sí, si, claro, correcto, de acuerdo, \
                 por supuesto, sì, certo, va bene, esatto, sim, isso, está certo, claro que sim, tak, zgadza się, \
                 haan, haan ji, ji haan, हाँ, हां, जी, जी हाँ, ठीक है, evet, tamam, da, да, верно",
            ),
            no: list(
                "no, nope, nah, not, don't, do not, doesn't, isn't, aren't, can't, cannot, won't, wouldn't, shouldn't, \
                 never, stop, cancel, wrong, incorrect, wait, hold on, nein, nicht, kein, keine, falsch, stopp, \
                 abbrechen, halt, moment, non, pas, jamais, annuler, attendez, cancela, cancelar, espera, nunca, non è, \
                 aspetta, não, nunca, nie, nahi, nahin, नहीं, मत, hayır, değil, net, нет, не",
            ),
            courtesy: list(
                "please, thanks, thank you, very much, sir, madam, ma'am, well, oh, uh, um, hm, bitte, danke, gern, gerne, \
                 schön, s'il vous plaît, merci, por favor, gracias, per favore, grazie, obrigado, obrigada, proszę, \
                 dziękuję, ji, जी, lütfen, teşekkürler, spasibo, pozhaluysta, пожалуйста, спасибо",
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
    /// What the caller's words say to a question of yes or no. A yes is a yes only if nothing else is
    /// said with it but courtesy: “yes, make it fifty” is another order, and “right now I can't” is none.
    pub fn judge(&self, text: &str) -> Answer {
        let words = words(text);
        let has = |list: &[String]| list.iter().any(|phrase| contains(&words, phrase));
        match (has(&self.yes), has(&self.no)) {
            (true, false) if !text.contains('?') && self.is_plain_yes(&words) => Answer::Yes,
            (false, true) => Answer::No,
            (false, false) if words.iter().all(|word| self.courtesy.contains(word)) => Answer::Nothing,
            _ => Answer::Unclear,
        }
    }

    /// Whether the words are phrases of yes and courtesy, one after the other.
    fn is_plain_yes(&self, words: &[String]) -> bool {
        let mut rest = words;
        while !rest.is_empty() {
            let phrases = self.yes.iter().chain(&self.courtesy);
            let longest = phrases.map(|phrase| self::words(phrase)).filter(|phrase| rest.starts_with(phrase));
            match longest.map(|phrase| phrase.len()).max() {
                Some(length) if length > 0 => rest = &rest[length..],
                _ => return false,
            }
        }
        true
    }
}

/// Lower-case words without punctuation; apostrophes and hyphens inside words stay.
pub(super) fn words(text: &str) -> Vec<String> {
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
        for nothing in ["", "Um.", "Well, uh", "please"] {
            assert_eq!(words.judge(nothing), Answer::Nothing, "{nothing}");
        }
        for unclear in [
            "Yes, but not today",
            "yes?",
            "no wait yes",
            "yes if it is free",
            "hmm",
            "yes, make it fifty",
            "okay, hold on a second",
            "can you correct the amount",
            "is that right",
            "right here",
            "I would like to say yes to the other offer",
            "is that correct?",
            "the yesterday order",
            "das ist ja teuer",
            "da muss ich überlegen",
            "si c'est gratuit",
        ] {
            assert_eq!(words.judge(unclear), Answer::Unclear, "{unclear}");
        }
        for not_yes in ["That isn't right", "that can't be right", "right now I can't", "not sure"] {
            assert_ne!(words.judge(not_yes), Answer::Yes, "{not_yes}");
        }
        for yes in ["Yes, that's right, thank you.", "Oh yes please", "That is correct.", "Ja, das stimmt, danke"] {
            assert_eq!(words.judge(yes), Answer::Yes, "{yes}");
        }
    }
}
