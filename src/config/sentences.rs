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

/// Sentences that are clips, and their keys below the context.
const CLIPS: [(Sentence, [&str; 2]); 3] = [
    (Sentence::Apology, ["on_failure", "say"]),
    (Sentence::Moment, ["fillers", "moment"]),
    (Sentence::Patience, ["fillers", "patience"]),
];

/// One that the agent says: its key below the context, and what is written there.
type Own = (Sentence, [&'static str; 2], Option<String>);

/// Sentences that the agent says. An attendant has three more, which are options of its model.
fn own(sentences: raw_speech::Sentences, prompt: Option<String>, goodbye: Option<String>) -> [Own; 15] {
    let own = sentences;
    [
        (Sentence::AreYouThere, ["no_input", "say"], prompt),
        (Sentence::NotHeard, ["no_input", "goodbye"], goodbye),
        (Sentence::CallTooLong, ["sentences", "call_too_long"], own.call_too_long),
        (Sentence::AfterHold, ["sentences", "after_hold"], own.after_hold),
        (Sentence::NotAnswered, ["sentences", "not_answered"], own.not_answered),
        (Sentence::TransferNoAnswer, ["sentences", "transfer_no_answer"], own.transfer_no_answer),
        (Sentence::TransferBusy, ["sentences", "transfer_busy"], own.transfer_busy),
        (Sentence::TransferRefused, ["sentences", "transfer_refused"], own.transfer_refused),
        (Sentence::TransferUnreachable, ["sentences", "transfer_unreachable"], own.transfer_unreachable),
        (Sentence::Connecting, ["sentences", "connecting"], own.connecting),
        (Sentence::Goodbye, ["sentences", "goodbye"], own.goodbye),
        (Sentence::Done, ["sentences", "done"], own.done),
        (Sentence::EnterPin, ["sentences", "enter_pin"], own.enter_pin),
        (Sentence::EndWithHash, ["sentences", "end_with_hash"], own.end_with_hash),
        (Sentence::EndWithStar, ["sentences", "end_with_star"], own.end_with_star),
    ]
}

/// Every sentence that a context can write, with its key.
fn keys() -> impl Iterator<Item = (Sentence, [&'static str; 2])> {
    let own = own(raw_speech::Sentences::default(), None, None);
    CLIPS.into_iter().chain(own.map(|(sentence, keys, _)| (sentence, keys)))
}

/// Keys of a context that hold sentences.
pub(super) struct Written {
    pub language: Option<String>,
    pub sentences: Option<raw_speech::Sentences>,
    /// `no_input.say`.
    pub prompt: Option<String>,
    pub goodbye: Option<String>,
}

impl Resolver<'_> {
    pub(super) fn sentences(&mut self, written: Written, context: &Path) -> Sentences {
        let Written { language, sentences, prompt, goodbye } = written;
        let mut written = BTreeMap::new();
        for (sentence, [group, key], text) in own(sentences.unwrap_or_default(), prompt, goodbye) {
            let Some(text) = text else { continue };
            self.check_spoken(&text, &context.key(group).key(key));
            written.insert(sentence, text);
        }
        if let Some(tag) = language.as_deref().filter(|tag| !is_language(tag)) {
            let place = context.key("language");
            let message = format!("{} is not a tag of a language", self.shown(&place, tag));
            self.problem(&place, message, Some("write the tag of BCP 47, such as de or pt-BR".into()));
        }
        Sentences { tag: language.map(|tag| tag.to_ascii_lowercase()), written }
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
            keys().map(|(_, keys)| keys).filter(|keys| !is_told(keys)).map(|keys| keys.join(".")).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentence_has_a_key_or_is_an_attendant_s() {
        let attendant = [Sentence::Hello, Sentence::NotUnderstood, Sentence::DidNotWork];
        let mut known: Vec<Sentence> = keys().map(|(sentence, _)| sentence).chain(attendant).collect();
        known.sort();
        let mut all = Sentence::ALL.to_vec();
        all.sort();
        assert_eq!(known, all);
    }
}
