//! Agent audio that was not yet heard, and the ledger of what was.
//!
//! A frame counts as heard when it has left for Asterisk: neither AudioSocket nor RTP has a buffer
//! there. Of a WebSocket's buffer Asterisk tells how much waits in it, and what of that is thrown away
//! is taken back. Audio belongs to a response; an interrupted response is remembered by its id, so
//! whatever of it still arrives is dropped, and nothing of the next one is.

use super::agent::{ItemId, ResponseId};
use crate::audio::{FRAME, Format};
use bytes::{Bytes, BytesMut};
use std::{collections::VecDeque, time::Duration};

/// The longest speech that waits to be heard. Providers send minutes of it in seconds; an hour
/// would be a provider gone wrong. At 16 kHz this is 9.6 MB.
const QUEUED_MAX: Duration = Duration::from_secs(5 * 60);

/// How many interrupted responses are remembered. Providers have one or two under way.
const STALE_MAX: usize = 16;

/// What has left can be taken back for as long: Asterisk's buffer holds 1000 frames, and drops what is beyond.
const UNDO_MAX: Duration = Duration::from_secs(20);
/// Items of which the ledger tells. In [`UNDO_MAX`] there are a handful; more would be items of a frame or two.
const ITEMS_MAX: usize = 64;

#[derive(Debug)]
pub struct Playout {
    format: Format,
    queue: VecDeque<Piece>,
    queued_bytes: usize,
    /// At the end of the queue, so many bytes that nobody hears.
    quiet_end: usize,
    /// The items that were heard of late, the one being heard last.
    played: VecDeque<Played>,
    /// What has left of late, in this order.
    left: VecDeque<Left>,
    left_bytes: usize,
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

#[derive(Debug)]
struct Played {
    response: ResponseId,
    item: ItemId,
    /// Bytes that have left, but for those that were taken back.
    heard: usize,
    /// Some were taken back, of which nobody was told.
    taken_back: bool,
}

/// A stretch of what has left.
#[derive(Debug)]
struct Left {
    /// Of an item, or silence and sounds of the engine's own.
    item: Option<(ResponseId, ItemId)>,
    bytes: usize,
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
            quiet_end: 0,
            played: VecDeque::new(),
            left: VecDeque::new(),
            left_bytes: 0,
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
        let quiet = self.format.quiet_end(&bytes);
        self.quiet_end = if quiet < bytes.len() { quiet } else { self.quiet_end + quiet };
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

    /// What waits first is the rest of what is being heard.
    pub fn is_begun(&self) -> bool {
        let both = self.queue.front().zip(self.played.back());
        both.is_some_and(|(piece, played)| (&piece.response, &piece.item) == (&played.response, &played.item))
    }

    /// Something that waits can be heard: silence at its end is not speech.
    pub fn speaks_on(&self) -> bool {
        self.queued_bytes > self.quiet_end
    }

    /// The frame of this 20 ms slot. `more` says that the agent is still speaking, so an incomplete
    /// last frame may wait one slot for its rest.
    pub fn next(&mut self, more: bool) -> Slot {
        let size = self.format.frame_bytes();
        if self.queued_bytes == 0 || (self.queued_bytes < size && more && !self.waited) {
            self.waited = self.queued_bytes > 0;
            self.passes(size);
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
        self.passes(size - frame.len());
        frame.resize(size, self.format.silence());
        Slot { frame: frame.freeze(), speech: true }
    }

    /// Something else than the agent has left, of so many bytes.
    pub fn passes(&mut self, bytes: usize) {
        self.has_left(None, bytes);
    }

    /// Up to `wanted` bytes of the oldest piece, entered into the ledger.
    fn take(&mut self, wanted: usize) -> Bytes {
        let Some(piece) = self.queue.front_mut() else { return Bytes::new() };
        let taken = piece.bytes.split_to(wanted.min(piece.bytes.len()));
        let item = (piece.response.clone(), piece.item.clone());
        if piece.bytes.is_empty() {
            self.queue.pop_front();
        }
        self.queued_bytes -= taken.len();
        match self.played.back_mut().filter(|played| played.is(&item)) {
            Some(played) => played.heard += taken.len(),
            None => {
                if self.played.len() == ITEMS_MAX {
                    self.played.pop_front();
                }
                let (response, item) = item.clone();
                self.played.push_back(Played { response, item, heard: taken.len(), taken_back: false });
            }
        }
        self.has_left(Some(item), taken.len());
        taken
    }

    fn has_left(&mut self, item: Option<(ResponseId, ItemId)>, bytes: usize) {
        self.left_bytes += bytes;
        match self.left.back_mut().filter(|last| last.item == item) {
            Some(last) => last.bytes += bytes,
            None => self.left.push_back(Left { item, bytes }),
        }
        // The first stretch goes when none of it can be taken back any more.
        let kept = self.left_bytes - self.left.front().map_or(0, |first| first.bytes);
        if kept >= self.bytes_of(UNDO_MAX) {
            self.left.pop_front();
            self.left_bytes = kept;
        }
    }

    /// The last of what has left, as much as this, was thrown away before it was heard, and nothing else waits to be. How much of
    /// it was the agent's.
    pub fn take_back(&mut self, unheard: Duration) -> usize {
        let (mut unheard, mut dropped) = (self.bytes_of(unheard), 0);
        while let Some(Left { item, bytes }) = self.left.pop_back().filter(|_| unheard > 0) {
            let taken = unheard.min(bytes);
            unheard -= taken;
            let Some(item) = item else { continue };
            dropped += taken;
            if let Some(played) = self.played.iter_mut().rev().find(|played| played.is(&item)) {
                played.heard = played.heard.saturating_sub(taken);
                played.taken_back = true;
            }
        }
        self.left.clear();
        self.left_bytes = 0;
        dropped
    }

    fn bytes_of(&self, length: Duration) -> usize {
        let frames = length.as_millis() / FRAME.as_millis();
        usize::try_from(frames).unwrap_or(usize::MAX).saturating_mul(self.format.frame_bytes())
    }

    /// Forgets everything that was not heard, and whatever else comes of the `active` response. The last of what has left, as
    /// much as `unheard`, is thrown away as well.
    pub fn interrupt(&mut self, active: Option<&ResponseId>, unheard: Duration) -> Interrupted {
        let taken_back = self.take_back(unheard);
        if !self.speaks_on() && active.is_none() && taken_back == 0 {
            // Only silence is left of what was said: it was heard to its end.
            self.queue.clear();
            self.queued_bytes = 0;
        }
        let interrupted = Interrupted { cuts: self.cuts(active), dropped: self.queued_bytes + taken_back };
        let mut cut_off: Vec<ResponseId> = self.queue.drain(..).map(|piece| piece.response).collect();
        cut_off.extend(active.cloned());
        cut_off.dedup();
        cut_off.into_iter().for_each(|response| self.discard(response));
        (self.queued_bytes, self.quiet_end) = (0, 0);
        interrupted
    }

    fn cuts(&mut self, active: Option<&ResponseId>) -> Vec<Cut> {
        let format = self.format;
        let untold = |played: &mut Played| std::mem::take(&mut played.taken_back).then(|| played.cut(format));
        let mut cuts: Vec<Cut> = self.played.iter_mut().filter_map(untold).collect();
        for piece in &self.queue {
            let item = (piece.response.clone(), piece.item.clone());
            if cuts.last().is_none_or(|last| last.item != piece.item || last.response != piece.response) {
                let playing = self.played.back().filter(|played| played.is(&item));
                let nothing = Cut { response: item.0, item: item.1, heard: Duration::ZERO };
                cuts.push(playing.map_or(nothing, |playing| playing.cut(self.format)));
            }
        }
        // The queue is empty because the agent speaks no faster than it is heard.
        if let (true, Some(playing)) = (cuts.is_empty(), self.played.back())
            && Some(&playing.response) == active
        {
            cuts.push(playing.cut(self.format));
        }
        cuts
    }

    /// Another agent may use the same ids for its own responses.
    pub fn forget_responses(&mut self) {
        self.stale.clear();
        self.played.clear();
        self.left.clear();
        self.left_bytes = 0;
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

impl Played {
    fn is(&self, (response, item): &(ResponseId, ItemId)) -> bool {
        self.item == *item && self.response == *response
    }

    fn cut(&self, format: Format) -> Cut {
        let (response, item) = (self.response.clone(), self.item.clone());
        Cut { response, item, heard: format.duration_of(self.heard) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 160;
    const FRAME_TIME: Duration = super::FRAME;

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
        let interrupted = playout.interrupt(Some(&"r".into()), Duration::ZERO);
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
        playout.interrupt(None, Duration::ZERO);
        assert_eq!(playout.push("old".into(), "i".into(), speech(FRAME)), Queued::Stale);
        assert_eq!(playout.push("new".into(), "j".into(), speech(FRAME)), Queued::Kept);
    }

    #[test]
    fn an_interruption_after_everything_was_heard_cuts_nothing() {
        let mut playout = playout();
        playout.push("r".into(), "i".into(), speech(FRAME));
        playout.next(false);
        assert!(playout.interrupt(None, Duration::ZERO).cuts.is_empty());
    }

    #[test]
    fn a_response_that_speaks_no_faster_than_it_is_heard_can_be_interrupted_too() {
        let mut playout = playout();
        playout.push("r".into(), "i".into(), speech(FRAME));
        playout.next(true);
        let interrupted = playout.interrupt(Some(&"r".into()), Duration::ZERO);
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

    /// The items that were cut off, each with the frames that were heard of it.
    fn frames(interrupted: &Interrupted) -> Vec<(&str, u128)> {
        let heard = |cut: &Cut| cut.heard.as_millis() / FRAME_TIME.as_millis();
        interrupted.cuts.iter().map(|cut| (&*cut.item, heard(cut))).collect()
    }

    fn plays(playout: &mut Playout, item: &str, slots: usize) {
        playout.push("r".into(), item.into(), speech(slots * FRAME));
        (0..slots).for_each(|_| drop(playout.next(false)));
    }

    #[test]
    fn what_waits_in_asterisk_when_it_is_flushed_was_not_heard() {
        let mut playout = playout();
        playout.push("r".into(), "i".into(), speech(10 * FRAME));
        (0..6).for_each(|_| drop(playout.next(true)));
        let interrupted = playout.interrupt(Some(&"r".into()), 2 * FRAME_TIME);
        assert_eq!(frames(&interrupted), [("i", 4)]);
        assert_eq!(interrupted.dropped, 6 * FRAME, "what had not left, and what had and was not heard");
    }

    #[test]
    fn an_answer_that_has_left_to_its_end_is_cut_where_the_flush_met_it() {
        let mut playout = playout();
        plays(&mut playout, "one", 5);
        plays(&mut playout, "two", 3);
        // A pause after it waits as well.
        drop(playout.next(false));
        assert_eq!(frames(&playout.interrupt(None, 6 * FRAME_TIME)), [("one", 3), ("two", 0)]);
        assert!(playout.interrupt(None, 6 * FRAME_TIME).cuts.is_empty(), "it is told once");
    }

    #[test]
    fn silence_that_waits_takes_nothing_of_an_answer_that_was_heard() {
        let mut playout = playout();
        plays(&mut playout, "i", 5);
        playout.passes(FRAME);
        drop(playout.next(false));
        assert!(playout.interrupt(None, 2 * FRAME_TIME).cuts.is_empty());
    }

    #[test]
    fn what_asterisk_threw_away_is_told_by_the_next_interruption() {
        let mut playout = playout();
        plays(&mut playout, "one", 50);
        playout.take_back(30 * FRAME_TIME);
        // Nothing waits any more: what comes now is heard.
        plays(&mut playout, "two", 5);
        playout.push("r".into(), "two".into(), speech(FRAME));
        assert_eq!(frames(&playout.interrupt(Some(&"r".into()), Duration::ZERO)), [("one", 20), ("two", 5)]);
    }

    #[test]
    fn a_call_of_hours_keeps_no_more_of_what_has_left_than_can_be_taken_back() {
        let mut playout = playout();
        for number in 0..5_000 {
            plays(&mut playout, &number.to_string(), 1);
            drop(playout.next(false));
        }
        let kept = playout.format.duration_of(playout.left_bytes);
        assert!(kept <= UNDO_MAX + FRAME_TIME, "{kept:?}");
        assert!(playout.left.len() <= 1_002 && playout.played.len() <= ITEMS_MAX);
    }
}
