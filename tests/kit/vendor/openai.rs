//! OpenAI Realtime on the wire, from the server's side.

use super::{super::openai_shapes, Call, Dialect, Failure, Heard, Saying, SetUp};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use offhook::{audio::Format, call::CallerTurn};
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use tokio_tungstenite::tungstenite::{Message, protocol::CloseFrame};

#[derive(Default)]
pub struct OpenAi {
    /// As the client asked for it.
    session: Value,
    speaks: Option<Format>,
    /// Bytes sent of each response's item.
    sent: BTreeMap<u32, usize>,
    /// Of the response that is under way.
    calls: Vec<Call>,
    /// The id of the client's last wish to speak.
    wish: Value,
    /// A response was asked for, and is not over.
    active: bool,
    /// Turns that the client has told.
    committed: u32,
}

impl Dialect for OpenAi {
    const KIND: &'static str = "openai_realtime";
    const END_OF_TURN: Option<&'static str> = Some("input_audio_buffer.commit");

    fn options(address: SocketAddr) -> Value {
        json!({ "api_key": "key-of-the-test", "base_url": format!("ws://{address}/v1/realtime") })
    }

    const SUMMARISES: bool = true;

    /// The end of an answer, and an interruption.
    const ODD_IDS: usize = 2;

    fn tokens() -> BTreeMap<&'static str, u64> {
        let input = [("input_text", 12), ("input_audio", 8), ("input_cached", 4)];
        input.into_iter().chain([("output_text", 3), ("output_audio", 7)]).collect()
    }

    /// The header selects a dialect that is retired.
    fn dialled(&mut self, head: &str) -> Vec<Heard> {
        let beta = head.lines().find(|line| line.to_lowercase().starts_with("openai-beta:"));
        beta.map(|line| Heard::Violation(line.to_owned())).into_iter().collect()
    }

    fn hello(&mut self) -> Vec<Message> {
        let pcm = json!({ "type": "audio/pcm", "rate": 24_000 });
        let audio = json!({ "input": { "format": pcm }, "output": { "format": pcm, "voice": "marin" } });
        let session = json!({ "type": "realtime", "object": "realtime.session", "id": "sess_1", "audio": audio });
        vec![text(json!({ "type": "session.created", "session": session }))]
    }

    fn hear(&mut self, message: Message) -> Vec<Heard> {
        let Message::Text(words) = message else { return vec![Heard::Violation("a binary message".into())] };
        let Ok(message) = serde_json::from_str::<Value>(&words) else {
            return vec![Heard::Violation("no JSON".into())];
        };
        if let Err(problem) = openai_shapes::check(&message) {
            return vec![Heard::Violation(problem)];
        }
        vec![match message["type"].as_str().unwrap_or_default() {
            "session.update" => self.update(&message["session"]),
            "input_audio_buffer.append" => match STANDARD.decode(message["audio"].as_str().unwrap_or_default()) {
                Ok(audio) if !audio.is_empty() => Heard::Audio(audio),
                _ => Heard::Violation("audio that is no base64, or empty".into()),
            },
            "input_audio_buffer.commit" => return self.commit(),
            "response.create" if message["response"]["conversation"] == "none" => summed_up(&message),
            "response.create" => {
                (self.wish, self.active) = (message["event_id"].clone(), true);
                let wish = &message["response"];
                match wish["instructions"].as_str().map(str::to_owned) {
                    Some(text) if wish["tool_choice"] == "none" => Heard::WantsWords(text),
                    text => Heard::WantsSpeech { text },
                }
            }
            "response.cancel" if self.active => Heard::Cancelled,
            "response.cancel" => {
                let error = error("response_cancel_not_active", &message["event_id"]);
                return vec![Heard::Cancelled, Heard::Reply(vec![error])];
            }
            "conversation.item.truncate" => return self.truncate(&message),
            "conversation.item.create" => return item(&message["item"]),
            _ => Heard::Other,
        }]
    }

    fn say(&mut self, saying: &Saying) -> Vec<Message> {
        match saying {
            Saying::Ready => vec![self.updated(None)],
            Saying::ReadyOtherwise => vec![self.updated(Some(json!({ "type": "audio/pcm", "rate": 16_000 })))],
            Saying::ResponseStarted { response } => {
                self.active = true;
                self.sent.insert(*response, 0);
                let body =
                    json!({ "id": id("resp", *response), "object": "realtime.response", "status": "in_progress" });
                vec![text(json!({ "type": "response.created", "response": body }))]
            }
            Saying::Audio { response, audio } => {
                *self.sent.entry(*response).or_default() += audio.len();
                vec![of(*response, "response.output_audio.delta", json!({ "delta": STANDARD.encode(audio) }))]
            }
            Saying::AgentWords { response, text } => vec![
                of(*response, "response.output_audio.done", json!({})),
                of(*response, "response.output_audio_transcript.done", json!({ "transcript": text })),
            ],
            Saying::ToolCalls { response, calls } => {
                self.calls.clone_from(calls);
                let arguments_done = |call: &Call| {
                    let whole =
                        json!({ "call_id": call.id, "name": call.name, "arguments": call.arguments.to_string() });
                    of(*response, "response.function_call_arguments.done", whole)
                };
                calls.iter().map(arguments_done).collect()
            }
            Saying::ResponseDone { response } => vec![self.done(*response, "completed", Value::Null)],
            Saying::Interrupted { response } => {
                vec![self.done(*response, "cancelled", json!({ "type": "cancelled", "reason": "turn_detected" }))]
            }
            Saying::CallerSpeechStarted { utterance } => {
                let at = json!({ "audio_start_ms": 0, "item_id": id("said", *utterance) });
                vec![text(with(at, "input_audio_buffer.speech_started"))]
            }
            Saying::CallerSpeechStopped { utterance } => {
                let item = id("said", *utterance);
                vec![
                    text(json!({ "type": "input_audio_buffer.speech_stopped", "audio_end_ms": 0, "item_id": item })),
                    text(json!({ "type": "input_audio_buffer.committed", "item_id": item })),
                ]
            }
            Saying::CallerWords { utterance, text: words } => {
                let whole = json!({
                    "item_id": id("said", *utterance), "content_index": 0, "transcript": words,
                    "usage": { "type": "duration", "seconds": 1.0 },
                });
                vec![text(with(whole, "conversation.item.input_audio_transcription.completed"))]
            }
            Saying::Busy => vec![error("conversation_already_has_active_response", &self.wish)],
            Saying::Failure(Failure::Quota) => vec![error("insufficient_quota", &Value::Null), closed(1008)],
            Saying::Failure(Failure::Throttled) => vec![error("rate_limit_exceeded", &Value::Null), closed(1013)],
            Saying::Failure(Failure::Expired) => vec![error("session_expired", &Value::Null), closed(1001)],
            Saying::Unknown => vec![text(json!({ "type": "response.hologram.delta", "delta": 1 }))],
            Saying::Malformed => vec![Message::text("{\"type\":")],
            Saying::Huge(bytes) => {
                vec![text(json!({ "type": "rate_limits.updated", "rate_limits": [], "padding": "x".repeat(*bytes) }))]
            }
            // In `response.done`, or not at all.
            Saying::Usage
            | Saying::ToolCallsCancelled { .. }
            | Saying::GoAway { .. }
            | Saying::Resumable { .. }
            | Saying::Ping => Vec::new(),
        }
    }
}

impl OpenAi {
    /// With its own detection off, the client says where a turn ends.
    fn commit(&mut self) -> Vec<Heard> {
        self.committed += 1;
        let item = id("said", self.committed);
        let committed = json!({ "type": "input_audio_buffer.committed", "item_id": item, "previous_item_id": null });
        vec![Heard::Reply(vec![text(committed)]), Heard::Turn(CallerTurn::Ended)]
    }

    fn update(&mut self, session: &Value) -> Heard {
        let format = |direction: &str| match session["audio"][direction]["format"]["type"].as_str() {
            Some("audio/pcmu") => Format::ULAW,
            Some("audio/pcma") => Format::ALAW,
            _ => Format::SLIN24,
        };
        let (hears, speaks) = (format("input"), format("output"));
        let again = self.speaks.replace(speaks).is_some();
        self.session = session.clone();
        if again {
            return Heard::Reply(vec![self.updated(None)]);
        }
        let detection = &session["audio"]["input"]["turn_detection"];
        Heard::SetUp(SetUp { hears, speaks, detects: detection["create_response"] == true })
    }

    fn updated(&self, output: Option<Value>) -> Message {
        let mut session = self.session.clone();
        if let Some(format) = output {
            session["audio"]["output"]["format"] = format;
        }
        (session["id"], session["object"]) = ("sess_1".into(), "realtime.session".into());
        text(json!({ "type": "session.updated", "session": session }))
    }

    fn truncate(&self, message: &Value) -> Vec<Heard> {
        let item = message["item_id"].as_str().unwrap_or_default();
        let sent = self.sent.iter().find(|(response, _)| id("item", **response) == item);
        let sent = sent.zip(self.speaks).map(|((_, bytes), format)| format.duration_of(*bytes));
        let heard = Duration::from_millis(message["audio_end_ms"].as_u64().unwrap_or(u64::MAX));
        if sent.is_some_and(|sent| heard <= sent) {
            let cut = json!({ "item_id": item, "content_index": 0, "audio_end_ms": message["audio_end_ms"] });
            let truncated = text(with(cut, "conversation.item.truncated"));
            vec![Heard::Reply(vec![truncated]), Heard::Truncated { heard }]
        } else {
            vec![Heard::Violation(format!("a truncation of {item} at {heard:?}, where {sent:?} were sent"))]
        }
    }

    fn done(&mut self, response: u32, status: &str, details: Value) -> Message {
        self.active = false;
        let output = |call: Call| {
            json!({
                "id": id("item", response), "type": "function_call", "status": "completed", "call_id": call.id,
                "name": call.name, "arguments": call.arguments.to_string(),
            })
        };
        let calls: Vec<Value> = std::mem::take(&mut self.calls).into_iter().map(output).collect();
        let usage = json!({
            "total_tokens": 30, "input_tokens": 20, "output_tokens": 10,
            "input_token_details": { "text_tokens": 12, "audio_tokens": 8, "cached_tokens": 4 },
            "output_token_details": { "text_tokens": 3, "audio_tokens": 7 },
        });
        let body = json!({
            "id": id("resp", response), "object": "realtime.response", "status": status, "status_details": details,
            "output": calls, "usage": usage,
        });
        text(json!({ "type": "response.done", "response": body }))
    }
}

fn item(item: &Value) -> Vec<Heard> {
    let added = json!({ "type": "conversation.item.added", "item": item });
    let done = json!({ "type": "conversation.item.done", "item": item });
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let heard = match item["type"].as_str() {
        Some("function_call_output") => Heard::ToolResult { id: word(&item["call_id"]), output: word(&item["output"]) },
        _ => Heard::Told(item["content"].to_string()),
    };
    vec![heard, Heard::Reply(vec![text(added), text(done)])]
}

/// What it answers when it is to sum a record up.
pub const SUMMARY: &str = "They asked for the hours.";

/// A response outside the conversation, as it is asked for.
fn summed_up(message: &Value) -> Heard {
    let wish = &message["response"];
    let record = wish["input"][0]["content"][0]["text"].as_str().unwrap_or_default();
    if wish["output_modalities"] != json!(["text"]) || !record.starts_with("> ") {
        return Heard::Violation(format!("a response outside the conversation that is no summary: {wish}"));
    }
    let body = |status: &str, output: Value| {
        json!({
            "id": "resp_aside", "object": "realtime.response", "status": status, "conversation_id": null,
            "metadata": wish["metadata"], "output_modalities": ["text"], "output": output,
        })
    };
    let content = json!([{ "type": "output_text", "text": SUMMARY }]);
    let whole = json!([{ "id": "item_aside", "type": "message", "role": "assistant", "status": "completed", "content": content }]);
    let place = json!({ "response_id": "resp_aside", "item_id": "item_aside", "output_index": 0, "content_index": 0, "text": SUMMARY });
    let answer = vec![
        text(json!({ "type": "response.created", "response": body("in_progress", json!([])) })),
        text(with(place, "response.output_text.done")),
        text(json!({ "type": "response.done", "response": body("completed", whole) })),
    ];
    Heard::Aside { answer, refusal: vec![error("invalid_value", &message["event_id"])] }
}

fn id(kind: &str, number: u32) -> String {
    format!("{kind}_{number}")
}

/// What the vendor has against a message of the client, by the message's id.
fn error(code: &str, event_id: &Value) -> Message {
    let kind = if code == "insufficient_quota" { code } else { "invalid_request_error" };
    let body = json!({ "type": kind, "code": code, "message": "no", "param": null, "event_id": event_id });
    text(json!({ "type": "error", "error": body }))
}

/// Each event of the vendor's has an id.
fn text(mut message: Value) -> Message {
    message["event_id"] = "event_1".into();
    Message::text(message.to_string())
}

fn with(mut message: Value, kind: &str) -> Value {
    message["type"] = kind.into();
    message
}

fn of(response: u32, kind: &str, mut more: Value) -> Message {
    (more["response_id"], more["item_id"]) = (id("resp", response).into(), id("item", response).into());
    more["output_index"] = 0.into();
    if !kind.starts_with("response.function_call") {
        more["content_index"] = 0.into();
    }
    text(with(more, kind))
}

fn closed(code: u16) -> Message {
    Message::Close(Some(CloseFrame { code: code.into(), reason: "".into() }))
}
