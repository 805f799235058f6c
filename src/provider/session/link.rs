//! The connection to a provider: a WebSocket, or a pair of channels to an embedded one. Both look
//! like one sink and one stream of messages.

use super::super::{Dial, WebSocketDial, Wire};
use futures_util::{
    Sink, SinkExt, Stream, StreamExt,
    future::poll_fn,
    stream::{self, BoxStream},
};
use secrecy::ExposeSecret;
use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_tungstenite::{
    WebSocketStream, connect_async_with_config,
    tungstenite::{
        self, Message,
        client::IntoClientRequest,
        error::ProtocolError,
        http::{HeaderName, HeaderValue, header::RETRY_AFTER},
        protocol::WebSocketConfig,
    },
};
use tokio_util::{sync::PollSender, task::AbortOnDropHandle};

/// Audio messages of hundreds of kilobytes occur and no vendor documents a limit; this one only
/// stops a provider that would fill the memory.
const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// The library's default of 128 KiB per connection is more than all the rest of a call.
const READ_BUFFER_BYTES: usize = 16 << 10;
/// Messages between the session and an embedded provider, each way: over a second of caller audio.
const EMBEDDED_QUEUE: usize = 64;

/// What came from the provider.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Wire(Wire),
    /// A ping or pong: the peer lives.
    Alive,
    Closed {
        code: Option<u16>,
        reason: String,
    },
    /// The connection broke without a close frame.
    Broken,
    /// What came is no WebSocket message, or a message beyond the limit.
    Unreadable,
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("the provider refused the WebSocket upgrade with HTTP status {status}")]
    Refused {
        status: u16,
        /// What it says about when to come again.
        retry_after: Option<Duration>,
    },
    #[error("cannot connect to the provider: {0}")]
    Failed(#[source] Box<tungstenite::Error>),
    #[error("the provider did not say where its session is")]
    NoAddress,
    #[error("a header for the provider holds characters that headers cannot carry")]
    Header,
}

/// The provider no longer takes messages; what it says last may still be read.
#[derive(Debug)]
pub(super) struct Unwritable;

pub(super) struct Link {
    sink: Pin<Box<dyn Sink<Message, Error = Unwritable> + Send>>,
    stream: BoxStream<'static, Incoming>,
    /// Something was handed to the sink that has not left yet.
    unflushed: bool,
    /// Whether a silent peer can be told from a dead one by pings.
    pub(super) pings: bool,
    /// An embedded provider ends with its link.
    _embedded: Option<AbortOnDropHandle<()>>,
}

impl Link {
    pub(super) async fn dial(dial: Dial) -> Result<Self, DialError> {
        match dial {
            Dial::WebSocket(dial) => Self::web_socket(dial).await,
            Dial::Asked(asking) => match asking.await {
                Ok(dial) => Self::web_socket(dial).await,
                Err(0) => Err(DialError::NoAddress),
                Err(status) => Err(DialError::Refused { status, retry_after: None }),
            },
            Dial::Embedded(start) => {
                let (to_agent, from_session) = mpsc::channel(EMBEDDED_QUEUE);
                let (to_session, from_agent) = mpsc::channel(EMBEDDED_QUEUE);
                let task = tokio::spawn(start(from_session, to_session));
                Ok(Self::embedded(to_agent, from_agent, task))
            }
        }
    }

    async fn web_socket(dial: WebSocketDial) -> Result<Self, DialError> {
        // The call's own reason says only that the agent was lost.
        web_socket(dial).await.inspect_err(|error| tracing::warn!("{error}"))
    }

    fn embedded(
        to_agent: mpsc::Sender<Wire>,
        from_agent: mpsc::Receiver<Wire>,
        task: tokio::task::JoinHandle<()>,
    ) -> Self {
        let sink = PollSender::new(to_agent)
            .sink_map_err(|_| Unwritable)
            .with_flat_map(|message| stream::iter(wire_of(message).map(Ok)));
        let messages = stream::unfold(from_agent, |mut from_agent| async {
            from_agent.recv().await.map(|wire| (Incoming::Wire(wire), from_agent))
        });
        Self {
            sink: Box::pin(sink),
            stream: messages.boxed(),
            unflushed: false,
            pings: false,
            _embedded: Some(AbortOnDropHandle::new(task)),
        }
    }

    /// Over a socket on which the WebSocket handshake is done.
    pub(super) fn over<S>(socket: WebSocketStream<S>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sink, stream) = socket.split();
        Self {
            sink: Box::pin(sink.sink_map_err(|_| Unwritable)),
            stream: stream.filter_map(|message| async { incoming(message) }).boxed(),
            unflushed: false,
            pings: true,
            _embedded: None,
        }
    }

    /// The two directions, to be waited for at the same time.
    pub(super) fn split(&mut self) -> (Writer<'_>, Reader<'_>) {
        (Writer { sink: self.sink.as_mut(), unflushed: &mut self.unflushed }, Reader(self.stream.as_mut()))
    }

    /// Says what is left to say, then goodbye, and waits for the provider's goodbye.
    pub(super) async fn close(mut self, mut outbox: VecDeque<Message>) {
        outbox.push_back(Message::Close(None));
        let answers = self.pings;
        let (mut writer, mut reader) = self.split();
        if writer.send(&mut outbox).await.is_ok() && answers {
            while !matches!(reader.next().await, Incoming::Closed { .. } | Incoming::Broken | Incoming::Unreadable) {}
        }
    }
}

pub(super) struct Writer<'link> {
    sink: Pin<&'link mut (dyn Sink<Message, Error = Unwritable> + Send)>,
    unflushed: &'link mut bool,
}

impl Writer<'_> {
    pub(super) fn has_work(&self, outbox: &VecDeque<Message>) -> bool {
        !outbox.is_empty() || *self.unflushed
    }

    /// Sends everything in `outbox`. May be dropped at any time: what has not left stays in the
    /// outbox or in the sink.
    pub(super) async fn send(&mut self, outbox: &mut VecDeque<Message>) -> Result<(), Unwritable> {
        poll_fn(|cx| {
            while !outbox.is_empty() {
                ready!(self.sink.as_mut().poll_ready(cx))?;
                if let Some(message) = outbox.pop_front() {
                    *self.unflushed = true;
                    self.sink.as_mut().start_send(message)?;
                }
            }
            ready!(self.sink.as_mut().poll_flush(cx))?;
            *self.unflushed = false;
            Poll::Ready(Ok(()))
        })
        .await
    }
}

pub(super) struct Reader<'link>(Pin<&'link mut (dyn Stream<Item = Incoming> + Send)>);

impl Reader<'_> {
    pub(super) async fn next(&mut self) -> Incoming {
        self.0.next().await.unwrap_or(Incoming::Broken)
    }
}

async fn web_socket(dial: WebSocketDial) -> Result<Link, DialError> {
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
        .read_buffer_size(READ_BUFFER_BYTES);
    let no_delay = true;
    match connect_async_with_config(request, Some(config), no_delay).await {
        Ok((socket, _)) => Ok(Link::over(socket)),
        Err(tungstenite::Error::Http(response)) => Err(DialError::Refused {
            status: response.status().as_u16(),
            retry_after: response.headers().get(RETRY_AFTER).and_then(|value| seconds(value.to_str().ok()?)),
        }),
        Err(error) => Err(DialError::Failed(Box::new(error))),
    }
}

fn wire_of(message: Message) -> Option<Wire> {
    match message {
        Message::Text(text) => Some(Wire::Text(text.as_str().to_owned())),
        Message::Binary(bytes) => Some(Wire::Binary(bytes)),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => None,
    }
}

fn incoming(message: Result<Message, tungstenite::Error>) -> Option<Incoming> {
    Some(match message {
        Ok(Message::Close(frame)) => {
            let (code, reason) = match frame {
                Some(frame) => (Some(u16::from(frame.code)), frame.reason.as_str().to_owned()),
                None => (None, String::new()),
            };
            Incoming::Closed { code, reason }
        }
        Ok(Message::Ping(_) | Message::Pong(_)) => Incoming::Alive,
        Ok(message) => Incoming::Wire(wire_of(message)?),
        Err(tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => Incoming::Broken,
        Err(tungstenite::Error::Protocol(_) | tungstenite::Error::Capacity(_) | tungstenite::Error::Utf8(_)) => {
            Incoming::Unreadable
        }
        Err(_) => Incoming::Broken,
    })
}

pub(super) fn message_of(wire: Wire) -> Message {
    match wire {
        Wire::Text(text) => Message::text(text),
        Wire::Binary(bytes) => Message::Binary(bytes),
    }
}

/// `Retry-After` in seconds. The other form, a date, is as good as its clock; vendors of this kind do
/// not write it.
fn seconds(written: &str) -> Option<Duration> {
    written.trim().parse().ok().map(Duration::from_secs)
}
