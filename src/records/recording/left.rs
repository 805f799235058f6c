//! What an engine that was killed left of a recording.

use super::{
    folder::{file_name, found, recording_file},
    mixer::HOLD_MS,
    wav,
};
use crate::{
    audio::Format,
    records::{Record, Recorded},
};
use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::Path,
    time::Duration,
};

/// Completes the file of a call whose engine was killed, so that all of it can be played; `None`: there is none, or nothing
/// in it. `record` is what was known when the call began.
///
/// When it began is told by the time at which its last part was written, about half a second exact.
///
/// # Errors
/// When the file cannot be read or written, or nobody knows its rate.
pub(in crate::records) fn complete(directory: &Path, record: &Record) -> io::Result<Option<Recorded>> {
    let path = recording_file(directory, record.id);
    let Some(file) = found(OpenOptions::new().read(true).write(true).open(&path))? else { return Ok(None) };
    let facts = file.metadata()?;
    let data = (facts.len().saturating_sub(wav::HEAD) / wav::SAMPLE * wav::SAMPLE).min(wav::DATA_MAX);
    if data == 0 {
        fs::remove_file(path)?;
        return Ok(None);
    }
    let written = jiff::Timestamp::try_from(facts.modified()?).map_err(io::Error::other)?;
    let mut head = [0; wav::HEAD as usize];
    file.read_exact_at(&mut head, 0)?;
    let rate = match wav::rate(&head) {
        Some(rate) => rate,
        // It was killed before the head was written.
        None => record.format.parse::<Format>().map_err(io::Error::other)?.rate,
    };
    let whole = wav::head(rate, data);
    if head != whole || facts.len() != wav::HEAD + data {
        file.set_len(wav::HEAD + data)?;
        file.write_all_at(&whole, 0)?;
        file.sync_all()?;
    }
    let length = Duration::from_secs_f64((data / wav::SAMPLE) as f64 / f64::from(rate));
    let since = Duration::try_from(written.duration_since(record.began)).unwrap_or_default();
    let began = since.saturating_sub(length).saturating_sub(Duration::from_millis(HOLD_MS as u64));
    Ok(Some(Recorded {
        file: file_name(record.id),
        began_ms: began.as_millis() as u64,
        seconds: length.as_secs_f64(),
        lost_seconds: BTreeMap::new(),
    }))
}
