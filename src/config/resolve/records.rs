//! Where records of ended calls are kept.

use super::Resolver;
use crate::config::{RecordsConfig, defaults, problem::Path, raw_records::Records};
use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;

impl Resolver<'_> {
    pub(super) fn records(&mut self, raw: Records, folder: &std::path::Path) -> RecordsConfig {
        let keep = raw.keep_days.unwrap_or(defaults::RECORDS_KEEP_DAYS);
        let recordings = raw.recordings_keep_days.unwrap_or(keep);
        if recordings > keep {
            let message = format!("recordings are not kept longer than the records they belong to, {keep} days");
            let hint = format!("write {keep} or less, or more for keep_days");
            self.problem(&Path::default().key("records").key("recordings_keep_days"), message, Some(hint));
        }
        RecordsConfig {
            // As told: without the `.` that a variable's default brings.
            directory: folder.join(raw.directory.unwrap_or_default()).components().collect(),
            keep: Duration::from_secs(keep * DAY),
            keep_recordings: Duration::from_secs(recordings.min(keep) * DAY),
            words: raw.words.unwrap_or(true),
            numbers: raw.numbers.unwrap_or(true),
        }
    }
}
