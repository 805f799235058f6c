//! Records as the page reads them: beside the writer, a few questions at a time, each within a limit.

use super::{
    Access, Archive, ArchiveError, Deleted, Hour, Record, Row, Search, Sound, SqliteFile, Waveform,
    deletion::delete_by, open_recording, recording_file,
};
use crate::facts::CallId;
use jiff::Timestamp;
use std::{
    fs::File,
    io,
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
/// Recordings that are looked through at the same time, beside the questions: a long one takes most of a second of a core and
/// of the disk, which calls need too.
const LOOKS_AT_ONCE: usize = 1;
/// How long a question waits for its turn.
const TURN_MAX: Duration = Duration::from_secs(5);
/// With 100,000 records the longest answer takes a fiftieth of it.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Columns of a waveform: about as many as a picture of a call has points across.
const WAVEFORM_COLUMNS: usize = 1_000;
/// Longer recordings are played, not drawn: an hour at 16 kHz is 230 MB to look through.
const WAVEFORM_SECONDS_MAX: f64 = 4.0 * 3_600.0;

/// Why a question had no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("too many questions about past calls are asked at once")]
    Busy,
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Why a recording cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum NoWaveform {
    #[error("no recording of this call is kept")]
    Missing,
    #[error("the recording is longer than four hours: it is played, not drawn")]
    TooLong,
    #[error("the file is no recording of a call")]
    Foreign,
    #[error(transparent)]
    Unread(#[from] ReadError),
}

impl From<io::Error> for NoWaveform {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Self::Foreign,
            _ => Self::Unread(ArchiveError::Recording(error).into()),
        }
    }
}

#[derive(Clone)]
pub struct Reader {
    inner: Arc<Inner>,
}

struct Inner {
    directory: PathBuf,
    access: Box<dyn Access>,
    turns: Arc<Semaphore>,
    looks: Arc<Semaphore>,
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
        let (turns, looks) = (Semaphore::new(AT_ONCE), Semaphore::new(LOOKS_AT_ONCE));
        let (directory, idle) = (directory.to_owned(), Mutex::default());
        Self { inner: Arc::new(Inner { directory, access, turns: turns.into(), looks: looks.into(), idle }) }
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

    /// Whether the recording of a call can be drawn, and how long it is; only the beginning of the file is read.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn sound(&self, id: CallId) -> Result<Sound, NoWaveform> {
        let inner = Arc::clone(&self.inner);
        self.in_turn(&self.inner.turns, move || Ok(drawable(&inner.directory, id)?.1)).await
    }

    /// How loud both sides of a call were.
    ///
    /// # Errors
    /// When its recording cannot be drawn.
    pub async fn waveform(&self, id: CallId) -> Result<Waveform, NoWaveform> {
        let inner = Arc::clone(&self.inner);
        let look = move || Ok(Waveform::read(&mut drawable(&inner.directory, id)?.0, WAVEFORM_COLUMNS)?);
        self.in_turn(&self.inner.looks, look).await
    }

    /// Deletes what is kept of a call, wherever it is.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub async fn delete(&self, id: CallId) -> Result<Deleted, ReadError> {
        let inner = Arc::clone(&self.inner);
        self.in_turn(&self.inner.turns, move || Ok(delete_by(&*inner.access, &inner.directory, id)?)).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Archive) -> Result<T, ArchiveError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let inner = Arc::clone(&self.inner);
        self.in_turn(&self.inner.turns, move || {
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
    async fn in_turn<T: Send + 'static, E: From<ReadError> + Send + 'static>(
        &self,
        turns: &Arc<Semaphore>,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let Ok(Ok(turn)) = timeout(TURN_MAX, Arc::clone(turns).acquire_owned()).await else {
            return Err(ReadError::Busy.into());
        };
        let done = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.unwrap_or_else(|error| Err(ReadError::from(ArchiveError::Failed(error.to_string())).into()))
    }
}

fn drawable(directory: &Path, id: CallId) -> Result<(File, Sound), NoWaveform> {
    let mut file = open_recording(directory, id)?.ok_or(NoWaveform::Missing)?;
    let sound = Sound::of(&mut file)?;
    if sound.seconds() > WAVEFORM_SECONDS_MAX { Err(NoWaveform::TooLong) } else { Ok((file, sound)) }
}

impl Inner {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn Archive>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
