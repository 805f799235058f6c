//! The three wires by which a service can be asked.

use super::{Asked, Bit, Reply, Shared, voice};
use futures_util::{SinkExt as _, StreamExt as _};
use offhook::remote::wyoming::{Connection, Event};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};

/// What fits a request's head here.
const HEAD_MAX: usize = 8 << 10;

/// Serves one connection, which carries one question, or over HTTP one after the other. `None` where the client goes before
/// it has asked.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut first = [0; HEAD_MAX];
    let peeked = stream.peek(&mut first).await.ok().filter(|read| *read > 0)?;
    if first[0] == b'{' {
        return wyoming(stream, &shared).await;
    }
    let is_upgrade = String::from_utf8_lossy(&first[..peeked]).to_lowercase().contains("upgrade: websocket");
    if is_upgrade {
        return socket(stream, &shared).await;
    }
    let mut line = Line::Http { stream, head: None };
    loop {
        line = http(line, &shared).await?;
    }
}

// ---- HTTP ----

/// One question; the line is left if the next one may come.
async fn http(line: Line, shared: &Shared) -> Option<Line> {
    let Line::Http { mut stream, .. } = line else { return None };
    let (mut request, mut piece) = (Vec::new(), vec![0; 16 << 10]);
    let (head, end) = loop {
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&piece[..read]);
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break (String::from_utf8_lossy(&request[..end]).into_owned(), end + 4);
        }
    };
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    while request.len() < end + length.unwrap_or(0) {
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&piece[..read]);
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = serde_json::from_slice(&request[end..]).unwrap_or(Value::Null);
    let sound = if body.is_null() { request.split_off(end) } else { Vec::new() };
    let (number, reply) = shared.ask(Asked { path, body, sound, ..Asked::default() });
    let head = format!(
        "HTTP/1.1 {} As told\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n",
        reply.status, reply.kind
    );
    play(Line::Http { stream, head: Some(head) }, reply, number, shared).await
}

// ---- Wyoming ----

async fn wyoming(stream: TcpStream, shared: &Shared) -> Option<()> {
    let stream = stream.into_std().ok()?;
    let beside = TcpStream::from_std(stream.try_clone().ok()?).ok()?;
    let mut server = Connection::over(TcpStream::from_std(stream).ok()?);
    let mut asked = Asked::default();
    loop {
        let event = server.next().await.ok()?;
        match &*event.kind {
            "transcribe" | "synthesize" => (asked.path, asked.body) = (event.kind, Value::Object(event.data)),
            "audio-chunk" => asked.sound.extend_from_slice(&event.payload),
            "audio-stop" => break,
            _ => {}
        }
        if asked.path == "synthesize" {
            break;
        }
    }
    let speaks = asked.path == "synthesize";
    let (number, reply) = shared.ask(asked);
    if reply.status != 200 {
        let error = json!({ "text": "Not the words of the test.", "code": "busy" });
        return server.send(&Event::new("error", error)).await.ok();
    }
    if speaks {
        let shape = json!({ "rate": voice::WYOMING.rate, "width": 2, "channels": 1 });
        server.send(&Event::new("audio-start", shape.clone())).await.ok()?;
        return play(Line::Wyoming { server, beside, shape }, reply, number, shared).await.map(drop);
    }
    play(Line::Transcript { server, beside, text: Vec::new() }, reply, number, shared).await.map(drop)
}

// ---- Deepgram's Flux, which speaks over a WebSocket ----

async fn socket(stream: TcpStream, shared: &Shared) -> Option<()> {
    let mut path = String::new();
    #[allow(clippy::result_large_err)] // The shape is the library's.
    let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        path = request.uri().to_string();
        Ok(response)
    };
    let mut socket = accept_hdr_async(stream, look).await.ok()?;
    let mut asked = Asked { path, ..Asked::default() };
    loop {
        let Message::Text(text) = socket.next().await?.ok()? else { continue };
        let message: Value = serde_json::from_str(text.as_str()).ok()?;
        match message["type"].as_str() {
            Some("Speak") => asked.body = message,
            Some("Flush") => break,
            _ => {}
        }
    }
    let (number, reply) = shared.ask(asked);
    if reply.status != 200 {
        let error = json!({ "type": "Error", "code": "NET-0001", "description": "Not the words of the test." });
        return socket.send(Message::text(error.to_string())).await.ok();
    }
    play(Line::Socket(Box::new(socket)), reply, number, shared).await.map(drop)
}

// ---- The answer ----

enum Line {
    Http {
        stream: TcpStream,
        head: Option<String>,
    },
    /// `beside` is the same connection, for what is no event.
    Wyoming {
        server: Connection,
        beside: TcpStream,
        shape: Value,
    },
    /// What a Wyoming server has written down so far; it is told at the end.
    Transcript {
        server: Connection,
        beside: TcpStream,
        text: Vec<u8>,
    },
    Socket(Box<WebSocketStream<TcpStream>>),
}

/// The line is left when all was said.
async fn play(mut line: Line, reply: Reply, number: usize, shared: &Shared) -> Option<Line> {
    let playing = async {
        for bit in reply.bits {
            match bit {
                Bit::Bytes(bytes) => line.send(bytes).await?,
                Bit::ProtocolAnomaly => line.anomaly().await?,
                Bit::Wait(time) => tokio::select! {
                    biased;
                    () = sleep(time) => {}
                    () = line.is_gone() => return None,
                },
                Bit::Hold(until) => tokio::select! {
                    biased;
                    () = until.notified() => {}
                    () = line.is_gone() => return None,
                },
                Bit::Stall => {
                    line.is_gone().await;
                    return None;
                }
                Bit::Break => return Some(false),
            }
        }
        line.end().await.map(|()| true)
    };
    let stands = playing.await;
    if stands.is_none() {
        shared.gone(number);
    }
    stands?.then_some(line)
}

impl Line {
    async fn send(&mut self, bytes: Vec<u8>) -> Option<()> {
        match self {
            Self::Http { stream, head } => {
                let mut chunk = head.take().unwrap_or_default().into_bytes();
                if !bytes.is_empty() {
                    chunk.extend(format!("{:x}\r\n", bytes.len()).bytes());
                    chunk.extend(bytes);
                    chunk.extend(b"\r\n");
                }
                stream.write_all(&chunk).await.ok()
            }
            Self::Transcript { text, .. } => {
                text.extend(bytes);
                Some(())
            }
            // An empty one would be none.
            Self::Wyoming { .. } | Self::Socket(_) if bytes.is_empty() => Some(()),
            Self::Wyoming { server, shape, .. } => {
                server.send(&Event::new("audio-chunk", shape.clone()).with(bytes.into())).await.ok()
            }
            Self::Socket(socket) => socket.send(Message::Binary(bytes.into())).await.ok(),
        }
    }

    /// Sends a message that no client of the protocol understands.
    async fn anomaly(&mut self) -> Option<()> {
        const NOISE: &[u8] = b"<garbage>\n\ndata: {<garbage>\n\n";
        match self {
            Self::Http { .. } => self.send(NOISE.to_vec()).await,
            Self::Wyoming { beside, .. } | Self::Transcript { beside, .. } => beside.write_all(NOISE).await.ok(),
            Self::Socket(socket) => socket.send(Message::text("<garbage>")).await.ok(),
        }
    }

    /// Waits until the client goes.
    async fn is_gone(&mut self) {
        match self {
            Self::Http { stream, .. } => while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {},
            Self::Wyoming { server, .. } | Self::Transcript { server, .. } => while server.next().await.is_ok() {},
            Self::Socket(socket) => while let Some(Ok(_)) = socket.next().await {},
        }
    }

    async fn end(&mut self) -> Option<()> {
        self.send_head().await?;
        match self {
            Self::Http { stream, .. } => stream.write_all(b"0\r\n\r\n").await.ok(),
            Self::Wyoming { server, .. } => server.send(&Event::new("audio-stop", json!({}))).await.ok(),
            Self::Transcript { server, text, .. } => {
                server.send(&Event::new("transcript", json!({ "text": String::from_utf8_lossy(text) }))).await.ok()
            }
            Self::Socket(socket) => {
                for kind in ["Flushed", "SpeechMetadata"] {
                    socket.send(Message::text(json!({ "type": kind }).to_string())).await.ok()?;
                }
                // The client says goodbye.
                while let Some(Ok(_)) = socket.next().await {}
                Some(())
            }
        }
    }

    /// Of an answer without a byte.
    async fn send_head(&mut self) -> Option<()> {
        if matches!(self, Self::Http { head: Some(_), .. }) { self.send(Vec::new()).await } else { Some(()) }
    }
}
