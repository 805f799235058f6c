//! The language of a context, and what the engine says in it.

use super::{
    Config,
    problem::{Path, Report},
    raw_speech,
    resolve::Resolver,
    tree::{Kind, Node},
    vam::is_language,
};
use crate::sentences::{Language, Sentence, Sentences};
use std::collections::BTreeMap;

/// Where a sentence is written, below its context. An attendant's own are options of the model.
const KEYS: [(Sentence, [&str; 2]); 18] = [
    (Sentence::Apology, ["on_failure", "say"]),
    (Sentence::Moment, ["fillers", "moment"]),
    (Sentence::Patience, ["fillers", "patience"]),
    (Sentence::AreYouThere, ["no_input", "say"]),
    (Sentence::NotHeard, ["no_input", "goodbye"]),
    (Sentence::CallTooLong, ["sentences", "call_too_long"]),
    (Sentence::AfterHold, ["sentences", "after_hold"]),
    (Sentence::NotAnswered, ["sentences", "not_answered"]),
    (Sentence::TransferNoAnswer, ["sentences", "transfer_no_answer"]),
    (Sentence::TransferBusy, ["sentences", "transfer_busy"]),
    (Sentence::TransferRefused, ["sentences", "transfer_refused"]),
    (Sentence::TransferUnreachable, ["sentences", "transfer_unreachable"]),
    (Sentence::Connecting, ["sentences", "connecting"]),
    (Sentence::Goodbye, ["sentences", "goodbye"]),
    (Sentence::Done, ["sentences", "done"]),
    (Sentence::EnterPin, ["sentences", "enter_pin"]),
    (Sentence::EndWithHash, ["sentences", "end_with_hash"]),
    (Sentence::EndWithStar, ["sentences", "end_with_star"]),
];

/// Keys of a context that hold sentences.
pub(super) struct Written {
    pub language: Option<String>,
    pub sentences: Option<raw_speech::Sentences>,
    /// `no_input.say`.
    pub prompt: Option<String>,
    pub goodbye: Option<String>,
}

impl Resolver<'_> {
    pub(super) fn sentences(&mut self, written: Written, context: &Path) -> (Sentences, Option<String>) {
        let Written { language, sentences, prompt, goodbye } = written;
        let own = sentences.unwrap_or_default();
        let written = [
            (Sentence::AreYouThere, prompt),
            (Sentence::NotHeard, goodbye),
            (Sentence::CallTooLong, own.call_too_long),
            (Sentence::AfterHold, own.after_hold),
            (Sentence::NotAnswered, own.not_answered),
            (Sentence::TransferNoAnswer, own.transfer_no_answer),
            (Sentence::TransferBusy, own.transfer_busy),
            (Sentence::TransferRefused, own.transfer_refused),
            (Sentence::TransferUnreachable, own.transfer_unreachable),
            (Sentence::Connecting, own.connecting),
            (Sentence::Goodbye, own.goodbye),
            (Sentence::Done, own.done),
            (Sentence::EnterPin, own.enter_pin),
            (Sentence::EndWithHash, own.end_with_hash),
            (Sentence::EndWithStar, own.end_with_star),
        ];
        let written: BTreeMap<Sentence, String> =
            written.into_iter().filter_map(|(sentence, text)| Some((sentence, text?))).collect();
        for (sentence, text) in &written {
            let [group, key] =
                KEYS.iter().find(|(known, _)| known == sentence).map_or(["sentences", ""], |(_, keys)| *keys);
            self.spoken(text, &context.key(group).key(key));
        }
        let tag = language.as_deref().unwrap_or(Language::English.code());
        if !is_language(tag) {
            let place = context.key("language");
            let message = format!("{} is not a tag of a language", self.shown(&place, tag));
            self.problem(&place, message, Some("write the tag of BCP 47, such as de or pt-BR".into()));
        }
        (
            Sentences { language: Language::of(tag).unwrap_or_default(), written },
            language.map(|tag| tag.to_ascii_lowercase()),
        )
    }
}

/// Tells which sentences callers would hear in English although the context's language is another.
pub(super) fn warnings(config: &Config, root: &Node, report: &mut Report) {
    for name in config.contexts.keys() {
        let context = Path::default().key("contexts").key(name);
        let place = context.key("language");
        let Some(Node { line, kind: Kind::Scalar { value, .. } }) = root.at(&place) else { continue };
        if value.as_str().and_then(Language::of).is_some() {
            continue;
        }
        let is_written =
            |group: &str, key: &str| root.at(&context.key(group).key(key)).is_some_and(|node| !node.is_null());
        // `on_failure.apology` is a recording of the same sentence.
        let is_told =
            |[group, key]: &[&str; 2]| is_written(group, key) || *group == "on_failure" && is_written(group, "apology");
        let missing: Vec<String> =
            KEYS.iter().map(|(_, keys)| keys).filter(|keys| !is_told(keys)).map(|keys| keys.join(".")).collect();
        if !missing.is_empty() {
            let known = Language::ALL.map(Language::code).join(", ");
            let message = format!(
                "offhook has no sentences of its own in this language; callers hear these in English: {}",
                missing.join(", ")
            );
            report.add(
                *line,
                &place,
                message,
                Some(format!("write these keys in this context, or choose one of {known}")),
            );
        }
    }
}
