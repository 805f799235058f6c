//! A server that speaks OpenAI Realtime on 127.0.0.1, for tests: it keeps the protocol's rules,
//! checks every message it gets, speaks a tone, and can be told to misbehave.

use super::openai_shapes;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{SinkExt, StreamExt, stream::SplitSink};
use offhook::audio::{Activity, ActivityDetector, Converter, Encoding, FRAME, Format, g711};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, broadcast},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep_until, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
        http::StatusCode,
        protocol::CloseFrame,
    },
};

/// Speech per audio message.
const DELTA: Duration = Duration::from_millis(100);
/// The longest a test waits for something that should come.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct Behaviour {
    pub opening: Opening,
    pub setup: Setup,
    /// Length of the tone spoken as each answer.
    pub answer: Duration,
    pub hertz: f32,
    /// Times real time at which answers are sent; `None`: as fast as the socket takes them.
    pub pace: Option<f64>,
    /// Detect the caller's speech by its level, cancel and answer as `server_vad` does. Without it
    /// the server speaks only when asked.
    pub detects_speech: bool,
    /// Audio messages that still come for an answer after it was cancelled.
    pub late_deltas: usize,
    /// Function calls, `(name, arguments)`: the first responses make one each instead of speaking.
    pub calls: VecDeque<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    Normal,
    /// Refuse the upgrade with this HTTP status.
    Refuse(u16),
    /// Accept and close at once.
    CloseAtOnce(u16),
    /// Accept and say nothing.
    Silent,
    /// Accept and send what is no JSON, again and again.
    Garbage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setup {
    AsAsked,
    /// Answer `session.update` with formats that were not asked for.
    WrongFormats,
    /// Answer `session.update` with an error of this code.
    Refuse(&'static str),
    /// Never answer `session.update`.
    Silent,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            opening: Opening::Normal,
            setup: Setup::AsAsked,
            answer: Duration::from_secs(1),
            hertz: 440.0,
            pace: None,
            detects_speech: false,
            late_deltas: 0,
            calls: VecDeque::new(),
        }
    }
}

#[derive(Debug, Clone)]
enum Control {
    Send(String),
    SendBinary(Vec<u8>),
    Respond,
    Close(u16),
    Drop,
}

#[derive(Default)]
struct Log {
    connections: usize,
    open: usize,
    requests: Vec<String>,
    received: Vec<Value>,
    violations: Vec<String>,
    caller_audio: Vec<u8>,
}

pub struct OpenAiServer {
    port: u16,
    log: Arc<Mutex<Log>>,
    changed: Arc<Notify>,
    control: broadcast::Sender<Control>,
    task: JoinHandle<()>,
}

impl Drop for OpenAiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OpenAiServer {
    pub async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("a bound socket").port();
        let (log, changed) = (Arc::new(Mutex::new(Log::default())), Arc::new(Notify::new()));
        let (control, _) = broadcast::channel(256);
        let shared = Shared { log: log.clone(), changed: changed.clone(), control: control.clone() };
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, behaviour.clone(), shared.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { port, log, changed, control, task }
    }

    pub fn base_url(&self) -> String {
        format!("ws://127.0.0.1:{}/v1/realtime", self.port)
    }

    /// Options of `kind: openai_realtime` that lead here.
    pub fn options(&self) -> Value {
        json!({ "api_key": "sk-test", "base_url": self.base_url() })
    }

    /// Connections that asked for an upgrade so far, refused ones included.
    pub fn connections(&self) -> usize {
        self.log().connections
    }

    /// Connections that stand now.
    pub fn open(&self) -> usize {
        self.log().open
    }

    /// Request lines and `authorization` headers of all upgrades, as `path authorization`.
    pub fn requests(&self) -> Vec<String> {
        self.log().requests.clone()
    }

    /// Every message received, of all connections, but for audio, which is in
    /// [`caller_audio`](Self::caller_audio).
    pub fn received(&self) -> Vec<Value> {
        self.log().received.clone()
    }

    pub fn received_of(&self, kind: &str) -> Vec<Value> {
        self.received().into_iter().filter(|message| message["type"] == kind).collect()
    }

    /// What the client did against the protocol.
    pub fn violations(&self) -> Vec<String> {
        self.log().violations.clone()
    }

    /// The caller's audio in the session's input format.
    pub fn caller_audio(&self) -> Vec<u8> {
        self.log().caller_audio.clone()
    }

    /// Waits until so many messages of this type have come.
    pub async fn wait_for(&self, kind: &str, count: usize) -> Vec<Value> {
        self.wait_until(&format!("{count} × {kind}"), |server| server.received_of(kind).len() >= count).await;
        self.received_of(kind)
    }

    /// Waits until `condition` holds; panics with `what` when it does not within ten seconds.
    pub async fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                if condition(self) {
                    return;
                }
                changed.await;
            }
        };
        if timeout(PATIENCE, waiting).await.is_err() {
            panic!("waited in vain for {what}; received: {:#?}", self.received());
        }
    }

    /// Sends this message to every open session.
    pub fn send(&self, message: &Value) {
        self.tell(Control::Send(message.to_string()));
    }

    pub fn send_text(&self, text: &str) {
        self.tell(Control::Send(text.into()));
    }

    pub fn send_binary(&self, bytes: &[u8]) {
        self.tell(Control::SendBinary(bytes.into()));
    }

    /// Starts a response of the server's own.
    pub fn respond(&self) {
        self.tell(Control::Respond);
    }

    /// Closes every session with this code.
    pub fn close(&self, code: u16) {
        self.tell(Control::Close(code));
    }

    /// Drops every connection without a word.
    pub fn drop_connections(&self) {
        self.tell(Control::Drop);
    }

    fn tell(&self, control: Control) {
        self.control.send(control).expect("no session is open");
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no test panics while it holds the log")
    }
}

#[derive(Clone)]
struct Shared {
    log: Arc<Mutex<Log>>,
    changed: Arc<Notify>,
    control: broadcast::Sender<Control>,
}

impl Shared {
    fn note(&self, change: impl FnOnce(&mut Log)) {
        change(&mut self.log.lock().expect("no test panics while it holds the log"));
        self.changed.notify_waiters();
    }
}

/// Counts a session as open for as long as it lives.
struct Open(Shared);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.note(|log| log.open -= 1);
    }
}

async fn serve(stream: TcpStream, behaviour: Behaviour, shared: Shared) {
    stream.set_nodelay(true).expect("a fresh socket");
    let noting = shared.clone();
    let refusal = if let Opening::Refuse(status) = behaviour.opening { Some(status) } else { None };
    #[allow(clippy::result_large_err)] // The library's own signature.
    let upgrade = move |request: &Request, response: Response| {
        let key = request.headers().get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let beta = request.headers().contains_key("openai-beta");
        noting.note(|log| {
            log.connections += 1;
            log.requests.push(format!("{} {key}", request.uri()));
            if beta {
                log.violations.push("the retired OpenAI-Beta header".into());
            }
        });
        match refusal {
            None => Ok(response),
            Some(status) => {
                let mut refusal = ErrorResponse::new(Some(r#"{"error":{"message":"refused"}}"#.into()));
                *refusal.status_mut() = StatusCode::from_u16(status).expect("an HTTP status");
                Err(refusal)
            }
        }
    };
    let control = shared.control.subscribe();
    let Ok(socket) = accept_hdr_async(stream, upgrade).await else { return };
    shared.note(|log| log.open += 1);
    let _open = Open(shared.clone());
    Session::new(socket, behaviour, shared).run(control).await;
}

type Stream = futures_util::stream::SplitStream<WebSocketStream<TcpStream>>;

struct Session {
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
    detector: ActivityDetector,
    clock: std::time::Instant,
    closed: bool,
}

struct Answer {
    response: String,
    item: String,
    audio: Vec<u8>,
    sent: usize,
    next_at: Instant,
}

impl Session {
    fn new(socket: WebSocketStream<TcpStream>, behaviour: Behaviour, shared: Shared) -> Self {
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
            detector: ActivityDetector::new(-40.0, Duration::from_millis(60), Duration::from_millis(300)),
            clock: Instant::now().into_std(),
            closed: false,
        }
    }

    async fn run(mut self, mut control: broadcast::Receiver<Control>) {
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
                    Control::Close(code) => return self.close(code).await,
                    Control::Drop => return,
                },
                () = due(self.answer.as_ref()) => self.speak().await,
            }
        }
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
            Setup::WrongFormats => session["audio"]["output"]["format"] = json!({ "type": "audio/pcm", "rate": 16_000 }),
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
        self.send(json!({
            "type": "response.created", "response": { "id": response, "object": "realtime.response", "status": "in_progress" },
        }))
        .await;
        if let Some((name, arguments)) = self.behaviour.calls.pop_front() {
            return self.call(&response, &item, &name, &arguments).await;
        }
        self.sent.push((item.clone(), 0));
        let audio = tone(self.behaviour.hertz, self.behaviour.answer, format);
        self.answer = Some(Answer { response, item, audio, sent: 0, next_at: Instant::now() });
    }

    async fn call(&mut self, response: &str, item: &str, name: &str, arguments: &str) {
        let call_id = format!("call_{}", self.answers);
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
        transcript["transcript"] = "A tone.".into();
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

/// A tone in this format, at a quarter of full scale.
pub fn tone(hertz: f32, length: Duration, format: Format) -> Vec<u8> {
    let rate = format.rate as f32;
    let pcm: Vec<u8> = (0..(length.as_secs_f32() * rate) as usize)
        .map(|i| (8_000.0 * (std::f32::consts::TAU * hertz * i as f32 / rate).sin()) as i16)
        .flat_map(i16::to_le_bytes)
        .collect();
    let mut audio = Vec::new();
    let mut converter = Converter::new(Format { encoding: Encoding::Linear, rate: format.rate }, format);
    converter.push(&pcm, &mut audio);
    converter.flush(&mut audio);
    audio
}
