//! The tone a caller hears while another telephone rings.

use super::Format;
use bytes::Bytes;
use std::f64::consts::TAU;

/// Each of the tone's frequencies at its peak: −19 dBFS, a little below speech.
const PEAK: f64 = 3_700.0;

/// Whose ringing tone it is. A closed set: the configuration names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RingTone {
    /// 425 Hz, one second in five, as in most of Europe (ETSI TR 101 041-2, ITU-T E.180).
    #[default]
    Etsi,
    /// 440 and 480 Hz, two seconds in six, as in North America (ANSI T1.401).
    Us,
}

impl RingTone {
    pub const ALL: [Self; 2] = [Self::Etsi, Self::Us];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Etsi => "etsi",
            Self::Us => "us",
        }
    }

    const fn hertz(self) -> &'static [f64] {
        match self {
            Self::Etsi => &[425.0],
            Self::Us => &[440.0, 480.0],
        }
    }

    /// Seconds of tone, and seconds of one ring with its pause.
    const fn cadence(self) -> (u64, u64) {
        match self {
            Self::Etsi => (1, 5),
            Self::Us => (2, 6),
        }
    }
}

/// The tone as it goes on, frame by frame, beginning with a ring.
#[derive(Debug, Clone)]
pub struct RingBack {
    tone: RingTone,
    format: Format,
    /// Samples since the first ring began.
    at: u64,
}

impl RingBack {
    pub const fn new(tone: RingTone, format: Format) -> Self {
        Self { tone, format, at: 0 }
    }

    /// The next 20 ms.
    pub fn frame(&mut self) -> Bytes {
        let rate = u64::from(self.format.rate);
        let count = rate / 50;
        let (on, cycle) = self.tone.cadence();
        let samples = (self.at..self.at + count).map(|at| {
            let at = at % (cycle * rate);
            if at >= on * rate {
                return 0;
            }
            let seconds = at as f64 / rate as f64;
            // Cannot leave the range of 16 bits: two peaks are a quarter of it.
            self.tone.hertz().iter().map(|hertz| PEAK * (TAU * hertz * seconds).sin()).sum::<f64>() as i16
        });
        let samples: Vec<i16> = samples.collect();
        self.at += count;
        let mut bytes = Vec::with_capacity(self.format.frame_bytes());
        self.format.encode(&samples, &mut bytes);
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rms_dbfs;
    use super::*;

    /// Levels of each frame of the first `seconds`.
    fn levels(tone: RingTone, seconds: usize) -> Vec<f32> {
        let mut ring = RingBack::new(tone, Format::SLIN8);
        let samples = |frame: Bytes| frame.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
        (0..seconds * 50).map(|_| rms_dbfs(&samples(ring.frame()) as &Vec<i16>)).collect()
    }

    #[test]
    fn it_rings_in_its_country_s_rhythm() {
        for (tone, on, cycle) in [(RingTone::Etsi, 1, 5), (RingTone::Us, 2, 6)] {
            for (frame, level) in levels(tone, 2 * cycle).into_iter().enumerate() {
                let rings = frame % (cycle * 50) < on * 50;
                assert_eq!(level > -30.0, rings, "{tone:?}, frame {frame}: {level}");
            }
        }
    }

    #[test]
    fn every_format_has_whole_frames_and_its_own_silence() {
        for format in [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16, Format::SLIN24] {
            let mut ring = RingBack::new(RingTone::Etsi, format);
            let frames: Vec<Bytes> = (0..100).map(|_| ring.frame()).collect();
            assert!(frames.iter().all(|frame| frame.len() == format.frame_bytes()), "{format}");
            assert!(frames[0].iter().any(|byte| *byte != format.silence()), "{format}");
            assert!(frames[99].iter().all(|byte| *byte == format.silence()), "{format}: in the pause");
        }
    }
}
