//! Recorded sounds that the engine itself can play: the apology, above all.

use super::{
    Converter, Encoding, Format,
    wav::{self, with_true_length},
};
use bytes::Bytes;
use std::{
    io::{Cursor, Read},
    path::Path,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

/// A mono recording in memory.
#[derive(Debug)]
pub struct Clip {
    rate: u32,
    samples: Vec<i16>,
    /// As calls have asked for it; there are as many entries as formats of legs.
    rendered: Mutex<Vec<(Format, Bytes)>>,
}

/// A sentence of which a recording is built in; it is in English.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltIn {
    Apology,
    Moment,
    Patience,
}

impl BuiltIn {
    pub const ALL: [Self; 3] = [Self::Apology, Self::Moment, Self::Patience];
}

/// A clip longer than this is a mistake, not a sentence.
const LENGTH_MAX: Duration = Duration::from_secs(5 * 60);
/// What recordings and voices come in: telephones' own rates, and those of speech programs and studios.
const RATES: [u32; 6] = [8_000, 16_000, 22_050, 24_000, 44_100, 48_000];

#[derive(Debug, thiserror::Error)]
pub enum ClipError {
    #[error("cannot read the WAV file: {0}")]
    Wav(#[from] hound::Error),
    #[error(
        "the sound has to be 16-bit mono at 8, 16, 22.05, 24, 44.1 or 48 kHz; it is {bits}-bit, {channels} \
         channels, {rate} Hz"
    )]
    Shape { bits: u16, channels: u16, rate: u32 },
    #[error("it is longer than {} s", LENGTH_MAX.as_secs())]
    TooLong,
    #[error("there is no sound in it")]
    Empty,
}

impl Format {
    /// Linear samples as files and programs describe them, if they can be played here.
    pub fn of_pcm(bits: u16, channels: u16, rate: u32) -> Result<Self, ClipError> {
        if bits == 16 && channels == 1 && RATES.contains(&rate) {
            Ok(Self { encoding: Encoding::Linear, rate })
        } else {
            Err(ClipError::Shape { bits, channels, rate })
        }
    }
}

impl Clip {
    pub fn open(path: &Path) -> Result<Self, ClipError> {
        Self::read(hound::WavReader::open(path)?)
    }

    /// A WAV file, or what a program has written to a pipe: such a one cannot know the length beforehand and puts a
    /// figure that is too large.
    pub fn from_wav(wav: &[u8]) -> Result<Self, ClipError> {
        Self::read(hound::WavReader::new(Cursor::new(with_true_length(wav)))?)
    }

    /// 16-bit mono.
    pub fn from_samples(rate: u32, samples: Vec<i16>) -> Result<Self, ClipError> {
        Format::of_pcm(16, 1, rate)?;
        if samples.len() as u64 > LENGTH_MAX.as_secs() * u64::from(rate) {
            return Err(ClipError::TooLong);
        }
        if samples.is_empty() {
            return Err(ClipError::Empty);
        }
        Ok(Self { rate, samples, rendered: Mutex::default() })
    }

    /// A sentence that needs no voice to be installed.
    pub fn built_in(sentence: BuiltIn) -> Arc<Self> {
        static APOLOGY: LazyLock<Arc<Clip>> = LazyLock::new(|| shipped(include_bytes!("apology.wav")));
        static MOMENT: LazyLock<Arc<Clip>> = LazyLock::new(|| shipped(include_bytes!("moment.wav")));
        static PATIENCE: LazyLock<Arc<Clip>> = LazyLock::new(|| shipped(include_bytes!("patience.wav")));

        Arc::clone(match sentence {
            BuiltIn::Apology => &APOLOGY,
            BuiltIn::Moment => &MOMENT,
            BuiltIn::Patience => &PATIENCE,
        })
    }

    fn read<R: Read>(mut wav: hound::WavReader<R>) -> Result<Self, ClipError> {
        let rate = wav::format(wav.spec())?.rate;
        if u64::from(wav.duration()) > LENGTH_MAX.as_secs() * u64::from(rate) {
            return Err(ClipError::TooLong);
        }
        Self::from_samples(rate, wav.samples::<i16>().collect::<Result<_, _>>()?)
    }

    /// How long it is heard.
    pub fn length(&self) -> Duration {
        Format { encoding: Encoding::Linear, rate: self.rate }.duration_of(self.samples.len() * 2)
    }

    /// The whole clip in `format`. It is resampled once, however many calls ask for it.
    pub fn render(&self, format: Format) -> Bytes {
        // The list is whole between any two statements that hold the lock.
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = rendered.iter().find(|(known, _)| *known == format) {
            return bytes.clone();
        }
        let bytes = self.convert(format);
        rendered.push((format, bytes.clone()));
        bytes
    }

    /// The clip again and again in `format`, from its beginning on; all who hear it share one rendering.
    pub fn looped(&self, format: Format) -> Looped {
        Looped { sound: self.render(format), at: 0, size: format.frame_bytes() }
    }

    fn convert(&self, format: Format) -> Bytes {
        let source = Format { encoding: Encoding::Linear, rate: self.rate };
        let bytes: Vec<u8> = self.samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let mut converter = Converter::new(source, format);
        let mut out = Vec::with_capacity(bytes.len());
        converter.push(&bytes, &mut out);
        converter.flush(&mut out);
        out.into()
    }
}

/// A recording without an end, frame by frame: the first sample follows the last at once.
#[derive(Debug)]
pub struct Looped {
    sound: Bytes,
    /// Of the next frame's first byte.
    at: usize,
    size: usize,
}

impl Looped {
    /// The next 20 ms.
    pub fn frame(&mut self) -> Bytes {
        let (from, end) = (self.at, self.at + self.size);
        self.at = end.checked_rem(self.sound.len()).unwrap_or_default();
        if end <= self.sound.len() {
            return self.sound.slice(from..end);
        }
        self.sound[from..].iter().chain(self.sound.iter().cycle()).take(self.size).copied().collect()
    }
}

/// A file of the source tree.
fn shipped(wav: &[u8]) -> Arc<Clip> {
    Arc::new(Clip::from_wav(wav).expect("the files in the source tree are 16-bit mono, which a test holds"))
}

#[cfg(test)]
mod tests {
    use super::super::rms_dbfs;
    use super::*;

    fn tone(rate: u32, hertz: f32, seconds: f32) -> Vec<i16> {
        let sample = |i: usize| 8_000.0 * (std::f32::consts::TAU * hertz * i as f32 / rate as f32).sin();
        (0..(rate as f32 * seconds) as usize).map(|i| sample(i) as i16).collect()
    }

    fn samples(bytes: &[u8]) -> Vec<i16> {
        bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
    }

    fn wav(rate: u32, samples: &[i16], data_length: Option<u32>) -> Vec<u8> {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: rate,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut file = Cursor::new(Vec::new());
        let mut writer = hound::WavWriter::new(&mut file, spec).unwrap();
        samples.iter().for_each(|sample| writer.write_sample(*sample).unwrap());
        writer.finalize().unwrap();
        let mut bytes = file.into_inner();
        if let Some(length) = data_length {
            let at = bytes.windows(4).position(|id| id == b"data").unwrap() + 4;
            bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_built_in_sentences_are_a_few_seconds_in_every_leg_format() {
        for (sentence, format) in BuiltIn::ALL
            .into_iter()
            .flat_map(|sentence| [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16].map(|f| (sentence, f)))
        {
            let length = format.duration_of(Clip::built_in(sentence).render(format).len());
            assert!((1..10).contains(&length.as_secs()), "{sentence:?} as {format}: {length:?}");
        }
    }

    /// 22.05 kHz is no multiple of anything a telephone has.
    #[test]
    fn a_clip_of_every_rate_keeps_its_pitch_level_and_length_in_every_leg_format() {
        for (rate, format) in
            RATES.into_iter().flat_map(|rate| [Format::SLIN8, Format::SLIN16, Format::SLIN24].map(|f| (rate, f)))
        {
            let clip = Clip::from_samples(rate, tone(rate, 1_000.0, 1.0)).unwrap();
            assert_eq!(clip.length().as_millis(), 1_000);
            let heard = samples(&clip.render(format));
            let length = heard.len() as f32 / format.rate as f32;
            assert!((0.99..=1.02).contains(&length), "{rate} as {format}: {length} s");
            let middle = &heard[format.rate as usize / 5..format.rate as usize * 4 / 5];
            assert!((rms_dbfs(middle) - rms_dbfs(&tone(8_000, 1_000.0, 1.0))).abs() < 0.3, "{rate} as {format}");
            let rising = middle.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
            assert!((598..=602).contains(&rising), "{rate} as {format}: {rising} periods in 0.6 s");
        }
    }

    #[test]
    fn what_no_telephone_carries_is_not_folded_into_its_band() {
        let clip = Clip::from_samples(22_050, tone(22_050, 6_000.0, 1.0)).unwrap();
        let heard = samples(&clip.render(Format::SLIN8));
        assert!(rms_dbfs(&heard[1_600..6_400]) < -70.0, "{}", rms_dbfs(&heard[1_600..6_400]));
    }

    #[test]
    fn a_clip_is_resampled_once_for_all_calls() {
        let clip = Clip::from_samples(22_050, tone(22_050, 440.0, 0.5)).unwrap();
        let (first, second) = (clip.render(Format::ULAW), clip.render(Format::ULAW));
        assert_eq!(first.as_ptr(), second.as_ptr(), "the very same bytes");
        assert_ne!(clip.render(Format::ALAW), first);
        assert_eq!(clip.rendered.lock().unwrap().len(), 2);
    }

    /// A program that writes to a pipe does not know how much it will write.
    #[test]
    fn the_length_in_the_header_of_a_streamed_file_is_not_believed() {
        let whole = tone(24_000, 440.0, 0.25);
        for length in [None, Some(u32::MAX), Some(0x7fff_f000)] {
            let clip = Clip::from_wav(&wav(24_000, &whole, length)).unwrap();
            assert_eq!((clip.rate, &clip.samples), (24_000, &whole), "{length:?}");
        }
    }

    #[test]
    fn what_is_no_sentence_is_refused() {
        let second = tone(8_000, 440.0, 1.0);
        assert!(matches!(Clip::from_samples(11_025, second.clone()), Err(ClipError::Shape { rate: 11_025, .. })));
        assert!(matches!(Clip::from_samples(8_000, vec![0; 8_000 * 301]), Err(ClipError::TooLong)));
        assert!(matches!(Clip::from_samples(8_000, Vec::new()), Err(ClipError::Empty)));
        assert!(matches!(Clip::from_wav(b"ID3 is no WAV file"), Err(ClipError::Wav(_))));
        assert!(matches!(Clip::from_wav(&wav(8_000, &second, None)[..20]), Err(ClipError::Wav(_))));
        assert!(matches!(Clip::from_wav(&wav(11_025, &second, None)), Err(ClipError::Shape { .. })));
    }
}
