//! What a caller hears while a destination's telephones ring.

use crate::audio::{Clip, Format, Looped, RingBack, RingTone};
use bytes::Bytes;

#[derive(Debug)]
pub enum Ringing {
    Tone(RingBack),
    Music(Looped),
}

impl Ringing {
    pub fn new(tone: RingTone, music: Option<&Clip>, format: Format) -> Self {
        match music {
            Some(music) => Self::Music(music.looped(format)),
            None => Self::Tone(RingBack::new(tone, format)),
        }
    }

    /// The next 20 ms.
    pub fn frame(&mut self) -> Bytes {
        match self {
            Self::Tone(tone) => tone.frame(),
            Self::Music(music) => music.frame(),
        }
    }
}
