//! A vendor's own detection of the caller's voice.

use crate::kit::audio::samples_of;
use offhook::audio::{Activity, ActivityDetector, FRAME, Format};
use std::time::{Duration, Instant};

pub(super) struct Ear {
    detector: ActivityDetector,
    /// The time of the audio.
    clock: Instant,
    rest: Vec<u8>,
    /// The caller has begun a turn.
    pub(super) turn: bool,
}

impl Ear {
    pub(super) fn new() -> Self {
        Self { detector: detector(), clock: tokio::time::Instant::now().into_std(), rest: Vec::new(), turn: false }
    }

    pub(super) fn hear(&mut self, audio: &[u8], format: Format) -> Vec<Activity> {
        self.rest.extend_from_slice(audio);
        let whole = self.rest.len() / format.frame_bytes() * format.frame_bytes();
        let frames: Vec<u8> = self.rest.drain(..whole).collect();
        let mut heard = Vec::new();
        for frame in frames.chunks_exact(format.frame_bytes()) {
            self.clock += FRAME;
            heard.extend(self.detector.push(&samples_of(frame, format), self.clock));
        }
        heard
    }

    /// The client says that the turn is over. Where none was found, there is none to end.
    pub(super) fn end_turn(&mut self) -> bool {
        self.detector = detector();
        std::mem::take(&mut self.turn)
    }
}

fn detector() -> ActivityDetector {
    ActivityDetector::new(-40.0, Duration::from_millis(60), Duration::from_millis(300))
}
