//! From a server's standard output to the protocol: one message a line, and whatever else it prints.

use super::{MESSAGE_BYTES_MAX, output::Output};
use serde_json::json;
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// Bytes that are no message after which a server is given up: it speaks something else.
const GARBAGE_BYTES_MAX: usize = 64 << 20;
/// What a server may print in a tenth of a second, in bytes and lines. Far more than answers are; a flood is read no
/// faster, so it costs a few per cent of one core, and then it waits in its pipe.
const BYTES_PER_WINDOW: usize = 4 << 20;
const LINES_PER_WINDOW: usize = 1000;
const WINDOW: Duration = Duration::from_millis(100);
/// Of a message that is too long, where its id is looked for: SDKs write it first or last.
const EDGE_BYTES: usize = 256;
/// Levels of a message; the protocol's parser takes a few more, and drops what is deeper without a word.
const DEPTH_MAX: usize = 120;
/// Tells who asked that the answer was nested too deep; as below.
const TOO_DEEP: i32 = -32_097;
/// Tells a call that its answer was too long; of the range that JSON-RPC leaves to implementations.
pub(super) const TOO_LONG: i32 = -32_098;

/// Why the output of a server is read no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PumpEnd {
    Closed,
    /// Nothing but noise.
    NoProtocol,
}

/// The readers of a program's output; they end when this is dropped.
pub(super) struct Pumps {
    ended: watch::Receiver<Option<PumpEnd>>,
    stdout: JoinHandle<()>,
    stderr: JoinHandle<()>,
}

impl Pumps {
    pub fn start(
        stdout: impl AsyncRead + Send + Unpin + 'static,
        to_protocol: impl AsyncWrite + Send + Unpin + 'static,
        stderr: impl AsyncRead + Send + Unpin + 'static,
        output: &Output,
    ) -> Self {
        let (tell, ended) = watch::channel(None);
        let (of_stdout, of_stderr) = (output.clone(), output.clone());
        let stdout = tokio::spawn(async move {
            let end = messages(stdout, to_protocol, of_stdout).await;
            let _ = tell.send(Some(end));
        });
        Self { ended, stdout, stderr: tokio::spawn(errors(stderr, of_stderr)) }
    }

    /// Resolves when the standard output is read no further; as often as it is asked.
    pub async fn ended(&self) -> PumpEnd {
        let mut ended = self.ended.clone();
        // The sender sends before it goes.
        ended.wait_for(Option::is_some).await.ok().and_then(|end| *end).unwrap_or(PumpEnd::Closed)
    }

    /// Resolves when the standard error has been read to its end; to be asked once.
    pub async fn errors_ended(&mut self) {
        let _ = (&mut self.stderr).await;
    }
}

impl Drop for Pumps {
    fn drop(&mut self) {
        self.stdout.abort();
        self.stderr.abort();
    }
}

/// Holds a reader back.
struct Pace {
    began: Instant,
    bytes: usize,
    lines: usize,
}

impl Pace {
    fn new() -> Self {
        Self { began: Instant::now(), bytes: 0, lines: 0 }
    }

    async fn keep(&mut self, bytes: usize, lines: usize) {
        if self.began.elapsed() >= WINDOW {
            *self = Self::new();
        }
        self.bytes += bytes;
        self.lines += lines;
        if self.bytes > BYTES_PER_WINDOW || self.lines > LINES_PER_WINDOW {
            sleep_until(self.began + WINDOW).await;
        }
    }
}

/// A line as it is gathered: whole while it fits, then only its edges.
#[derive(Default)]
struct Line {
    head: Vec<u8>,
    /// The last bytes of one that is too long.
    tail: Vec<u8>,
    bytes: usize,
}

impl Line {
    fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len();
        if self.bytes <= MESSAGE_BYTES_MAX {
            self.head.extend_from_slice(piece);
            return;
        }
        if self.tail.is_empty() {
            self.head.truncate(EDGE_BYTES);
            self.head.shrink_to_fit();
        }
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(EDGE_BYTES)..]);
        let excess = self.tail.len().saturating_sub(EDGE_BYTES);
        self.tail.drain(..excess);
    }

    const fn is_too_long(&self) -> bool {
        self.bytes > MESSAGE_BYTES_MAX
    }
}

/// Hands messages on to `messages` and logs the rest, until the server closes its output.
pub(super) async fn messages(
    from_server: impl AsyncRead + Unpin,
    mut messages: impl AsyncWrite + Unpin,
    output: Output,
) -> PumpEnd {
    let mut reader = BufReader::with_capacity(64 << 10, from_server);
    let (mut line, mut garbage, mut pace) = (Line::default(), 0_usize, Pace::new());
    loop {
        let Ok(available) = reader.fill_buf().await else { return PumpEnd::Closed };
        if available.is_empty() {
            return PumpEnd::Closed;
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |at| at + 1);
        line.add(&available[..taken]);
        reader.consume(taken);
        pace.keep(taken, usize::from(end.is_some())).await;
        if end.is_none() {
            if line.is_too_long() && garbage + line.bytes > GARBAGE_BYTES_MAX {
                return PumpEnd::NoProtocol;
            }
            continue;
        }
        let whole = std::mem::take(&mut line);
        let passed = match message(&whole) {
            Some(message) => messages.write_all(&message).await,
            None => {
                garbage += whole.bytes;
                output.line("stdout", &whole.head);
                if garbage > GARBAGE_BYTES_MAX {
                    return PumpEnd::NoProtocol;
                }
                continue;
            }
        };
        garbage = 0;
        if passed.is_err() {
            // Nobody listens any more: the connection is being closed.
            return PumpEnd::Closed;
        }
    }
}

/// Reads what a server prints on its standard error, for the log.
pub(super) async fn errors(from_server: impl AsyncRead + Unpin, output: Output) {
    /// More of one line is not kept.
    const LINE_BYTES_MAX: usize = 16 << 10;

    let mut reader = BufReader::with_capacity(16 << 10, from_server);
    let (mut line, mut pace) = (Vec::new(), Pace::new());
    while let Ok(available) = reader.fill_buf().await {
        if available.is_empty() {
            break;
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |at| at + 1);
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&available[..taken.min(room)]);
        reader.consume(taken);
        if end.is_some() {
            output.line("stderr", &line);
            line.clear();
        }
        pace.keep(taken, usize::from(end.is_some())).await;
    }
    output.line("stderr", &line);
    output.finish();
}

/// What is handed on of a line: itself if it may be a message, and for one that is too long the news of that.
fn message(line: &Line) -> Option<Vec<u8>> {
    let text = line.head.trim_ascii_start();
    if !text.starts_with(b"{") {
        return None;
    }
    let (id, code, why) = if line.is_too_long() {
        (id_of(&line.head, &line.tail)?, TOO_LONG, format!("longer than {} MiB", MESSAGE_BYTES_MAX >> 20))
    } else if depth(&line.head) > DEPTH_MAX {
        let edge = line.head.len().min(EDGE_BYTES);
        let id = id_of(&line.head[..edge], &line.head[line.head.len() - edge..])?;
        (id, TOO_DEEP, format!("nested deeper than {DEPTH_MAX} levels"))
    } else {
        return Some(line.head.clone());
    };
    let error = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": why } });
    Some(format!("{error}\n").into_bytes())
}

/// The levels of a text that may be JSON.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The id of an answer, from its edges. Ours are numbers.
fn id_of(head: &[u8], tail: &[u8]) -> Option<u64> {
    let digits = |text: &str| {
        let text = text.trim_start().strip_prefix(':')?.trim_start();
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse::<u64>().ok()
    };
    let head = String::from_utf8_lossy(head);
    // Inside the result an id is something else.
    let before = head.split("\"result\"").next().unwrap_or_default();
    let first = before.rfind("\"id\"").and_then(|at| digits(&before[at + 4..]));
    let tail = String::from_utf8_lossy(tail);
    let last = || tail.rfind("\"id\"").filter(|at| !tail[*at..].contains("}}")).and_then(|at| digits(&tail[at + 4..]));
    first.or_else(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    async fn pumped(printed: Vec<u8>) -> (String, PumpEnd) {
        let (sink, mut source) = tokio::io::duplex(1 << 20);
        let read = tokio::spawn(async move {
            let mut text = String::new();
            source.read_to_string(&mut text).await.unwrap();
            text
        });
        let end = messages(printed.as_slice(), sink, Output::new("demo", [])).await;
        (read.await.unwrap(), end)
    }

    #[tokio::test(start_paused = true)]
    async fn messages_pass_and_other_lines_do_not() {
        let printed = b"Server is ready!\n{\"jsonrpc\":\"2.0\"}\n\n  {\"a\":1}\r\nDone.\n{\"unfinished\":".to_vec();
        let (passed, end) = pumped(printed).await;
        assert_eq!((passed.as_str(), end), ("{\"jsonrpc\":\"2.0\"}\n  {\"a\":1}\r\n", PumpEnd::Closed));
    }

    /// Whether the SDK writes the id first (Python) or last (TypeScript).
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_too_long_fails_its_own_call_at_once() {
        let long = format!("{{\"content\":[{{\"id\":99,\"text\":\"{}\"}}]}}", "x".repeat(10 << 20));
        for printed in [
            format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{long}}}\n"),
            format!("{{\"result\":{long},\"jsonrpc\":\"2.0\",\"id\":7}}\n"),
        ] {
            let (passed, end) = pumped(printed.into_bytes()).await;
            assert_eq!(
                passed,
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32098,\"message\":\"longer than 4 MiB\"}}\n"
            );
            assert_eq!(end, PumpEnd::Closed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_speaks_something_else_is_given_up_in_bounded_memory() {
        let endless = tokio::io::repeat(b'x');
        let end = messages(endless, tokio::io::sink(), Output::new("demo", [])).await;
        assert_eq!(end, PumpEnd::NoProtocol);
        let lines = b"blah blah blah\n".repeat(GARBAGE_BYTES_MAX / 15 + 100);
        assert_eq!(messages(lines.as_slice(), tokio::io::sink(), Output::new("demo", [])).await, PumpEnd::NoProtocol);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_at_a_pace() {
        let lines = b"{}\n".repeat(10 * LINES_PER_WINDOW);
        let began = Instant::now();
        messages(lines.as_slice(), tokio::io::sink(), Output::new("demo", [])).await;
        assert!(began.elapsed() >= 8 * WINDOW, "{:?}", began.elapsed());
    }

    /// As `messages` has it, for lines of a few bytes: what begins with a brace.
    fn expected(printed: &[u8]) -> Vec<u8> {
        let lines = printed.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        lines.filter(|line| line.trim_ascii_start().starts_with(b"{")).collect::<Vec<_>>().concat()
    }

    /// Text that is like what servers print, and text that is like nothing.
    fn printed() -> impl Strategy<Value = Vec<u8>> {
        let message =
            "[a-z\"{}\\[\\]:, ]{0,40}".prop_map(|text| format!("{{\"id\":1,\"x\":\"{text}\"}}\n").into_bytes());
        let noise = "[ -~]{0,40}\r?\n?".prop_map(String::into_bytes);
        let bytes = proptest::collection::vec(any::<u8>(), 0..80);
        let brackets = "[\\[{]{0,300}\n".prop_map(String::into_bytes);
        let piece = prop_oneof![message, noise, bytes, brackets];
        proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    fn on_a_paused_clock<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(work)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// M5: whatever is printed, in whatever pieces it comes, nothing breaks: lines that may be messages pass as they
        /// are, in their order, and nothing else does.
        #[test]
        fn whatever_is_printed_messages_pass_unchanged_and_nothing_else(printed in printed(), piece in 1_usize..50) {
            let passed = on_a_paused_clock(async {
                let (sink, mut source) = tokio::io::duplex(1 << 20);
                let (mut server, from_server) = tokio::io::duplex(64);
                let write = async {
                    for part in printed.chunks(piece) {
                        server.write_all(part).await.unwrap();
                    }
                    drop(server);
                };
                let pump = messages(from_server, sink, Output::new("demo", []));
                let (_, end) = tokio::join!(write, pump);
                assert_eq!(end, PumpEnd::Closed);
                let mut passed = Vec::new();
                source.read_to_end(&mut passed).await.unwrap();
                passed
            });
            let deep = |line: &[u8]| depth(line) > DEPTH_MAX;
            let lines: Vec<&[u8]> = printed.split_inclusive(|byte| *byte == b'\n').collect();
            if !lines.iter().any(|line| deep(line)) {
                prop_assert_eq!(passed, expected(&printed));
            } else {
                // Those that are nested too deep are replaced or dropped; nothing that passes is deeper.
                prop_assert!(passed.split(|byte| *byte == b'\n').all(|line| !deep(line)));
            }
        }

        /// However long a line is, no more than a message is kept of it, and its edges are what they were.
        #[test]
        fn a_line_is_kept_in_bounded_memory(
            pieces in proptest::collection::vec((any::<u8>(), 1_usize..1_500_000), 1..12)
        ) {
            let (mut line, mut whole) = (Line::default(), Vec::new());
            for (byte, length) in pieces {
                let piece = vec![byte; length];
                whole.extend_from_slice(&piece);
                line.add(&piece);
                prop_assert!(line.head.len() + line.tail.len() <= MESSAGE_BYTES_MAX);
            }
            prop_assert_eq!(line.bytes, whole.len());
            prop_assert_eq!(line.is_too_long(), whole.len() > MESSAGE_BYTES_MAX);
            if line.is_too_long() {
                prop_assert_eq!(&line.head[..], &whole[..line.head.len()]);
                prop_assert!(line.head.len() <= EDGE_BYTES && whole.ends_with(&line.tail));
            } else {
                prop_assert_eq!(&line.head, &whole);
            }
        }
    }
}
