//! Where records stay: what any database has to be able to do.

use super::{Amendment, Record, Search};
use crate::facts::CallId;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::io;
use tokio::time::Instant;

/// Records of ended calls, for as long as they are kept. The methods wait for the database.
pub trait Archive: Send {
    /// All of them or none. One that is there already stays as it is, but one that says no more than that the engine was killed
    /// ([`Ending::killed`](super::Ending::killed)): the call's own record takes its place.
    ///
    /// # Errors
    /// When the database is locked, full, or gone.
    fn put(&mut self, records: &[Record]) -> Result<(), ArchiveError>;

    /// Enters what became known of a call later; nothing where its record is gone.
    ///
    /// # Errors
    /// When the database cannot be read or written.
    fn amend(&mut self, amendment: &Amendment) -> Result<(), ArchiveError>;

    /// Those that match, the newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn find(&self, search: &Search) -> Result<Vec<Row>, ArchiveError>;

    /// How many calls began in each hour of this time, and what they cost; its first and last hour count whole.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn hours(&self, since: Timestamp, until: Timestamp) -> Result<Vec<Hour>, ArchiveError>;

    /// # Errors
    /// When the database cannot be read, or holds something else under this id.
    fn get(&self, id: CallId) -> Result<Option<Record>, ArchiveError>;

    /// `false`: there was none. What was deleted can stay in the files until [`tidy`](Self::tidy).
    ///
    /// # Errors
    /// When the database cannot be written.
    fn delete(&mut self, id: CallId) -> Result<bool, ArchiveError>;

    /// Deletes so many of the calls that began before; returns how many.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn expire(&mut self, before: Timestamp, max: usize) -> Result<usize, ArchiveError>;

    /// Gives back the room of what was deleted, so that nothing of it stays in the files; `false`: somebody is reading, and it
    /// is to be tried again later.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn tidy(&mut self) -> Result<bool, ArchiveError>;

    /// What is asked from now on fails when it is not answered by then.
    ///
    /// # Errors
    /// When the database takes no such limit.
    fn answer_before(&mut self, deadline: Instant) -> Result<(), ArchiveError>;
}

/// How an archive is reached: what another database brings along beside [`Archive`].
pub trait Access: Send + Sync {
    /// For the engine, who writes: made where it is missing, and brought up to date.
    ///
    /// # Errors
    /// When it cannot be opened, or is of a later version.
    fn open(&self) -> Result<Box<dyn Archive>, ArchiveError>;

    /// For whoever writes beside the engine; `None` where no record was ever kept. It is not brought up to date.
    ///
    /// # Errors
    /// When there is one and it cannot be opened, or is of another version.
    fn existing(&self) -> Result<Option<Box<dyn Archive>>, ArchiveError>;

    /// For reading beside whoever writes, who does not wait for it. It is not brought up to date.
    ///
    /// # Errors
    /// When it cannot be opened, or is of another version.
    fn read_only(&self) -> Result<Box<dyn Archive>, ArchiveError>;
}

/// One call in a list.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// For [`Search::after`].
    #[serde(skip)]
    pub row: i64,
    pub id: CallId,
    pub began: Timestamp,
    pub seconds: f64,
    pub direction: String,
    pub context: String,
    pub provider: String,
    pub reason: String,
    pub class: String,
    pub caller_number: Option<String>,
    pub dialled_number: Option<String>,
    pub turns: u32,
    pub tool_calls: u32,
    /// In `currency`; `None` where nothing was priced, or in several currencies.
    pub cost: Option<f64>,
    pub currency: Option<String>,
}

impl Row {
    /// As it may stand in a table: a spreadsheet takes texts that begin in certain ways for formulas, and callers choose what
    /// their number is. Such a text is quoted (OWASP, "CSV Injection"); a number with its plus sign stays as it is.
    #[must_use]
    pub fn for_spreadsheets(mut self) -> Self {
        let numbers = [&mut self.caller_number, &mut self.dialled_number].into_iter().flatten();
        let names = [&mut self.direction, &mut self.context, &mut self.provider, &mut self.reason, &mut self.class];
        for text in numbers.chain(names).chain(&mut self.currency) {
            let number = text.strip_prefix('+').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            if !number && text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
                text.insert(0, '\'');
            }
        }
        self
    }
}

/// The calls of one class of reasons that began within one hour.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Hour {
    pub began: Timestamp,
    pub class: String,
    pub calls: u64,
    pub seconds: f64,
    /// In `currency`; calls without a price, or in several currencies, are an entry of their own.
    pub cost: Option<f64>,
    pub currency: Option<String>,
}

/// What a database said, whichever it is.
pub type DatabaseError = Box<dyn std::error::Error + Send + Sync>;

/// Why the archive did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("the archive of calls {file} cannot be opened: {error}")]
    Open { file: String, error: DatabaseError },
    #[error(
        "the archive of calls {file} cannot be opened: this user may not read it; ask as the user that the engine runs as"
    )]
    Forbidden { file: String },
    #[error(
        "the archive of calls {file} has schema {found}, and this version of offhook knows {known} at most: it was written by a \
         later version; use that one"
    )]
    Newer { file: String, found: i64, known: i64 },
    #[error(
        "the archive of calls {file} has schema {found}, and this version of offhook reads {known}: it was written by an earlier \
         version, which may be running; ask with that one, or start an engine of this version, which brings it up to date"
    )]
    Older { file: String, found: i64, known: i64 },
    #[error("the archive of calls did not answer as it should: {0}")]
    Database(DatabaseError),
    #[error("the archive of calls holds no record that this version can read under this id: {0}")]
    Unreadable(serde_json::Error),
    #[error("the spool of records cannot be read or written: {0}")]
    Spool(io::Error),
    #[error("a recording cannot be read or deleted: {0}")]
    Recording(io::Error),
    #[error("the archive of calls failed: {0}")]
    Failed(String),
}
