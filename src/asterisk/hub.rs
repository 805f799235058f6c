//! Where media legs come from: one AudioSocket listener and one range of RTP ports for all calls, and connections to
//! Asterisk.

pub use super::{
    ports::{BindError, even_ports_free},
    rtp::BoundRtp,
    websocket::Unconnected,
};

use super::{
    audiosocket::{self, Codec, Frame},
    counters::{MediaCounters, Refusal, SocketFault},
    media::{Coding, MediaLeg},
    ports::PortPool,
    pulse::Pulse,
    rtp::{self, Numbering},
    setup::{ExpectedAudio, MediaPorts, RtpPort, WebSocketPort},
};
use crate::{
    audio::Format,
    config::MediaConfig,
    connections::{ConnectionEntry, ConnectionTable},
};
use bytes::BytesMut;
use reqwest::Url;
use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};
use tokio_util::{
    codec::Decoder,
    sync::{CancellationToken, DropGuard},
};
use uuid::Uuid;

/// How long a connection may take to say its UUID. Asterisk does so within milliseconds, as the
/// first thing it writes.
const ID_WAIT: Duration = Duration::from_secs(2);

/// Connections at once that have not said their UUID, or, where the dialplan made them, not shown their rate. Each costs a file
/// descriptor. Beyond it, the one that has been silent longest is closed, first of the address that has most of them.
const UNIDENTIFIED: usize = 256;

/// No connection is closed for another one before: a burst of real calls, which all say their UUID in this time, waits.
const ID_GRACE: Duration = Duration::from_millis(250);

/// A burst of real calls takes all places for less.
const CROWDED_AFTER: Duration = Duration::from_secs(1);

/// Calls straight from the dialplan that the engine has not looked at yet; it does so at once, so
/// this many means that it is stuck, and the next one goes back to the dialplan.
const WALK_INS: usize = 16;

/// After an accept that failed (no file descriptor left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Dropping the hub ends its listener; legs that are open stay so, without the pulse.
pub struct MediaHub {
    shared: Arc<Shared>,
    audiosocket: SocketAddr,
    ports: Arc<PortPool>,
    numbering: Numbering,
    _running: DropGuard,
}

/// An AudioSocket connection that no call expects: `AudioSocket()` in the dialplan, whose leg is `slin`, or
/// `Dial(AudioSocket/…)`, whose leg has the rate of that channel. Refuse it with [`MediaLeg::hang_up`], and the
/// dialplan goes on; a plain drop may end the caller's channel.
pub struct WalkIn {
    pub id: Uuid,
    pub leg: MediaLeg,
}

/// What is open now. All zero when no call is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenMedia {
    /// AudioSocket connections that are a call's leg.
    pub audiosocket_legs: usize,
    /// AudioSocket connections that have not said which call they are, or at which rate.
    pub unidentified: usize,
    /// Calls that wait for their AudioSocket connection.
    pub expected: usize,
    /// UDP ports in use.
    pub rtp_ports: usize,
    /// WebSocket connections that are a call's leg, or are about to be.
    pub websocket_legs: usize,
}

struct Shared {
    expected: Mutex<HashMap<Uuid, Slot>>,
    walk_ins: mpsc::Sender<WalkIn>,
    pulse: Arc<Pulse>,
    counters: Arc<MediaCounters>,
    unidentified: Arc<ConnectionTable>,
    open_legs: Arc<AtomicUsize>,
    open_websockets: Arc<AtomicUsize>,
    /// The last accept worked.
    accepting: AtomicBool,
}

/// Where a call waits for its connection.
struct Slot {
    format: Format,
    leg: oneshot::Sender<MediaLeg>,
}

impl MediaHub {
    /// Listens for AudioSocket connections; port 0 lets the system choose.
    ///
    /// # Errors
    ///
    /// When one of the two configured addresses cannot be bound.
    pub async fn start(
        config: &MediaConfig,
        counters: Arc<MediaCounters>,
    ) -> io::Result<(Self, mpsc::Receiver<WalkIn>)> {
        let listener = TcpListener::bind(config.audiosocket.bind).await?;
        // An address that is not ours is found now, not in the first call.
        drop(UdpSocket::bind((config.rtp.bind, 0)).await?);
        let audiosocket = listener.local_addr()?;
        let (walk_ins, offered) = mpsc::channel(WALK_INS);
        let shared = Arc::new(Shared {
            expected: Mutex::default(),
            walk_ins,
            pulse: Arc::default(),
            counters,
            accepting: AtomicBool::new(true),
            unidentified: ConnectionTable::new(UNIDENTIFIED),
            open_legs: Arc::default(),
            open_websockets: Arc::default(),
        });
        let token = CancellationToken::new();
        tokio::spawn(token.clone().run_until_cancelled_owned(accept(listener, shared.clone(), token.clone())));
        let pulse = shared.pulse.clone();
        tokio::spawn(token.clone().run_until_cancelled_owned(async move { pulse.run().await }));
        let ports = PortPool::new(config.rtp.bind, config.rtp.ports.clone());
        Ok((Self { shared, audiosocket, ports, numbering: Numbering::random(), _running: token.drop_guard() }, offered))
    }

    /// Where the AudioSocket listener is bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.audiosocket
    }

    /// Keeps a place for the connection that will say `id`. Call it before Asterisk is told to
    /// connect. `format` must be linear at one of AudioSocket's rates; a connection for another
    /// format is closed.
    pub fn expect_audiosocket(&self, id: Uuid, format: Format) -> Expected {
        let (slot, leg) = oneshot::channel();
        self.shared.expected().insert(id, Slot { format, leg: slot });
        Expected { id, leg, shared: self.shared.clone() }
    }

    /// # Errors
    ///
    /// When no port is free, the socket cannot be opened, or RTP does not carry the format.
    pub fn bind_rtp(&self, format: Format) -> Result<BoundRtp, BindError> {
        if !rtp::carries(format) {
            return Err(BindError::Format(format));
        }
        let (socket, lease) = self.ports.bind()?;
        let socket = UdpSocket::from_std(socket)
            .map_err(|source| BindError::Socket { address: self.ports.address(), source })?;
        let (pulse, counters) = (self.shared.pulse.clone(), self.shared.counters.clone());
        Ok(BoundRtp { socket, lease, format, numbering: self.numbering, pulse, counters })
    }

    /// A leg that will be a WebSocket to Asterisk.
    pub fn websocket(&self, format: Format) -> Unconnected {
        let Shared { counters, open_websockets, .. } = &*self.shared;
        Unconnected { format, counters: Arc::clone(counters), open: Tally::new(open_websockets) }
    }

    /// What the legs count.
    pub fn counters(&self) -> &Arc<MediaCounters> {
        &self.shared.counters
    }

    /// What would keep the next call from being heard, if anything.
    pub fn trouble(&self) -> Option<&'static str> {
        if !self.shared.accepting.load(Relaxed) {
            Some("AudioSocket connections cannot be accepted; are there file descriptors left?")
        } else if self.shared.unidentified.full_for() >= CROWDED_AFTER {
            Some("media.audiosocket.bind is crowded by connections that do not say their call; who connects to it?")
        } else if self.ports.is_exhausted() {
            Some("every port of media.rtp.ports is in use")
        } else {
            None
        }
    }

    pub fn open(&self) -> OpenMedia {
        OpenMedia {
            audiosocket_legs: self.shared.open_legs.load(Relaxed),
            unidentified: self.shared.unidentified.taken(),
            expected: self.shared.expected().len(),
            rtp_ports: self.ports.leased(),
            websocket_legs: self.shared.open_websockets.load(Relaxed),
        }
    }

    /// Nothing of any call is left here.
    pub fn idle(&self) -> bool {
        self.open() == OpenMedia::default()
    }
}

/// A call's place in the queue for its AudioSocket connection. Dropping it gives the place up, and
/// closes a connection that came for it in the meantime.
pub struct Expected {
    id: Uuid,
    leg: oneshot::Receiver<MediaLeg>,
    shared: Arc<Shared>,
}

impl Expected {
    /// `None`: the connection did not come in time.
    pub async fn leg(mut self, within: Duration) -> Option<MediaLeg> {
        timeout(within, &mut self.leg).await.ok()?.ok()
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.leg.close();
        let mut expected = self.shared.expected();
        // Not the place of a later call of the same id.
        if expected.get(&self.id).is_some_and(|slot| slot.leg.is_closed()) {
            expected.remove(&self.id);
        }
    }
}

impl MediaPorts for MediaHub {
    type Leg = MediaLeg;
    type Expected = Expected;
    type Rtp = BoundRtp;
    type WebSocket = Unconnected;

    fn expect_audiosocket(&self, id: Uuid, format: Format) -> Expected {
        Self::expect_audiosocket(self, id, format)
    }

    fn bind_rtp(&self, format: Format) -> Option<BoundRtp> {
        Self::bind_rtp(self, format).inspect_err(|error| tracing::warn!(%error, "no local port for the media")).ok()
    }

    fn websocket(&self, format: Format) -> Unconnected {
        Self::websocket(self, format)
    }
}

impl ExpectedAudio for Expected {
    type Leg = MediaLeg;

    async fn leg(self, within: Duration) -> Option<MediaLeg> {
        Self::leg(self, within).await
    }
}

impl RtpPort for BoundRtp {
    type Leg = MediaLeg;

    fn local_port(&self) -> u16 {
        self.port()
    }

    fn open(self, peer: SocketAddr) -> MediaLeg {
        Self::open(self, peer)
    }
}

impl WebSocketPort for Unconnected {
    type Leg = MediaLeg;

    async fn connect(self, url: Url, channel: String, coding: Coding, within: Duration) -> Option<MediaLeg> {
        Self::connect(self, &url, &channel, coding, within).await
    }
}

impl Shared {
    fn expected(&self) -> MutexGuard<'_, HashMap<Uuid, Slot>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of a kind that is open, counted until this is dropped.
pub(super) struct Tally(Arc<AtomicUsize>);

impl Tally {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count.clone())
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, token: CancellationToken) {
    loop {
        let (mut stream, from) = match listener.accept().await {
            Ok(accepted) => {
                shared.accepting.store(true, Relaxed);
                accepted
            }
            Err(error) => {
                shared.accepting.store(false, Relaxed);
                shared.counters.socket_faults(SocketFault::Accept).inc();
                tracing::warn!(%error, "could not accept an AudioSocket connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let is_late = |entry: &ConnectionEntry| entry.active().elapsed() >= ID_GRACE;
        let permit = shared.unidentified.enter(from.ip(), is_late).await;
        let (shared, token) = (shared.clone(), token.clone());
        tokio::spawn(async move {
            let mut inbox = BytesMut::new();
            let introduced = tokio::select! {
                biased;
                () = token.cancelled() => return,
                introduced = introduce(&mut stream, &mut inbox, &permit.entry, &shared) => introduced,
                () = permit.entry.shown_out() => Err(Refusal::Crowded),
            };
            drop(permit);
            match introduced {
                Ok((id, format)) => serve(stream, inbox, id, format, &shared).await,
                Err(refusal) => refuse(&shared, refusal, from),
            }
        });
    }
}

/// Which call this connection is, and what it is to be where no call expects it: then it says so by its first audio.
async fn introduce(
    stream: &mut TcpStream,
    inbox: &mut BytesMut,
    entry: &ConnectionEntry,
    shared: &Shared,
) -> Result<(Uuid, Format), Refusal> {
    let id = identify(stream, inbox).await?;
    // The rate is in the first audio, which a connection that is silent altogether may not crowd out.
    entry.touch();
    let expected = shared.expected().contains_key(&id);
    let format =
        if expected { Format::SLIN8 } else { audiosocket::format_of_dialplan(stream, inbox, &shared.counters).await };
    Ok((id, format))
}

/// Waits for the UUID frame; what follows it stays in `inbox`.
async fn identify(stream: &mut TcpStream, inbox: &mut BytesMut) -> Result<Uuid, Refusal> {
    let frame = timeout(ID_WAIT, async {
        loop {
            match Codec.decode(inbox) {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                Err(_) => return Err(Refusal::Malformed),
            }
            if stream.read_buf(inbox).await.unwrap_or(0) == 0 {
                return Err(Refusal::Closed);
            }
        }
    });
    match frame.await {
        Ok(Ok(Frame::Id(id))) => Ok(id),
        Ok(Ok(_)) => Err(Refusal::NotAnId),
        Ok(Err(refusal)) => Err(refusal),
        Err(_) => Err(Refusal::Silent),
    }
}

/// Hands the connection to its call as a leg; `format` is that of one that no call expects.
async fn serve(stream: TcpStream, inbox: BytesMut, id: Uuid, format: Format, shared: &Shared) {
    let slot = shared.expected().remove(&id);
    let format = slot.as_ref().map_or(format, |slot| slot.format);
    let counters = shared.counters.clone();
    let open = Tally::new(&shared.open_legs);
    let Some(leg) = audiosocket::open(stream, inbox, format, &shared.pulse, counters, open) else {
        tracing::error!(%format, "AudioSocket cannot carry this format; closing the connection");
        return;
    };
    match slot {
        Some(slot) => {
            if slot.leg.send(leg).is_err() {
                shared.counters.refused(Refusal::TooLate).inc();
                tracing::debug!(%id, "an AudioSocket connection came after its call had given up");
            }
        }
        None => {
            if let Err(refused) = shared.walk_ins.try_send(WalkIn { id, leg }) {
                shared.counters.refused(Refusal::NotWanted).inc();
                tracing::warn!("a call from the dialplan could not be offered to the engine; handing it back");
                refused.into_inner().leg.hang_up().await;
            }
        }
    }
}

fn refuse(shared: &Shared, refusal: Refusal, from: SocketAddr) {
    shared.counters.refused(refusal).inc();
    tracing::warn!(%from, cause = refusal.label(), "refused an AudioSocket connection");
}

#[cfg(test)]
pub(super) mod tests;
