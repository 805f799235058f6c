//! Deletion on request, of calls that have ended and of calls that stand.

use super::{
    Access, ArchiveError, SqliteFile, recording,
    spool::{Held, Spool},
};
use crate::facts::CallId;
use std::path::Path;

/// What was deleted of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// Something of it was kept.
    pub found: bool,
    /// It stands: when it ends, nothing more of it is kept.
    pub stands: bool,
    /// Somebody is reading the archive, so that its journal still holds what was deleted; a running engine clears it.
    pub lingers: bool,
}

/// Deletes what is kept of a call, wherever it is, its recording first. Can be called beside a running engine.
///
/// # Errors
/// When the archive cannot be read or written or is of another version, or the deletion of a call that stands cannot be remembered.
pub fn delete(directory: &Path, id: CallId) -> Result<Deleted, ArchiveError> {
    delete_by(&SqliteFile::below(directory), directory, id)
}

pub(super) fn delete_by(access: &dyn Access, directory: &Path, id: CallId) -> Result<Deleted, ArchiveError> {
    let archive = match access.existing() {
        // What is not deleted whole is not deleted in part.
        Err(other @ (ArchiveError::Older { .. } | ArchiveError::Newer { .. })) => return Err(other),
        archive => archive,
    };
    let spool = Spool::existing(directory);
    let held = spool.holds(id).map_err(ArchiveError::Spool)?;
    // A recording whose record is nowhere is that of a call whose beginning was not written down.
    let recording = recording::recording_file(directory, id).exists();
    let more_can_come = held != Held::Nothing || (recording && spool.is_there());
    let remembered = if more_can_come { spool.remember_deletion(id) } else { Ok(()) };
    let recorded = recording::delete(directory, id).map_err(ArchiveError::Recording)?;
    let spooled = spool.delete(id).map_err(ArchiveError::Spool)?;
    let (mut archived, mut lingers) = (false, false);
    if let Some(mut archive) = archive? {
        archived = archive.delete(id)?;
        lingers = archived && !archive.tidy().unwrap_or(false);
    }
    if archived && held == Held::Nothing {
        spool.forget_deletion(id).map_err(ArchiveError::Spool)?;
    } else {
        remembered.map_err(ArchiveError::Spool)?;
    }
    Ok(Deleted { found: recorded || spooled || archived, stands: held == Held::Stands, lingers })
}
