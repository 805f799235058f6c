//! What tests of listeners stand on: a call's side of a session, and a vendor that says what the test has it say.

use super::{
    Hear, Heard, LISTENERS,
    session::{Codec, Misread, Talk},
};
use crate::{
    audio::Format,
    remote::{Fault, Wire, kinds},
};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use std::time::Duration;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};

/// What a listener takes for the words of a turn, unless its options say otherwise.
pub(super) const TURN_MAX: Duration = Duration::from_millis(super::timeout_ms());
/// Longer than anything that does come.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it comes soon")
}

pub(super) struct Call {
    input: Option<mpsc::Sender<Hear>>,
    words: mpsc::Receiver<Heard>,
    running: JoinHandle<Result<(), Fault>>,
}

impl Call {
    /// On a leg of this format.
    pub(super) fn begin(kind: &str, options: &Value, leg: Format) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = kinds::build(LISTENERS, kind, options).expect("good options");
        let (input, hears) = mpsc::channel(4_096);
        let (tells, words) = mpsc::channel(64);
        let running = tokio::spawn(listener.listen(listener.format(leg), hears, tells));
        Self { input: Some(input), words, running }
    }

    pub(super) fn hears(&self, hear: Hear) {
        self.input.as_ref().expect("the call goes on").try_send(hear).expect("there is room");
    }

    /// So many frames of 20 ms in `format`, of which every byte is `byte`.
    pub(super) fn sound(&self, format: Format, frames: usize, byte: u8) {
        let frame = Bytes::from(vec![byte; format.frame_bytes()]);
        (0..frames).for_each(|_| self.hears(Hear::Audio(frame.clone())));
    }

    pub(super) async fn is_told(&mut self) -> Heard {
        soon(self.words.recv()).await.expect("the session goes on")
    }

    /// All that is told up to the end of a turn, in short.
    pub(super) async fn story(&mut self) -> Vec<String> {
        let mut story = Vec::new();
        loop {
            let heard = self.is_told().await;
            let is_turn = matches!(heard, Heard::Turn { .. });
            story.push(short(&heard));
            if is_turn {
                return story;
            }
        }
    }

    pub(super) async fn fault(self) -> Fault {
        let Self { input: _input, words: _words, running } = self;
        soon(running).await.expect("no panic").expect_err("a fault")
    }

    pub(super) async fn hangs_up(mut self) -> Result<(), Fault> {
        self.input = None;
        soon(self.running).await.expect("no panic")
    }
}

pub(super) fn short(heard: &Heard) -> String {
    match heard {
        Heard::Ready => "ready".into(),
        Heard::Partial { text, stable: false } => format!("… {text}"),
        Heard::Partial { text, stable: true } => format!("= {text}"),
        Heard::Complete(over) => format!("over: {over}"),
        Heard::Turn { text } => format!("turn: {text}"),
        Heard::Oddity(oddity) => format!("odd: {}", oddity.label()),
        Heard::Usage(usage) => format!("used: {} s", usage.transcribed.as_secs()),
    }
}

/// A session without a socket; its clock is the audio's, µ-law at 8 kHz.
pub(super) struct Bench<C> {
    pub(super) codec: C,
    pub(super) now: Instant,
    pub(super) talk: Talk,
}

impl<C: Codec> Bench<C> {
    pub(super) fn new(codec: C) -> Self {
        Self { codec, now: Instant::now(), talk: Talk::default() }
    }

    pub(super) fn hears(&mut self, hear: Hear) -> &mut Self {
        self.codec.hear(hear, self.now, &mut self.talk);
        self
    }

    pub(super) fn silence(&mut self, milliseconds: u64) -> &mut Self {
        for _ in 0..milliseconds / 20 {
            self.now += Duration::from_millis(20);
            self.hears(Hear::Audio(Bytes::from_static(&[0xff; 160])));
        }
        self
    }

    pub(super) fn reads(&mut self, message: Value) -> &mut Self {
        self.now += Duration::from_millis(1);
        self.codec.read(&Wire::Text(message.to_string()), self.now, &mut self.talk).expect("it is understood");
        self
    }

    /// This message ends the session.
    pub(super) fn ends_by(&mut self, message: &Value) -> Fault {
        match self.codec.read(&Wire::Text(message.to_string()), self.now, &mut self.talk) {
            Err(Misread::Fault(fault)) => fault,
            other => panic!("{message}: {other:?}"),
        }
    }

    pub(super) fn told(&mut self) -> Vec<String> {
        self.talk.words.drain(..).filter(|heard| !matches!(heard, Heard::Usage(_))).map(|heard| short(&heard)).collect()
    }

    /// The names of the messages, without the audio.
    pub(super) fn sent(&mut self) -> Vec<String> {
        let texts = self.talk.wires.drain(..).filter_map(|wire| match wire {
            Wire::Text(text) => Some(serde_json::from_str::<Value>(&text).expect("JSON")),
            Wire::Binary(_) => None,
        });
        texts.map(|message| message["type"].as_str().expect("a type").to_owned()).collect()
    }

    /// Lets the time go on until the codec has nothing more to wait for, and says how long that was.
    pub(super) fn waits(&mut self) -> (Duration, Result<(), Fault>) {
        let began = self.now;
        while let Some(deadline) = self.codec.deadline() {
            self.now = deadline;
            if let Err(fault) = self.codec.late(self.now, &mut self.talk) {
                return (self.now - began, Err(fault));
            }
        }
        (self.now - began, Ok(()))
    }
}

/// A port on which a vendor can be had, once for each connection.
pub(super) struct Vendor {
    listener: TcpListener,
    pub(super) address: String,
}

impl Vendor {
    pub(super) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        Self { listener, address }
    }

    pub(super) async fn stream(&self) -> TcpStream {
        soon(self.listener.accept()).await.expect("a connection").0
    }

    pub(super) async fn socket(&self) -> Peer {
        let stream = self.stream().await;
        let (mut path, mut key) = (String::new(), String::new());
        #[allow(clippy::result_large_err)] // The shape is the library's.
        let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            path = request.uri().to_string();
            key = request.headers()["authorization"].to_str().expect("a key").to_owned();
            Ok(response)
        };
        let socket = accept_hdr_async(stream, look).await.expect("an upgrade");
        Peer { socket, path, key, bytes: 0 }
    }

    /// Refuses a connection as HTTP does.
    pub(super) async fn refuses(&self, answer: &str) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = self.stream().await;
        let _ = stream.read(&mut [0; 4_096]).await;
        stream.write_all(answer.as_bytes()).await.expect("it is taken");
    }
}

pub(super) struct Peer {
    socket: WebSocketStream<TcpStream>,
    pub(super) path: String,
    pub(super) key: String,
    /// Of audio in binary messages.
    pub(super) bytes: usize,
}

impl Peer {
    /// The next message that is text.
    pub(super) async fn hears(&mut self) -> Value {
        loop {
            match soon(self.socket.next()).await.expect("a message").expect("a whole one") {
                Message::Text(text) => return serde_json::from_str(text.as_str()).expect("JSON"),
                Message::Binary(audio) => self.bytes += audio.len(),
                _ => {}
            }
        }
    }

    /// Nothing else comes before.
    pub(super) async fn is_pinged(&mut self) -> bool {
        matches!(soon(self.socket.next()).await, Some(Ok(Message::Ping(_))))
    }

    pub(super) async fn says(&mut self, message: Value) {
        self.says_raw(&message.to_string()).await;
    }

    pub(super) async fn says_raw(&mut self, message: &str) {
        self.socket.send(Message::text(message)).await.expect("it is taken");
    }

    /// Goes away without a word.
    pub(super) fn drops(self) {}

    pub(super) async fn closes(mut self, code: u16) {
        use tokio_tungstenite::tungstenite::protocol::CloseFrame;
        let frame = CloseFrame { code: code.into(), reason: "what was said".into() };
        self.socket.close(Some(frame)).await.expect("it is taken");
    }
}
