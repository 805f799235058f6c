//! The last lines of this process's log, in memory, for the page.

use std::{
    collections::VecDeque,
    io,
    sync::{Mutex, PoisonError},
};
use tracing_subscriber::fmt::MakeWriter;

/// Some minutes of a busy engine; who wants more has the log itself.
const LINES_MAX: usize = 400;
/// A line of ours is far shorter; what is longer is cut.
const LINE_BYTES_MAX: usize = 2_000;

/// The log is of the process, and so is this.
static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// The newest last. Words and numbers of callers are in no line of the log, so they are not in these.
pub fn last_lines() -> Vec<String> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// Takes a line with each write, as the formatter makes them.
#[derive(Clone, Copy)]
pub(super) struct Tail;

impl io::Write for Tail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        let kept = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
        lines.push_back(String::from_utf8_lossy(kept).trim_end().to_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Tail {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::{fmt, layer::SubscriberExt};

    #[test]
    fn the_newest_lines_are_kept_whole_and_the_oldest_go() {
        let subscriber = tracing_subscriber::registry().with(fmt::layer().compact().with_ansi(false).with_writer(Tail));
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..LINES_MAX + 50 {
                tracing::info!(number, "a line");
            }
            tracing::info!("{}", "x".repeat(3 * LINE_BYTES_MAX));
        });
        let lines = last_lines();
        assert_eq!(lines.len(), LINES_MAX);
        assert!(lines[LINES_MAX - 2].ends_with(&format!("a line number={}", LINES_MAX + 49)), "{lines:?}");
        assert_eq!(lines[LINES_MAX - 1].len(), LINE_BYTES_MAX);
        assert!(!lines.iter().any(|line| line.ends_with("number=0")));
    }
}
