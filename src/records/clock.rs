//! Whether the wall clock can be believed, before anything is deleted because it is old.
//!
//! A machine that comes back from a snapshot, or starts before NTP answers, can be years ahead: each record would be old, and
//! deleted for good. So the time at which the clock was last believed stays in a file, and a clock that is far ahead of it and of
//! the time that has passed since is not believed until an admin says so or the engine has run for as long as it jumped.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use tokio::time::Instant;
use tracing::{info, warn};

/// An engine that is stopped over a weekend goes on as if it had run; less than the days for which anything is kept that matters.
const AHEAD_MAX: Duration = Duration::from_secs(2 * 86_400);
/// Name of the file; the time at which it was last changed is what it says, so that `touch` can set it.
const FILE: &str = "clock";

/// What is known of the time.
pub(super) struct ClockGuard {
    file: PathBuf,
    /// The last time that was believed, and when that was.
    believed: Option<(SystemTime, Instant)>,
    doubted_since: Option<Instant>,
}

impl ClockGuard {
    pub fn new(directory: &Path) -> Self {
        Self { file: directory.join(FILE), believed: None, doubted_since: None }
    }

    /// Time of the file.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read(&self) -> io::Result<Option<SystemTime>> {
        match fs::metadata(&self.file).and_then(|facts| facts.modified()) {
            Ok(time) => Ok(Some(time)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps the time that is believed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self) -> io::Result<()> {
        let Some((time, _)) = self.believed else { return Ok(()) };
        let mut options = fs::File::options();
        options.create(true).write(true).truncate(false).mode(0o600).open(&self.file)?.set_modified(time)
    }

    /// Whether a clock that says `now` is believed. `written`: the file's time, or that of the newest record where there is none.
    pub fn believes(&mut self, now: SystemTime, written: Option<SystemTime>, at: Instant) -> bool {
        let passed = self.believed.map(|(time, since)| time + at.duration_since(since));
        let known = passed.max(written).unwrap_or(now);
        let ahead = now.duration_since(known).unwrap_or_default();
        let doubted_for = self.doubted_since.map_or(Duration::ZERO, |since| at.duration_since(since));
        if ahead > AHEAD_MAX && doubted_for < ahead {
            // The time goes on from there, so that the engine can run for as long as the clock jumped.
            self.believed = Some((known, at));
            if self.doubted_since.is_none() {
                self.doubted_since = Some(at);
                warn!(
                    days_ahead = ahead.as_secs() / 86_400,
                    file = %self.file.display(),
                    "the clock is far ahead of the newest record and of what it said last: nothing is deleted for its age; if the \
                     clock is right, touch this file"
                );
            }
            return false;
        }
        if self.doubted_since.take().is_some() {
            info!("the clock is believed again: what is old is deleted");
        }
        // A clock that was set back takes nothing from what is known.
        self.believed = Some((known.max(now), at));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn guard() -> (ClockGuard, SystemTime, Instant) {
        (ClockGuard::new(Path::new("/nowhere")), SystemTime::UNIX_EPOCH + 20_000 * DAY, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_goes_on_is_believed() {
        let (mut guard, now, at) = guard();
        assert!(guard.believes(now, None, at), "nothing is known");
        assert!(guard.believes(now + 30 * DAY, None, at + 30 * DAY));
        assert!(guard.believes(now + 31 * DAY, Some(now + 30 * DAY), at + 31 * DAY));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_of_two_days_is_none() {
        let (mut guard, now, at) = guard();
        assert!(guard.believes(now, Some(now - 2 * DAY), at));
        assert!(!guard.believes(now + 3 * DAY, Some(now), at + DAY / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_is_believed_once_the_engine_has_run_as_long() {
        let (mut guard, now, at) = guard();
        let wrong = now + 40 * DAY;
        for day in 0..40 {
            assert!(!guard.believes(wrong + day * DAY, Some(now), at + day * DAY), "day {day}");
        }
        assert!(guard.believes(wrong + 40 * DAY, Some(now), at + 40 * DAY));
        assert!(guard.believes(wrong + 41 * DAY, Some(now), at + 41 * DAY));
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_is_believed_once_the_file_says_so_or_the_clock_is_set_right() {
        let (mut guard, now, at) = guard();
        assert!(!guard.believes(now + 40 * DAY, Some(now), at));
        assert!(guard.believes(now + 40 * DAY, Some(now + 40 * DAY), at), "an admin touched it");
        let (mut guard, now, at) = self::guard();
        assert!(!guard.believes(now + 40 * DAY, Some(now), at));
        assert!(guard.believes(now, Some(now), at));
        assert!(!guard.believes(now + 40 * DAY, Some(now), at), "and doubted again");
    }

    /// A machine without a clock of its own begins in 1970.
    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_behind_and_is_set_right_has_not_jumped() {
        let (mut guard, now, at) = guard();
        assert!(guard.believes(SystemTime::UNIX_EPOCH, Some(now - DAY), at));
        assert!(guard.believes(now, Some(now - DAY), at));
    }
}
