//! What is kept of every call: how it went, who said what, which tools ran, what it cost and why it ended.
//!
//! A call that has ended is written down in the *spool*, a file of its own, and from there it goes to the *archive*, a
//! database. So a slow, full or locked database touches no call and loses no record, and neither does an engine that is
//! killed between the two. Of a call that stands when it is killed there is a record as well, which says so.
//!
//! Invariants: no call waits for a record; what is lost is counted; records hold callers' numbers and words, so nothing of
//! one is logged but its id, and nobody but the engine's own user can read the files.

mod archive;
mod clock;
mod counters;
mod deletion;
mod diary;
mod later;
mod reader;
mod record;
mod recording;
mod search;
mod speeches;
mod spool;
mod sqlite;
mod way;

pub use archive::{Access, Archive, ArchiveError, DatabaseError, Hour, Row};
pub use counters::RecordCounters;
pub use deletion::{Deleted, delete};
pub use diary::{Close, Diary};
pub use reader::{NoWaveform, ReadError, Reader};
pub use record::{Amendment, Cost, Counts, Ending, Entry, Event, Record, Recorded, Turn, TurnUsed, Used, party_named};
pub use recording::{Listener, Recorder, RecordingCounters, Sound, Unheard, Waveform, open_recording, recording_file};
pub use search::{NOT_NORMAL, Search, TIMES, reason, reasons, time};
pub use speeches::Speeches;
pub use sqlite::{Sqlite, SqliteFile};

use crate::{audio::Format, config::RecordsConfig, facts::CallId};
use later::Later;
use recording::Recordings;
use spool::Spool;
use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    sync::{
        Notify,
        mpsc::{self, error::TrySendError},
    },
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, warn};
use way::{ToArchive, ToSpool};

/// Records that wait for the spool's disk, and beginnings of calls. All calls of a large machine can end at once, three times
/// over; each has some 20 kB. More means that the disk takes nothing any more.
const WAITING_MAX: usize = 1_000;

/// The way of records to the disk.
pub struct Records {
    waiting: mpsc::Sender<Line>,
    queue: Arc<Queue>,
    recordings: Recordings,
    counters: RecordCounters,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// How many lines are on the way to the spool, the one that is being written included.
#[derive(Default)]
struct Queue {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// What is to be written.
enum Line {
    Begun(Box<Record>),
    Ended(Arc<Record>),
    /// After the record of the same call.
    Amended(Amendment),
}

impl Records {
    /// Opens the spool and the archive below `config.directory` and goes on with what an earlier run left there.
    ///
    /// # Errors
    /// When one of them cannot be opened.
    pub fn start(config: &RecordsConfig, counters: RecordCounters) -> Result<Self, OpenError> {
        let directory = &config.directory;
        let spool = Spool::open(directory)?;
        let file = SqliteFile::below(directory);
        let archive = match file.open() {
            Ok(archive) => archive,
            // It would never be taken.
            Err(error @ ArchiveError::Newer { .. }) => return Err(error.into()),
            // Calls are taken all the same.
            Err(error) => {
                counters.again("archive");
                warn!(%error, "the archive of records cannot be opened; they stay in the spool until it can");
                Box::new(Later::new(file))
            }
        };
        Self::with(spool, archive, config, counters)
    }

    fn with(
        spool: Spool,
        archive: Box<dyn Archive>,
        config: &RecordsConfig,
        counters: RecordCounters,
    ) -> Result<Self, OpenError> {
        let recordings = Recordings::start(&config.directory, counters.recordings.clone());
        let deleted = spool
            .deletions()
            .map_err(|error| OpenError::Spool { directory: config.directory.display().to_string(), error })?;
        let (waiting, lines) = mpsc::channel(WAITING_MAX);
        let queue = Arc::<Queue>::default();
        let (spool, written) = (Arc::new(spool), Arc::new(Notify::new()));
        let (stop, spooled, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let to_spool = ToSpool {
            lines,
            queue: Arc::clone(&queue),
            spool: Arc::clone(&spool),
            written: Arc::clone(&written),
            stop: stop.clone(),
            done: spooled.clone(),
            counters: counters.clone(),
        };
        let archive = Arc::new(Mutex::new(archive));
        let (clock, config) = (clock::ClockGuard::new(&config.directory), config.clone());
        let to_archive =
            ToArchive { spool, archive, deleted, written, spooled, clock, config, counters: counters.clone() };
        tasks.spawn(to_spool.run());
        tasks.spawn(to_archive.run());
        tasks.close();
        Ok(Self { waiting, queue, recordings, counters, stop, tasks })
    }

    /// For a call that has just begun, on a leg of this format.
    pub fn recorder(&self, call: CallId, format: Format) -> Recorder {
        self.recordings.recorder(call, format)
    }

    /// Takes what is known of a call that has just begun, for the case that the engine is killed. Waits for nothing.
    pub fn begun(&self, record: Record) {
        self.queue.begun.fetch_add(1, SeqCst);
        if let Err(lost) = self.waiting.try_send(Line::Begun(Box::new(record))) {
            self.queue.begun.fetch_sub(1, SeqCst);
            // The log tells it of the records of calls that end.
            self.counters.lost_beginnings(why(&lost), 1);
        }
    }

    /// Takes the record of a call that has ended. Waits for nothing.
    pub fn keep(&self, record: Record) {
        let id = record.id;
        self.queue.ended.fetch_add(1, SeqCst);
        self.counters.wait(|waiting| waiting.in_memory += 1);
        if let Err(lost) = self.waiting.try_send(Line::Ended(Arc::new(record))) {
            self.queue.ended.fetch_sub(1, SeqCst);
            self.counters.wait(|waiting| waiting.in_memory -= 1);
            self.counters.lost(why(&lost), 1);
            match lost {
                TrySendError::Full(_) => {
                    error!(call_id = %id, "the record of this call is lost: the disk has taken none of {WAITING_MAX} before it");
                }
                TrySendError::Closed(_) => {
                    error!(call_id = %id, "the record of this call is lost: it ended after the engine had stopped");
                }
            }
        }
    }

    /// Takes what became known of a call after its record was kept. Waits for nothing.
    pub fn amend(&self, amendment: Amendment) {
        let id = amendment.id;
        if self.waiting.try_send(Line::Amended(amendment)).is_err() {
            error!(call_id = %id, "the record of this call does not say that its transfer failed: the disk takes nothing");
        }
    }

    /// Writes what is waiting, for so long at most; nothing is taken any more. What the archive has not taken by then stays in
    /// the spool for the next start.
    pub async fn finish(&self, max: Duration) {
        self.stop.cancel();
        if timeout(max, self.tasks.wait()).await.is_err() {
            let (records, beginnings) = (self.queue.ended.load(SeqCst), self.queue.begun.load(SeqCst));
            self.counters.lost("stopped", records);
            self.counters.lost_beginnings("stopped", beginnings);
            error!(
                records,
                beginnings, "the disk or the archive of records is stuck; those that are not in the spool are lost"
            );
        }
    }
}

/// Why a line was not taken, for the counters.
const fn why(lost: &TrySendError<Line>) -> &'static str {
    match lost {
        TrySendError::Full(_) => "full",
        TrySendError::Closed(_) => "stopped",
    }
}

/// The archive of a folder of records, for whoever only looks into it, beside an engine or without one; `None` where no record
/// was ever kept.
///
/// # Errors
/// When there is one and it cannot be read, or is of another version.
pub fn read(directory: &Path) -> Result<Option<Box<dyn Archive>>, ArchiveError> {
    let file = SqliteFile::below(directory);
    if file.exists()? { file.read_only().map(Some) } else { Ok(None) }
}

/// Why records cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the spool of records in {directory} cannot be opened: {error}; records.directory must be a folder that this user may write"
    )]
    Spool { directory: String, error: io::Error },
    #[error(
        "another engine keeps its records in {directory}, and holds {file}: stop it, or give each engine a folder of its own \
         (records.directory)"
    )]
    Taken { directory: String, file: String },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

#[cfg(test)]
mod tests;
