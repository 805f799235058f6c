//! What an admin can set for Deepgram Voice Agent.

use crate::{
    audio::Format,
    config::OptionProblem,
    provider::SessionFormats,
    remote::{
        checks::{self, Checked, plain_name, within},
        deepgram::encoding,
        json::with_known,
    },
};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const BASE_URL: &str = "wss://agent.deepgram.com/v1/agent/converse";
/// Made for turns of conversations; it finds their end by what was said.
const FLUX: &str = "flux-general-en";
const NOVA: &str = "nova-3";
/// A small model that OpenAI has not announced to end, as it has its predecessors (2026-12-11 and
/// 2027-01-14).
const THINK_MODEL: &str = "gpt-5.4-mini";
const VOICE: &str = "aura-2-thalia-en";
/// The server's own default of `eot_timeout_ms`.
const EOT_TIMEOUT: Duration = Duration::from_secs(5);
/// An `eot_threshold` with which Flux finds the end of no turn, and waits to be told.
const NEVER_CERTAIN: f64 = 1.0;
/// What it takes; nothing keeps it from ending a turn in so long a silence.
const EOT_TIMEOUT_MS_MAX: u32 = 60_000;
/// More are beyond what a recognizer can favour; the vendor asks for fewer than a hundred.
const KEYTERMS_MAX: usize = 100;

/// Options of `kind: deepgram_agent`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// The key; write `${DEEPGRAM_API_KEY}` rather than the key itself.
    #[schemars(with = "String")]
    pub(super) api_key: SecretString,
    /// Another server that speaks the same protocol; `ws://` is allowed for one nearby.
    #[serde(default = "base_url")]
    pub(super) base_url: String,
    /// How the caller is understood.
    #[serde(default)]
    #[schemars(extend("default" = json!({ "version": "v2", "model": FLUX })))]
    pub(super) listen: Listen,
    /// The model that answers.
    #[serde(default)]
    #[schemars(extend("default" = json!({ "provider": "open_ai", "model": THINK_MODEL })))]
    pub(super) think: Think,
    /// The voice.
    #[serde(default)]
    #[schemars(extend("default" = json!({ "type": "deepgram", "model": VOICE })))]
    pub(super) speak: Speak,
    /// Keeps what is said out of the vendor's own training; it may cost more.
    #[serde(default)]
    pub(super) mip_opt_out: bool,
    /// The longest that one session lasts, in seconds, where that is not the vendor's two hours: offhook goes on in another session
    /// before.
    #[serde(default)]
    #[schemars(range(min = 10, max = 86400))]
    pub(super) session_seconds: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "version", deny_unknown_fields)]
pub(super) enum Listen {
    /// Nova: many languages, and the end of a turn by pauses.
    #[serde(rename = "v1")]
    V1 {
        /// A model of Nova; Flux, with `version: v2`, has `flux-general-en`, and `flux-general-multi` for other languages.
        #[serde(default = "nova")]
        model: String,
        /// BCP-47, such as `de`, or `multi` for several in one conversation.
        #[serde(default)]
        language: Option<String>,
        /// Words to be recognized that few people use: names, products.
        #[serde(default)]
        keyterms: Vec<String>,
        /// Numbers, dates and the like as they are written.
        #[serde(default)]
        smart_format: Option<bool>,
    },
    /// Flux: the end of a turn by what was said.
    #[serde(rename = "v2")]
    V2 {
        /// `flux-general-en`, or `flux-general-multi` for other languages.
        #[serde(default = "flux")]
        model: String,
        /// The languages to be expected, for `flux-general-multi`.
        #[serde(default)]
        language_hints: Vec<String>,
        /// How certain the end of a turn has to be, in contexts with `turns.owner: provider`; the server's default is 0.7.
        /// Elsewhere offhook tells it.
        #[serde(default)]
        #[schemars(range(min = 0.5, max = 1.0))]
        eot_threshold: Option<f64>,
        /// From here on the model thinks ahead, at the risk that the caller goes on; off without it, and where offhook tells
        /// the end of a turn.
        #[serde(default)]
        #[schemars(range(min = 0.3, max = 0.9))]
        eager_eot_threshold: Option<f64>,
        /// Silence that ends a turn in any case, where offhook does not tell its end; the server's default is 5000.
        #[serde(default)]
        #[schemars(range(min = 500, max = 60000))]
        eot_timeout_ms: Option<u32>,
        /// Words to be recognized that few people use: names, products.
        #[serde(default)]
        keyterms: Vec<String>,
    },
}

impl Default for Listen {
    fn default() -> Self {
        Self::V2 {
            model: flux(),
            language_hints: Vec::new(),
            eot_threshold: None,
            eager_eot_threshold: None,
            eot_timeout_ms: None,
            keyterms: Vec::new(),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Think {
    #[serde(default)]
    #[schemars(extend("default" = "open_ai"))]
    pub(super) provider: ThinkProvider,
    #[serde(default = "think_model")]
    pub(super) model: String,
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub(super) temperature: Option<f64>,
    /// A model of your own that speaks the provider's protocol.
    #[serde(default)]
    pub(super) endpoint: Option<Endpoint>,
}

impl Default for Think {
    fn default() -> Self {
        Self { provider: ThinkProvider::default(), model: think_model(), temperature: None, endpoint: None }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ThinkProvider {
    #[default]
    OpenAi,
    Anthropic,
    Google,
    /// Needs an `endpoint`.
    Groq,
    Deepgram,
}

impl ThinkProvider {
    const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "open_ai",
            Self::Anthropic => "anthropic",
            Self::Google => "google",
            Self::Groq => "groq",
            Self::Deepgram => "deepgram",
        }
    }
}

/// Where a model or voice of another vendor is reached, from the vendor's servers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Endpoint {
    url: String,
    /// Sent with each request, such as `authorization`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    headers: BTreeMap<String, SecretString>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Speak {
    Deepgram {
        /// `aura-2-NAME-LANGUAGE` or `flux-NAME-en`.
        #[serde(default = "voice")]
        model: String,
        /// 1 is normal.
        #[serde(default)]
        #[schemars(range(min = 0.7, max = 1.5))]
        speed: Option<f64>,
    },
    /// The voice is part of the endpoint's address.
    ElevenLabs {
        model_id: String,
        #[serde(default)]
        language: Option<String>,
        endpoint: Endpoint,
    },
    Cartesia {
        model_id: String,
        voice_id: String,
        #[serde(default)]
        language: Option<String>,
        endpoint: Endpoint,
    },
    OpenAi {
        model: String,
        voice: String,
        endpoint: Endpoint,
    },
}

impl Default for Speak {
    fn default() -> Self {
        Self::Deepgram { model: voice(), speed: None }
    }
}

fn base_url() -> String {
    BASE_URL.into()
}

fn flux() -> String {
    FLUX.into()
}

fn nova() -> String {
    NOVA.into()
}

fn think_model() -> String {
    THINK_MODEL.into()
}

fn voice() -> String {
    VOICE.into()
}

impl Options {
    /// The one message that sets a session up.
    pub(super) fn settings(
        &self,
        prompt: &str,
        functions: Vec<Value>,
        formats: SessionFormats,
        told_turns: bool,
    ) -> Value {
        let (input, output) = (wire_format(formats.input), wire_format(formats.output));
        let mip_opt_out = self.mip_opt_out.then(|| true.into());
        let settings = json!({
            "type": "Settings",
            // Each message of the history is known already.
            "flags": { "history": false },
            "audio": { "input": input, "output": with_known(output, [("container", Some("none".into()))]) },
            "agent": {
                "listen": { "provider": self.listen.provider(told_turns) },
                "think": self.think.settings(prompt, functions),
                "speak": self.speak.settings(),
            },
        });
        with_known(settings, [("mip_opt_out", mip_opt_out)])
    }
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::from_iter(checks::secret("api_key", &self.api_key, "DEEPGRAM_API_KEY"));
        problems.extend(checks::web_socket("base_url", &self.base_url, BASE_URL));
        self.listen.check(&mut problems);
        model("think.model", &self.think.model, &mut problems);
        problems.extend(within("think.temperature", self.think.temperature, 0.0, 2.0));
        match &self.think.endpoint {
            Some(endpoint) => endpoint.check("think.endpoint", &mut problems),
            None if self.think.provider == ThinkProvider::Groq => {
                problems.push(OptionProblem::new("think.endpoint", "is missing; groq needs it"));
            }
            None => {}
        }
        self.speak.check(&mut problems);
        problems.extend(checks::session_seconds(self.session_seconds));
        problems
    }
}

impl Listen {
    /// Whether it can be told the end of a turn.
    pub(super) const fn takes_turns(&self) -> bool {
        matches!(self, Self::V2 { .. })
    }

    /// The longest silence before the end of a turn is found.
    pub(super) fn end_max(&self) -> Duration {
        match self {
            // Nova finds it in the pause itself.
            Self::V1 { .. } => Duration::ZERO,
            Self::V2 { eot_timeout_ms, .. } => {
                eot_timeout_ms.map_or(EOT_TIMEOUT, |ms| Duration::from_millis(ms.into()))
            }
        }
    }

    fn provider(&self, told_turns: bool) -> Value {
        let list = |list: &Vec<String>| (!list.is_empty()).then(|| json!(list));
        match self {
            Self::V1 { model, language, keyterms, smart_format } => with_known(
                json!({ "type": "deepgram", "version": "v1", "model": model }),
                [
                    ("language", language.clone().map(Value::from)),
                    ("keyterms", list(keyterms)),
                    ("smart_format", smart_format.map(Value::from)),
                ],
            ),
            Self::V2 { model, language_hints, eot_threshold, eager_eot_threshold, eot_timeout_ms, keyterms } => {
                let (certain, eager, timeout) = match told_turns {
                    true => (Some(NEVER_CERTAIN), None, Some(EOT_TIMEOUT_MS_MAX)),
                    false => (*eot_threshold, *eager_eot_threshold, *eot_timeout_ms),
                };
                with_known(
                    json!({ "type": "deepgram", "version": "v2", "model": model }),
                    [
                        ("language_hints", list(language_hints)),
                        ("eot_threshold", certain.map(Value::from)),
                        ("eager_eot_threshold", eager.map(Value::from)),
                        ("eot_timeout_ms", timeout.map(Value::from)),
                        ("keyterms", list(keyterms)),
                    ],
                )
            }
        }
    }

    fn check(&self, problems: &mut Vec<OptionProblem>) {
        let (Self::V1 { model: name, keyterms, .. } | Self::V2 { model: name, keyterms, .. }) = self;
        model("listen.model", name, problems);
        if keyterms.len() > KEYTERMS_MAX {
            problems.push(OptionProblem::new("listen.keyterms", format!("are more than {KEYTERMS_MAX}")));
        }
        if let Self::V2 { language_hints, eot_threshold, eager_eot_threshold, eot_timeout_ms, .. } = self {
            problems.extend(within("listen.eot_threshold", *eot_threshold, 0.5, 1.0));
            problems.extend(within("listen.eager_eot_threshold", *eager_eot_threshold, 0.3, 0.9));
            problems.extend(within(
                "listen.eot_timeout_ms",
                eot_timeout_ms.map(f64::from),
                500.0,
                EOT_TIMEOUT_MS_MAX.into(),
            ));
            if !language_hints.is_empty() && name == FLUX {
                let problem = OptionProblem::new("listen.language_hints", format!("mean nothing to {FLUX}"));
                problems.push(problem.hint("set model: flux-general-multi"));
            }
        }
    }
}

impl Think {
    fn settings(&self, prompt: &str, functions: Vec<Value>) -> Value {
        let temperature = self.temperature.map(Value::from);
        let provider =
            with_known(json!({ "type": self.provider.name(), "model": self.model }), [("temperature", temperature)]);
        with_known(
            json!({ "provider": provider, "prompt": prompt, "functions": functions }),
            [("endpoint", self.endpoint.as_ref().map(Endpoint::settings))],
        )
    }
}

impl Endpoint {
    fn settings(&self) -> Value {
        let headers: BTreeMap<&str, &str> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
        json!({ "url": self.url, "headers": headers })
    }

    fn check(&self, path: &str, problems: &mut Vec<OptionProblem>) {
        if !["https://", "wss://"].iter().any(|scheme| self.url.starts_with(scheme)) {
            let problem = OptionProblem::new(format!("{path}.url"), "is no https:// or wss:// address");
            problems.push(problem.hint("the vendor's servers reach it over the internet"));
        }
    }
}

impl Speak {
    fn settings(&self) -> Value {
        match self {
            Self::Deepgram { model, speed } => {
                let version = if model.starts_with("flux-") { "v2" } else { "v1" };
                let provider = json!({ "type": "deepgram", "version": version, "model": model });
                json!({ "provider": with_known(provider, [("speed", speed.map(Value::from))]) })
            }
            Self::ElevenLabs { model_id, language, endpoint } => {
                let provider = json!({ "type": "eleven_labs", "model_id": model_id });
                let provider = with_known(provider, [("language", language.clone().map(Value::from))]);
                json!({ "provider": provider, "endpoint": endpoint.settings() })
            }
            Self::Cartesia { model_id, voice_id, language, endpoint } => {
                let voice = json!({ "mode": "id", "id": voice_id });
                let provider = json!({ "type": "cartesia", "model_id": model_id, "voice": voice });
                let provider = with_known(provider, [("language", language.clone().map(Value::from))]);
                json!({ "provider": provider, "endpoint": endpoint.settings() })
            }
            Self::OpenAi { model, voice, endpoint } => {
                let provider = json!({ "type": "open_ai", "model": model, "voice": voice });
                json!({ "provider": provider, "endpoint": endpoint.settings() })
            }
        }
    }

    fn check(&self, problems: &mut Vec<OptionProblem>) {
        match self {
            Self::Deepgram { model: name, speed } => {
                model("speak.model", name, problems);
                problems.extend(within("speak.speed", *speed, 0.7, 1.5));
            }
            Self::ElevenLabs { endpoint, .. } | Self::Cartesia { endpoint, .. } | Self::OpenAi { endpoint, .. } => {
                endpoint.check("speak.endpoint", problems);
            }
        }
    }
}

fn model(path: &str, name: &str, problems: &mut Vec<OptionProblem>) {
    if !plain_name(name) {
        problems.push(OptionProblem::new(path, format!("\"{name}\" is no model name")));
    }
}

fn wire_format(format: Format) -> Value {
    json!({ "encoding": encoding(format), "sample_rate": format.rate })
}
