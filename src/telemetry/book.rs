//! For tests: the log of an engine in their own process, as the program writes it to standard error.

use super::{
    LogError, LogFormat,
    log::{Repetitions, private_targets, wanted},
};
use prometheus::IntCounter;
use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};
use tracing::{Dispatch, Metadata};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::dynamic_filter_fn,
    fmt::{self, MakeWriter},
    layer::{Context, Filter, SubscriberExt},
    reload,
};

/// A test that logs more than this is told so, instead of forgetting lines.
const BYTES_MAX: usize = 64 << 20;

/// Lines of every thread whose subscriber it is.
#[derive(Debug, Clone)]
pub struct LogBook {
    written: Arc<Mutex<Written>>,
    filter: reload::Handle<EnvFilter, Registry>,
    dispatch: Dispatch,
}

#[derive(Debug, Default)]
struct Written {
    format: LogFormat,
    text: Vec<u8>,
}

impl LogBook {
    /// With nothing in it until [`Self::begin`].
    pub fn new() -> Self {
        super::capture::ask_every_thread();
        let written = Arc::new(Mutex::new(Written::default()));
        let (filter, handle) = reload::Layer::new(EnvFilter::new("off"));
        let suppressed = IntCounter::new("suppressed", "lines").expect("a name");
        let lines = fmt::layer().with_ansi(false).with_writer(Pen(Arc::clone(&written)));
        let text = lines.compact().with_filter(while_in(LogFormat::Text, &written));
        let lines = fmt::layer().with_ansi(false).with_writer(Pen(Arc::clone(&written)));
        let json =
            lines.json().flatten_event(true).with_span_list(false).with_filter(while_in(LogFormat::Json, &written));
        let subscriber = tracing_subscriber::registry().with(filter).with(private_targets());
        let subscriber = subscriber.with(Repetitions::new(suppressed)).with(text).with(json);
        Self { written, filter: handle, dispatch: Dispatch::new(subscriber) }
    }

    /// The subscriber of the threads whose lines it holds.
    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// From here on, lines that this filter wants, in this format. Returns the place where they begin, for [`Self::since`].
    pub fn begin(&self, format: LogFormat, filter: &str) -> Result<usize, LogError> {
        let filter = wanted(filter)?;
        // The registry lives as long as this does.
        self.filter.reload(filter).expect("a subscriber that lives");
        let mut written = lock(&self.written);
        written.format = format;
        Ok(written.text.len())
    }

    pub fn since(&self, place: usize) -> String {
        String::from_utf8_lossy(&lock(&self.written).text[place..]).into_owned()
    }
}

impl Default for LogBook {
    fn default() -> Self {
        Self::new()
    }
}

/// Lets lines through while they are to be written in this format.
fn while_in<S>(format: LogFormat, written: &Arc<Mutex<Written>>) -> impl Filter<S> + use<S> {
    let written = Arc::clone(written);
    dynamic_filter_fn(move |_: &Metadata<'_>, _: &Context<'_, S>| lock(&written).format == format)
}

fn lock(written: &Mutex<Written>) -> std::sync::MutexGuard<'_, Written> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Pen(Arc<Mutex<Written>>);

impl<'a> MakeWriter<'a> for Pen {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl io::Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = lock(&self.0);
        assert!(written.text.len() + bytes.len() <= BYTES_MAX, "this test logs too much to be kept");
        written.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_written_in_its_own_format_and_by_its_own_filter() {
        let book = LogBook::new();
        tracing::dispatcher::with_default(book.dispatch(), || {
            tracing::error!("before anybody asked");
            let first = book.begin(LogFormat::Text, "info").unwrap();
            tracing::info!(number = 1, "told");
            tracing::debug!("not told");
            let second = book.begin(LogFormat::Json, "offhook=debug").unwrap();
            let span = tracing::info_span!("call", context = "sales");
            span.in_scope(|| tracing::debug!(number = 2, "told as well"));
            let text = book.since(first);
            assert!(text.contains("told number=1") && !text.contains("not told"), "{text}");
            assert!(!text.contains("before"), "{text}");
            let json: serde_json::Value = serde_json::from_str(book.since(second).trim()).unwrap();
            assert_eq!((&json["message"], &json["number"]), (&"told as well".into(), &2.into()));
            assert_eq!(json["span"]["context"], "sales");
        });
    }
}
