//! What callers, and agents without a vendor, say.

use super::{LEG, is_loud, tone};
use bytes::{Bytes, BytesMut};
use offhook::{
    asterisk::audiosocket::{Codec, CodecError, Frame},
    audio::FRAME,
};
use std::{io, sync::Arc, time::Duration};
use tokio_util::codec::Encoder as _;

/// Frames as AudioSocket sends them, again and again.
#[derive(Clone)]
pub struct Speech {
    frames: Arc<[Bytes]>,
    /// What happens in which frame.
    events: [Option<(usize, Spoke)>; 2],
}

/// What happens when a frame is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoke {
    /// It is the first loud one.
    Began,
    /// An interruption begins in it, so long before it is whole and sent.
    Interrupts { since: Duration },
    /// It is the last voiced one.
    Ended,
}

impl Speech {
    /// Beeps: so many loud frames at the beginning of each cycle; the others are silence.
    pub fn beeps(loud: usize, cycle: usize) -> io::Result<Self> {
        let (beep, silence) = (packet(tone(LEG, FRAME))?, silence()?);
        let frames = (0..cycle).map(|place| if place < loud { beep.clone() } else { silence.clone() }).collect();
        Ok(Self { frames, events: [Some((0, Spoke::Began)), None] })
    }

    /// A recording in [`LEG`] after so many frames of silence; what interrupts the agent begins after `onset`.
    pub fn interruption(after: usize, recording: &[u8], onset: Duration) -> io::Result<Self> {
        let mut frames = vec![silence()?; after];
        for frame in recording.chunks_exact(LEG.frame_bytes()) {
            frames.push(packet(frame.to_vec())?);
        }
        let within = Duration::from_nanos((onset.as_nanos() % FRAME.as_nanos()) as u64);
        let place = after + (onset.as_nanos() / FRAME.as_nanos()) as usize;
        // A telephone sends a frame when its last sample has been spoken.
        let interrupts = Spoke::Interrupts { since: FRAME - within };
        Ok(Self { frames: frames.into(), events: [Some((place, interrupts)), None] })
    }

    /// A question in [`LEG`], voiced to its end, and silence for the rest of each cycle.
    pub fn question(recording: &[u8], cycle: usize) -> io::Result<Self> {
        let mut frames = Vec::with_capacity(cycle);
        for frame in recording.chunks(LEG.frame_bytes()) {
            let mut frame = frame.to_vec();
            frame.resize(LEG.frame_bytes(), 0);
            frames.push(packet(frame)?);
        }
        let onset = recording.chunks(LEG.frame_bytes()).position(is_loud).unwrap_or(0);
        let last = frames.len().saturating_sub(1);
        frames.resize(cycle.max(frames.len()), silence()?);
        Ok(Self { frames: frames.into(), events: [Some((onset, Spoke::Began)), Some((last, Spoke::Ended))] })
    }

    /// What is said in this slot.
    pub fn frame(&self, slot: usize) -> &Bytes {
        &self.frames[slot % self.frames.len()]
    }

    /// What happens in this slot.
    pub fn event(&self, slot: usize) -> Option<Spoke> {
        let place = slot % self.frames.len();
        self.events.iter().flatten().find(|(at, _)| *at == place).map(|(_, event)| *event)
    }

    pub fn length(&self) -> Duration {
        FRAME * u32::try_from(self.frames.len()).unwrap_or(u32::MAX)
    }
}

fn silence() -> io::Result<Bytes> {
    packet(vec![0; LEG.frame_bytes()])
}

fn packet(samples: Vec<u8>) -> io::Result<Bytes> {
    let mut packet = BytesMut::new();
    let frame = Frame::Audio { rate: LEG.rate, samples: samples.into() };
    Codec.encode(frame, &mut packet).map_err(into_io)?;
    Ok(packet.freeze())
}

pub fn into_io(error: CodecError) -> io::Error {
    match error {
        CodecError::Io(error) => error,
        other => io::Error::other(other),
    }
}
