//! OpenAI Realtime: JSON in text frames, 24 kHz both ways for a leg that is not G.711, else the leg's own bytes.

use super::{Cue, Heard, PIECES_MS, Vendor, voice_base64};
use offhook::audio::Format;
use serde_json::{Value, json};
use std::sync::LazyLock;
use tokio_tungstenite::tungstenite::Message;

const APPEND: &str = r#"{"type":"input_audio_buffer.append","audio":""#;

static VOICE: LazyLock<[String; PIECES_MS.len()]> = LazyLock::new(|| voice_base64(Format::SLIN24));
static NARROW: LazyLock<[String; PIECES_MS.len()]> = LazyLock::new(|| voice_base64(Format::ULAW));

#[derive(Default)]
pub struct OpenAi {
    /// The session was asked for µ-law.
    narrow: bool,
}

impl Vendor for OpenAi {
    const HEARS: Format = Format::SLIN24;

    fn hello(&self) -> Option<Message> {
        Some(text(&json!({ "type": "session.created", "session": { "type": "realtime" } })))
    }

    fn hear<'m>(&mut self, message: &'m Message, out: &mut Vec<Message>) -> Heard<'m> {
        let Message::Text(message) = message else { return Heard::Nothing };
        if let Some(rest) = message.strip_prefix(APPEND) {
            return Heard::Base64(rest.trim_end_matches("\"}"));
        }
        let message: Value = serde_json::from_str(message).unwrap_or_default();
        match message["type"].as_str() {
            Some("session.update") => {
                self.narrow = message["session"]["audio"]["output"]["format"]["type"] == "audio/pcmu";
                out.push(text(&json!({ "type": "session.updated", "session": message["session"] })));
                Heard::Nothing
            }
            Some("response.create") => Heard::Go,
            _ => Heard::Nothing,
        }
    }

    fn act(&mut self, cue: Cue, answer: u32, out: &mut Vec<Message>) {
        let (response, item) = (format!("resp_{answer}"), format!("item_{answer}"));
        let done =
            |status: &str| text(&json!({ "type": "response.done", "response": { "id": response, "status": status } }));
        match cue {
            Cue::Begin => out.push(text(&json!({ "type": "response.created", "response": { "id": response } }))),
            Cue::Audio(piece) => out.push(Message::text(format!(
                r#"{{"type":"response.output_audio.delta","response_id":"{response}","item_id":"{item}","output_index":0,"content_index":0,"delta":"{}"}}"#,
                if self.narrow { &NARROW[piece] } else { &VOICE[piece] }
            ))),
            Cue::Complete => {
                let audio = json!({ "type": "response.output_audio.done", "response_id": response, "item_id": item });
                out.extend([text(&audio), done("completed")]);
            }
            Cue::Interrupt => {
                out.extend([text(&json!({ "type": "input_audio_buffer.speech_started" })), done("cancelled")]);
            }
            Cue::CallerQuiet => out.push(text(&json!({ "type": "input_audio_buffer.speech_stopped" }))),
        }
    }
}

fn text(message: &Value) -> Message {
    Message::text(message.to_string())
}
