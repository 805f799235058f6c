//! ElevenLabs Agents: JSON in text frames, µ-law both ways.

use super::{Cue, Heard, PIECES_MS, Vendor, voice_base64};
use offhook::audio::Format;
use serde_json::{Value, json};
use std::sync::LazyLock;
use tokio_tungstenite::tungstenite::Message;

const CHUNK: &str = r#"{"user_audio_chunk":""#;

static VOICE: LazyLock<[String; PIECES_MS.len()]> = LazyLock::new(|| voice_base64(Format::ULAW));

/// Counts its events: what is older than an interruption is not heard.
#[derive(Default)]
pub struct ElevenLabs {
    events: u64,
}

impl ElevenLabs {
    fn next(&mut self) -> u64 {
        self.events += 1;
        self.events
    }
}

impl Vendor for ElevenLabs {
    const HEARS: Format = Format::ULAW;

    fn hear<'m>(&mut self, message: &'m Message, out: &mut Vec<Message>) -> Heard<'m> {
        let Message::Text(message) = message else { return Heard::Nothing };
        if let Some(rest) = message.strip_prefix(CHUNK) {
            return Heard::Base64(rest.trim_end_matches("\"}"));
        }
        let message: Value = serde_json::from_str(message).unwrap_or_default();
        if message["type"] != "conversation_initiation_client_data" {
            return Heard::Nothing;
        }
        out.push(text(&json!({
            "type": "conversation_initiation_metadata",
            "conversation_initiation_metadata_event": {
                "conversation_id": "conv_1",
                "agent_output_audio_format": "ulaw_8000",
                "user_input_audio_format": "ulaw_8000",
            },
        })));
        // The agent greets by itself.
        Heard::Go
    }

    fn act(&mut self, cue: Cue, _: u32, out: &mut Vec<Message>) {
        let event = self.next();
        match cue {
            Cue::Begin => {}
            Cue::Audio(piece) => out.push(Message::text(format!(
                r#"{{"type":"audio","audio_event":{{"audio_base_64":"{}","event_id":{event}}}}}"#,
                VOICE[piece]
            ))),
            Cue::Complete => {
                let complete = json!({ "event_id": event });
                out.push(text(
                    &json!({ "type": "agent_response_complete", "agent_response_complete_event": complete }),
                ));
            }
            Cue::Interrupt => {
                out.push(text(&json!({ "type": "interruption", "interruption_event": { "event_id": event } })));
            }
            Cue::CallerQuiet => {
                let words = json!({ "user_transcript": "No, wait.", "event_id": event });
                out.push(text(&json!({ "type": "user_transcript", "user_transcription_event": words })));
            }
        }
    }
}

fn text(message: &Value) -> Message {
    Message::text(message.to_string())
}
