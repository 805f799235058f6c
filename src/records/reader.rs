//! Records as the page reads them: beside the writer, a few questions at a time, each within a limit.

use super::{
    Access, Archive, ArchiveError, Deleted, Hour, Record, Row, Search, SqliteFile, Waveform, deletion::delete_by,
    open_recording, recording_file,
};
use crate::facts::CallId;
use jiff::Timestamp;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    task::spawn_blocking,
    time::{Instant, timeout},
};

/// Questions at the same time: each keeps a core busy, which calls need too.
const AT_ONCE: usize = 2;
/// How long a question waits for its turn.
const TURN_MAX: Duration = Duration::from_secs(5);
/// With 100,000 records the longest answer takes a fiftieth of it.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Columns of a waveform: about as many as a picture of a call has points across.
const WAVEFORM_COLUMNS: usize = 800;
/// Longer recordings are played, not drawn: an hour takes about a third of a second to look through.
const WAVEFORM_SECONDS_MAX: f64 = 4.0 * 3_600.0;

/// Why a question had no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("too many questions about past calls are asked at once")]
    Busy,
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

#[derive(Clone)]
pub struct Reader {
    inner: Arc<Inner>,
}

struct Inner {
    directory: PathBuf,
    access: Box<dyn Access>,
    turns: Arc<Semaphore>,
    /// Connections that nobody uses.
    idle: Mutex<Vec<Box<dyn Archive>>>,
}

impl Reader {
    /// Of the records below this folder, which somebody else keeps.
    pub fn new(directory: &Path) -> Self {
        Self::by(directory, Box::new(SqliteFile::below(directory)))
    }

    /// Of an archive that is reached so; its recordings are below this folder.
    pub(super) fn by(directory: &Path, access: Box<dyn Access>) -> Self {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        Self { inner: Arc::new(Inner { directory: directory.to_owned(), access, turns, idle: Mutex::default() }) }
    }

    /// # Errors
    /// When the archive cannot be read, or not in time.
    pub async fn find(&self, search: Search) -> Result<Vec<Row>, ReadError> {
        self.ask(move |archive| archive.find(&search)).await
    }

    /// # Errors
    /// When the archive cannot be read, or not in time.
    pub async fn get(&self, id: CallId) -> Result<Option<Record>, ReadError> {
        self.ask(move |archive| archive.get(id)).await
    }

    /// Records of several calls, without those that are gone.
    ///
    /// # Errors
    /// When the archive cannot be read, or not in time.
    pub async fn all(&self, ids: Vec<CallId>) -> Result<Vec<Record>, ReadError> {
        self.ask(move |archive| ids.iter().filter_map(|id| archive.get(*id).transpose()).collect()).await
    }

    /// # Errors
    /// When the archive cannot be read, or not in time.
    pub async fn hours(&self, since: Timestamp, until: Timestamp) -> Result<Vec<Hour>, ReadError> {
        self.ask(move |archive| archive.hours(since, until)).await
    }

    /// Where the recording of a call would be.
    pub fn recording(&self, id: CallId) -> PathBuf {
        recording_file(&self.inner.directory, id)
    }

    /// How loud both sides of a call were; `None` without a recording, or with one that is too long to look through.
    ///
    /// # Errors
    /// When the recording cannot be read.
    pub async fn waveform(&self, record: &Record) -> Result<Option<Waveform>, ReadError> {
        let is_drawn = record.recording.as_ref().is_some_and(|recorded| recorded.seconds <= WAVEFORM_SECONDS_MAX);
        if !is_drawn {
            return Ok(None);
        }
        let (inner, id) = (Arc::clone(&self.inner), record.id);
        self.in_turn(move || {
            let Some(mut file) = open_recording(&inner.directory, id).map_err(ArchiveError::Recording)? else {
                return Ok(None);
            };
            Waveform::read(&mut file, WAVEFORM_COLUMNS).map(Some).map_err(ArchiveError::Recording)
        })
        .await
    }

    /// Deletes what is kept of a call, wherever it is.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub async fn delete(&self, id: CallId) -> Result<Deleted, ReadError> {
        let inner = Arc::clone(&self.inner);
        self.in_turn(move || delete_by(&*inner.access, &inner.directory, id)).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Archive) -> Result<T, ArchiveError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let inner = Arc::clone(&self.inner);
        self.in_turn(move || {
            let idle = inner.idle().pop();
            let mut archive = idle.map_or_else(|| inner.access.read_only(), Ok)?;
            archive.answer_before(Instant::now() + ANSWER_MAX)?;
            let answer = question(&*archive)?;
            // One that failed is not used again.
            inner.idle().push(archive);
            Ok(answer)
        })
        .await
    }

    /// On a thread that may wait. The turn is over when the work is, also where nobody waits for its answer any more.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let turns = Arc::clone(&self.inner.turns);
        let Ok(Ok(turn)) = timeout(TURN_MAX, turns.acquire_owned()).await else { return Err(ReadError::Busy) };
        let done = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        let done = done.await.unwrap_or_else(|error| Err(ArchiveError::Failed(error.to_string())));
        Ok(done?)
    }
}

impl Inner {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn Archive>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
