//! What the engine says itself in the calls of a context.

use super::{
    defaults,
    problem::{Path, suggest},
    prompt,
    raw_speech::{Fillers, Menu, MenuStep, Words},
    resolve::Resolver,
    values,
};
use crate::{
    audio::Clip,
    call::{Exit, LastResort},
    sentences::{Language, Sentence},
};
use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// What is heard in these very words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    /// A recording of it; without one the context's voice speaks it.
    pub file: Option<PathBuf>,
}

/// Whose sentences callers hear.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Speech {
    /// The entry of `voices`; `None` is espeak-ng in the context's language, where it is installed.
    pub voice: Option<String>,
    pub greeting_by: Greeter,
    /// Heard by everybody before anything else.
    pub notice: Option<Line>,
    /// `None`, here and below: the built-in sentence.
    pub moment: Option<Line>,
    pub patience: Option<Line>,
    pub apology: Option<Line>,
    pub menu: Option<Line>,
}

/// Who says the greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Greeter {
    /// In its own voice; a model may change the words.
    #[default]
    Agent,
    /// The context's voice, word for word, as soon as the call is answered.
    Clip,
}

/// The keys of one context that are about what it says.
pub(super) struct Written {
    pub voice: Option<String>,
    pub language: Language,
    pub greeting_by: Option<String>,
    pub notice: Option<Words>,
    pub fillers: Option<Fillers>,
    pub apology: Option<String>,
    pub say: Option<Words>,
    pub menu: Option<Menu>,
}

impl Resolver<'_> {
    pub(super) fn speech(&mut self, written: Written, context: &Path) -> (Speech, Option<LastResort>) {
        if let Some(voice) = &written.voice {
            self.name(voice, "voices", "voice", &context.key("voice"));
        }
        // Who names a voice wants it heard first of all; and a caller is best greeted at once. Without one the agent's
        // own voice is better than a machine's.
        let greeting_by = match (written.greeting_by.as_deref(), &written.voice) {
            (Some("clip"), _) | (None, Some(_)) => Greeter::Clip,
            _ => Greeter::Agent,
        };
        let fillers = written.fillers.unwrap_or_default();
        let failure = context.key("on_failure");
        let mut line = |words: Option<Words>, path: Path| self.line(words?, &path);
        let notice = line(written.notice, context.key("notice"));
        let moment = line(fillers.moment, context.key("fillers").key("moment"));
        let patience = line(fillers.patience, context.key("fillers").key("patience"));
        let said = line(written.say, failure.key("say"));
        let apology = self.apology(written.apology, said, written.language, &failure);
        let (menu, last_resort) = written.menu.map(|menu| self.menu(menu, &failure.key("menu"))).unzip();
        let (voice, menu) = (written.voice, menu.flatten());
        (Speech { voice, greeting_by, notice, moment, patience, apology, menu }, last_resort)
    }

    fn line(&mut self, Words(words): Words, path: &Path) -> Option<Line> {
        let (text, file, text_path) = match &words {
            Value::String(text) => (text.as_str(), None, path.clone()),
            _ => (words.get("text")?.as_str()?, Some(words.get("file")?.as_str()?), path.key("text")),
        };
        self.check_spoken(text, &text_path);
        let file = file.map(|file| self.recording(file, &path.key("file")));
        Some(Line { text: text.to_owned(), file })
    }

    /// Checks a text that callers hear as it is written.
    pub(super) fn check_spoken(&mut self, text: &str, path: &Path) {
        if text.trim().is_empty() {
            self.problem(path, "must not be empty", None);
        }
        if let Some(placeholder) = prompt::first_placeholder(text) {
            let message = format!("{{{placeholder}}} is not filled here");
            let hint = "it is the same in every call";
            self.problem(path, message, Some(hint.into()));
        }
    }

    fn apology(
        &mut self,
        file: Option<String>,
        said: Option<Line>,
        language: Language,
        failure: &Path,
    ) -> Option<Line> {
        let Some(file) = file.filter(|file| !file.is_empty()) else { return said };
        let path = failure.key("apology");
        let file = self.recording(&file, &path);
        if said.as_ref().is_some_and(|said| said.file.is_some()) {
            self.problem(&path, "on_failure.say names a recording already", None);
        }
        let text = said.map_or_else(|| Sentence::Apology.text(language).to_owned(), |said| said.text);
        Some(Line { text, file: Some(file) })
    }

    /// A WAV file that can be played, relative to the configuration's folder.
    pub(super) fn recording(&mut self, written: &str, path: &Path) -> PathBuf {
        let file = self.folder.join(written);
        if let Err(error) = Clip::open(&file) {
            let shown = self.shown(path, &file.display().to_string());
            self.problem(path, format!("cannot use {shown}: {error}"), None);
        }
        file
    }

    fn menu(&mut self, menu: Menu, path: &Path) -> (Option<Line>, LastResort) {
        let say = menu.say.and_then(|words| self.line(words, &path.key("say")));
        let mut keys = BTreeMap::new();
        for (key, step) in menu.keys.unwrap_or_default() {
            let exit = self.exit(step, &path.key("keys").key(&key));
            keys.extend(key.chars().next().map(|key| (key, exit)));
        }
        let usual = values::duration(defaults::MENU_WAIT).unwrap_or_default();
        let rounds = menu.rounds.unwrap_or(defaults::MENU_ROUNDS).try_into().unwrap_or(u32::MAX);
        let wait = self.duration(menu.wait, usual, Duration::from_millis(1), &path.key("wait"));
        (say, LastResort { keys, rounds, wait })
    }

    fn exit(&mut self, MenuStep(step): MenuStep, path: &Path) -> Exit {
        if let Some(name) = step.get("transfer").and_then(Value::as_str) {
            self.name(name, "destinations", "destination", &path.key("transfer"));
            return Exit::Transfer(name.to_owned());
        }
        if let Some(name) = step.get("voicemail").and_then(Value::as_str) {
            self.voicemail_name(name, &path.key("voicemail"));
            return Exit::Voicemail(name.to_owned());
        }
        if step == "hang_up" { Exit::HangUp } else { Exit::Dialplan }
    }

    fn voicemail_name(&mut self, name: &str, path: &Path) {
        let section = Path::default().key("voicemail");
        let Some(declared) = self.declared_at(&section.key("mailboxes")) else { return };
        if !declared.contains(&name) {
            let hint = suggest(name, &declared);
            let message = format!("unknown mailbox {}", self.shown(path, name));
            self.problem(path, message, hint);
        }
    }
}
