//! From one format to another, statefully, so that a stream stays one stream.

use super::{Encoding, Format, g711};
use audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler, WindowFunction};

/// The resampler holds back some 5 ms of signal; so much silence pushes the last of it out.
const TAIL_MS: usize = 5;

/// Converts one direction of one call. Equal formats pass through untouched; else samples are
/// decoded, resampled in blocks of 20 ms and encoded.
///
/// Odd bytes and blocks that are not full wait for the next [`push`](Self::push); see
/// [`flush`](Self::flush) for the end of an utterance.
pub struct Converter {
    from: Format,
    to: Format,
    resampler: Option<Block>,
    odd_byte: Option<u8>,
    samples: Vec<i16>,
}

impl Converter {
    pub fn new(from: Format, to: Format) -> Self {
        let resampler = (from.rate != to.rate).then(|| Block::new(from.rate, to.rate));
        Self { from, to, resampler, odd_byte: None, samples: Vec::new() }
    }

    pub fn is_identity(&self) -> bool {
        self.from == self.to
    }

    /// Appends to `out` what `bytes` become.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.is_identity() {
            out.extend_from_slice(bytes);
            return;
        }
        let mut samples = std::mem::take(&mut self.samples);
        self.decode(bytes, &mut samples);
        match &mut self.resampler {
            None => {
                self.to.encode(&samples, out);
                samples.clear();
            }
            Some(block) => block.push(&mut samples, |resampled| self.to.encode(resampled, out)),
        }
        self.samples = samples;
    }

    /// Ends an utterance: what still waits for a full block, or is held back by the filter, is padded with silence
    /// and converted, so that the last syllable is not heard at the start of the next answer.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        self.odd_byte = None;
        if self.resampler.is_some() {
            let samples = self.from.rate as usize * TAIL_MS / 1_000;
            self.push(&vec![self.from.silence(); samples * self.from.bytes_per_sample()], out);
        }
        let Some(block) = &mut self.resampler else { return };
        if !self.samples.is_empty() {
            self.samples.resize(block.input, 0);
            block.push(&mut self.samples, |resampled| self.to.encode(resampled, out));
        }
    }

    fn decode(&mut self, bytes: &[u8], samples: &mut Vec<i16>) {
        match self.from.encoding {
            Encoding::Mulaw => g711::decode(g711::Law::Mu, bytes, samples),
            Encoding::Alaw => g711::decode(g711::Law::A, bytes, samples),
            Encoding::Linear => {
                let mut bytes = bytes;
                if let (Some(low), [high, rest @ ..]) = (self.odd_byte, bytes) {
                    samples.push(i16::from_le_bytes([low, *high]));
                    self.odd_byte = None;
                    bytes = rest;
                }
                let pairs = bytes.chunks_exact(2);
                if let [last] = pairs.remainder() {
                    self.odd_byte = Some(*last);
                }
                samples.extend(pairs.map(|pair| i16::from_le_bytes([pair[0], pair[1]])));
            }
        }
    }
}

/// A resampler that eats 20 ms at a time. Two sub-chunks and a Blackman window keep the telephone
/// band flat and images 80 dB down, for 5 ms of delay.
struct Block {
    fft: Fft<f32>,
    input: usize,
    floats: Vec<f32>,
    resampled: Vec<f32>,
    ints: Vec<i16>,
}

impl Block {
    fn new(from: u32, to: u32) -> Self {
        let input = from as usize / 50;
        let fft = Fft::new_custom(from as usize, to as usize, input, 2, 1, WindowFunction::Blackman, FixedSync::Input)
            .expect("telephone rates are positive and give a whole number of samples in 20 ms");
        let resampled = vec![0.0; fft.output_frames_max()];
        Self { fft, input, floats: Vec::with_capacity(input), resampled, ints: Vec::new() }
    }

    /// Takes whole blocks off the front of `samples` and hands each converted block to `emit`.
    fn push(&mut self, samples: &mut Vec<i16>, mut emit: impl FnMut(&[i16])) {
        let whole = samples.len() / self.input * self.input;
        for block in samples[..whole].chunks_exact(self.input) {
            self.floats.clear();
            self.floats.extend(block.iter().map(|&sample| f32::from(sample) / 32_768.0));
            let room = self.resampled.len();
            let source = InterleavedSlice::new(&self.floats, 1, self.input).expect("one channel of `input` samples");
            let mut target =
                InterleavedSlice::new_mut(&mut self.resampled, 1, room).expect("one channel of `room` samples");
            let (_, written) = self
                .fft
                .process_into_buffer(&source, &mut target, None)
                .expect("the buffers have the sizes the resampler asked for");
            self.ints.clear();
            self.ints.extend(self.resampled[..written].iter().map(|&x| (x * 32_768.0).round() as i16));
            emit(&self.ints);
        }
        samples.drain(..whole);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rms_dbfs;
    use super::*;

    fn tone(rate: u32, hertz: f32, samples: usize) -> Vec<u8> {
        (0..samples)
            .map(|i| (8_000.0 * (std::f32::consts::TAU * hertz * i as f32 / rate as f32).sin()) as i16)
            .flat_map(i16::to_le_bytes)
            .collect()
    }

    fn samples(bytes: &[u8]) -> Vec<i16> {
        bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
    }

    #[test]
    fn equal_formats_pass_through_untouched() {
        let mut out = Vec::new();
        Converter::new(Format::ULAW, Format::ULAW).push(&[1, 2, 3], &mut out);
        assert_eq!(out, [1, 2, 3]);
    }

    #[test]
    fn a_tone_keeps_its_level_from_24_to_8_khz_and_nothing_above_4_khz_folds_back() {
        let through = |hertz| {
            let mut out = Vec::new();
            Converter::new(Format::SLIN24, Format::SLIN8).push(&tone(24_000, hertz, 24_000), &mut out);
            rms_dbfs(&samples(&out)[800..])
        };
        let reference = rms_dbfs(&samples(&tone(24_000, 1_000.0, 24_000)));
        assert!((through(1_000.0) - reference).abs() < 0.2);
        assert!(through(6_000.0) < reference - 60.0, "alias at {} dB", through(6_000.0) - reference);
    }

    #[test]
    fn a_stream_cut_anywhere_becomes_the_same_stream() {
        let input = tone(24_000, 440.0, 4_800);
        let (mut whole, mut cut) = (Vec::new(), Vec::new());
        Converter::new(Format::SLIN24, Format::ULAW).push(&input, &mut whole);
        let mut converter = Converter::new(Format::SLIN24, Format::ULAW);
        for piece in input.chunks(333) {
            converter.push(piece, &mut cut);
        }
        assert_eq!(whole, cut);
    }

    #[test]
    fn a_flush_brings_out_what_waited_for_a_full_block() {
        let mut converter = Converter::new(Format::SLIN24, Format::SLIN8);
        let mut out = Vec::new();
        converter.push(&tone(24_000, 440.0, 100), &mut out);
        assert!(out.is_empty());
        converter.flush(&mut out);
        assert_eq!(out.len(), Format::SLIN8.frame_bytes());
    }
}
