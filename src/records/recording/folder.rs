//! Where recordings are: one file per call, named by its id.

use crate::facts::CallId;
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

const EXTENSION: &str = "wav";

/// The name of a call's file.
pub fn file_name(id: CallId) -> String {
    format!("{id}.{EXTENSION}")
}

/// Where the recording of a call is, if there is one; `directory` is that of the records.
pub fn recording_file(directory: &Path, id: CallId) -> PathBuf {
    folder(directory).join(file_name(id))
}

/// Opens the recording of a call, which may still be growing; `None` where there is none.
///
/// # Errors
/// When it is there and cannot be opened.
pub fn open_recording(directory: &Path, id: CallId) -> io::Result<Option<File>> {
    found(File::open(recording_file(directory, id)))
}

pub(super) fn folder(directory: &Path) -> PathBuf {
    directory.join("recordings")
}

/// A new file, for nobody else to read.
pub(super) fn create(directory: &Path, id: CallId) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder(directory))?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(recording_file(directory, id))
}

/// `false`: there was none. What the disk itself still holds of it, no program can overwrite for certain.
pub(in crate::records) fn delete(directory: &Path, id: CallId) -> io::Result<bool> {
    Ok(found(fs::remove_file(recording_file(directory, id)))?.is_some())
}

/// Deletes recordings that were begun before, whether they have a record or not; returns how many.
pub(in crate::records) fn expire(directory: &Path, before: SystemTime) -> io::Result<usize> {
    let Some(entries) = found(fs::read_dir(folder(directory)))? else { return Ok(0) };
    let mut expired = 0;
    for entry in entries {
        let path = entry?.path();
        let is_ours = path.extension().is_some_and(|extension| extension == EXTENSION)
            && path.file_stem().is_some_and(|stem| stem.to_string_lossy().parse::<uuid::Uuid>().is_ok());
        // Somebody may delete it meanwhile.
        let Some(facts) = found(path.metadata()).ok().flatten().filter(|_| is_ours) else { continue };
        // What came back from a backup is as old as it was, and not every file system knows when a file was made.
        let written = facts.modified()?;
        let begun = facts.created().map_or(written, |created| created.min(written));
        if begun < before && found(fs::remove_file(&path))?.is_some() {
            expired += 1;
        }
    }
    Ok(expired)
}

pub(super) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}
