//! What RTP packets carry for a leg of a format, and what they carry to Asterisk.
//!
//! Asterisk understands only static payload types from us (RFC 3551, table 4): whatever we send with a number of the
//! dynamic range it drops without a word. It sends its own number for 16-bit samples at 16 kHz, so a wideband leg hears
//! samples and answers in G.722.

use crate::{
    asterisk::counters::Discard,
    audio::{Encoding, Format},
};
use audio_codec::{
    Decoder as _, Encoder as _,
    g722::{G722Decoder, G722Encoder},
};
use bytes::Bytes;
use std::borrow::Cow;

const PCMU: u8 = 0;
const PCMA: u8 = 8;
const G722: u8 = 9;
/// `slin16` as Asterisk numbers it in `res_rtp_asterisk`: samples, most significant byte first (RFC 3551, section 4.5.11).
const SLIN16: u8 = 118;

/// 160 ms of G.711. Asterisk passes any size on as one packet, and phones take 20 to 60 ms.
pub(super) const MAX_PAYLOAD: usize = 1_280;

/// Whether RTP carries a leg of this format.
pub(in crate::asterisk) const fn carries(format: Format) -> bool {
    matches!((format.encoding, format.rate), (Encoding::Mulaw | Encoding::Alaw, 8_000) | (Encoding::Linear, 16_000))
}

/// From the leg's format to a payload.
pub(super) struct Writer {
    format: Format,
    g722: G722Encoder,
    samples: Vec<i16>,
}

impl Writer {
    pub(super) fn new(format: Format) -> Self {
        Self { format, g722: G722Encoder::new(), samples: Vec::new() }
    }

    pub(super) const fn payload_type(&self) -> u8 {
        match self.format.encoding {
            Encoding::Mulaw => PCMU,
            Encoding::Alaw => PCMA,
            Encoding::Linear => G722,
        }
    }

    /// Eight bytes are a millisecond of either: one byte is one tick of the clock, which runs at 8 kHz for G.722 too
    /// (RFC 3551, section 4.5.2). `None`: no bytes, or more than [`MAX_PAYLOAD`].
    pub(super) fn payload<'a>(&mut self, frame: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let fits = |length: usize| (1..=MAX_PAYLOAD).contains(&length);
        match self.format.encoding {
            Encoding::Mulaw | Encoding::Alaw => fits(frame.len()).then_some(Cow::Borrowed(frame)),
            // Four bytes of samples become one.
            Encoding::Linear if fits(frame.len() / 4) => {
                self.samples.clear();
                self.format.decode(frame, &mut self.samples);
                Some(Cow::Owned(self.g722.encode(&self.samples)))
            }
            Encoding::Linear => None,
        }
    }
}

/// From payloads to the leg's format. It has to see them in order: G.722 goes on where it stopped.
pub(super) struct Reader {
    format: Format,
    g722: G722Decoder,
}

impl Reader {
    pub(super) fn new(format: Format) -> Self {
        Self { format, g722: G722Decoder::new() }
    }

    /// Whether a leg of this format hears such payloads. Comfort noise and telephone events are not audio; keys come as
    /// events of ARI.
    pub(super) fn hears(&self, payload_type: u8) -> bool {
        match self.format.encoding {
            Encoding::Mulaw => payload_type == PCMU,
            Encoding::Alaw => payload_type == PCMA,
            Encoding::Linear => matches!(payload_type, SLIN16 | G722),
        }
    }

    pub(super) fn audio(&mut self, payload_type: u8, payload: Bytes) -> Result<Bytes, Discard> {
        match payload_type {
            // Half a sample would turn all that follows into noise.
            SLIN16 if payload.len() % 2 == 1 => Err(Discard::Malformed),
            SLIN16 => Ok(payload.chunks_exact(2).flat_map(|pair| [pair[1], pair[0]]).collect()),
            G722 => {
                let mut audio = Vec::with_capacity(payload.len() * 4);
                self.format.encode(&self.g722.decode(&payload), &mut audio);
                Ok(audio.into())
            }
            _ => Ok(payload),
        }
    }
}
