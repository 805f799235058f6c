//! A listener's vendor, line by line, with what the call says in between.

use super::{
    Hear, Heard,
    deepgram::{flux::Flux, nova::Nova},
    openai_realtime,
    session::{Codec, Misread, Talk},
};
use crate::{audio::Format, remote::Wire};
use std::time::Duration;
use tokio::time::Instant;

const TURN_MAX: Duration = Duration::from_secs(4);
/// Begins a line that is what the call says: the next byte says what.
const HEAR: u8 = 2;
/// How often a listener may look again for what is late at one moment.
const LOOKS: usize = 8;

pub fn nova(data: &[u8]) {
    listen(Nova::new(Format::ULAW, TURN_MAX), data);
}

pub fn flux(data: &[u8]) {
    listen(Flux::new(Format::ULAW, TURN_MAX), data);
}

pub use super::openai_transcription::fuzz as openai_transcription;

pub fn openai_realtime(data: &[u8]) {
    listen(openai_realtime::for_fuzzing(Format::ULAW, TURN_MAX), data);
}

fn listen(mut codec: impl Codec, data: &[u8]) {
    let mut talk = Talk::default();
    codec.open(&mut talk);
    let mut now = Instant::now();
    let (mut ready, mut open, mut ended, mut told, mut bytes) = (false, false, 0_usize, 0_usize, 0_usize);
    for line in data.split(|byte| *byte == b'\n') {
        bytes += line.len();
        match line {
            [HEAR, which, rest @ ..] if ready => {
                let Some(hear) = hear(*which, rest, &mut open) else { continue };
                ended += usize::from(hear == Hear::TurnEnded);
                now += Duration::from_millis(20 * (1 + rest.len() as u64));
                codec.hear(hear, now, &mut talk);
            }
            [HEAR, ..] => {}
            text => match codec.read(&Wire::Text(String::from_utf8_lossy(text).into()), now, &mut talk) {
                Ok(()) | Err(Misread::Malformed) => {}
                Err(Misread::Fault(_)) => return,
            },
        }
        let mut looks = 0;
        while codec.deadline().is_some_and(|deadline| deadline <= now) {
            if codec.late(now, &mut talk).is_err() {
                return;
            }
            looks += 1;
            assert!(looks <= LOOKS + ended, "it looks again and again at one moment");
        }
        for heard in talk.words.drain(..) {
            match heard {
                Heard::Ready => ready = true,
                Heard::Turn { text } => {
                    told += 1;
                    assert!(told <= ended, "a turn is told that has not ended");
                    assert!(text.len() <= 4 * bytes, "{} bytes are told of {bytes}", text.len());
                }
                Heard::Partial { text, .. } => assert!(text.len() <= 4 * bytes),
                _ => {}
            }
        }
        talk.wires.clear();
    }
    codec.close(&mut talk);
}

/// Turns begin and end one after the other.
fn hear(which: u8, rest: &[u8], open: &mut bool) -> Option<Hear> {
    let hear = match which {
        b'a' => Hear::Audio(vec![Format::ULAW.silence(); Format::ULAW.frame_bytes() * (1 + rest.len())].into()),
        b'b' if !*open => Hear::TurnBegan,
        b'm' if *open => Hear::TurnMayEnd,
        b'g' if *open => Hear::TurnGoesOn,
        b'e' if *open => Hear::TurnEnded,
        b'd' if *open => Hear::TurnDropped,
        _ => return None,
    };
    *open = match hear {
        Hear::TurnBegan => true,
        Hear::TurnEnded | Hear::TurnDropped => false,
        _ => *open,
    };
    Some(hear)
}
