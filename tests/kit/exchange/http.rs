//! The HTTP server of the exchange: requests of ARI, the events socket, and the connections of WebSocket media.

use super::{
    ari::{self, Request},
    state::Switch,
    websocket,
};
use crate::kit::asterisk::ARI_USER;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::BytesMut;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::{JoinError, JoinSet},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};

/// Asterisk closes a connection that was idle for so long.
const IDLE: Duration = Duration::from_secs(15);
const HEAD_MAX: usize = 64 * 1024;

/// Accepts connections until it is aborted, and they with it.
pub async fn serve(listener: TcpListener, switch: Switch, password: String) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        while let Some(ended) = connections.try_join_next() {
            if let Some(panic) = ended.err().filter(JoinError::is_panic) {
                switch.with(|state| state.lacks.push(panic.to_string()));
            }
        }
        connections.spawn(connection(stream, switch.clone(), password.clone()));
    }
}

/// The beginning of a request.
struct Head {
    method: String,
    path: Vec<String>,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
}

impl Head {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut words = lines.next()?.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let path = path.trim_start_matches('/').split('/').map(decoded).collect();
        let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        Some(Self { method, path, query, headers })
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn is_upgrade(&self) -> bool {
        self.header("upgrade").eq_ignore_ascii_case("websocket")
    }

    fn is_allowed(&self, password: &str) -> bool {
        let login = format!("{ARI_USER}:{password}");
        let basic = format!("Basic {}", BASE64_STANDARD.encode(&login));
        self.header("authorization") == basic || self.query.get("api_key") == Some(&login)
    }
}

/// Requests one after the other, until one is for a WebSocket.
async fn connection(mut stream: TcpStream, switch: Switch, password: String) {
    let mut inbox = BytesMut::new();
    loop {
        let head = loop {
            if let Some(end) = inbox.windows(4).position(|four| four == b"\r\n\r\n") {
                break inbox.split_to(end + 4);
            }
            match timeout(IDLE, stream.read_buf(&mut inbox)).await {
                Ok(Ok(1..)) if inbox.len() < HEAD_MAX => {}
                _ => return,
            }
        };
        let Some(head) = Head::read(&String::from_utf8_lossy(&head)) else { return };
        let length: usize = head.header("content-length").parse().unwrap_or(0);
        while inbox.len() < length {
            match stream.read_buf(&mut inbox).await {
                Ok(1..) => {}
                _ => return,
            }
        }
        let body = inbox.split_to(length);
        let reply = match head.path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["media", connection] if head.is_upgrade() => match waiting(&switch, connection) {
                Ok((id, sent)) => {
                    let connection = connection.to_owned();
                    let Some(socket) = upgraded(stream, &head, &inbox).await else { return };
                    return websocket::carry(switch, id, &connection, socket, sent).await;
                }
                Err(status) => ari::Reply::refusal(status, "no such connection"),
            },
            ["ari", ..] if !head.is_allowed(&password) => ari::Reply::refusal(401, "Authentication required"),
            ["ari", "events"] if head.is_upgrade() => {
                let Some(socket) = upgraded(stream, &head, &inbox).await else { return };
                return events(socket, switch, head.query.get("app").cloned().unwrap_or_default()).await;
            }
            ["ari", ..] => {
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let path = head.path[1..].to_vec();
                ari::handle(&switch, Request { method: head.method, path, query: head.query, body }).await
            }
            _ => ari::Reply::refusal(404, "Nothing here"),
        };
        if stream.write_all(&answer(&switch, &reply)).await.is_err() {
            return;
        }
    }
}

fn answer(switch: &Switch, reply: &ari::Reply) -> Vec<u8> {
    let phrase = match reply.status {
        200 => "OK",
        204 => "No Content",
        401 => "Unauthorized",
        404 => "Not Found",
        409 => "Conflict",
        422 => "Unprocessable Entity",
        500 => "Internal Server Error",
        _ => "Other",
    };
    let body = reply.body.as_ref().map(Value::to_string).unwrap_or_default();
    let now = switch.with(|state| state.now());
    let now = jiff::Timestamp::from_duration(now.try_into().expect("this century")).expect("this century");
    let text = format!(
        "HTTP/1.1 {} {phrase}\r\nServer: Asterisk/22.10.1\r\nDate: {}\r\nCache-Control: no-cache, no-store\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        reply.status,
        now.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        body.len(),
    );
    text.into_bytes()
}

/// The channel that waits for a connection of this id.
fn waiting(switch: &Switch, connection: &str) -> Result<(String, mpsc::UnboundedReceiver<super::channel::Sent>), u16> {
    switch.with(|state| match state.waiting.remove(connection) {
        Some(waiting) => {
            state.connected.insert(connection.to_owned());
            Ok(waiting)
        }
        None if state.connected.contains(connection) => Err(409),
        None => Err(404),
    })
}

async fn upgraded(mut stream: TcpStream, head: &Head, read: &[u8]) -> Option<WebSocketStream<TcpStream>> {
    let key = derive_accept_key(head.header("sec-websocket-key").as_bytes());
    let protocol = match head.header("sec-websocket-protocol").split(',').next().map(str::trim) {
        Some(protocol) if !protocol.is_empty() => format!("Sec-WebSocket-Protocol: {protocol}\r\n"),
        _ => String::new(),
    };
    let text = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: \
         {key}\r\n{protocol}\r\n"
    );
    stream.write_all(text.as_bytes()).await.ok()?;
    Some(WebSocketStream::from_partially_read(stream, read.to_vec(), Role::Server, None).await)
}

/// An application's connection: the last one has it.
async fn events(mut socket: WebSocketStream<TcpStream>, switch: Switch, app: String) {
    let (sender, mut told) = mpsc::unbounded_channel();
    let serial = switch.with(|state| {
        let serial = state.serial();
        state.tell(&app, json!({ "type": "ApplicationReplaced" }));
        let known = state.apps.entry(app.clone()).or_default();
        if let Some((_, earlier)) = known.socket.replace((serial, sender)) {
            known.replaced.push(earlier);
        }
        serial
    });
    loop {
        tokio::select! {
            biased;
            message = socket.next() => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
            event = told.recv() => match event {
                Some(event) => if socket.send(event).await.is_err() { break },
                None => break,
            },
        }
    }
    let _ = socket.flush().await;
    switch.with(|state| {
        if let Some(known) = state.apps.get_mut(&app) {
            known.socket.take_if(|(has, _)| *has == serial);
        }
    });
}
