//! Tones of the telephone: those of `Playtones()`, and the ones that `indications.conf` names.

use std::f64::consts::TAU;

/// As Asterisk plays each pitch of a tone.
const LEVEL: f64 = 7_219.0;
const RATE: f64 = 8_000.0;

/// Pitches that are heard together for a while, one after the other, again and again.
#[derive(Debug, Clone, PartialEq)]
pub struct Tone {
    parts: Vec<(Vec<f64>, usize)>,
    at: usize,
}

impl Tone {
    /// `ring`, `busy`, `congestion` and `dial` of the United States, or what is written as those are: `440+480/2000,0/4000`.
    pub fn named(name: &str) -> Self {
        Self::read(match name {
            "ring" => "440+480/2000,0/4000",
            "busy" => "480+620/500,0/500",
            "congestion" => "480+620/250,0/250",
            "dial" => "350+440",
            written => written,
        })
    }

    fn read(written: &str) -> Self {
        let part = |part: &str| {
            let (pitches, length) = part.split_once('/').unwrap_or((part, "1000"));
            let pitches = pitches.split('+').map(|pitch| pitch.trim().parse().expect("a pitch in Hz"));
            let length: usize = length.trim().parse().expect("milliseconds");
            (pitches.filter(|pitch| *pitch > 0.0).collect(), length * 8)
        };
        Self { parts: written.split(',').map(part).collect(), at: 0 }
    }

    /// The next 20 ms.
    pub fn frame(&mut self) -> Vec<i16> {
        (0..160).map(|_| self.sample()).collect()
    }

    fn sample(&mut self) -> i16 {
        let whole: usize = self.parts.iter().map(|(_, length)| length).sum();
        let at = self.at as f64 / RATE;
        let mut within = self.at % whole;
        self.at += 1;
        for (pitches, length) in &self.parts {
            if within < *length {
                return pitches.iter().map(|pitch| LEVEL * (TAU * pitch * at).sin()).sum::<f64>() as i16;
            }
            within -= length;
        }
        0
    }
}
