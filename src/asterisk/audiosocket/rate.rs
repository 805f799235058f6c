//! The rate of a connection that the dialplan makes: 8 kHz of `AudioSocket()`, and whatever `Dial(AudioSocket/…/c(slin16))` has
//! asked for. Nothing tells it but the kind of the first audio.

use super::{
    HANG_UP, MAX_PAYLOAD,
    codec::{kind_of, put, rate_of},
    tune,
};
use crate::{
    asterisk::counters::{Filler, MediaCounters},
    audio::{Encoding, FRAME, Format},
};
use bytes::BytesMut;
use std::{ops::ControlFlow, time::Duration};
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    time::{interval, timeout},
};

/// Asterisk passes the caller's packets on as they come, every 20 ms. A caller who sends nothing is not to wait for the agent
/// for longer than nobody notices.
const RATE_WAIT: Duration = Duration::from_millis(200);
/// The rates that a call's audio may have by configuration, the best first. Another one is converted to the next below.
const LEG_RATES: [u32; 4] = [48_000, 24_000, 16_000, 8_000];

/// The format of the leg that this connection is to be, by the first audio that comes; `slin` when none does. All that was read
/// stays in `inbox`. Silence flows meanwhile: at 8 kHz, which Asterisk takes at every rate.
pub(in crate::asterisk) async fn format_of_dialplan(
    stream: &mut TcpStream,
    inbox: &mut BytesMut,
    counters: &MediaCounters,
) -> Format {
    // Before anything is written. A peer that is gone is noticed by the leg.
    let _ = tune(stream);
    let rate = timeout(RATE_WAIT, first_rate(stream, inbox, counters)).await.ok().flatten();
    let known = LEG_RATES.into_iter().find(|known| rate.is_some_and(|rate| rate >= *known));
    known.map_or(Format::SLIN8, |rate| Format { encoding: Encoding::Linear, rate })
}

async fn first_rate(stream: &mut TcpStream, inbox: &mut BytesMut, counters: &MediaCounters) -> Option<u32> {
    let silence = silence();
    let mut beats = interval(FRAME);
    loop {
        if let ControlFlow::Break(rate) = look(inbox) {
            return rate;
        }
        tokio::select! {
            read = stream.read_buf(inbox) => match read {
                Ok(1..) => {}
                _ => return None,
            },
            // Ten frames, into a socket that is empty: each goes as a whole, or not at all.
            _ = beats.tick() => if stream.try_write(&silence).is_ok() {
                counters.filler(Filler::Start).inc();
            },
        }
    }
}

/// One frame of it, as it is sent.
fn silence() -> BytesMut {
    let format = Format::SLIN8;
    let mut packet = BytesMut::new();
    let samples = vec![format.silence(); format.frame_bytes()];
    if let Some(kind) = kind_of(format.rate) {
        // Far below what a frame may have.
        let _ = put(kind, &samples, &mut packet);
    }
    packet
}

/// The rate of the first audio in these bytes, or that none will come; otherwise more of them are needed.
pub(super) fn look(mut bytes: &[u8]) -> ControlFlow<Option<u32>> {
    // A few keys come before it at most.
    if bytes.len() > MAX_PAYLOAD {
        return ControlFlow::Break(None);
    }
    loop {
        let &[kind, high, low, ref rest @ ..] = bytes else { return ControlFlow::Continue(()) };
        if let Some(rate) = rate_of(kind) {
            return ControlFlow::Break(Some(rate));
        }
        if kind == HANG_UP {
            return ControlFlow::Break(None);
        }
        match rest.get(usize::from(u16::from_be_bytes([high, low]))..) {
            Some(next) => bytes = next,
            None => return ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_audio_tells_the_rate_whatever_comes_before_it_and_however_little_of_it_has_come() {
        let key = [0x03, 0, 1, b'5'];
        for (bytes, told) in [
            (&[][..], ControlFlow::Continue(())),
            (&[0x12, 2], ControlFlow::Continue(())),
            (&[0x12, 2, 0x80], ControlFlow::Break(Some(16_000))),
            (&[0x10, 1, 0x40, 0, 0], ControlFlow::Break(Some(8_000))),
            (&[&key[..], &[0x16, 7, 0x80]].concat(), ControlFlow::Break(Some(48_000))),
            (&[&key[..], &key[..3]].concat(), ControlFlow::Continue(())),
            (&[0x05, 0, 0, 0xff, 0, 0, 0x10, 1, 0x40], ControlFlow::Break(Some(8_000))),
            (&[0x00, 0, 0, 0x12, 2, 0x80], ControlFlow::Break(None)),
            (&[0x05, 0xff, 0xff], ControlFlow::Continue(())),
        ] {
            assert_eq!(look(bytes), told, "{bytes:02x?}");
        }
        assert_eq!(look(&[0x05; MAX_PAYLOAD + 1]), ControlFlow::Break(None), "no more is kept than a frame may have");
    }
}
