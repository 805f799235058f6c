//! Where records stay: what any database has to be able to do.

use super::Record;
use crate::facts::CallId;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::io;

/// Records of ended calls, for as long as they are kept. The methods wait for the database.
pub trait Archive: Send {
    /// All of them or none. One that is there already stays as it is.
    ///
    /// # Errors
    /// When the database is locked, full, or gone.
    fn put(&mut self, records: &[Record]) -> Result<(), ArchiveError>;

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

    /// `false`: there was none. Nothing of it stays in the file.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn delete(&mut self, id: CallId) -> Result<bool, ArchiveError>;

    /// Deletes so many of the calls that began before; returns how many.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn expire(&mut self, before: Timestamp, max: usize) -> Result<usize, ArchiveError>;
}

/// Which calls; what is `None` excludes nothing.
#[derive(Clone, Default)]
pub struct Search {
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub context: Option<String>,
    pub provider: Option<String>,
    /// A reason's label, or a class of reasons.
    pub reason: Option<String>,
    /// The caller's number or the one that was dialled, or the end of it.
    pub number: Option<String>,
    /// Words that were all said in the call, by whomever.
    pub words: Option<String>,
    /// Goes on behind this row.
    pub after: Option<i64>,
    pub limit: usize,
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

/// Why the archive did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("the archive of calls {file} cannot be opened: {error}")]
    Open { file: String, error: rusqlite::Error },
    #[error(
        "the archive of calls {file} has schema {found}, and this version of offhook knows {known} at most: it was written by a later version"
    )]
    Newer { file: String, found: i64, known: i64 },
    #[error("the archive of calls did not answer as it should: {0}")]
    Database(#[from] rusqlite::Error),
    #[error("the archive of calls holds no record that this version can read under this id: {0}")]
    Unreadable(serde_json::Error),
    #[error("the spool of records cannot be read or written: {0}")]
    Spool(io::Error),
    #[error("a recording cannot be read or deleted: {0}")]
    Recording(io::Error),
    #[error("the archive of calls failed: {0}")]
    Failed(String),
}
