//! ElevenLabs' voices over HTTP, streamed.
//!
//! <https://elevenlabs.io/docs/api-reference/text-to-speech/stream>. Quirks: without `output_format` it answers in MP3;
//! the formats have neither head nor container, so what was asked for is what it is; a quota that is used up is a 401.

use super::{
    Voice, VoiceKind,
    stream::{self, Patience, Service, Sounds},
    text::TextOptions,
};
use crate::{
    audio::{Encoding, Format},
    config::OptionProblem,
    remote::{
        checks::{self, Checked, within},
        kinds,
    },
};
use reqwest::{Client, RequestBuilder, header::HeaderValue};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const BASE_URL: &str = "https://api.elevenlabs.io";
/// The vendor's fastest; it speaks some thirty languages.
const MODEL: &str = "eleven_flash_v2_5";
/// What the smallest of the vendor's models takes.
const CHARS_MAX: usize = 5_000;

pub(super) const KIND: VoiceKind = VoiceKind {
    kind: "elevenlabs_speech",
    summary: "ElevenLabs' voices; G.711 as the telephone has it",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: kinds::no_calls,
    language: kinds::language_option,
    build,
};

/// Options of `kind: elevenlabs_speech`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    /// The key; write `${ELEVENLABS_API_KEY}` rather than the key itself.
    #[schemars(with = "String")]
    api_key: SecretString,
    /// Another server with the same interface, such as that of a region.
    #[serde(default = "base_url")]
    base_url: String,
    /// The voice's id.
    voice: String,
    #[serde(default = "model")]
    model: String,
    /// ISO 639-1, such as `en`, for models that may take a text for another language.
    #[serde(default)]
    language: Option<String>,
    /// What is set at the voice itself holds for what is not set here.
    #[serde(default)]
    settings: Option<Settings>,
    #[serde(flatten)]
    patience: Patience,
    #[serde(flatten)]
    text: TextOptions,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Lower is livelier, higher is more even.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    stability: Option<f64>,
    /// How close it keeps to the recorded voice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    similarity_boost: Option<f64>,
    /// How much of the speaker's manner is exaggerated; more takes longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    style: Option<f64>,
    /// How fast; 1 is normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.7, max = 1.2))]
    speed: Option<f64>,
}

fn base_url() -> String {
    BASE_URL.into()
}

fn model() -> String {
    MODEL.into()
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        problems.extend(checks::secret("api_key", &self.api_key, "ELEVENLABS_API_KEY"));
        problems.extend(checks::http("base_url", &self.base_url, BASE_URL));
        problems.extend(checks::name("voice", &self.voice, "id of a voice", "JBFqnCBsd6RMkjVDRZzb"));
        problems.extend(checks::name("model", &self.model, "model name", MODEL));
        let language = self.language.as_ref();
        problems.extend(language.and_then(|language| checks::name("language", language, "language", "en")));
        if let Some(Settings { stability, similarity_boost, style, speed }) = &self.settings {
            problems.extend(within("settings.stability", *stability, 0.0, 1.0));
            problems.extend(within("settings.similarity_boost", *similarity_boost, 0.0, 1.0));
            problems.extend(within("settings.style", *style, 0.0, 1.0));
            problems.extend(within("settings.speed", *speed, 0.7, 1.2));
        }
        problems.extend(self.patience.problems());
        problems
    }
}

fn build(options: &Value) -> Result<Arc<dyn Voice>, Vec<OptionProblem>> {
    let options: Options = checks::read(options)?;
    let mut key = HeaderValue::from_str(options.api_key.expose_secret())
        .map_err(|_| vec![OptionProblem::new("api_key", "holds what no header can carry")])?;
    key.set_sensitive(true);
    Ok(Arc::new(ElevenLabs { options, key, client: checks::client()? }))
}

struct ElevenLabs {
    options: Options,
    key: HeaderValue,
    client: Client,
}

/// What the vendor is asked for, for a leg of this format: G.711 as it is, and samples no better than are heard.
const fn output(leg: Format) -> (&'static str, Format) {
    match (leg.encoding, leg.rate) {
        (Encoding::Mulaw, _) => ("ulaw_8000", Format::ULAW),
        (Encoding::Alaw, _) => ("alaw_8000", Format::ALAW),
        (Encoding::Linear, ..=16_000) => ("pcm_16000", Format::SLIN16),
        (Encoding::Linear, _) => ("pcm_24000", Format::SLIN24),
    }
}

impl ElevenLabs {
    fn request(&self, text: &str, output: &str) -> RequestBuilder {
        let Options { base_url, voice, model, language, settings, .. } = &self.options;
        let mut body = json!({ "text": text, "model_id": model });
        if let Some(language) = language {
            body["language_code"] = language.as_str().into();
        }
        if let Some(settings) = settings {
            body["voice_settings"] = json!(settings);
        }
        let address = format!("{}/v1/text-to-speech/{voice}/stream", base_url.trim_end_matches('/'));
        self.client.post(address).query(&[("output_format", output)]).header("xi-api-key", &self.key).json(&body)
    }
}

impl Service for ElevenLabs {
    const KIND: &'static str = KIND.kind;

    fn patience(&self) -> Patience {
        self.options.patience
    }

    fn text_options(&self) -> TextOptions {
        self.options.text
    }

    fn sounds(&self, text: String, leg: Format, first: Duration) -> Sounds {
        let (output, format) = output(leg);
        let request = self.request(&text, output);
        stream::limited(text, CHARS_MAX, first, async move |_| Ok(stream::raw(stream::body(request).await?, format)))
    }
}
