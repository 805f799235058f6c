//! A service that speaks OpenAI's `POST /audio/speech`: the vendor's own, or one of the many servers that offer the
//! same.
//!
//! <https://platform.openai.com/docs/api-reference/audio/createSpeech>. Quirks: a streamed WAV file has lengths that
//! are not true; `pcm` has no header, and its rate is agreed upon by word of mouth.

use super::{Voice, VoiceError, VoiceKind, read_options};
use crate::{
    audio::{Clip, ClipError},
    config::OptionProblem,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use reqwest::{Client, Response, StatusCode, header, redirect, retry};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{error::Error, sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

const BASE_URL: &str = "https://api.openai.com/v1";
/// What the vendor's `pcm` is.
const PCM_RATE: u32 = 24_000;
/// Two and a half minutes at 24 kHz; a sentence has a few hundred kilobytes.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// For what a service says of its fault: its name is looked for, no more.
const FAULT_BYTES_MAX: usize = 16 << 10;
/// A machine that is there takes a connection within this.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A service that is asked too fast, or has hiccups, is asked again; one that stays so is told to the operator.
const ATTEMPTS: u32 = 3;
/// Before the second attempt; twice as long before the third.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) const KIND: VoiceKind = VoiceKind {
    kind: "openai_speech",
    summary: "A service with OpenAI's `POST /audio/speech`: the vendor's own or a compatible server",
    schema: || schemars::schema_for!(Options).to_value(),
    check: |options| match read_options::<Options>(options) {
        Ok(options) => options.problems(),
        Err(problems) => problems,
    },
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
    /// The longest one sentence may take, with every attempt.
    #[serde(default = "timeout_ms")]
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

/// A long sentence takes the vendor a few seconds.
const fn timeout_ms() -> u64 {
    15_000
}

impl Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        let key = self.api_key.as_ref().map(|key| key.expose_secret());
        if key.is_some_and(|key| key.is_empty() || !key.chars().all(|c| c.is_ascii_graphic())) {
            problems.push(OptionProblem::new("api_key", "is empty, or holds a space or a control character"));
        }
        let url = url::Url::parse(&self.base_url).ok();
        let is_plain = |url: &url::Url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.query().is_none()
        };
        if !url.as_ref().is_some_and(is_plain) {
            let problem = OptionProblem::new("base_url", "is no http:// or https:// address without credentials");
            problems.push(problem.hint(format!("write it like {BASE_URL}")));
        }
        for (path, value) in [("model", &self.model), ("voice", &self.voice)] {
            if value.trim().is_empty() {
                problems.push(OptionProblem::new(path, "is empty").hint("write it as the server names it"));
            }
        }
        if self.speed.is_some_and(|speed| !(0.25..=4.0).contains(&speed)) {
            problems.push(OptionProblem::new("speed", "is not within 0.25 and 4"));
        }
        if !(1_000..=60_000).contains(&self.timeout_ms) {
            problems.push(OptionProblem::new("timeout_ms", "is not within 1000 and 60000"));
        }
        problems
    }
}

fn build(options: &Value) -> Result<Arc<dyn Voice>, Vec<OptionProblem>> {
    let options: Options = read_options(options)?;
    let problems = options.problems();
    if !problems.is_empty() {
        return Err(problems);
    }
    let client = Client::builder()
        // A key goes to whom it was given for.
        .redirect(redirect::Policy::none())
        .no_proxy()
        .retry(retry::never())
        .user_agent(concat!("offhook/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_MAX)
        .build()
        .map_err(|error| vec![OptionProblem::new("", format!("no HTTP client can be made: {error}"))])?;
    Ok(Arc::new(OpenAiSpeech { options, client }))
}

struct OpenAiSpeech {
    options: Options,
    client: Client,
}

impl OpenAiSpeech {
    async fn attempts(&self, text: &str) -> Result<Clip, VoiceError> {
        let mut pause = PAUSE;
        for _ in 1..ATTEMPTS {
            match self.ask(text).await {
                Err(VoiceError::Refused { status: 429 | 500.., .. } | VoiceError::Unreachable(_)) => {
                    sleep(pause).await;
                    pause *= 2;
                }
                result => return result,
            }
        }
        self.ask(text).await
    }

    async fn ask(&self, text: &str) -> Result<Clip, VoiceError> {
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
        let mut request = self.client.post(format!("{}/audio/speech", base_url.trim_end_matches('/'))).json(&body);
        if let Some(key) = api_key {
            request = request.bearer_auth(key.expose_secret());
        }
        let answer = request.send().await.map_err(unreachable)?;
        if answer.status() != StatusCode::OK {
            return Err(refused(answer).await);
        }
        let content = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content = content.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        // `pcm` is whatever one takes it for, so it must not be a page or a message.
        if content.starts_with("text/") || content == "application/json" {
            return Err(VoiceError::OtherContent(content));
        }
        let sound = read(answer, ANSWER_BYTES_MAX).await?.ok_or(VoiceError::TooLarge(ANSWER_BYTES_MAX))?;
        Ok(clip(&sound, *response_format)?)
    }
}

fn clip(sound: &[u8], format: ResponseFormat) -> Result<Clip, ClipError> {
    match format {
        ResponseFormat::Wav => Clip::from_wav(sound),
        ResponseFormat::Pcm => {
            let samples = sound.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
            Clip::from_samples(PCM_RATE, samples)
        }
    }
}

impl Voice for OpenAiSpeech {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn speak<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Clip, VoiceError>> {
        let limit = Duration::from_millis(self.options.timeout_ms);
        async move { timeout(limit, self.attempts(text)).await.map_err(|_| VoiceError::TooSlow(limit))? }.boxed()
    }
}

/// The body, unless it has more than `max` bytes.
async fn read(mut answer: Response, max: usize) -> Result<Option<Vec<u8>>, VoiceError> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(unreachable)? {
        if body.len() + piece.len() > max {
            return Ok(None);
        }
        body.extend_from_slice(&piece);
    }
    Ok(Some(body))
}

/// Of what the service says only its name of the fault is kept: its sentences may repeat the key or the text.
async fn refused(answer: Response) -> VoiceError {
    let status = answer.status().as_u16();
    let body = read(answer, FAULT_BYTES_MAX).await.ok().flatten().unwrap_or_default();
    let fault: Value = serde_json::from_slice(&body).unwrap_or_default();
    let is_name = |name: &&str| {
        (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let named = |key: &str| fault.get("error")?.get(key)?.as_str().filter(is_name).map(str::to_owned);
    VoiceError::Refused { status, code: named("code").or_else(|| named("type")) }
}

/// The innermost words, which say what was not there; the outer ones repeat the address.
fn unreachable(error: reqwest::Error) -> VoiceError {
    let mut cause: &dyn Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    VoiceError::Unreachable(cause.to_string())
}
