//! Wyoming: events over TCP, as the voice programs around Home Assistant speak it.
//!
//! <https://github.com/OHF-Voice/wyoming>. An event is one line of JSON, then as many bytes of JSON as the line says,
//! then as many bytes of sound. Quirks: the data stands in the line, in the block after it, or in both, where the block
//! wins; there is no TLS, no password and no word to cancel a request but closing the connection.

use super::Fault;
use bytes::{Buf, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A machine that is there takes a connection within this.
pub const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A program that takes nothing for so long does nothing in time either.
const SEND_MAX: Duration = Duration::from_secs(5);
/// The line holds names and numbers, and with old programs the data.
const LINE_BYTES_MAX: usize = 64 << 10;
/// A program's `info` names hundreds of voices in some ten kilobytes.
const DATA_BYTES_MAX: usize = 1 << 20;
/// Six minutes at 22 kHz, for programs that send all of a sentence at once.
const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// What is asked of the system at once.
const READ_BYTES: usize = 16 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: String,
    pub data: Map<String, Value>,
    /// Sound.
    pub payload: Bytes,
}

#[derive(Deserialize)]
struct Line {
    r#type: String,
    #[serde(default)]
    data: Option<Map<String, Value>>,
    #[serde(default)]
    data_length: Option<usize>,
    #[serde(default)]
    payload_length: Option<usize>,
}

impl Event {
    /// `data` is an object.
    pub fn new(kind: &str, data: Value) -> Self {
        let data = match data {
            Value::Object(data) => data,
            _ => Map::new(),
        };
        Self { kind: kind.into(), data, payload: Bytes::new() }
    }

    #[must_use]
    pub fn with(self, payload: Bytes) -> Self {
        Self { payload, ..self }
    }

    /// A text of the data.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.data.get(key)?.as_str()
    }

    /// Why the other side cannot do it, if that is what this says. Its sentence may repeat what was said.
    pub fn fault(&self) -> Option<Fault> {
        let code = || self.text("code").and_then(super::code);
        (self.kind == "error").then(|| Fault::Reported { like: None, code: code() })
    }

    fn encode(&self) -> Vec<u8> {
        let mut line = json!({ "type": self.kind });
        let mut data = Vec::new();
        if !self.data.is_empty() {
            data = Value::Object(self.data.clone()).to_string().into_bytes();
            line["data_length"] = data.len().into();
        }
        if !self.payload.is_empty() {
            line["payload_length"] = self.payload.len().into();
        }
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        bytes.extend_from_slice(&data);
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// Takes one event off the front; `None` while it has not come as a whole.
    fn decode(buffer: &mut BytesMut) -> Result<Option<Self>, Fault> {
        let Some(end) = buffer.iter().position(|&byte| byte == b'\n') else {
            return if buffer.len() > LINE_BYTES_MAX { Err(Fault::TooLarge(LINE_BYTES_MAX)) } else { Ok(None) };
        };
        if end > LINE_BYTES_MAX {
            return Err(Fault::TooLarge(LINE_BYTES_MAX));
        }
        let line: Line =
            serde_json::from_slice(&buffer[..end]).map_err(|_| Fault::Garbage("a line is no Wyoming event"))?;
        let (data, payload) = (line.data_length.unwrap_or(0), line.payload_length.unwrap_or(0));
        for (length, max) in [(data, DATA_BYTES_MAX), (payload, PAYLOAD_BYTES_MAX)] {
            if length > max {
                return Err(Fault::TooLarge(max));
            }
        }
        let whole = end + 1 + data + payload;
        if buffer.len() < whole {
            buffer.reserve(whole - buffer.len());
            return Ok(None);
        }
        buffer.advance(end + 1);
        let mut merged = line.data.unwrap_or_default();
        if data > 0 {
            let block: Map<String, Value> = serde_json::from_slice(&buffer.split_to(data))
                .map_err(|_| Fault::Garbage("the data of a Wyoming event is no JSON object"))?;
            merged.extend(block);
        }
        Ok(Some(Self { kind: line.r#type, data: merged, payload: buffer.split_to(payload).freeze() }))
    }
}

pub struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Connection {
    /// `address` is `host:port`.
    pub async fn connect(address: &str) -> Result<Self, Fault> {
        let connecting = timeout(CONNECT_MAX, TcpStream::connect(address));
        let stream = connecting.await.map_err(|_| Fault::Slow(CONNECT_MAX))?;
        let stream = stream.map_err(|error| Fault::Unreachable(error.to_string()))?;
        Ok(Self::over(stream))
    }

    /// Over a stream that stands, from whichever side.
    pub fn over(stream: TcpStream) -> Self {
        // Without it the last words would wait for an answer to those before; it fails on sockets that are gone.
        let _ = stream.set_nodelay(true);
        Self { stream, buffer: BytesMut::new() }
    }

    pub async fn send(&mut self, event: &Event) -> Result<(), Fault> {
        let bytes = event.encode();
        let sending = timeout(SEND_MAX, self.stream.write_all(&bytes));
        sending.await.map_err(|_| Fault::Slow(SEND_MAX))?.map_err(|_| Fault::Closed(None))
    }

    /// The next event. May be dropped at any time without losing one.
    pub async fn next(&mut self) -> Result<Event, Fault> {
        loop {
            if let Some(event) = Event::decode(&mut self.buffer)? {
                return Ok(event);
            }
            self.buffer.reserve(READ_BYTES);
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Err(Fault::Closed(None)),
                Ok(_) => {}
            }
        }
    }
}

/// Any stream as events: the same however it is cut (the first byte says how), and what is written is read again.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let Some((&size, stream)) = data.split_first() else { return };
    let read = |size: usize| {
        let (mut buffer, mut events) = (BytesMut::new(), Vec::new());
        for piece in stream.chunks(size) {
            buffer.extend_from_slice(piece);
            loop {
                match Event::decode(&mut buffer) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(fault) => return (events, Some(fault)),
                }
            }
            assert!(buffer.capacity() <= 2 * (LINE_BYTES_MAX + DATA_BYTES_MAX + PAYLOAD_BYTES_MAX + stream.len()));
        }
        (events, None)
    };
    let (events, fault) = read(stream.len().max(1));
    assert_eq!(read(usize::from(size).max(1)), (events.clone(), fault), "in pieces of {size}");
    for event in events {
        assert!(event.payload.len() <= stream.len());
        let _ = event.fault();
        let again = Event::decode(&mut BytesMut::from(&event.encode()[..]));
        // What came in the line alone may be longer than a block of data may be.
        assert!(again == Ok(Some(event)) || matches!(again, Err(Fault::TooLarge(_))), "{again:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8]) -> Result<Option<Event>, Fault> {
        Event::decode(&mut BytesMut::from(bytes))
    }

    #[test]
    fn data_is_taken_from_the_line_and_from_the_block_which_wins() {
        let bytes = b"{\"type\":\"transcript\",\"data\":{\"text\":\"a\",\"language\":\"en\"},\"data_length\":13}\n{\"text\": \"b\"}";
        let event = decode(bytes).unwrap().unwrap();
        assert_eq!((event.text("text"), event.text("language")), (Some("b"), Some("en")));
    }

    #[test]
    fn what_is_written_is_read_again_however_it_is_cut() {
        let events = [
            Event::new("transcribe", json!({})),
            Event::new("transcript", json!({ "text": "grün\nund \"blau\"" })),
            Event::new("audio-chunk", json!({ "rate": 16_000 })).with(Bytes::from_static(b"\n\n{}")),
        ];
        let bytes: Vec<u8> = events.iter().flat_map(Event::encode).collect();
        for size in [1, 7, bytes.len()] {
            let (mut buffer, mut read) = (BytesMut::new(), Vec::new());
            for piece in bytes.chunks(size) {
                buffer.extend_from_slice(piece);
                while let Some(event) = Event::decode(&mut buffer).unwrap() {
                    read.push(event);
                }
            }
            assert_eq!(read, events, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_event_or_too_large_is_told_before_it_has_come() {
        for garbage in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"[]\n", b"{\"data\":{}}\n", b"\n"] {
            assert!(matches!(decode(garbage), Err(Fault::Garbage(_))));
        }
        assert!(matches!(decode(b"{\"type\":\"a\",\"data_length\":2}\n[]"), Err(Fault::Garbage(_))));
        assert_eq!(decode(&[b' '; LINE_BYTES_MAX + 1]), Err(Fault::TooLarge(LINE_BYTES_MAX)));
        let data = format!("{{\"type\":\"a\",\"data_length\":{}}}\n", DATA_BYTES_MAX + 1);
        assert_eq!(decode(data.as_bytes()), Err(Fault::TooLarge(DATA_BYTES_MAX)));
        let payload = format!("{{\"type\":\"a\",\"payload_length\":{}}}\n", u64::MAX);
        assert_eq!(decode(payload.as_bytes()), Err(Fault::TooLarge(PAYLOAD_BYTES_MAX)));
    }

    #[test]
    fn a_fault_is_told_by_its_code_and_never_by_its_sentence() {
        let fault = |code: &str| Event::new("error", json!({ "text": "heard: my name", "code": code })).fault();
        assert_eq!(fault("no_model").unwrap().to_string(), "the service reports an error (no_model)");
        assert_eq!(fault("heard: my name").unwrap().to_string(), "the service reports an error");
        assert_eq!(Event::new("pong", json!({})).fault(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let _ = decode(&[b"{\"type\":\"a\",\"data_length\":3,\"payload_length\":4}\n", &*bytes].concat());
        }
    }
}
