//! A Wyoming server that speaks: Piper and others, on this machine or near it.
//!
//! <https://github.com/OHF-Voice/wyoming>. Quirks: some servers close the connection after one request and none says
//! which, so every clause has its own; there is no word to cancel but closing it. The rate is the voice's own.

use super::{
    VoiceError, VoiceKind,
    stream::{self, Patience, Service, Sounds},
    text::{TextOptions, VoiceLanguage},
};
use crate::{
    audio::Format,
    config::OptionProblem,
    remote::{
        Fault,
        checks::{self, Checked},
        kinds,
        wyoming::{Connection, Event},
    },
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream::try_unfold};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

const ADDRESS: &str = "127.0.0.1:10200";
/// No server names a limit. Some render a sentence as a whole, and this one takes them seconds.
const CHARS_MAX: usize = 4_000;
/// Longest wait for the list of a server's voices; a caller may be waiting for the next voice of a fallback.
const DESCRIBE_MAX: Duration = Duration::from_millis(500);
/// Names in one message, so that it stays a line; Piper's are shorter than these characters.
const VOICES_SHOWN: usize = 10;
const NAME_CHARS_MAX: usize = 64;

pub(super) const KIND: VoiceKind = VoiceKind {
    kind: "wyoming_speech",
    summary: "A Wyoming server, such as wyoming-piper: no key, no cloud",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: kinds::no_calls,
    language: |options| kinds::language_option(options).or_else(|| kinds::locale(options["voice"].as_str()?)),
    build: |options| Ok(Arc::new(Wyoming(checks::read(options)?))),
};

/// Options of `kind: wyoming_speech`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    /// Host and port, such as `127.0.0.1:10200`. What is said travels there as it is: the protocol has no encryption.
    address: String,
    /// As the server names it; without it the server's own choice.
    #[serde(default)]
    voice: Option<String>,
    /// One of the speakers of a `voice` that has several.
    #[serde(default)]
    speaker: Option<String>,
    /// The language spoken, such as `de`, where no `voice` says it.
    #[serde(default)]
    language: Option<String>,
    #[serde(flatten)]
    patience: Patience,
    #[serde(flatten)]
    text: TextOptions,
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::from_iter(checks::host_and_port("address", &self.address, ADDRESS));
        for (path, value) in [("voice", &self.voice), ("speaker", &self.speaker), ("language", &self.language)] {
            if value.as_deref().is_some_and(|value| value.trim().is_empty()) {
                let problem = OptionProblem::new(path, "is empty");
                problems.push(problem.hint("remove it, or write it as the server names it"));
            }
        }
        if self.speaker.is_some() && self.voice.is_none() {
            problems.push(OptionProblem::new("speaker", "is of no voice").hint("name the voice as well"));
        }
        problems.extend(self.patience.problems());
        problems
    }
}

struct Wyoming(Options);

impl Wyoming {
    fn synthesize(&self, text: &str) -> Event {
        let voice = [("name", &self.0.voice), ("speaker", &self.0.speaker), ("language", &self.0.language)];
        let voice: serde_json::Map<String, Value> =
            voice.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.as_deref()?.into()))).collect();
        let mut data = json!({ "text": text });
        if !voice.is_empty() {
            data["voice"] = voice.into();
        }
        Event::new("synthesize", data)
    }
}

impl Service for Wyoming {
    const KIND: &'static str = KIND.kind;

    fn patience(&self) -> Patience {
        self.0.patience
    }

    fn text_options(&self) -> TextOptions {
        self.0.text
    }

    fn language(&self) -> Option<VoiceLanguage> {
        self.0.language.as_deref().or(self.0.voice.as_deref()).and_then(VoiceLanguage::of)
    }

    fn sounds(&self, text: String, _: Format, first: Duration) -> Sounds {
        let (address, request) = (self.0.address.clone(), self.synthesize(&text));
        let voice = self.0.voice.clone();
        stream::limited(text, CHARS_MAX, first, async move |_| {
            let mut server = Connection::connect(&address).await?;
            server.send(&request).await?;
            let format = match begin(&mut server).await {
                // A server does not tell that the voice is the reason.
                Err(error @ VoiceError::Remote(Fault::Reported { .. } | Fault::Closed(_))) => {
                    return Err(lacks(&address, voice).await.unwrap_or(error));
                }
                begun => begun?,
            };
            Ok(stream::raw(try_unfold(server, next).boxed(), format))
        })
    }
}

/// Asks a server that has refused which voices it has, and returns an error where the wanted one is not among them.
async fn lacks(address: &str, wanted: Option<String>) -> Option<VoiceError> {
    let wanted = wanted?;
    let asked = async {
        let mut server = Connection::connect(address).await?;
        server.send(&Event::new("describe", Value::Null)).await?;
        loop {
            let event = server.next().await?;
            if event.kind == "info" {
                return Ok::<_, Fault>(event.data);
            }
        }
    };
    let info = timeout(DESCRIBE_MAX, asked).await.ok()?.ok()?;
    let programs = info.get("tts").and_then(Value::as_array).into_iter().flatten();
    let voices = programs.filter_map(|program| program["voices"].as_array()).flatten();
    let there: Vec<&str> =
        voices.filter(|voice| voice["installed"] != false).filter_map(|voice| voice["name"].as_str()).collect();
    if there.is_empty() || there.contains(&&*wanted) {
        return None;
    }
    let shown = there.iter().take(VOICES_SHOWN).map(|name| name.chars().take(NAME_CHARS_MAX).collect::<String>());
    let more = there.len().saturating_sub(VOICES_SHOWN);
    let more = (more > 0).then(|| format!("{more} others"));
    let there = shown.chain(more).collect::<Vec<_>>().join(", ");
    Some(VoiceError::NoSuchVoice { wanted, there })
}

/// Waits until the sound begins, and for its format.
async fn begin(server: &mut Connection) -> Result<Format, VoiceError> {
    loop {
        let event = server.next().await?;
        if let Some(fault) = event.fault() {
            return Err(fault.into());
        }
        if event.kind == "audio-start" {
            let number = |key: &str| event.data.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
            let (Some(rate), Some(width), Some(channels)) = (number("rate"), number("width"), number("channels"))
            else {
                return Err(Fault::Garbage("an audio-start without rate, width and channels").into());
            };
            let most = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
            return Ok(Format::of_pcm(most(width.saturating_mul(8)), most(channels), rate)?);
        }
    }
}

async fn next(mut server: Connection) -> Result<Option<(Bytes, Connection)>, VoiceError> {
    loop {
        let event = server.next().await?;
        match &*event.kind {
            "audio-chunk" => return Ok(Some((event.payload, server))),
            "audio-stop" => return Ok(None),
            _ => match event.fault() {
                Some(fault) => return Err(fault.into()),
                None => continue,
            },
        }
    }
}
