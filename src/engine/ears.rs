//! How a running call sounds, for those who look at it: how loud both sides are, and operators who listen.
//!
//! The call's task tells and waits for nobody. While nobody listens that is a look at one frame in five.

use crate::{
    audio::Format,
    records::{Listener, Unheard},
};
use bytes::Bytes;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed},
};
use tokio::sync::mpsc;

/// Who may listen to one call: each costs the call's task about as much as a recording.
const LISTENERS_MAX: usize = 4;
/// Slots between two looks at the levels: ten a second.
const LOOK_EVERY: u8 = 5;
/// The quietest that a meter shows.
const FLOOR_DBFS: f32 = -60.0;

/// One end for the call's task, the other for those who look.
pub fn ears(format: Format) -> (Ears, Arc<Tap>) {
    let tap =
        Arc::new(Tap { format, levels: Default::default(), listeners: Mutex::default(), count: AtomicUsize::new(0) });
    (Ears { tap: Arc::clone(&tap), slots: 0, caller_due: true, samples: Vec::new() }, tap)
}

/// Of one call.
pub struct Tap {
    format: Format,
    /// The caller's and the agent's, 0 to 100.
    levels: [AtomicU8; 2],
    listeners: Mutex<Vec<Listener>>,
    /// As many as there are, without the lock.
    count: AtomicUsize,
}

impl Tap {
    pub fn levels(&self) -> [u8; 2] {
        [self.levels[0].load(Relaxed), self.levels[1].load(Relaxed)]
    }

    /// WAV from now on; `None`: too many listen already.
    pub fn listen(&self) -> Option<mpsc::Receiver<Bytes>> {
        let mut listeners = self.lock();
        if listeners.len() == LISTENERS_MAX {
            return None;
        }
        let (listener, heard) = Listener::new(self.format);
        listeners.push(listener);
        self.count.store(listeners.len(), Relaxed);
        Some(heard)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of the call's task.
pub struct Ears {
    tap: Arc<Tap>,
    slots: u8,
    /// Nothing was heard of the caller since the last look.
    caller_due: bool,
    samples: Vec<i16>,
}

impl Ears {
    /// Something came from the caller.
    pub fn hears(&mut self, audio: &[u8], private: impl FnOnce() -> bool) {
        if std::mem::take(&mut self.caller_due) {
            self.look(0, audio);
        }
        if self.are_there() {
            let private = private();
            self.tap.lock().iter_mut().for_each(|listener| listener.hears(audio, private));
        }
    }

    /// A slot in which this frame has left; `None`: nothing could be sent. Returns how many were too slow to go on.
    pub fn plays(&mut self, frame: Option<&[u8]>, private: impl FnOnce() -> bool) -> usize {
        self.slots = (self.slots + 1) % LOOK_EVERY;
        if self.slots == 0 {
            if std::mem::replace(&mut self.caller_due, true) {
                self.tap.levels[0].store(0, Relaxed);
            }
            self.look(1, frame.unwrap_or_default());
        }
        if !self.are_there() {
            return 0;
        }
        let (private, mut behind) = (private(), 0);
        let mut listeners = self.tap.lock();
        listeners.retain_mut(|listener| {
            let heard = listener.plays(frame, private);
            behind += usize::from(heard == Err(Unheard::Behind));
            heard.is_ok()
        });
        self.tap.count.store(listeners.len(), Relaxed);
        behind
    }

    /// Slots in which nothing left.
    pub fn misses(&mut self, slots: u32) {
        if self.are_there() {
            self.tap.lock().iter_mut().for_each(|listener| listener.misses(slots));
        }
    }

    fn are_there(&self) -> bool {
        self.tap.count.load(Relaxed) > 0
    }

    fn look(&mut self, side: usize, audio: &[u8]) {
        self.samples.clear();
        self.tap.format.decode(audio, &mut self.samples);
        let peak = self.samples.iter().map(|sample| sample.unsigned_abs()).max().unwrap_or(0);
        let dbfs = 20.0 * (f32::from(peak.max(1)) / 32_768.0).log10();
        let level = ((dbfs - FLOOR_DBFS) * 100.0 / -FLOOR_DBFS).clamp(0.0, 100.0);
        self.tap.levels[side].store(level as u8, Relaxed);
    }
}

impl Drop for Ears {
    /// The call is over, and so is listening, whoever still holds the other end.
    fn drop(&mut self) {
        self.tap.lock().clear();
        self.tap.count.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOUD: [u8; 160] = [0x80; 160];
    const QUIET: [u8; 160] = [0xff; 160];

    fn slots(ears: &mut Ears, count: usize, frame: &[u8]) -> usize {
        (0..count).map(|_| ears.plays(Some(frame), || false)).sum()
    }

    #[test]
    fn meters_show_both_sides_and_fall_when_a_side_is_silent() {
        let (mut ears, tap) = ears(Format::ULAW);
        ears.hears(&LOUD, || false);
        slots(&mut ears, 5, &LOUD);
        assert!(tap.levels().iter().all(|level| *level > 95), "{:?}", tap.levels());
        // The caller sends nothing at all any more.
        slots(&mut ears, 5, &QUIET);
        assert_eq!(tap.levels(), [0, 0]);
    }

    #[test]
    fn nobody_is_asked_whether_it_is_private_while_nobody_listens() {
        let (mut ears, _tap) = ears(Format::ULAW);
        ears.hears(&LOUD, || unreachable!("nobody listens"));
        assert_eq!(ears.plays(Some(&LOUD), || unreachable!("nobody listens")), 0);
    }

    #[test]
    fn listening_ends_with_the_call_with_the_listener_and_with_a_connection_that_is_too_slow() {
        let (mut ears, tap) = ears(Format::ULAW);
        let mut all: Vec<_> = (0..LISTENERS_MAX).map(|_| tap.listen().unwrap()).collect();
        assert!(tap.listen().is_none(), "a fifth one");
        drop(all.pop());
        slots(&mut ears, 10, &QUIET);
        let mut late = tap.listen().expect("the place of the one that left");
        let mut slow = 0;
        for _ in 0..200 {
            slow += slots(&mut ears, 1, &QUIET);
            while late.try_recv().is_ok() {}
        }
        assert_eq!(slow, 3, "those that read nothing");
        assert!(!late.is_closed());
        drop(ears);
        while late.try_recv().is_ok() {}
        assert!(late.is_closed());
    }
}
