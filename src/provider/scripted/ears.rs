//! The scripted agent's turn detection.

use super::options::Detector;
use crate::audio::{Activity, ActivityDetector, Encoding, FRAME, Format, g711};
use std::time::Instant;

/// Runs on the time of the audio, as a vendor's server does: what waited in a queue counts as if
/// it had come in time.
pub(super) struct Ears {
    detector: ActivityDetector,
    format: Format,
    /// Less than a frame.
    rest: Vec<u8>,
    clock: Instant,
    speaking: bool,
}

impl Ears {
    pub(super) fn new(options: &Detector, format: Format, now: Instant) -> Self {
        let detector = ActivityDetector::new(options.threshold_dbfs, options.onset.0, options.hangover.0);
        Self { detector, format, rest: Vec::new(), clock: now, speaking: false }
    }

    /// Whether the caller speaks, as far as was heard.
    pub(super) fn hear_speech(&self) -> bool {
        self.speaking
    }

    pub(super) fn push(&mut self, audio: &[u8]) -> Vec<Activity> {
        self.rest.extend_from_slice(audio);
        let frame = self.format.frame_bytes();
        let whole = self.rest.len() / frame * frame;
        let mut heard = Vec::new();
        let mut samples = Vec::with_capacity(frame);
        for bytes in self.rest[..whole].chunks_exact(frame) {
            samples.clear();
            match self.format.encoding {
                Encoding::Mulaw => g711::decode(g711::Law::Mu, bytes, &mut samples),
                Encoding::Alaw => g711::decode(g711::Law::A, bytes, &mut samples),
                Encoding::Linear => {
                    samples.extend(bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])));
                }
            }
            self.clock += FRAME;
            if let Some(activity) = self.detector.push(&samples, self.clock) {
                self.speaking = activity == Activity::Started;
                heard.push(activity);
            }
        }
        self.rest.drain(..whole);
        heard
    }
}
