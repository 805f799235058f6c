//! chan_websocket: a call's audio as binary messages, what is said about it as text.
//!
//! We connect to Asterisk, at the HTTP server that ARI has as well, so nothing is listened on and nothing is configured.
//! The connection is named by an id that Asterisk makes; `MEDIA_START` tells which channel it is.
//!
//! This transport alone has a buffer in Asterisk, played by Asterisk's own clock. The leg keeps it empty instead of filling
//! it: one frame leaves per 20 ms, as everywhere, so that what was sent is what is heard but for a frame or two.
//!
//! - Once a second the leg asks how many frames wait. Whatever made them wait (a stall, a burst after one, clocks that
//!   differ), silent frames are left out until Asterisk has caught up. Nothing that is said is left out.
//! - Who interrupts hears the rest of the buffer no more: [`Sender::flush`]. How much that is, the answer to the question
//!   tells the call ([`MediaEvent::Waits`]), which counts it as not heard.
//! - XOFF means 18 s behind, which no conversation survives: the buffer is emptied, and frames are refused until XON.
//!
//! A peer that says nothing does Asterisk no harm: the pulse is not needed here.
//!
//! Packets of Opus it passes on by the same clock and neither cuts nor throws away: such a buffer cannot be emptied. What
//! waits there is a frame or two, as above. Where it is more and the caller interrupts, the call is told that it needs another
//! leg, and an XOFF closes this one.

mod control;
#[cfg(any(test, fuzzing))]
mod fuzz;

#[cfg(any(test, fuzzing))]
pub use fuzz::{fuzz, fuzz_opus};

use super::{
    ari::not_opened,
    audiosocket::{SEND_BUFFER, STALLED_FRAMES},
    counters::{Discard, MediaCounters, OpusEnd, Refusal},
    hub::Tally,
    media::{Coding, MediaEvent, MediaEvents, MediaLeg, MediaSender},
};
use crate::{
    audio::{
        FRAME, Format,
        opus::{Heard, Reader, Writer},
    },
    config::Transport,
    remote::tls,
};
use bytes::Bytes;
use control::{Event, FLUSH, GET_STATUS, Malformed};
use futures_util::{FutureExt, SinkExt, StreamExt};
use reqwest::Url;
use socket2::SockRef;
use std::{
    future::poll_fn,
    net::Shutdown,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{net::TcpStream, task::unconstrained, time::timeout};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
    tungstenite::{
        Error, Message,
        error::ProtocolError,
        protocol::{CloseFrame, WebSocketConfig, frame::coding::CloseCode},
    },
};

/// A packet of 60 ms at 48 kHz has 6 kB, a `MEDIA_START` with many variables as much.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Two frames at 48 kHz. The library clears all of it before each read.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// Room for one frame that the system does not take, and for what is said beside it.
const WRITE_BUFFER_BYTES: usize = 16 << 10;
/// Frames between two questions after Asterisk's queue: a second. Clocks that differ by 100 ppm differ by a frame in 200 s.
const STATUS_EVERY: u32 = 50;
/// So many frames wait where nothing is wrong: one that waits for Asterisk's tick, and one each for both sides' jitter.
const USUAL_QUEUE: u32 = 3;
/// What is left of a longer queue when Asterisk has caught up.
const KEPT_QUEUE: u32 = 1;
/// So many packets of Opus may be heard after an interruption, a second of them. Another leg is there in a tenth of that, and what
/// the caller says meanwhile is lost.
const HEARD_ON_MAX: u32 = 50;
/// Frames that wait when Asterisk asks for a pause.
const XOFF_QUEUE: u32 = 900;
/// So many frames are refused while Asterisk wants a pause, a second of them: what it had is thrown away at once, and who is
/// full nevertheless does not play.
const PAUSED_FRAMES: u32 = 50;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A call's audio path before Asterisk has told where it is.
pub struct Unconnected {
    pub(super) format: Format,
    pub(super) counters: Arc<MediaCounters>,
    pub(super) open: Tally,
}

impl Unconnected {
    /// Connects, and waits for Asterisk to say that this is the audio of `channel`. `None`: it did not, in time.
    pub async fn connect(self, url: &Url, channel: &str, coding: Coding, within: Duration) -> Option<MediaLeg> {
        match coding {
            Coding::Plain => {}
            Coding::Opus => self.counters.opus(OpusEnd::Spoken).inc(),
            Coding::NoOpus => self.counters.opus(OpusEnd::NotSpoken).inc(),
        }
        let opus = coding == Coding::Opus;
        let opened = timeout(within, open(url, channel, self.format, opus)).await.unwrap_or(Err(Refusal::Silent));
        match opened.and_then(|socket| Ok((socket, opus.then(codec).transpose()?))) {
            Ok((socket, codec)) => Some(self.leg(socket, codec)),
            Err(refusal) => {
                self.counters.refused(refusal).inc();
                tracing::warn!(cause = refusal.label(), "a media WebSocket did not become a call's leg");
                None
            }
        }
    }

    fn leg(self, socket: Socket, opus: Option<(Writer, Reader)>) -> MediaLeg {
        let Self { format, counters, open } = self;
        let silence = vec![format.silence(); format.frame_bytes()].into();
        let (writer, opus) = opus.unzip();
        let out = Mutex::new(Outgoing::new(socket, writer));
        let wire = Arc::new(Wire { out, silence, counters, _open: open });
        let sender = MediaSender::WebSocket(Sender { wire: Arc::clone(&wire) });
        MediaLeg { format, sender, events: MediaEvents::WebSocket(Receiver { wire, format, opus, over: false }) }
    }
}

/// Both directions of Opus.
fn codec() -> Result<(Writer, Reader), Refusal> {
    Writer::new().and_then(|writer| Ok((writer, Reader::new()?))).map_err(|error| {
        tracing::error!(%error, "libopus gives no codec");
        Refusal::NoCodec
    })
}

async fn open(url: &Url, channel: &str, format: Format, opus: bool) -> Result<Socket, Refusal> {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER_BYTES)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let no_delay = true;
    let connected = connect_async_tls_with_config(url.as_str(), Some(config), no_delay, Some(tls::connector())).await;
    let (mut socket, _) = connected.map_err(|error| {
        tracing::warn!(error = not_opened(&error), "Asterisk's media WebSocket cannot be opened");
        Refusal::Closed
    })?;
    if let Err(error) = tcp(&socket).map_or(Ok(()), |tcp| tcp.set_send_buffer_size(SEND_BUFFER)) {
        tracing::debug!(%error, "could not set an option of a media WebSocket");
    }
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return is_of(&text, channel, format, opus).map(|()| socket),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Binary(_))) => return Err(Refusal::NotAnId),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Refusal::Closed),
        }
    }
}

/// Whether the first words on a connection say that it carries this channel in this format.
fn is_of(text: &str, channel: &str, expected: Format, opus: bool) -> Result<(), Refusal> {
    match Event::read(text).map_err(|Malformed| Refusal::Malformed)? {
        Event::Start { channel_id, format, optimal_frame_size: size } => {
            // A frame of ours must be cut into whole ones of Asterisk's: the rest would be thrown away.
            // Packets have no size, and are not cut.
            let whole = opus || (size > 0 && expected.frame_bytes().is_multiple_of(size));
            let name = if opus { "opus" } else { expected.name() };
            if channel_id == channel && format == name && whole { Ok(()) } else { Err(Refusal::NotAnId) }
        }
        _ => Err(Refusal::NotAnId),
    }
}

/// One leg's socket, shared by the call's [`Sender`] and its [`Receiver`].
struct Wire {
    out: Mutex<Outgoing>,
    /// One frame of it, to know silence by.
    silence: Bytes,
    counters: Arc<MediaCounters>,
    _open: Tally,
}

struct Outgoing {
    socket: Socket,
    /// Makes packets of frames.
    opus: Option<Writer>,
    /// The system has not taken all of what was written.
    unfinished: bool,
    closed: bool,
    /// Between XOFF and XON.
    paused: bool,
    refused_in_a_row: u32,
    /// Silent frames to be left out.
    surplus: u32,
    /// More waits in Asterisk than may be heard on, as it was asked last.
    behind: bool,
    until_status: u32,
}

impl Wire {
    /// Sends one whole frame, or nothing of it.
    fn play(&self, frame: Bytes) -> Result<(), Discard> {
        let mut out = self.lock();
        if out.closed {
            return Err(Discard::NotSent);
        }
        if frame.len() != self.silence.len() {
            return Err(Discard::FrameSize);
        }
        if out.surplus > 0 && frame == self.silence {
            out.surplus -= 1;
            if out.surplus == 0 {
                // What Asterisk has told of its queue is not so any more.
                out.until_status = 1;
            }
            return Err(Discard::Behind);
        }
        let refusal = if out.paused {
            Some(Discard::PeerFull)
        } else if !out.flush()? {
            Some(Discard::SocketFull)
        } else {
            None
        };
        if let Some(cause) = refusal {
            out.refused_in_a_row += 1;
            if out.refused_in_a_row >= if cause == Discard::PeerFull { PAUSED_FRAMES } else { STALLED_FRAMES } {
                tracing::warn!(cause = cause.label(), "Asterisk takes no audio of a media WebSocket; closing it");
                out.close();
            }
            return Err(cause);
        }
        out.refused_in_a_row = 0;
        let message = match &mut out.opus {
            Some(opus) => opus.packet(&frame).ok_or(Discard::FrameSize)?,
            None => frame,
        };
        out.write(Message::Binary(message))?;
        out.until_status -= 1;
        if out.until_status == 0 {
            out.until_status = STATUS_EVERY;
            // The frame is on its way all the same; the question is asked again, or the socket has broken.
            let _ = out.write(Message::text(GET_STATUS));
        }
        out.flush().map(drop)
    }

    /// `false`: much waits, and cannot be thrown away.
    fn flush_asterisk(&self) -> bool {
        let mut out = self.lock();
        // Of packets Asterisk throws none away: "not supported in passthrough mode".
        if out.opus.is_some() {
            return out.closed || !out.behind;
        }
        if !out.closed {
            // What was found too long is empty now. A socket that broke tells its reader.
            out.surplus = 0;
            let _ = out.write(Message::text(FLUSH)).and_then(|()| out.flush());
        }
        true
    }

    /// The next message, and on the way what is still to be written.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        let mut out = self.lock();
        if out.unfinished && out.socket.poll_flush_unpin(cx).is_ready() {
            out.unfinished = false;
        }
        out.socket.poll_next_unpin(cx)
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outgoing {
    fn new(socket: Socket, opus: Option<Writer>) -> Self {
        let (unfinished, closed, paused, behind) = (false, false, false, false);
        let (refused_in_a_row, surplus, until_status) = (0, 0, STATUS_EVERY);
        Self { socket, opus, unfinished, closed, paused, refused_in_a_row, surplus, behind, until_status }
    }

    fn write(&mut self, message: Message) -> Result<(), Discard> {
        self.unfinished = true;
        self.socket.start_send_unpin(message).map_err(|error| match error {
            Error::WriteBufferFull(_) => Discard::SocketFull,
            _ => self.broken(),
        })
    }

    /// Gives the system what it takes now; `false`: something is left, which the reader or the next frame goes on with.
    fn flush(&mut self) -> Result<bool, Discard> {
        if self.unfinished {
            // The runtime's own fairness must not look like a full socket.
            match unconstrained(self.socket.flush()).now_or_never() {
                Some(Ok(())) => self.unfinished = false,
                Some(Err(_)) => return Err(self.broken()),
                None => {}
            }
        }
        Ok(!self.unfinished)
    }

    fn broken(&mut self) -> Discard {
        self.close();
        Discard::NotSent
    }

    /// Says goodbye and closes both directions at once, whoever still holds the socket.
    fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            let farewell = CloseFrame { code: CloseCode::Normal, reason: "".into() };
            // Whoever does not hear it sees the end of the stream.
            let _ = self.socket.start_send_unpin(Message::Close(Some(farewell)));
            let _ = unconstrained(self.socket.flush()).now_or_never();
            let _ = tcp(&self.socket).map(|tcp| tcp.shutdown(Shutdown::Both));
        }
    }
}

fn tcp(socket: &Socket) -> Option<SockRef<'_>> {
    match socket.get_ref() {
        MaybeTlsStream::Plain(tcp) => Some(SockRef::from(tcp)),
        MaybeTlsStream::Rustls(tls) => Some(SockRef::from(tls.get_ref().0)),
        _ => None,
    }
}

/// The call's end of a WebSocket leg. Dropping it closes the connection at once, in both directions.
pub struct Sender {
    wire: Arc<Wire>,
}

impl Sender {
    /// See [`MediaSender::play`].
    pub fn play(&mut self, frame: Bytes) -> bool {
        let played = self.wire.play(frame);
        match played {
            Ok(()) => self.wire.counters.sent(Transport::WebSocket).inc(),
            Err(cause) => self.wire.counters.discarded(cause).inc(),
        }
        // Who catches up by leaving silence out has lost nothing.
        matches!(played, Ok(()) | Err(Discard::Behind))
    }

    /// See [`MediaSender::flush`].
    pub fn flush(&mut self) -> bool {
        self.wire.flush_asterisk()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.wire.lock().close();
    }
}

/// The call's ear on a WebSocket leg, read by the call's own task.
pub struct Receiver {
    wire: Arc<Wire>,
    format: Format,
    /// Makes samples of packets.
    opus: Option<Reader>,
    /// The last event has been told.
    over: bool,
}

impl Receiver {
    /// See [`MediaEvents::next`].
    pub(super) async fn next(&mut self) -> Option<MediaEvent> {
        if self.over {
            return None;
        }
        loop {
            let message = poll_fn(|cx| self.wire.poll(cx)).await;
            let Some(event) = self.event(message) else { continue };
            if matches!(event, MediaEvent::Closed | MediaEvent::Broken) {
                self.over = true;
                self.wire.lock().close();
            }
            return Some(event);
        }
    }

    fn event(&mut self, message: Option<Result<Message, Error>>) -> Option<MediaEvent> {
        let counters = &self.wire.counters;
        match message {
            Some(Ok(Message::Binary(audio))) => self.heard(audio).map(MediaEvent::Audio),
            Some(Ok(Message::Text(text))) => self.said(&text),
            // The library answers pings.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => None,
            Some(Ok(Message::Close(_)) | Err(Error::Io(_) | Error::Tls(_))) | None => Some(MediaEvent::Closed),
            Some(Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => Some(MediaEvent::Closed),
            Some(Err(error)) => {
                counters.discarded(Discard::Malformed).inc();
                tracing::warn!(%error, "closing a media WebSocket");
                Some(MediaEvent::Broken)
            }
        }
    }

    fn heard(&mut self, audio: Bytes) -> Option<Bytes> {
        let whole = self.is_whole(&audio);
        let counters = &self.wire.counters;
        let heard = match &mut self.opus {
            Some(opus) => opus.audio(&audio),
            None if whole => Heard::Audio(audio),
            None => {
                counters.discarded(Discard::Malformed).inc();
                return None;
            }
        };
        counters.received(Transport::WebSocket).inc();
        match heard {
            Heard::Audio(audio) => Some(audio),
            Heard::Concealed(audio) => {
                counters.discarded(Discard::Malformed).inc();
                counters.opus_concealed().inc();
                Some(audio)
            }
        }
    }

    /// Samples, and no part of one.
    fn is_whole(&self, audio: &[u8]) -> bool {
        !audio.is_empty() && audio.len().is_multiple_of(self.format.bytes_per_sample())
    }

    fn said(&self, text: &str) -> Option<MediaEvent> {
        let counters = &self.wire.counters;
        match Event::read(text) {
            Ok(Event::Digit { digit }) => return Some(MediaEvent::Digit(digit)),
            Ok(Event::Status { queue_length }) => {
                counters.waits(queue_length);
                let mut out = self.wire.lock();
                out.surplus = if queue_length > USUAL_QUEUE { queue_length - KEPT_QUEUE } else { 0 };
                out.behind = queue_length > HEARD_ON_MAX;
                // Of a few packets none is thrown away: they are heard.
                let lost_at_a_flush = if self.opus.is_none() || out.behind { queue_length } else { 0 };
                return Some(MediaEvent::Waits(length_of(lost_at_a_flush)));
            }
            Ok(Event::Xoff) => {
                counters.discarded(Discard::ThrownAway).inc_by(XOFF_QUEUE.into());
                if self.opus.is_some() {
                    tracing::warn!("Asterisk does not play the audio of a media WebSocket; closing it");
                    self.wire.lock().close();
                } else {
                    tracing::warn!("Asterisk does not play the audio of a media WebSocket; what waits is thrown away");
                    let mut out = self.wire.lock();
                    (out.paused, out.refused_in_a_row) = (true, 0);
                    drop(out);
                    self.wire.flush_asterisk();
                }
                return Some(MediaEvent::ThrownAway(length_of(XOFF_QUEUE)));
            }
            Ok(Event::Xon) => self.wire.lock().paused = false,
            Ok(Event::Error { error_text }) => {
                counters.discarded(Discard::ErrorFrame).inc();
                tracing::debug!(error_text, "Asterisk did not carry out what a media WebSocket was told");
            }
            Ok(Event::Start { .. } | Event::Unknown) => counters.discarded(Discard::UnknownKind).inc(),
            Err(Malformed) => counters.discarded(Discard::Malformed).inc(),
        }
        None
    }
}

/// Of so many frames of Asterisk's queue. It never has more than a thousand.
fn length_of(frames: u32) -> Duration {
    FRAME * frames.min(1_000)
}

#[cfg(test)]
mod tests;
