//! What an admin can set for ElevenLabs Agents. All else is set at the agent itself.

use crate::{
    config::OptionProblem,
    remote::checks::{self, Checked, plain_name},
};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const BASE_URL: &str = "wss://api.elevenlabs.io";

/// Options of `kind: elevenlabs_agent`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// The agent, such as `agent_01jz…`.
    pub(super) agent_id: String,
    /// The key, for a private agent; write `${ELEVENLABS_API_KEY}` rather than the key itself. Without
    /// it the agent has to be public.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub(super) api_key: Option<SecretString>,
    /// Where the data has to stay in a region: `wss://api.us.elevenlabs.io`,
    /// `wss://api.eu.residency.elevenlabs.io`, `wss://api.in.residency.elevenlabs.io` or
    /// `wss://api.sg.residency.elevenlabs.io`. `ws://` is allowed for a server nearby.
    #[serde(default = "base_url")]
    pub(super) base_url: String,
    /// What of the context replaces what is set at the agent: `true` for all, or a list. The agent's
    /// security settings have to allow it, or no session comes about.
    #[serde(default)]
    #[schemars(extend("default" = false))]
    pub(super) overrides: Overrides,
    /// Replaces the agent's language, such as `de`; the agent has to allow it.
    #[serde(default)]
    pub(super) language: Option<String>,
    /// Replaces the agent's voice; the agent has to allow it.
    #[serde(default)]
    pub(super) voice_id: Option<String>,
    /// Values of the `{{placeholders}}` in the agent's own texts.
    #[serde(default)]
    pub(super) dynamic_variables: BTreeMap<String, Variable>,
    /// The longest that a conversation may last, in seconds, as it is set at the agent: offhook goes on in another one
    /// before. Without it the vendor's end comes unawares, and the call is carried on after it.
    #[serde(default)]
    #[schemars(range(min = 10, max = 86400))]
    pub(super) session_seconds: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Overrides {
    All(bool),
    Only(Vec<Override>),
}

impl Default for Overrides {
    fn default() -> Self {
        Self::All(false)
    }
}

impl Overrides {
    pub(super) fn include(&self, one: Override) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Only(list) => list.contains(&one),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Override {
    /// The context's prompt.
    Prompt,
    /// The context's greeting.
    FirstMessage,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Variable {
    Switch(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

fn base_url() -> String {
    BASE_URL.into()
}

impl Options {
    pub(super) fn conversation_url(&self) -> String {
        let base = self.base_url.trim_end_matches('/');
        format!("{base}/v1/convai/conversation?agent_id={}", self.agent_id)
    }

    /// Where the address of a conversation with a private agent is asked for.
    pub(super) fn signing_url(&self) -> String {
        let base = self.base_url.trim_end_matches('/').replacen("ws", "http", 1);
        format!("{base}/v1/convai/conversation/get-signed-url?agent_id={}", self.agent_id)
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.base_url.starts_with("ws://") { "ws://" } else { "wss://" }
    }
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if !plain_name(&self.agent_id) {
            problems.push(OptionProblem::new("agent_id", format!("\"{}\" is no agent's id", self.agent_id)));
        }
        problems.extend(self.api_key.as_ref().and_then(|key| checks::secret("api_key", key, "ELEVENLABS_API_KEY")));
        problems.extend(checks::web_socket("base_url", &self.base_url, BASE_URL));
        problems.extend(checks::session_seconds(self.session_seconds));
        for (path, value) in [("language", &self.language), ("voice_id", &self.voice_id)] {
            if value.as_deref().is_some_and(|value| !plain_name(value)) {
                problems.push(OptionProblem::new(path, "is empty, or holds other than letters and digits"));
            }
        }
        problems
    }
}
