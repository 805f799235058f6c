//! Recorded sounds that the engine itself can play: the apology, above all.

use super::{Converter, Format};
use bytes::Bytes;
use std::{io::Read, path::Path, time::Duration};

/// A mono recording in memory.
#[derive(Debug, Clone)]
pub struct Clip {
    rate: u32,
    samples: Vec<i16>,
}

/// What callers hear where no other sound is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sentence {
    Apology,
    Moment,
    Patience,
}

impl Sentence {
    pub const ALL: [Self; 3] = [Self::Apology, Self::Moment, Self::Patience];

    pub const fn text(self) -> &'static str {
        match self {
            Self::Apology => "I am sorry, we have a technical problem, and I cannot go on with this call.",
            Self::Moment => "One moment, please.",
            Self::Patience => "I am still here. It takes a little longer, please stay on the line.",
        }
    }
}

/// A clip longer than this is a mistake in the configuration, not a sentence.
const LENGTH_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum ClipError {
    #[error("cannot read the WAV file: {0}")]
    Wav(#[from] hound::Error),
    #[error("the WAV file has to be 16-bit mono at 8, 16 or 24 kHz; it is {bits}-bit, {channels} channels, {rate} Hz")]
    Shape { bits: u16, channels: u16, rate: u32 },
    #[error("the WAV file is longer than {} s", LENGTH_MAX.as_secs())]
    TooLong,
}

impl Clip {
    pub fn open(path: &Path) -> Result<Self, ClipError> {
        Self::read(hound::WavReader::open(path)?)
    }

    /// A sentence that needs no voice to be installed.
    pub fn built_in(sentence: Sentence) -> Self {
        let wav: &[u8] = match sentence {
            Sentence::Apology => include_bytes!("apology.wav"),
            Sentence::Moment => include_bytes!("moment.wav"),
            Sentence::Patience => include_bytes!("patience.wav"),
        };
        hound::WavReader::new(wav)
            .map_err(ClipError::from)
            .and_then(Self::read)
            .expect("the files in the source tree are 16-bit mono, which a test holds")
    }

    fn read<R: Read>(mut wav: hound::WavReader<R>) -> Result<Self, ClipError> {
        let spec = wav.spec();
        let shape = ClipError::Shape { bits: spec.bits_per_sample, channels: spec.channels, rate: spec.sample_rate };
        let pcm = spec.sample_format == hound::SampleFormat::Int && spec.bits_per_sample == 16;
        if !pcm || spec.channels != 1 || ![8_000, 16_000, 24_000].contains(&spec.sample_rate) {
            return Err(shape);
        }
        if u64::from(wav.duration()) > LENGTH_MAX.as_secs() * u64::from(spec.sample_rate) {
            return Err(ClipError::TooLong);
        }
        let samples = wav.samples::<i16>().collect::<Result<_, _>>()?;
        Ok(Self { rate: spec.sample_rate, samples })
    }

    /// The whole clip in `format`.
    pub fn render(&self, format: Format) -> Bytes {
        let source = Format { encoding: super::Encoding::Linear, rate: self.rate };
        let bytes: Vec<u8> = self.samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let mut converter = Converter::new(source, format);
        let mut out = Vec::with_capacity(bytes.len());
        converter.push(&bytes, &mut out);
        converter.flush(&mut out);
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_sentences_are_a_few_seconds_in_every_leg_format() {
        for (sentence, format) in Sentence::ALL
            .into_iter()
            .flat_map(|sentence| [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16].map(|f| (sentence, f)))
        {
            let length = format.duration_of(Clip::built_in(sentence).render(format).len());
            assert!((1..10).contains(&length.as_secs()), "{sentence:?} as {format}: {length:?}");
        }
    }
}
