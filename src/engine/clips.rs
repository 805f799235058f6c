//! What callers hear without an agent: rendered when a configuration is built, and a greeting with a name in it when
//! its call begins.

#[cfg(test)]
mod tests;

use super::generation::BuildError;
use crate::{
    audio::Clip,
    call::{Clips, Spoken},
    config::{Config, Context, Greeter, Line, OptionProblem, prompt},
    sentences::{Language, Sentence},
    speech::{self, Speaker, Studio, VoiceError},
    tool::ToolSpec,
};
use futures_util::future::join_all;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display, Formatter},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tracing::{debug, warn};

/// What a call waits for a greeting of its own words; espeak-ng takes some 20 ms. Then the agent greets.
const GREETING_MAX: Duration = Duration::from_millis(300);
/// Wait of a caller for a question before a tool; a service far away takes about a second. Then the agent puts it.
const QUESTION_MAX: Duration = Duration::from_secs(2);

/// Who speaks in the calls of one context, and what there is to hear.
#[derive(Clone)]
pub struct Repertoire {
    pub clips: Arc<Clips>,
    /// `None`: espeak-ng is not installed, and no other voice is configured.
    speaker: Option<Speaker>,
}

/// The clips of every context; `tools` are those that its agent has.
pub fn prepare(
    config: &Config,
    tools: &BTreeMap<&str, Arc<[ToolSpec]>>,
    studio: &Studio,
) -> Result<BTreeMap<String, Repertoire>, Vec<BuildError>> {
    let speakers = speakers(config)?;
    let parts: BTreeMap<&str, Parts> =
        config.contexts.values().map(|context| (context.name.as_str(), Parts::of(context))).collect();
    let mut errors = missing(config, &parts, &speakers);
    let mut said = BTreeMap::new();
    match render(config, &parts, tools, &speakers, studio) {
        Ok(rendered) => said = rendered,
        Err(failed) => errors.extend(failed),
    }
    let nothing = BTreeMap::new();
    let built_in = Clips::default();
    let mut found = BTreeMap::new();
    let music = ring_music(config).map_err(|error| errors.push(error)).unwrap_or_default();
    if !errors.is_empty() {
        return Err(errors);
    }
    for (name, context) in &config.contexts {
        let voice = Voice::of(context);
        let lines = tools.get(name.as_str()).map_or(&[][..], |specs| specs);
        match parts[name.as_str()].clips(name, said.get(&voice).unwrap_or(&nothing), &built_in, lines) {
            Ok(clips) => {
                let speaker = speakers.get(&voice).cloned();
                let clips = Clips { ring_music: music.clone(), has_voice: speaker.is_some(), ..clips };
                warm(&clips, context.audio.unwrap_or(config.media.default).format);
                found.insert(name.clone(), Repertoire { clips: Arc::new(clips), speaker });
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(found) } else { Err(errors) }
}

/// What callers hear while a destination's telephones ring, once for all contexts.
fn ring_music(config: &Config) -> Result<Option<Arc<Clip>>, BuildError> {
    let Some(path) = &config.media.ring_music else { return Ok(None) };
    let error =
        |fault| BuildError { place: "media.ring_music".into(), message: format!("{}: {fault}", path.display()) };
    Ok(Some(Arc::new(Clip::open(path).map_err(error)?)))
}

impl Repertoire {
    /// The clips of one call, with the greeting in its own words where a voice says it.
    pub async fn for_call(&self, greeting_by: Greeter, greeting: Option<&str>, studio: &Studio) -> Arc<Clips> {
        let clips = self.at_hand(greeting);
        let (Some(text), Some(speaker), Greeter::Clip, None) = (greeting, &self.speaker, greeting_by, &clips.greeting)
        else {
            return clips;
        };
        let Some(clip) = studio.speak_within(speaker, text, GREETING_MAX).await else {
            debug!("the greeting could not be spoken in time; the agent greets");
            return clips;
        };
        let greeting = Some(Spoken { text: text.to_owned(), clip });
        Arc::new(Clips { greeting, ..Clips::clone(&clips) })
    }

    /// A sentence of a call, which is not kept: there are names in it. `None`: there is no voice, or it took too long.
    pub async fn speak(&self, text: &str, studio: &Studio) -> Option<Arc<Clip>> {
        studio.speak_within(self.speaker.as_ref()?, text, QUESTION_MAX).await
    }

    /// The clips without a greeting that is not this one: then an agent greets.
    pub fn at_hand(&self, greeting: Option<&str>) -> Arc<Clips> {
        match &self.clips.greeting {
            Some(ready) if Some(ready.text.as_str()) != greeting => {
                Arc::new(Clips { greeting: None, ..Clips::clone(&self.clips) })
            }
            _ => Arc::clone(&self.clips),
        }
    }
}

/// A model does not hear clips: it is told what they say.
pub fn told(Clips { notice, greeting, .. }: &Clips) -> Option<String> {
    let spoken: Vec<&str> = [notice, greeting].into_iter().flatten().map(|spoken| spoken.text.trim()).collect();
    let then = match greeting {
        Some(_) => "The caller was greeted with them: do not greet again, and do not repeat them.",
        None => "Do not repeat them.",
    };
    let words = spoken.join(" ");
    (!words.is_empty())
        .then(|| format!("Before you speak, the caller has just heard these exact words: \"{words}\" {then}"))
}

/// Voice of a context's sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Voice<'a> {
    /// The entry of `voices`.
    Configured(&'a str),
    /// The voice that nobody has to configure.
    EspeakNg(&'a str),
}

impl<'a> Voice<'a> {
    fn of(context: &'a Context) -> Self {
        context.speech.voice.as_deref().map_or(Self::EspeakNg(espeak_voice(context)), Self::Configured)
    }
}

impl Display for Voice<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured(name) => write!(f, "voices.{name}"),
            Self::EspeakNg(_) => f.write_str("espeak-ng"),
        }
    }
}

/// Every voice that is configured, and those that nobody has to configure.
fn speakers(config: &Config) -> Result<BTreeMap<Voice<'_>, Speaker>, Vec<BuildError>> {
    let mut speakers = BTreeMap::new();
    let mut errors = Vec::new();
    for (name, entry) in &config.services.voices {
        match speech::build(&entry.kind, &entry.options) {
            Ok(speaker) => drop(speakers.insert(Voice::Configured(name), speaker)),
            Err(problems) => {
                errors.extend(problems.into_iter().map(|OptionProblem { path, message, hint }| BuildError {
                    place: format!("voices.{name}.{}.{path}", entry.kind).trim_end_matches('.').to_owned(),
                    message: [message].into_iter().chain(hint).collect::<Vec<_>>().join("; "),
                }))
            }
        }
    }
    if speech::is_installed() {
        for voice in config.contexts.values().map(|context| espeak_voice(context)) {
            if let Ok(speaker) = speech::build("espeak_ng", &json!({ "voice": voice })) {
                speakers.insert(Voice::EspeakNg(voice), speaker);
            }
        }
    }
    if errors.is_empty() { Ok(speakers) } else { Err(errors) }
}

/// The voice of a context's language as `espeak-ng --voices` names it: it takes tags, and knows Norwegian by its written forms alone.
fn espeak_voice(context: &Context) -> &str {
    let tag = context.rules.sentences.tag.as_deref().unwrap_or(Language::English.code());
    if matches!(tag.split('-').next(), Some("no" | "nn")) { "nb" } else { tag }
}

/// Texts that wait for a voice that is not there.
fn missing(config: &Config, parts: &BTreeMap<&str, Parts>, speakers: &BTreeMap<Voice<'_>, Speaker>) -> Vec<BuildError> {
    let silent = |(name, _): &(&&str, &Parts)| !speakers.contains_key(&Voice::of(&config.contexts[**name]));
    let error = |(name, parts): (&&str, &Parts)| -> Vec<BuildError> {
        let spoken = parts.all().filter(|part| matches!(part.source, Source::Voice));
        let message = format!("{}; {}, or name another voice", VoiceError::Missing, VoiceError::Missing.remedy());
        spoken.map(|part| BuildError { place: part.place(name), message: message.clone() }).collect()
    };
    parts.iter().filter(silent).flat_map(error).collect()
}

type Said<'a> = BTreeMap<Voice<'a>, BTreeMap<String, Arc<Clip>>>;

/// All voices speak at the same time.
fn render<'a>(
    config: &'a Config,
    parts: &BTreeMap<&str, Parts>,
    tools: &BTreeMap<&str, Arc<[ToolSpec]>>,
    speakers: &BTreeMap<Voice<'a>, Speaker>,
    studio: &Studio,
) -> Result<Said<'a>, Vec<BuildError>> {
    let mut wanted: BTreeMap<Voice, [BTreeSet<&str>; 2]> = BTreeMap::new();
    for (name, context) in &config.contexts {
        let [texts, more] = wanted.entry(Voice::of(context)).or_default();
        let parts = parts[name.as_str()].all();
        texts.extend(parts.filter(|part| matches!(part.source, Source::Voice)).map(|part| part.text));
        more.extend(tools.get(name.as_str()).into_iter().flat_map(|specs| lines(specs)));
    }
    let wanted = wanted.into_iter().filter(|(_, texts)| texts.iter().any(|texts| !texts.is_empty()));
    let work = wanted.filter_map(|(voice, texts)| Some((voice, speakers.get(&voice)?, texts)));
    let work: Vec<_> = work.collect();
    if work.is_empty() {
        return Ok(BTreeMap::new());
    }
    let speak = async |(voice, speaker, [texts, lines]): &(Voice<'a>, &Speaker, [BTreeSet<&str>; 2])| {
        let mut said = match studio.render(speaker, texts).await {
            Ok(said) => said,
            Err(failed) => return Err(refused(config, parts, *voice, &failed)),
        };
        // Tools come and go while calls run: the agent says what cannot be rendered.
        match studio.render(speaker, lines).await {
            Ok(more) => said.extend(more),
            Err(failed) => {
                warn!(%voice, error = %failed.error, "announcements of tools could not be spoken; agents say them");
            }
        }
        Ok((*voice, said))
    };
    let all = speech::wait_for(|| join_all(work.iter().map(speak))).map_err(|error| {
        vec![BuildError { place: "voices".into(), message: format!("no sentence can be spoken: {error}") }]
    })?;
    let (said, errors): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
    let errors: Vec<_> = errors.into_iter().filter_map(Result::err).collect();
    if errors.is_empty() { Ok(said.into_iter().flatten().collect()) } else { Err(errors) }
}

/// Where the text stands, and what to do.
fn refused(
    config: &Config,
    parts: &BTreeMap<&str, Parts>,
    voice: Voice<'_>,
    failed: &speech::TextFailed,
) -> BuildError {
    let has_voice = |name: &&str| Voice::of(&config.contexts[*name]) == voice;
    let places = parts.iter().filter(|(name, _)| has_voice(name));
    let mut places = places.flat_map(|(name, parts)| parts.all().map(move |part| (part.text, part.place(name))));
    let place = places.find(|(text, _)| *text == failed.text).map(|(_, place)| place).unwrap_or_default();
    BuildError { place, message: format!("{voice} cannot speak it: {}; {}", failed.error, failed.error.remedy()) }
}

/// What is said about tools in the same words in every call.
fn lines(specs: &[ToolSpec]) -> impl Iterator<Item = &str> {
    let announced = specs.iter().filter_map(|spec| Some(spec.announce.as_ref()?.text.as_str()));
    let asked = specs.iter().filter_map(|spec| spec.confirm_template.as_deref());
    announced.chain(asked).filter(|text| !text.contains('{') && !text.trim().is_empty())
}

/// So that no call has to wait for it.
fn warm(clips: &Clips, format: crate::audio::Format) {
    let Clips { notice, greeting, moment, patience, apology, menu, ring_music, lines, has_voice: _ } = clips;
    let optional = [notice, greeting, menu].into_iter().flatten();
    let spoken = optional.chain([moment, patience, apology]).map(|spoken| &spoken.clip);
    spoken.chain(ring_music).chain(lines.values()).for_each(|clip| drop(clip.render(format)));
}

enum Source<'a> {
    Voice,
    File(&'a Path),
    BuiltIn(fn(&Clips) -> &Spoken),
}

/// One sentence of a context.
struct Part<'a> {
    /// Where it is written, below the context; a sentence that is not, by what has it spoken.
    key: &'static str,
    text: &'a str,
    source: Source<'a>,
}

struct Parts<'a> {
    notice: Option<Part<'a>>,
    greeting: Option<Part<'a>>,
    moment: Part<'a>,
    patience: Part<'a>,
    apology: Part<'a>,
    menu: Option<Part<'a>>,
}

impl<'a> Parts<'a> {
    fn of(context: &'a Context) -> Self {
        let speech = &context.speech;
        let line = |key, line: &'a Line| Part {
            key,
            text: &line.text,
            source: line.file.as_deref().map_or(Source::Voice, Source::File),
        };
        // A context with a voice is heard in that one alone, and the built-in recordings are in English.
        let language = context.rules.sentences.language();
        let usual = |key, written: &'a Option<Line>, sentence: Sentence, built_in| match written {
            Some(written) => line(key, written),
            None if speech.voice.is_some() => {
                Part { key: "voice", text: sentence.text(language), source: Source::Voice }
            }
            None if language != Language::English => {
                Part { key: "language", text: sentence.text(language), source: Source::Voice }
            }
            None => Part { key, text: sentence.text(language), source: Source::BuiltIn(built_in) },
        };
        let greeting = context
            .greeting
            .as_deref()
            .filter(|greeting| speech.greeting_by == Greeter::Clip && prompt::first_placeholder(greeting).is_none());
        Self {
            notice: speech.notice.as_ref().map(|notice| line("notice", notice)),
            greeting: greeting.map(|text| Part { key: "greeting", text, source: Source::Voice }),
            moment: usual("fillers.moment", &speech.moment, Sentence::Moment, |clips| &clips.moment),
            patience: usual("fillers.patience", &speech.patience, Sentence::Patience, |clips| &clips.patience),
            apology: usual("on_failure.say", &speech.apology, Sentence::Apology, |clips| &clips.apology),
            menu: speech.menu.as_ref().map(|menu| line("on_failure.menu.say", menu)),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Part<'a>> {
        let Self { notice, greeting, moment, patience, apology, menu } = self;
        [notice, greeting, menu].into_iter().flatten().chain([moment, patience, apology])
    }

    fn clips(
        &self,
        context: &str,
        said: &BTreeMap<String, Arc<Clip>>,
        built_in: &Clips,
        tools: &[ToolSpec],
    ) -> Result<Clips, BuildError> {
        let sound = |part: &Part| part.sound(context, said, built_in);
        let ready = |text: &str| Some((text.to_owned(), Arc::clone(said.get(text)?)));
        Ok(Clips {
            notice: self.notice.as_ref().map(sound).transpose()?,
            greeting: self.greeting.as_ref().map(sound).transpose()?,
            moment: sound(&self.moment)?,
            patience: sound(&self.patience)?,
            apology: sound(&self.apology)?,
            menu: self.menu.as_ref().map(sound).transpose()?,
            ring_music: None,
            lines: lines(tools).filter_map(ready).collect(),
            has_voice: false,
        })
    }
}

impl Part<'_> {
    fn place(&self, context: &str) -> String {
        format!("contexts.{context}.{}", self.key)
    }

    fn sound(&self, context: &str, said: &BTreeMap<String, Arc<Clip>>, built_in: &Clips) -> Result<Spoken, BuildError> {
        let error = |message| BuildError { place: self.place(context), message };
        let clip = match self.source {
            Source::BuiltIn(sentence) => return Ok(sentence(built_in).clone()),
            Source::Voice => said.get(self.text).cloned().ok_or_else(|| error("it was not spoken".into()))?,
            Source::File(path) => {
                let clip = Clip::open(path).map_err(|fault| error(format!("{}: {fault}", path.display())))?;
                Arc::new(clip)
            }
        };
        Ok(Spoken { text: self.text.to_owned(), clip })
    }
}
