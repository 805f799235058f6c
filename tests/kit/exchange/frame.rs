//! Audio between channels: frames, codecs, and the change of rate where two channels differ.

use audio_codec::{
    Decoder as _, Encoder as _,
    g722::{G722Decoder, G722Encoder},
    pcma::{PcmaDecoder, PcmaEncoder},
    pcmu::{PcmuDecoder, PcmuEncoder},
};
use bytes::Bytes;
use std::f32::consts::PI;

/// What one channel passes to another at a time.
#[derive(Debug, Clone)]
pub enum Frame {
    /// Signed 16-bit samples.
    Linear { rate: u32, samples: Vec<i16> },
    /// A packet that is passed on as it is: this Asterisk has no Opus of its own.
    Opus(Bytes),
}

impl Frame {
    pub const fn linear(rate: u32, samples: Vec<i16>) -> Self {
        Self::Linear { rate, samples }
    }
}

/// The format of a channel, by Asterisk's own names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    Linear(u32),
    Ulaw,
    Alaw,
    G722,
    Opus,
}

/// Rates of signed linear, with their names.
pub const LINEAR: [(&str, u32); 9] = [
    ("slin", 8_000),
    ("slin12", 12_000),
    ("slin16", 16_000),
    ("slin24", 24_000),
    ("slin32", 32_000),
    ("slin44", 44_100),
    ("slin48", 48_000),
    ("slin96", 96_000),
    ("slin192", 192_000),
];

impl Codec {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "ulaw" => Some(Self::Ulaw),
            "alaw" => Some(Self::Alaw),
            "g722" => Some(Self::G722),
            "opus" => Some(Self::Opus),
            _ => LINEAR.iter().find(|(known, _)| *known == name).map(|(_, rate)| Self::Linear(*rate)),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Ulaw => "ulaw",
            Self::Alaw => "alaw",
            Self::G722 => "g722",
            Self::Opus => "opus",
            Self::Linear(rate) => LINEAR.iter().find(|(_, known)| *known == rate).map_or("slin", |(name, _)| name),
        }
    }

    /// Samples per second before encoding; Opus is not understood and has none.
    pub const fn rate(self) -> u32 {
        match self {
            Self::Linear(rate) => rate,
            Self::Ulaw | Self::Alaw => 8_000,
            Self::G722 | Self::Opus => 16_000,
        }
    }

    /// Bytes of 20 ms, as in `optimal_frame_size`; packets of Opus have no size.
    pub const fn frame_bytes(self) -> usize {
        match self {
            Self::Linear(rate) => rate as usize / 50 * 2,
            Self::Ulaw | Self::Alaw | Self::G722 => 160,
            Self::Opus => 0,
        }
    }
}

/// Makes the bytes of a codec of whatever a bridge passes on.
pub struct Encoder {
    codec: Codec,
    resampler: Option<Resampler>,
    ulaw: PcmuEncoder,
    alaw: PcmaEncoder,
    g722: G722Encoder,
}

impl Encoder {
    pub fn new(codec: Codec) -> Self {
        let (ulaw, alaw, g722) = (PcmuEncoder::new(), PcmaEncoder::new(), G722Encoder::new());
        Self { codec, resampler: None, ulaw, alaw, g722 }
    }

    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// Samples at the rate of the codec; `None`: there is no path to translate.
    pub fn samples(&mut self, frame: &Frame) -> Option<Vec<i16>> {
        match frame {
            Frame::Linear { rate, samples } if self.codec != Codec::Opus => {
                Some(resampled(&mut self.resampler, samples, *rate, self.codec.rate()))
            }
            _ => None,
        }
    }

    /// Bytes as they travel; samples are little-endian. `None`: there is no path to translate.
    pub fn bytes(&mut self, frame: &Frame) -> Option<Bytes> {
        if let (Frame::Opus(packet), Codec::Opus) = (frame, self.codec) {
            return Some(packet.clone());
        }
        let samples = self.samples(frame)?;
        Some(match self.codec {
            Codec::Linear(_) => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
            Codec::Ulaw => self.ulaw.encode(&samples).into(),
            Codec::Alaw => self.alaw.encode(&samples).into(),
            Codec::G722 => self.g722.encode(&samples).into(),
            Codec::Opus => return None,
        })
    }
}

/// Makes frames of the bytes of a codec.
pub struct Decoder {
    codec: Codec,
    ulaw: PcmuDecoder,
    alaw: PcmaDecoder,
    g722: G722Decoder,
}

impl Decoder {
    pub fn new(codec: Codec) -> Self {
        let (ulaw, alaw, g722) = (PcmuDecoder::new(), PcmaDecoder::new(), G722Decoder::new());
        Self { codec, ulaw, alaw, g722 }
    }

    pub fn frame(&mut self, bytes: &[u8]) -> Frame {
        match self.codec {
            Codec::Linear(rate) => Frame::linear(rate, little_endian(bytes)),
            Codec::Ulaw => Frame::linear(8_000, self.ulaw.decode(bytes).to_vec()),
            Codec::Alaw => Frame::linear(8_000, self.alaw.decode(bytes).to_vec()),
            Codec::G722 => Frame::linear(16_000, self.g722.decode(bytes).to_vec()),
            Codec::Opus => Frame::Opus(Bytes::copy_from_slice(bytes)),
        }
    }
}

pub fn little_endian(bytes: &[u8]) -> Vec<i16> {
    bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}

/// The samples at another rate. `resampler` is kept between the frames of one direction.
pub fn resampled(resampler: &mut Option<Resampler>, samples: &[i16], from: u32, to: u32) -> Vec<i16> {
    if from == to {
        return samples.to_vec();
    }
    let fits = resampler.as_ref().is_some_and(|resampler| (resampler.from, resampler.to) == (from, to));
    if !fits {
        *resampler = Some(Resampler::new(from, to));
    }
    resampler.as_mut().expect("set above").push(samples)
}

/// Zero crossings of the filter on each side of its centre.
const CROSSINGS: u32 = 12;
/// The edge of the filter, as a share of what the lower rate can carry.
const EDGE: f32 = 0.92;

/// A windowed sinc, in phases. A frame of 20 ms becomes exactly one of 20 ms.
pub struct Resampler {
    from: u32,
    to: u32,
    /// Steps of input for `phases.len()` samples of output.
    step: usize,
    phases: Vec<Vec<f32>>,
    /// What the filter still needs, and where the next sample's filter begins in it.
    history: Vec<f32>,
    phase: usize,
}

impl Resampler {
    fn new(from: u32, to: u32) -> Self {
        let common = gcd(from, to);
        let (phases, step) = ((to / common) as usize, (from / common) as usize);
        let scale = (to as f32 / from as f32).min(1.0) * EDGE;
        let half = (CROSSINGS * from.div_ceil(to).max(1)) as usize;
        let coefficient = |phase: usize, tap: usize| {
            let at = tap as f32 - half as f32 - phase as f32 / phases as f32;
            let window = 0.5 + 0.5 * (PI * at / (half as f32 + 1.0)).cos();
            scale * sinc(at * scale) * window
        };
        let filter = |phase: usize| (0..=2 * half).map(|tap| coefficient(phase, tap)).collect();
        let phases = (0..phases).map(filter).collect();
        Self { from, to, step, phases, history: vec![0.0; 2 * half], phase: 0 }
    }

    fn push(&mut self, samples: &[i16]) -> Vec<i16> {
        self.history.extend(samples.iter().map(|&sample| f32::from(sample)));
        let (mut out, mut begin) = (Vec::with_capacity(samples.len() * self.phases.len() / self.step + 1), 0);
        loop {
            let filter = &self.phases[self.phase];
            let Some(window) = self.history.get(begin..begin + filter.len()) else { break };
            let sum: f32 = window.iter().zip(filter).map(|(sample, factor)| sample * factor).sum();
            out.push(sum.round().clamp(-32_768.0, 32_767.0) as i16);
            self.phase += self.step;
            begin += self.phase / self.phases.len();
            self.phase %= self.phases.len();
        }
        self.history.drain(..begin.min(self.history.len()));
        out
    }
}

fn sinc(x: f32) -> f32 {
    if x.abs() < 1e-6 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
