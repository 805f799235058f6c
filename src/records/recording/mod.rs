//! What calls sounded like: the caller on the left, what the caller heard on the right, slot by slot.
//!
//! A call's task hands frames to its [`Recorder`], which waits for nothing; one writer writes the files of all calls.
//! What that writer has no room for is lost, counted, and silence in the recording, so that the time axis stays right.

mod counters;
mod folder;
mod left;
mod listener;
mod mixer;
mod wav;
mod writer;

pub use counters::RecordingCounters;
pub(super) use folder::{delete, expire};
pub use folder::{file_name, open_recording, recording_file};
pub(super) use left::complete;
pub use listener::{Listener, Unheard};
pub use wav::{Sound, Waveform};

use super::record::Recorded;
use crate::{audio::Format, call::Recording, facts::CallId};
use counters::Lost;
use mixer::{Mixer, Piece};
use std::{path::Path, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tracing::error;
use writer::{Losses, Order, Part, Writer};

/// Parts that wait for the disk: ten seconds of a hundred calls, 64 MB of them at 16 kHz.
const WAITING_MAX: usize = 1_000;
/// How long the end of a call waits for the last part to be written.
const END_MAX: Duration = Duration::from_secs(2);
/// Slots that passed at once and are told as a number: beyond them nothing of the caller comes late any more.
const STANDSTILL: u32 = 50;

/// The way of all recordings to the disk.
pub(super) struct Recordings {
    orders: mpsc::Sender<Order>,
    counters: RecordingCounters,
}

impl Recordings {
    pub fn start(directory: &Path, counters: RecordingCounters) -> Self {
        let (orders, waiting) = mpsc::channel(WAITING_MAX);
        let writer = Writer::new(directory.to_owned(), counters.clone());
        tokio::spawn(writer.run(waiting));
        Self { orders, counters }
    }

    pub fn recorder(&self, call: CallId, format: Format) -> Recorder {
        Recorder {
            call,
            format,
            state: Recording::Off,
            mixer: Mixer::new(format),
            began: None,
            bytes: 0,
            skip: 0,
            discarded: false,
            lost: Losses::new(),
            orders: self.orders.clone(),
            counters: self.counters.clone(),
        }
    }
}

/// Of one call. It keeps nothing until it is told that it may.
pub struct Recorder {
    call: CallId,
    format: Format,
    state: Recording,
    mixer: Mixer,
    /// When its first sample was heard, since the call began.
    began: Option<Duration>,
    /// Bytes of one side so far.
    bytes: u64,
    /// Of these, what the writer was not told yet and is silent.
    skip: u64,
    /// The writer was told to delete it.
    discarded: bool,
    lost: Losses,
    orders: mpsc::Sender<Order>,
    counters: RecordingCounters,
}

impl Recorder {
    /// What may be kept from here on.
    pub fn set(&mut self, state: Recording) {
        self.state = state;
        if state == Recording::Discarded && self.began.is_some() && !self.discarded {
            // At once; where there is no room for it, when the call ends.
            self.discarded = self.orders.try_send(Order::Discard(self.call)).is_ok();
        }
    }

    /// Something came from the caller.
    pub fn hears(&mut self, audio: &[u8]) {
        match self.state {
            _ if self.began.is_none() => {}
            Recording::On => {
                if !self.mixer.caller(audio) {
                    self.counters.lost(Lost::Clock, self.format.duration_of(audio.len()).as_secs_f64());
                }
            }
            _ => self.mixer.caller_unheard(audio.len()),
        }
    }

    /// A slot in which this frame has left, so long after the call began; `None`: nothing could be sent.
    pub fn plays(&mut self, frame: Option<&[u8]>, at: Duration) {
        match self.state {
            Recording::Discarded => return,
            Recording::Off if self.began.is_none() => return,
            Recording::Off | Recording::Private => self.mixer.silent_slots(1),
            Recording::Notice | Recording::On => {
                self.began.get_or_insert(at);
                match frame {
                    Some(frame) => self.mixer.slot(frame),
                    None => self.mixer.silent_slots(1),
                }
            }
        }
        self.bytes += self.format.frame_bytes() as u64;
        if let Some(piece) = self.mixer.piece() {
            self.send(piece);
        }
    }

    /// Slots in which nothing left.
    pub fn misses(&mut self, slots: u32) {
        if self.began.is_none() || self.state == Recording::Discarded {
            return;
        }
        let bytes = u64::from(slots) * self.format.frame_bytes() as u64;
        self.bytes += bytes;
        if slots <= STANDSTILL {
            self.mixer.silent_slots(slots as usize);
        } else {
            let rest = self.mixer.rest();
            self.send(rest);
            self.skip += bytes;
        }
    }

    fn send(&mut self, piece: Piece) {
        let bytes = piece.agent.len();
        match self.orders.try_send(Order::Write(self.part(piece))) {
            Ok(()) => self.skip = 0,
            Err(_) => {
                self.skip += bytes as u64;
                let seconds = self.format.duration_of(bytes).as_secs_f64();
                *self.lost.entry(Lost::Queue).or_default() += seconds;
                self.counters.lost(Lost::Queue, seconds);
            }
        }
    }

    fn part(&self, piece: Piece) -> Part {
        Part { call: self.call, format: self.format, skip: self.skip, piece }
    }

    /// The call is over. Waits a moment for the disk; `None`: there is no recording.
    pub async fn finish(mut self) -> Option<Recorded> {
        let began = self.began?;
        let call = self.call;
        if self.state == Recording::Discarded {
            let told = self.discarded
                || timeout(END_MAX, self.orders.send(Order::Discard(call))).await.is_ok_and(|sent| sent.is_ok());
            if !told {
                error!(call_id = %call, "the recording of this call was to be deleted; the disk is stuck, and it is still there");
            }
            return None;
        }
        let piece = self.mixer.rest();
        let seconds = self.bytes as f64 / (self.format.bytes_per_sample() as u32 * self.format.rate) as f64;
        let (done, written) = oneshot::channel();
        let end = Order::End(self.part(piece), done);
        let answer =
            timeout(END_MAX, async { self.orders.send(end).await.is_ok().then_some(written.await.ok()).flatten() });
        let mut lost = self.lost;
        match answer.await.ok().flatten() {
            Some(None) => {
                self.counters.made("discarded");
                return None;
            }
            Some(Some(losses)) => lost.extend(losses),
            // What became of it nobody knows yet.
            None => drop(lost.insert(Lost::Disk, seconds)),
        }
        self.counters.made(if lost.is_empty() { "whole" } else { "incomplete" });
        let lost_seconds = lost.into_iter().map(|(why, seconds)| (why.label().to_owned(), seconds)).collect();
        Some(Recorded { file: file_name(call), began_ms: began.as_millis() as u64, seconds, lost_seconds })
    }
}

#[cfg(test)]
mod tests;
