//! What is kept of every call: how it went, who said what, which tools ran, what it cost and why it ended.
//!
//! A call that has ended is written down in the *spool*, a file of its own, and from there it goes to the *archive*, a
//! database. So a slow, full or locked database touches no call and loses no record, and neither does an engine that is
//! killed between the two. Of a call that stands when it is killed there is a record as well, which says so.
//!
//! Invariants: no call waits for a record; what is lost is counted; records hold callers' numbers and words, so nothing of
//! one is logged but its id, and nobody but the engine's own user can read the files.

mod archive;
mod diary;
mod reader;
mod record;
mod recording;
mod speeches;
mod spool;
mod sqlite;

pub use archive::{Archive, ArchiveError, Hour, Row, Search};
pub use diary::{Close, Diary};
pub use reader::{NoWaveform, ReadError, Reader};
pub use record::{Cost, Counts, Ending, Entry, Event, Record, Recorded, Turn, TurnUsed, Used};
pub use recording::{Listener, Recorder, RecordingCounters, Sound, Unheard, Waveform, open_recording, recording_file};
pub use speeches::Speeches;
pub use sqlite::Sqlite;

use crate::{audio::Format, config::RecordsConfig, facts::CallId, telemetry::Definition};
use jiff::Timestamp;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Registry};
use recording::Recordings;
use spool::Spool;
use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{Notify, mpsc},
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info, warn};

/// Records that wait for the spool's disk, and beginnings of calls. All calls of a large machine can end at once, three times
/// over; each has some 20 kB. More means that the disk takes nothing any more.
const WAITING_MAX: usize = 1_000;
/// So many go into the archive in one transaction.
const BATCH: usize = 100;
/// After a failure, and twice as long after each further one.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// The archive is asked to forget what is old so often.
const EXPIRE_EVERY: Duration = Duration::from_secs(600);
/// At once, so that nobody waits long for the database; the rest follows with the next round.
const EXPIRE_BATCH: usize = 1_000;

const KEPT: Definition = Definition::new("offhook_records_total", "Records of ended calls that the archive has taken.");
const LOST: Definition = Definition::labelled(
    "offhook_records_lost_total",
    &["why"],
    "Records of ended calls that were lost: more were waiting for the disk than are held in memory (full), the engine \
     stopped before the disk took them (stopped), or the spool's file could not be read again (unreadable; it is kept).",
);
const RETRIES: Definition = Definition::labelled(
    "offhook_records_retries_total",
    &["step"],
    "How often the spool's disk or the archive did not take records and was asked again; that a call has begun is written once.",
);
const WAITING: Definition =
    Definition::new("offhook_records_waiting", "Records in the spool that the archive has not taken yet.");
const EXPIRED: Definition = Definition::new(
    "offhook_records_expired_total",
    "Records deleted because they were older than `records.keep_days`.",
);

/// Of all records of one process.
#[derive(Debug, Clone)]
pub struct RecordCounters {
    kept: IntCounter,
    lost: IntCounterVec,
    retries: IntCounterVec,
    waiting: IntGauge,
    expired: IntCounter,
    recordings: RecordingCounters,
}

impl RecordCounters {
    pub fn new(registry: &Registry) -> Self {
        let (lost, retries) = (LOST.register_counters(registry), RETRIES.register_counters(registry));
        for why in ["full", "stopped", "unreadable"] {
            lost.with_label_values(&[why]);
        }
        for step in ["spool", "archive"] {
            retries.with_label_values(&[step]);
        }
        Self {
            kept: KEPT.register_counter(registry),
            lost,
            retries,
            waiting: WAITING.register_int_gauge(registry),
            expired: EXPIRED.register_counter(registry),
            recordings: RecordingCounters::new(registry),
        }
    }

    fn lost(&self, why: &'static str, count: usize) {
        self.lost.with_label_values(&[why]).inc_by(count as u64);
    }
}

/// The way of records to the disk.
pub struct Records {
    waiting: mpsc::Sender<Line>,
    recordings: Recordings,
    counters: RecordCounters,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What is to be written.
enum Line {
    Begun(Box<Record>),
    Ended(Arc<Record>),
}

impl Records {
    /// Opens the spool and the archive below `config.directory` and goes on with what an earlier run left there.
    ///
    /// # Errors
    /// When one of them cannot be opened.
    pub fn start(config: &RecordsConfig, counters: RecordCounters) -> Result<Self, OpenError> {
        let directory = &config.directory;
        let spool = Spool::open(&directory.join("spool"))
            .map_err(|error| OpenError::Spool { directory: directory.display().to_string(), error })?;
        let archive = Sqlite::open(&archive_file(directory))?;
        Self::with(spool, Box::new(archive), config, counters)
    }

    fn with(
        spool: Spool,
        archive: Box<dyn Archive>,
        config: &RecordsConfig,
        counters: RecordCounters,
    ) -> Result<Self, OpenError> {
        let recordings =
            Recordings::start(&config.directory, counters.recordings.clone()).map_err(OpenError::Recordings)?;
        let (waiting, lines) = mpsc::channel(WAITING_MAX);
        let (spool, written) = (Arc::new(spool), Arc::new(Notify::new()));
        let (stop, spooled, tasks) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let to_spool = ToSpool {
            lines,
            spool: Arc::clone(&spool),
            written: Arc::clone(&written),
            stop: stop.clone(),
            done: spooled.clone(),
            counters: counters.clone(),
        };
        let archive = Arc::new(Mutex::new(archive));
        let to_archive =
            ToArchive { spool, archive, written, spooled, config: config.clone(), counters: counters.clone() };
        tasks.spawn(to_spool.run());
        tasks.spawn(to_archive.run());
        tasks.close();
        Ok(Self { waiting, recordings, counters, stop, tasks })
    }

    /// For a call that has just begun, on a leg of this format.
    pub fn recorder(&self, call: CallId, format: Format) -> Recorder {
        self.recordings.recorder(call, format)
    }

    /// Takes what is known of a call that has just begun, for the case that the engine is killed. Waits for nothing.
    pub fn begun(&self, record: Record) {
        // A disk that takes nothing is told, and counted, by the records of calls that end.
        let _ = self.waiting.try_send(Line::Begun(Box::new(record)));
    }

    /// Takes the record of a call that has ended. Waits for nothing.
    pub fn keep(&self, record: Record) {
        let id = record.id;
        if self.waiting.try_send(Line::Ended(Arc::new(record))).is_err() {
            self.counters.lost("full", 1);
            error!(call_id = %id, "the record of this call is lost: the disk has taken none of {WAITING_MAX} before it");
        }
    }

    /// Writes what is waiting, for so long at most; nothing is taken any more. What the archive has not taken by then stays in
    /// the spool for the next start.
    pub async fn finish(&self, max: Duration) {
        self.stop.cancel();
        if timeout(max, self.tasks.wait()).await.is_err() {
            let left = WAITING_MAX - self.waiting.capacity();
            self.counters.lost("stopped", left);
            error!(
                records = left,
                "the disk or the archive of records is stuck; those that are not in the spool are lost"
            );
        }
    }
}

/// Where the archive is, for those who read it beside the engine.
pub fn archive_file(directory: &Path) -> std::path::PathBuf {
    directory.join("calls.sqlite3")
}

/// Why records cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the spool of records in {directory} cannot be opened: {error}; records.directory must be a folder that this user may write"
    )]
    Spool { directory: String, error: io::Error },
    #[error("there is no thread for recordings: {0}")]
    Recordings(io::Error),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// One record after the other, each as often as it takes.
struct ToSpool {
    lines: mpsc::Receiver<Line>,
    spool: Arc<Spool>,
    written: Arc<Notify>,
    /// Nothing more will come.
    stop: CancellationToken,
    /// Everything is in the spool.
    done: CancellationToken,
    counters: RecordCounters,
}

impl ToSpool {
    async fn run(mut self) {
        let _done = self.done.clone().drop_guard();
        loop {
            let line = tokio::select! {
                biased;
                line = self.lines.recv() => line,
                () = self.stop.cancelled(), if !self.lines.is_closed() => {
                    // What is waiting still comes.
                    self.lines.close();
                    continue;
                }
            };
            let record = match line {
                None => return,
                Some(Line::Begun(record)) => {
                    self.begin(record).await;
                    continue;
                }
                Some(Line::Ended(record)) => record,
            };
            let mut retry = Retry::default();
            while let Err(error) = self.put(&record).await {
                warn!(%error, "the spool of records cannot be written; it is tried again");
                self.counters.retries.with_label_values(&["spool"]).inc();
                sleep(retry.next()).await;
            }
            self.counters.waiting.inc();
            self.written.notify_one();
        }
    }

    /// Once: its end is what counts.
    async fn begin(&self, record: Box<Record>) {
        let spool = Arc::clone(&self.spool);
        if let Err(error) = blocking(move || spool.begin(&record).map_err(ArchiveError::Spool)).await {
            warn!(%error, "the spool of records cannot be written; if the engine is killed, a call will have no record");
            self.counters.retries.with_label_values(&["spool"]).inc();
        }
    }

    async fn put(&self, record: &Arc<Record>) -> Result<(), ArchiveError> {
        let (spool, record) = (Arc::clone(&self.spool), Arc::clone(record));
        blocking(move || spool.put(&record).map_err(ArchiveError::Spool)).await
    }
}

/// On a thread that may wait for a disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, ArchiveError> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(ArchiveError::Failed(error.to_string())))
}

/// What is in the spool, a batch after the other.
struct ToArchive {
    spool: Arc<Spool>,
    archive: Arc<Mutex<Box<dyn Archive>>>,
    written: Arc<Notify>,
    /// Nothing more will be written.
    spooled: CancellationToken,
    config: RecordsConfig,
    counters: RecordCounters,
}

impl ToArchive {
    async fn run(self) {
        let mut expiry = tokio::time::interval(EXPIRE_EVERY);
        let mut retry = Retry::default();
        loop {
            let last = self.spooled.is_cancelled();
            let wait = match self.empty_the_spool().await {
                Ok(()) => {
                    retry = Retry::default();
                    None
                }
                Err(error) => {
                    self.counters.retries.with_label_values(&["archive"]).inc();
                    warn!(%error, "the archive of records does not take them; they stay in the spool until it does");
                    Some(retry.next())
                }
            };
            if last {
                return;
            }
            match wait {
                Some(wait) => tokio::select! {
                    () = sleep(wait) => {}
                    () = self.spooled.cancelled() => {}
                },
                None => tokio::select! {
                    () = self.written.notified() => {}
                    () = self.spooled.cancelled() => {}
                    _ = expiry.tick() => self.expire().await,
                },
            }
        }
    }

    async fn empty_the_spool(&self) -> Result<(), ArchiveError> {
        loop {
            let (spool, archive) = (Arc::clone(&self.spool), Arc::clone(&self.archive));
            let moved = blocking(move || {
                let batch = spool.batch(BATCH).map_err(ArchiveError::Spool)?;
                let mut archive = archive.lock().unwrap_or_else(PoisonError::into_inner);
                archive.put(&batch.records)?;
                for deleted in spool.forget(&batch).map_err(ArchiveError::Spool)? {
                    archive.delete(deleted)?;
                }
                Ok((batch.records.len(), batch.unreadable, spool.count().map_err(ArchiveError::Spool)?))
            });
            let (kept, unreadable, left) = moved.await?;
            self.counters.kept.inc_by(kept as u64);
            self.counters.lost("unreadable", unreadable);
            self.counters.waiting.set(left as i64);
            if kept + unreadable == 0 {
                return Ok(());
            }
        }
    }

    async fn expire(&self) {
        self.expire_recordings().await;
        loop {
            let Ok(before) = Timestamp::now().checked_sub(self.config.keep) else { return };
            let archive = Arc::clone(&self.archive);
            let expired =
                blocking(move || archive.lock().unwrap_or_else(PoisonError::into_inner).expire(before, EXPIRE_BATCH));
            match expired.await {
                Ok(0) => return,
                Ok(count) => {
                    self.counters.expired.inc_by(count as u64);
                    info!(records = count, "old records were deleted");
                }
                Err(error) => return warn!(%error, "old records could not be deleted; it is tried again later"),
            }
        }
    }
}

impl ToArchive {
    async fn expire_recordings(&self) {
        let Some(before) = SystemTime::now().checked_sub(self.config.keep_recordings) else { return };
        let directory = self.config.directory.clone();
        let expired = blocking(move || recording::expire(&directory, before).map_err(ArchiveError::Recording));
        match expired.await {
            Ok(0) => {}
            Ok(count) => {
                self.counters.recordings.expired.inc_by(count as u64);
                info!(recordings = count, "old recordings were deleted");
            }
            Err(error) => warn!(%error, "old recordings could not be deleted; it is tried again later"),
        }
    }
}

/// How long until the next attempt.
#[derive(Default)]
struct Retry(u32);

impl Retry {
    fn next(&mut self) -> Duration {
        let wait = RETRY_FIRST.saturating_mul(1 << self.0.min(16)).min(RETRY_MAX);
        self.0 += 1;
        wait
    }
}

/// The archive of a directory, for reading: `None` where no record was ever kept.
///
/// # Errors
/// When there is one and it cannot be read.
pub fn read(directory: &Path) -> Result<Option<Sqlite>, ArchiveError> {
    let file = archive_file(directory);
    if file.exists() { Sqlite::open(&file).map(Some) } else { Ok(None) }
}

/// Deletes what is kept of a call, wherever it is, its recording first; `false` where nothing was.
///
/// # Errors
/// When the archive cannot be read or written.
pub fn delete(directory: &Path, id: CallId) -> Result<bool, ArchiveError> {
    let recorded = recording::delete(directory, id).map_err(ArchiveError::Recording)?;
    let spooled = Spool::existing(&directory.join("spool")).delete(id).map_err(ArchiveError::Spool)?;
    let archived = match read(directory)? {
        Some(mut archive) => archive.delete(id)?,
        None => false,
    };
    Ok(recorded || spooled || archived)
}

#[cfg(test)]
mod tests;
