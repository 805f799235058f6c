//! Server-sent events, <https://html.spec.whatwg.org/multipage/server-sent-events.html>.

use super::{Fault, http};
use futures_util::{StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use reqwest::Response;

/// What vendors write in one line has a few kilobytes.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The data of each event; comments, names and ids of events, and whatever else a proxy writes, are passed over. The
/// stream ends where the body does, and what the body breaks off in is not told.
pub fn events(answer: Response, max: usize) -> BoxStream<'static, Result<String, Fault>> {
    let mut reader = Reader::default();
    let events = http::pieces(answer, max).map(move |piece| reader.read(&piece?));
    events.map_ok(|events| stream::iter(events).map(Ok)).try_flatten().boxed()
}

#[derive(Default)]
struct Reader {
    line: Vec<u8>,
    /// The last line ended in a carriage return; a line feed belongs to it.
    returned: bool,
    data: Option<String>,
}

impl Reader {
    fn read(&mut self, piece: &[u8]) -> Result<Vec<String>, Fault> {
        let mut events = Vec::new();
        for &byte in piece {
            let returned = std::mem::replace(&mut self.returned, byte == b'\r');
            match byte {
                b'\n' if returned => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ if self.line.len() >= LINE_BYTES_MAX => return Err(Fault::TooLarge(LINE_BYTES_MAX)),
                _ => self.line.push(byte),
            }
        }
        Ok(events)
    }

    /// The event that ends with this line.
    fn end_line(&mut self) -> Option<String> {
        let line = String::from_utf8_lossy(&self.line);
        if line.is_empty() {
            return self.data.take();
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        if field.trim_start_matches('\u{feff}') == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            self.data = Some(match self.data.take() {
                None => value.to_owned(),
                Some(data) => data + "\n" + value,
            });
        }
        self.line.clear();
        None
    }
}

/// Any body as events: the same however it is cut (the first byte says how), and none of them longer than the body.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let Some((&size, body)) = data.split_first() else { return };
    let read = |size: usize| {
        let mut reader = Reader::default();
        let events: Result<Vec<_>, Fault> = body.chunks(size).map(|piece| reader.read(piece)).collect();
        assert!(reader.line.len() <= LINE_BYTES_MAX);
        events.map(|events| events.concat())
    };
    let events = read(body.len().max(1));
    assert_eq!(read(usize::from(size).max(1)), events, "in pieces of {size}");
    // What is no UTF-8 becomes three bytes for one.
    let told: usize = events.iter().flatten().map(String::len).sum();
    assert!(told <= 3 * body.len(), "{told} bytes of {}", body.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_in_whatever_pieces_they_come_and_what_is_none_is_passed_over() {
        let body = "\u{feff}data: eins\r\n\r\n: ping\nevent: x\nid: 1\nid: 2\nretry: soon\n<proxy>\n\ndata:zwei\n\
            data: drei \u{e9}\n\ndata\n\n\r\rdata: f\u{fc}nf\r\rdata: broken off";
        for size in [1, 2, 3, 7, 1_000] {
            let mut reader = Reader::default();
            let pieces = body.as_bytes().chunks(size).map(|piece| reader.read(piece).expect("short lines"));
            let events: Vec<String> = pieces.flatten().collect();
            assert_eq!(events, ["eins", "zwei\ndrei \u{e9}", "", "f\u{fc}nf"], "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_too_large() {
        let mut reader = Reader::default();
        assert_eq!(reader.read(&vec![b'x'; LINE_BYTES_MAX]), Ok(Vec::new()));
        assert_eq!(reader.read(b"x"), Err(Fault::TooLarge(LINE_BYTES_MAX)));
    }
}
