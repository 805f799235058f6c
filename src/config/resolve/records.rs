//! Where records of ended calls are kept.

use crate::config::{RecordsConfig, defaults, raw_records::Records};
use std::{path::Path, time::Duration};

const DAY: u64 = 24 * 60 * 60;

pub(super) fn records(raw: Records, folder: &Path) -> RecordsConfig {
    RecordsConfig {
        directory: folder.join(raw.directory.unwrap_or_default()),
        keep: Duration::from_secs(raw.keep_days.unwrap_or(defaults::RECORDS_KEEP_DAYS) * DAY),
        words: raw.words.unwrap_or(true),
        numbers: raw.numbers.unwrap_or(true),
    }
}
