//! Sentences of the engine's own for callers, in ten languages.

mod texts;

use std::collections::BTreeMap;
use texts::Texts;

/// A language in which the engine has every sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Language {
    #[default]
    English,
    German,
    Spanish,
    French,
    Italian,
    Portuguese,
    Dutch,
    Hindi,
    Arabic,
    Norwegian,
}

impl Language {
    /// In the order of the texts.
    pub const ALL: [Self; 10] = [
        Self::English,
        Self::German,
        Self::Spanish,
        Self::French,
        Self::Italian,
        Self::Portuguese,
        Self::Dutch,
        Self::Hindi,
        Self::Arabic,
        Self::Norwegian,
    ];

    /// Its code of ISO 639-1.
    pub const fn code(self) -> &'static str {
        ["en", "de", "es", "fr", "it", "pt", "nl", "hi", "ar", "no"][self as usize]
    }

    pub const fn name(self) -> &'static str {
        ["English", "German", "Spanish", "French", "Italian", "Portuguese", "Dutch", "Hindi", "Arabic", "Norwegian"]
            [self as usize]
    }

    /// Finds a language by its tag of BCP 47, such as `de` or `pt-BR`; both written forms of Norwegian are read as Bokmål.
    pub fn of(tag: &str) -> Option<Self> {
        let code = tag.split('-').next()?.to_ascii_lowercase();
        let code = if matches!(&*code, "nb" | "nn") { "no" } else { &*code };
        Self::ALL.into_iter().find(|language| language.code() == code)
    }
}

/// A sentence of the engine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sentence {
    /// No agent can be had any more.
    Apology,
    /// Silence would be unexplained.
    Moment,
    /// The wait goes on.
    Patience,
    /// The caller says nothing.
    AreYouThere,
    /// The caller has said nothing for too long.
    NotHeard,
    /// The call has lasted as long as it may.
    CallTooLong,
    /// The caller comes back from hold.
    AfterHold,
    /// A model had nothing to say.
    NotAnswered,
    /// A transfer failed: nobody took the call.
    TransferNoAnswer,
    TransferBusy,
    TransferRefused,
    TransferUnreachable,
    /// The caller is to identify themselves.
    EnterPin,
    /// How keys come to their end; follows what is asked for.
    EndWithHash,
    EndWithStar,
    /// A tool needs the caller's yes, and its question is made of names.
    ShallI,
    /// An attendant hands the caller on, or to a mailbox.
    Connecting,
    /// An attendant ends the call.
    Goodbye,
    /// An attendant has done something that needs no other words.
    Done,
    /// An attendant has checked a PIN.
    PinRight,
    PinWrong,
    /// An attendant has collected digits.
    DigitsTaken,
    /// An attendant has looked whether an extension is free.
    ExtensionFree,
    ExtensionBusy,
    ExtensionUnreachable,
    /// An attendant greets.
    Hello,
    /// An attendant has heard nothing that it knows.
    NotUnderstood,
    /// A tool of an attendant's has failed.
    DidNotWork,
}

impl Sentence {
    pub const ALL: [Self; 28] = [
        Self::Apology,
        Self::Moment,
        Self::Patience,
        Self::AreYouThere,
        Self::NotHeard,
        Self::CallTooLong,
        Self::AfterHold,
        Self::NotAnswered,
        Self::TransferNoAnswer,
        Self::TransferBusy,
        Self::TransferRefused,
        Self::TransferUnreachable,
        Self::EnterPin,
        Self::EndWithHash,
        Self::EndWithStar,
        Self::ShallI,
        Self::Connecting,
        Self::Goodbye,
        Self::Done,
        Self::PinRight,
        Self::PinWrong,
        Self::DigitsTaken,
        Self::ExtensionFree,
        Self::ExtensionBusy,
        Self::ExtensionUnreachable,
        Self::Hello,
        Self::NotUnderstood,
        Self::DidNotWork,
    ];

    pub const fn text(self, language: Language) -> &'static str {
        self.texts()[language as usize]
    }

    const fn texts(self) -> &'static Texts {
        match self {
            Self::Apology => &texts::APOLOGY,
            Self::Moment => &texts::MOMENT,
            Self::Patience => &texts::PATIENCE,
            Self::AreYouThere => &texts::ARE_YOU_THERE,
            Self::NotHeard => &texts::NOT_HEARD,
            Self::CallTooLong => &texts::CALL_TOO_LONG,
            Self::AfterHold => &texts::AFTER_HOLD,
            Self::NotAnswered => &texts::NOT_ANSWERED,
            Self::TransferNoAnswer => &texts::TRANSFER_NO_ANSWER,
            Self::TransferBusy => &texts::TRANSFER_BUSY,
            Self::TransferRefused => &texts::TRANSFER_REFUSED,
            Self::TransferUnreachable => &texts::TRANSFER_UNREACHABLE,
            Self::EnterPin => &texts::ENTER_PIN,
            Self::EndWithHash => &texts::END_WITH_HASH,
            Self::EndWithStar => &texts::END_WITH_STAR,
            Self::ShallI => &texts::SHALL_I,
            Self::Connecting => &texts::CONNECTING,
            Self::Goodbye => &texts::GOODBYE,
            Self::Done => &texts::DONE,
            Self::PinRight => &texts::PIN_RIGHT,
            Self::PinWrong => &texts::PIN_WRONG,
            Self::DigitsTaken => &texts::DIGITS_TAKEN,
            Self::ExtensionFree => &texts::EXTENSION_FREE,
            Self::ExtensionBusy => &texts::EXTENSION_BUSY,
            Self::ExtensionUnreachable => &texts::EXTENSION_UNREACHABLE,
            Self::Hello => &texts::HELLO,
            Self::NotUnderstood => &texts::NOT_UNDERSTOOD,
            Self::DidNotWork => &texts::DID_NOT_WORK,
        }
    }
}

/// The sentences of one context: those that are written in its configuration, and the others in its language.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sentences {
    /// The context's `language` in lower case; `None` where none is configured.
    pub tag: Option<String>,
    pub written: BTreeMap<Sentence, String>,
}

impl Sentences {
    pub fn of(language: Language) -> Self {
        Self { tag: Some(language.code().to_owned()), written: BTreeMap::new() }
    }

    /// Language of the sentences that are not written; English where the context's has none of ours.
    pub fn language(&self) -> Language {
        self.tag.as_deref().and_then(Language::of).unwrap_or_default()
    }

    pub fn get(&self, sentence: Sentence) -> &str {
        self.written.get(&sentence).map_or_else(|| sentence.text(self.language()), String::as_str)
    }

    /// Name of the context's language for a model; `None` where none is configured, since the prompt may tell another than
    /// English.
    pub fn language_name(&self) -> Option<String> {
        let tag = self.tag.as_deref()?;
        Some(match Language::of(tag) {
            Some(language) if language.code() == tag => language.name().to_owned(),
            Some(language) => format!("{} ({tag})", language.name()),
            None => format!("the language with the tag {tag}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A line that was copied and not translated.
    #[test]
    fn each_sentence_is_another_in_each_language() {
        for sentence in Sentence::ALL {
            let texts: BTreeSet<&str> = Language::ALL.into_iter().map(|language| sentence.text(language)).collect();
            assert_eq!(texts.len(), Language::ALL.len(), "{sentence:?}");
        }
        for language in Language::ALL {
            let texts: BTreeSet<&str> = Sentence::ALL.into_iter().map(|sentence| sentence.text(language)).collect();
            assert_eq!(texts.len(), Sentence::ALL.len(), "{language:?}");
        }
    }

    #[test]
    fn each_is_written_in_the_letters_of_its_language_and_ends_as_a_sentence() {
        for (sentence, language) in
            Sentence::ALL.into_iter().flat_map(|sentence| Language::ALL.map(|language| (sentence, language)))
        {
            let text = sentence.text(language);
            let is_of = |c: char| match language {
                Language::Hindi => ('\u{900}'..='\u{97f}').contains(&c),
                Language::Arabic => ('\u{600}'..='\u{6ff}').contains(&c),
                _ => c.is_alphabetic() && c < '\u{250}',
            };
            assert!(text.chars().filter(|c| c.is_alphabetic()).all(is_of), "{text}");
            assert!(text.ends_with(['.', '?', '।', '؟']), "{text}");
        }
    }

    #[test]
    fn a_language_is_known_by_its_tag() {
        for language in Language::ALL {
            assert_eq!(Language::of(language.code()), Some(language));
        }
        assert_eq!(["pt-BR", "nb", "nn-NO", "DE-at"].map(Language::of).map(Option::unwrap), {
            use Language::{German, Norwegian, Portuguese};
            [Portuguese, Norwegian, Norwegian, German]
        });
        assert_eq!(["pl", "", "deutsch"].map(Language::of), [None; 3]);
    }

    #[test]
    fn what_is_written_is_said_in_place_of_the_engine_s_own() {
        let written = BTreeMap::from([(Sentence::AfterHold, "Da bin ich wieder.".to_owned())]);
        let sentences = Sentences { written, ..Sentences::of(Language::German) };
        assert_eq!(sentences.get(Sentence::AfterHold), "Da bin ich wieder.");
        assert_eq!(sentences.get(Sentence::Moment), "Einen Moment, bitte.");
    }

    #[test]
    fn a_model_is_told_the_name_of_the_language_that_is_configured() {
        let named =
            |tag: Option<&str>| Sentences { tag: tag.map(str::to_owned), ..Sentences::default() }.language_name();
        assert_eq!(named(None), None);
        for (tag, name) in [("de", "German"), ("pt-br", "Portuguese (pt-br)"), ("pl", "the language with the tag pl")] {
            assert_eq!(named(Some(tag)).as_deref(), Some(name));
        }
    }
}
