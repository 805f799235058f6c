//! An archive that could not be opened yet: it is tried anew whenever something is to go in, and until then records stay in the
//! spool.

use super::{
    archive::{Access, Archive, ArchiveError, Hour, Row},
    record::{Amendment, Record},
    search::Search,
};
use crate::facts::CallId;
use jiff::Timestamp;
use tokio::time::Instant;

pub(super) struct Later {
    access: Box<dyn Access>,
    opened: Option<Box<dyn Archive>>,
}

impl Later {
    pub fn new(access: impl Access + 'static) -> Self {
        Self { access: Box::new(access), opened: None }
    }

    fn opened(&mut self) -> Result<&mut dyn Archive, ArchiveError> {
        let archive = match self.opened.take() {
            Some(archive) => archive,
            None => self.access.open()?,
        };
        Ok(self.opened.insert(archive).as_mut())
    }

    /// Who only reads has an archive of their own.
    fn here(&self) -> Result<&dyn Archive, ArchiveError> {
        self.opened.as_deref().ok_or_else(|| ArchiveError::Failed("it could not be opened yet".into()))
    }
}

impl Archive for Later {
    fn put(&mut self, records: &[Record]) -> Result<(), ArchiveError> {
        self.opened()?.put(records)
    }

    fn amend(&mut self, amendment: &Amendment) -> Result<(), ArchiveError> {
        self.opened()?.amend(amendment)
    }

    fn find(&self, search: &Search) -> Result<Vec<Row>, ArchiveError> {
        self.here()?.find(search)
    }

    fn hours(&self, since: Timestamp, until: Timestamp) -> Result<Vec<Hour>, ArchiveError> {
        self.here()?.hours(since, until)
    }

    fn get(&self, id: CallId) -> Result<Option<Record>, ArchiveError> {
        self.here()?.get(id)
    }

    fn delete(&mut self, id: CallId) -> Result<bool, ArchiveError> {
        self.opened()?.delete(id)
    }

    fn expire(&mut self, before: Timestamp, max: usize) -> Result<usize, ArchiveError> {
        self.opened()?.expire(before, max)
    }

    fn tidy(&mut self) -> Result<bool, ArchiveError> {
        self.opened()?.tidy()
    }

    fn answer_before(&mut self, deadline: Instant) -> Result<(), ArchiveError> {
        self.opened()?.answer_before(deadline)
    }
}
