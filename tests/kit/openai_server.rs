//! A server that speaks OpenAI Realtime on 127.0.0.1, for tests: it keeps the protocol's rules,
//! checks every message it gets, speaks a tone, and can be told to misbehave.

mod session;

use serde_json::{Value, json};
use session::Session;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, broadcast},
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_tungstenite::{
    accept_hdr_async,
    tungstenite::{
        handshake::server::{ErrorResponse, Request, Response},
        http::StatusCode,
    },
};

/// The longest a test waits for something that should come; more than `limits.tool`.
const PATIENCE: Duration = Duration::from_secs(30);

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
    /// Function calls, `(name, arguments)`: the first responses make one each instead of speaking, but
    /// for those that were asked for with `tool_choice: "none"`.
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
    Call { name: String, arguments: String },
    Hear { item: String, words: String },
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
    /// Answers that were spoken to their end.
    answered: usize,
    words: Option<String>,
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

    /// Waits until `condition` holds; panics with `what` when it does not within `PATIENCE`.
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

    /// Starts a response that calls this function; after the one that is being spoken.
    pub fn call(&self, name: &str, arguments: &Value) {
        self.tell(Control::Call { name: name.into(), arguments: arguments.to_string() });
    }

    /// The caller has said this, in an utterance of this name: detected, and transcribed at once. What the
    /// model makes of it is for the test to say.
    pub fn hear(&self, item: &str, words: &str) {
        self.tell(Control::Hear { item: item.into(), words: words.into() });
    }

    /// From now on the transcript of an answer is this.
    pub fn speak_of(&self, words: &str) {
        self.log().words = Some(words.into());
    }

    /// Answers that were spoken to their end so far.
    pub fn answered(&self) -> usize {
        self.log().answered
    }

    /// Outputs of function calls, oldest first.
    pub fn outputs(&self) -> Vec<Value> {
        let items = self.received_of("conversation.item.create").into_iter().map(|message| message["item"].clone());
        let outputs = items.filter(|item| item["type"] == "function_call_output");
        outputs.map(|item| serde_json::from_str(item["output"].as_str().expect("text")).expect("JSON")).collect()
    }

    /// Waits until so many function calls were answered and returns the last answer.
    pub async fn wait_output(&self, count: usize) -> Value {
        self.wait_until(&format!("{count} outputs"), |server| server.outputs().len() >= count).await;
        let outputs = self.outputs();
        assert_eq!(outputs.len(), count, "{outputs:#?}");
        outputs[count - 1].clone()
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
