//! The two steps of a record: from memory to the spool, from the spool to the archive; and what is deleted there in time.

use super::{
    Amendment, Archive, ArchiveError, Line, Queue, Record, RecordCounters, Search,
    clock::ClockGuard,
    recording,
    spool::{Spool, gone},
};
use crate::{config::RecordsConfig, facts::CallId, wall_clock};
use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::SeqCst},
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{Notify, mpsc},
    task::spawn_blocking,
    time::{Instant, interval, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// So many go into the archive in one transaction.
const BATCH: usize = 100;
/// After a failure, and twice as long after each further one.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// The archive is asked to forget what is old so often.
const EXPIRE_EVERY: Duration = Duration::from_secs(600);
/// At once, so that nobody waits long for the database, which takes a second for them; the next ones follow.
const EXPIRE_BATCH: usize = 100;
/// What others have deleted leaves the journal that often; after a failure, as often as anything is tried again.
pub(super) const TIDY_EVERY: Duration = Duration::from_secs(60);

/// One record after the other, each as often as it takes.
pub(super) struct ToSpool {
    pub lines: mpsc::Receiver<Line>,
    pub queue: Arc<Queue>,
    pub spool: Arc<Spool>,
    pub written: Arc<Notify>,
    /// Nothing more will come.
    pub stop: CancellationToken,
    /// Everything is in the spool.
    pub done: CancellationToken,
    pub counters: RecordCounters,
}

impl ToSpool {
    pub async fn run(mut self) {
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
                    self.queue.begun.fetch_sub(1, SeqCst);
                    continue;
                }
                Some(Line::Amended(amendment)) => {
                    self.amend(amendment).await;
                    continue;
                }
                Some(Line::Ended(record)) => record,
            };
            let mut retry = Retry::default();
            loop {
                match self.put(&record).await {
                    Ok(()) => break,
                    Err(error) => warn!(%error, "the spool of records cannot be written; it is tried again"),
                }
                self.counters.again("spool");
                sleep(retry.next()).await;
            }
            self.queue.ended.fetch_sub(1, SeqCst);
            self.written.notify_one();
        }
    }

    /// Once: its end is what counts.
    async fn begin(&self, record: Box<Record>) {
        let spool = Arc::clone(&self.spool);
        if let Err(error) = blocking(move || spool.begin(&record).map_err(ArchiveError::Spool)).await {
            warn!(%error, "the spool of records cannot be written; if the engine is killed, a call will have no record");
            self.counters.lost_beginnings("disk", 1);
        }
    }

    /// Once: the call has its record.
    async fn amend(&self, amendment: Amendment) {
        let (spool, id) = (Arc::clone(&self.spool), amendment.id);
        if let Err(error) = blocking(move || spool.amend(&amendment).map_err(ArchiveError::Spool)).await {
            warn!(%error, call_id = %id, "the spool of records cannot be written; the record of a call does not say that its transfer failed");
        }
        self.written.notify_one();
    }

    async fn put(&self, record: &Arc<Record>) -> Result<(), ArchiveError> {
        let (spool, record, counters) = (Arc::clone(&self.spool), Arc::clone(record), self.counters.clone());
        let put = blocking(move || {
            let _counting = counters.counting();
            let kept = spool.put(&record).map_err(ArchiveError::Spool)?;
            counters.wait(|waiting| {
                waiting.in_memory -= 1;
                waiting.in_spool += i64::from(kept);
            });
            Ok(())
        });
        put.await
    }
}

/// On a thread that may wait for a disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, ArchiveError> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(ArchiveError::Failed(error.to_string())))
}

/// What is in the spool, a batch after the other.
pub(super) struct ToArchive {
    pub spool: Arc<Spool>,
    pub archive: Arc<Mutex<Box<dyn Archive>>>,
    /// Of an earlier engine's calls, what it may not have seen deleted.
    pub deleted: Vec<CallId>,
    pub written: Arc<Notify>,
    /// Nothing more will be written.
    pub spooled: CancellationToken,
    pub clock: ClockGuard,
    pub config: RecordsConfig,
    pub counters: RecordCounters,
}

impl ToArchive {
    pub async fn run(mut self) {
        let (mut expiry, mut tidying) = (interval(EXPIRE_EVERY), interval(TIDY_EVERY));
        let (mut retry, mut again) = (Retry::default(), Retry::default());
        loop {
            let last = self.spooled.is_cancelled();
            let wait = match self.empty_the_spool().await {
                Ok(()) => {
                    retry = Retry::default();
                    None
                }
                Err(error) => {
                    self.counters.again("archive");
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
                    _ = expiry.tick() => {
                        self.expire().await;
                        tidying.reset_immediately();
                    }
                    _ = tidying.tick() => match self.tidy().await {
                        true => again = Retry::default(),
                        false => tidying.reset_after(again.next()),
                    },
                },
            }
        }
    }

    async fn empty_the_spool(&mut self) -> Result<(), ArchiveError> {
        self.delete_again().await?;
        // What is there by now is about records that are in the spool or in the archive.
        let spool = Arc::clone(&self.spool);
        let amendments = blocking(move || spool.amendments().map_err(ArchiveError::Spool)).await?;
        self.empty_of_records().await?;
        self.amend(amendments).await
    }

    async fn amend(&self, amendments: Vec<(PathBuf, Option<Amendment>)>) -> Result<(), ArchiveError> {
        if amendments.is_empty() {
            return Ok(());
        }
        let archive = Arc::clone(&self.archive);
        blocking(move || {
            let mut archive = archive.lock().unwrap_or_else(PoisonError::into_inner);
            for (file, amendment) in amendments {
                match amendment {
                    Some(amendment) => match archive.amend(&amendment) {
                        Err(error @ ArchiveError::Unreadable(_)) => {
                            warn!(%error, call_id = %amendment.id, "the record of a call does not say that its transfer failed");
                        }
                        amended => amended?,
                    },
                    None => warn!(file = %file.display(), "this file of the spool cannot be read; it is removed"),
                }
                gone(fs::remove_file(file)).map_err(ArchiveError::Spool)?;
            }
            Ok(())
        })
        .await
    }

    async fn empty_of_records(&mut self) -> Result<(), ArchiveError> {
        loop {
            let (spool, archive, counters) =
                (Arc::clone(&self.spool), Arc::clone(&self.archive), self.counters.clone());
            let moved = blocking(move || {
                let batch = spool.batch(BATCH).map_err(ArchiveError::Spool)?;
                let mut archive = archive.lock().unwrap_or_else(PoisonError::into_inner);
                archive.put(&batch.records)?;
                for deleted in spool.forget(&batch).map_err(ArchiveError::Spool)? {
                    archive.delete(deleted)?;
                    spool.forget_deletion(deleted).map_err(ArchiveError::Spool)?;
                }
                let _counting = counters.counting();
                let in_spool = spool.count().map_err(ArchiveError::Spool)? as i64;
                counters.wait(|waiting| waiting.in_spool = in_spool);
                Ok((batch.records.len(), batch.unreadable))
            });
            let (kept, unreadable) = moved.await?;
            self.counters.kept.inc_by(kept as u64);
            self.counters.lost("unreadable", unreadable);
            if kept + unreadable == 0 {
                return Ok(());
            }
        }
    }

    /// What was deleted while an engine that was killed moved it.
    async fn delete_again(&mut self) -> Result<(), ArchiveError> {
        if self.deleted.is_empty() {
            return Ok(());
        }
        let (spool, archive, deleted) = (Arc::clone(&self.spool), Arc::clone(&self.archive), self.deleted.clone());
        blocking(move || {
            let mut archive = archive.lock().unwrap_or_else(PoisonError::into_inner);
            for id in deleted {
                archive.delete(id)?;
                spool.forget_deletion(id).map_err(ArchiveError::Spool)?;
            }
            Ok(())
        })
        .await?;
        self.deleted.clear();
        Ok(())
    }

    /// `false`: it is to be tried again.
    async fn tidy(&self) -> bool {
        let archive = Arc::clone(&self.archive);
        let tidied = blocking(move || archive.lock().unwrap_or_else(PoisonError::into_inner).tidy()).await;
        match tidied {
            Ok(true) => return true,
            Ok(false) => info!("somebody reads the archive of records: what was deleted leaves its journal later"),
            Err(error) => warn!(%error, "what was deleted may still be in the archive's journal; it is tried again"),
        }
        self.counters.again("journal");
        false
    }

    /// Deletes what is older than it is kept, where the clock can be believed.
    async fn expire(&mut self) {
        if !self.believes_the_clock().await {
            return;
        }
        self.expire_recordings().await;
        loop {
            let Ok(before) = wall_clock::now().checked_sub(self.config.keep) else { return };
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
    /// Whether anything may be deleted for its age.
    async fn believes_the_clock(&mut self) -> bool {
        let written = match self.clock.read() {
            Ok(None) => self.newest().await,
            Ok(written) => Ok(written),
            Err(error) => Err(ArchiveError::Spool(error)),
        };
        let believed = match written {
            Ok(written) => self.clock.believes(wall_clock::system_time(), written, Instant::now()),
            Err(error) => {
                warn!(%error, "it is not known when the engine ran last: nothing is deleted for its age; it is tried again later");
                return false;
            }
        };
        self.counters.clock_doubted.set(i64::from(!believed));
        if let Err(error) = self.clock.write() {
            warn!(%error, "the time cannot be kept in records.directory; after a start, nothing may be deleted for its age");
        }
        believed
    }

    /// When the newest call began that the archive has.
    async fn newest(&self) -> Result<Option<SystemTime>, ArchiveError> {
        let archive = Arc::clone(&self.archive);
        let search = Search { limit: 1, ..Search::default() };
        let found = blocking(move || archive.lock().unwrap_or_else(PoisonError::into_inner).find(&search)).await?;
        Ok(found.first().map(|row| row.began.into()))
    }

    async fn expire_recordings(&self) {
        let Some(before) = wall_clock::system_time().checked_sub(self.config.keep_recordings) else { return };
        let (directory, spool) = (self.config.directory.clone(), Arc::clone(&self.spool));
        let of_deletions = wall_clock::system_time().checked_sub(self.config.keep);
        let expired = blocking(move || {
            of_deletions.map_or(Ok(()), |before| spool.expire_deletions(before)).map_err(ArchiveError::Spool)?;
            recording::expire(&directory, before).map_err(ArchiveError::Recording)
        });
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
