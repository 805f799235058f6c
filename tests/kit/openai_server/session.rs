//! One connection of the emulator, from `session.created` to its end.

use super::super::openai_shapes;
use super::{Behaviour, Control, Opening, Setup, Shared};
use crate::audio::encoded_tone;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use offhook::audio::{Activity, ActivityDetector, Encoding, FRAME, Format, g711};
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    net::TcpStream,
    sync::broadcast,
    time::{Instant, sleep_until},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::CloseFrame},
};

/// Speech per audio message.
const DELTA: Duration = Duration::from_millis(100);

type Stream = SplitStream<WebSocketStream<TcpStream>>;

pub(super) struct Session {
    sink: SplitSink<WebSocketStream<TcpStream>, Message>,
    stream: Option<Stream>,
    behaviour: Behaviour,
    shared: Shared,
    /// Formats (caller, agent) once `session.updated` was sent.
    formats: Option<(Format, Format)>,
    answer: Option<Answer>,
    answers: usize,
    /// Milliseconds sent of each item.
    sent: Vec<(String, u64)>,
    /// Function calls that wait for the end of an answer.
    calls: VecDeque<(String, String)>,
    detector: ActivityDetector,
    clock: std::time::Instant,
    closed: bool,
}

struct Answer {
    response: String,
    item: String,
    audio: Arc<[u8]>,
    sent: usize,
    next_at: Instant,
}

impl Session {
    pub(super) fn new(socket: WebSocketStream<TcpStream>, behaviour: Behaviour, shared: Shared) -> Self {
        let (sink, stream) = socket.split();
        Self {
            sink,
            stream: Some(stream),
            behaviour,
            shared,
            formats: None,
            answer: None,
            answers: 0,
            sent: Vec::new(),
            calls: VecDeque::new(),
            detector: ActivityDetector::new(-40.0, Duration::from_millis(60), Duration::from_millis(300)),
            clock: Instant::now().into_std(),
            closed: false,
        }
    }

    pub(super) async fn run(mut self, mut control: broadcast::Receiver<Control>) {
        let mut stream = self.stream.take().expect("run once");
        match self.behaviour.opening {
            Opening::Normal | Opening::Refuse(_) => self.send(session_created()).await,
            Opening::CloseAtOnce(code) => return self.close(code).await,
            Opening::Silent => {}
            Opening::Garbage => {
                while self.sink.send(Message::text("{\"type\": <garbage>")).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                return;
            }
        }
        while !self.closed {
            tokio::select! {
                biased;
                message = stream.next() => match message {
                    Some(Ok(Message::Text(text))) => self.hear(text.as_str()).await,
                    Some(Ok(Message::Binary(_))) => self.violation("a binary message".into()),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => {}
                },
                Ok(control) = control.recv() => match control {
                    Control::Send(text) => self.send_raw(Message::text(text)).await,
                    Control::SendBinary(bytes) => self.send_raw(Message::binary(bytes)).await,
                    Control::Respond => self.respond(None).await,
                    Control::Call { name, arguments } => self.calls.push_back((name, arguments)),
                    Control::Hear { item, words } => self.heard(&item, &words).await,
                    Control::Close(code) => return self.close(code).await,
                    Control::Drop => return,
                },
                () = due(self.answer.as_ref()) => self.speak().await,
            }
            if self.answer.is_none()
                && let Some((name, arguments)) = self.calls.pop_front()
            {
                self.answers += 1;
                let (response, item) = (format!("resp_{}", self.answers), format!("item_{}", self.answers));
                self.created(&response).await;
                self.call(&response, &item, &name, &arguments).await;
            }
        }
    }

    /// The caller has said something, as the server's own detection and transcription tell it.
    async fn heard(&mut self, item: &str, words: &str) {
        self.send(json!({
            "type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": item,
        }))
        .await;
        if let Some(answer) = self.answer.take() {
            self.cancel(answer, "turn_detected").await;
        }
        self.send(json!({ "type": "input_audio_buffer.speech_stopped", "audio_end_ms": 0, "item_id": item })).await;
        self.send(json!({ "type": "input_audio_buffer.committed", "item_id": item })).await;
        self.send(json!({
            "type": "conversation.item.input_audio_transcription.completed", "item_id": item,
            "content_index": 0, "transcript": words,
        }))
        .await;
    }

    async fn created(&mut self, response: &str) {
        self.send(json!({
            "type": "response.created", "response": { "id": response, "object": "realtime.response", "status": "in_progress" },
        }))
        .await;
    }

    async fn hear(&mut self, text: &str) {
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            return self.violation("no JSON".into());
        };
        if let Err(problem) = openai_shapes::check(&message) {
            self.violation(problem.clone());
            return self.error("unknown_parameter", &problem, &message).await;
        }
        let kind = message["type"].as_str().unwrap_or_default().to_owned();
        if kind == "input_audio_buffer.append" {
            return self.caller_audio(&message).await;
        }
        self.shared.note(|log| log.received.push(message.clone()));
        match kind.as_str() {
            "session.update" => self.update(&message).await,
            _ if self.formats.is_none() => self.violation(format!("{kind} before session.updated")),
            "response.create" => self.respond(Some(&message)).await,
            "response.cancel" => match self.answer.take() {
                Some(answer) => self.cancel(answer, "client_cancelled").await,
                None => self.error("response_cancel_not_active", "nothing to cancel", &message).await,
            },
            "conversation.item.truncate" => self.truncate(&message).await,
            "conversation.item.create" => {
                let item = &message["item"];
                self.send(json!({ "type": "conversation.item.added", "item": item })).await;
                self.send(json!({ "type": "conversation.item.done", "item": item })).await;
            }
            _ => {}
        }
    }

    async fn update(&mut self, message: &Value) {
        let format = |direction: &str| match message["session"]["audio"][direction]["format"]["type"].as_str() {
            Some("audio/pcmu") => Format::ULAW,
            Some("audio/pcma") => Format::ALAW,
            _ => Format::SLIN24,
        };
        let mut session = message["session"].clone();
        match self.behaviour.setup {
            Setup::Silent => return,
            Setup::Refuse(code) => return self.error(code, "refused", message).await,
            Setup::WrongFormats => {
                session["audio"]["output"]["format"] = json!({ "type": "audio/pcm", "rate": 16_000 })
            }
            Setup::AsAsked => {}
        }
        self.formats = Some((format("input"), format("output")));
        session["id"] = "sess_1".into();
        session["object"] = "realtime.session".into();
        self.send(json!({ "type": "session.updated", "event_id": "event_2", "session": session })).await;
    }

    async fn caller_audio(&mut self, message: &Value) {
        let Some((format, _)) = self.formats else {
            return self.violation("audio before session.updated".into());
        };
        let audio = message["audio"].as_str().and_then(|text| STANDARD.decode(text).ok());
        let Some(audio) = audio.filter(|audio| !audio.is_empty()) else {
            return self.violation("audio that is no base64, or empty".into());
        };
        self.shared.note(|log| log.caller_audio.extend_from_slice(&audio));
        if !self.behaviour.detects_speech {
            return;
        }
        for frame in audio.chunks_exact(format.frame_bytes()) {
            self.clock += FRAME;
            match self.detector.push(&samples(frame, format), self.clock) {
                Some(Activity::Started) => {
                    self.send(json!({
                        "type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": "item_caller",
                    }))
                    .await;
                    if let Some(answer) = self.answer.take() {
                        self.cancel(answer, "turn_detected").await;
                    }
                }
                Some(Activity::Stopped) => {
                    self.send(json!({
                        "type": "input_audio_buffer.speech_stopped", "audio_end_ms": 0, "item_id": "item_caller",
                    }))
                    .await;
                    self.send(json!({ "type": "input_audio_buffer.committed", "item_id": "item_caller" })).await;
                    self.respond(None).await;
                }
                None => {}
            }
        }
    }

    async fn respond(&mut self, asked: Option<&Value>) {
        if self.answer.is_some() {
            if let Some(message) = asked {
                let code = "conversation_already_has_active_response";
                self.error(code, "a response is in progress", message).await;
            }
            return;
        }
        let Some((_, format)) = self.formats else { return };
        self.answers += 1;
        let response = format!("resp_{}", self.answers);
        let item = format!("item_{}", self.answers);
        self.created(&response).await;
        let may_call = asked.is_none_or(|message| message["response"]["tool_choice"] != "none");
        if may_call && let Some((name, arguments)) = self.behaviour.calls.pop_front() {
            return self.call(&response, &item, &name, &arguments).await;
        }
        self.sent.push((item.clone(), 0));
        let audio = encoded_tone(self.behaviour.hertz, self.behaviour.answer, format);
        self.answer = Some(Answer { response, item, audio, sent: 0, next_at: Instant::now() });
    }

    async fn call(&mut self, response: &str, item: &str, name: &str, arguments: &str) {
        // As long as the vendor's own.
        let call_id = format!("call_{:016}", self.answers);
        self.send(json!({
            "type": "response.function_call_arguments.done", "response_id": response, "item_id": item,
            "output_index": 0, "call_id": call_id, "name": name, "arguments": arguments,
        }))
        .await;
        let output = json!({
            "id": item, "type": "function_call", "status": "completed", "call_id": call_id,
            "name": name, "arguments": arguments,
        });
        self.done(response, "completed", Value::Null, json!([output])).await;
    }

    /// Sends the next piece of the answer that is being spoken, or its end.
    async fn speak(&mut self) {
        let Some((_, format)) = self.formats else { return };
        let Some(mut answer) = self.answer.take() else { return };
        let step = (DELTA.as_millis() / FRAME.as_millis()) as usize * format.frame_bytes();
        let end = (answer.sent + step).min(answer.audio.len());
        self.delta(&answer.response, &answer.item, &answer.audio[answer.sent..end]).await;
        answer.sent = end;
        if let Some((_, sent)) = self.sent.last_mut() {
            *sent = u64::try_from(format.duration_of(end).as_millis()).unwrap_or(u64::MAX);
        }
        if let Some(pace) = self.behaviour.pace {
            answer.next_at += DELTA.div_f64(pace);
        }
        if end < answer.audio.len() {
            self.answer = Some(answer);
            return;
        }
        let Answer { response, item, .. } = answer;
        let of = json!({ "response_id": response, "item_id": item, "output_index": 0, "content_index": 0 });
        self.send(with(of.clone(), "response.output_audio.done")).await;
        let mut transcript = with(of, "response.output_audio_transcript.done");
        self.shared.note(|log| {
            transcript["transcript"] = log.words.as_deref().unwrap_or("A tone.").into();
            log.answered += 1;
        });
        self.send(transcript).await;
        self.done(&response, "completed", Value::Null, json!([])).await;
    }

    async fn cancel(&mut self, answer: Answer, reason: &str) {
        let details = json!({ "type": "cancelled", "reason": reason });
        self.done(&answer.response, "cancelled", details, json!([])).await;
        for piece in answer.audio[answer.sent..].chunks(800).take(self.behaviour.late_deltas) {
            self.delta(&answer.response, &answer.item, piece).await;
        }
    }

    async fn truncate(&mut self, message: &Value) {
        let sent = self.sent.iter().find(|(item, _)| message["item_id"] == **item).map(|(_, sent)| *sent);
        match (sent, message["audio_end_ms"].as_u64()) {
            (Some(sent), Some(end)) if end <= sent => {
                self.send(json!({
                    "type": "conversation.item.truncated", "item_id": message["item_id"],
                    "content_index": 0, "audio_end_ms": end,
                }))
                .await;
            }
            _ => {
                self.violation(format!("a truncation of {:?} ms, where {sent:?} were sent", message["audio_end_ms"]));
                self.error("invalid_value", "audio_end_ms", message).await;
            }
        }
    }

    async fn delta(&mut self, response: &str, item: &str, audio: &[u8]) {
        self.send(json!({
            "type": "response.output_audio.delta", "response_id": response, "item_id": item,
            "output_index": 0, "content_index": 0, "delta": STANDARD.encode(audio),
        }))
        .await;
    }

    async fn done(&mut self, response: &str, status: &str, details: Value, output: Value) {
        self.send(json!({
            "type": "response.done",
            "response": {
                "id": response, "object": "realtime.response", "status": status, "status_details": details,
                "output": output,
                "usage": {
                    "total_tokens": 30, "input_tokens": 20, "output_tokens": 10,
                    "input_token_details": { "text_tokens": 12, "audio_tokens": 8, "cached_tokens": 4 },
                    "output_token_details": { "text_tokens": 3, "audio_tokens": 7 },
                },
            },
        }))
        .await;
    }

    async fn error(&mut self, code: &str, message: &str, cause: &Value) {
        self.send(json!({
            "type": "error",
            "error": {
                "type": "invalid_request_error", "code": code, "message": message, "param": null,
                "event_id": cause["event_id"],
            },
        }))
        .await;
    }

    fn violation(&self, problem: String) {
        self.shared.note(|log| log.violations.push(problem));
    }

    async fn send(&mut self, message: Value) {
        self.send_raw(Message::text(message.to_string())).await;
    }

    async fn send_raw(&mut self, message: Message) {
        self.closed |= self.sink.send(message).await.is_err();
    }

    async fn close(&mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "".into() };
        // The client may be gone already.
        let _ = self.sink.send(Message::Close(Some(frame))).await;
        let _ = self.sink.close().await;
    }
}

fn session_created() -> Value {
    json!({
        "type": "session.created", "event_id": "event_1",
        "session": {
            "type": "realtime", "object": "realtime.session", "id": "sess_1",
            "audio": {
                "input": { "format": { "type": "audio/pcm", "rate": 24_000 } },
                "output": { "format": { "type": "audio/pcm", "rate": 24_000 }, "voice": "marin" },
            },
        },
    })
}

fn with(mut message: Value, kind: &str) -> Value {
    message["type"] = kind.into();
    message
}

async fn due(answer: Option<&Answer>) {
    match answer {
        Some(answer) => sleep_until(answer.next_at).await,
        None => std::future::pending().await,
    }
}

fn samples(frame: &[u8], format: Format) -> Vec<i16> {
    let mut samples = Vec::new();
    match format.encoding {
        Encoding::Mulaw => g711::decode(g711::Law::Mu, frame, &mut samples),
        Encoding::Alaw => g711::decode(g711::Law::A, frame, &mut samples),
        Encoding::Linear => samples.extend(frame.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]))),
    }
    samples
}
