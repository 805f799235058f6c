//! The server's messages, as far as they matter here. Unknown fields are ignored everywhere: the
//! vendor adds them without notice.

use crate::{
    audio::{Encoding, Format},
    provider::arguments,
};
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) conversation_initiation_metadata_event: Formats,
}

#[derive(Deserialize)]
pub(super) struct Formats {
    pub(super) agent_output_audio_format: String,
    /// Telephony agents of old left it out; both were the same then.
    #[serde(default)]
    pub(super) user_input_audio_format: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct AudioMessage<'a> {
    #[serde(borrow)]
    pub(super) audio_event: AudioEvent<'a>,
}

#[derive(Deserialize)]
pub(super) struct AudioEvent<'a> {
    #[serde(borrow)]
    pub(super) audio_base_64: Cow<'a, str>,
    pub(super) event_id: i64,
}

#[derive(Deserialize)]
pub(super) struct Ping {
    pub(super) ping_event: EventId,
}

#[derive(Deserialize)]
pub(super) struct Interruption {
    pub(super) interruption_event: EventId,
}

#[derive(Deserialize)]
pub(super) struct EventId {
    pub(super) event_id: i64,
}

#[derive(Deserialize)]
pub(super) struct AgentResponse {
    pub(super) agent_response_event: AgentWords,
}

#[derive(Deserialize)]
pub(super) struct AgentWords {
    pub(super) agent_response: String,
}

#[derive(Deserialize)]
pub(super) struct UserTranscript {
    pub(super) user_transcription_event: UserWords,
}

#[derive(Deserialize)]
pub(super) struct TentativeUserTranscript {
    pub(super) tentative_user_transcription_event: UserWords,
}

#[derive(Deserialize)]
pub(super) struct UserWords {
    pub(super) user_transcript: String,
}

#[derive(Deserialize)]
pub(super) struct ClientToolCall {
    pub(super) client_tool_call: ToolCallBody,
}

#[derive(Deserialize)]
pub(super) struct ToolCallBody {
    #[serde(default)]
    pub(super) tool_name: String,
    pub(super) tool_call_id: String,
    #[serde(default = "arguments::none", deserialize_with = "arguments::as_text")]
    pub(super) parameters: String,
}

#[derive(Deserialize)]
pub(super) struct AgentToolResponse {
    pub(super) agent_tool_response: ToolResponseBody,
}

#[derive(Deserialize)]
pub(super) struct ToolResponseBody {
    #[serde(default)]
    pub(super) tool_name: String,
    #[serde(default)]
    pub(super) is_error: bool,
}

#[derive(Deserialize)]
pub(super) struct ErrorMessage {
    pub(super) error_event: ErrorBody,
}

#[derive(Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default)]
    pub(super) code: u16,
    #[serde(default)]
    pub(super) error_type: Option<String>,
    #[serde(default)]
    pub(super) message: Option<String>,
    #[serde(default)]
    pub(super) reason: Option<String>,
}

/// The format of this name, if it is one that can be converted here.
pub(super) fn format(name: &str) -> Option<Format> {
    const RATES: [u32; 6] = [8_000, 16_000, 22_050, 24_000, 44_100, 48_000];
    if name == "ulaw_8000" {
        return Some(Format::ULAW);
    }
    let rate = name.strip_prefix("pcm_")?.parse().ok().filter(|rate| RATES.contains(rate))?;
    Some(Format { encoding: Encoding::Linear, rate })
}
