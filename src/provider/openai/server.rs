//! The server's messages, as far as they matter here. Unknown fields are ignored everywhere: the
//! vendor adds them without notice.

use crate::{call::Usage, remote::transcription::TranscriptionUsage};
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
pub(super) struct AudioDelta<'a> {
    #[serde(borrow)]
    pub(super) response_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) item_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) delta: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(super) struct AudioDone {
    pub(super) response_id: String,
    pub(super) item_id: String,
}

#[derive(Deserialize)]
pub(super) struct SpokenText {
    pub(super) transcript: String,
    pub(super) item_id: Option<String>,
    /// Comes with the caller's words: their transcription is billed apart.
    #[serde(default)]
    pub(super) usage: Option<TranscriptionUsage>,
}

#[derive(Deserialize)]
pub(super) struct SpeechStarted {
    pub(super) item_id: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct TranscriptionFailed {
    pub(super) item_id: Option<String>,
    #[serde(default)]
    pub(super) error: ErrorBody,
}

#[derive(Deserialize)]
pub(super) struct SessionMessage {
    pub(super) session: SessionState,
}

#[derive(Deserialize)]
pub(super) struct SessionState {
    #[serde(default)]
    pub(super) r#type: Option<String>,
    #[serde(default)]
    pub(super) audio: AudioState,
}

#[derive(Deserialize, Default)]
pub(super) struct AudioState {
    #[serde(default)]
    pub(super) input: DirectionState,
    #[serde(default)]
    pub(super) output: DirectionState,
}

#[derive(Deserialize, Default)]
pub(super) struct DirectionState {
    #[serde(default)]
    pub(super) format: Option<FormatState>,
}

#[derive(Deserialize)]
pub(super) struct FormatState {
    pub(super) r#type: String,
    #[serde(default)]
    pub(super) rate: Option<u32>,
}

#[derive(Deserialize)]
pub(super) struct ErrorMessage {
    pub(super) error: ErrorBody,
}

#[derive(Deserialize, Default)]
pub(super) struct ErrorBody {
    #[serde(default)]
    pub(super) r#type: Option<String>,
    #[serde(default)]
    pub(super) code: Option<String>,
    #[serde(default)]
    pub(super) event_id: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ResponseMessage {
    pub(super) response: ResponseBody,
}

#[derive(Deserialize)]
pub(super) struct ResponseBody {
    pub(super) id: String,
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) status_details: Option<StatusDetails>,
    #[serde(default)]
    pub(super) output: Option<Vec<Item>>,
    #[serde(default)]
    pub(super) usage: Option<UsageBody>,
    /// As the request had it; nobody else's is known here.
    #[serde(default)]
    pub(super) metadata: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Deserialize)]
pub(super) struct StatusDetails {
    #[serde(default)]
    pub(super) error: Option<ErrorBody>,
}

/// `response.output_item.done` carries one; `response.done` all of the response.
#[derive(Deserialize)]
pub(super) struct Item {
    #[serde(default)]
    pub(super) r#type: Option<String>,
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) call_id: Option<String>,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<String>,
    /// Of a message.
    #[serde(default)]
    pub(super) content: Option<Vec<Content>>,
}

#[derive(Deserialize)]
pub(super) struct Content {
    #[serde(default)]
    pub(super) text: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ArgumentsDone {
    pub(super) response_id: String,
    pub(super) call_id: String,
    #[serde(default)]
    pub(super) name: Option<String>,
    pub(super) arguments: String,
}

/// What a response used. The totals hold what the details do not name, and details may be missing.
#[derive(Deserialize)]
pub(super) struct UsageBody {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    input_token_details: Option<TokenDetails>,
    #[serde(default)]
    output_token_details: Option<TokenDetails>,
}

#[derive(Deserialize, Default)]
struct TokenDetails {
    #[serde(default)]
    text_tokens: Option<u64>,
    #[serde(default)]
    audio_tokens: Option<u64>,
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cached_tokens_details: Option<CachedDetails>,
}

#[derive(Deserialize, Default)]
struct CachedDetails {
    #[serde(default)]
    audio_tokens: Option<u64>,
}

impl TokenDetails {
    /// Tokens of text and of audio. What is in the total alone counts as text.
    fn kinds(&self, total: Option<u64>) -> (u64, u64) {
        let audio = self.audio_tokens.unwrap_or(0);
        let text = total.map_or(0, |total| total.saturating_sub(audio));
        (text.max(self.text_tokens.unwrap_or(0)), audio)
    }
}

impl From<UsageBody> for Usage {
    fn from(body: UsageBody) -> Self {
        let input = body.input_token_details.unwrap_or_default();
        let output = body.output_token_details.unwrap_or_default();
        let (input_text_tokens, input_audio_tokens) = input.kinds(body.input_tokens);
        let (output_text_tokens, output_audio_tokens) = output.kinds(body.output_tokens);
        let input_cached_tokens = input.cached_tokens.unwrap_or(0);
        let cached = input.cached_tokens_details.unwrap_or_default();
        Self {
            input_text_tokens,
            input_audio_tokens,
            input_cached_tokens,
            input_cached_audio_tokens: cached.audio_tokens.unwrap_or(0).min(input_cached_tokens),
            output_text_tokens,
            output_audio_tokens,
            ..Self::default()
        }
    }
}
