//! A tone from each end of a call to the other, and what arrives of it.

use crate::{
    asterisk::media::{MediaEvent, MediaLeg},
    audio::{FRAME, Format},
};
use bytes::Bytes;
use std::{f64::consts::TAU, time::Duration};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Each end has its own pitch, so that neither takes its own echo for the other. Both fill whole periods into a frame.
const CALLER_HZ: f64 = 1_000.0;
const ENGINE_HZ: f64 = 1_500.0;
/// As loud as speech.
const PEAK: f64 = 8_000.0;
/// Nobody listens in the first moment, while Asterisk joins the two.
const BEFORE: usize = 10;
/// A second of tone.
const FRAMES: usize = 50;
/// What is under way when the last frame has left.
const AFTER: usize = 25;
/// So much of a packet's power is at one pitch when it is that tone.
const SHARE: f64 = 0.5;
/// Below this there is nothing but the noise of codecs.
const QUIET: f64 = 200.0;

/// What one end heard of the other's tone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Way {
    /// Of the tone's length, the part that arrived: 1 is all of it.
    pub share: f64,
    /// From sending the first frame until it was heard; `None`: nothing was heard at all.
    pub delay: Option<Duration>,
}

struct Ear {
    format: Format,
    hertz: f64,
    began: Option<Instant>,
    first: Option<Instant>,
    heard: Duration,
    samples: Vec<i16>,
}

impl Ear {
    fn new(format: Format, hertz: f64) -> Self {
        Self { format, hertz, began: None, first: None, heard: Duration::ZERO, samples: Vec::new() }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.samples.clear();
        self.format.decode(bytes, &mut self.samples);
        if share_of(&self.samples, self.hertz, self.format.rate) > SHARE {
            self.first.get_or_insert_with(Instant::now);
            self.heard += self.format.duration_of(bytes.len());
        }
    }

    fn way(&self) -> Way {
        let delay = self.began.zip(self.first).map(|(began, first)| first.saturating_duration_since(began));
        Way { share: (self.heard.as_secs_f64() / (FRAME * FRAMES as u32).as_secs_f64()).min(1.0), delay }
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
                    at_engine.began.get_or_insert_with(Instant::now);
                    at_phone.began.get_or_insert_with(Instant::now);
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

/// `false` after the last event.
fn take(event: Option<MediaEvent>, ear: &mut Ear) -> bool {
    match event {
        Some(MediaEvent::Audio(bytes)) => ear.hear(&bytes),
        Some(MediaEvent::Digit(_)) => {}
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

/// Of the samples' power, the part at this pitch.
fn share_of(samples: &[i16], hertz: f64, rate: u32) -> f64 {
    let (mut cosine, mut sine, mut power) = (0.0, 0.0, 0.0);
    for (at, &sample) in samples.iter().enumerate() {
        let (sample, angle) = (f64::from(sample), TAU * hertz * at as f64 / f64::from(rate));
        cosine += sample * angle.cos();
        sine += sample * angle.sin();
        power += sample * sample;
    }
    let count = samples.len() as f64;
    if power < QUIET * QUIET * count { 0.0 } else { 2.0 * (cosine * cosine + sine * sine) / (count * power) }
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
}
