//! What OpenAI says of a transcription, over HTTP and WebSocket alike.

use crate::call::Usage;
use serde::Deserialize;
use std::time::Duration;

/// Some transcription models are billed by tokens, others by time.
#[derive(Deserialize)]
pub struct TranscriptionUsage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    input_token_details: Option<TokenDetails>,
    #[serde(default)]
    seconds: Option<f64>,
}

#[derive(Deserialize)]
struct TokenDetails {
    #[serde(default)]
    text_tokens: Option<u64>,
}

impl From<TranscriptionUsage> for Usage {
    fn from(usage: TranscriptionUsage) -> Self {
        let input = usage.input_tokens.unwrap_or(0);
        // What is transcribed is audio, so what the details do not name is, too.
        let text = usage.input_token_details.and_then(|details| details.text_tokens).unwrap_or(0).min(input);
        let seconds = usage.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Self {
            transcription_text_tokens: text,
            transcription_audio_tokens: input - text,
            transcription_output_tokens: usage.output_tokens.unwrap_or(0),
            transcribed: seconds.unwrap_or_default(),
            ..Self::default()
        }
    }
}
