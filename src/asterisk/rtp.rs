//! RTP (RFC 3550) with an ExternalMedia channel: G.711, one UDP socket per call. The packets on
//! top, the leg's socket below.
//!
//! Asterisk tells the address it sends from and listens on (`UNICASTRTP_LOCAL_ADDRESS`,
//! `UNICASTRTP_LOCAL_PORT`) with the channel's creation, so a leg exists only with that address
//! known: audio leaves at once, and nobody else is listened to.
//!
//! The socket is never connected: a connected one reports an ICMP refusal, which during a restart
//! of the other side is no reason to end a call. RTP has no end of its own; the events of the
//! channel tell when the call is over.

use super::{
    counters::{Discard, MediaCounters, SocketFault},
    media::{MediaEvent, MediaEvents, MediaLeg, MediaSender},
    ports::PortLease,
    pulse::{Beat, Pulse, Quiet},
};
use crate::{
    audio::{Encoding, FRAME, Format},
    config::Transport,
};
use bytes::Bytes;
use rtp_rs::{RtpPacketBuilder, RtpReader, Seq};
use socket2::{SockAddr, SockRef};
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::net::UdpSocket;

/// More than an Ethernet packet carries; what fills this buffer was cut off.
const PACKET: usize = 2_048;

/// 160 ms of G.711. Asterisk passes any size on as one packet, and phones take 20 to 60 ms.
const MAX_PAYLOAD: usize = 1_280;

/// RFC 3551, table 4. `None`: this format has no number that Asterisk understands both ways.
pub(super) const fn payload_type(format: Format) -> Option<u8> {
    match format.encoding {
        Encoding::Mulaw => Some(0),
        Encoding::Alaw => Some(8),
        Encoding::Linear => None,
    }
}

/// Writes the packets of one direction.
struct Packetizer {
    payload_type: u8,
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    /// The next packet is the first; it carries the marker bit (RFC 3551, section 4.1).
    first: bool,
    packet: Vec<u8>,
}

impl Packetizer {
    /// SSRC, sequence number and timestamp begin at random (RFC 3550, section 5.1).
    fn new(payload_type: u8) -> Self {
        Self {
            payload_type,
            ssrc: rand::random(),
            sequence: rand::random(),
            timestamp: rand::random(),
            first: true,
            packet: vec![0; PACKET],
        }
    }

    /// The packet of the next 20 ms (one byte of G.711 is one tick of the 8 kHz clock). `None`: no
    /// bytes, or more than [`MAX_PAYLOAD`].
    fn packet(&mut self, payload: &[u8]) -> Option<&[u8]> {
        if payload.is_empty() || payload.len() > MAX_PAYLOAD {
            return None;
        }
        let length = RtpPacketBuilder::new()
            .payload_type(self.payload_type)
            .marked(self.first)
            .sequence(Seq::from(self.sequence))
            .ssrc(self.ssrc)
            .timestamp(self.timestamp)
            .payload(payload)
            .build_into(&mut self.packet)
            .ok()?;
        // A packet that is not sent leaves a gap in time, not in the sequence.
        self.timestamp = self.timestamp.wrapping_add(payload.len() as u32);
        Some(&self.packet[..length])
    }

    /// The packet has left.
    fn sent(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.first = false;
    }
}

/// Reads the packets of one direction, and keeps them in order.
struct Depacketizer {
    payload_type: u8,
    ssrc: Option<u32>,
    order: Order,
}

/// What arrived: the payload, and how many packets before it did not.
#[derive(Debug, PartialEq, Eq)]
struct Arrived<'a> {
    payload: &'a [u8],
    lost: u16,
}

impl Depacketizer {
    fn new(payload_type: u8) -> Self {
        Self { payload_type, ssrc: None, order: Order::default() }
    }

    fn read<'a>(&mut self, packet: &'a [u8]) -> Result<Arrived<'a>, Discard> {
        let reader = RtpReader::new(packet).map_err(|_| Discard::Malformed)?;
        // Comfort noise and telephone events are not audio.
        if reader.payload_type() != self.payload_type {
            return Err(Discard::PayloadType);
        }
        if reader.payload().is_empty() {
            return Err(Discard::Malformed);
        }
        if self.ssrc != Some(reader.ssrc()) {
            // Asterisk began a new stream, on its own address.
            self.ssrc = Some(reader.ssrc());
            self.order = Order::default();
        }
        let lost = self.order.place(reader.sequence_number().into())?;
        Ok(Arrived { payload: reader.payload(), lost })
    }
}

/// Where a packet stands in the sequence. After RFC 3550, appendix A.1: a jump is believed when
/// the packet after it follows on.
#[derive(Debug, Default)]
struct Order {
    highest: Option<u16>,
    /// Bit n: `highest - n` has been passed on.
    passed: u64,
    /// What would confirm a jump.
    after_jump: Option<u16>,
}

/// Packets that may be missing before a gap counts as a jump: two seconds.
const MAX_GAP: u16 = 100;
/// How far back a packet is known as late or as a duplicate: the bits of [`Order::passed`].
const WINDOW: u16 = 64;

impl Order {
    /// How many packets are missing before this one, or why it must not be passed on.
    fn place(&mut self, sequence: u16) -> Result<u16, Discard> {
        let Some(highest) = self.highest else {
            self.restart(sequence);
            return Ok(0);
        };
        let ahead = sequence.wrapping_sub(highest);
        let behind = highest.wrapping_sub(sequence);
        if (1..=MAX_GAP).contains(&ahead) {
            self.highest = Some(sequence);
            self.passed = self.passed.checked_shl(u32::from(ahead)).unwrap_or(0) | 1;
            self.after_jump = None;
            Ok(ahead - 1)
        } else if behind < WINDOW {
            let bit = 1 << behind;
            let known = self.passed & bit != 0;
            self.passed |= bit;
            Err(if known { Discard::Duplicate } else { Discard::Late })
        } else if self.after_jump == Some(sequence) {
            self.restart(sequence);
            Ok(0)
        } else {
            self.after_jump = Some(sequence.wrapping_add(1));
            Err(Discard::Late)
        }
    }

    fn restart(&mut self, sequence: u16) {
        *self = Self { highest: Some(sequence), passed: 1, after_jump: None };
    }
}

/// A port of ours, before Asterisk has told where it is itself. What Asterisk sends meanwhile waits
/// in the socket.
pub struct BoundRtp {
    pub(super) socket: UdpSocket,
    pub(super) lease: PortLease,
    pub(super) format: Format,
    pub(super) payload_type: u8,
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
            out: Mutex::new(Packetizer::new(self.payload_type)),
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
            depacketizer: Depacketizer::new(self.payload_type),
            buffer: vec![0; PACKET],
            stranger_told: false,
        };
        let (sender, events) = (MediaSender::Rtp(Sender { line }), MediaEvents::Rtp(receiver));
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
    depacketizer: Depacketizer,
    buffer: Vec<u8>,
    stranger_told: bool,
}

impl Receiver {
    /// See [`MediaEvents::next`].
    pub(super) async fn next(&mut self) -> MediaEvent {
        loop {
            let received = self.line.socket.recv_from(&mut self.buffer).await;
            let (length, from) = match received {
                Ok(received) => received,
                Err(error) => {
                    self.line.counters.socket_faults(SocketFault::Receive).inc();
                    tracing::debug!(%error, "could not receive RTP; going on");
                    // A fault that stays must not become a busy loop.
                    tokio::time::sleep(FRAME).await;
                    continue;
                }
            };
            if let Some(audio) = self.take(length, from) {
                return MediaEvent::Audio(audio);
            }
        }
    }

    /// The audio in what was received, if it is to be heard.
    fn take(&mut self, length: usize, from: SocketAddr) -> Option<Bytes> {
        let counters = &self.line.counters;
        if canonical(from) != self.line.peer {
            counters.discarded(Discard::Stranger).inc();
            if !std::mem::replace(&mut self.stranger_told, true) {
                let expected = self.line.peer;
                tracing::warn!(%from, %expected, "RTP from an address that Asterisk did not tell; ignored");
            }
            return None;
        }
        if length == PACKET {
            counters.discarded(Discard::Malformed).inc();
            return None;
        }
        match self.depacketizer.read(&self.buffer[..length]) {
            Ok(arrived) => {
                counters.received(Transport::Rtp).inc();
                counters.lost().inc_by(u64::from(arrived.lost));
                Some(Bytes::copy_from_slice(arrived.payload))
            }
            Err(cause) => {
                counters.discarded(cause).inc();
                None
            }
        }
    }
}

/// An IPv4 address is the same whether or not an IPv6 socket reports it.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests;
