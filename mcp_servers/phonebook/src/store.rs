//! The directory as one SQLite file.

use crate::number::Number;
use anyhow::{Context as _, Result, anyhow, bail};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, TransactionBehavior, params};
use std::{path::Path, time::Duration};

/// How long a locked file is waited for: a caller is on the line.
const BUSY: Duration = Duration::from_secs(2);
/// Only servers that start at the same moment on a new file get into each other's way.
const WAL_TRIES_MAX: u32 = 50;
/// Most rows that one search gives: more cannot be read out.
const ROWS_MAX: usize = 10;
/// "Book" in ASCII: tells our files from other programs' databases.
const APPLICATION: i32 = 0x426f_6f6b;
/// Each step brings the file from version N to N + 1, where the version is its place in the list.
///
/// `folded` is name and company in lower case: SQLite's own comparison knows ASCII only.
const MIGRATIONS: &[&str] = &["CREATE TABLE contacts (
    number TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    company TEXT NOT NULL,
    note TEXT NOT NULL,
    vip INTEGER NOT NULL,
    folded TEXT NOT NULL
) STRICT, WITHOUT ROWID"];
/// What `user_version` of an up-to-date file is.
const VERSION: u32 = MIGRATIONS.len() as u32;

const COLUMNS: &str = "number, name, company, note, vip";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// The normalized number, see [`Number`].
    pub number: String,
    pub name: String,
    pub company: String,
    pub note: String,
    pub vip: bool,
}

/// What an import knows of a contact: a column that the file lacks leaves what is stored.
#[derive(Debug)]
pub struct Entry {
    pub number: Number,
    pub name: String,
    pub company: Option<String>,
    pub note: Option<String>,
    pub vip: Option<bool>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub added: usize,
    pub changed: usize,
    pub as_before: usize,
}

pub enum Added {
    Done(Contact),
    /// The number is somebody's already; nothing was changed.
    Taken(Contact),
}

pub struct Store {
    connection: Connection,
}

impl Store {
    /// Opens the file, made with its tables when it is missing. `writable` asks that it can be written.
    ///
    /// # Errors
    /// Say what is wrong with the file in the words of its owner.
    pub fn open(path: &Path, writable: bool) -> Result<Self> {
        // Without the flag for URIs: a file may be called `file:x`.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(path, flags).map_err(told);
        opened.and_then(|connection| Self::prepare(connection, writable)).with_context(|| path.display().to_string())
    }

    fn prepare(mut connection: Connection, writable: bool) -> Result<Self> {
        connection.busy_timeout(BUSY)?;
        let (version, application, tables) = state(&mut connection).map_err(told)?;
        if application != APPLICATION && tables > 0 {
            bail!("this is another program's database; name a file of its own for the phone book");
        }
        if version > VERSION {
            bail!("this file is of a newer phonebook (version {version}, this one knows {VERSION})");
        }
        let read_only = connection.is_readonly("main")?;
        if read_only && (writable || version < VERSION) {
            bail!(
                "the file cannot be written; give this user the right to write it and its folder{}",
                if version == VERSION { ", or leave out --writable" } else { "" }
            );
        }
        if version < VERSION {
            migrate(&mut connection).map_err(told)?;
        }
        Ok(Self { connection })
    }

    pub fn count(&self) -> Result<u32> {
        self.connection.query_row("SELECT count(*) FROM contacts", [], |row| row.get(0)).map_err(told)
    }

    pub fn find(&self, number: &Number) -> Result<Option<Contact>> {
        find(&self.connection, number)
    }

    /// Contacts whose name or company has `text` in it, in the order of their names, at most
    /// [`ROWS_MAX`], and whether there are more.
    pub fn search(&self, text: &str) -> Result<(Vec<Contact>, bool)> {
        // instr compares bytes: no letter of the text has a meaning of its own.
        let sql = format!("SELECT {COLUMNS} FROM contacts WHERE instr(folded, ?1) ORDER BY folded, number LIMIT ?2");
        let mut statement = self.connection.prepare_cached(&sql).map_err(told)?;
        let rows = statement.query_map(params![text.to_lowercase(), ROWS_MAX as u32 + 1], contact).map_err(told)?;
        let mut found = rows.collect::<Result<Vec<_>, _>>().map_err(told)?;
        let more = found.len() > ROWS_MAX;
        found.truncate(ROWS_MAX);
        Ok((found, more))
    }

    pub fn add(&mut self, entry: Entry) -> Result<Added> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(told)?;
        if let Some(taken) = find(&transaction, &entry.number)? {
            return Ok(Added::Taken(taken));
        }
        let contact = entry.onto(None);
        write(&transaction, &contact)?;
        transaction.commit().map_err(told)?;
        Ok(Added::Done(contact))
    }

    /// Replaces the note and gives the contact as it is now, or `None` where nobody has the number.
    pub fn set_note(&mut self, number: &Number, note: &str) -> Result<Option<Contact>> {
        let sql = format!("UPDATE contacts SET note = ?2 WHERE number = ?1 RETURNING {COLUMNS}");
        let mut statement = self.connection.prepare_cached(&sql).map_err(told)?;
        statement.query_row([number.as_str(), note], contact).optional().map_err(told)
    }

    /// Writes all entries or, when one fails, none.
    pub fn import(&mut self, entries: Vec<Entry>) -> Result<Imported> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(told)?;
        let mut imported = Imported::default();
        for entry in entries {
            let before = find(&transaction, &entry.number)?;
            let after = entry.onto(before.as_ref());
            match before {
                Some(before) if before == after => imported.as_before += 1,
                Some(_) => imported.changed += 1,
                None => imported.added += 1,
            }
            write(&transaction, &after)?;
        }
        transaction.commit().map_err(told)?;
        Ok(imported)
    }
}

impl Entry {
    fn onto(self, before: Option<&Contact>) -> Contact {
        let kept = |pick: fn(&Contact) -> &String| before.map(pick).cloned().unwrap_or_default();
        Contact {
            number: self.number.as_str().to_owned(),
            name: self.name,
            company: self.company.unwrap_or_else(|| kept(|contact| &contact.company)),
            note: self.note.unwrap_or_else(|| kept(|contact| &contact.note)),
            vip: self.vip.unwrap_or_else(|| before.is_some_and(|contact| contact.vip)),
        }
    }
}

/// Version, application and number of tables as they were at one moment: another server may be making them.
fn state(connection: &mut Connection) -> rusqlite::Result<(u32, i32, u32)> {
    let moment = connection.transaction()?;
    let version = moment.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application = moment.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables = moment.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok((version, application, tables))
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    use_wal(connection)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again inside the lock: another server may have been faster.
    let version: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for step in MIGRATIONS.iter().skip(version as usize) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.commit()
}

/// Readers and one writer do not wait for each other in this mode. It is the file's and stays with it.
fn use_wal(connection: &mut Connection) -> rusqlite::Result<()> {
    let mut tries = WAL_TRIES_MAX;
    loop {
        let switched = connection.pragma_update(None, "journal_mode", "wal");
        tries -= 1;
        match switched {
            // The switch does not wait for others, even for one that reads; an exclusive transaction does.
            Err(error) if tries > 0 && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                connection.transaction_with_behavior(TransactionBehavior::Exclusive)?.commit()?;
            }
            switched => return switched,
        }
    }
}

fn find(connection: &Connection, number: &Number) -> Result<Option<Contact>> {
    let sql = format!("SELECT {COLUMNS} FROM contacts WHERE number = ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(told)?;
    statement.query_row([number.as_str()], contact).optional().map_err(told)
}

fn write(connection: &Connection, contact: &Contact) -> Result<()> {
    let Contact { number, name, company, note, vip } = contact;
    let folded = format!("{name}\n{company}").to_lowercase();
    let sql = "INSERT INTO contacts (number, name, company, note, vip, folded) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (number) DO UPDATE SET name = ?2, company = ?3, note = ?4, vip = ?5, folded = ?6";
    let mut statement = connection.prepare_cached(sql).map_err(told)?;
    statement.execute(params![number, name, company, note, vip, folded]).map_err(told)?;
    Ok(())
}

fn contact(row: &Row<'_>) -> rusqlite::Result<Contact> {
    Ok(Contact { number: row.get(0)?, name: row.get(1)?, company: row.get(2)?, note: row.get(3)?, vip: row.get(4)? })
}

/// SQLite's errors with a remedy. They name tables and columns, never what is in them.
fn told(error: rusqlite::Error) -> anyhow::Error {
    let remedy = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has locked the file for long; try again, or end that program"
        }
        Some(ErrorCode::NotADatabase) => "this is no SQLite database; name another file, or move this one away",
        Some(ErrorCode::DatabaseCorrupt) => "the file is damaged; bring back a copy of it",
        Some(ErrorCode::ReadOnly) => "the file cannot be written; give this user the right to write it and its folder",
        Some(ErrorCode::CannotOpen) => {
            "the file cannot be opened; its folder has to be there and writable for this user"
        }
        Some(ErrorCode::DiskFull) => "the disk is full",
        _ => return anyhow!(error),
    };
    anyhow!("{remedy} ({error})")
}
