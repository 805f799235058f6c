//! The packets of a caller, brought into order. Pure: time is an argument.
//!
//! Nothing here plays audio by a clock, so nothing has to be held back to keep one: what comes in order is passed on in
//! the moment it comes. Only behind a small gap packets wait, up to [`HOLD`], for the missing ones; what then is still
//! missing is concealed, and audio goes on. Longer gaps are filled with silence by the call, which knows the time.

use super::payload::Reader;
use crate::{
    asterisk::counters::Discard,
    audio::{Format, attenuate},
};
use bytes::Bytes;
use rtp_rs::RtpReader;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// How long a packet waits for those before it. Packets that overtake one another in a network are a few milliseconds
/// apart; and the next one after a single loss, 40 ms late by then, is still heard before the call takes 60 ms without
/// audio for silence.
pub(super) const HOLD: Duration = Duration::from_millis(15);
/// Missing packets that are waited for and concealed, so that no more than as many wait behind them. The call fills what
/// is longer with silence from 60 ms on, and a sound that is repeated for longer becomes a tone.
const CONCEALED_MAX: u16 = 2;
/// The amplitude of a repetition, against what it repeats.
const FADE: f32 = 0.5;
/// Packets that may be missing before a gap counts as a jump: two seconds.
const MAX_GAP: u16 = 100;
/// What a jump may have lost: a minute.
const OUTAGE_MAX: u16 = 3_000;
/// How far back a packet is known as late or as a duplicate: the bits of [`Order::passed`].
const WINDOW: u16 = 64;

/// What has become of packets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    /// Passed on.
    pub(super) received: u64,
    /// Missing from the sequence.
    pub(super) lost: u64,
    /// Of those: repetitions that were passed on in their place.
    pub(super) concealed: u64,
    /// They had waited for their turn before it showed that they hold no audio.
    pub(super) malformed: u64,
}

/// Reads the packets of one direction.
pub(super) struct Incoming {
    format: Format,
    reader: Reader,
    ssrc: Option<u32>,
    order: Order,
    /// Behind a gap, in order.
    held: VecDeque<Held>,
    /// When the first of them has waited long enough.
    release: Option<Instant>,
    last: Bytes,
    tally: Tally,
}

struct Held {
    sequence: u16,
    payload_type: u8,
    payload: Bytes,
}

impl Incoming {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            reader: Reader::new(format),
            ssrc: None,
            order: Order::default(),
            held: VecDeque::new(),
            release: None,
            last: Bytes::new(),
            tally: Tally::default(),
        }
    }

    /// Takes one packet; `ready` gets what is to be heard now, in the leg's format.
    pub(super) fn take(&mut self, packet: &[u8], now: Instant, ready: &mut VecDeque<Bytes>) -> Result<(), Discard> {
        let reader = RtpReader::new(packet).map_err(|_| Discard::Malformed)?;
        let payload_type = reader.payload_type();
        if !self.reader.hears(payload_type) {
            return Err(Discard::PayloadType);
        }
        if reader.payload().is_empty() {
            return Err(Discard::Malformed);
        }
        if self.ssrc != Some(reader.ssrc()) {
            // Asterisk began a new stream, on its own address. Of the old one nothing more is waited for.
            self.give_up(ready);
            self.ssrc = Some(reader.ssrc());
            self.order = Order::default();
        }
        let sequence = u16::from(reader.sequence_number());
        let packet = Held { sequence, payload_type, payload: Bytes::copy_from_slice(reader.payload()) };
        match self.order.missing_before(sequence) {
            Some(1..=CONCEALED_MAX) => return self.hold(packet, now),
            // The stream goes on: what waits goes first.
            Some(1..) => self.give_up(ready),
            None if self.order.confirms_jump(sequence) => {
                self.give_up(ready);
                self.tally.lost += u64::from(self.order.jumped_over(sequence));
                self.order = Order::default();
            }
            Some(0) | None => {}
        }
        self.pass(packet, ready)?;
        self.follow(ready);
        Ok(())
    }

    /// When [`Self::late`] wants to be called.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.release
    }

    /// What is still missing at its deadline is missing for good.
    pub(super) fn late(&mut self, now: Instant, ready: &mut VecDeque<Bytes>) {
        if self.release.is_some_and(|release| now >= release) {
            self.give_up(ready);
        }
    }

    /// Since this was last asked.
    pub(super) fn tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    fn hold(&mut self, packet: Held, now: Instant) -> Result<(), Discard> {
        // Sequence numbers go round; all that wait are within a few of each other.
        let behind = |held: &Held| packet.sequence.wrapping_sub(held.sequence).cast_signed();
        let place = self.held.iter().position(|held| behind(held) <= 0).unwrap_or(self.held.len());
        if self.held.get(place).is_some_and(|held| behind(held) == 0) {
            return Err(Discard::Duplicate);
        }
        self.held.insert(place, packet);
        self.release.get_or_insert(now + HOLD);
        Ok(())
    }

    /// Passes on what waits, with what is missing between concealed.
    fn give_up(&mut self, ready: &mut VecDeque<Bytes>) {
        self.release = None;
        while let Some(packet) = self.held.pop_front() {
            self.pass_held(packet, ready);
        }
    }

    /// Passes on what waited for the packet that has come.
    fn follow(&mut self, ready: &mut VecDeque<Bytes>) {
        while let Some(first) = self.held.front() {
            match self.order.missing_before(first.sequence) {
                Some(1..) => return,
                _ => {
                    if let Some(packet) = self.held.pop_front() {
                        self.pass_held(packet, ready);
                    }
                }
            }
        }
        self.release = None;
    }

    fn pass_held(&mut self, packet: Held, ready: &mut VecDeque<Bytes>) {
        if self.pass(packet, ready).is_err() {
            self.tally.malformed += 1;
        }
    }

    fn pass(&mut self, packet: Held, ready: &mut VecDeque<Bytes>) -> Result<(), Discard> {
        let missing = self.order.place(packet.sequence)?;
        self.tally.lost += u64::from(missing);
        let audio = self.reader.audio(packet.payload_type, packet.payload)?;
        if missing <= CONCEALED_MAX && !self.last.is_empty() {
            for _ in 0..missing {
                self.last = attenuate(self.format, &self.last, FADE);
                ready.push_back(self.last.clone());
                self.tally.concealed += 1;
            }
        }
        self.tally.received += 1;
        self.last = audio.clone();
        ready.push_back(audio);
        Ok(())
    }
}

/// Where a packet stands in the sequence. After RFC 3550, appendix A.1: a jump is believed when
/// the packet after it follows on.
#[derive(Debug, Default)]
pub(super) struct Order {
    highest: Option<u16>,
    /// Bit n: `highest - n` has been passed on.
    passed: u64,
    /// What would confirm a jump.
    after_jump: Option<u16>,
}

impl Order {
    /// How many packets are missing before this one, if it is ahead of what was passed on, and not by a jump.
    fn missing_before(&self, sequence: u16) -> Option<u16> {
        let ahead = sequence.wrapping_sub(self.highest?);
        (1..=MAX_GAP).contains(&ahead).then(|| ahead - 1)
    }

    fn confirms_jump(&self, sequence: u16) -> bool {
        self.after_jump == Some(sequence)
    }

    /// Of a jump that this packet confirms, what is missing; the first packet behind it was not passed on.
    fn jumped_over(&self, sequence: u16) -> u16 {
        let missing = self.highest.map_or(0, |highest| sequence.wrapping_sub(highest).saturating_sub(2));
        // A stream that has begun anew has lost nothing.
        if missing <= OUTAGE_MAX { missing } else { 0 }
    }

    /// How many packets are missing before this one, or why it must not be passed on.
    pub(super) fn place(&mut self, sequence: u16) -> Result<u16, Discard> {
        let Some(highest) = self.highest else {
            self.restart(sequence);
            return Ok(0);
        };
        if let Some(missing) = self.missing_before(sequence) {
            self.highest = Some(sequence);
            self.passed = self.passed.checked_shl(u32::from(missing) + 1).unwrap_or(0) | 1;
            self.after_jump = None;
            return Ok(missing);
        }
        let behind = highest.wrapping_sub(sequence);
        if behind < WINDOW {
            let bit = 1 << behind;
            let known = self.passed & bit != 0;
            self.passed |= bit;
            Err(if known { Discard::Duplicate } else { Discard::Late })
        } else if self.confirms_jump(sequence) {
            self.restart(sequence);
            Ok(0)
        } else {
            self.after_jump = Some(sequence.wrapping_add(1));
            Err(Discard::Late)
        }
    }

    fn restart(&mut self, sequence: u16) {
        *self = Self { highest: Some(sequence), passed: 1, after_jump: None };
    }
}

#[cfg(test)]
mod tests;
