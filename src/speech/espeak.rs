//! espeak-ng: the voice that needs neither a key nor the network.
//!
//! <https://github.com/espeak-ng/espeak-ng/blob/master/src/espeak-ng.1.ronn>. Its quirk: it writes a WAV file to a
//! pipe before it knows how long it will be, so the lengths in it are not true.

use super::{
    Sound, Voice, VoiceError, VoiceKind,
    stream::limited,
    text::{TextOptions, VoiceLanguage},
};
use crate::{
    audio::{Clip, Format},
    config::OptionProblem,
    remote::{
        checks::{self, Checked},
        kinds,
        program::{self, PLACES, Places, Program},
    },
};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::{io::ErrorKind, process::Stdio, sync::Arc, time::Duration};
use tokio::process::Command;

const PROGRAM: &str = "espeak-ng";
/// It speaks a paragraph in some 50 ms; a machine that needs so long for it is stuck.
const SPEAK_MAX: Duration = Duration::from_secs(10);
/// The same for a clause that a caller waits for: the next voice of a list is there within a breath.
const CLAUSE_MAX: Duration = Duration::from_secs(2);

/// Some five minutes of speech, which is what a clip may have.
const CHARS_MAX: usize = 4_000;
/// Twice what that has at 22 kHz.
const BYTES_MAX: usize = 32 << 20;

pub(super) const KIND: VoiceKind = VoiceKind {
    kind: "espeak_ng",
    summary: "The program espeak-ng on this machine: no key, no network, and it sounds like a machine",
    schema: checks::schema::<Espeak>,
    check: checks::mistakes::<Espeak>,
    calls: kinds::no_calls,
    language,
    build: |options| Ok(Arc::new(checks::read::<Espeak>(options)?)),
};

/// How espeak-ng is to sound.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Espeak {
    /// A voice of `espeak-ng --voices`.
    pub voice: String,
    #[schemars(range(min = 80, max = 400))]
    pub words_per_minute: u32,
    #[serde(flatten)]
    pub text: TextOptions,
}

impl Default for Espeak {
    fn default() -> Self {
        Self { voice: "en".into(), words_per_minute: 165, text: TextOptions::default() }
    }
}

/// Voices are named by their language, such as `en-us+f3`; those of MBROLA are not: `mb-de4-en`.
fn language(options: &Value) -> Option<String> {
    let Espeak { voice, .. } = checks::read(options).ok()?;
    (!voice.contains("mb-")).then_some(voice)
}

impl Checked for Espeak {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if !(80..=400).contains(&self.words_per_minute) {
            problems.push(OptionProblem::new("words_per_minute", "is not within 80 and 400"));
        }
        if self.voice.is_empty() || self.voice.starts_with('-') {
            problems.push(OptionProblem::new("voice", "is no voice").hint("see `espeak-ng --voices`"));
        }
        problems
    }
}

impl Espeak {
    fn text(&self, written: &str) -> String {
        self.text.text(written, VoiceLanguage::of(&self.voice))
    }

    /// Half of the time is for one of the places, which recognizers have too: 50 ms of a clause are as good as nothing, but those
    /// of all calls at once would be late in every one of them.
    async fn run(&self, text: &str, limit: Duration, places: &Places) -> Result<Clip, VoiceError> {
        let _place = places.place(limit / 2).await?;
        self.run_at_once(text, limit).await
    }

    /// The text goes in by standard input: arguments can be read by every user of the machine.
    async fn run_at_once(&self, text: &str, limit: Duration) -> Result<Clip, VoiceError> {
        let mut command = Command::new(PROGRAM);
        command.args(["-v", &self.voice, "-s", &self.words_per_minute.to_string(), "--stdin", "--stdout"]);
        command.stderr(Stdio::piped());
        let program = Program::start(command).map_err(|error| match error.kind() {
            ErrorKind::NotFound => VoiceError::Missing,
            _ => VoiceError::Run(error),
        })?;
        let said = program.answer(text.as_bytes(), BYTES_MAX, limit).await?;
        if !said.status.success() {
            let words = String::from_utf8_lossy(&said.stderr);
            return Err(VoiceError::Failed(words.lines().next().unwrap_or_default().to_owned()));
        }
        Ok(Clip::from_wav(&said.stdout)?)
    }
}

impl Voice for Espeak {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn first_sound_max(&self) -> Duration {
        CLAUSE_MAX
    }

    fn speak<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Clip, VoiceError>> {
        let text = self.text(text);
        async move { self.run(&text, SPEAK_MAX, &PLACES).await }.boxed()
    }

    /// It is faster than anybody would notice, so all of it comes in one piece.
    fn stream(&self, text: String, leg: Format) -> BoxStream<'static, Result<Sound, VoiceError>> {
        let voice = self.clone();
        limited(self.text(&text), CHARS_MAX, CLAUSE_MAX, async move |text| {
            let audio = voice.run(&text, CLAUSE_MAX, &PLACES).await?.render(leg);
            Ok(stream::iter([Ok(Sound { format: leg, audio })]).boxed())
        })
    }
}

/// Whether the program lies on the `PATH`.
pub fn is_installed() -> bool {
    program::find(PROGRAM).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// It is a fault like any other: the next voice of the list is asked, while the caller still waits.
    #[tokio::test(start_paused = true)]
    async fn where_too_many_programs_are_at_work_it_is_not_started_and_that_is_told() {
        let places = Places::new(0);
        for limit in [CLAUSE_MAX, SPEAK_MAX] {
            let since = Instant::now();
            let Err(error) = Espeak::default().run("Hello.", limit, &places).await else { panic!("it spoke") };
            assert_eq!((error.label(), since.elapsed()), ("no_place", limit / 2));
            assert_eq!(crate::remote::Fault::from(error).label(), "no_place");
        }
    }

    #[tokio::test]
    async fn its_place_is_free_again_when_it_has_ended_and_when_nobody_waits_for_it_any_more() {
        let places = Places::new(1);
        let espeak = Espeak::default();
        // Whether the program is installed or not.
        let _ = espeak.run("Hello.", SPEAK_MAX, &places).await;
        assert_eq!(places.free(), 1);
        let mut speaking = Box::pin(espeak.run("Hello.", SPEAK_MAX, &places));
        let _ = futures_util::poll!(&mut speaking);
        drop(speaking);
        assert_eq!(places.free(), 1);
    }
}
