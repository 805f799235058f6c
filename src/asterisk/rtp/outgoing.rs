//! The packets towards Asterisk.

use super::{PACKET, payload::Writer};
use crate::audio::{FRAME, Format};
use rtp_rs::{RtpPacketBuilder, Seq};
use tokio::time::Instant;

/// Where the numbers of a leg's packets begin: at random for the engine (RFC 3550, section 5.1), and from there on by the
/// clock, a packet every 20 ms. So a leg that takes the place of a broken one goes on where that one stopped. Seen with Asterisk
/// 22: where it has to convert for the caller (G.722), what comes from a new source in the same bridge whose numbers lie behind
/// the old one's is not passed on. With numbers at random most callers heard no more of the agent.
#[derive(Debug, Clone, Copy)]
pub(in crate::asterisk) struct Numbering {
    since: Instant,
    sequence: u16,
    timestamp: u32,
}

impl Numbering {
    pub(in crate::asterisk) fn random() -> Self {
        Self { since: Instant::now(), sequence: rand::random(), timestamp: rand::random() }
    }

    #[cfg(test)]
    pub(in crate::asterisk) fn at(sequence: u16, timestamp: u32) -> Self {
        Self { since: Instant::now(), sequence, timestamp }
    }

    /// The sequence number and the timestamp of a packet that leaves now. Both wrap around.
    fn now(&self) -> (u16, u32) {
        let frames = self.since.elapsed().as_millis() / FRAME.as_millis();
        let sequence = self.sequence.wrapping_add(frames as u16);
        (sequence, self.timestamp.wrapping_add((frames as u32).wrapping_mul(TICKS)))
    }
}

/// Of a frame of 20 ms by RTP's clock, which runs at 8 kHz for all that is sent (RFC 3551, table 4; for G.722 section 4.5.2).
const TICKS: u32 = 160;
/// A timestamp that lags behind the clock by more has missed slots, as after a stall of this machine: what follows would be
/// taken for late by whoever plays it.
pub(super) const BEHIND_MAX: u32 = 3 * TICKS;

/// Writes the packets of one direction.
pub(super) struct Packetizer {
    writer: Writer,
    numbering: Numbering,
    pub(super) ssrc: u32,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
    /// The next packet is the first, or the first after a gap; it carries the marker bit (RFC 3551, section 4.1).
    first: bool,
    packet: Vec<u8>,
}

impl Packetizer {
    pub(super) fn new(format: Format, numbering: Numbering) -> Self {
        let (sequence, timestamp) = numbering.now();
        Self {
            writer: Writer::new(format),
            numbering,
            ssrc: rand::random(),
            sequence,
            timestamp,
            first: true,
            packet: vec![0; PACKET],
        }
    }

    /// The packet of the next 20 ms, in the leg's format. `None`: no bytes, or more than a packet carries.
    pub(super) fn packet(&mut self, frame: &[u8]) -> Option<&[u8]> {
        let payload = self.writer.payload(frame)?;
        let (_, due) = self.numbering.now();
        // Either may have wrapped around.
        if (BEHIND_MAX..1 << 31).contains(&due.wrapping_sub(self.timestamp)) {
            (self.timestamp, self.first) = (due, true);
        }
        let length = RtpPacketBuilder::new()
            .payload_type(self.writer.payload_type())
            .marked(self.first)
            .sequence(Seq::from(self.sequence))
            .ssrc(self.ssrc)
            .timestamp(self.timestamp)
            .payload(&payload)
            .build_into(&mut self.packet)
            .ok()?;
        // A packet that is not sent leaves a gap in time, not in the sequence.
        self.timestamp = self.timestamp.wrapping_add(payload.len() as u32);
        Some(&self.packet[..length])
    }

    /// The packet has left.
    pub(super) fn sent(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.first = false;
    }
}
