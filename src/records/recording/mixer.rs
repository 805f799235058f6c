//! Both sides of a call on one time axis, which is counted in the slots that leave for the caller.
//!
//! The caller's audio comes by packets that are late, early, or come all at once, and has no time in itself. A packet
//! ends where the slots are when it comes, or follows the one before it; what comes in a burst moves back into the
//! silence before it. So jitter is heard nowhere, and nothing adds up: where the caller's clock is slower than the slots
//! there is a short silence now and then, where it is faster a packet is left out.

use super::wav;
use crate::audio::Format;
use std::ops::Range;

/// So much is handed on at once.
const PART_MS: usize = 1_000;
/// For so long late audio still finds its place.
pub(super) const HOLD_MS: usize = 500;
/// Audio that is ahead of the slots by more comes from a clock that is faster than they are.
const AHEAD_MAX_MS: usize = 60;

/// A piece of a call in its leg's format, both sides equally long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub caller: Vec<u8>,
    pub agent: Vec<u8>,
}

impl Piece {
    /// Both sides, sample by sample, into `data`; `samples` are only used meanwhile.
    pub fn interleave(&self, format: Format, samples: &mut [Vec<i16>; 2], data: &mut Vec<u8>) {
        for (samples, side) in samples.iter_mut().zip([&self.caller, &self.agent]) {
            samples.clear();
            format.decode(side, samples);
        }
        let [caller, agent] = samples;
        data.clear();
        data.reserve(caller.len() * wav::SAMPLE as usize);
        for (caller, agent) in caller.iter().zip(agent) {
            data.extend_from_slice(&caller.to_le_bytes());
            data.extend_from_slice(&agent.to_le_bytes());
        }
    }
}

#[derive(Debug)]
pub struct Mixer {
    format: Format,
    caller: Vec<u8>,
    agent: Vec<u8>,
    /// The last silence in `caller` where nothing had come.
    gap: Range<usize>,
}

impl Mixer {
    pub const fn new(format: Format) -> Self {
        Self { format, caller: Vec::new(), agent: Vec::new(), gap: 0..0 }
    }

    /// One frame has left.
    pub fn slot(&mut self, frame: &[u8]) {
        let size = self.format.frame_bytes();
        let end = self.agent.len() + size;
        self.agent.extend_from_slice(&frame[..frame.len().min(size)]);
        self.agent.resize(end, self.format.silence());
    }

    /// Slots have passed in which nothing left, or nothing that may be kept.
    pub fn silent_slots(&mut self, slots: usize) {
        self.agent.resize(self.agent.len() + slots * self.format.frame_bytes(), self.format.silence());
    }

    /// A packet of the caller's; `false`: it is left out.
    pub fn caller(&mut self, audio: &[u8]) -> bool {
        // Half a sample would shift all that follow.
        let audio = &audio[..audio.len() - audio.len() % self.format.bytes_per_sample()];
        let taken = self.makes_place(audio.len());
        if taken {
            self.caller.extend_from_slice(audio);
        }
        taken
    }

    /// A packet of which nothing may be kept but its length.
    pub fn caller_unheard(&mut self, bytes: usize) {
        let bytes = bytes - bytes % self.format.bytes_per_sample();
        if self.makes_place(bytes) {
            self.caller.resize(self.caller.len() + bytes, self.format.silence());
        }
    }

    fn makes_place(&mut self, bytes: usize) -> bool {
        let (now, end) = (self.agent.len(), self.caller.len() + bytes);
        if end < now {
            let before = self.caller.len();
            let begin = if self.gap.end == before { self.gap.start } else { before };
            self.gap = begin..now - bytes;
            self.caller.resize(self.gap.end, self.format.silence());
            return true;
        }
        let back = (end - now).min(self.gap.len());
        self.caller.drain(self.gap.end - back..self.gap.end);
        self.gap.end -= back;
        end - back <= now + self.bytes(AHEAD_MAX_MS)
    }

    /// What nothing changes any more, once there is enough of it.
    pub fn piece(&mut self) -> Option<Piece> {
        self.piece_of(PART_MS, HOLD_MS)
    }

    /// The same in other measures: so much at once, and so long the rest is held.
    pub fn piece_of(&mut self, part_ms: usize, hold_ms: usize) -> Option<Piece> {
        (self.agent.len() >= self.bytes(part_ms + hold_ms)).then(|| self.cut(self.bytes(part_ms)))
    }

    /// What is left, up to the last slot.
    pub fn rest(&mut self) -> Piece {
        self.cut(self.agent.len())
    }

    fn cut(&mut self, bytes: usize) -> Piece {
        if self.caller.len() < bytes {
            self.caller.resize(bytes, self.format.silence());
        }
        self.gap = self.gap.start.saturating_sub(bytes)..self.gap.end.saturating_sub(bytes);
        Piece { caller: self.caller.drain(..bytes).collect(), agent: self.agent.drain(..bytes).collect() }
    }

    fn bytes(&self, ms: usize) -> usize {
        self.format.rate as usize / 1_000 * ms * self.format.bytes_per_sample()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME: usize = 160;
    const QUIET: u8 = 0xff;

    fn mixer() -> Mixer {
        Mixer::new(Format::ULAW)
    }

    /// The number of each frame on a side; 0 is silence.
    fn frames(side: &[u8]) -> Vec<u8> {
        let number = |frame: &[u8]| {
            assert!(frame.iter().all(|byte| *byte == frame[0]), "a frame is not where the slots are");
            if frame[0] == QUIET { 0 } else { frame[0] }
        };
        side.chunks(FRAME).map(number).collect()
    }

    /// `.`: a slot; a number: this frame of the caller's comes.
    fn mixed(story: &str) -> Vec<u8> {
        let mut mixer = mixer();
        for event in story.split_whitespace() {
            match event.parse::<u8>() {
                Ok(number) => drop(mixer.caller(&[number; FRAME])),
                Err(_) => mixer.slot(&[9; FRAME]),
            }
        }
        let Piece { caller, agent } = mixer.rest();
        assert_eq!(caller.len(), agent.len());
        assert!(frames(&agent).iter().all(|frame| *frame == 9));
        frames(&caller)
    }

    #[test]
    fn a_frame_of_the_callers_stands_beside_the_slot_in_which_it_came() {
        for (story, expected) in [
            (". 1 . 2 . 3", &[1, 2, 3][..]),
            // The clocks have another phase.
            ("1 . 2 . 3 .", &[1, 2, 3]),
            // Jitter: one comes late, and the next one in time.
            (". 1 . . 2 3 . 4", &[1, 2, 3, 4]),
            (". 1 . . . 2 3 4 . 5", &[1, 2, 3, 4, 5]),
            // A pause of the phone's stays where it was.
            (". 1 . . . 2 . 3", &[1, 0, 0, 2, 3]),
            // After a pause, jitter again.
            (". 1 . . . . 2 . . 3 4", &[1, 0, 0, 0, 2, 3, 4]),
            // Nothing comes any more.
            (". 1 . .", &[1, 0, 0]),
        ] {
            assert_eq!(mixed(story), expected, "{story}");
        }
    }

    /// The engine stood still for 400 ms: its slots were given up, and the caller's packets have waited.
    #[test]
    fn what_comes_in_a_burst_after_a_standstill_finds_its_place() {
        let mut mixer = mixer();
        mixer.slot(&[9; FRAME]);
        mixer.caller(&[1; FRAME]);
        mixer.silent_slots(19);
        mixer.slot(&[9; FRAME]);
        for number in 2..=21 {
            assert!(mixer.caller(&[number; FRAME]));
        }
        let Piece { caller, agent } = mixer.rest();
        assert_eq!(frames(&caller), (1..=21).collect::<Vec<_>>());
        assert_eq!(frames(&agent), [&[9][..], &[0; 19], &[9]].concat());
    }

    #[test]
    fn what_is_more_than_a_second_and_a_half_back_is_handed_on_second_by_second() {
        let mut mixer = mixer();
        let mut slots = 0;
        let piece = loop {
            mixer.slot(&[1; FRAME]);
            mixer.caller(&[2; FRAME]);
            slots += 1;
            if let Some(piece) = mixer.piece() {
                break piece;
            }
        };
        assert_eq!((slots, piece.caller.len(), piece.agent.len()), (75, 50 * FRAME, 50 * FRAME));
        assert_eq!(mixer.piece(), None);
        assert_eq!(mixer.rest().caller, [2; 25 * FRAME]);
    }

    #[test]
    fn clocks_that_differ_do_not_pull_the_sides_apart() {
        // A caller whose clock is faster or slower by one part in fifty, for ten minutes.
        for (every, callers) in [(50, 51), (50, 49)] {
            let (mut mixer, mut left_out, mut sent) = (mixer(), 0, 0_usize);
            for slot in 0..30_000_usize {
                mixer.slot(&[9; FRAME]);
                while sent * every < (slot + 1) * callers {
                    left_out += usize::from(!mixer.caller(&[1; FRAME]));
                    sent += 1;
                }
                drop(mixer.piece());
                let apart = mixer.caller.len().abs_diff(mixer.agent.len());
                assert!(apart <= 3 * FRAME, "{apart} bytes after {slot} slots");
            }
            assert_eq!(left_out > 0, callers > every, "{left_out} were left out");
        }
    }

    #[test]
    fn half_a_sample_shifts_nothing() {
        let mut mixer = Mixer::new(Format::SLIN8);
        mixer.slot(&[9; 320]);
        mixer.caller(&[1; 321]);
        mixer.slot(&[9; 320]);
        mixer.caller(&[2; 320]);
        assert_eq!(mixer.rest().caller, [[1; 320], [2; 320]].concat());
    }

    proptest! {
        /// Whatever comes, however long and when: the sides are equally long, the slots stand where they were, and the
        /// caller's samples in their order.
        #[test]
        fn no_order_of_events_breaks_the_time_axis(events in prop::collection::vec((0..3_u8, 0..500_usize), 0..120)) {
            let (mut mixer, mut caller, mut agent) = (mixer(), Vec::new(), Vec::new());
            let (mut slots, mut number) = (0_usize, 0_u8);
            for (event, length) in events {
                match event {
                    0 => {
                        mixer.slot(&[7; FRAME]);
                        slots += 1;
                    }
                    1 => {
                        mixer.silent_slots(length % 40);
                        slots += length % 40;
                    }
                    _ => {
                        number = number % 250 + 1;
                        mixer.caller(&vec![number; length]);
                    }
                }
                while let Some(piece) = mixer.piece() {
                    caller.extend(piece.caller);
                    agent.extend(piece.agent);
                }
                prop_assert!(mixer.caller.len() <= 78 * FRAME, "memory has a limit");
            }
            let rest = mixer.rest();
            caller.extend(rest.caller);
            agent.extend(rest.agent);
            prop_assert_eq!(caller.len(), agent.len());
            prop_assert_eq!(agent.len(), slots * FRAME);
            let heard: Vec<u8> = caller.into_iter().filter(|byte| *byte != QUIET).collect();
            let steps = heard.windows(2).map(|pair| (u16::from(pair[1]) + 250 - u16::from(pair[0])) % 250);
            prop_assert!(steps.clone().all(|step| step < 125), "{:?}", steps.collect::<Vec<_>>());
        }
    }
}
