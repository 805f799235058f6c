//! A service that speaks OpenAI's `POST /audio/speech`: the vendor's own, or one of the many servers that offer the
//! same.
//!
//! <https://platform.openai.com/docs/api-reference/audio/createSpeech>. Quirks: a streamed WAV file has lengths that
//! are not true; `pcm` has no header, and its rate is agreed upon by word of mouth.

use super::{
    Voice, VoiceKind,
    stream::{self, Patience, Service, Sounds},
    text::TextOptions,
};
use crate::{
    audio::Format,
    config::OptionProblem,
    remote::{
        checks::{self, Checked, within},
        kinds,
        openai::Server,
    },
};
use reqwest::{Client, RequestBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// What the vendor takes.
const CHARS_MAX: usize = 4_096;

pub(super) const KIND: VoiceKind = VoiceKind {
    kind: "openai_speech",
    summary: "A service with OpenAI's `POST /audio/speech`: the vendor's own or a compatible server",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: kinds::no_calls,
    language: |options| kinds::locale(options["voice"].as_str()?),
    build,
};

/// Options of `kind: openai_speech`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(flatten)]
    server: Server,
    /// As the server names it. There is no default: those of the vendor come and go.
    model: String,
    /// As the server names it.
    voice: String,
    /// How to speak, for models that take such words.
    #[serde(default)]
    instructions: Option<String>,
    /// How fast; 1 is normal.
    #[serde(default)]
    #[schemars(range(min = 0.25, max = 4.0))]
    speed: Option<f64>,
    /// What the server is asked for.
    #[serde(default)]
    #[schemars(extend("default" = "wav"))]
    response_format: ResponseFormat,
    #[serde(flatten)]
    patience: Patience,
    #[serde(flatten)]
    text: TextOptions,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum ResponseFormat {
    /// it says its own rate.
    #[default]
    Wav,
    /// 16-bit mono at 24 kHz without a header.
    Pcm,
}

impl ResponseFormat {
    const fn name(self) -> &'static str {
        match self {
            Self::Wav => "wav",
            Self::Pcm => "pcm",
        }
    }
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.server.problems();
        for (path, value) in [("model", &self.model), ("voice", &self.voice)] {
            if value.trim().is_empty() {
                problems.push(OptionProblem::new(path, "is empty").hint("write it as the server names it"));
            }
        }
        problems.extend(within("speed", self.speed, 0.25, 4.0));
        problems.extend(self.patience.problems());
        problems
    }
}

fn build(options: &Value) -> Result<Arc<dyn Voice>, Vec<OptionProblem>> {
    let options: Options = checks::read(options)?;
    Ok(Arc::new(OpenAiSpeech { options, client: checks::client()? }))
}

struct OpenAiSpeech {
    options: Options,
    client: Client,
}

impl OpenAiSpeech {
    fn request(&self, text: &str) -> RequestBuilder {
        let Options { server, model, voice, instructions, speed, response_format, .. } = &self.options;
        let mut body = json!({
            "model": model, "input": text, "voice": voice, "response_format": response_format.name(),
        });
        if let Some(instructions) = instructions {
            body["instructions"] = instructions.as_str().into();
        }
        if let Some(speed) = speed {
            body["speed"] = (*speed).into();
        }
        server.post(&self.client, "/audio/speech").json(&body)
    }
}

impl Service for OpenAiSpeech {
    const KIND: &'static str = KIND.kind;

    fn patience(&self) -> Patience {
        self.options.patience
    }

    fn text_options(&self) -> TextOptions {
        self.options.text
    }

    fn sounds(&self, text: String, _: Format, first: Duration) -> Sounds {
        let (request, format) = (self.request(&text), self.options.response_format);
        stream::limited(text, CHARS_MAX, first, async move |_| {
            let body = stream::body(request).await?;
            Ok(match format {
                ResponseFormat::Wav => stream::wav(body),
                // What the vendor's `pcm` is.
                ResponseFormat::Pcm => stream::raw(body, Format::SLIN24),
            })
        })
    }
}
