//! This machine: open files, and the disk that records go to.

use super::Finding;
use crate::config::{Config, RecordsConfig};
use std::{io, os::unix::fs::PermissionsExt as _, path::Path};

const AREA: &str = "machine";
/// A call has a media socket and a connection to its agent; a pipeline has up to three.
const FILES_PER_CALL: u64 = 4;
/// The engine's own: listeners, the events socket, pages, databases, MCP servers.
const FILES_BESIDE: u64 = 200;
/// Thousands of records, and hours of sound.
const SPACE_LOW: u64 = 1 << 30;
/// From here on the spool may not take the next records.
const SPACE_NONE: u64 = 100 << 20;

pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = vec![files(config)];
    findings.extend(config.records.as_ref().map(records));
    findings
}

fn files(config: &Config) -> Finding {
    let needed = config.limits.calls as u64 * FILES_PER_CALL + FILES_BESIDE;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    match limit {
        Some(limit) if limit < needed => Finding::warning(
            AREA,
            format!(
                "{limit} open files are allowed here, and limits.calls of {} may need {needed}",
                config.limits.calls
            ),
            format!(
                "LimitNOFILE={} in the systemd unit, or `ulimit -n` in the shell that starts it",
                needed.next_power_of_two()
            ),
        ),
        _ => Finding::ok(AREA, format!("enough files may be open for {} calls", config.limits.calls)),
    }
}

fn records(records: &RecordsConfig) -> Finding {
    let directory = &records.directory;
    let shown = format!("records.directory {}", directory.display());
    // It is made when the engine starts; until then its place counts.
    let place = directory.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    if let Err(error) = tempfile::Builder::new().prefix(".offhook-doctor-").tempfile_in(place) {
        return Finding::problem(AREA, format!("{shown} cannot be written: {error}"), remedy(&error));
    }
    if place == directory && readable_by_others(directory) {
        let remedy = format!("`chmod 700 {}`: records hold what callers said", directory.display());
        return Finding::warning(AREA, format!("{shown} can be read by other users of this machine"), remedy);
    }
    let Ok(disk) = rustix::fs::statvfs(place) else {
        return Finding::ok(AREA, format!("{shown} can be written"));
    };
    let free = disk.f_bavail * disk.f_frsize;
    let says = format!("{shown} can be written, {} MB are free", free >> 20);
    let remedy = "make room, or write a smaller records.keep_days";
    match free {
        ..SPACE_NONE => Finding::problem(AREA, says, remedy),
        SPACE_NONE..SPACE_LOW => Finding::warning(AREA, says, remedy),
        _ => Finding::ok(AREA, says),
    }
}

fn readable_by_others(directory: &Path) -> bool {
    directory.metadata().is_ok_and(|about| about.permissions().mode() & 0o077 != 0)
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "give it to the user that offhook runs as (`chown`), and run doctor as that user"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on its disk",
        io::ErrorKind::ReadOnlyFilesystem => {
            "name a directory on a disk that can be written; under systemd, ReadWritePaths="
        }
        _ => "name a directory that can be made and written",
    }
}
