//! RTP (RFC 3550) with an ExternalMedia channel, one UDP socket per call: G.711, or wideband. Here is the leg's
//! socket; `payload` is what packets carry, `outgoing` and `incoming` are the two directions.
//!
//! Asterisk tells the address it sends from and listens on (`UNICASTRTP_LOCAL_ADDRESS`,
//! `UNICASTRTP_LOCAL_PORT`) with the channel's creation, so a leg exists only with that address
//! known: audio leaves at once, and nobody else is listened to.
//!
//! The socket is never connected: a connected one reports an ICMP refusal, which during a restart
//! of the other side is no reason to end a call. RTP has no end of its own; the events of the
//! channel tell when the call is over.

#[cfg(any(test, fuzzing))]
mod fuzz;
mod incoming;
mod outgoing;
mod payload;

#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz;
pub(super) use outgoing::Numbering;
pub(super) use payload::carries;

use super::{
    counters::{Discard, MediaCounters, SocketFault},
    media::{MediaEvent, MediaEvents, MediaLeg, MediaSender},
    ports::PortLease,
    pulse::{Beat, Pulse, Quiet},
};
use crate::{
    audio::{FRAME, Format},
    config::Transport,
};
use bytes::Bytes;
use incoming::Incoming;
use outgoing::Packetizer;
use socket2::{SockAddr, SockRef};
use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::{
    net::UdpSocket,
    time::{Instant, sleep, timeout_at},
};

/// More than an Ethernet packet carries; what fills this buffer was cut off.
const PACKET: usize = 2_048;

/// A port of ours, before Asterisk has told where it is itself. What Asterisk sends meanwhile waits
/// in the socket.
pub struct BoundRtp {
    pub(super) socket: UdpSocket,
    pub(super) lease: PortLease,
    pub(super) format: Format,
    pub(super) numbering: Numbering,
    pub(super) pulse: Arc<Pulse>,
    pub(super) counters: Arc<MediaCounters>,
}

impl BoundRtp {
    /// For `external_host` of the channel, together with the advertised address.
    pub fn port(&self) -> u16 {
        self.lease.port()
    }

    /// Begins to send to `peer`, the address that Asterisk told, and to listen to it alone.
    pub fn open(self, peer: SocketAddr) -> MediaLeg {
        let line = Arc::new(Line {
            socket: self.socket,
            peer: canonical(peer),
            peer_address: peer.into(),
            out: Mutex::new(Packetizer::new(self.format, self.numbering)),
            quiet: Quiet::new(),
            silence: vec![self.format.silence(); self.format.frame_bytes()].into(),
            counters: self.counters,
            _lease: self.lease,
        });
        line.beat();
        let for_pulse: Weak<Line> = Arc::downgrade(&line);
        self.pulse.add(for_pulse);
        let receiver = Receiver {
            line: line.clone(),
            incoming: Incoming::new(self.format),
            ready: VecDeque::new(),
            buffer: vec![0; PACKET],
            stranger_told: false,
        };
        let (sender, events) = (MediaSender::Rtp(Sender { line }), MediaEvents::Rtp(Box::new(receiver)));
        MediaLeg { format: self.format, sender, events }
    }
}

/// One leg's socket, shared by the call's [`Sender`], its [`Receiver`] and the pulse. The socket comes
/// before the lease, since fields are dropped in this order: a port is given back when it is free.
struct Line {
    socket: UdpSocket,
    peer: SocketAddr,
    peer_address: SockAddr,
    out: Mutex<Packetizer>,
    quiet: Quiet,
    silence: Bytes,
    counters: Arc<MediaCounters>,
    _lease: PortLease,
}

/// The call's end of an RTP leg.
pub struct Sender {
    line: Arc<Line>,
}

impl Sender {
    /// See [`MediaSender::play`].
    pub fn play(&mut self, frame: Bytes) -> bool {
        self.line.quiet.end();
        match self.line.send(&frame) {
            Ok(()) => {
                self.line.counters.sent(Transport::Rtp).inc();
                true
            }
            Err(cause) => {
                self.line.counters.discarded(cause).inc();
                false
            }
        }
    }
}

impl Line {
    fn send(&self, frame: &[u8]) -> Result<(), Discard> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let packet = out.packet(frame).ok_or(Discard::FrameSize)?;
        // Past tokio, whose own `try_send_to` refuses until its event loop has seen the socket
        // once: the first frames of a call must not be lost to that.
        match SockRef::from(&self.socket).send_to(packet, &self.peer_address) {
            Ok(_) => {
                out.sent();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Discard::SocketFull),
            Err(_) => Err(Discard::NotSent),
        }
    }
}

impl Beat for Line {
    fn beat(&self) {
        let Some(cause) = self.quiet.tick() else { return };
        if self.send(&self.silence).is_ok() {
            self.counters.filler(cause).inc();
        }
    }
}

/// The call's ear on an RTP leg, read by the call's own task.
pub struct Receiver {
    line: Arc<Line>,
    incoming: Incoming,
    /// Audio whose turn has come; never more than one packet brings out.
    ready: VecDeque<Bytes>,
    buffer: Vec<u8>,
    stranger_told: bool,
}

impl Receiver {
    /// See [`MediaEvents::next`].
    pub(super) async fn next(&mut self) -> MediaEvent {
        loop {
            if let Some(audio) = self.ready.pop_front() {
                return MediaEvent::Audio(audio);
            }
            let packet = self.line.socket.recv_from(&mut self.buffer);
            let received = match self.incoming.deadline() {
                None => packet.await,
                Some(deadline) => match timeout_at(deadline, packet).await {
                    Ok(received) => received,
                    Err(_) => {
                        self.incoming.late(Instant::now(), &mut self.ready);
                        self.count();
                        continue;
                    }
                },
            };
            match received {
                Ok((length, from)) => self.take(length, from),
                Err(error) => {
                    self.line.counters.socket_faults(SocketFault::Receive).inc();
                    tracing::debug!(%error, "could not receive RTP; going on");
                    // A fault that stays must not become a busy loop.
                    sleep(FRAME).await;
                }
            }
        }
    }

    fn take(&mut self, length: usize, from: SocketAddr) {
        if canonical(from) != self.line.peer {
            self.line.counters.discarded(Discard::Stranger).inc();
            if !std::mem::replace(&mut self.stranger_told, true) {
                let expected = self.line.peer;
                tracing::warn!(%from, %expected, "RTP from an address that Asterisk did not tell; ignored");
            }
            return;
        }
        let taken = if length == PACKET {
            Err(Discard::Malformed)
        } else {
            self.incoming.take(&self.buffer[..length], Instant::now(), &mut self.ready)
        };
        if let Err(cause) = taken {
            self.line.counters.discarded(cause).inc();
        }
        self.count();
    }

    /// Enters what has become of the packets since this was last asked.
    fn count(&mut self) {
        let (counters, tally) = (&self.line.counters, self.incoming.tally());
        counters.received(Transport::Rtp).inc_by(tally.received);
        counters.lost().inc_by(tally.lost);
        counters.concealed().inc_by(tally.concealed);
        counters.discarded(Discard::Malformed).inc_by(tally.malformed);
    }
}

/// An IPv4 address is the same whether or not an IPv6 socket reports it.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests;
