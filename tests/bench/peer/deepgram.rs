//! Deepgram Voice Agent: raw audio in binary frames, in the leg's own format.

use super::{Cue, Heard, PIECES_MS, Vendor, voice};
use bytes::Bytes;
use offhook::audio::Format;
use serde_json::{Value, json};
use std::sync::LazyLock;
use tokio_tungstenite::tungstenite::Message;

static VOICE: LazyLock<[Bytes; PIECES_MS.len()]> = LazyLock::new(|| voice(Format::SLIN8).map(Bytes::from));

#[derive(Default)]
pub struct Deepgram;

impl Vendor for Deepgram {
    const HEARS: Format = Format::SLIN8;

    fn hello(&self) -> Option<Message> {
        Some(text(&json!({ "type": "Welcome", "request_id": "r" })))
    }

    fn hear<'m>(&mut self, message: &'m Message, out: &mut Vec<Message>) -> Heard<'m> {
        match message {
            Message::Binary(audio) => Heard::Raw(audio),
            Message::Text(message) => {
                let message: Value = serde_json::from_str(message).unwrap_or_default();
                match message["type"].as_str() {
                    Some("Settings") => {
                        out.push(text(&json!({ "type": "SettingsApplied" })));
                        // The agent greets by itself.
                        if message["agent"]["greeting"].is_string() { Heard::Go } else { Heard::Nothing }
                    }
                    Some("InjectAgentMessage" | "InjectUserMessage") => Heard::Go,
                    _ => Heard::Nothing,
                }
            }
            _ => Heard::Nothing,
        }
    }

    fn act(&mut self, cue: Cue, _: u32, out: &mut Vec<Message>) {
        match cue {
            Cue::Begin => out.push(text(&json!({
                "type": "AgentStartedSpeaking", "total_latency": 0.9, "tts_latency": 0.3, "ttt_latency": 0.6,
            }))),
            Cue::Audio(piece) => out.push(Message::Binary(VOICE[piece].clone())),
            Cue::Complete => out.push(text(&json!({ "type": "AgentAudioDone" }))),
            Cue::Interrupt => out.push(text(&json!({ "type": "UserStartedSpeaking" }))),
            // The caller's words are the first that is said of it.
            Cue::CallerQuiet => {
                out.push(text(&json!({ "type": "ConversationText", "role": "user", "content": "No, wait." })));
            }
        }
    }
}

fn text(message: &Value) -> Message {
    Message::text(message.to_string())
}
