//! The last moments of what was heard: a turn has begun before it is known to be one.

use super::LEAD;
use crate::audio::Format;
use bytes::Bytes;
use std::collections::VecDeque;

/// [`LEAD`] of audio, to the piece.
pub(super) struct Lead {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    max: usize,
}

impl Lead {
    pub(super) fn new(format: Format) -> Self {
        let max = LEAD.as_millis() as usize * format.rate as usize / 1_000 * format.bytes_per_sample();
        Self { pieces: VecDeque::new(), bytes: 0, max }
    }

    pub(super) fn hear(&mut self, audio: Bytes) {
        self.bytes += audio.len();
        self.pieces.push_back(audio);
        while self.pieces.front().is_some_and(|oldest| self.bytes - oldest.len() >= self.max) {
            self.bytes -= self.pieces.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    pub(super) fn take(&mut self) -> VecDeque<Bytes> {
        self.bytes = 0;
        std::mem::take(&mut self.pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_lead_is_kept_and_no_less() {
        let mut lead = Lead::new(Format::ULAW);
        (0..100).for_each(|n| lead.hear(Bytes::from(vec![n; 160])));
        let kept = lead.take();
        assert_eq!((kept.len(), kept[0][0], kept[59][0]), (60, 40, 99));
        assert!(lead.take().is_empty());
    }
}
