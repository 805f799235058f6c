//! Whether somebody speaks in what a caller sends, frame by frame.
//!
//! The judge is a small neural network, `earshot`; its weights are inside the crate. It was made for
//! wide-band audio: with nothing above 4 kHz it takes steady noise for speech, so that telephone audio
//! gets a little white noise over the whole band before it is judged.

use super::{Converter, Format, level::VoiceLevel};
use std::f32::consts::{PI, TAU};

/// What the network takes: 16 ms at 16 kHz.
const WINDOW: usize = 256;
/// From here on a frame may be speech.
const SPEECH: f32 = 0.4;
/// The least noise that is added, and the most: no more than the line brings along by itself, and never
/// so much that a quiet caller drowns in it.
const DITHER_DBFS: std::ops::RangeInclusive<f32> = -60.0..=-45.0;
/// So far below the line's own noise.
const DITHER_BELOW_FLOOR_DB: f32 = 3.0;

/// One frame of 20 ms as it was heard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heard {
    /// How surely it is speech, from 0 to 1.
    pub probability: f32,
    /// How much of it repeats with the pitch of a voice, from 0 to 1: vowels do, coughs and rustling do not, which
    /// the network takes for speech. Measured only where that says speech, else 0.
    pub voicing: f32,
    /// Without what lies below a telephone's band, as is the floor.
    pub level_dbfs: f32,
    /// What the line sounds like when nobody speaks.
    pub floor_dbfs: f32,
}

/// Listens to one caller: bytes in, a judgement for each 20 ms out. Equal bytes give equal judgements.
pub struct VoiceDetector {
    format: Format,
    network: Box<earshot::Detector>,
    widened: Widened,
    dither: Dither,
    gain: Gain,
    raises: bool,
    level: VoiceLevel,
    floor: NoiseFloor,
    noise: Noise,
    pitch: Pitch,
    rest: Rest,
    /// What is not yet a whole frame.
    bytes: Vec<u8>,
    samples: Vec<i16>,
    /// At 16 kHz, what is not yet a whole window.
    wide: Vec<f32>,
}

impl VoiceDetector {
    pub fn new(format: Format) -> Self {
        Self {
            format,
            network: Box::default(),
            widened: Widened::new(format),
            dither: Dither(1),
            gain: Gain(Gain::BEGINS_DBFS),
            raises: false,
            level: VoiceLevel::new(format.rate),
            floor: NoiseFloor::new(),
            noise: Noise(QUIET_LINE_DBFS),
            pitch: Pitch::new(format),
            rest: Rest::default(),
            bytes: Vec::new(),
            samples: Vec::new(),
            wide: Vec::new(),
        }
    }

    /// Sets whether soft sound is raised. It is while the agent is silent: a soft caller is heard then, and nobody can be interrupted.
    pub fn raise(&mut self, raises: bool) {
        self.raises = raises;
    }

    /// Takes any number of bytes and appends a judgement for each frame that they complete.
    pub fn hear(&mut self, audio: &[u8], heard: &mut Vec<Heard>) {
        self.bytes.extend_from_slice(audio);
        let bytes = std::mem::take(&mut self.bytes);
        let mut frames = bytes.chunks_exact(self.format.frame_bytes());
        heard.extend(frames.by_ref().map(|frame| self.judge(frame)));
        self.bytes.extend_from_slice(frames.remainder());
    }

    fn judge(&mut self, frame: &[u8]) -> Heard {
        self.samples.clear();
        self.format.decode(frame, &mut self.samples);
        let level_dbfs = self.level.of(&self.samples);
        let quietest_heard = self.floor.hear(level_dbfs);
        let rested = self.rest.rests();
        self.rest.hear(level_dbfs, self.noise.0.max(quietest_heard));
        if self.rest.rests() {
            // More than half of a call is this: asking the network about it would be half of what the ears cost.
            let noise = self.noise.hear(level_dbfs, 0.0);
            return Heard { probability: 0.0, voicing: 0.0, level_dbfs, floor_dbfs: noise.max(quietest_heard) };
        }
        if rested {
            // What it still has in mind is a word from before the silence.
            self.network.reset();
        }
        let before = self.wide.len();
        self.widened.push(frame, &self.samples, &mut self.wide);
        let (quietest, loudest) = (*DITHER_DBFS.start(), *DITHER_DBFS.end());
        self.dither.add(&mut self.wide[before..], (quietest_heard - DITHER_BELOW_FLOOR_DB).clamp(quietest, loudest));
        if self.raises {
            let gain = self.gain.of(level_dbfs);
            self.wide[before..].iter_mut().for_each(|sample| *sample = (*sample * gain).clamp(-1.0, 1.0));
        }
        // 20 ms end one window or two; the surer one counts.
        let mut windows = self.wide.chunks_exact(WINDOW);
        let probability = windows.by_ref().map(|window| self.network.predict_f32(window)).fold(0.0, f32::max);
        if self.raises && probability >= SPEECH {
            self.gain.hear(level_dbfs);
        }
        let judged = self.wide.len() - windows.remainder().len();
        self.wide.drain(..judged);
        self.pitch.push(&self.samples);
        let voicing = if probability >= SPEECH { self.pitch.voicing() } else { 0.0 };
        let floor_dbfs = self.noise.hear(level_dbfs, probability).max(quietest_heard);
        Heard { probability, voicing, level_dbfs, floor_dbfs }
    }
}

impl std::fmt::Debug for VoiceDetector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VoiceDetector").field("format", &self.format).finish_non_exhaustive()
    }
}

/// The way of a leg's audio to 16 kHz.
enum Widened {
    /// It is there already.
    Not,
    Doubled(Doubler),
    /// Any other rate.
    Resampled(Box<Converter>, Vec<u8>),
}

impl Widened {
    fn new(format: Format) -> Self {
        match format.rate {
            16_000 => Self::Not,
            8_000 => Self::Doubled(Doubler::new()),
            _ => Self::Resampled(Box::new(Converter::new(format, Format::SLIN16)), Vec::new()),
        }
    }

    fn push(&mut self, bytes: &[u8], samples: &[i16], wide: &mut Vec<f32>) {
        match self {
            Self::Not => wide.extend(samples.iter().map(|&sample| unit(sample))),
            Self::Doubled(doubler) => doubler.push(samples, wide),
            Self::Resampled(converter, out) => {
                out.clear();
                converter.push(bytes, out);
                wide.extend(out.chunks_exact(2).map(|pair| unit(i16::from_le_bytes([pair[0], pair[1]]))));
            }
        }
    }
}

fn unit(sample: i16) -> f32 {
    f32::from(sample) / 32_768.0
}

/// Twice the rate by a half-band filter: every second sample is one that came in, the others lie
/// between. For an ear that measures energies in bands this is enough, and costs a tenth of a proper
/// resampler.
struct Doubler {
    between: [f32; Self::TAPS],
    /// The last samples, and while a frame is doubled those of the frame behind them.
    samples: Vec<f32>,
    /// What lies between them.
    found: Vec<f32>,
}

impl Doubler {
    const TAPS: usize = 8;

    fn new() -> Self {
        // A sinc at the half steps under a Hann window.
        let mut between = std::array::from_fn(|tap| {
            let x = tap as f32 - Self::TAPS as f32 / 2.0 + 0.5;
            (PI * x).sin() / (PI * x) * (0.5 + 0.5 * (TAU * x / (Self::TAPS as f32 + 1.0)).cos())
        });
        let sum: f32 = between.iter().sum();
        between.iter_mut().for_each(|tap| *tap /= sum);
        Self { between, samples: vec![0.0; Self::TAPS - 1], found: Vec::new() }
    }

    fn push(&mut self, samples: &[i16], wide: &mut Vec<f32>) {
        self.samples.extend(samples.iter().map(|&sample| unit(sample)));
        self.found.clear();
        self.found.resize(samples.len(), 0.0);
        // Tap by tap: the compiler does several samples at once.
        for (tap, part) in self.between.iter().enumerate() {
            for (found, sample) in self.found.iter_mut().zip(&self.samples[tap..]) {
                *found += sample * part;
            }
        }
        let there = &self.samples[Self::TAPS / 2 - 1..];
        wide.extend(there.iter().zip(&self.found).flat_map(|(there, found)| [*there, found.clamp(-1.0, 1.0)]));
        self.samples.drain(..samples.len());
    }
}

/// White noise from a fixed seed, so that a call that is heard again is judged the same.
struct Dither(u32);

impl Dither {
    fn add(&mut self, samples: &mut [f32], level_dbfs: f32) {
        // Even noise between ±a has an effective value of a / √3.
        let peak = 10_f32.powf(level_dbfs / 20.0) * 3_f32.sqrt();
        for sample in samples {
            // The generator of Numerical Recipes: plenty for a hiss.
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = (self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0;
            *sample = (*sample + noise * peak).clamp(-1.0, 1.0);
        }
    }
}

/// Raises a soft caller to where the network knows speech: it misses most of what is said at -45 dBFS. Holds the loudest level of
/// speech into silence so far, which fades, so that others behind a caller who has been heard are not raised.
struct Gain(f32);

impl Gain {
    /// Louder sound is heard as it is.
    const TARGET_DBFS: f32 = -30.0;
    const BEGINS_DBFS: f32 = -45.0;
    /// 0.1 dB in a second of speech: a softer person may take the telephone.
    const FADES_DB: f32 = 0.002;
    const MAX_DB: f32 = 15.0;

    fn of(&self, level_dbfs: f32) -> f32 {
        let raised_db = (Self::TARGET_DBFS - self.0.max(level_dbfs)).clamp(0.0, Self::MAX_DB);
        10_f32.powf(raised_db / 20.0)
    }

    fn hear(&mut self, level_dbfs: f32) {
        self.0 = level_dbfs.max(self.0 - Self::FADES_DB);
    }
}

/// Looks for the pitch of a voice in the last 40 ms, at 4 kHz: a low voice has two periods in them, and a high one
/// is still found.
struct Pitch {
    /// Samples that become one.
    group: usize,
    last: [f32; Self::SAMPLES],
}

impl Pitch {
    const SAMPLES: usize = 160;
    /// From 400 Hz to 60 Hz.
    const PERIODS: std::ops::RangeInclusive<usize> = 10..=66;

    fn new(format: Format) -> Self {
        Self { group: (format.rate as usize / 4_000).max(1), last: [0.0; Self::SAMPLES] }
    }

    fn push(&mut self, samples: &[i16]) {
        let new = (samples.len() / self.group).min(Self::SAMPLES);
        self.last.copy_within(new.., 0);
        for (slot, group) in self.last[Self::SAMPLES - new..].iter_mut().zip(samples.chunks_exact(self.group)) {
            *slot = group.iter().copied().map(unit).sum();
        }
    }

    /// The best correlation of the signal with itself one period later.
    fn voicing(&self) -> f32 {
        let squares: f32 = self.last.iter().map(|sample| sample * sample).sum();
        let (mut early_energy, mut late_energy, mut best) = (squares, squares, 0.0_f32);
        for period in 1..=*Self::PERIODS.end() {
            early_energy -= self.last[Self::SAMPLES - period].powi(2);
            late_energy -= self.last[period - 1].powi(2);
            if Self::PERIODS.contains(&period) {
                let product = product(&self.last[..Self::SAMPLES - period], &self.last[period..]);
                // Rounding must not make a correlation of what is hardly there.
                let energy = (early_energy * late_energy).max(0.0).sqrt().max(1e-6);
                best = best.max(product / energy);
            }
        }
        best.min(1.0)
    }
}

/// The sum of the products, in eight sums side by side: one sum would be waited for at each sample.
fn product(one: &[f32], other: &[f32]) -> f32 {
    const LANES: usize = 8;
    let (ones, others) = (one.chunks_exact(LANES), other.chunks_exact(LANES));
    let rest: f32 = ones.remainder().iter().zip(others.remainder()).map(|(one, other)| one * other).sum();
    let mut sums = [0.0; LANES];
    for (one, other) in ones.zip(others) {
        for (sum, (one, other)) in sums.iter_mut().zip(one.iter().zip(other)) {
            *sum += one * other;
        }
    }
    rest + sums.iter().sum::<f32>()
}

/// Where nobody speaks for sure the network is not asked.
#[derive(Default)]
struct Rest {
    /// Frames in a row without anything.
    silent: u32,
    /// Frames in a row that are no louder than the line's own noise.
    calm: u32,
}

impl Rest {
    /// Below this there is no speech …
    const SILENT_DBFS: f32 = -58.0;
    /// … and after so many frames of it none goes on: 60 ms are longer than a stop inside a word, as a rule.
    const SILENT_FRAMES: u32 = 3;
    /// What rises no further above the noise counts as speech nowhere …
    const CALM_DB: f32 = 2.0;
    /// … but noise has its ups and downs, in which a quiet word goes on.
    const CALM_FRAMES: u32 = 7;

    fn hear(&mut self, level: f32, floor: f32) {
        self.silent = if level < Self::SILENT_DBFS { self.silent + 1 } else { 0 };
        self.calm = if level <= floor + Self::CALM_DB { self.calm + 1 } else { 0 };
    }

    fn rests(&self) -> bool {
        self.silent > Self::SILENT_FRAMES || self.calm > Self::CALM_FRAMES
    }
}

/// A line until it is heard: the first word must not count as noise.
const QUIET_LINE_DBFS: f32 = -60.0;

/// The usual level of what is no speech.
struct Noise(f32);

impl Noise {
    /// Surely no speech.
    const NONE: f32 = 0.3;
    /// Steps towards the level that is heard, at most so far: a cough does not make a noisy line.
    const STEP: f32 = 0.1;
    const RISE_DB: f32 = 0.3;

    fn hear(&mut self, level: f32, probability: f32) -> f32 {
        if probability < Self::NONE {
            self.0 += (Self::STEP * (level - self.0)).min(Self::RISE_DB);
        }
        self.0
    }
}

/// The least level of the last two seconds: speech has gaps, steady noise has none.
struct NoiseFloor {
    /// The minimum of each 200 ms; the last one is still growing.
    minima: [f32; 10],
    frames: usize,
}

impl NoiseFloor {
    const FRAMES_EACH: usize = 10;

    fn new() -> Self {
        Self { minima: [QUIET_LINE_DBFS; 10], frames: 0 }
    }

    fn hear(&mut self, level: f32) -> f32 {
        if self.frames == Self::FRAMES_EACH {
            self.minima.rotate_left(1);
            self.minima[9] = level;
            self.frames = 0;
        }
        self.frames += 1;
        self.minima[9] = self.minima[9].min(level);
        self.minima.iter().copied().fold(f32::INFINITY, f32::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(amplitude: f32, samples: usize) -> Vec<u8> {
        let mut noise = vec![0.0; samples];
        Dither(7).add(&mut noise, amplitude);
        noise.iter().flat_map(|sample| ((sample * 32_767.0) as i16).to_le_bytes()).collect()
    }

    fn heard(format: Format, audio: &[u8]) -> Vec<Heard> {
        let mut heard = Vec::new();
        VoiceDetector::new(format).hear(audio, &mut heard);
        heard
    }

    #[test]
    fn each_20_ms_are_judged_once_however_the_stream_is_cut() {
        let audio = noise(-40.0, 8_000);
        let whole = heard(Format::SLIN8, &audio);
        assert_eq!(whole.len(), 50);
        let (mut detector, mut cut) = (VoiceDetector::new(Format::SLIN8), Vec::new());
        for piece in audio.chunks(333) {
            detector.hear(piece, &mut cut);
        }
        assert_eq!(whole, cut);
    }

    /// Without the added noise every frame of this counts as speech.
    #[test]
    fn the_steady_noise_of_a_line_is_no_speech() {
        for level in [-60.0, -50.0, -40.0, -30.0] {
            let heard = heard(Format::SLIN8, &noise(level, 80_000));
            let voiced = heard.iter().skip(25).filter(|heard| heard.probability > 0.5).count();
            assert!(voiced < heard.len() / 100, "{voiced} of {} frames at {level} dBFS", heard.len());
        }
    }

    fn heard_raised(audio: &[u8]) -> Vec<Heard> {
        let (mut detector, mut heard) = (VoiceDetector::new(Format::SLIN8), Vec::new());
        detector.raise(true);
        detector.hear(audio, &mut heard);
        heard
    }

    #[test]
    fn a_soft_voice_is_speech_where_it_is_raised_and_the_noise_of_a_line_is_not() {
        // At -45 dBFS.
        let softer = |audio: Vec<u8>| -> Vec<u8> {
            let samples = audio.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
            samples.flat_map(|sample| ((f32::from(sample) * 0.09) as i16).to_le_bytes()).collect()
        };
        let soft = softer(vowel(50));
        let surely = |heard: &[Heard]| heard.iter().filter(|heard| heard.probability >= 0.5).count();
        let (raised, not) = (surely(&heard_raised(&soft)), surely(&heard(Format::SLIN8, &soft)));
        assert!(raised >= not + 10, "{raised} frames of 50 are speech, and {not} without it");
        for level in [-60.0, -50.0, -40.0, -30.0] {
            let voiced = surely(&heard_raised(&noise(level, 80_000))[25..]);
            assert!(voiced < 5, "{voiced} frames at {level} dBFS");
        }
    }

    #[test]
    fn who_was_heard_loud_keeps_those_behind_them_soft() {
        let mut gain = Gain(Gain::BEGINS_DBFS);
        assert!(gain.of(-50.0) > 5.0, "15 dB");
        assert!(gain.of(-20.0) < 1.01, "a loud frame is heard as it is");
        gain.hear(-20.0);
        (0..500).for_each(|_| gain.hear(-45.0));
        assert!(gain.of(-45.0) < 1.01, "ten seconds later");
    }

    #[test]
    fn the_level_and_the_floor_are_those_of_the_line() {
        let mut audio = noise(-50.0, 24_000);
        audio.extend(vowel(50));
        let heard = heard(Format::SLIN8, &audio);
        let (noise, voice) = (heard[149], heard[199]);
        assert!((noise.level_dbfs + 50.0).abs() < 1.0 && (voice.level_dbfs + 24.1).abs() < 1.0, "{noise:?} {voice:?}");
        assert!((voice.floor_dbfs + 50.0).abs() < 1.5, "{voice:?}");
    }

    #[test]
    fn rumble_below_a_telephones_band_counts_as_quiet() {
        let tone = |hertz: f32| {
            let sample = move |i: usize| (16_384.0 * (TAU * hertz * i as f32 / 8_000.0).sin()) as i16;
            (0..16_000).flat_map(move |i| sample(i).to_le_bytes()).collect::<Vec<u8>>()
        };
        let level = |hertz| heard(Format::SLIN8, &tone(hertz)).last().unwrap().level_dbfs;
        assert!(level(30.0) < -24.0 && (level(1_000.0) + 9.4).abs() < 1.0, "{} {}", level(30.0), level(1_000.0));
    }

    /// A vowel as a telephone leaves it, 20 ms after 20 ms.
    fn vowel(frames: usize) -> Vec<u8> {
        let sample =
            |i: usize| (3..16).map(|n| (TAU * 120.0 * n as f32 * i as f32 / 8_000.0).cos()).sum::<f32>() * 900.0;
        (0..frames * 160).flat_map(|i| (sample(i) as i16).to_le_bytes()).collect()
    }

    /// How many of the frames the network was asked about.
    fn asked(heard: &[Heard]) -> usize {
        heard.iter().filter(|heard| heard.probability > 0.0).count()
    }

    #[test]
    fn the_network_rests_in_silence_and_in_the_noise_of_the_line() {
        assert_eq!(asked(&heard(Format::SLIN8, &vec![0; 320 * 50])), 3, "silence");
        let noise = heard(Format::SLIN8, &noise(-40.0, 80_000));
        assert!(asked(&noise[100..]) < 20, "{} of {} frames of noise", asked(&noise[100..]), noise.len() - 100);
    }

    #[test]
    fn a_hiss_after_a_rest_is_not_taken_for_the_word_before_it() {
        let audio = [vowel(8), vec![0; 320 * 5], noise(-30.0, 160 * 10)].concat();
        let surest = heard(Format::SLIN8, &audio)[13..].iter().map(|heard| heard.probability).fold(0.0, f32::max);
        assert!(surest < 0.5, "{surest}");
    }

    #[test]
    fn doubling_keeps_a_tone_and_adds_little_above_4_khz() {
        let tone: Vec<i16> =
            (0..1_600).map(|i| (8_000.0 * (TAU * 1_000.0 * i as f32 / 8_000.0).sin()) as i16).collect();
        let mut wide = Vec::new();
        Doubler::new().push(&tone, &mut wide);
        let ideal = |i: usize| 8_000.0 / 32_768.0 * (TAU * 1_000.0 * (i as f32 - 8.0) / 16_000.0).sin();
        let error = wide.iter().enumerate().skip(32).map(|(i, sample)| (sample - ideal(i)).abs()).fold(0.0, f32::max);
        assert!(error < 0.01, "{error}");
    }

    #[test]
    fn a_vowel_has_a_pitch_and_noise_has_none() {
        let voicing = |samples: &[i16]| {
            let mut pitch = Pitch::new(Format::SLIN8);
            pitch.push(samples);
            pitch.voicing()
        };
        for hertz in [70.0, 120.0, 210.0, 380.0] {
            // A train of harmonics above 300 Hz, as a telephone leaves of a voice.
            let vowel: Vec<i16> = (0..320)
                .map(|i| {
                    let harmonics = (1..20).map(|n| hertz * n as f32).filter(|f| (300.0..1_900.0).contains(f));
                    harmonics.map(|f| 900.0 * (TAU * f * i as f32 / 8_000.0).cos()).sum::<f32>() as i16
                })
                .collect();
            assert!(voicing(&vowel) > 0.8, "{hertz} Hz: {}", voicing(&vowel));
        }
        let mut samples = Vec::new();
        Format::SLIN8.decode(&noise(-20.0, 320), &mut samples);
        assert!(voicing(&samples) < 0.5, "{}", voicing(&samples));
        assert_eq!(voicing(&[0; 320]), 0.0);
    }

    #[test]
    fn every_format_of_a_leg_can_be_heard() {
        for format in [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16, Format::SLIN24] {
            let silence = vec![format.silence(); format.frame_bytes() * 50];
            let heard = heard(format, &silence);
            assert_eq!(heard.len(), 50, "{format}");
            assert!(heard.iter().all(|heard| heard.probability < 0.5 && heard.level_dbfs < -60.0), "{format}");
        }
    }
}
