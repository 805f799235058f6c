//! What a provider's units cost, as it is written: the section `prices`.

use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Price {
    /// The currency's code.
    #[schemars(required, regex(pattern = "^[A-Z]{3}$"), extend("title" = "a currency's code such as USD"))]
    pub currency: Option<String>,
    /// The day on which the prices were looked up. A price that is older than a year is warned of.
    #[schemars(required, regex(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"))]
    #[schemars(extend("title" = "a date such as 2026-11-20"))]
    pub date: Option<String>,
    /// Where they were looked up: an address, or a contract's name.
    #[schemars(required, length(min = 1, max = 200))]
    pub source: Option<String>,
    /// Prices of a million tokens.
    pub per_million_tokens: Option<TokenPrices>,
    /// Prices of a minute.
    pub per_minute: Option<MinutePrices>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenPrices {
    /// Text that goes in: prompt, tools, the conversation so far.
    #[schemars(range(min = 0))]
    pub input_text: Option<f64>,
    /// Audio that goes in.
    #[schemars(range(min = 0))]
    pub input_audio: Option<f64>,
    /// Text that goes in and was in the provider's cache. Without it, the price of `input_text`.
    #[schemars(range(min = 0))]
    pub input_cached_text: Option<f64>,
    /// Audio that goes in and was in the provider's cache. Without it, the price of `input_audio`.
    #[schemars(range(min = 0))]
    pub input_cached_audio: Option<f64>,
    /// Text that comes out.
    #[schemars(range(min = 0))]
    pub output_text: Option<f64>,
    /// Audio that comes out.
    #[schemars(range(min = 0))]
    pub output_audio: Option<f64>,
    /// What the model thinks. Without it, the price of `output_text`.
    #[schemars(range(min = 0))]
    pub output_thinking: Option<f64>,
    /// Text that goes into the transcription of the caller's words, where it is billed apart.
    #[schemars(range(min = 0))]
    pub transcription_text: Option<f64>,
    /// Audio that goes into it.
    #[schemars(range(min = 0))]
    pub transcription_audio: Option<f64>,
    /// Text that comes out of it.
    #[schemars(range(min = 0))]
    pub transcription_output: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MinutePrices {
    /// The time that sessions are connected, by our own clock.
    #[schemars(range(min = 0))]
    pub connected: Option<f64>,
    /// The caller's audio that was transcribed, where it is billed by time.
    #[schemars(range(min = 0))]
    pub transcribed: Option<f64>,
}
