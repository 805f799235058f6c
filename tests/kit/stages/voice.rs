//! Voices by every protocol: tones, in the format that was asked for.

use super::{Asked, Bit, Reply};
use crate::kit::{audio::encoded_tone, vendor::converted};
use offhook::audio::{Encoding, Format};
use std::time::Duration;

/// What a Wyoming server makes; its clients take what comes.
pub const WYOMING: Format = Format { encoding: Encoding::Linear, rate: 22_050 };

/// No sound at all, as this voice says that.
pub fn is_empty(asked: &Asked) -> Reply {
    speaks(asked, 440.0, Duration::ZERO)
}

/// A sound that breaks off after so much of it.
pub fn breaks_off(asked: &Asked, hz: f64, after: Duration, how: Bit) -> Reply {
    let mut reply = speaks(asked, hz, after);
    // So that it has come before the connection goes.
    reply.bits.extend([Bit::Wait(Duration::from_millis(100)), how]);
    reply
}

/// The same answer in pieces of these sizes, over and over.
pub fn in_pieces(reply: Reply, sizes: &[usize]) -> Reply {
    let bytes: Vec<u8> =
        reply.bits.iter().flat_map(|bit| if let Bit::Bytes(bytes) = bit { &bytes[..] } else { &[] }).copied().collect();
    let (mut rest, mut bits) = (&bytes[..], Vec::new());
    for size in sizes.iter().cycle() {
        let (piece, more) = rest.split_at((*size).min(rest.len()));
        bits.push(Bit::Bytes(piece.to_vec()));
        rest = more;
        if rest.is_empty() {
            break;
        }
    }
    Reply { bits, ..reply }
}

/// A tone for a clause.
pub fn speaks(asked: &Asked, hz: f64, length: Duration) -> Reply {
    sounds(asked, &encoded_tone(hz as f32, length, format(asked)))
}

/// These samples of 8 kHz for a clause.
pub fn says(asked: &Asked, samples: &[i16]) -> Reply {
    sounds(asked, &converted(samples, format(asked)))
}

fn sounds(asked: &Asked, audio: &[u8]) -> Reply {
    let format = format(asked);
    if has_head(asked) {
        return wav(format, audio, &[usize::MAX]);
    }
    Reply::whole("application/octet-stream", audio)
}

/// The same a tenth of a second at a time, four fifths of it after each other.
pub fn speaks_slowly(asked: &Asked, hz: f64, length: Duration) -> Reply {
    let mut reply = speaks(asked, hz, length);
    let bytes: Vec<u8> =
        reply.bits.drain(..).flat_map(|bit| if let Bit::Bytes(bytes) = bit { bytes } else { vec![] }).collect();
    let tenth = format(asked).frame_bytes() * 5;
    for piece in bytes.chunks(tenth) {
        reply.bits.extend([Bit::Bytes(piece.to_vec()), Bit::Wait(Duration::from_millis(80))]);
    }
    reply
}

/// A WAV file as it is streamed: its lengths are not known yet. It comes in pieces of these sizes, over and over.
pub fn wav(format: Format, audio: &[u8], sizes: &[usize]) -> Reply {
    let mut file = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    file.extend(format.rate.to_le_bytes());
    file.extend((2 * format.rate).to_le_bytes());
    file.extend(b"\x02\0\x10\0data\xff\xff\xff\xff");
    file.extend(audio);
    in_pieces(Reply::whole("audio/wav", file), sizes)
}

fn has_head(asked: &Asked) -> bool {
    asked.path.ends_with("/audio/speech") && asked.body["response_format"] == "wav"
}

/// What was asked for, as each vendor is told it.
pub fn format(asked: &Asked) -> Format {
    let is = |written: &str| asked.path.contains(written);
    match () {
        () if asked.path == "synthesize" => WYOMING,
        () if is("ulaw_8000") || is("encoding=mulaw") => Format::ULAW,
        () if is("alaw_8000") || is("encoding=alaw") => Format::ALAW,
        () if is("pcm_16000") || is("sample_rate=16000") => Format::SLIN16,
        () if is("sample_rate=8000") => Format::SLIN8,
        () => Format::SLIN24,
    }
}

impl Asked {
    /// What is to be spoken.
    pub fn text(&self) -> &str {
        self.body["input"].as_str().or(self.body["text"].as_str()).unwrap_or_default()
    }
}
