//! For tests: every log line of a piece of code, and the proof that nothing private is among them.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};
use tracing::{
    Dispatch, Subscriber,
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::{
    Layer,
    fmt::{self, MakeWriter, format::FmtSpan},
    layer::SubscriberExt,
    registry::LookupSpan,
};

/// A test that logs more than this loses the proof, so it fails instead of forgetting lines.
const BYTES_MAX: usize = 64 << 20;

/// Shorter strings would be found inside times and ids.
const FORBIDDEN_LEN_MIN: usize = 4;

/// Keeps every line of every level, of dependencies too, with the fields of all spans around it.
///
/// ```
/// use offhook::{redact::Redacted, telemetry::LogCapture};
/// let capture = LogCapture::new();
/// let _guard = capture.start();
/// tracing::info!(number = %Redacted::new("+4917055501"), "a call");
/// capture.assert_clean(&["17055501"]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct LogCapture {
    written: Arc<Mutex<Vec<u8>>>,
}

impl LogCapture {
    pub fn new() -> Self {
        Self::default()
    }

    /// Captures what this thread logs (a `#[tokio::test]` runs all its tasks on one thread) until
    /// the guard is dropped.
    #[must_use]
    pub fn start(&self) -> DefaultGuard {
        self.start_with(tracing_subscriber::registry())
    }

    /// Like [`Self::start`], as far as an engine logs it at all: libraries that tell what passes through them are left out.
    #[must_use]
    pub fn start_as_logged(&self) -> DefaultGuard {
        self.start_with(tracing_subscriber::registry().with(super::log::private_targets()))
    }

    fn start_with<S>(&self, registry: S) -> DefaultGuard
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync + 'static,
    {
        ask_every_thread();
        tracing::subscriber::set_default(registry.with(self.layer()))
    }

    /// Captures what all threads log until the process ends, as far as an engine logs it at all; for a test binary of its own.
    ///
    /// # Panics
    /// If this process has a global subscriber already: the capture would stay empty and prove nothing.
    pub fn start_everywhere(&self) {
        let wanted = tracing_subscriber::registry().with(super::log::private_targets());
        tracing::subscriber::set_global_default(wanted.with(self.layer()))
            .expect("a test that captures all threads needs a process of its own");
    }

    /// To be combined with other layers.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        fmt::layer().with_ansi(false).with_span_events(FmtSpan::NEW | FmtSpan::CLOSE).with_writer(self.clone())
    }

    pub fn lines(&self) -> Vec<String> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).lines().map(str::to_owned).collect()
    }

    /// Lines that hold one of `forbidden`, upper and lower case alike; numbers also when written in
    /// groups (`0170 555-01`).
    ///
    /// # Panics
    /// If nothing was captured at all, or a forbidden string is too short to mean anything.
    #[track_caller]
    pub fn leaks(&self, forbidden: &[&str]) -> Vec<String> {
        let lines = self.lines();
        assert!(!lines.is_empty(), "nothing was logged, so nothing is proved");
        for text in forbidden {
            assert!(text.len() >= FORBIDDEN_LEN_MIN, "{text:?} is too short to be searched for");
        }
        lines.into_iter().filter(|line| forbidden.iter().any(|text| holds(line, text))).collect()
    }

    /// # Panics
    /// If a line holds one of `forbidden`; also as [`Self::leaks`].
    #[track_caller]
    pub fn assert_clean(&self, forbidden: &[&str]) {
        let leaks = self.leaks(forbidden);
        assert!(leaks.is_empty(), "private strings in the log:\n{}", leaks.join("\n"));
    }
}

/// Makes each thread's own subscriber decide about that thread's lines.
///
/// As long as there is one subscriber, tracing asks only the thread that comes to a line first, and remembers a "no" for all
/// threads: a test beside this one could silence it. With a second subscriber, which wants nothing, all are asked.
pub(super) fn ask_every_thread() {
    static SECOND: OnceLock<Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| Dispatch::new(NoSubscriber::default()));
}

fn holds(line: &str, text: &str) -> bool {
    let is_number = text.chars().all(|c| c.is_ascii_digit() || "+-() ".contains(c));
    if is_number {
        ungrouped(line).contains(&ungrouped(text))
    } else {
        line.to_lowercase().contains(&text.to_lowercase())
    }
}

fn ungrouped(text: &str) -> String {
    text.chars().filter(|c| !"+-() ".contains(*c)).collect()
}

impl<'a> MakeWriter<'a> for LogCapture {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl io::Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(written.len() + bytes.len() <= BYTES_MAX, "this test logs too much to be captured");
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        facts::{CallFacts, CallId, Direction},
        redact::Redacted,
        telemetry::call_span,
    };

    const NUMBER: &str = "+4917055501";

    fn facts() -> CallFacts {
        CallFacts {
            id: CallId::random(),
            context: "sales".into(),
            provider: "main".into(),
            direction: Direction::Inbound,
            caller_name: Redacted::new(Some("Erika Mustermann".into())),
            caller_number: Redacted::new(Some(NUMBER.into())),
            dialled_number: Redacted::new(Some("0305550199".into())),
            campaign_id: None,
            lead_id: None,
            variables: Redacted::default(),
            residency: crate::facts::Residency::Any,
        }
    }

    #[test]
    fn the_facts_and_the_span_of_a_call_hold_nothing_private() {
        let capture = LogCapture::new();
        let _guard = capture.start();
        let facts = facts();
        call_span(&facts).in_scope(|| tracing::debug!(?facts, "accepted"));
        capture.assert_clean(&[NUMBER, "0305550199", "mustermann"]);
        let lines = capture.lines().join("\n");
        assert!(lines.contains("context=\"sales\"") && lines.contains(&facts.id.to_string()), "{lines}");
    }

    #[test]
    fn a_number_in_a_message_a_field_or_a_span_is_found() {
        let facts = facts();
        let number = facts.caller_number.reveal().clone().unwrap();
        let leaks: [&dyn Fn(); 4] = [
            &|| tracing::trace!("call from {number}"),
            &|| tracing::info!(number, "call"),
            &|| tracing::info!("call from +49 170 555-01"),
            &|| tracing::info_span!("call", number).in_scope(|| tracing::info!("hello")),
        ];
        for leak in leaks {
            let capture = LogCapture::new();
            let _guard = capture.start();
            leak();
            assert!(!capture.leaks(&[NUMBER]).is_empty(), "{:?}", capture.lines());
        }
    }

    #[test]
    #[should_panic(expected = "private strings in the log")]
    fn a_leak_fails_the_test_that_finds_it() {
        let capture = LogCapture::new();
        let _guard = capture.start();
        tracing::warn!("the caller said: My Secret Word");
        capture.assert_clean(&["my secret word"]);
    }

    #[test]
    #[should_panic(expected = "nothing was logged")]
    fn an_empty_capture_proves_nothing() {
        LogCapture::new().assert_clean(&[NUMBER]);
    }
}
