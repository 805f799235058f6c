//! Server-sent events, <https://html.spec.whatwg.org/multipage/server-sent-events.html>.

use super::{Fault, http};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream::BoxStream};
use reqwest::Response;
use sse_stream::SseStream;

/// The reader keeps a line until it ends; what vendors write in one has a few kilobytes.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The data of each event; comments, names and ids of events are passed over. The stream ends where the body does, and
/// what the body breaks off in is not told.
pub fn events(answer: Response, max: usize) -> BoxStream<'static, Result<String, Fault>> {
    let mut line = 0;
    let pieces = http::pieces(answer, max).map(move |piece| {
        let piece = piece?;
        line = unended(line, &piece);
        if line > LINE_BYTES_MAX { Err(Fault::TooLarge(LINE_BYTES_MAX)) } else { Ok(piece) }
    });
    let data = |event: Result<sse_stream::Sse, _>| async { event.map(|event| event.data).map_err(fault).transpose() };
    SseStream::from_bytes_stream(pieces).filter_map(data).boxed()
}

/// How long the line is that this piece leaves open.
fn unended(line: usize, piece: &Bytes) -> usize {
    let end = piece.iter().rposition(|byte| matches!(byte, b'\n' | b'\r'));
    end.map_or(line + piece.len(), |end| piece.len() - end - 1)
}

fn fault(error: sse_stream::Error) -> Fault {
    match error {
        sse_stream::Error::Body(fault) => fault.downcast().map_or(Fault::Closed(None), |fault| *fault),
        _ => Fault::Garbage("it is no stream of events"),
    }
}
