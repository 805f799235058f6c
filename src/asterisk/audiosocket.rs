//! AudioSocket: a call's audio in frames over TCP. The [codec](Codec) is pure; here is the leg's
//! socket. Asterisk connects to us and says its UUID first. Its hang-up is the end of the stream.
//!
//! Three habits of Asterisk shape the leg:
//!
//! - A frame whose payload comes more than about 5 ms after its header ends the call: every frame
//!   is one write, and Nagle's algorithm is off.
//! - A channel that hears nothing can go deaf, and then holds up all of Asterisk: silence flows
//!   whenever the call does not play. It starts with the UUID frame, which tells the format;
//!   Asterisk reads nothing before it has sent that.
//! - It plays what it reads at once: nothing is queued here. The socket's own small buffer is the
//!   queue, and a frame that does not fit is refused rather than played late.

mod codec;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod rate;

#[cfg(test)]
pub(super) use codec::RATES;
pub use codec::{Codec, CodecError, Frame, MAX_PAYLOAD};
#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz;
pub(super) use rate::format_of_dialplan;

use super::{
    counters::{Discard, Filler, MediaCounters},
    hub::Tally,
    media::{MediaEvent, MediaEvents, MediaLeg, MediaSender},
    pulse::{Beat, Pulse, Quiet},
};
use crate::{
    audio::{Converter, Encoding, Format},
    config::Transport,
};
use bytes::{Buf, Bytes, BytesMut};
use codec::{HANG_UP, kind_of, put};
use futures_util::task::AtomicWaker;
use socket2::SockRef;
use std::{
    future::poll_fn,
    io::{self, Read as _},
    net::Shutdown,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{io::Interest, net::TcpStream, time::timeout};
use tokio_util::codec::Decoder;

/// Bytes asked of the socket at a time: three frames at 16 kHz, for a reader that is seldom late.
const READ: usize = 2_048;

/// What the system may hold of ours that Asterisk has not taken: some ten frames at 16 kHz (the
/// kernel doubles the number, and counts its own book-keeping). More would be a backlog that counts
/// as played while nobody hears it.
pub(super) const SEND_BUFFER: usize = 16_384;

/// Refused frames in a row, 20 ms each, after which the other side is given up: 5 s without
/// Asterisk reading anything is a hung process or a dead network, and TCP itself would take
/// minutes to say so.
pub(super) const STALLED_FRAMES: u32 = 250;

/// How long a polite hang-up waits for Asterisk to close. It answers within milliseconds.
const HANG_UP_WAIT: Duration = Duration::from_secs(1);

/// One leg's socket, shared by the three that use it: the call's [`Sender`], its [`Receiver`] and the pulse.
struct Wire {
    stream: TcpStream,
    out: Mutex<Outgoing>,
    /// The rest of a frame may wait to be written. Set while `out` is held.
    unfinished: AtomicBool,
    /// Who goes on with it.
    finisher: AtomicWaker,
    resetting: AtomicBool,
    quiet: Quiet,
    silence: Bytes,
    counters: Arc<MediaCounters>,
    _open: Tally,
}

#[derive(Default)]
struct Outgoing {
    /// What the socket did not take of the last frame; it must go before anything else.
    rest: BytesMut,
    refused_in_a_row: u32,
    finished: bool,
}

/// Makes a leg of a connection that has said its UUID, and plays the first silence. `inbox` is what was read beyond
/// the UUID frame. `None`: AudioSocket has no such format.
pub(super) fn open(
    stream: TcpStream,
    inbox: BytesMut,
    format: Format,
    pulse: &Pulse,
    counters: Arc<MediaCounters>,
    open: Tally,
) -> Option<MediaLeg> {
    let kind = (format.encoding == Encoding::Linear).then(|| kind_of(format.rate)).flatten()?;
    let mut silence = BytesMut::new();
    put(kind, &vec![format.silence(); format.frame_bytes()], &mut silence).ok()?;
    if let Err(error) = tune(&stream) {
        // The peer is gone already; the reader will see that too.
        tracing::debug!(%error, "could not set options of an AudioSocket connection");
    }
    let wire = Arc::new(Wire {
        stream,
        out: Mutex::default(),
        unfinished: AtomicBool::new(false),
        finisher: AtomicWaker::new(),
        resetting: AtomicBool::new(false),
        quiet: Quiet::new(),
        silence: silence.freeze(),
        counters,
        _open: open,
    });
    wire.beat();
    let for_pulse: Weak<Wire> = Arc::downgrade(&wire);
    pulse.add(for_pulse);
    let sender = MediaSender::AudioSocket(Sender { wire: wire.clone(), kind, packet: BytesMut::new() });
    let receiver = Receiver { wire, inbox, buffer: Box::new([0; READ]), intake: Intake::new(format), over: false };
    Some(MediaLeg { format, sender, events: MediaEvents::AudioSocket(receiver) })
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_send_buffer_size(SEND_BUFFER)
}

/// The call's end of an AudioSocket leg. Dropping it closes the connection at once, in both
/// directions.
pub struct Sender {
    wire: Arc<Wire>,
    kind: u8,
    packet: BytesMut,
}

impl Sender {
    /// See [`MediaSender::play`].
    pub fn play(&mut self, frame: Bytes) -> bool {
        self.wire.quiet.end();
        self.packet.clear();
        // Asterisk ends the call on an audio frame of no bytes.
        if frame.is_empty() || put(self.kind, &frame, &mut self.packet).is_err() {
            self.wire.counters.discarded(Discard::FrameSize).inc();
            return false;
        }
        match self.wire.write(&self.packet) {
            Ok(()) => {
                self.wire.counters.sent(Transport::AudioSocket).inc();
                true
            }
            Err(cause) => {
                self.wire.counters.discarded(cause).inc();
                false
            }
        }
    }

    /// See [`MediaLeg::reset`].
    pub(super) fn reset(self) {
        self.wire.reset();
    }

    /// See [`MediaLeg::hang_up`].
    pub(super) async fn hang_up(self, mut events: MediaEvents) {
        let farewell = async {
            if self.wire.finish().await {
                while events.next().await.is_some() {}
            }
        };
        if timeout(HANG_UP_WAIT, farewell).await.is_err() {
            tracing::debug!("Asterisk did not close the AudioSocket connection after a hang-up; closing it");
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.wire.close();
    }
}

impl Wire {
    /// Writes one whole frame, or nothing of it.
    fn write(&self, packet: &[u8]) -> Result<(), Discard> {
        let mut out = self.lock();
        if out.finished {
            return Err(Discard::NotSent);
        }
        let written = match out.push_rest(&self.stream) {
            Ok(true) => self.stream.try_write(packet),
            Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => {
                out.refused_in_a_row = 0;
                if written < packet.len() {
                    out.rest.extend_from_slice(&packet[written..]);
                    self.unfinished.store(true, Release);
                    self.finisher.wake();
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                out.refused_in_a_row += 1;
                if out.refused_in_a_row >= STALLED_FRAMES {
                    drop(out);
                    tracing::warn!("Asterisk stopped reading an AudioSocket connection; closing it");
                    self.close();
                }
                Err(Discard::SocketFull)
            }
            Err(_) => {
                drop(out);
                self.close();
                Err(Discard::NotSent)
            }
        }
    }

    /// Goes on with a frame that was cut short. `true`: nothing is left of it.
    fn push_rest(&self) -> bool {
        let mut out = self.lock();
        // A socket that broke has nothing left to send; its reader learns of it by itself.
        let finished = out.push_rest(&self.stream).unwrap_or(true);
        self.unfinished.store(!finished, Release);
        finished
    }

    /// Says goodbye and stops writing. `false`: the connection was closed already.
    async fn finish(&self) -> bool {
        {
            let mut out = self.lock();
            if std::mem::replace(&mut out.finished, true) {
                return false;
            }
            out.rest.extend_from_slice(&[HANG_UP, 0, 0]);
        }
        while !self.push_rest() {
            if self.stream.writable().await.is_err() {
                return false;
            }
        }
        SockRef::from(&self.stream).shutdown(Shutdown::Write).is_ok()
    }

    /// Lets the socket go with a reset instead of an end of stream, once nobody holds it any more.
    fn reset(&self) {
        self.lock().finished = true;
        // It fails when the other side was faster, and then there is nothing to do.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        self.resetting.store(true, Relaxed);
    }

    /// Closes both directions at once, whoever still holds the socket.
    fn close(&self) {
        self.lock().finished = true;
        if self.resetting.load(Relaxed) {
            return;
        }
        // It fails when the other side was faster, and then there is nothing to do.
        let _ = SockRef::from(&self.stream).shutdown(Shutdown::Both);
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outgoing {
    fn push_rest(&mut self, stream: &TcpStream) -> io::Result<bool> {
        if self.rest.is_empty() {
            return Ok(true);
        }
        match stream.try_write(&self.rest) {
            Ok(written) => self.rest.advance(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(self.rest.is_empty())
    }
}

impl Beat for Wire {
    fn beat(&self) {
        let Some(cause) = self.quiet.tick() else { return };
        // Silence that cannot be sent is no loss: the caller hears nothing either way.
        if self.write(&self.silence).is_ok() {
            self.counters.filler(cause).inc();
            if cause == Filler::Starved {
                tracing::trace!("the call is late; the leg sent silence");
            }
        }
    }
}

/// The call's ear on an AudioSocket leg. It is read by the call's own task: what a busy call does not take stays in the
/// socket, and no frame waits for a second task to be woken.
pub struct Receiver {
    wire: Arc<Wire>,
    inbox: BytesMut,
    buffer: Box<[u8; READ]>,
    intake: Intake,
    /// The last event has been told.
    over: bool,
}

impl Receiver {
    /// See [`MediaEvents::next`].
    pub(super) async fn next(&mut self) -> Option<MediaEvent> {
        if self.over {
            return None;
        }
        let event = self.read().await;
        if matches!(event, MediaEvent::Closed | MediaEvent::Broken) {
            self.over = true;
            self.wire.close();
        }
        Some(event)
    }

    async fn read(&mut self) -> MediaEvent {
        loop {
            if let Some(event) = self.decode() {
                return event;
            }
            if poll_fn(|cx| self.poll_socket(cx)).await.unwrap_or(0) == 0 {
                return MediaEvent::Closed;
            }
        }
    }

    /// Goes on with what is unfinished, and says how much has come; none: the other side has closed.
    fn poll_socket(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Self { wire, inbox, buffer, .. } = self;
        // In this order: who leaves something unfinished after the look wakes whoever is written down.
        wire.finisher.register(cx.waker());
        while wire.unfinished.load(Acquire) && matches!(wire.stream.poll_write_ready(cx), Poll::Ready(Ok(()))) {
            wire.push_rest();
        }
        read_some(&wire.stream, buffer, inbox, cx)
    }

    /// The next event in what was read; `None`: no whole frame is left of it.
    fn decode(&mut self) -> Option<MediaEvent> {
        let counters = &self.wire.counters;
        loop {
            match Codec.decode(&mut self.inbox) {
                Ok(None) => return None,
                Ok(Some(Frame::Audio { rate, samples })) => {
                    counters.received(Transport::AudioSocket).inc();
                    if let Some(audio) = self.intake.convert(rate, samples) {
                        return Some(MediaEvent::Audio(audio));
                    }
                }
                Ok(Some(Frame::Digit(digit))) => return Some(MediaEvent::Digit(digit)),
                Ok(Some(Frame::HangUp)) => return Some(MediaEvent::Closed),
                Ok(Some(Frame::Error)) => counters.discarded(Discard::ErrorFrame).inc(),
                Ok(Some(Frame::Unknown { .. } | Frame::Id(_))) => counters.discarded(Discard::UnknownKind).inc(),
                Ok(Some(Frame::Malformed { .. })) => counters.discarded(Discard::Malformed).inc(),
                Err(error) => {
                    counters.discarded(Discard::Malformed).inc();
                    tracing::warn!(%error, "closing an AudioSocket connection");
                    return Some(MediaEvent::Broken);
                }
            }
        }
    }
}

/// How much has come, at most [`READ`]; no bytes: the other side has closed.
fn read_some(
    stream: &TcpStream,
    buffer: &mut [u8; READ],
    inbox: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_read_ready(cx))?;
        let mut read = None;
        let tried = stream.try_io(Interest::READABLE, || {
            let taken = (&*SockRef::from(stream)).read(buffer)?;
            read = Some(taken);
            // Who gave less than was asked for has no more: not to be asked once more for nothing with each frame.
            if taken < READ { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        match (read, tried) {
            (Some(taken), _) => {
                inbox.extend_from_slice(&buffer[..taken]);
                return Poll::Ready(Ok(taken));
            }
            (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
            (None, _) => {}
        }
    }
}

/// Brings the caller's audio to the leg's format. Asterisk may run the channel at another rate than
/// asked for (`AudioSocket()` in the dialplan, a re-INVITE): a caller who sounds a little duller is
/// better than one who is not heard.
struct Intake {
    format: Format,
    /// One per rate that was seen, so that alternating rates cost no more than a steady one.
    converters: Vec<(u32, Converter)>,
}

impl Intake {
    fn new(format: Format) -> Self {
        Self { format, converters: Vec::new() }
    }

    /// `None`: the resampler waits for more.
    fn convert(&mut self, rate: u32, samples: Bytes) -> Option<Bytes> {
        if rate == self.format.rate {
            return Some(samples);
        }
        let known = self.converters.iter().position(|(known, _)| *known == rate);
        let index = known.unwrap_or_else(|| {
            let from = Format { encoding: Encoding::Linear, rate };
            self.converters.push((rate, Converter::new(from, self.format)));
            self.converters.len() - 1
        });
        let mut converted = Vec::new();
        self.converters[index].1.push(&samples, &mut converted);
        (!converted.is_empty()).then(|| converted.into())
    }
}

#[cfg(test)]
mod tests;
