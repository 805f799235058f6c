//! A service that speaks OpenAI's `POST /audio/speech`: the vendor's own, or one of the many servers that offer the
//! same.
//!
//! <https://platform.openai.com/docs/api-reference/audio/createSpeech>. Quirks: a streamed WAV file has lengths that
//! are not true; `pcm` has no header, and its rate is agreed upon by word of mouth.

use super::{
    Sound, Voice, VoiceError, VoiceKind,
    stream::{self, Patience, Sounds},
};
use crate::{
    audio::{Clip, Format},
    config::OptionProblem,
    remote::checks::{self, Checked, within},
};
use futures_util::{FutureExt as _, future::BoxFuture, stream::BoxStream};
use reqwest::{Client, RequestBuilder};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const BASE_URL: &str = "https://api.openai.com/v1";
/// What the vendor takes.
const CHARS_MAX: usize = 4_096;

pub(super) const KIND: VoiceKind = VoiceKind {
    kind: "openai_speech",
    summary: "A service with OpenAI's `POST /audio/speech`: the vendor's own or a compatible server",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    build,
};

/// Options of `kind: openai_speech`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    /// The key; write `${OPENAI_API_KEY}` rather than the key itself. Servers of your own often want none.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    api_key: Option<SecretString>,
    /// Another server with the same protocol; `/audio/speech` is added.
    #[serde(default = "base_url")]
    base_url: String,
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
    /// The longest wait for the first sound of what an agent says.
    #[serde(default = "stream::first_sound_ms")]
    #[schemars(range(min = 500, max = 60_000))]
    first_sound_ms: u64,
    /// The longest that one sentence of offhook's own may take, with every attempt.
    #[serde(default = "stream::timeout_ms")]
    #[schemars(range(min = 1_000, max = 60_000))]
    timeout_ms: u64,
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

fn base_url() -> String {
    BASE_URL.into()
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        problems.extend(self.api_key.as_ref().and_then(|key| checks::secret("api_key", key, "OPENAI_API_KEY")));
        problems.extend(checks::http("base_url", &self.base_url, BASE_URL));
        for (path, value) in [("model", &self.model), ("voice", &self.voice)] {
            if value.trim().is_empty() {
                problems.push(OptionProblem::new(path, "is empty").hint("write it as the server names it"));
            }
        }
        problems.extend(within("speed", self.speed, 0.25, 4.0));
        problems.extend(within("first_sound_ms", Some(self.first_sound_ms as f64), 500.0, 60_000.0));
        problems.extend(within("timeout_ms", Some(self.timeout_ms as f64), 1_000.0, 60_000.0));
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
    const fn patience(&self) -> Patience {
        Patience::of_ms(self.options.first_sound_ms, self.options.timeout_ms)
    }

    fn request(&self, text: &str) -> RequestBuilder {
        let Options { api_key, base_url, model, voice, instructions, speed, response_format, .. } = &self.options;
        let mut body = json!({
            "model": model, "input": text, "voice": voice, "response_format": response_format.name(),
        });
        if let Some(instructions) = instructions {
            body["instructions"] = instructions.as_str().into();
        }
        if let Some(speed) = speed {
            body["speed"] = (*speed).into();
        }
        let request = self.client.post(format!("{}/audio/speech", base_url.trim_end_matches('/'))).json(&body);
        match api_key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        }
    }

    fn sounds(&self, text: String, first: Duration) -> Sounds {
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

impl Voice for OpenAiSpeech {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn speak<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Clip, VoiceError>> {
        let limit = self.patience().sentence;
        stream::sentence(limit, move || self.sounds(text.to_owned(), limit)).boxed()
    }

    fn stream(&self, text: String, _: Format) -> BoxStream<'static, Result<Sound, VoiceError>> {
        self.sounds(text, self.patience().clause)
    }
}
