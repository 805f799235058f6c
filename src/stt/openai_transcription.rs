//! A service with OpenAI's `POST /audio/transcriptions`: the vendor's own, or one of the many servers that offer the
//! same.
//!
//! <https://platform.openai.com/docs/api-reference/audio/createTranscription>. Quirks: it takes files only, so an
//! utterance gets a WAV header; the file's name says what it is; less than 0.1 s is refused.

#[cfg(test)]
mod tests;

use super::{
    ListenerKind, Patience,
    utterance::{ByUtterance, Scribe, Written},
};
use crate::{
    audio::Format,
    config::OptionProblem,
    remote::{
        Fault,
        checks::{self, Checked, within},
        http, kinds,
        openai::Server,
        transcription::TranscriptionUsage,
    },
};
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use reqwest::{
    Client,
    multipart::{Form, Part},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{io::Cursor, sync::Arc};
use tokio::sync::mpsc;

/// The text of the longest utterance has some ten kilobytes; servers add times and probabilities.
const ANSWER_BYTES_MAX: usize = 1 << 20;

pub(super) const KIND: ListenerKind = ListenerKind {
    kind: "openai_transcription",
    summary: "A service with OpenAI's `POST /audio/transcriptions`: the vendor's own or a compatible server",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: kinds::no_calls,
    language: kinds::language_option,
    build: |options| {
        let service = Service { options: checks::read(options)?, client: checks::client()? };
        Ok(Arc::new(ByUtterance(Arc::new(service))))
    },
};

/// Options of `kind: openai_transcription`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(flatten)]
    server: Server,
    /// As the server names it, such as the vendor's `gpt-transcribe`.
    model: String,
    /// The language spoken, ISO 639-1, such as `de`; better and faster where it is known.
    #[serde(default)]
    language: Option<String>,
    /// The languages to be expected, for `gpt-transcribe`.
    #[serde(default)]
    languages: Vec<String>,
    /// What the conversation is about, for models that take such words.
    #[serde(default)]
    prompt: Option<String>,
    /// Words to be recognized that few people use, for `gpt-transcribe`.
    #[serde(default)]
    keywords: Vec<String>,
    /// 0 is the most certain.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    temperature: Option<f64>,
    #[serde(flatten)]
    patience: Patience,
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.server.problems();
        if self.model.trim().is_empty() {
            problems.push(OptionProblem::new("model", "is empty").hint("write it as the server names it"));
        }
        if self.language.is_some() && !self.languages.is_empty() {
            problems.push(OptionProblem::new("languages", "cannot stand beside language").hint("remove one of them"));
        }
        problems.extend(within("temperature", self.temperature, 0.0, 1.0));
        problems.extend(self.patience.problems());
        problems
    }
}

struct Service {
    options: Options,
    client: Client,
}

#[derive(Deserialize)]
struct Answer {
    text: String,
    #[serde(default)]
    usage: Option<TranscriptionUsage>,
}

impl Scribe for Service {
    const KIND: &'static str = KIND.kind;
    /// Compatible servers do not all resample.
    const FORMAT: Format = Format::SLIN16;

    fn patience(&self) -> Patience {
        self.options.patience
    }

    fn write(
        self: Arc<Self>,
        mut audio: mpsc::Receiver<Bytes>,
        _partials: mpsc::Sender<String>,
    ) -> BoxFuture<'static, Result<Written, Fault>> {
        async move {
            let mut utterance = Vec::new();
            while let Some(piece) = audio.recv().await {
                utterance.extend_from_slice(&piece);
            }
            let wav = wav(&utterance, Self::FORMAT).map_err(|_| Fault::Garbage("no WAV file can be made"))?;
            self.ask(wav).await
        }
        .boxed()
    }
}

impl Service {
    fn form(&self, wav: Vec<u8>) -> reqwest::Result<Form> {
        let Options { model, language, languages, prompt, keywords, temperature, .. } = &self.options;
        let file = Part::bytes(wav).file_name("turn.wav").mime_str("audio/wav")?;
        let mut form = Form::new().part("file", file).text("model", model.clone()).text("response_format", "json");
        let texts = [("language", language), ("prompt", prompt)];
        for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))) {
            form = form.text(name, text);
        }
        for (name, list) in [("languages[]", languages), ("keywords[]", keywords)] {
            form = list.iter().fold(form, |form, item| form.text(name, item.clone()));
        }
        Ok(match temperature {
            Some(temperature) => form.text("temperature", temperature.to_string()),
            None => form,
        })
    }

    async fn ask(&self, wav: Vec<u8>) -> Result<Written, Fault> {
        let request = self.options.server.post(&self.client, "/audio/transcriptions");
        let answer = request.multipart(self.form(wav).map_err(http::fault)?).send().await.map_err(http::fault)?;
        if !answer.status().is_success() {
            return Err(http::refused(answer).await);
        }
        written(&http::read(answer, ANSWER_BYTES_MAX).await?)
    }
}

fn written(body: &[u8]) -> Result<Written, Fault> {
    let answer: Answer = serde_json::from_slice(body).map_err(|_| Fault::Garbage("it is no transcription"))?;
    let usage = answer.usage.map(Into::into).unwrap_or_default();
    Ok(Written { text: answer.text.trim().to_owned(), usage })
}

/// Any body of an answer: what is written down was in it, without blanks around it.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    match written(data) {
        Ok(Written { text, .. }) => {
            assert!(text.len() <= data.len(), "{} bytes of {}", text.len(), data.len());
            assert_eq!(text, text.trim());
        }
        Err(fault) => assert!(matches!(fault, Fault::Garbage(_)), "{fault:?}"),
    }
}

/// `audio` is 16-bit linear.
fn wav(audio: &[u8], format: Format) -> Result<Vec<u8>, hound::Error> {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: format.rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = Cursor::new(Vec::with_capacity(audio.len() + 44));
    let mut writer = hound::WavWriter::new(&mut file, spec)?;
    for pair in audio.chunks_exact(2) {
        writer.write_sample(i16::from_le_bytes([pair[0], pair[1]]))?;
    }
    writer.finalize()?;
    Ok(file.into_inner())
}
