//! Records on their way to the archive: a file each, written whole and under its name only then.
//!
//! The name begins with the time at which the call began, so that names sort as calls began, and ends with the call's id.
//! A call that has not ended has a file as well, with what is known of it: if the engine is killed, that is its record. And
//! a call that was deleted while it stood, or while its record was on the way, has an empty one, so that nothing of it is kept.
//! What becomes known of a call after its record was written has a file of its own, which goes to the archive after the record.

use super::{Amendment, OpenError, Record, recording};
use crate::facts::CallId;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};
use tracing::{error, info, warn};

const WHOLE: &str = "json";
/// Of a call that stands.
const BEGUN: &str = "begun";
/// Extension of files about what became known of a call after its end.
const AMENDED: &str = "amended";
/// Of a call of which nothing is to be kept.
const DELETED: &str = "deleted";
const PARTIAL: &str = "part";
const UNREADABLE: &str = "unreadable";
/// Held while an engine keeps records here; it stays, for a file that is made anew is not the one that somebody else holds.
const LOCK: &str = ".lock";

pub(super) struct Spool {
    /// That of the records, around the spool's own.
    records: PathBuf,
    directory: PathBuf,
    /// `None`: only looked at, beside the engine.
    _lock: Option<Lock>,
}

/// The spool is this engine's alone while this lives.
///
/// It is given back by name, not only closed: a program that is being started has a copy of every open file until it runs,
/// and with that copy would still hold the lock of an engine that has ended.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            warn!(%error, "the spool of records cannot be given back; another engine can have it when this program has ended");
        }
    }
}

/// The oldest records of the spool.
pub(super) struct Batch {
    pub records: Vec<Record>,
    /// Of the same records.
    files: Vec<PathBuf>,
    /// Files that hold no record; they were put aside.
    pub unreadable: usize,
}

impl Spool {
    /// Makes the folder where it is missing, for nobody else to look into, takes it for this engine alone, and settles what
    /// an earlier one left.
    ///
    /// # Errors
    /// When the folder cannot be written, or another engine keeps its records there.
    pub fn open(records: &Path) -> Result<Self, OpenError> {
        let spool = Self::existing(records);
        let failed = |error| OpenError::Spool { directory: spool.directory.display().to_string(), error };
        DirBuilder::new().recursive(true).mode(0o700).create(&spool.directory).map_err(failed)?;
        let file = spool.directory.join(LOCK);
        let lock =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&file).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let (directory, file) = (records.display().to_string(), file.display().to_string());
                return Err(OpenError::Taken { directory, file });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        spool.settle().map_err(failed)?;
        Ok(Self { _lock: Some(Lock(lock)), ..spool })
    }

    /// A spool that is there, or is empty, beside the engine that keeps its records in it.
    pub fn existing(records: &Path) -> Self {
        Self { records: records.to_owned(), directory: records.join("spool"), _lock: None }
    }

    /// Whether an engine has ever kept records here.
    pub fn is_there(&self) -> bool {
        self.directory.is_dir()
    }

    /// What an engine that was killed left: half a record, which nobody can complete, what was to be deleted, and calls that
    /// stood. What cannot be settled now, as on a full disk, is settled by the next start: calls are taken all the same.
    fn settle(&self) -> io::Result<()> {
        let later = |what: &str, done: io::Result<()>| {
            if let Err(error) = done {
                warn!(%error, what, "what an earlier run left in the spool of records cannot be settled; the next start tries again");
            }
        };
        for file in self.files(PARTIAL)? {
            later("half a record", fs::remove_file(file));
        }
        for id in self.deletions()? {
            later("a deletion", self.delete(id).and_then(|_| recording::delete(&self.records, id).map(drop)));
        }
        for file in self.files(BEGUN)? {
            later("a call that stood", self.settle_one(&file));
        }
        Ok(())
    }

    fn settle_one(&self, file: &Path) -> io::Result<()> {
        let whole = file.with_extension(WHOLE);
        if whole.exists() {
            return fs::remove_file(file);
        }
        match serde_json::from_slice::<Record>(&fs::read(file)?) {
            Ok(record) => self.put(&self.with_what_was_recorded(record)).map(drop),
            // Whoever reads the batch puts it aside and counts it.
            Err(_) => fs::rename(file, whole),
        }
    }

    fn with_what_was_recorded(&self, mut record: Record) -> Record {
        match recording::complete(&self.records, &record) {
            Ok(Some(recorded)) => {
                // It lasted that long at least.
                record.seconds = record.seconds.max(recorded.began_ms as f64 / 1_000.0 + recorded.seconds);
                record.recording = Some(recorded);
            }
            Ok(None) => {}
            Err(error) => {
                warn!(%error, call_id = %record.id, "the recording of a call that a killed engine left cannot be completed")
            }
        }
        record
    }

    /// The record is on the disk when this returns. `false`: the call was deleted while it stood, and nothing of it is kept.
    pub fn put(&self, record: &Record) -> io::Result<bool> {
        if !self.is_deleted(record.id) {
            self.write(record)?.sync_all()?;
            fs::rename(self.file(record, PARTIAL), self.file(record, WHOLE))?;
            File::open(&self.directory)?.sync_all()?;
            // Whoever deletes it from here on finds the record.
            if !self.is_deleted(record.id) {
                gone(fs::remove_file(self.file(record, BEGUN)))?;
                return Ok(true);
            }
        }
        recording::delete(&self.records, record.id)?;
        self.delete(record.id)?;
        self.forget_deletion(record.id)?;
        info!(call_id = %record.id, "this call was deleted while it stood: nothing of it is kept");
        Ok(false)
    }

    /// What is known of a call that stands. The kernel has it when this returns, which outlives an engine that is killed.
    pub fn begin(&self, record: &Record) -> io::Result<()> {
        if self.is_deleted(record.id) {
            return Ok(());
        }
        self.write(record)?;
        fs::rename(self.file(record, PARTIAL), self.file(record, BEGUN))
    }

    fn write(&self, record: &Record) -> io::Result<File> {
        let partial = self.file(record, PARTIAL);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(partial)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        Ok(file)
    }

    fn file(&self, record: &Record, extension: &str) -> PathBuf {
        self.directory.join(format!("{:015}-{}.{extension}", record.began.as_millisecond().max(0), record.id))
    }

    /// Writes a fact about a call whose record was written before. The kernel has it when this returns.
    pub fn amend(&self, amendment: &Amendment) -> io::Result<()> {
        if self.is_deleted(amendment.id) {
            return Ok(());
        }
        let file = self.directory.join(format!("{}.{AMENDED}", amendment.id));
        let partial = file.with_extension(PARTIAL);
        let mut written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        written.write_all(&serde_json::to_vec(amendment)?)?;
        fs::rename(partial, file)
    }

    /// All that became known of calls later, each with its file.
    pub fn amendments(&self) -> io::Result<Vec<(PathBuf, Option<Amendment>)>> {
        let read = |file: PathBuf| match fs::read(&file) {
            // Its call was deleted on request.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            text => Some(text.map(|text| (file, serde_json::from_slice(&text).ok()))),
        };
        self.files(AMENDED)?.into_iter().filter_map(read).collect()
    }

    pub fn count(&self) -> io::Result<usize> {
        Ok(self.files(WHOLE)?.len())
    }

    pub fn batch(&self, max: usize) -> io::Result<Batch> {
        let mut files = self.files(WHOLE)?;
        files.sort();
        files.truncate(max);
        let mut batch = Batch { records: Vec::new(), files: Vec::new(), unreadable: 0 };
        for file in files {
            let text = match fs::read(&file) {
                // It was deleted on request.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text?,
            };
            if let Ok(record) = serde_json::from_slice(&text) {
                batch.records.push(record);
                batch.files.push(file);
            } else {
                error!(file = %file.display(), "this file of the spool holds no record; it is put aside, with the extension {UNREADABLE}");
                fs::rename(&file, file.with_extension(UNREADABLE))?;
                batch.unreadable += 1;
            }
        }
        Ok(batch)
    }

    /// The archive has them. Returns those that somebody deleted meanwhile.
    pub fn forget(&self, batch: &Batch) -> io::Result<Vec<CallId>> {
        let mut deleted = Vec::new();
        for (file, record) in batch.files.iter().zip(&batch.records) {
            match fs::remove_file(file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => deleted.push(record.id),
                removed => removed?,
            }
        }
        Ok(deleted)
    }

    /// Whether a call stands, or its record is on the way.
    pub fn holds(&self, id: CallId) -> io::Result<Held> {
        if !self.files_of(id, BEGUN)?.is_empty() {
            return Ok(Held::Stands);
        }
        Ok(if self.files_of(id, WHOLE)?.is_empty() { Held::Nothing } else { Held::Record })
    }

    /// Deletes what is kept of a call; `false` where nothing is.
    pub fn delete(&self, id: CallId) -> io::Result<bool> {
        let mut found = false;
        for extension in [WHOLE, BEGUN, AMENDED, UNREADABLE] {
            for file in self.files_of(id, extension)? {
                found |= gone(fs::remove_file(file))?;
            }
        }
        Ok(found)
    }

    /// From now on nothing of this call is kept, whatever still comes, also by another engine after this one.
    pub fn remember_deletion(&self, id: CallId) -> io::Result<()> {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.deletion(id)).map(drop)
    }

    /// Nothing more can come.
    pub fn forget_deletion(&self, id: CallId) -> io::Result<()> {
        gone(fs::remove_file(self.deletion(id))).map(drop)
    }

    /// Calls of which nothing is to be kept, and still could come.
    pub fn deletions(&self) -> io::Result<Vec<CallId>> {
        let id = |file: PathBuf| file.file_stem()?.to_string_lossy().parse().ok().map(CallId);
        Ok(self.files(DELETED)?.into_iter().filter_map(id).collect())
    }

    /// Forgets what was to be deleted before: a record that came now would be too old to be kept.
    pub fn expire_deletions(&self, before: SystemTime) -> io::Result<()> {
        for file in self.files(DELETED)? {
            if file.metadata().and_then(|facts| facts.modified()).is_ok_and(|made| made < before) {
                gone(fs::remove_file(file))?;
            }
        }
        Ok(())
    }

    fn is_deleted(&self, id: CallId) -> bool {
        self.deletion(id).exists()
    }

    fn deletion(&self, id: CallId) -> PathBuf {
        self.directory.join(format!("{id}.{DELETED}"))
    }

    fn files_of(&self, id: CallId, extension: &str) -> io::Result<Vec<PathBuf>> {
        let id = id.to_string();
        let mut files = self.files(extension)?;
        files.retain(|file| file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(&id)));
        Ok(files)
    }

    fn files(&self, extension: &str) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|own| own == extension)).collect())
    }
}

/// What the spool knows of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Nothing,
    /// It has ended, and the archive has not taken its record yet.
    Record,
    Stands,
}

/// Whether this call was deleted while it stood; `records` is the folder around the spool.
pub(super) fn is_deleted(records: &Path, id: CallId) -> bool {
    Spool::existing(records).is_deleted(id)
}

/// `false`: somebody else has removed it.
pub(super) fn gone(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_being_started_does_not_hold_the_folder_of_an_engine_that_has_ended() {
        let folder = tempfile::TempDir::new().unwrap();
        let spool = Spool::open(folder.path()).unwrap();
        let its_copy = spool._lock.as_ref().unwrap().0.try_clone().unwrap();
        drop(spool);
        assert!(Spool::open(folder.path()).is_ok());
        drop(its_copy);
    }
}
