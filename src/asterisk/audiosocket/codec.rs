//! The frames of AudioSocket, as bytes and back.
//!
//! Source: "AudioSocket" in the Asterisk documentation, and what Asterisk 22 does on the wire. A
//! frame is one byte of kind, two bytes of payload length (big endian), the payload; audio is
//! signed 16-bit linear, little endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::io;
use tokio_util::codec::{Decoder, Encoder};
use uuid::Uuid;

/// Half a second at 16 kHz, and twice the longest frame Asterisk makes (20 ms at 192 kHz). The
/// format allows 65,535; who sends that is not Asterisk.
pub const MAX_PAYLOAD: usize = 16_384;

const HEADER: usize = 3;
pub(super) const HANG_UP: u8 = 0x00;
pub(super) const ID: u8 = 0x01;
pub(super) const DIGIT: u8 = 0x03;
const AUDIO: u8 = 0x10;
const ERROR: u8 = 0xff;
/// Samples per second of the kinds 0x10, 0x11, …
pub(in crate::asterisk) const RATES: [u32; 9] =
    [8_000, 12_000, 16_000, 24_000, 32_000, 44_100, 48_000, 96_000, 192_000];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// To Asterisk: end. The dialplan goes on after `AudioSocket()`.
    HangUp,
    /// From Asterisk, first of all: which call this is.
    Id(Uuid),
    /// From Asterisk: a key, when it is released.
    Digit(char),
    Audio {
        /// Samples per second.
        rate: u32,
        samples: Bytes,
    },
    /// Reserved; Asterisk 22 never sends it.
    Error,
    /// A kind that this version does not know.
    Unknown { kind: u8 },
    /// A known kind whose payload is not what that kind carries.
    Malformed { kind: u8 },
}

#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    #[error("AudioSocket frame of kind {kind:#04x} and {length} bytes; the limit is {MAX_PAYLOAD}")]
    Oversize { kind: u8, length: usize },
    #[error("not a frame that can be sent")]
    NotSendable,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Both directions, for either side: the engine, and a synthetic Asterisk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Codec;

impl Decoder for Codec {
    type Item = Frame;
    type Error = CodecError;

    /// An error is final: where the next frame begins is unknown.
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Frame>, CodecError> {
        let &[kind, high, low, ..] = &bytes[..] else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length > MAX_PAYLOAD {
            return Err(CodecError::Oversize { kind, length });
        }
        if bytes.len() < HEADER + length {
            bytes.reserve(HEADER + length - bytes.len());
            return Ok(None);
        }
        bytes.advance(HEADER);
        Ok(Some(Frame::new(kind, bytes.split_to(length).freeze())))
    }
}

impl Frame {
    fn new(kind: u8, payload: Bytes) -> Self {
        match (kind, rate_of(kind)) {
            (HANG_UP, _) => Self::HangUp,
            (ID, _) => Uuid::from_slice(&payload).map_or(Self::Malformed { kind }, Self::Id),
            (DIGIT, _) => match payload[..] {
                [digit @ (b'0'..=b'9' | b'*' | b'#' | b'A'..=b'D' | b'a'..=b'd')] => {
                    Self::Digit(char::from(digit).to_ascii_uppercase())
                }
                _ => Self::Malformed { kind },
            },
            // Half a sample would turn all that follows into noise.
            (_, Some(_)) if payload.is_empty() || payload.len() % 2 == 1 => Self::Malformed { kind },
            (_, Some(rate)) => Self::Audio { rate, samples: payload },
            (ERROR, _) => Self::Error,
            _ => Self::Unknown { kind },
        }
    }
}

impl Encoder<Frame> for Codec {
    type Error = CodecError;

    fn encode(&mut self, frame: Frame, out: &mut BytesMut) -> Result<(), CodecError> {
        match frame {
            Frame::HangUp => put(HANG_UP, &[], out),
            Frame::Id(id) => put(ID, id.as_bytes(), out),
            Frame::Digit(digit) if digit.is_ascii() => put(DIGIT, &[digit as u8], out),
            Frame::Audio { rate, samples } => put(kind_of(rate).ok_or(CodecError::NotSendable)?, &samples, out),
            Frame::Error => put(ERROR, &[], out),
            Frame::Digit(_) | Frame::Unknown { .. } | Frame::Malformed { .. } => Err(CodecError::NotSendable),
        }
    }
}

/// Samples per second, of a kind that is audio.
pub(super) fn rate_of(kind: u8) -> Option<u32> {
    kind.checked_sub(AUDIO).and_then(|index| RATES.get(usize::from(index))).copied()
}

pub(super) fn kind_of(rate: u32) -> Option<u8> {
    (AUDIO..).zip(RATES).find_map(|(kind, known)| (known == rate).then_some(kind))
}

pub(super) fn put(kind: u8, payload: &[u8], out: &mut BytesMut) -> Result<(), CodecError> {
    match u16::try_from(payload.len()) {
        Ok(length) if payload.len() <= MAX_PAYLOAD => {
            out.reserve(HEADER + payload.len());
            out.put_u8(kind);
            out.put_u16(length);
            out.put_slice(payload);
            Ok(())
        }
        _ => Err(CodecError::Oversize { kind, length: payload.len() }),
    }
}
