//! ElevenLabs Agents on the wire, from the server's side: a private agent that speaks and hears µ-law.

use super::{Call, Dialect, End, Failure, Heard, Saying, SetUp};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use offhook::audio::Format;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Message, protocol::CloseFrame};

#[derive(Default)]
pub struct ElevenLabs {
    set_up: bool,
    events: i64,
    /// The event of each response.
    responses: BTreeMap<u32, i64>,
    /// Until when the caller hears what was sent, as the vendor reckons.
    speaks_until: Option<Instant>,
    /// Calls that wait for an answer.
    open: BTreeSet<String>,
}

impl Dialect for ElevenLabs {
    const KIND: &'static str = "elevenlabs_agent";

    fn options(address: SocketAddr) -> Value {
        json!({ "agent_id": "agent_1", "api_key": "key-of-the-test", "base_url": format!("ws://{address}") })
    }

    /// In a session that stands, 1008 without a word is about a message of ours.
    fn loss(end: End) -> &'static str {
        match end {
            End::Closed { code: 1008, stood: true } => "protocol",
            other => other.usual_loss(),
        }
    }

    const ANSWERS_RESULTS: bool = true;
    const WORDS_FIRST: bool = true;
    const ENDS_ANSWERS_BY_SILENCE: bool = true;

    /// It says itself up to which event its audio is void.
    fn late_audio(pieces: usize) -> (&'static str, usize) {
        ("offhook_provider_noise_total{kind=\"late_audio\"", pieces)
    }

    fn waits() -> Value {
        json!({ "overrides": ["first_message"] })
    }

    fn page(path: &str, address: SocketAddr) -> Option<String> {
        let signed_url = format!("ws://{address}/v1/convai/conversation?agent_id=agent_1&token=t");
        let asked = path == "/v1/convai/conversation/get-signed-url?agent_id=agent_1";
        asked.then(|| json!({ "signed_url": signed_url }).to_string())
    }

    fn hear(&mut self, message: Message) -> Vec<Heard> {
        let Message::Text(words) = message else { return vec![Heard::Violation("a binary message".into())] };
        let Ok(message) = serde_json::from_str::<Value>(&words) else {
            return vec![Heard::Violation("no JSON".into())];
        };
        let word = |name: &str| message[name].as_str().map(str::to_owned);
        let members =
            |names: &[&str]| message.as_object().is_some_and(|map| map.keys().all(|key| names.contains(&&**key)));
        let heard = match message["type"].as_str() {
            None if members(&["user_audio_chunk"]) => word("user_audio_chunk")
                .and_then(|audio| STANDARD.decode(audio).ok())
                .filter(|audio| !audio.is_empty())
                .map(|audio| vec![Heard::Audio(audio)]),
            Some("conversation_initiation_client_data") if !self.set_up => self.set_up(&message),
            Some("pong") if message["event_id"].is_i64() => Some(vec![Heard::Pong]),
            Some("contextual_update") if members(&["type", "text"]) => word("text").map(|text| vec![Heard::Told(text)]),
            Some("user_message") if members(&["type", "text"]) => {
                word("text").map(|text| vec![Heard::WantsSpeech { text: Some(text) }])
            }
            Some("client_tool_result") if message["is_error"].is_boolean() => {
                word("tool_call_id").zip(word("result")).and_then(|(id, output)| self.result(id, output))
            }
            _ => None,
        };
        heard.unwrap_or_else(|| vec![Heard::Violation(format!("{words}"))])
    }

    fn say(&mut self, saying: &Saying) -> Vec<Message> {
        match saying {
            Saying::Ready => vec![metadata("ulaw_8000")],
            Saying::ReadyOtherwise => vec![metadata("opus_48000")],
            Saying::ResponseStarted { response } => {
                self.events += 1;
                self.responses.insert(*response, self.events);
                Vec::new()
            }
            Saying::Audio { response, audio } => {
                let event_id = self.responses.get(response).copied().unwrap_or(self.events);
                let now = Instant::now();
                let from = self.speaks_until.filter(|until| *until > now).unwrap_or(now);
                self.speaks_until = Some(from + Format::ULAW.duration_of(audio.len()));
                let event = json!({ "audio_base_64": STANDARD.encode(audio), "event_id": event_id });
                vec![text(json!({ "type": "audio", "audio_event": event }))]
            }
            Saying::AgentWords { text: words, .. } => {
                let event = json!({ "agent_response": words, "event_id": self.events });
                vec![text(json!({ "type": "agent_response", "agent_response_event": event }))]
            }
            Saying::ToolCalls { calls, .. } => {
                self.open.extend(calls.iter().map(|call| call.id.clone()));
                calls.iter().map(|call| self.call(call)).collect()
            }
            Saying::CallerSpeechStarted { .. } => self.interruption().into_iter().collect(),
            Saying::CallerWords { text: words, .. } => {
                self.events += 1;
                let event = json!({ "user_transcript": words, "event_id": self.events });
                vec![text(json!({ "type": "user_transcript", "user_transcription_event": event }))]
            }
            Saying::Ping => {
                vec![text(json!({ "type": "ping", "ping_event": { "event_id": self.events, "ping_ms": null } }))]
            }
            Saying::Failure(Failure::Quota) => vec![closed(1008, "This request exceeds your quota limit.")],
            Saying::Failure(Failure::Throttled) => vec![closed(1008, "Too many concurrent requests.")],
            Saying::Failure(Failure::Expired) => {
                let event = json!({ "code": 1000, "error_type": "max_duration_exceeded", "message": "Too long." });
                vec![text(json!({ "type": "error", "error_event": event })), closed(1000, "")]
            }
            Saying::Unknown => vec![text(json!({ "type": "hologram", "hologram_event": {} }))],
            Saying::Malformed => vec![Message::text("{\"type\":")],
            Saying::Huge(bytes) => vec![text(json!({ "type": "vad_score", "padding": "x".repeat(*bytes) }))],
            // The vendor has no words for it, or is not set to say it.
            _ => Vec::new(),
        }
    }
}

impl ElevenLabs {
    /// The agent allows its first message to be overridden and nothing else; with an empty one it waits.
    fn set_up(&mut self, message: &Value) -> Option<Vec<Heard>> {
        let first = &message["conversation_config_override"]["agent"]["first_message"];
        let plain = json!({ "type": "conversation_initiation_client_data" });
        let mut overridden = plain.clone();
        overridden["conversation_config_override"] = json!({ "agent": { "first_message": first } });
        self.set_up = *message == plain || (first.is_string() && *message == overridden);
        let set_up = SetUp { hears: Format::ULAW, speaks: Format::ULAW, detects: true };
        let greets = (first != "").then_some(Heard::WantsSpeech { text: None });
        self.set_up.then(|| [Heard::SetUp(set_up)].into_iter().chain(greets).collect())
    }

    /// Only if the caller still hears the agent.
    fn interruption(&mut self) -> Option<Message> {
        self.speaks_until.take().filter(|until| *until > Instant::now())?;
        let event = json!({ "event_id": self.events });
        Some(text(json!({ "type": "interruption", "interruption_event": event })))
    }

    fn call(&self, call: &Call) -> Message {
        let body = json!({
            "tool_name": call.name, "tool_call_id": call.id, "parameters": call.arguments, "event_id": self.events,
        });
        text(json!({ "type": "client_tool_call", "client_tool_call": body }))
    }

    /// With the last open answer the agent goes on by itself.
    fn result(&mut self, id: String, output: String) -> Option<Vec<Heard>> {
        if !self.open.remove(&id) {
            return None;
        }
        let goes_on = self.open.is_empty().then_some(Heard::WantsSpeech { text: None });
        Some([Heard::ToolResult { id, output }].into_iter().chain(goes_on).collect())
    }
}

fn metadata(output: &str) -> Message {
    let formats = json!({
        "conversation_id": "conv_1", "agent_output_audio_format": output, "user_input_audio_format": "ulaw_8000",
    });
    text(json!({
        "type": "conversation_initiation_metadata", "conversation_initiation_metadata_event": formats,
    }))
}

fn text(message: Value) -> Message {
    Message::text(message.to_string())
}

fn closed(code: u16, reason: &'static str) -> Message {
    Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))
}
