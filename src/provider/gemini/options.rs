//! What an admin can set for Gemini Live.

use super::{
    calls::{RESPONSE_BYTES, RESPONSE_BYTES_MAX, RESPONSE_BYTES_MIN},
    models,
};
use crate::{
    config::OptionProblem,
    remote::{
        checks::{self, Checked, within},
        effort::Effort,
    },
};
use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use std::{io, path::PathBuf};
use tokio::{fs::File, io::AsyncReadExt as _};

const BASE_URL: &str = "wss://generativelanguage.googleapis.com";
const GEMINI_PATH: &str = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";
const VERTEX_PATH: &str = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent";
/// The vendor's current model for speech, on both of its interfaces.
const MODEL: &str = "gemini-3.8-live";
/// More is refused.
const VOCABULARY_MAX: usize = 100;

/// Options of `kind: gemini_live`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// The key of the Gemini API; write `${GEMINI_API_KEY}` rather than the key itself. Either this or
    /// `vertex`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(super) api_key: Option<SecretString>,
    /// The model on Google Cloud (Vertex AI) instead of the Gemini API.
    #[serde(default)]
    pub(super) vertex: Option<Vertex>,
    /// Another server that speaks the same protocol; `ws://` is allowed for one nearby. Without a path it
    /// gets the vendor's.
    #[serde(default)]
    pub(super) base_url: Option<String>,
    #[serde(default = "model")]
    pub(super) model: String,
    /// One of the vendor's voices: Puck, Charon, Kore, Fenrir, Aoede, Leda, Orus, Zephyr and others.
    /// Without it the model's own.
    #[serde(default)]
    pub(super) voice: Option<String>,
    /// How freely the model chooses its words.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub(super) temperature: Option<f64>,
    /// Limit of one answer; without it the model's own.
    #[serde(default)]
    #[schemars(range(min = 1, max = 65536))]
    pub(super) max_output_tokens: Option<u32>,
    /// How long the model thinks before it speaks: a level with 3.x models, tokens with 2.5. `gemini-3.8-live` refuses it,
    /// `gemini-3.8-live-extended-thinking` needs a level above `minimal`.
    #[serde(default)]
    pub(super) thinking: Option<Thinking>,
    /// How the server finds the caller's turns, in contexts with `turns.owner: provider`. Elsewhere offhook
    /// tells it. What is left out is the model's own; some models recognize languages worse when it is set.
    #[serde(default)]
    pub(super) turn_detection: Option<TurnDetection>,
    /// The caller's words as text. They are for the record of the call and for spoken confirmations; no
    /// log, page or metric shows them. `null` switches them off.
    #[serde(default = "transcription")]
    #[schemars(extend("default" = serde_json::json!({})))]
    pub(super) transcription: Option<Transcription>,
    /// Whether the model waits for the answer of a tool, or goes on talking meanwhile. Without it the model
    /// is told to wait where it can be told: 3.8 models would go on; those with extended thinking
    /// cannot wait; older ones always wait and 3.0 and 3.1 do not know the word. It never waits for `collect_digits` and
    /// `verify_pin`, whose question it has to ask; 3.0 and 3.1 cannot ask it.
    #[serde(default)]
    pub(super) tool_behavior: Option<ToolBehavior>,
    /// Bytes of a tool's answer, with what it is wrapped in; what is longer is cut. Answers larger than the default were
    /// seen to end sessions of some models.
    #[serde(default = "tool_answer_bytes")]
    #[schemars(range(min = 256, max = 16384))]
    pub(super) tool_answer_bytes: usize,
    /// The longest that one session lasts, in seconds, where that is not the vendor's 58 minutes of `gemini-3.8-live`:
    /// offhook goes on in another session before, also where the server does not say that it will go.
    #[serde(default)]
    #[schemars(range(min = 10, max = 86400))]
    pub(super) session_seconds: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Vertex {
    pub(super) project: String,
    /// A region such as `europe-west4`, or `global`.
    #[serde(default = "location")]
    pub(super) location: String,
    /// A file with an OAuth access token and nothing else, read anew for each session. Google's tokens last an hour, so
    /// something has to write a new one there before: `gcloud auth print-access-token` every half an hour, say.
    #[serde(default)]
    pub(super) access_token_file: Option<PathBuf>,
    /// The token itself, for an engine that does not run for longer than it lasts; write `${VERTEX_ACCESS_TOKEN}`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(super) access_token: Option<SecretString>,
}

/// Google's tokens have a few hundred characters.
const TOKEN_BYTES_MAX: u64 = 16 * 1024;

impl Vertex {
    /// What a session says who it is with.
    pub(super) async fn bearer(&self) -> io::Result<SecretString> {
        let token = match (&self.access_token, &self.access_token_file) {
            (Some(token), _) => token.expose_secret().to_owned(),
            (None, Some(file)) => {
                let mut written = String::new();
                File::open(file).await?.take(TOKEN_BYTES_MAX).read_to_string(&mut written).await?;
                written
            }
            (None, None) => String::new(),
        };
        Ok(format!("Bearer {}", token.trim()).into())
    }
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Thinking {
    /// For 3.x models.
    Level(Effort),
    /// Tokens, for 2.5 models; 0 is none, -1 as many as the model likes.
    Budget(i32),
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnDetection {
    /// `high` hears speech sooner, and noise as well.
    #[serde(default)]
    pub(super) start_sensitivity: Option<Sensitivity>,
    /// `high` ends a turn sooner.
    #[serde(default)]
    pub(super) end_sensitivity: Option<Sensitivity>,
    /// Speech that is needed before it counts as a turn.
    #[serde(default)]
    #[schemars(range(max = 5000))]
    pub(super) prefix_padding_ms: Option<u32>,
    /// Silence that ends a turn.
    #[serde(default)]
    #[schemars(range(max = 10000))]
    pub(super) silence_duration_ms: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sensitivity {
    High,
    Low,
}

impl Sensitivity {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::High => "HIGH",
            Self::Low => "LOW",
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Transcription {
    /// Languages to expect, such as `de-DE`; without any the model finds out.
    #[serde(default)]
    pub(super) languages: Vec<String>,
    /// Names and words to expect.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub(super) vocabulary: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolBehavior {
    /// The model is silent until the answer is there.
    Blocking,
    /// The model may go on talking; it takes the answer up when it has finished its sentence.
    NonBlocking,
}

impl ToolBehavior {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "BLOCKING",
            Self::NonBlocking => "NON_BLOCKING",
        }
    }
}

fn model() -> String {
    MODEL.into()
}

const fn tool_answer_bytes() -> usize {
    RESPONSE_BYTES
}

fn location() -> String {
    "global".into()
}

#[allow(clippy::unnecessary_wraps)] // The default of an option that may be switched off.
fn transcription() -> Option<Transcription> {
    Some(Transcription::default())
}

impl Options {
    pub(super) fn url(&self) -> String {
        let path = if self.vertex.is_some() { VERTEX_PATH } else { GEMINI_PATH };
        let base = match (&self.base_url, &self.vertex) {
            (Some(base), _) => base.clone(),
            (None, None) => BASE_URL.into(),
            (None, Some(vertex)) if vertex.location == "global" => "wss://aiplatform.googleapis.com".into(),
            (None, Some(vertex)) => format!("wss://{}-aiplatform.googleapis.com", vertex.location),
        };
        let (address, query) = base.split_once('?').unwrap_or((&base, ""));
        let mark = if query.is_empty() { "" } else { "?" };
        let (_, host) = address.split_once("://").unwrap_or(("", address));
        match host.split_once('/') {
            None | Some((_, "")) => format!("{}{path}{mark}{query}", address.trim_end_matches('/')),
            Some(_) => base,
        }
    }

    /// As the server wants it named.
    pub(super) fn model_path(&self) -> String {
        let model = &self.model;
        match &self.vertex {
            None => format!("models/{model}"),
            Some(Vertex { project, location, .. }) => {
                format!("projects/{project}/locations/{location}/publishers/google/models/{model}")
            }
        }
    }
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        match (&self.api_key, &self.vertex) {
            (None, None) => {
                problems.push(OptionProblem::new("api_key", "is missing").hint("set it, or `vertex`"));
            }
            (Some(_), Some(_)) => problems.push(OptionProblem::new("vertex", "and `api_key` exclude each other")),
            (Some(key), None) => problems.extend(checks::secret("api_key", key, "GEMINI_API_KEY")),
            (None, Some(vertex)) => {
                problems.extend(checks::name("vertex.project", &vertex.project, "project", "my-project-1"));
                problems.extend(checks::name("vertex.location", &vertex.location, "location", "europe-west4"));
                match (&vertex.access_token, &vertex.access_token_file) {
                    (None, None) => problems.push(
                        OptionProblem::new("vertex.access_token_file", "is missing")
                            .hint("name a file that always holds a valid access token"),
                    ),
                    (Some(_), Some(_)) => problems
                        .push(OptionProblem::new("vertex.access_token", "and `access_token_file` exclude each other")),
                    (Some(token), None) => {
                        problems.extend(checks::secret("vertex.access_token", token, "VERTEX_ACCESS_TOKEN"));
                    }
                    (None, Some(file)) if file.is_relative() => problems.push(
                        OptionProblem::new("vertex.access_token_file", "is no whole path")
                            .hint("write it from the root on, such as /run/offhook/vertex-token"),
                    ),
                    (None, Some(_)) => {}
                }
            }
        }
        let base_url = self.base_url.as_deref();
        problems.extend(base_url.and_then(|base| checks::web_socket("base_url", base, BASE_URL)));
        problems.extend(checks::name("model", &self.model, "model name", MODEL));
        let voice = self.voice.as_deref();
        problems.extend(voice.and_then(|voice| checks::name("voice", voice, "voice", "Kore")));
        problems.extend(within("temperature", self.temperature, 0.0, 2.0));
        problems.extend(within("max_output_tokens", self.max_output_tokens.map(f64::from), 1.0, 65_536.0));
        if !(RESPONSE_BYTES_MIN..=RESPONSE_BYTES_MAX).contains(&self.tool_answer_bytes) {
            let range = format!("is not within {RESPONSE_BYTES_MIN} and {RESPONSE_BYTES_MAX}");
            problems.push(OptionProblem::new("tool_answer_bytes", range));
        }
        problems.extend(models::problems(self));
        problems.extend(checks::session_seconds(self.session_seconds));
        if let Some(turns) = &self.turn_detection {
            let (prefix, silence) = (turns.prefix_padding_ms, turns.silence_duration_ms);
            problems.extend(within("turn_detection.prefix_padding_ms", prefix.map(f64::from), 0.0, 5_000.0));
            problems.extend(within("turn_detection.silence_duration_ms", silence.map(f64::from), 0.0, 10_000.0));
        }
        if self.transcription.as_ref().is_some_and(|words| words.vocabulary.len() > VOCABULARY_MAX) {
            let problem = OptionProblem::new("transcription.vocabulary", "is too long");
            problems.push(problem.hint(format!("{VOCABULARY_MAX} entries at most")));
        }
        problems
    }
}
