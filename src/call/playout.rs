//! Agent audio that was not yet heard, and the ledger of what was.
//!
//! A frame counts as heard when it has left for Asterisk: neither AudioSocket nor RTP has a buffer
//! there. Audio belongs to a response; an interrupted response is remembered by its id, so whatever
//! of it still arrives is dropped, and nothing of the next one is.

use super::agent::{ItemId, ResponseId};
use crate::audio::Format;
use bytes::{Bytes, BytesMut};
use std::{collections::VecDeque, time::Duration};

/// The longest speech that waits to be heard. Providers send minutes of it in seconds; an hour
/// would be a provider gone wrong. At 16 kHz this is 9.6 MB.
const QUEUED_MAX: Duration = Duration::from_secs(5 * 60);

/// How many interrupted responses are remembered. Providers have one or two under way.
const STALE_MAX: usize = 16;

#[derive(Debug)]
pub struct Playout {
    format: Format,
    queue: VecDeque<Piece>,
    queued_bytes: usize,
    /// The item being heard and how many bytes of it have left.
    playing: Option<Playing>,
    stale: VecDeque<ResponseId>,
    silence: Bytes,
    /// A last, incomplete frame has waited one tick for more.
    waited: bool,
}

#[derive(Debug)]
struct Piece {
    response: ResponseId,
    item: ItemId,
    bytes: Bytes,
}

#[derive(Debug, Clone, PartialEq)]
struct Playing {
    response: ResponseId,
    item: ItemId,
    sent: usize,
}

/// What an interruption cut off.
#[derive(Debug, Clone, PartialEq)]
pub struct Interrupted {
    /// Each item that was not heard to its end, the one being heard first. Empty when nothing was
    /// cut off: all was heard, or nothing was begun.
    pub cuts: Vec<Cut>,
    /// Bytes that had arrived and will not be heard.
    pub dropped: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    pub response: ResponseId,
    pub item: ItemId,
    /// How much of `item` was truly heard.
    pub heard: Duration,
}

/// What became of audio offered to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    Kept,
    /// Its response was interrupted.
    Stale,
    /// More than [`QUEUED_MAX`] would wait.
    Overflow,
}

/// What one 20 ms slot carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    pub frame: Bytes,
    pub speech: bool,
}

impl Playout {
    pub fn new(format: Format) -> Self {
        let silence = Bytes::from(vec![format.silence(); format.frame_bytes()]);
        Self {
            format,
            queue: VecDeque::new(),
            queued_bytes: 0,
            playing: None,
            stale: VecDeque::new(),
            silence,
            waited: false,
        }
    }

    pub fn push(&mut self, response: ResponseId, item: ItemId, bytes: Bytes) -> Queued {
        if self.is_stale(&response) {
            return Queued::Stale;
        }
        if bytes.is_empty() {
            return Queued::Kept;
        }
        if self.format.duration_of(self.queued_bytes + bytes.len()) > QUEUED_MAX {
            return Queued::Overflow;
        }
        self.waited = false;
        self.queued_bytes += bytes.len();
        self.queue.push_back(Piece { response, item, bytes });
        Queued::Kept
    }

    /// One frame of silence.
    pub fn silence(&self) -> Bytes {
        self.silence.clone()
    }

    /// How long it takes to say what waits.
    pub fn queued(&self) -> Duration {
        self.format.duration_of(self.queued_bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The frame of this 20 ms slot. `more` says that the agent is still speaking, so an incomplete
    /// last frame may wait one slot for its rest.
    pub fn next(&mut self, more: bool) -> Slot {
        let size = self.format.frame_bytes();
        if self.queued_bytes == 0 || (self.queued_bytes < size && more && !self.waited) {
            self.waited = self.queued_bytes > 0;
            return Slot { frame: self.silence.clone(), speech: false };
        }
        self.waited = false;
        let first = self.take(size);
        if first.len() == size {
            return Slot { frame: first, speech: true };
        }
        let mut frame = BytesMut::with_capacity(size);
        frame.extend_from_slice(&first);
        while frame.len() < size && self.queued_bytes > 0 {
            let rest = self.take(size - frame.len());
            frame.extend_from_slice(&rest);
        }
        frame.resize(size, self.format.silence());
        Slot { frame: frame.freeze(), speech: true }
    }

    /// Up to `wanted` bytes of the oldest piece, entered into the ledger.
    fn take(&mut self, wanted: usize) -> Bytes {
        let Some(piece) = self.queue.front_mut() else { return Bytes::new() };
        let taken = piece.bytes.split_to(wanted.min(piece.bytes.len()));
        match &mut self.playing {
            Some(playing) if playing.item == piece.item && playing.response == piece.response => {
                playing.sent += taken.len();
            }
            playing => {
                let (response, item) = (piece.response.clone(), piece.item.clone());
                *playing = Some(Playing { response, item, sent: taken.len() });
            }
        }
        if piece.bytes.is_empty() {
            self.queue.pop_front();
        }
        self.queued_bytes -= taken.len();
        taken
    }

    /// Forgets everything that was not heard, and whatever else comes of the `active` response.
    pub fn interrupt(&mut self, active: Option<&ResponseId>) -> Interrupted {
        let interrupted = Interrupted { cuts: self.cuts(active), dropped: self.queued_bytes };
        let mut cut_off: Vec<ResponseId> = self.queue.drain(..).map(|piece| piece.response).collect();
        cut_off.extend(active.cloned());
        cut_off.dedup();
        cut_off.into_iter().for_each(|response| self.discard(response));
        self.queued_bytes = 0;
        interrupted
    }

    fn cuts(&self, active: Option<&ResponseId>) -> Vec<Cut> {
        let mut cuts: Vec<Cut> = Vec::new();
        for piece in &self.queue {
            if cuts.last().is_none_or(|last| last.item != piece.item || last.response != piece.response) {
                let heard = match &self.playing {
                    Some(playing) if playing.response == piece.response && playing.item == piece.item => playing.sent,
                    _ => 0,
                };
                let (response, item) = (piece.response.clone(), piece.item.clone());
                cuts.push(Cut { response, item, heard: self.format.duration_of(heard) });
            }
        }
        // The queue is empty because the agent speaks no faster than it is heard.
        if let (true, Some(playing)) = (cuts.is_empty(), &self.playing)
            && Some(&playing.response) == active
        {
            let (response, item) = (playing.response.clone(), playing.item.clone());
            cuts.push(Cut { response, item, heard: self.format.duration_of(playing.sent) });
        }
        cuts
    }

    /// Another agent may use the same ids for its own responses.
    pub fn forget_responses(&mut self) {
        self.stale.clear();
    }

    pub fn is_stale(&self, response: &ResponseId) -> bool {
        self.stale.contains(response)
    }

    /// From now on, audio of this response is stale.
    pub fn discard(&mut self, response: ResponseId) {
        if self.is_stale(&response) {
            return;
        }
        if self.stale.len() == STALE_MAX {
            self.stale.pop_front();
        }
        self.stale.push_back(response);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 160;

    fn speech(bytes: usize) -> Bytes {
        vec![0x42; bytes].into()
    }

    fn playout() -> Playout {
        Playout::new(Format::ULAW)
    }

    #[test]
    fn with_nothing_to_say_every_slot_is_silence() {
        let slot = playout().next(false);
        assert_eq!((slot.speech, &slot.frame[..]), (false, &[0xff; FRAME][..]));
    }

    #[test]
    fn speech_of_any_length_leaves_in_whole_frames_and_in_order() {
        let mut playout = playout();
        for byte in 0..100u8 {
            playout.push("r".into(), "i".into(), vec![byte; 7].into());
        }
        let heard: Vec<u8> = std::iter::from_fn(|| Some(playout.next(false)).filter(|s| s.speech))
            .flat_map(|slot| {
                assert_eq!(slot.frame.len(), FRAME);
                slot.frame
            })
            .collect();
        let sent: Vec<u8> = (0..100u8).flat_map(|byte| [byte; 7]).collect();
        assert_eq!(heard[..700], sent);
        assert!(heard[700..].iter().all(|&byte| byte == 0xff), "only the tail is padded");
    }

    #[test]
    fn an_incomplete_frame_waits_one_slot_for_its_rest_while_the_agent_speaks() {
        let mut playout = playout();
        playout.push("r".into(), "i".into(), speech(100));
        assert!(!playout.next(true).speech);
        playout.push("r".into(), "i".into(), speech(60));
        assert_eq!(playout.next(true).frame, speech(FRAME));
        playout.push("r".into(), "i".into(), speech(100));
        assert!(!playout.next(true).speech);
        assert!(playout.next(true).speech, "but not for ever");
    }

    #[test]
    fn an_interruption_tells_how_much_of_the_item_was_heard() {
        let mut playout = playout();
        playout.push("r".into(), "one".into(), speech(FRAME));
        playout.push("r".into(), "two".into(), speech(5 * FRAME));
        for _ in 0..3 {
            playout.next(true);
        }
        playout.push("r".into(), "three".into(), speech(FRAME));
        let interrupted = playout.interrupt(Some(&"r".into()));
        let cuts: Vec<_> = interrupted.cuts.iter().map(|cut| (&*cut.item, cut.heard)).collect();
        assert_eq!(cuts, [("two", Duration::from_millis(40)), ("three", Duration::ZERO)]);
        assert_eq!(interrupted.dropped, 4 * FRAME, "what was dropped is told");
        assert!(playout.is_empty());
        assert!(!playout.next(false).speech);
    }

    #[test]
    fn audio_of_an_interrupted_response_is_stale_and_the_next_response_is_not() {
        let mut playout = playout();
        playout.push("old".into(), "i".into(), speech(FRAME));
        playout.interrupt(None);
        assert_eq!(playout.push("old".into(), "i".into(), speech(FRAME)), Queued::Stale);
        assert_eq!(playout.push("new".into(), "j".into(), speech(FRAME)), Queued::Kept);
    }

    #[test]
    fn an_interruption_after_everything_was_heard_cuts_nothing() {
        let mut playout = playout();
        playout.push("r".into(), "i".into(), speech(FRAME));
        playout.next(false);
        assert!(playout.interrupt(None).cuts.is_empty());
    }

    #[test]
    fn a_response_that_speaks_no_faster_than_it_is_heard_can_be_interrupted_too() {
        let mut playout = playout();
        playout.push("r".into(), "i".into(), speech(FRAME));
        playout.next(true);
        let interrupted = playout.interrupt(Some(&"r".into()));
        assert_eq!(interrupted.cuts[0].heard, Duration::from_millis(20));
        assert_eq!(playout.push("r".into(), "i".into(), speech(FRAME)), Queued::Stale);
    }

    #[test]
    fn a_minute_at_once_is_kept_whole_and_an_hour_is_refused() {
        let mut playout = playout();
        assert_eq!(playout.push("r".into(), "i".into(), speech(60 * 8_000)), Queued::Kept);
        assert_eq!(playout.push("r".into(), "i".into(), speech(3_600 * 8_000)), Queued::Overflow);
        let slots = std::iter::from_fn(|| Some(playout.next(false)).filter(|s| s.speech)).count();
        assert_eq!(slots, 3_000);
    }
}
