//! Records on their way to the archive: a file each, written whole and under its name only then.
//!
//! The name begins with the time at which the call began, so that names sort as calls began, and ends with the call's id.
//! A call that has not ended has a file as well, with what is known of it: if the engine is killed, that is its record.

use super::Record;
use crate::facts::CallId;
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};
use tracing::error;

const WHOLE: &str = "json";
/// Of a call that stands.
const BEGUN: &str = "begun";
const PARTIAL: &str = "part";
const UNREADABLE: &str = "unreadable";

pub(super) struct Spool {
    directory: PathBuf,
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
    /// Makes the folder where it is missing, for nobody else to look into.
    pub fn open(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let spool = Self { directory: directory.to_owned() };
        // An engine that was killed while it wrote leaves half a record, which nobody can complete.
        for file in spool.files(PARTIAL)? {
            fs::remove_file(file)?;
        }
        for file in spool.files(BEGUN)? {
            let whole = file.with_extension(WHOLE);
            if whole.exists() { fs::remove_file(file)? } else { fs::rename(file, whole)? }
        }
        Ok(spool)
    }

    /// A spool that is there, or is empty.
    pub fn existing(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// The record is on the disk when this returns.
    pub fn put(&self, record: &Record) -> io::Result<()> {
        self.write(record)?.sync_all()?;
        fs::rename(self.file(record, PARTIAL), self.file(record, WHOLE))?;
        File::open(&self.directory)?.sync_all()?;
        match fs::remove_file(self.file(record, BEGUN)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// What is known of a call that stands. The kernel has it when this returns, which outlives an engine that is killed.
    pub fn begin(&self, record: &Record) -> io::Result<()> {
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

    /// Deletes what is kept of a call; `false` where nothing is.
    pub fn delete(&self, id: CallId) -> io::Result<bool> {
        let id = id.to_string();
        let mut found = false;
        for extension in [WHOLE, BEGUN, UNREADABLE] {
            let named = |file: &&PathBuf| file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(&id));
            for file in self.files(extension)?.iter().filter(named) {
                fs::remove_file(file)?;
                found = true;
            }
        }
        Ok(found)
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
