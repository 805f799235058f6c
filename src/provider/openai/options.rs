//! What an admin can set for OpenAI Realtime.

use crate::{
    config::OptionProblem,
    remote::{
        checks::{self, Checked, within},
        effort::Effort,
    },
};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

const BASE_URL: &str = "wss://api.openai.com/v1/realtime";
/// The vendor's current model for speech; the first `gpt-realtime` ends on 2027-01-20.
const MODEL: &str = "gpt-realtime-2.1";
/// One of the two voices the vendor recommends.
const VOICE: &str = "marin";
/// The vendor's current model; its predecessors end on 2027-02-26.
const TRANSCRIPTION_MODEL: &str = "gpt-transcribe";

/// Options of `kind: openai_realtime`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// The key; write `${OPENAI_API_KEY}` rather than the key itself.
    #[schemars(with = "String")]
    pub(super) api_key: SecretString,
    /// Another server that speaks the same protocol; `ws://` is allowed for one nearby.
    #[serde(default = "base_url")]
    pub(super) base_url: String,
    #[serde(default = "model")]
    pub(super) model: String,
    /// alloy, ash, ballad, cedar, coral, echo, marin, sage, shimmer or verse.
    #[serde(default = "voice")]
    pub(super) voice: String,
    /// How fast the agent speaks; 1 is normal.
    #[serde(default)]
    #[schemars(range(min = 0.25, max = 1.5))]
    pub(super) speed: Option<f64>,
    /// How the server finds the caller's turns, in contexts with `turns.owner: provider`. Elsewhere offhook tells it.
    #[serde(default)]
    #[schemars(extend("default" = serde_json::json!({ "type": "server_vad" })))]
    pub(super) turn_detection: TurnDetection,
    /// The caller's words as text, by a second model that listens along. The agent does not need
    /// them, and the vendor bills them apart. They are for the record of the call; no log, page or
    /// metric shows them. `null` switches them off.
    #[serde(default = "transcription")]
    #[schemars(extend("default" = serde_json::json!({ "model": TRANSCRIPTION_MODEL })))]
    pub(super) transcription: Option<Transcription>,
    /// Cleans the caller's audio on the server: `near_field` for handsets, `far_field` for
    /// speakerphones.
    #[serde(default)]
    pub(super) noise_reduction: Option<NoiseReduction>,
    /// Limit of one answer, function calls included; without it the model's own.
    #[serde(default)]
    #[schemars(range(min = 1, max = 4096))]
    pub(super) max_output_tokens: Option<u32>,
    /// How long the model thinks before it speaks, for models that reason, such as `gpt-realtime-2.1`. Without it the model's own.
    #[serde(default)]
    pub(super) reasoning_effort: Option<Effort>,
    /// Whether the model may call several tools at once, for models that reason. Without it the model's own.
    #[serde(default)]
    pub(super) parallel_tool_calls: Option<bool>,
    /// What the server leaves out of a conversation that no longer fits the model. Without it as little as it must, and that
    /// again with every answer, so that no answer after it finds its beginning in the vendor's cache.
    #[serde(default)]
    pub(super) truncation: Option<Truncation>,
    /// For keys that belong to several organizations.
    #[serde(default)]
    pub(super) organization: Option<String>,
    /// For keys that belong to several projects.
    #[serde(default)]
    pub(super) project: Option<String>,
    /// The longest that one session lasts, in seconds, where that is not the vendor's 60 minutes: offhook goes on in another session
    /// before.
    #[serde(default)]
    #[schemars(range(min = 10, max = 86400))]
    pub(super) session_seconds: Option<u32>,
    /// In a long call the model is asked now and then to sum up what was said, for the session that may follow: in a
    /// response outside the conversation, which is text and is never spoken. `false` for a server that does not know such responses.
    #[serde(default = "yes")]
    pub(super) summaries: bool,
}

#[derive(Debug, Clone, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum TurnDetection {
    /// by loudness and pauses.
    ServerVad {
        /// Louder surroundings want a higher one; the server's default is 0.5.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        threshold: Option<f64>,
        /// Audio kept from before the speech began; the server's default is 300.
        #[serde(default)]
        #[schemars(range(max = 5000))]
        prefix_padding_ms: Option<u32>,
        /// Silence that ends a turn; the server's default is 500.
        #[serde(default)]
        #[schemars(range(max = 10000))]
        silence_duration_ms: Option<u32>,
        /// The server asks by itself whether the caller is still there after so long a silence.
        #[serde(default)]
        #[schemars(range(min = 5000, max = 30000))]
        idle_timeout_ms: Option<u32>,
    },
    /// by what was said; waits longer in the middle of a sentence.
    SemanticVad {
        /// How soon the agent answers: `low` lets the caller take time, `high` answers as soon as it
        /// can; `auto` is `medium`.
        #[serde(default)]
        #[schemars(extend("default" = "auto"))]
        eagerness: Eagerness,
    },
}

impl Default for TurnDetection {
    fn default() -> Self {
        Self::ServerVad { threshold: None, prefix_padding_ms: None, silence_duration_ms: None, idle_timeout_ms: None }
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Eagerness {
    Low,
    Medium,
    High,
    #[default]
    Auto,
}

impl Eagerness {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Auto => "auto",
        }
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Transcription {
    #[serde(default = "transcription_model")]
    pub(super) model: String,
    /// ISO 639-1, such as `en`; improves accuracy where the language is known.
    #[serde(default)]
    pub(super) language: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum NoiseReduction {
    NearField,
    FarField,
}

impl NoiseReduction {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NearField => "near_field",
            Self::FarField => "far_field",
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Truncation {
    /// The share of what fits that is kept when something has to go.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(super) retention_ratio: f64,
    /// What may fit beside the instructions, in tokens, where that is to be less than the model bears: each answer is billed
    /// for all of it.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) post_instructions_tokens: Option<u32>,
}

const fn yes() -> bool {
    true
}

fn base_url() -> String {
    BASE_URL.into()
}

fn model() -> String {
    MODEL.into()
}

fn voice() -> String {
    VOICE.into()
}

fn transcription_model() -> String {
    TRANSCRIPTION_MODEL.into()
}

#[allow(clippy::unnecessary_wraps)] // The default of an option that may be switched off.
fn transcription() -> Option<Transcription> {
    Some(Transcription { model: transcription_model(), language: None })
}

impl Options {
    pub(super) fn url(&self) -> String {
        let (address, query) = self.base_url.split_once('?').unwrap_or((&self.base_url, ""));
        let (_, host) = address.split_once("://").unwrap_or(("", address));
        // A request line without a path is no HTTP, and servers hang up on it.
        let path = if host.contains('/') { "" } else { "/" };
        let joint = if query.is_empty() { "" } else { "&" };
        format!("{address}{path}?{query}{joint}model={}", self.model)
    }
}

/// Whether this is one of the vendor's models that do not reason; the server refuses sessions that ask them to. A model that is
/// not known here is believed to.
fn does_not_reason(model: &str) -> bool {
    // "20": the first model's dated snapshots. The family that reasons is `gpt-realtime-2`, `-2.1` and so on.
    let first = ["mini", "1.5", "20"];
    model.strip_prefix("gpt-realtime").is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix('-').is_some_and(|rest| first.iter().any(|first| rest.starts_with(first)))
    })
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        problems.extend(checks::secret("api_key", &self.api_key, "OPENAI_API_KEY"));
        for (path, value) in [("organization", &self.organization), ("project", &self.project)] {
            if value.as_deref().is_some_and(|value| !checks::header_value(value)) {
                problems.push(OptionProblem::new(path, "is empty, or holds a space or a control character"));
            }
        }
        problems.extend(checks::web_socket("base_url", &self.base_url, BASE_URL));
        problems.extend(checks::name("model", &self.model, "model name", MODEL));
        if self.voice.is_empty() {
            problems.push(OptionProblem::new("voice", "is empty").hint(format!("such as {VOICE}")));
        }
        problems.extend(within("speed", self.speed, 0.25, 1.5));
        problems.extend(within("max_output_tokens", self.max_output_tokens.map(f64::from), 1.0, 4096.0));
        if let Some(Truncation { retention_ratio, post_instructions_tokens }) = self.truncation {
            problems.extend(within("truncation.retention_ratio", Some(retention_ratio), 0.0, 1.0));
            let tokens = post_instructions_tokens.map(f64::from);
            problems.extend(within("truncation.post_instructions_tokens", tokens, 1.0, 1_000_000.0));
        }
        let wanted = [
            ("reasoning_effort", self.reasoning_effort.is_some()),
            ("parallel_tool_calls", self.parallel_tool_calls.is_some()),
        ];
        for (path, _) in wanted.into_iter().filter(|(_, wanted)| *wanted && does_not_reason(&self.model)) {
            let what = format!("is refused by {}, which does not reason", self.model);
            problems.push(OptionProblem::new(path, what).hint(format!("leave it out, or set model: {MODEL}")));
        }
        problems.extend(checks::session_seconds(self.session_seconds));
        if let TurnDetection::ServerVad { threshold, idle_timeout_ms, .. } = &self.turn_detection {
            problems.extend(within("turn_detection.threshold", *threshold, 0.0, 1.0));
            let idle = idle_timeout_ms.map(f64::from);
            problems.extend(within("turn_detection.idle_timeout_ms", idle, 5_000.0, 30_000.0));
        }
        problems
    }
}
