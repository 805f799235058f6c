//! Log lines on standard error: text for people or JSON for machines.
//!
//! Invariants: dependencies never log below `info`, because their debug lines hold what is on the
//! wire (callers' words, keys), and the MCP library not at all, because all of its lines do; a warning that repeats
//! cannot fill the disk.

use crate::facts::CallFacts;
use prometheus::IntCounter;
use std::{
    collections::HashMap,
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use tracing::{Event, Level, Metadata, Span, Subscriber, callsite::Identifier};
use tracing_subscriber::{
    EnvFilter, Layer, filter, fmt,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
    util::SubscriberInitExt,
};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(LogError::Format(text.to_owned())),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("unknown log format {0:?}; known are \"text\" and \"json\"")]
    Format(String),
    #[error("the log filter {filter:?} cannot be read: {source}")]
    Filter { filter: String, source: filter::ParseError },
    #[error("a log has already been set up in this process")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Starts the log of this process. `filter` is what `RUST_LOG` takes: `info`, or
/// `info,offhook::call=debug`. `suppressed` counts the lines that were left out as repetitions.
pub fn init(format: LogFormat, filter: &str, suppressed: IntCounter) -> Result<(), LogError> {
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.compact().with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(wanted(filter)?).with(private_targets());
    let tail = fmt::layer().compact().with_ansi(false).with_writer(super::tail::Tail);
    subscriber.with(Repetitions::new(suppressed)).with(lines).with(tail).try_init().map_err(LogError::Twice)
}

/// The span of one call; everything done for the call happens inside it or a child of it. Where another agent takes the call
/// over, that is recorded in it: a line of text then names all of them, the one that has the call last, and a line of JSON that one.
pub fn call_span(facts: &CallFacts) -> Span {
    tracing::info_span!("call", call_id = %facts.id, context = facts.context, provider = facts.provider)
}

pub(super) fn wanted(filter: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::builder().parse(filter).map_err(|source| LogError::Filter { filter: filter.to_owned(), source })
}

/// Lets debug and trace lines through only if they are our own.
pub(super) fn private_targets<S: Subscriber>() -> impl Layer<S> {
    filter::filter_fn(|metadata: &Metadata<'_>| {
        let (level, target) = (*metadata.level(), metadata.target());
        is_ours(target) || (level <= Level::INFO && !quotes_its_peer(target))
    })
}

/// Its lines of every level repeat what an MCP server says, at any length; ours say what matters of it.
fn quotes_its_peer(target: &str) -> bool {
    target == "rmcp" || target.starts_with("rmcp::")
}

fn is_ours(target: &str) -> bool {
    target == "offhook" || target.starts_with("offhook::")
}

/// Warnings and errors from one place in the code per [`WINDOW`]. Enough for one of each of many
/// calls; a loop at full speed stays below 100 KB a minute.
const LINES_PER_WINDOW: u32 = 50;
const WINDOW: Duration = Duration::from_secs(10);

/// Leaves out warnings and errors that one place in the code repeats too often.
pub(super) struct Repetitions {
    /// One entry per place in the code, so the code itself is the bound.
    windows: Mutex<HashMap<Identifier, Window>>,
    suppressed: IntCounter,
}

struct Window {
    began: Instant,
    lines: u32,
}

impl Repetitions {
    pub(super) fn new(suppressed: IntCounter) -> Self {
        Self { windows: Mutex::default(), suppressed }
    }

    fn admits(&self, place: Identifier, now: Instant) -> bool {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = windows.entry(place).or_insert(Window { began: now, lines: 0 });
        if now.duration_since(window.began) >= WINDOW {
            *window = Window { began: now, lines: 0 };
        }
        window.lines = window.lines.saturating_add(1);
        window.lines <= LINES_PER_WINDOW
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Repetitions {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN || self.admits(metadata.callsite(), Instant::now()) {
            return true;
        }
        self.suppressed.inc();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::LogCapture;

    fn repetitions() -> (Repetitions, IntCounter) {
        let suppressed = IntCounter::new("suppressed", "lines").unwrap();
        (Repetitions::new(suppressed.clone()), suppressed)
    }

    #[test]
    fn a_warning_in_a_loop_is_cut_off_and_counted_while_others_still_show() {
        let (repetitions, suppressed) = repetitions();
        let capture = LogCapture::new();
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(repetitions).with(capture.layer()),
            || {
                for attempt in 0..1_000 {
                    tracing::warn!(attempt, "again");
                }
                tracing::warn!("something else");
            },
        );
        let lines = capture.lines();
        assert_eq!(lines.iter().filter(|line| line.contains("again")).count(), LINES_PER_WINDOW as usize);
        assert!(lines.iter().any(|line| line.contains("something else")));
        assert_eq!(suppressed.get(), 1_000 - u64::from(LINES_PER_WINDOW));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_off_warning_shows_again_in_the_next_window() {
        let (repetitions, _) = repetitions();
        let capture = LogCapture::new();
        let subscriber = tracing_subscriber::registry().with(repetitions).with(capture.layer());
        let _guard = tracing::subscriber::set_default(subscriber);
        let warn = || tracing::warn!("again");
        (0..60).for_each(|_| warn());
        assert_eq!(capture.lines().len(), 50);
        tokio::time::advance(WINDOW).await;
        warn();
        assert_eq!(capture.lines().len(), 51);
    }

    #[test]
    fn dependencies_cannot_be_made_to_log_what_is_on_the_wire() {
        let capture = LogCapture::new();
        let subscriber =
            tracing_subscriber::registry().with(wanted("trace").unwrap()).with(private_targets()).with(capture.layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::trace!(target: "tungstenite::protocol", "Received message: my pin is 47110815");
            tracing::debug!(target: "offhooked", "not ours either");
            tracing::trace!(target: "offhook::call", "ours");
            tracing::info!(target: "hyper", "fine");
            tracing::error!(target: "rmcp::service", "response error: the account 47110815 either");
        });
        let lines = capture.lines().join("\n");
        assert!(lines.contains("ours") && lines.contains("fine"), "{lines}");
        assert!(!lines.contains("47110815") && !lines.contains("either"), "{lines}");
    }

    #[test]
    fn a_mistyped_filter_or_format_says_what_was_wrong() {
        let problem = wanted("offhook=loud").unwrap_err().to_string();
        assert!(problem.contains("offhook=loud"), "{problem}");
        assert!("xml".parse::<LogFormat>().unwrap_err().to_string().contains("json"));
    }
}
