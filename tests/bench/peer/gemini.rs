//! Gemini Live: JSON in binary frames, 16 kHz in and 24 kHz out.

use super::{Cue, Heard, PIECES_MS, Vendor, voice_base64};
use offhook::audio::Format;
use serde_json::{Value, json};
use std::sync::LazyLock;
use tokio_tungstenite::tungstenite::Message;

const AUDIO: &str = r#"{"realtimeInput":{"audio":"#;
const DATA: &str = r#""data":""#;

static VOICE: LazyLock<[String; PIECES_MS.len()]> = LazyLock::new(|| voice_base64(Format::SLIN24));

#[derive(Default)]
pub struct Gemini;

impl Vendor for Gemini {
    const HEARS: Format = Format::SLIN16;

    fn hear<'m>(&mut self, message: &'m Message, out: &mut Vec<Message>) -> Heard<'m> {
        let Message::Text(message) = message else { return Heard::Nothing };
        if message.starts_with(AUDIO)
            && let Some((_, rest)) = message.split_once(DATA)
            && let Some((data, _)) = rest.split_once('"')
        {
            return Heard::Base64(data);
        }
        let message: Value = serde_json::from_str(message).unwrap_or_default();
        if message.get("setup").is_some() {
            out.push(binary(&json!({ "setupComplete": {} })));
        }
        if message.get("clientContent").is_some() { Heard::Go } else { Heard::Nothing }
    }

    fn act(&mut self, cue: Cue, _: u32, out: &mut Vec<Message>) {
        match cue {
            // Answers begin with their sound, and no event says that the caller is quiet.
            Cue::Begin | Cue::CallerQuiet => {}
            Cue::Audio(piece) => out.push(Message::binary(
                format!(
                    r#"{{"serverContent":{{"modelTurn":{{"parts":[{{"inlineData":{{"mimeType":"audio/pcm;rate=24000","data":"{}"}}}}]}}}}}}"#,
                    VOICE[piece]
                )
                .into_bytes(),
            )),
            Cue::Complete => {
                out.push(binary(&json!({ "serverContent": { "generationComplete": true } })));
                out.push(binary(&json!({ "serverContent": { "turnComplete": true } })));
            }
            Cue::Interrupt => {
                out.push(binary(&json!({ "serverContent": { "interrupted": true } })));
                out.push(binary(&json!({ "serverContent": { "turnComplete": true } })));
            }
        }
    }
}

fn binary(message: &Value) -> Message {
    Message::binary(message.to_string().into_bytes())
}
