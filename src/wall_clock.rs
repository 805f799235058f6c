//! The wall clock: the date and time that records and messages bear, and by which they are kept. An admin or NTP can set
//! it at any time, forwards and backwards, so durations and deadlines are measured by tokio's clock and never by this one.

use jiff::Timestamp;
use std::{sync::OnceLock, time::SystemTime};

/// Reads another clock than the machine's.
static SOURCE: OnceLock<fn() -> SystemTime> = OnceLock::new();

/// Has the whole process read its wall clock from here; only the first call counts.
pub fn read_from(source: fn() -> SystemTime) {
    let _ = SOURCE.set(source);
}

pub fn system_time() -> SystemTime {
    SOURCE.get().map_or_else(SystemTime::now, |source| source())
}

pub fn now() -> Timestamp {
    // A clock beyond the year 9999 is set wrong: any date is as good.
    Timestamp::try_from(system_time()).unwrap_or(Timestamp::UNIX_EPOCH)
}
