//! The connection to a provider: one sink and one stream of messages.

#[cfg(test)]
mod played;

use super::super::{Dial, WebSocketDial, Wire};
use crate::{remote::web_socket, woken::Woken};
use futures_util::{
    Sink, SinkExt, StreamExt,
    future::{self, poll_fn},
    stream::BoxStream,
};
use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, Message, error::ProtocolError},
};

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
    #[error(transparent)]
    Socket(#[from] web_socket::DialError),
    #[error("the provider refused to say where its session is, with HTTP status {0}")]
    NoAddress(u16),
}

/// The provider no longer takes messages; what it says last may still be read.
#[derive(Debug)]
pub(super) struct Unwritable;

pub(super) struct Link {
    sink: Pin<Box<dyn Sink<Message, Error = Unwritable> + Send>>,
    reader: Reader,
    /// Something was handed to the sink that has not left yet.
    unflushed: bool,
    /// Whether a silent peer can be told from a dead one by pings.
    pub(super) pings: bool,
    #[cfg(test)]
    _played: Option<tokio_util::task::AbortOnDropHandle<()>>,
}

impl Link {
    pub(super) async fn dial(dial: Dial) -> Result<Self, DialError> {
        match dial {
            Dial::WebSocket(dial) => Self::web_socket(dial).await,
            Dial::Asked(asking) => Self::web_socket(asking.await.map_err(DialError::NoAddress)?).await,
            #[cfg(test)]
            Dial::Played(start) => Ok(Self::played(start)),
        }
    }

    async fn web_socket(dial: WebSocketDial) -> Result<Self, DialError> {
        // The call's own reason says only that the agent was lost.
        let socket = web_socket::connect(dial).await.inspect_err(|error| tracing::warn!("{error}"))?;
        Ok(Self::over(socket))
    }

    /// Over a socket on which the WebSocket handshake is done.
    pub(super) fn over<S>(socket: WebSocketStream<S>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sink, stream) = socket.split();
        Self {
            sink: Box::pin(sink.sink_map_err(|_| Unwritable)),
            reader: Reader::of(stream.filter_map(|message| future::ready(incoming(message))).boxed()),
            unflushed: false,
            pings: true,
            #[cfg(test)]
            _played: None,
        }
    }

    /// The two directions, to be waited for at the same time.
    pub(super) fn split(&mut self) -> (Writer<'_>, &mut Reader) {
        (Writer { sink: self.sink.as_mut(), unflushed: &mut self.unflushed }, &mut self.reader)
    }

    /// Says what is left to say, then goodbye, and waits for the provider's goodbye.
    pub(super) async fn close(mut self, mut outbox: VecDeque<Message>) {
        outbox.push_back(Message::Close(None));
        let answers = self.pings;
        let (mut writer, reader) = self.split();
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

pub(super) struct Reader {
    stream: BoxStream<'static, Incoming>,
    /// Each look at a WebSocket clears a buffer of kilobytes.
    woken: Woken,
}

impl Reader {
    fn of(stream: BoxStream<'static, Incoming>) -> Self {
        Self { stream, woken: Woken::default() }
    }

    /// May be dropped at any time without losing one.
    pub(super) async fn next(&mut self) -> Incoming {
        let Self { stream, woken } = self;
        let next = poll_fn(|cx| woken.poll(cx, |cx| stream.poll_next_unpin(cx))).await;
        next.unwrap_or(Incoming::Broken)
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
        Ok(message) => Incoming::Wire(Wire::of(message)?),
        Err(tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => Incoming::Broken,
        Err(tungstenite::Error::Protocol(_) | tungstenite::Error::Capacity(_) | tungstenite::Error::Utf8(_)) => {
            Incoming::Unreadable
        }
        Err(_) => Incoming::Broken,
    })
}
