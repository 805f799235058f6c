//! A recording that nobody keeps: somebody listens to it while it is made.

use super::{
    mixer::{Mixer, Piece},
    wav,
};
use crate::audio::Format;
use bytes::Bytes;
use tokio::sync::mpsc;

/// So much is handed on at once, and as much later than it was said: short for the ear, long enough that a packet that
/// comes late still finds its place.
const PART_MS: usize = 100;
const HOLD_MS: usize = 100;
/// Parts that wait for a slow connection: three seconds. Who is further behind is not listening live any more.
const WAITING_MAX: usize = 30;
/// Slots that passed at once and are heard as silence; with more of them the engine stood still, and time is skipped.
const STANDSTILL: usize = 50;

/// Of one call, for one who listens: WAV that has no end, the caller on the left.
pub struct Listener {
    format: Format,
    mixer: Mixer,
    samples: [Vec<i16>; 2],
    parts: mpsc::Sender<Bytes>,
}

/// Why somebody does not listen any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unheard {
    /// Whoever listened has left.
    Gone,
    /// Too slow.
    Behind,
}

impl Listener {
    /// One end for the call, the other for who listens: the first part is the head of the file.
    pub fn new(format: Format) -> (Self, mpsc::Receiver<Bytes>) {
        let (parts, heard) = mpsc::channel(WAITING_MAX);
        // A fresh queue has room. A length that is never reached tells a player to go on.
        let _ = parts.try_send(Bytes::copy_from_slice(&wav::head(format.rate, wav::DATA_MAX)));
        (Self { format, mixer: Mixer::new(format), samples: Default::default(), parts }, heard)
    }

    /// Something came from the caller; in private, only that something came.
    pub fn hears(&mut self, audio: &[u8], private: bool) {
        match private {
            true => self.mixer.caller_unheard(audio.len()),
            // What is left out because a clock is too fast is a click to whoever listens, and not lost to anybody.
            false => drop(self.mixer.caller(audio)),
        }
    }

    /// A slot in which this frame has left.
    ///
    /// # Errors
    /// Nobody listens any more.
    pub fn plays(&mut self, frame: Option<&[u8]>, private: bool) -> Result<(), Unheard> {
        match frame.filter(|_| !private) {
            Some(frame) => self.mixer.slot(frame),
            None => self.mixer.silent_slots(1),
        }
        match self.mixer.piece_of(PART_MS, HOLD_MS) {
            Some(piece) => self.send(&piece),
            None => Ok(()),
        }
    }

    pub fn misses(&mut self, slots: u32) {
        self.mixer.silent_slots((slots as usize).min(STANDSTILL));
    }

    fn send(&mut self, piece: &Piece) -> Result<(), Unheard> {
        let mut data = Vec::new();
        piece.interleave(self.format, &mut self.samples, &mut data);
        self.parts.try_send(data.into()).map_err(|error| match error {
            mpsc::error::TrySendError::Closed(_) => Unheard::Gone,
            mpsc::error::TrySendError::Full(_) => Unheard::Behind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 160] = [0x90; 160];

    fn samples(part: &Bytes) -> Vec<[i16; 2]> {
        let sample = |pair: &[u8]| i16::from_le_bytes([pair[0], pair[1]]);
        part.chunks_exact(4).map(|both| [sample(&both[..2]), sample(&both[2..])]).collect()
    }

    #[tokio::test]
    async fn a_listener_hears_both_sides_a_tenth_of_a_second_later() {
        let (mut listener, mut heard) = Listener::new(Format::ULAW);
        assert_eq!(&heard.recv().await.unwrap()[..4], b"RIFF");
        for _ in 0..10 {
            assert!(heard.try_recv().is_err());
            listener.hears(&FRAME, false);
            listener.plays(Some(&FRAME), false).unwrap();
        }
        let part = samples(&heard.try_recv().unwrap());
        assert_eq!(part.len(), 800);
        assert!(part.iter().all(|[caller, agent]| caller == agent && caller.abs() > 1_000), "{part:?}");
    }

    /// A number that is a secret is none for operators either.
    #[tokio::test]
    async fn what_is_private_is_silence_of_the_same_length() {
        let (mut listener, mut heard) = Listener::new(Format::ULAW);
        drop(heard.recv().await);
        for _ in 0..10 {
            listener.hears(&FRAME, true);
            listener.plays(Some(&FRAME), true).unwrap();
        }
        assert_eq!(samples(&heard.try_recv().unwrap()), [[0; 2]; 800]);
    }

    #[tokio::test]
    async fn who_is_too_slow_or_has_left_is_told_apart_and_nothing_piles_up() {
        let (mut listener, heard) = Listener::new(Format::ULAW);
        let ended = (0..1_000).find_map(|slot| listener.plays(None, false).err().map(|why| (slot, why)));
        // The head, and 29 parts of five slots each, the first of which comes after ten.
        assert_eq!(ended, Some((29 * 5 + 9, Unheard::Behind)));
        drop(heard);
        let ended = (0..10).find_map(|_| listener.plays(None, false).err());
        assert_eq!(ended, Some(Unheard::Gone));
    }
}
