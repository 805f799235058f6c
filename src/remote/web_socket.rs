//! WebSockets towards services.

use super::{
    Fault,
    http::{self, seconds},
    tls,
};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use secrecy::{ExposeSecret, SecretString};
use std::{collections::VecDeque, time::Duration};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
    tungstenite::{
        self, Message,
        client::IntoClientRequest,
        http::{HeaderName, HeaderValue, header::RETRY_AFTER},
        protocol::WebSocketConfig,
    },
};

/// Audio messages of hundreds of kilobytes occur and no vendor documents a limit; this one only stops a service that
/// would fill the memory.
const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// The library's default of 128 KiB per connection is more than all the rest of a call, and it is cleared before
/// every read.
const READ_BUFFER_BYTES: usize = 8 << 10;
/// What waits for a service that does not read, answers to its pings above all: more than any message of ours, the longest of which
/// holds an agent's prompt and tools.
const WRITE_BUFFER_BYTES: usize = 4 << 20;
/// A service that takes nothing for so long hears nothing of what a caller says now.
const SEND_MAX: Duration = Duration::from_secs(5);
/// For the closing handshake.
const CLOSE_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct WebSocketDial {
    pub url: String,
    /// Secrets travel in headers only, never in the address.
    pub headers: Vec<(&'static str, SecretString)>,
}

/// One message on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wire {
    Text(String),
    Binary(Bytes),
}

impl From<Wire> for Message {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Text(text) => Self::text(text),
            Wire::Binary(bytes) => Self::Binary(bytes),
        }
    }
}

impl Wire {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }

    /// `None` for what only keeps the connection.
    pub fn of(message: Message) -> Option<Self> {
        match message {
            Message::Text(text) => Some(Self::Text(text.as_str().to_owned())),
            Message::Binary(bytes) => Some(Self::Binary(bytes)),
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => None,
        }
    }
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("the service refused the WebSocket upgrade with HTTP status {status}{}", code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Refused {
        status: u16,
        /// Its own word for the fault.
        code: Option<String>,
        /// What it says about when to come again.
        retry_after: Option<Duration>,
    },
    #[error("cannot connect to the service: {0}")]
    Failed(#[source] Box<tungstenite::Error>),
    #[error("a header for the service holds characters that headers cannot carry")]
    Header,
}

impl From<DialError> for Fault {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Refused { status, code, retry_after } => Self::Refused { status, code, retry_after },
            error => Self::Unreachable(error.to_string()),
        }
    }
}

/// Connects, with a limit on every message and without a delay on any.
pub async fn connect(dial: WebSocketDial) -> Result<WebSocketStream<MaybeTlsStream<TcpStream>>, DialError> {
    let mut request = dial.url.into_client_request().map_err(|error| DialError::Failed(Box::new(error)))?;
    for (name, secret) in &dial.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| DialError::Header)?;
        let mut value = HeaderValue::from_str(secret.expose_secret()).map_err(|_| DialError::Header)?;
        value.set_sensitive(true);
        request.headers_mut().insert(name, value);
    }
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
        .max_write_buffer_size(WRITE_BUFFER_BYTES)
        .read_buffer_size(READ_BUFFER_BYTES);
    let no_delay = true;
    match connect_async_tls_with_config(request, Some(config), no_delay, Some(tls::connector())).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => Err(DialError::Refused {
            status: response.status().as_u16(),
            // As much of the body as came with the headers.
            code: response.body().as_deref().and_then(http::told),
            retry_after: response.headers().get(RETRY_AFTER).and_then(|value| seconds(value.to_str().ok()?)),
        }),
        Err(error) => Err(DialError::Failed(Box::new(error))),
    }
}

/// A connection that is used by one task, which writes when it has something to say and reads otherwise.
pub struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    pub async fn dial(dial: WebSocketDial, limit: Duration) -> Result<Self, Fault> {
        Ok(Self(timeout(limit, connect(dial)).await.map_err(|_| Fault::Slow(limit))??))
    }

    /// Sends all of it; what cannot be sent in time ends the connection.
    pub async fn send(&mut self, wires: VecDeque<Wire>) -> Result<(), Fault> {
        self.put(wires.into_iter().map(Message::from)).await
    }

    /// Keeps the connection of one who has nothing to say, and asks for a sign of life.
    pub async fn ping(&mut self) -> Result<(), Fault> {
        self.put([Message::Ping(Bytes::new())].into_iter()).await
    }

    async fn put(&mut self, messages: impl Iterator<Item = Message>) -> Result<(), Fault> {
        let sending = async {
            for message in messages {
                self.0.feed(message).await?;
            }
            self.0.flush().await
        };
        timeout(SEND_MAX, sending).await.map_err(|_| Fault::Slow(SEND_MAX))?.map_err(|_| Fault::Closed(None))
    }

    /// The next message. May be dropped at any time without losing one.
    pub async fn next(&mut self) -> Result<Wire, Fault> {
        loop {
            if let Some(wire) = self.sign().await? {
                return Ok(wire);
            }
        }
    }

    /// The next sign of life: a message, or `None` for what only keeps the connection. May be dropped at any time without
    /// losing one.
    pub async fn sign(&mut self) -> Result<Option<Wire>, Fault> {
        match self.0.next().await {
            Some(Ok(Message::Close(frame))) => Err(Fault::Closed(frame.map(|frame| frame.code.into()))),
            Some(Ok(message)) => Ok(Wire::of(message)),
            Some(Err(tungstenite::Error::Capacity(_))) => Err(Fault::TooLarge(MESSAGE_BYTES_MAX)),
            Some(Err(_)) | None => Err(Fault::Closed(None)),
        }
    }

    /// Says goodbye, and waits a moment for the answer.
    pub async fn close(mut self) {
        let closing = async {
            if self.0.close(None).await.is_ok() {
                while let Some(Ok(_)) = self.0.next().await {}
            }
        };
        let _ = timeout(CLOSE_MAX, closing).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader},
        net::TcpSocket,
    };

    /// What waits in this process and in both sockets: on Linux 4 MiB at most in that which sends.
    const HELD_MAX: usize = WRITE_BUFFER_BYTES + (6 << 20);

    fn ping(payload: u8) -> [u8; 127] {
        let mut frame = [payload; 127];
        frame[..2].copy_from_slice(&[0x89, 125]);
        frame
    }

    #[tokio::test]
    async fn answers_to_a_service_that_floods_pings_and_does_not_read_do_not_pile_up() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(65_536).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(1).unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        let accepting = async {
            let (stream, _) = listener.accept().await.unwrap();
            tokio_tungstenite::accept_async(stream).await.unwrap().into_inner()
        };
        let dialling = Socket::dial(WebSocketDial { url, headers: Vec::new() }, Duration::from_secs(10));
        let (mut service, socket) = tokio::join!(accepting, dialling);
        let mut socket = socket.unwrap_or_else(|_| panic!("it is accepted"));
        let pings = 3 * HELD_MAX / 2 / ping(0).len();
        let flood = async {
            let many = ping(b'p').repeat(1_000);
            for _ in 0..pings / 1_000 {
                service.write_all(&many).await.unwrap();
            }
            service
        };
        let hears = async {
            for _ in 0..pings / 1_000 * 1_000 {
                assert!(matches!(socket.sign().await, Ok(None)));
            }
            socket
        };
        let (mut service, mut socket) = tokio::join!(flood, hears);
        let hears_on = tokio::spawn(async move { while socket.sign().await.is_ok() {} });
        service.write_all(&ping(b'l')).await.unwrap();
        // Of each answer: a head of two bytes, four of the mask.
        let (mut answers, mut held, mut answer) = (BufReader::new(service), 0, [0; 6 + 125]);
        loop {
            answers.read_exact(&mut answer).await.unwrap();
            held += answer.len();
            if answer[6] ^ answer[2] == b'l' {
                break;
            }
        }
        assert!(held < HELD_MAX, "{held} bytes were kept for it");
        hears_on.abort();
    }
}
