//! What an admin can set for a model behind chat completions.

use crate::{
    config::OptionProblem,
    remote::{
        checks::{self, Checked, within},
        openai::Server,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of `kind: openai_chat`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    #[serde(flatten)]
    pub(super) server: Server,
    /// As the server names it. There is no default: those of the vendor come and go.
    pub(super) model: String,
    /// How much the words vary; models that reason refuse it.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub(super) temperature: Option<f64>,
    /// The longest answer, thinking included; a longer one is cut. Without it the server's own limit holds.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(super) max_output_tokens: Option<u32>,
    /// What `max_output_tokens` is called. Where it is not set it is `max_completion_tokens` at the vendor's own server,
    /// whose newer models know nothing else, and `max_tokens` at others.
    #[serde(default)]
    pub(super) max_tokens_key: Option<MaxTokensKey>,
    /// How much a model thinks before it answers; the caller waits meanwhile.
    #[serde(default)]
    pub(super) reasoning_effort: Option<ReasoningEffort>,
    /// Which queue the vendor puts the request into, such as `priority`.
    #[serde(default)]
    pub(super) service_tier: Option<String>,
    /// Whether one answer may call several tools; the server decides where it is not set.
    #[serde(default)]
    pub(super) parallel_tool_calls: Option<bool>,
    /// One system message, the first, and then caller and model by turns, as the chat templates of many models demand: what
    /// offhook has to tell in between becomes a part of the caller's next message, marked as none of their words. Where it
    /// is not set, it is so at every server but the vendor's own.
    #[serde(default)]
    pub(super) strict_roles: Option<bool>,
    /// Ask for the number of tokens with each answer. A few servers refuse the question.
    #[serde(default = "include_usage")]
    pub(super) include_usage: bool,
    /// The longest wait for the first word or call of an answer, and from one to the next: some servers tell a call only when
    /// they have all of it.
    #[serde(default = "timeout_ms")]
    #[schemars(range(min = 500, max = 60_000))]
    pub(super) timeout_ms: u64,
    /// How often it is asked again when it fails in passing before its first word, before the next model of a pipeline is
    /// asked. What has failed slowly is not repeated to a caller who waits.
    #[serde(default = "checks::retries")]
    #[schemars(range(max = 5))]
    pub(super) retries: u32,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum MaxTokensKey {
    MaxCompletionTokens,
    MaxTokens,
}

impl MaxTokensKey {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxTokens => "max_tokens",
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl ReasoningEffort {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

const fn include_usage() -> bool {
    true
}

/// As long as a caller waits for any other agent; then the next model of the pipeline is asked.
const fn timeout_ms() -> u64 {
    5_000
}

impl Options {
    pub(super) fn strict_roles(&self) -> bool {
        self.strict_roles.unwrap_or(!self.server.is_vendor())
    }

    pub(super) fn max_tokens_key(&self) -> MaxTokensKey {
        let usual = if self.server.is_vendor() { MaxTokensKey::MaxCompletionTokens } else { MaxTokensKey::MaxTokens };
        self.max_tokens_key.unwrap_or(usual)
    }
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.server.problems();
        if self.model.trim().is_empty() {
            problems.push(OptionProblem::new("model", "is empty").hint("write it as the server names it"));
        }
        problems.extend(within("temperature", self.temperature, 0.0, 2.0));
        if self.max_output_tokens == Some(0) {
            problems.push(OptionProblem::new("max_output_tokens", "must not be 0"));
        }
        if self.service_tier.as_ref().is_some_and(|tier| !checks::plain_name(tier)) {
            problems.push(OptionProblem::new("service_tier", "is no name").hint("such as priority"));
        }
        problems.extend(within("timeout_ms", Some(self.timeout_ms as f64), 500.0, 60_000.0));
        problems.extend(checks::few_retries(self.retries));
        problems
    }
}
