//! The server's messages, as far as they matter here. Unknown fields are ignored everywhere: the vendor
//! adds them without notice. Keys come in camel case or with underscores, whole numbers as numbers or as
//! text.

use crate::{call::Usage, provider::arguments};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::{borrow::Cow, time::Duration};

/// One message may hold several of these at once.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerMessage<'a> {
    #[serde(alias = "setup_complete")]
    pub(super) setup_complete: Option<Value>,
    #[serde(borrow, alias = "server_content")]
    pub(super) server_content: Option<ServerContent<'a>>,
    #[serde(alias = "tool_call")]
    pub(super) tool_call: Option<ToolCalls>,
    #[serde(alias = "tool_call_cancellation")]
    pub(super) tool_call_cancellation: Option<Cancellation>,
    #[serde(alias = "usage_metadata")]
    pub(super) usage_metadata: Option<UsageMetadata>,
    #[serde(alias = "go_away")]
    pub(super) go_away: Option<GoAway>,
    #[serde(alias = "session_resumption_update")]
    pub(super) session_resumption_update: Option<ResumptionUpdate>,
    #[serde(alias = "voice_activity")]
    pub(super) voice_activity: Option<VoiceActivity>,
    /// Not of this protocol; gateways in front of it answer so.
    pub(super) error: Option<ErrorBody>,
}

impl ServerMessage<'_> {
    /// Nothing in it is known.
    pub(super) fn is_unknown(&self) -> bool {
        self.setup_complete.is_none()
            && self.server_content.is_none()
            && self.tool_call.is_none()
            && self.tool_call_cancellation.is_none()
            && self.usage_metadata.is_none()
            && self.go_away.is_none()
            && self.session_resumption_update.is_none()
            && self.voice_activity.is_none()
            && self.error.is_none()
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServerContent<'a> {
    #[serde(borrow, alias = "model_turn")]
    pub(super) model_turn: Option<Content<'a>>,
    #[serde(borrow, alias = "input_transcription")]
    pub(super) input_transcription: Option<Transcription<'a>>,
    #[serde(borrow, alias = "interim_input_transcription")]
    pub(super) interim_input_transcription: Option<Transcription<'a>>,
    #[serde(borrow, alias = "output_transcription")]
    pub(super) output_transcription: Option<Transcription<'a>>,
    #[serde(alias = "generation_complete")]
    pub(super) generation_complete: Option<bool>,
    #[serde(alias = "turn_complete")]
    pub(super) turn_complete: Option<bool>,
    #[serde(alias = "turn_complete_reason")]
    pub(super) turn_complete_reason: Option<String>,
    pub(super) interrupted: Option<bool>,
    #[serde(alias = "waiting_for_input")]
    pub(super) waiting_for_input: Option<bool>,
    #[serde(alias = "interaction_status")]
    pub(super) interaction_status: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow, default)]
    pub(super) parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(borrow, default, alias = "inline_data")]
    pub(super) inline_data: Option<Blob<'a>>,
    #[serde(default)]
    pub(super) thought: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob<'a> {
    #[serde(borrow, default, alias = "mime_type")]
    pub(super) mime_type: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) data: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(super) struct Transcription<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) finished: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCalls {
    #[serde(default, alias = "function_calls")]
    pub(super) function_calls: Option<Vec<FunctionCall>>,
}

#[derive(Deserialize)]
pub(super) struct FunctionCall {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default = "arguments::none", deserialize_with = "arguments::as_text")]
    pub(super) args: String,
}

#[derive(Deserialize)]
pub(super) struct Cancellation {
    #[serde(default)]
    pub(super) ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GoAway {
    #[serde(default, alias = "time_left")]
    time_left: Option<String>,
}

impl GoAway {
    /// Nothing known is no time at all.
    pub(super) fn time_left(&self) -> Duration {
        self.time_left.as_deref().and_then(duration).unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResumptionUpdate {
    #[serde(default, alias = "new_handle")]
    pub(super) new_handle: Option<String>,
    #[serde(default)]
    pub(super) resumable: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VoiceActivity {
    #[serde(default, alias = "voiceActivityType", alias = "voice_activity_type")]
    pub(super) r#type: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) message: Option<String>,
}

/// Vertex says candidates where the Gemini API says response.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct UsageMetadata {
    #[serde(alias = "prompt_token_count", deserialize_with = "count")]
    prompt_token_count: u64,
    #[serde(alias = "cached_content_token_count", deserialize_with = "count")]
    cached_content_token_count: u64,
    #[serde(alias = "response_token_count", alias = "candidatesTokenCount", deserialize_with = "count")]
    response_token_count: u64,
    #[serde(alias = "tool_use_prompt_token_count", deserialize_with = "count")]
    tool_use_prompt_token_count: u64,
    #[serde(alias = "thoughts_token_count", deserialize_with = "count")]
    thoughts_token_count: u64,
    #[serde(alias = "cache_tokens_details")]
    cache_tokens_details: Option<Vec<ModalityCount>>,
    #[serde(alias = "prompt_tokens_details")]
    prompt_tokens_details: Option<Vec<ModalityCount>>,
    #[serde(alias = "response_tokens_details", alias = "candidatesTokensDetails")]
    response_tokens_details: Option<Vec<ModalityCount>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModalityCount {
    #[serde(default)]
    modality: Option<String>,
    #[serde(default, alias = "token_count", deserialize_with = "count")]
    token_count: u64,
}

impl From<UsageMetadata> for Usage {
    /// What is not audio is text, what tools answered too.
    fn from(told: UsageMetadata) -> Self {
        let audio = |details: Option<Vec<ModalityCount>>| -> u64 {
            let details = details.unwrap_or_default().into_iter();
            let audio = details.filter(|count| count.modality.as_deref() == Some("AUDIO"));
            audio.fold(0, |sum, count| sum.saturating_add(count.token_count))
        };
        let (heard, spoken) = (audio(told.prompt_tokens_details), audio(told.response_tokens_details));
        let input = told.prompt_token_count.saturating_sub(heard);
        Self {
            input_text_tokens: input.saturating_add(told.tool_use_prompt_token_count),
            input_audio_tokens: heard,
            input_cached_tokens: told.cached_content_token_count,
            input_cached_audio_tokens: audio(told.cache_tokens_details).min(told.cached_content_token_count),
            output_text_tokens: told.response_token_count.saturating_sub(spoken),
            output_audio_tokens: spoken,
            output_thinking_tokens: told.thoughts_token_count,
            ..Self::default()
        }
    }
}

/// A whole number, as a number or as text.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_u64().unwrap_or(0),
        Value::String(text) => text.parse().unwrap_or(0),
        _ => 0,
    })
}

/// `"9.5s"`.
fn duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_text_in_seconds() {
        let told = |text: &str| GoAway { time_left: Some(text.into()) }.time_left();
        assert_eq!(told("9.5s"), Duration::from_millis(9_500));
        assert_eq!(told("50s"), Duration::from_secs(50));
        for odd in ["", "s", "-1s", "1e400s", "NaNs", "soon", "5m"] {
            assert_eq!(told(odd), Duration::ZERO, "{odd:?}");
        }
    }

    #[test]
    fn usage_is_split_by_what_is_priced_apart() {
        let usage = |told: Value| Usage::from(serde_json::from_value::<UsageMetadata>(told).unwrap());
        let expected = Usage {
            input_text_tokens: 100 - 60 + 7,
            input_audio_tokens: 60,
            input_cached_tokens: 30,
            input_cached_audio_tokens: 25,
            output_text_tokens: 50 - 45,
            output_audio_tokens: 45,
            output_thinking_tokens: 11,
            ..Usage::default()
        };
        let modalities = |audio: Value| json!([{ "modality": "TEXT", "tokenCount": 5 }, { "modality": "AUDIO", "tokenCount": audio }]);
        assert_eq!(
            usage(json!({
                "promptTokenCount": "100", "cachedContentTokenCount": 30, "responseTokenCount": 50,
                "toolUsePromptTokenCount": 7, "thoughtsTokenCount": "11", "totalTokenCount": 168,
                "promptTokensDetails": modalities(json!("60")), "cacheTokensDetails": modalities(json!(25)), "responseTokensDetails": modalities(json!(45)),
            })),
            expected
        );
        assert_eq!(
            usage(json!({
                "prompt_token_count": 100, "cached_content_token_count": 30, "candidatesTokenCount": 50,
                "tool_use_prompt_token_count": 7, "thoughts_token_count": 11,
                "prompt_tokens_details": modalities(json!(60)), "cache_tokens_details": modalities(json!("25")), "candidatesTokensDetails": modalities(json!(45)),
            })),
            expected
        );
        assert_eq!(usage(json!({ "promptTokenCount": null })), Usage::default());
    }
}
