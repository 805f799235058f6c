//! The packets towards Asterisk.

use super::{PACKET, payload::Writer};
use crate::audio::Format;
use rtp_rs::{RtpPacketBuilder, Seq};

/// Writes the packets of one direction.
pub(super) struct Packetizer {
    writer: Writer,
    pub(super) ssrc: u32,
    pub(super) sequence: u16,
    pub(super) timestamp: u32,
    /// The next packet is the first; it carries the marker bit (RFC 3551, section 4.1).
    first: bool,
    packet: Vec<u8>,
}

impl Packetizer {
    /// SSRC, sequence number and timestamp begin at random (RFC 3550, section 5.1).
    pub(super) fn new(format: Format) -> Self {
        Self {
            writer: Writer::new(format),
            ssrc: rand::random(),
            sequence: rand::random(),
            timestamp: rand::random(),
            first: true,
            packet: vec![0; PACKET],
        }
    }

    /// The packet of the next 20 ms, in the leg's format. `None`: no bytes, or more than a packet carries.
    pub(super) fn packet(&mut self, frame: &[u8]) -> Option<&[u8]> {
        let payload = self.writer.payload(frame)?;
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
