//! From a server's standard output to the protocol: one message a line, and whatever else it prints.

use super::{MESSAGE_BYTES_MAX, output::Output};
use memchr::memchr;
use serde_json::json;
use std::{borrow::Cow, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

/// Bytes that are no message after which a server is given up: it speaks something else.
const GARBAGE_BYTES_MAX: usize = 64 << 20;
/// What a server may print in a tenth of a second, in bytes and lines. Far more than answers are; a flood is read no
/// faster, so it costs a few per cent of one core, and then it waits in its pipe.
const BYTES_PER_WINDOW: usize = 4 << 20;
const LINES_PER_WINDOW: usize = 1000;
const WINDOW: Duration = Duration::from_millis(100);
/// So long without a line ends a flood of them.
const QUIET: Duration = Duration::from_secs(2);
/// Where it is looked for what a message is: SDKs write `jsonrpc` and `id` first or last.
const EDGE_BYTES: usize = 256;
/// Of what a server may ask of us in a tenth of a second. Each answer waits for the server to read; none is worth more.
const REQUESTS_PER_WINDOW: usize = 10;
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
    requests: usize,
}

impl Pace {
    fn new() -> Self {
        Self { began: Instant::now(), bytes: 0, lines: 0, requests: 0 }
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

    /// Whether one more request of the server is listened to.
    const fn admits_request(&mut self) -> bool {
        self.requests += 1;
        self.requests <= REQUESTS_PER_WINDOW
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

    /// Its first and its last bytes.
    fn edges(&self) -> (Cow<'_, str>, Cow<'_, str>) {
        let first = &self.head[..self.head.len().min(EDGE_BYTES)];
        let last = if self.is_too_long() { &self.tail } else { &self.head };
        let last = &last[last.len().saturating_sub(EDGE_BYTES)..];
        (String::from_utf8_lossy(first), String::from_utf8_lossy(last))
    }

    /// A JSON log line is none.
    fn is_message(&self) -> bool {
        let (first, last) = self.edges();
        self.head.trim_ascii_start().starts_with(b"{")
            && (first.contains("\"jsonrpc\"") || last.contains("\"jsonrpc\""))
    }

    /// The server asks something of us; a notification has no id.
    fn is_request(&self) -> bool {
        let (first, last) = self.edges();
        let has = |key: &str| first.contains(key) || last.contains(key);
        has("\"method\"") && has("\"id\"") && !has("\"result\"") && !has("\"error\"")
    }

    /// Which request it answers. Ours have numbers.
    fn answers(&self) -> Option<u64> {
        let (first, last) = self.edges();
        // Inside the result an id is something else.
        let before = first.split("\"result\"").next().unwrap_or_default();
        if before.contains("\"method\"") {
            return None;
        }
        let early = before.rfind("\"id\"").and_then(|at| id_after(&before[at + 4..]));
        let late =
            || last.rfind("\"id\"").filter(|at| !last[*at..].contains("}}")).and_then(|at| id_after(&last[at + 4..]));
        early.or_else(late)
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
        let end = memchr(b'\n', available);
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
        let is_flood = whole.is_request() && !pace.admits_request();
        let bytes = whole.bytes;
        let passed = match message(whole) {
            Ok(message) if !is_flood => messages.write_all(&message).await,
            Ok(noise) | Err(noise) => {
                garbage += bytes;
                output.line("stdout", &noise);
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
    loop {
        // Lines that were not logged are told when a flood is over.
        let Ok(available) = timeout(QUIET, reader.fill_buf()).await else {
            // A question that waits for an answer ends no line.
            output.line("stderr", &std::mem::take(&mut line));
            output.finish();
            continue;
        };
        let Ok(available) = available else { break };
        if available.is_empty() {
            break;
        }
        let end = memchr(b'\n', available);
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

/// What is handed on of a line: itself if it may be a message, and for one that cannot be read the news of that.
///
/// # Errors
/// It is no message: what is shown of it.
fn message(line: Line) -> Result<Vec<u8>, Vec<u8>> {
    if !line.is_message() {
        return Err(line.head);
    }
    let (code, why) = if line.is_too_long() {
        (TOO_LONG, format!("longer than {} MiB", MESSAGE_BYTES_MAX >> 20))
    } else if depth(&line.head) > DEPTH_MAX {
        (TOO_DEEP, format!("nested deeper than {DEPTH_MAX} levels"))
    } else {
        return Ok(line.head);
    };
    let Some(id) = line.answers() else { return Err(line.head) };
    let error = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": why } });
    Ok(format!("{error}\n").into_bytes())
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

/// The number after `"id":`.
fn id_after(text: &str) -> Option<u64> {
    let text = text.trim_start().strip_prefix(':')?.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Any output of a server: messages pass unchanged, nothing else does, and none that is deeper than the protocol reads.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    use futures_util::FutureExt as _;

    // More lines at once are read at a pace, which needs a clock.
    let lines: Vec<&[u8]> = data.split_inclusive(|byte| *byte == b'\n').take(LINES_PER_WINDOW / 2).collect();
    let printed = lines.concat();
    let mut passed = Vec::new();
    let end = messages(&*printed, &mut passed, Output::new("fuzz", [])).now_or_never();
    assert_eq!(end, Some(PumpEnd::Closed), "it waits for nothing");
    let mut rest = lines.iter();
    for message in passed.split_inclusive(|byte| *byte == b'\n') {
        assert!(depth(message) <= DEPTH_MAX);
        let is_own =
            message.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":") && message.windows(6).any(|at| at == b"-32097");
        assert!(is_own || rest.any(|line| *line == message), "a message that nobody printed, or out of order");
    }
    let whole = lines.iter().filter(|line| line.ends_with(b"\n")).count();
    assert!(passed.split(|byte| *byte == b'\n').count() <= whole + 1);
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
        let good = "{\"jsonrpc\":\"2.0\"}\n  {\"a\":1,\"jsonrpc\":\"2.0\"}\r\n";
        let log = "{\"level\":\"info\",\"msg\":\"listening\"}";
        let printed = format!("Server is ready!\n{log}\n\n{good}Done.\n{{\"jsonrpc\":");
        let (passed, end) = pumped(printed.into_bytes()).await;
        assert_eq!((passed.as_str(), end), (good, PumpEnd::Closed));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_long_and_no_answer_fails_nobodys_call() {
        let text = "x".repeat(5 << 20);
        let note = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"id\":3,\"data\":\"{text}\"}}}}\n"
        );
        let request =
            format!("{{\"method\":\"ping\",\"params\":{{\"data\":\"{text}\"}},\"jsonrpc\":\"2.0\",\"id\":3}}\n");
        for printed in [note, request] {
            assert_eq!(pumped(printed.into_bytes()).await.0, "");
        }
    }

    /// Each is answered, and an answer that the server does not read waits in memory.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_asks_and_asks_is_listened_to_now_and_then() {
        let asked = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n".repeat(2 * LINES_PER_WINDOW);
        let answers = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"method\":\"\"}}\n".repeat(30);
        let (passed, _) = pumped([asked, answers].concat()).await;
        let count = |what: &str| passed.lines().filter(|line| line.contains(what)).count();
        assert!(count("ping") <= 3 * REQUESTS_PER_WINDOW, "{}", count("ping"));
        assert_eq!(count("result"), 30, "answers all pass");
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
        let line = [b"blah ".repeat(300), b"\n".to_vec()].concat();
        let lines = line.repeat(GARBAGE_BYTES_MAX / line.len() + 100);
        assert_eq!(messages(lines.as_slice(), tokio::io::sink(), Output::new("demo", [])).await, PumpEnd::NoProtocol);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_at_a_pace() {
        let lines = b"{\"jsonrpc\":1}\n".repeat(10 * LINES_PER_WINDOW);
        let began = Instant::now();
        messages(lines.as_slice(), tokio::io::sink(), Output::new("demo", [])).await;
        assert!(began.elapsed() >= 8 * WINDOW, "{:?}", began.elapsed());
    }

    /// As `messages` has it, for lines of a few bytes: what begins with a brace and names the protocol.
    fn expected(printed: &[u8]) -> Vec<u8> {
        let lines = printed.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let names_it = |line: &[u8]| line.windows(9).any(|word| word == b"\"jsonrpc\"");
        lines.filter(|line| line.trim_ascii_start().starts_with(b"{") && names_it(line)).collect::<Vec<_>>().concat()
    }

    /// Text that is like what servers print, and text that is like nothing.
    fn printed() -> impl Strategy<Value = Vec<u8>> {
        let message =
            "[a-z\"{}\\[\\]:, ]{0,40}".prop_map(|text| format!("{{\"jsonrpc\":1,\"x\":\"{text}\"}}\n").into_bytes());
        let noise = "[ -~]{0,40}\r?\n?".prop_map(String::into_bytes);
        let bytes = proptest::collection::vec(any::<u8>(), 0..80);
        let brackets = "\\{\"jsonrpc\":[\\[{]{0,200}\n".prop_map(String::into_bytes);
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
