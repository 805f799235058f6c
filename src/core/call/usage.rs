//! What an agent's provider used up, and is paid for.

use std::{ops::AddAssign, time::Duration};

/// What a response, a transcription or a stretch of connected time used up. Tokens are counted as the
/// provider reports them, and zero where it does not.
///
/// The whole input is `input_text_tokens + input_audio_tokens`: cached tokens are among them, told apart
/// because they cost less. Thinking comes on top of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub input_text_tokens: u64,
    pub input_audio_tokens: u64,
    /// How many of the input tokens, of either kind, the provider had in its cache.
    pub input_cached_tokens: u64,
    /// How many of `input_cached_tokens` are audio; the others are text.
    pub input_cached_audio_tokens: u64,
    pub output_text_tokens: u64,
    pub output_audio_tokens: u64,
    /// Not among the output tokens of the two kinds.
    pub output_thinking_tokens: u64,
    /// Of the transcription of the caller's words, where it is billed apart from the conversation. Its
    /// text input is a prompt of keywords.
    pub transcription_text_tokens: u64,
    pub transcription_audio_tokens: u64,
    pub transcription_output_tokens: u64,
    /// The caller's audio that was transcribed, where the provider bills it by time.
    pub transcribed: Duration,
    /// How long a session was connected. Measured here, never reported: several vendors bill this and
    /// report nothing.
    pub connected: Duration,
}

impl Usage {
    /// What [`Self::tokens`] counts.
    pub const TOKEN_KINDS: [&str; 10] = [
        "input_text",
        "input_audio",
        "input_cached",
        "input_cached_audio",
        "output_text",
        "output_audio",
        "output_thinking",
        "transcription_text",
        "transcription_audio",
        "transcription_output",
    ];

    /// By kind, cached tokens also among those of the input.
    pub const fn tokens(&self) -> [u64; Self::TOKEN_KINDS.len()] {
        [
            self.input_text_tokens,
            self.input_audio_tokens,
            self.input_cached_tokens,
            self.input_cached_audio_tokens,
            self.output_text_tokens,
            self.output_audio_tokens,
            self.output_thinking_tokens,
            self.transcription_text_tokens,
            self.transcription_audio_tokens,
            self.transcription_output_tokens,
        ]
    }

    /// Cached tokens of text and of audio, never more than went in of each.
    pub fn input_cached(&self) -> (u64, u64) {
        let audio = self.input_cached_audio_tokens.min(self.input_cached_tokens).min(self.input_audio_tokens);
        let text = (self.input_cached_tokens - audio).min(self.input_text_tokens);
        // Where the kinds are not told apart, what cannot be text is audio.
        (text, (self.input_cached_tokens - text).min(self.input_audio_tokens))
    }
}

/// Counts come from the network, so a sum stops at the largest number.
impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let counts = [
            (&mut self.input_text_tokens, other.input_text_tokens),
            (&mut self.input_audio_tokens, other.input_audio_tokens),
            (&mut self.input_cached_tokens, other.input_cached_tokens),
            (&mut self.input_cached_audio_tokens, other.input_cached_audio_tokens),
            (&mut self.output_text_tokens, other.output_text_tokens),
            (&mut self.output_audio_tokens, other.output_audio_tokens),
            (&mut self.output_thinking_tokens, other.output_thinking_tokens),
            (&mut self.transcription_text_tokens, other.transcription_text_tokens),
            (&mut self.transcription_audio_tokens, other.transcription_audio_tokens),
            (&mut self.transcription_output_tokens, other.transcription_output_tokens),
        ];
        for (sum, more) in counts {
            *sum = sum.saturating_add(more);
        }
        self.transcribed = self.transcribed.saturating_add(other.transcribed);
        self.connected = self.connected.saturating_add(other.connected);
    }
}
