//! Any stream of bytes as a stream of frames.

use super::{Codec, Frame, Intake, MAX_PAYLOAD, rate::look};
use crate::audio::Format;
use bytes::BytesMut;
use std::ops::ControlFlow;
use tokio_util::codec::{Decoder, Encoder};

/// What a receiver makes of a stream that arrives in these pieces, and whether it gave up.
pub(super) fn decode_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, bool) {
    let (mut inbox, mut frames) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        inbox.extend_from_slice(piece);
        loop {
            match Codec.decode(&mut inbox) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
        assert!(inbox.len() <= 3 + MAX_PAYLOAD, "{} bytes wait for the rest of a frame", inbox.len());
    }
    (frames, false)
}

/// The first byte says how the rest is cut.
pub fn fuzz(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else { return };
    let (frames, broken) = decode_pieces([stream]);
    assert_eq!(decode_pieces(stream.chunks(usize::from(size).max(1))), (frames.clone(), broken), "in pieces of {size}");

    let mut sent = BytesMut::new();
    let sendable: Vec<Frame> =
        frames.iter().filter(|frame| Codec.encode((*frame).clone(), &mut sent).is_ok()).cloned().collect();
    assert!(sent.len() <= stream.len(), "a frame is not longer than it came");
    assert_eq!(decode_pieces([&sent[..]]), (sendable, false), "what is written is read again");
    look_at_the_rate(stream, usize::from(size), &frames);

    for format in [Format::SLIN8, Format::SLIN16] {
        let mut intake = Intake::new(format);
        let (mut heard, mut milliseconds) = (0, 0.0);
        for frame in &frames {
            let Frame::Audio { rate, samples } = frame else { continue };
            milliseconds += samples.len() as f64 * 500.0 / f64::from(*rate);
            heard += intake.convert(*rate, samples.clone()).map_or(0, |audio| audio.len());
        }
        let heard = format.duration_of(heard).as_secs_f64() * 1_000.0;
        assert!(heard <= milliseconds + 0.1, "{milliseconds} ms became {heard} ms");
    }
}

/// The rate of a connection that the dialplan makes is told as soon as it can be, and by nothing that comes later.
fn look_at_the_rate(stream: &[u8], so_far: usize, frames: &[Frame]) {
    if stream.len() > MAX_PAYLOAD {
        assert_eq!(look(stream), ControlFlow::Break(None), "more than is kept");
        return;
    }
    let first = look(&stream[..so_far.min(stream.len())]);
    assert!(first.is_continue() || first == look(stream), "what came later changed {first:?}");
    if let Some(Frame::Audio { rate, .. }) = frames.first() {
        assert_eq!(look(stream), ControlFlow::Break(Some(*rate)));
    }
}
