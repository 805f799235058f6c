//! The language of a context, and what the engine says in it.

use super::{
    Config, Context,
    catalog::{Catalog, ServiceKind},
    consistency::services_of,
    problem::{Path, Report},
    raw_speech,
    resolve::Resolver,
    tree::Node,
    vam::is_language,
};
use crate::sentences::{Language, Sentence, Sentences};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Sentences that are clips, and their keys below the context.
const CLIPS: [(Sentence, [&str; 2]); 3] = [
    (Sentence::Apology, ["on_failure", "say"]),
    (Sentence::Moment, ["fillers", "moment"]),
    (Sentence::Patience, ["fillers", "patience"]),
];

/// The kind of model that says three more, and their keys below its options.
const ATTENDANT: &str = "attendant";
const ATTENDANT_KEYS: [&str; 3] = ["greeting", "otherwise", "failed"];

/// One that the agent says: its key below the context, and what is written there.
type Own = (Sentence, [&'static str; 2], Option<String>);

/// Sentences that the agent says.
fn own(sentences: raw_speech::Sentences, prompt: Option<String>, goodbye: Option<String>) -> [Own; 22] {
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
        (Sentence::ShallI, ["sentences", "shall_i"], own.shall_i),
        (Sentence::Connecting, ["sentences", "connecting"], own.connecting),
        (Sentence::Goodbye, ["sentences", "goodbye"], own.goodbye),
        (Sentence::Done, ["sentences", "done"], own.done),
        (Sentence::PinRight, ["sentences", "pin_right"], own.pin_right),
        (Sentence::PinWrong, ["sentences", "pin_wrong"], own.pin_wrong),
        (Sentence::DigitsTaken, ["sentences", "digits_taken"], own.digits_taken),
        (Sentence::ExtensionFree, ["sentences", "extension_free"], own.extension_free),
        (Sentence::ExtensionBusy, ["sentences", "extension_busy"], own.extension_busy),
        (Sentence::ExtensionUnreachable, ["sentences", "extension_unreachable"], own.extension_unreachable),
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

/// Tells which sentences callers would hear in English although the context's language is another, and who hears or speaks another
/// language than the context's.
pub(super) fn warnings(config: &Config, root: &Node, catalog: &Catalog, report: &mut Report) {
    for context in config.contexts.values() {
        let place = Path::default().key("contexts").key(&context.name);
        let services: Vec<_> =
            context.providers().flat_map(|provider| services_of(config, provider, catalog)).collect();
        lacking(context, &services, root, &place, report);
        let language = context.rules.sentences.tag.as_deref().unwrap_or(Language::English.code());
        let own = context.speech.voice.as_ref().and_then(|name| {
            let voice = config.services.voices.get(name)?;
            let kind = catalog.service("voices", &voice.kind)?;
            Some(("voice", (Path::default().key("voices").key(name), kind, &voice.options)))
        });
        let mut told = BTreeSet::new();
        for (key, (service, kind, options)) in own.into_iter().chain(services.into_iter().map(|of| ("provider", of))) {
            let Some(other) = (kind.language)(options).filter(|other| differ(language, other)) else { continue };
            if told.insert(service.to_string()) {
                let place = place.key(key);
                let message = format!("{service} is for {other}, and what offhook says here is in {language}");
                let hint = format!("name one for {language}, or write language: {other} in this context");
                report.add(root.line_of(&place), &place, message, Some(hint));
            }
        }
    }
}

/// Whether two tags are of two languages, as far as their codes of two letters tell.
fn differ(one: &str, other: &str) -> bool {
    let code = |tag: &str| {
        let code = tag.split(|c: char| !c.is_ascii_alphabetic()).next()?.to_ascii_lowercase();
        // Both written forms of Norwegian are it.
        let code = if matches!(&*code, "nb" | "nn") { "no".into() } else { code };
        (code.len() == 2).then_some(code)
    };
    matches!((code(one), code(other)), (Some(one), Some(other)) if one != other)
}

/// A service that a provider names: its place, its kind and its options.
type Service<'a> = (Path, &'a ServiceKind, &'a Value);

/// Tells the keys of sentences that are neither written nor ours in the context's language.
fn lacking(context: &Context, services: &[Service<'_>], root: &Node, path: &Path, report: &mut Report) {
    let Some(tag) = context.rules.sentences.tag.as_deref().filter(|tag| Language::of(tag).is_none()) else { return };
    let is_written = |group: &str, key: &str| root.at(&path.key(group).key(key)).is_some_and(|node| !node.is_null());
    // `on_failure.apology` is a recording of the same sentence.
    let is_told =
        |[group, key]: &[&str; 2]| is_written(group, key) || *group == "on_failure" && is_written(group, "apology");
    let own = keys().map(|(_, keys)| keys).filter(|keys| !is_told(keys)).map(|keys| keys.join("."));
    let attendants = services.iter().filter(|(_, kind, _)| kind.kind == ATTENDANT).flat_map(|(place, _, options)| {
        let lacks = |key: &&str| options[key].is_null() && !(*key == "greeting" && context.greeting.is_some());
        ATTENDANT_KEYS.iter().filter(move |key| lacks(key)).map(move |key| place.key(ATTENDANT).key(key).to_string())
    });
    let missing: BTreeSet<String> = attendants.collect();
    let missing: Vec<String> = own.chain(missing).collect();
    if !missing.is_empty() {
        let known = Language::ALL.map(Language::code).join(", ");
        let message = format!(
            "offhook has no sentences of its own in {tag}; callers hear these in English: {}",
            missing.join(", ")
        );
        let place = path.key("language");
        let hint = format!("write these keys, or choose one of {known}");
        report.add(root.line_of(&place), &place, message, Some(hint));
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
