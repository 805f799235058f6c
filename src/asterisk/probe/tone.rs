//! A tone from each end of a call to the other, and what arrives of it.

use crate::{
    asterisk::media::{MediaEvent, MediaLeg},
    audio::{FRAME, Format},
};
use bytes::Bytes;
use std::{f64::consts::TAU, time::Duration};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Each end has its own pitch, so that neither takes its own echo for the other. Both fill whole periods into a frame.
const CALLER_HZ: f64 = 1_000.0;
const ENGINE_HZ: f64 = 1_500.0;
/// As loud as speech.
const PEAK: f64 = 8_000.0;
/// Nobody listens in the first moment, while Asterisk joins the two.
const BEFORE: usize = 10;
/// A second of tone.
const FRAMES: usize = 50;
const TONE: Duration = FRAME.saturating_mul(FRAMES as u32);
/// What is under way when the last frame has left.
const AFTER: usize = 25;
/// So much of a packet's power is at one pitch when it is that tone; of µ-law that is read as A-law, 0.91 to 0.94 is.
const SHARE: f64 = 0.95;
/// Below this there is nothing but the noise of codecs.
const QUIET: f64 = 200.0;
/// The loudest sample there is, the reference of dBov (RFC 6464, section 3).
const OVERLOAD: f64 = 32_768.0;

/// What one end heard of the other's tone.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Way {
    /// Of the tone's length, the part that arrived: 1 is all of it.
    pub share: f64,
    /// Of the tone's length, what arrived as loud as speech and is not the tone.
    pub garbled: f64,
    /// From sending the tone's first frame until it was heard, or its last one if all of it was heard and that took less;
    /// `None`: nothing was heard at all.
    pub delay: Option<Duration>,
    /// How loud the tone arrives, in dBov: 0 is the loudest there is.
    pub level: Option<f64>,
    /// Something came, if only silence.
    pub arrived: bool,
}

/// How loud the tone is when it is sent, in dBov.
pub fn sent_level() -> f64 {
    dbov(PEAK * PEAK / 2.0)
}

fn dbov(mean_square: f64) -> f64 {
    10.0 * (mean_square / (OVERLOAD * OVERLOAD)).log10()
}

struct Ear {
    format: Format,
    hertz: f64,
    /// When the first and the last frame of the tone were sent.
    began: Option<Instant>,
    ended: Option<Instant>,
    /// When the first and the last packet that holds the tone came.
    first: Option<Instant>,
    last: Option<Instant>,
    heard: Duration,
    garbled: Duration,
    /// Of the packets that held the tone: how many, and their mean squares added up.
    tones: u32,
    power: f64,
    arrived: bool,
    samples: Vec<i16>,
}

impl Ear {
    fn new(format: Format, hertz: f64) -> Self {
        Self {
            format,
            hertz,
            began: None,
            ended: None,
            first: None,
            last: None,
            heard: Duration::ZERO,
            garbled: Duration::ZERO,
            tones: 0,
            power: 0.0,
            arrived: false,
            samples: Vec::new(),
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.arrived = true;
        self.samples.clear();
        self.format.decode(bytes, &mut self.samples);
        let (power, length) = (mean_square(&self.samples), self.format.duration_of(bytes.len()));
        if share_of(&self.samples, self.hertz, self.format.rate) > SHARE {
            let now = Instant::now();
            self.first.get_or_insert(now);
            self.last = Some(now);
            self.heard += length;
            self.tones += 1;
            self.power += power;
        } else if power >= QUIET * QUIET {
            self.garbled += length;
        }
    }

    /// Notes that a frame of the tone is sent to this end.
    fn tone_is_sent(&mut self) {
        let now = Instant::now();
        self.began.get_or_insert(now);
        self.ended = Some(now);
    }

    fn way(&self) -> Way {
        let part = |length: Duration| (length.as_secs_f64() / TONE.as_secs_f64()).min(1.0);
        let level = (self.tones > 0).then(|| dbov(self.power / f64::from(self.tones)));
        let (share, garbled) = (part(self.heard), part(self.garbled));
        Way { share, garbled, delay: self.delay(), level, arrived: self.arrived }
    }

    /// The quicker end of the tone tells: a machine that stands still for a moment is late at one of them, a long path at both.
    fn delay(&self) -> Option<Duration> {
        let begin = self.first?.saturating_duration_since(self.began?);
        // Where packets are lost, the last packet that arrived need not be the last that was sent.
        let is_whole = self.heard >= TONE;
        let end = self.last.zip(self.ended).filter(|_| is_whole);
        Some(end.map_or(begin, |(last, ended)| begin.min(last.saturating_duration_since(ended))))
    }
}

/// Caller → engine, and engine → caller.
pub(super) async fn exchange(phone: &mut MediaLeg, engine: &mut MediaLeg) -> (Way, Way) {
    let format = engine.format;
    let (said, answered) = (tone(format, CALLER_HZ), tone(format, ENGINE_HZ));
    let silence = Bytes::from(vec![format.silence(); format.frame_bytes()]);
    let (mut at_engine, mut at_phone) = (Ear::new(format, CALLER_HZ), Ear::new(format, ENGINE_HZ));
    let mut clock = interval(FRAME);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut phone_open, mut engine_open) = (true, true);
    let mut frame = 0;
    while frame < BEFORE + FRAMES + AFTER {
        tokio::select! {
            _ = clock.tick() => {
                let tones = (BEFORE..BEFORE + FRAMES).contains(&frame);
                let (caller, agent) = if tones { (&said, &answered) } else { (&silence, &silence) };
                if tones {
                    at_engine.tone_is_sent();
                    at_phone.tone_is_sent();
                }
                // What a socket would not take is missing at the other end.
                let _ = (phone.sender.play(caller.clone()), engine.sender.play(agent.clone()));
                frame += 1;
            }
            event = phone.events.next(), if phone_open => phone_open = take(event, &mut at_phone),
            event = engine.events.next(), if engine_open => engine_open = take(event, &mut at_engine),
        }
    }
    (at_engine.way(), at_phone.way())
}

/// Whether anything arrives within this time.
pub(super) async fn anything(phone: &mut MediaLeg, within: Duration) -> bool {
    let arrives = async {
        loop {
            match phone.events.next().await {
                Some(MediaEvent::Audio(_)) => return true,
                Some(MediaEvent::Digit(_) | MediaEvent::Waits(_) | MediaEvent::ThrownAway(_)) => {}
                Some(MediaEvent::Closed | MediaEvent::Broken) | None => return false,
            }
        }
    };
    timeout(within, arrives).await.unwrap_or(false)
}

/// `false` after the last event.
fn take(event: Option<MediaEvent>, ear: &mut Ear) -> bool {
    match event {
        Some(MediaEvent::Audio(bytes)) => ear.hear(&bytes),
        Some(MediaEvent::Digit(_) | MediaEvent::Waits(_) | MediaEvent::ThrownAway(_)) => {}
        Some(MediaEvent::Closed | MediaEvent::Broken) | None => return false,
    }
    true
}

fn tone(format: Format, hertz: f64) -> Bytes {
    let rate = f64::from(format.rate);
    let samples: Vec<i16> =
        (0..format.rate / 50).map(|at| (PEAK * (TAU * hertz * f64::from(at) / rate).sin()) as i16).collect();
    let mut bytes = Vec::with_capacity(format.frame_bytes());
    format.encode(&samples, &mut bytes);
    bytes.into()
}

fn mean_square(samples: &[i16]) -> f64 {
    let sum: f64 = samples.iter().map(|&sample| f64::from(sample) * f64::from(sample)).sum();
    sum / (samples.len().max(1) as f64)
}

/// Of the samples' power, the part at this pitch.
fn share_of(samples: &[i16], hertz: f64, rate: u32) -> f64 {
    let (mut cosine, mut sine) = (0.0, 0.0);
    for (at, &sample) in samples.iter().enumerate() {
        let (sample, angle) = (f64::from(sample), TAU * hertz * at as f64 / f64::from(rate));
        cosine += sample * angle.cos();
        sine += sample * angle.sin();
    }
    let (count, power) = (samples.len() as f64, mean_square(samples));
    if power < QUIET * QUIET { 0.0 } else { 2.0 * (cosine * cosine + sine * sine) / (count * count * power) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ear_hears_its_own_pitch_in_every_format_and_nothing_else() {
        for format in [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16] {
            for (pitch, heard) in [(CALLER_HZ, FRAME), (ENGINE_HZ, Duration::ZERO), (0.0, Duration::ZERO)] {
                let mut ear = Ear::new(format, CALLER_HZ);
                ear.hear(&tone(format, pitch));
                assert_eq!(ear.heard, heard, "{format} at {pitch} Hz");
            }
        }
    }

    #[test]
    fn a_tone_of_the_other_law_or_in_the_wrong_order_of_bytes_is_garbled() {
        let swapped = |bytes: Bytes| bytes.chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect::<Vec<u8>>();
        for pitch in [CALLER_HZ, ENGINE_HZ] {
            for (format, read_as, bytes) in [
                (Format::ULAW, Format::ALAW, tone(Format::ULAW, pitch).to_vec()),
                (Format::ALAW, Format::ULAW, tone(Format::ALAW, pitch).to_vec()),
                (Format::SLIN8, Format::SLIN8, swapped(tone(Format::SLIN8, pitch))),
            ] {
                let mut ear = Ear::new(read_as, pitch);
                ear.hear(&bytes);
                assert_eq!((ear.heard, ear.garbled), (Duration::ZERO, FRAME), "{format} read as {read_as}, {pitch} Hz");
            }
        }
    }

    #[test]
    fn a_level_is_told_as_it_was_sent_and_another_pitch_is_garbled_sound() {
        for format in [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16] {
            let mut ear = Ear::new(format, CALLER_HZ);
            ear.hear(&tone(format, CALLER_HZ));
            let level = ear.way().level.expect("it was heard");
            assert!((level - sent_level()).abs() < 0.3, "{format}: {level} of {}", sent_level());
            assert_eq!((ear.way().garbled, ear.way().share), (0.0, 0.02));
            ear.hear(&tone(format, ENGINE_HZ));
            assert_eq!((ear.way().garbled, ear.way().share), (0.02, 0.02));
        }
    }

    #[test]
    fn a_stall_at_one_end_of_the_tone_is_not_the_delay_of_the_path() {
        let began = Instant::now();
        let after = |ms: u64| began + Duration::from_millis(ms);
        for (heard_ms, first, last, delay) in [
            (1_000, 40, 1_020, 40),
            (1_000, 300, 1_020, 40),
            (1_000, 40, 1_280, 40),
            // The path itself is long.
            (1_000, 300, 1_290, 300),
            // The last frame is lost, and the one before it is heard at this time.
            (980, 300, 980, 300),
        ] {
            let ear = Ear {
                began: Some(began),
                ended: Some(after(980)),
                first: Some(after(first)),
                last: Some(after(last)),
                heard: Duration::from_millis(heard_ms),
                ..Ear::new(Format::ULAW, CALLER_HZ)
            };
            assert_eq!(ear.way().delay, Some(Duration::from_millis(delay)), "{first} and {last} ms");
        }
        assert_eq!(Ear::new(Format::ULAW, CALLER_HZ).way().delay, None);
    }
}
