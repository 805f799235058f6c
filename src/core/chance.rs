//! Random bits from one source, which a test can seed: for the jitter of retries and for the ids of calls. Secrets are not made
//! from it.

use std::{ops::Range, sync::OnceLock};

/// Gives other bits than the system's.
static SOURCE: OnceLock<fn() -> u64> = OnceLock::new();

/// Has the whole process leave to this what it leaves to chance, so that a run can be repeated; only the first call counts.
pub fn come_from(source: fn() -> u64) {
    let _ = SOURCE.set(source);
}

pub fn bits() -> u64 {
    SOURCE.get().map_or_else(rand::random, |source| source())
}

/// Any number of the range, each as likely.
pub fn within(range: Range<f64>) -> f64 {
    // As many bits as a double has.
    let part = (bits() >> 11) as f64 / (1_u64 << 53) as f64;
    range.start + (range.end - range.start) * part
}
