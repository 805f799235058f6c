//! The Asterisk side of an external media channel by RTP.

use super::{
    channel::{Sent, cause},
    frame::{Codec, Decoder, Encoder, Frame},
    state::{By, Switch},
};
use std::{net::SocketAddr, time::Duration};
use tokio::{net::UdpSocket, sync::mpsc, time::Instant};

const HEADER: usize = 12;
const FRAME: Duration = Duration::from_millis(20);

/// Sends to `to` whatever the channel is sent, and hears what comes from anybody.
pub async fn carry(
    switch: Switch,
    id: String,
    socket: UdpSocket,
    to: SocketAddr,
    codec: Codec,
    mut sent: mpsc::UnboundedReceiver<Sent>,
) {
    let (mut out, mut decoder) = (Outgoing::new(codec), RtpDecoder::new());
    let mut buffer = vec![0; 16_384];
    loop {
        tokio::select! {
            biased;
            received = socket.recv_from(&mut buffer) => {
                // Nobody listens where it went to: that changes nothing.
                let Ok((length, _)) = received else { continue };
                if let Some(frame) = decoder.frame(&buffer[..length]) {
                    switch.with(|state| state.read(&id, &frame));
                }
            }
            out_of = sent.recv() => match out_of {
                Some(Sent::Audio(frame)) => if let Some(packet) = out.packet(&frame) {
                    let _ = socket.send_to(&packet, to).await;
                },
                // Keys go by events of ARI alone.
                Some(Sent::Digit(_)) => {}
                None => break,
            }
        }
    }
    switch.with(|state| state.hang_up(&id, cause::NORMAL, By::FarEnd));
}

/// Numbers that Asterisk itself gives, and the ticks of 20 ms.
const fn payload_type(codec: Codec) -> (u8, u32) {
    match codec {
        Codec::Ulaw => (0, 160),
        Codec::Alaw => (8, 160),
        Codec::G722 => (9, 160),
        Codec::Opus => (107, 960),
        Codec::Linear(16_000) => (118, 320),
        Codec::Linear(24_000) => (123, 480),
        Codec::Linear(48_000) => (126, 960),
        Codec::Linear(rate) => (10, rate / 50),
    }
}

struct Outgoing {
    encoder: Encoder,
    sequence: u16,
    timestamp: u32,
    source: u32,
    last: Option<Instant>,
}

impl Outgoing {
    fn new(codec: Codec) -> Self {
        let source = uuid::Uuid::new_v4().as_fields().0;
        Self { encoder: Encoder::new(codec), sequence: source as u16, timestamp: 0, source, last: None }
    }

    fn packet(&mut self, frame: &Frame) -> Option<Vec<u8>> {
        let codec = self.encoder.codec();
        let mut payload = self.encoder.bytes(frame)?.to_vec();
        if let Codec::Linear(_) = codec {
            payload.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        }
        let (number, ticks) = payload_type(codec);
        // A pause of the caller's is one step of the timestamp.
        let now = Instant::now();
        let frames = self.last.replace(now).map_or(1, |last| {
            let gap = (now - last).as_micros() + FRAME.as_micros() / 2;
            u32::try_from(gap / FRAME.as_micros()).unwrap_or(1).max(1)
        });
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(ticks * frames);
        let head = [
            &[0x80, number][..],
            &self.sequence.to_be_bytes(),
            &self.timestamp.to_be_bytes(),
            &self.source.to_be_bytes(),
        ];
        Some([&head.concat()[..], &payload].concat())
    }
}

/// Decodes the static payload types only.
struct RtpDecoder {
    ulaw: Decoder,
    alaw: Decoder,
    g722: Decoder,
}

impl RtpDecoder {
    fn new() -> Self {
        Self { ulaw: Decoder::new(Codec::Ulaw), alaw: Decoder::new(Codec::Alaw), g722: Decoder::new(Codec::G722) }
    }

    fn frame(&mut self, packet: &[u8]) -> Option<Frame> {
        let (head, payload) = packet.split_at_checked(HEADER).filter(|(_, payload)| !payload.is_empty())?;
        match head[1] & 0x7f {
            0 => Some(self.ulaw.frame(payload)),
            8 => Some(self.alaw.frame(payload)),
            9 => Some(self.g722.frame(payload)),
            10 | 11 => {
                let samples = payload.chunks_exact(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]]));
                Some(Frame::linear(8_000, samples.collect()))
            }
            _ => None,
        }
    }
}
