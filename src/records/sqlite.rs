//! The archive in one file of SQLite.
//!
//! What is searched stands in `calls`, lean enough to be read through; the whole record beside it in `records`; and what
//! was said in an index of words that holds no text. Rows are numbered as they come in, which is about as calls end, and a
//! list goes on behind a row's number.

use super::{
    Access, Amendment, Archive, ArchiveError, Hour, NOT_NORMAL, Record, Row, Search, record::KILLED,
    search::AS_IT_SHOULD,
};
use crate::facts::CallId;
use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params, types::Value};
use std::{
    cmp::Ordering,
    fs::OpenOptions,
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

/// How long somebody else may hold the file before that counts as a failure.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// How long the journal waits for those who read: whoever deletes waits as long, and it is tried again.
const READERS_MAX: Duration = Duration::from_secs(1);
/// Rows in one list.
const LIMIT_MAX: usize = 1_000;
/// Steps of the database's machine, a hundred thousand a millisecond or so, between two looks at the clock.
const STEPS_BETWEEN_LOOKS: i32 = 50_000;
/// Written out in the statements, since an index is found by its very words.
const HOUR_MS: i64 = 60 * 60 * 1_000;
/// Pages given back to the disk after a deletion, of 4 kB.
const VACUUM_PAGES: u32 = 10_000;

/// One step of the schema after the other. A file says how many it has; only ever add to the end.
const MIGRATIONS: [&str; 3] = ["
    CREATE TABLE calls (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        began INTEGER NOT NULL, -- milliseconds since 1970
        seconds REAL NOT NULL,
        direction TEXT NOT NULL,
        context TEXT NOT NULL,
        provider TEXT NOT NULL,
        reason TEXT NOT NULL,
        class TEXT NOT NULL,
        caller_number TEXT,
        dialled_number TEXT,
        turns INTEGER NOT NULL,
        tool_calls INTEGER NOT NULL,
        cost REAL,
        currency TEXT
    ) STRICT;
    CREATE INDEX calls_began ON calls (began);
    CREATE TABLE records (row INTEGER PRIMARY KEY REFERENCES calls (row) ON DELETE CASCADE, record TEXT NOT NULL) STRICT;
    CREATE VIRTUAL TABLE words USING fts5 (said, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2');
    ", "
    CREATE INDEX calls_hours ON calls (began / 3600000, class, currency, seconds, cost);
    ", "
    -- Words are taken out of the index in place, for which it has to be told them again: a tombstone would leave them in the
    -- file until all of it is merged (sqlite.org/fts5.html, 'secure-delete').
    DROP TABLE words;
    CREATE VIEW spoken AS SELECT row, said FROM (
        SELECT row, (
            SELECT group_concat(entry.value ->> 'text', char(10)) FROM json_each(record, '$.entries') AS entry
            WHERE entry.value ->> 'event' = 'said'
        ) AS said FROM records
    ) WHERE said <> '';
    CREATE VIRTUAL TABLE words USING fts5 (said, content = '', tokenize = 'unicode61 remove_diacritics 2');
    INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
    INSERT INTO words (rowid, said) SELECT row, said FROM spoken;
    "];

pub struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    /// Makes the file where it is missing, for nobody else to read, and brings an older one up to date.
    ///
    /// # Errors
    /// When it cannot be opened, is no database, or is of a later version.
    pub fn open(file: &Path) -> Result<Self, ArchiveError> {
        let shown = file.display().to_string();
        let failed = |error: rusqlite::Error| ArchiveError::Open { file: shown.clone(), error: error.into() };
        // The database would make it readable for others.
        let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file);
        made.map_err(|error| ArchiveError::Failed(format!("{shown} cannot be opened: {error}")))?;
        let mut connection = Connection::open(file).map_err(failed)?;
        connection.busy_timeout(BUSY_MAX).map_err(failed)?;
        // Settled when the file is made; to say it again would write, which waits for whoever holds the file.
        if version(&connection).map_err(failed)? == 0 {
            connection.pragma_update(None, "auto_vacuum", "incremental").map_err(failed)?;
        }
        connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
        set_up(&connection).map_err(failed)?;
        migrate(&mut connection, &shown)?;
        Ok(Self { connection })
    }

    /// A disk that is full from here on: the file has so many pages at most, or as many as it has already.
    #[cfg(test)]
    pub(super) fn limit_to(&self, pages: u32) {
        self.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    }

    /// For reading beside whoever writes, who does not wait for it.
    ///
    /// # Errors
    /// When there is no file, it cannot be opened, or it is of another version.
    pub fn read_only(file: &Path) -> Result<Self, ArchiveError> {
        Self::as_it_is(file, OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    /// For writing beside the engine, whose file it is.
    ///
    /// # Errors
    /// When there is no file, it cannot be opened, or it is of another version.
    pub fn existing(file: &Path) -> Result<Self, ArchiveError> {
        let archive = Self::as_it_is(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        set_up(&archive.connection)?;
        Ok(archive)
    }

    /// Never makes a file, and never brings one up to date: an engine of an earlier version may be at work with it.
    fn as_it_is(file: &Path, mode: OpenFlags) -> Result<Self, ArchiveError> {
        let shown = file.display().to_string();
        let failed = |error: rusqlite::Error| ArchiveError::Open { file: shown.clone(), error: error.into() };
        let connection = Connection::open_with_flags(file, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(failed)?;
        connection.busy_timeout(BUSY_MAX).map_err(failed)?;
        let (found, known) = (version(&connection).map_err(failed)?, MIGRATIONS.len() as i64);
        match found.cmp(&known) {
            Ordering::Equal => Ok(Self { connection }),
            Ordering::Less => Err(ArchiveError::Older { file: shown, found, known }),
            Ordering::Greater => Err(ArchiveError::Newer { file: shown, found, known }),
        }
    }
}

/// Of a connection that writes.
fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    for (name, value) in [("synchronous", "full"), ("foreign_keys", "on")] {
        connection.pragma_update(None, name, value)?;
    }
    // Whose record is deleted is overwritten, not only forgotten.
    connection.pragma_update(None, "secure_delete", true)
}

/// The archive below a folder of records.
pub struct SqliteFile {
    file: PathBuf,
}

impl SqliteFile {
    pub fn below(directory: &Path) -> Self {
        Self { file: directory.join("calls.sqlite3") }
    }

    /// Whether a record was ever kept. A folder that may not be looked into says nothing about that.
    pub(super) fn exists(&self) -> Result<bool, ArchiveError> {
        self.file.try_exists().map_err(|error| {
            let file = self.file.display().to_string();
            match error.kind() {
                io::ErrorKind::PermissionDenied => ArchiveError::Forbidden { file },
                _ => ArchiveError::Open { file, error: error.into() },
            }
        })
    }
}

impl Access for SqliteFile {
    fn open(&self) -> Result<Box<dyn Archive>, ArchiveError> {
        Ok(Box::new(Sqlite::open(&self.file)?))
    }

    fn existing(&self) -> Result<Option<Box<dyn Archive>>, ArchiveError> {
        if self.exists()? { Ok(Some(Box::new(Sqlite::existing(&self.file)?))) } else { Ok(None) }
    }

    fn read_only(&self) -> Result<Box<dyn Archive>, ArchiveError> {
        Ok(Box::new(Sqlite::read_only(&self.file)?))
    }
}

impl From<rusqlite::Error> for ArchiveError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Of the schema; 0 before there is one.
fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn migrate(connection: &mut Connection, file: &str) -> Result<(), ArchiveError> {
    // Who is up to date writes nothing, so that a database that somebody holds, or a full disk, stops nobody.
    if version(connection)? == MIGRATIONS.len() as i64 {
        return Ok(());
    }
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&step)?;
    let known = MIGRATIONS.len() as i64;
    let Some(missing) = usize::try_from(found).ok().and_then(|found| MIGRATIONS.get(found..)) else {
        return Err(ArchiveError::Newer { file: file.to_owned(), found, known });
    };
    for migration in missing {
        step.execute_batch(migration)?;
    }
    step.pragma_update(None, "user_version", known)?;
    Ok(step.commit()?)
}

impl Archive for Sqlite {
    fn put(&mut self, records: &[Record]) -> Result<(), ArchiveError> {
        if records.is_empty() {
            return Ok(());
        }
        let step = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for record in records {
            insert(&step, record)?;
        }
        Ok(step.commit()?)
    }

    fn amend(&mut self, amendment: &Amendment) -> Result<(), ArchiveError> {
        let step = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let kept = "SELECT row, record FROM records JOIN calls USING (row) WHERE id = ?";
        let kept = step.query_row(kept, [amendment.id.to_string()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((row, text)): Option<(i64, String)> = kept else { return Ok(()) };
        let mut record: Record = serde_json::from_str(&text).map_err(ArchiveError::Unreadable)?;
        record.amend(amendment);
        let whole = serde_json::to_string(&record).map_err(ArchiveError::Unreadable)?;
        step.execute("UPDATE records SET record = ? WHERE row = ?", params![whole, row])?;
        let ending = params![record.reason.label, record.reason.class, row];
        step.execute("UPDATE calls SET reason = ?, class = ? WHERE row = ?", ending)?;
        Ok(step.commit()?)
    }

    fn find(&self, search: &Search) -> Result<Vec<Row>, ArchiveError> {
        let (text, values) = query(search);
        let mut statement = self.connection.prepare_cached(&text)?;
        let rows = statement.query_map(rusqlite::params_from_iter(values), row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn hours(&self, since: Timestamp, until: Timestamp) -> Result<Vec<Hour>, ArchiveError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT began / 3600000, class, currency, count(*), sum(seconds), sum(cost) FROM calls \
             WHERE began / 3600000 >= ?1 AND began / 3600000 < ?2 \
             GROUP BY began / 3600000, class, currency ORDER BY began / 3600000",
        )?;
        let until = until.as_millisecond().saturating_add(HOUR_MS - 1);
        let times = params![since.as_millisecond() / HOUR_MS, until / HOUR_MS];
        let hours = statement.query_map(times, |row| {
            let began = row.get::<_, i64>(0)?.saturating_mul(HOUR_MS);
            Ok(Hour {
                began: Timestamp::from_millisecond(began).unwrap_or(Timestamp::UNIX_EPOCH),
                class: row.get(1)?,
                currency: row.get(2)?,
                calls: row.get(3).map(i64::unsigned_abs)?,
                seconds: row.get(4)?,
                cost: row.get(5)?,
            })
        })?;
        Ok(hours.collect::<Result<_, _>>()?)
    }

    fn get(&self, id: CallId) -> Result<Option<Record>, ArchiveError> {
        let text = "SELECT record FROM records JOIN calls USING (row) WHERE id = ?";
        let found: Option<String> = self.connection.query_row(text, [id.to_string()], |row| row.get(0)).optional()?;
        found.map(|record| serde_json::from_str(&record)).transpose().map_err(ArchiveError::Unreadable)
    }

    fn delete(&mut self, id: CallId) -> Result<bool, ArchiveError> {
        let step = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found = "SELECT row FROM calls WHERE id = ?";
        let row: Option<i64> = step.query_row(found, [id.to_string()], |row| row.get(0)).optional()?;
        remove(&step, &row.into_iter().collect::<Vec<_>>())?;
        step.commit()?;
        Ok(row.is_some())
    }

    fn expire(&mut self, before: Timestamp, max: usize) -> Result<usize, ArchiveError> {
        let step = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let rows: Vec<i64> = {
            let mut old = step.prepare_cached("SELECT row FROM calls WHERE began < ? ORDER BY began LIMIT ?")?;
            let found = old.query_map(params![before.as_millisecond(), max as i64], |row| row.get(0))?;
            found.collect::<Result<_, _>>()?
        };
        remove(&step, &rows)?;
        step.commit()?;
        Ok(rows.len())
    }

    /// Free pages go back to the disk, and what was deleted does not stay in the journal.
    fn tidy(&mut self) -> Result<bool, ArchiveError> {
        let free: i64 = self.connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
        if free > 0 {
            let mut vacuum = self.connection.prepare_cached(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
            let mut pages = vacuum.query([])?;
            while pages.next()?.is_some() {}
        }
        self.connection.busy_timeout(READERS_MAX)?;
        let busy = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        self.connection.busy_timeout(BUSY_MAX)?;
        Ok(busy? == 0)
    }

    fn answer_before(&mut self, deadline: Instant) -> Result<(), ArchiveError> {
        let over = move || Instant::now() > deadline;
        Ok(self.connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(over))?)
    }
}

fn insert(step: &Transaction<'_>, record: &Record) -> Result<(), ArchiveError> {
    if record.reason.label != KILLED {
        // It holds no words, so none are left in their index.
        let mut killed = step.prepare_cached("DELETE FROM calls WHERE id = ? AND reason = ?")?;
        killed.execute(params![record.id.to_string(), KILLED])?;
    }
    let costs: Vec<_> = record.usage.iter().filter_map(|used| used.cost.as_ref()).collect();
    let currency = costs.first().map(|cost| cost.currency.as_str());
    let currency = currency.filter(|currency| costs.iter().all(|cost| cost.currency == *currency));
    let cost = currency.map(|_| costs.iter().map(|cost| cost.amount).sum::<f64>());
    let mut call = step.prepare_cached(
        "INSERT INTO calls (id, began, seconds, direction, context, provider, reason, class, caller_number, \
         dialled_number, turns, tool_calls, cost, currency) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
         ON CONFLICT (id) DO NOTHING",
    )?;
    let inserted = call.execute(params![
        record.id.to_string(),
        record.began.as_millisecond(),
        record.seconds,
        record.direction.label(),
        record.context,
        record.provider,
        record.reason.label,
        record.reason.class,
        record.caller_number,
        record.dialled_number,
        record.counts.agent_turns,
        record.counts.tool_calls,
        cost,
        currency,
    ])?;
    if inserted == 0 {
        return Ok(());
    }
    let row = step.last_insert_rowid();
    let whole = serde_json::to_string(record).map_err(ArchiveError::Unreadable)?;
    step.prepare_cached("INSERT INTO records (row, record) VALUES (?, ?)")?.execute(params![row, whole])?;
    step.prepare_cached("INSERT INTO words (rowid, said) SELECT row, said FROM spoken WHERE row = ?")?
        .execute([row])?;
    Ok(())
}

fn remove(step: &Transaction<'_>, rows: &[i64]) -> Result<(), ArchiveError> {
    // While the record is there, which has the words.
    let words = "INSERT INTO words (words, rowid, said) SELECT 'delete', row, said FROM spoken WHERE row = ?";
    for row in rows {
        step.prepare_cached(words)?.execute([row])?;
        step.prepare_cached("DELETE FROM calls WHERE row = ?")?.execute([row])?;
    }
    Ok(())
}

/// The statement and what stands for its question marks.
fn query(search: &Search) -> (String, Vec<Value>) {
    let mut conditions: Vec<String> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    let mut add = |condition: &str, value: Value| {
        conditions.push(condition.to_owned());
        values.push(value);
    };
    if let Some(words) = search.words.as_ref().filter(|words| !words.trim().is_empty()) {
        add("row IN (SELECT rowid FROM words WHERE words MATCH ?)", Value::Text(quoted(words)));
    }
    if let Some(id) = &search.id {
        add("id GLOB ?", Value::Text(format!("{id}*")));
    }
    if let Some(row) = search.after {
        add("row < ?", Value::Integer(row));
    }
    // With the plus no index is used for them: it would have every call of the time sorted, to give the newest few.
    if let Some(since) = search.since {
        add("+began >= ?", Value::Integer(since.as_millisecond()));
    }
    if let Some(until) = search.until {
        add("+began < ?", Value::Integer(until.as_millisecond()));
    }
    if let Some(context) = &search.context {
        add("context = ?", Value::Text(context.clone()));
    }
    if let Some(provider) = &search.provider {
        add("provider = ?", Value::Text(provider.clone()));
    }
    match search.reason.as_deref() {
        Some(NOT_NORMAL) => add("class <> ?", Value::Text(AS_IT_SHOULD.into())),
        Some(reason) => add("? IN (reason, class)", Value::Text(reason.into())),
        None => {}
    }
    if let Some(number) = search.number.as_ref().filter(|number| !number.is_empty()) {
        let last = number.chars().count();
        let ends = format!("? IN (substr(caller_number, -{last}), substr(dialled_number, -{last}))");
        add(&ends, Value::Text(number.clone()));
    }
    let mut text = String::from(
        "SELECT row, id, began, seconds, direction, context, provider, reason, class, caller_number, dialled_number, turns, \
         tool_calls, cost, currency FROM calls",
    );
    for (number, condition) in conditions.iter().enumerate() {
        text.push_str(if number == 0 { " WHERE " } else { " AND " });
        text.push_str(condition);
    }
    text.push_str(" ORDER BY row DESC LIMIT ?");
    values.push(Value::Integer(search.limit.clamp(1, LIMIT_MAX) as i64));
    (text, values)
}

/// Each word for itself: nothing in it is an operator of the search.
fn quoted(words: &str) -> String {
    let word = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
    words.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let bad = |column: usize| rusqlite::Error::InvalidColumnType(column, "calls".into(), rusqlite::types::Type::Text);
    let id: String = row.get(1)?;
    Ok(Row {
        row: row.get(0)?,
        id: CallId(id.parse().map_err(|_| bad(1))?),
        began: Timestamp::from_millisecond(row.get(2)?).map_err(|_| bad(2))?,
        seconds: row.get(3)?,
        direction: row.get(4)?,
        context: row.get(5)?,
        provider: row.get(6)?,
        reason: row.get(7)?,
        class: row.get(8)?,
        caller_number: row.get(9)?,
        dialled_number: row.get(10)?,
        turns: row.get(11)?,
        tool_calls: row.get(12)?,
        cost: row.get(13)?,
        currency: row.get(14)?,
    })
}
