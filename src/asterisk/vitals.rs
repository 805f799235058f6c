//! How an audio path does, judged by what arrives over it: pure, one value a leg.
//!
//! What can be judged: the cadence (jitter), what waited and came together (queue), the caller's clock against ours (drift),
//! silence of the path, and in the first seconds whether it is sound at all (codec, frame size).

use super::counters::{MediaCounters, Suspicion};
use crate::{
    audio::{FRAME, Format, rms_dbfs},
    config::Transport,
};
use std::time::{Duration, Instant};

/// Figures are told once a second: fifty packets each make them.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// Packets this near to each other had waited together.
const TOGETHER: Duration = Duration::from_millis(5);
/// A longer gap is no jitter: the caller's phone has paused.
const PAUSE: Duration = Duration::from_millis(200);
/// With 20 ms of jitter at each end, a shorter stretch would tell of more drift than there is.
const DRIFT_AFTER: Duration = Duration::from_secs(60);
/// Who pauses never is told of as well.
const DRIFT_WITHIN: Duration = Duration::from_mins(5);
/// The share of a new packet in the jitter (RFC 3550, section 6.4.1).
const JITTER_SHARE: f64 = 1.0 / 16.0;

/// Loud packets after which it is decided whether they are sound: a second of speech.
const LOUD_PACKETS: u32 = 50;
/// From here on it is loud.
const LOUD_DBFS: f32 = -35.0;
/// Of samples next to each other, up to three apart: noise has next to none, and every voice and tone has.
const RELATED: f64 = 0.25;
/// So many of the loud packets are noise when it is a codec's fault; a consonant is noise too.
const NOISY: f64 = 0.9;

pub struct Vitals {
    transport: Transport,
    format: Format,
    last: Option<Instant>,
    jitter: f64,
    together: u32,
    most_together: u32,
    told: Option<Instant>,
    stretch: Option<Stretch>,
    start: Option<Start>,
}

/// Packets without a pause between them.
struct Stretch {
    since: Instant,
    audio: Duration,
}

/// What is looked at as a leg begins.
#[derive(Default)]
struct Start {
    loud: u32,
    noise: u32,
    odd: bool,
    samples: Vec<i16>,
}

impl Vitals {
    pub fn new(transport: Transport, format: Format) -> Self {
        Self {
            transport,
            format,
            last: None,
            jitter: 0.0,
            together: 1,
            most_together: 1,
            told: None,
            stretch: None,
            start: Some(Start::default()),
        }
    }

    /// A packet has arrived. Tells what is to be suspected of the path.
    pub fn arrived(&mut self, bytes: &[u8], now: Instant, counters: &MediaCounters) -> Option<Suspicion> {
        let length = self.format.duration_of(bytes.len());
        if let Some(last) = self.last.replace(now) {
            let gap = now.saturating_duration_since(last);
            self.cadence(gap, length);
            match &mut self.stretch {
                Some(stretch) if gap < PAUSE && now.saturating_duration_since(stretch.since) < DRIFT_WITHIN => {
                    stretch.audio += length;
                }
                _ => {
                    self.end_of_stretch(last, counters);
                    self.stretch = Some(Stretch { since: now, audio: Duration::ZERO });
                }
            }
        }
        if now.saturating_duration_since(*self.told.get_or_insert(now)) >= TOLD_EVERY {
            self.told = Some(now);
            counters.cadence(self.transport, self.jitter);
            counters.queue(self.transport, self.most_together);
            self.most_together = 1;
        }
        self.look(bytes, length)
    }

    /// How long nothing has come; `None`: nothing ever has.
    pub fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.last.map(|last| now.saturating_duration_since(last))
    }

    /// The leg ends.
    pub fn end(&mut self, counters: &MediaCounters) {
        if let Some(last) = self.last.take() {
            self.end_of_stretch(last, counters);
        }
    }

    fn cadence(&mut self, gap: Duration, length: Duration) {
        if gap >= PAUSE {
            return;
        }
        self.together = if gap < TOGETHER { self.together + 1 } else { 1 };
        self.most_together = self.most_together.max(self.together);
        let off = gap.abs_diff(length).as_secs_f64();
        self.jitter += (off - self.jitter) * JITTER_SHARE;
    }

    fn end_of_stretch(&mut self, last: Instant, counters: &MediaCounters) {
        let Some(Stretch { since, audio }) = self.stretch.take() else { return };
        let clock = last.saturating_duration_since(since);
        if clock >= DRIFT_AFTER {
            counters.drift(self.transport, (audio.as_secs_f64() / clock.as_secs_f64() - 1.0) * 1e6);
        }
    }

    fn look(&mut self, bytes: &[u8], length: Duration) -> Option<Suspicion> {
        let start = self.start.as_mut()?;
        // Phones send 10 to 60 ms at a time, and Asterisk passes that on.
        let whole = length.as_micros().is_multiple_of(FRAME.as_micros() / 2) && !length.is_zero();
        if !whole && !std::mem::replace(&mut start.odd, true) {
            return Some(Suspicion::FrameSize);
        }
        start.samples.clear();
        self.format.decode(bytes, &mut start.samples);
        if rms_dbfs(&start.samples) >= LOUD_DBFS {
            start.loud += 1;
            start.noise += u32::from(is_noise(&start.samples));
        }
        if start.loud < LOUD_PACKETS {
            return None;
        }
        let noisy = f64::from(start.noise) >= NOISY * f64::from(start.loud);
        self.start = None;
        noisy.then_some(Suspicion::Noise)
    }
}

/// Samples that have nothing to do with those beside them: bytes in the wrong order. That one law is read as the other does
/// not come to this: each packet names its own.
fn is_noise(samples: &[i16]) -> bool {
    let power: f64 = samples.iter().map(|&sample| f64::from(sample).powi(2)).sum();
    (1..=3).all(|apart| {
        let pairs = samples.iter().zip(samples.iter().skip(apart));
        let product: f64 = pairs.map(|(&one, &other)| f64::from(one) * f64::from(other)).sum();
        product.abs() < RELATED * power
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::Registry;
    use std::f64::consts::TAU;

    const MS: Duration = Duration::from_millis(1);

    struct Bench {
        registry: Registry,
        counters: MediaCounters,
        vitals: Vitals,
        now: Instant,
        suspected: Vec<Suspicion>,
    }

    impl Bench {
        fn new(format: Format) -> Self {
            let registry = Registry::new();
            let counters = MediaCounters::new(&registry).unwrap();
            let vitals = Vitals::new(Transport::Rtp, format);
            let now = tokio::time::Instant::now().into_std();
            Self { registry, counters, vitals, now, suspected: Vec::new() }
        }

        fn hear(&mut self, bytes: &[u8], after: Duration) {
            self.now += after;
            self.suspected.extend(self.vitals.arrived(bytes, self.now, &self.counters));
        }

        /// Observations of a metric, and their sum.
        fn told(&self, name: &str) -> (u64, f64) {
            let families = self.registry.gather();
            let family = families.iter().find(|family| family.name() == name).unwrap();
            let all = family.get_metric().iter().map(|metric| metric.get_histogram());
            all.fold((0, 0.0), |(count, sum), one| (count + one.get_sample_count(), sum + one.get_sample_sum()))
        }
    }

    fn frame(format: Format, sample: impl Fn(usize) -> i16) -> Vec<u8> {
        let samples: Vec<i16> = (0..format.rate as usize / 50).map(sample).collect();
        let mut bytes = Vec::new();
        format.encode(&samples, &mut bytes);
        bytes
    }

    fn voice(format: Format) -> Vec<u8> {
        let rate = f64::from(format.rate);
        let part = |hertz: f64, at: usize| (TAU * hertz * at as f64 / rate).sin() * 4_000.0;
        frame(format, |at| (part(150.0, at) + part(450.0, at) + part(1_200.0, at)) as i16)
    }

    #[test]
    fn an_even_cadence_has_no_jitter_and_an_uneven_one_has_its_own() {
        for (gaps, least, most) in [([20, 20], 0.0, 0.001), ([10, 30], 0.008, 0.011)] {
            let mut bench = Bench::new(Format::ULAW);
            (0..300).for_each(|at| bench.hear(&[0xff; 160], gaps[at % 2] * MS));
            let (count, sum) = bench.told("offhook_media_jitter_seconds");
            assert!(count >= 4, "once a second: {count}");
            let mean = sum / count as f64;
            assert!((least..most).contains(&mean), "{gaps:?}: {mean}");
        }
    }

    #[test]
    fn packets_that_come_together_had_waited_and_the_most_in_a_second_is_told() {
        let mut bench = Bench::new(Format::ULAW);
        for _ in 0..12 {
            bench.hear(&[0xff; 160], 80 * MS);
            (0..3).for_each(|_| bench.hear(&[0xff; 160], MS / 10));
        }
        let (count, sum) = bench.told("offhook_media_queue_frames");
        assert_eq!((count, sum), (0, 0.0), "not a second yet");
        (0..10).for_each(|_| bench.hear(&[0xff; 160], 20 * MS));
        assert_eq!(bench.told("offhook_media_queue_frames"), (1, 4.0));
    }

    #[test]
    fn a_clock_that_is_fast_is_told_in_parts_per_million_once_a_minute_of_sound_has_come() {
        let mut bench = Bench::new(Format::ULAW);
        // 20 ms of audio every 19.99 ms: 500 ppm.
        let every = Duration::from_micros(19_990);
        (0..4_000).for_each(|_| bench.hear(&[0xff; 160], every));
        bench.hear(&[0xff; 160], 300 * MS);
        let (count, sum) = bench.told("offhook_media_drift_ppm");
        assert!(count == 1 && (480.0..520.0).contains(&sum), "{count}: {sum}");
        // A phone that pauses is no drift.
        (0..200).for_each(|_| bench.hear(&[0xff; 160], 300 * MS));
        bench.vitals.end(&bench.counters);
        assert_eq!(bench.told("offhook_media_drift_ppm").0, 1);
    }

    #[test]
    fn sound_is_told_from_what_bytes_in_the_wrong_order_make_of_it() {
        for format in [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16] {
            let mut bench = Bench::new(format);
            (0..200).for_each(|_| bench.hear(&voice(format), FRAME));
            assert_eq!(bench.suspected, [], "{format}");
        }
        // Bytes in the wrong order.
        let swapped: Vec<u8> = voice(Format::SLIN8).chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
        let mut bench = Bench::new(Format::SLIN8);
        (0..200).for_each(|_| bench.hear(&swapped, FRAME));
        assert_eq!(bench.suspected, [Suspicion::Noise]);
    }

    #[test]
    fn an_odd_frame_is_told_once_and_silence_is_no_noise() {
        let mut bench = Bench::new(Format::SLIN8);
        (0..100).for_each(|_| bench.hear(&[0; 170], FRAME));
        assert_eq!(bench.suspected, [Suspicion::FrameSize]);
        assert_eq!(bench.vitals.silent_for(bench.now + FRAME), Some(FRAME));
        assert_eq!(Vitals::new(Transport::Rtp, Format::ULAW).silent_for(bench.now), None);
    }
}
