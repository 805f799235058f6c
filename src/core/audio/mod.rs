//! Samples and how they are written down. No I/O.
//!
//! Invariant: audio moves through the engine in [frames](FRAME) of 20 ms, as bytes in the
//! [`Format`] of the leg that carries the call, so a leg and a provider that speak the same
//! format exchange bytes untouched.

mod clip;
mod convert;
pub mod g711;
mod gain;
mod level;
pub mod opus;
mod ringback;
mod voice;
mod wav;

pub use clip::{BuiltIn, Clip, ClipError, Looped};
pub use convert::Converter;
pub use gain::attenuate;
pub use level::{Activity, ActivityDetector, rms_dbfs};
pub use ringback::{RingBack, RingTone};
pub use voice::{Heard, VoiceDetector};
pub use wav::WavHead;
#[doc(hidden)]
pub use wav::fuzz;

use std::{fmt, str::FromStr, time::Duration};

/// Every frame lasts 20 ms: the packet time of telephone RTP (RFC 3551, section 4.5) and what
/// Asterisk expects from AudioSocket.
pub const FRAME: Duration = Duration::from_millis(20);

/// What is quieter is not heard over a telephone: voices are at -20 dBFS there, the noise of a line at -60, and the end of a
/// recording between -70 and nothing.
pub const AUDIBLE_DBFS: f32 = -50.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Signed 16-bit linear PCM, little endian, mono.
    Linear,
    /// G.711 µ-law (RTP payload type 0).
    Mulaw,
    /// G.711 A-law (RTP payload type 8).
    Alaw,
}

/// How samples are written as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    pub encoding: Encoding,
    /// Samples per second.
    pub rate: u32,
}

impl Format {
    pub const ULAW: Self = Self { encoding: Encoding::Mulaw, rate: 8_000 };
    pub const ALAW: Self = Self { encoding: Encoding::Alaw, rate: 8_000 };
    pub const SLIN8: Self = Self { encoding: Encoding::Linear, rate: 8_000 };
    pub const SLIN16: Self = Self { encoding: Encoding::Linear, rate: 16_000 };
    pub const SLIN24: Self = Self { encoding: Encoding::Linear, rate: 24_000 };
    pub const SLIN48: Self = Self { encoding: Encoding::Linear, rate: 48_000 };

    pub const fn bytes_per_sample(self) -> usize {
        match self.encoding {
            Encoding::Linear => 2,
            Encoding::Mulaw | Encoding::Alaw => 1,
        }
    }

    /// Bytes of one 20 ms frame.
    pub const fn frame_bytes(self) -> usize {
        self.rate as usize / 50 * self.bytes_per_sample()
    }

    /// The byte that, repeated, is silence.
    pub const fn silence(self) -> u8 {
        match self.encoding {
            Encoding::Linear => 0x00,
            Encoding::Mulaw => 0xff,
            Encoding::Alaw => 0xd5,
        }
    }

    /// How many bytes at the end of a sound nobody hears: what follows its last 20 ms as loud as [`AUDIBLE_DBFS`].
    pub fn quiet_end(self, bytes: &[u8]) -> usize {
        let whole = bytes.len() / self.bytes_per_sample() * self.bytes_per_sample();
        let mut samples = Vec::new();
        let mut quiet = bytes.len() - whole;
        // From the end: of most sounds that is one frame to look at.
        for frame in bytes[..whole].rchunks(self.frame_bytes()) {
            samples.clear();
            self.decode(frame, &mut samples);
            if rms_dbfs(&samples) >= AUDIBLE_DBFS {
                break;
            }
            quiet += frame.len();
        }
        quiet
    }

    /// Appends the samples of `bytes`; half a sample at the end is left out.
    pub fn decode(self, bytes: &[u8], samples: &mut Vec<i16>) {
        match self.encoding {
            Encoding::Mulaw => g711::decode(g711::Law::Mu, bytes, samples),
            Encoding::Alaw => g711::decode(g711::Law::A, bytes, samples),
            Encoding::Linear => {
                samples.extend(bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])));
            }
        }
    }

    /// Appends the bytes of `samples`.
    pub fn encode(self, samples: &[i16], bytes: &mut Vec<u8>) {
        match self.encoding {
            Encoding::Mulaw => g711::encode(g711::Law::Mu, samples, bytes),
            Encoding::Alaw => g711::encode(g711::Law::A, samples, bytes),
            Encoding::Linear => bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes())),
        }
    }

    /// How long `bytes` of this format last.
    pub fn duration_of(self, bytes: usize) -> Duration {
        let samples = (bytes / self.bytes_per_sample()) as u64;
        Duration::from_nanos(samples * 1_000_000_000 / u64::from(self.rate))
    }

    /// Asterisk's name of the format.
    pub const fn name(self) -> &'static str {
        match (self.encoding, self.rate) {
            (Encoding::Mulaw, _) => "ulaw",
            (Encoding::Alaw, _) => "alaw",
            (Encoding::Linear, 16_000) => "slin16",
            (Encoding::Linear, 24_000) => "slin24",
            (Encoding::Linear, 48_000) => "slin48",
            (Encoding::Linear, _) => "slin",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown audio format \"{0}\"; known: ulaw, alaw, slin, slin16, slin24, slin48")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "ulaw" => Ok(Self::ULAW),
            "alaw" => Ok(Self::ALAW),
            "slin" => Ok(Self::SLIN8),
            "slin16" => Ok(Self::SLIN16),
            "slin24" => Ok(Self::SLIN24),
            "slin48" => Ok(Self::SLIN48),
            _ => Err(UnknownFormat(name.to_owned())),
        }
    }
}
