//! Sound for tests: made of tones, speech-like noise and silence, and measured again after the call.

use super::world::{self, World};
use offhook::{
    audio::{Converter, Encoding, Format},
    speech::{self, Studio},
};
use serde_json::json;
use std::{
    f64::consts::TAU,
    ops::{Add, Range},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Samples per second of everything here: telephone audio, mono, 16 bits.
pub const RATE: u32 = 8000;
/// Samples in the 20 ms that are measured at a time.
const FRAME: usize = 160;
pub const FRAME_TIME: Duration = Duration::from_millis(20);

/// Level of the tones made here: −9 dBFS at the peak, a loud voice that G.711 passes unclipped.
const LEVEL: f64 = 11_600.0;
/// Level of the tones that emulated vendors speak: −12 dBFS at the peak.
const ENCODED_LEVEL: f64 = 8_000.0;
/// Root mean square below which a frame is silence: −50 dBFS, above the noise of G.711.
const SILENT_RMS: f64 = 100.0;
/// A frame belongs to a tone when this share of its power lies there.
const TONE_SHARE: f64 = 0.5;
/// A hole up to this long does not end a tone: the test phone's own buffer may run dry for a frame or
/// two on a busy machine. Longer ones are the system's under test.
const BRIDGED_FRAMES: usize = 5;
/// Anything shorter is not called a tone: at the edge between two sounds a frame can look like a third.
const SHORTEST_FRAMES: usize = 2;

/// Mono samples at 8 kHz.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sound {
    pub samples: Vec<i16>,
}

/// From when to when, counted from the beginning of the sound, to 20 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub begin: Duration,
    pub end: Duration,
}

impl Span {
    pub fn length(self) -> Duration {
        self.end - self.begin
    }

    /// Whether it was heard as long as it was said.
    pub fn is_whole(self, said: Duration) -> bool {
        is_whole(self.length(), said)
    }
}

/// Whether something was heard for as long as it was said. A real phone on a busy machine stretches what it hears; it cuts
/// nothing.
pub fn is_whole(heard: Duration, said: Duration) -> bool {
    const FRAMES: Duration = Duration::from_millis(60);
    let stretched = match world::current() {
        World::Real => Duration::from_millis(300),
        World::Emulated => FRAMES,
    };
    (said.saturating_sub(FRAMES)..=said + stretched).contains(&heard)
}

pub fn silence(length: Duration) -> Sound {
    Sound { samples: vec![0; samples_in(length)] }
}

pub fn tone(hz: f64, length: Duration) -> Sound {
    Sound { samples: sine(LEVEL, hz, RATE).take(samples_in(length)).collect() }
}

/// A tone in this format, at a quarter of full scale. Hundreds of scenes speak in the same few: each is made once.
pub fn encoded_tone(hertz: f32, length: Duration, format: Format) -> Arc<[u8]> {
    type Key = (u32, Duration, u32, Encoding);
    static MADE: Mutex<Vec<(Key, Arc<[u8]>)>> = Mutex::new(Vec::new());

    let key = (hertz.to_bits(), length, format.rate, format.encoding);
    let mut made = MADE.lock().expect("nobody panics while making a tone");
    if let Some((_, audio)) = made.iter().find(|(other, _)| *other == key) {
        return Arc::clone(audio);
    }
    let samples = (length.as_secs_f64() * f64::from(format.rate)).round() as usize;
    let pcm: Vec<u8> =
        sine(ENCODED_LEVEL, hertz.into(), format.rate).take(samples).flat_map(i16::to_le_bytes).collect();
    let mut audio = Vec::new();
    let mut converter = Converter::new(Format { encoding: Encoding::Linear, rate: format.rate }, format);
    converter.push(&pcm, &mut audio);
    converter.flush(&mut audio);
    let audio: Arc<[u8]> = audio.into();
    made.push((key, Arc::clone(&audio)));
    audio
}

fn sine(level: f64, hertz: f64, rate: u32) -> impl Iterator<Item = i16> {
    (0..).map(move |i| (level * (TAU * hertz * f64::from(i) / f64::from(rate)).sin()) as i16)
}

/// Something a detector of voices takes for one: harmonics of a gliding pitch under noise, in syllables
/// four times a second. Always the same for the same length.
pub fn speech(length: Duration) -> Sound {
    let mut noise: u32 = 0x2545_f491;
    let mut phase = 0.0;
    let sample = |i: usize| {
        let at = i as f64 / f64::from(RATE);
        phase += TAU * (130.0 + 25.0 * (TAU * 0.7 * at).sin()) / f64::from(RATE);
        let voice: f64 = (1..=12).map(|k| (f64::from(k) * phase).sin() / f64::from(k)).sum();
        noise ^= noise << 13;
        noise ^= noise >> 17;
        noise ^= noise << 5;
        let hiss = f64::from(noise) / f64::from(u32::MAX) - 0.5;
        // Between syllables the voice falls to a tenth, as in talk, but does not stop.
        let syllable = 0.1 + 0.9 * (TAU * 2.0 * at).sin().abs();
        (LEVEL * 0.5 * syllable * (voice + 0.3 * hiss)).clamp(-32_000.0, 32_000.0) as i16
    };
    Sound { samples: (0..samples_in(length)).map(sample).collect() }
}

/// One sound after the other: `silence(…) + tone(…)` is a timeline.
impl Add for Sound {
    type Output = Sound;
    fn add(mut self, later: Sound) -> Sound {
        self.samples.extend(later.samples);
        self
    }
}

/// The longest time in which this tone was not heard, between two in which it was.
pub fn longest_gap(heard: &Sound, hertz: f64) -> Duration {
    let spans = heard.spans_of(hertz);
    spans.windows(2).map(|two| two[1].begin - two[0].end).max().unwrap_or_default()
}

impl Sound {
    pub fn length(&self) -> Duration {
        Duration::from_secs_f64(self.samples.len() as f64 / f64::from(RATE))
    }

    /// The part between two times, cut where the sound ends.
    pub fn part(&self, range: Range<Duration>) -> Sound {
        let end = samples_in(range.end).min(self.samples.len());
        let begin = samples_in(range.start).min(end);
        Sound { samples: self.samples[begin..end].to_vec() }
    }

    /// Root mean square of all samples, 0 to 32767.
    pub fn rms(&self) -> f64 {
        power(&self.samples).sqrt()
    }

    /// Share of the power that lies at this frequency, 0 to 1, one value for each 20 ms; 0 for silence.
    pub fn shares_of(&self, hz: f64) -> Vec<f64> {
        self.frames().map(|frame| share(frame, hz)).collect()
    }

    /// Whether this tone is heard throughout.
    pub fn has_pitch(&self, hz: f64) -> bool {
        self.frames().all(|frame| share(frame, hz) > TONE_SHARE)
    }

    pub fn is_silent(&self) -> bool {
        self.rms() <= SILENT_RMS
    }

    /// When this tone is heard.
    pub fn spans_of(&self, hz: f64) -> Vec<Span> {
        spans(self.frames().map(|frame| share(frame, hz) > TONE_SHARE))
    }

    /// When anything is heard.
    pub fn loud_spans(&self) -> Vec<Span> {
        spans(self.frames().map(|frame| power(frame).sqrt() > SILENT_RMS))
    }

    /// How long this tone is heard, all in all.
    pub fn time_of(&self, hz: f64) -> Duration {
        self.spans_of(hz).into_iter().map(Span::length).sum()
    }

    pub fn has(&self, hz: f64) -> bool {
        !self.spans_of(hz).is_empty()
    }

    pub fn write_wav(&self, path: &Path) {
        self.write_wav_at(path, RATE);
    }

    /// As if it had so many samples per second: faster and higher, where they are more.
    pub fn write_wav_at(&self, path: &Path, rate: u32) {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: rate,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut writer = hound::WavWriter::create(path, spec).expect("a file in the test's own directory");
        let length = u32::try_from(self.samples.len()).expect("a few seconds of sound");
        let mut samples = writer.get_i16_writer(length);
        self.samples.iter().for_each(|&sample| samples.write_sample(sample));
        samples.flush().expect("room for a few seconds of sound");
        writer.finalize().expect("room for a few seconds of sound");
    }

    /// `None`: there is no such file, or it is not complete.
    pub fn read_wav(path: &Path) -> Option<Sound> {
        let samples = hound::WavReader::open(path).ok()?.samples().collect::<Result<_, _>>().ok()?;
        Some(Sound { samples })
    }

    /// Both sides of a recording at 8 kHz, the left one first; of one at 16 kHz every other sample.
    pub fn read_stereo(path: &Path) -> Option<[Sound; 2]> {
        let mut reader = hound::WavReader::open(path).ok()?;
        let (channels, step) = (reader.spec().channels, (reader.spec().sample_rate / RATE) as usize);
        assert_eq!((channels, reader.spec().bits_per_sample), (2, 16));
        let samples = reader.samples().collect::<Result<Vec<i16>, _>>().ok()?;
        let side = |side: usize| Sound { samples: samples.iter().skip(side).step_by(2 * step).copied().collect() };
        Some([side(0), side(1)])
    }

    fn frames(&self) -> impl Iterator<Item = &[i16]> {
        self.samples.chunks_exact(FRAME)
    }
}

/// These words as the engine's own voice says them on a line of this format.
pub fn built_in_voice(words: &str, format: Format) -> Vec<i16> {
    let speaker = speech::build("espeak_ng", &json!({})).expect("a voice");
    let (studio, texts) = (Studio::default(), [words].into());
    let clips = speech::wait_for(|| studio.render(&speaker, &texts)).expect("a thread").expect("espeak-ng speaks");
    samples_of(&clips[words].render(format), format)
}

/// Of any format, at its own rate.
pub fn samples_of(audio: &[u8], format: Format) -> Vec<i16> {
    let mut linear = Vec::new();
    Converter::new(format, Format { encoding: Encoding::Linear, rate: format.rate }).push(audio, &mut linear);
    linear.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}

fn samples_in(length: Duration) -> usize {
    (length.as_secs_f64() * f64::from(RATE)).round() as usize
}

fn power(samples: &[i16]) -> f64 {
    samples.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>() / samples.len().max(1) as f64
}

/// One bin of a Fourier transform (Goertzel) over one frame, as a share of the frame's power.
fn share(frame: &[i16], hz: f64) -> f64 {
    let all = power(frame);
    if all.sqrt() <= SILENT_RMS {
        return 0.0;
    }
    let turn = TAU * hz / f64::from(RATE);
    let factor = 2.0 * turn.cos();
    let (mut last, mut before) = (0.0, 0.0);
    for &sample in frame {
        (last, before) = (f64::from(sample) + factor * last - before, last);
    }
    let magnitude = last * last + before * before - factor * last * before;
    2.0 * magnitude / (frame.len() as f64).powi(2) / all
}

fn spans(frames: impl Iterator<Item = bool>) -> Vec<Span> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (i, _) in frames.enumerate().filter(|&(_, is)| is) {
        match found.last_mut() {
            Some(last) if i - last.end <= BRIDGED_FRAMES => last.end = i + 1,
            _ => found.push(i..i + 1),
        }
    }
    found.retain(|span| span.len() >= SHORTEST_FRAMES);
    let at = |frame: usize| FRAME_TIME * u32::try_from(frame).expect("a sound of less than years");
    found.into_iter().map(|span| Span { begin: at(span.start), end: at(span.end) }).collect()
}
