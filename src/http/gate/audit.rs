//! The file of audit records: one line of JSON each, written by one task, so that no decision waits for a disk.

use serde_json::Value;
use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{fs::File, io::AsyncWriteExt, sync::mpsc, task::JoinHandle};

/// Records that may wait for the disk, of some 4 KB each; what comes on top is dropped and counted.
const WAITING_MAX: usize = 1_024;

/// The open file and the task that writes it.
pub struct AuditFile {
    writer: AuditWriter,
    task: JoinHandle<()>,
}

/// A place to put records; it never waits.
#[derive(Clone)]
pub struct AuditWriter {
    records: mpsc::Sender<String>,
    dropped: Arc<AtomicU64>,
}

impl AuditFile {
    /// Opens the file for appending; only its owner may read a file that is new. Needs a runtime.
    pub fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let file = file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let (records, waiting) = mpsc::channel(WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(write(File::from_std(file), waiting, Arc::clone(&dropped)));
        Ok(Self { writer: AuditWriter { records, dropped }, task })
    }

    pub fn writer(&self) -> AuditWriter {
        self.writer.clone()
    }

    /// Writes what waits, for this long at most, and says how many records were dropped. Writers that are still
    /// around write nothing any more.
    pub async fn end(self, within: Duration) -> u64 {
        let AuditWriter { records, dropped } = self.writer;
        let mut task = self.task;
        // An empty line means the end: other writers may outlive this.
        let ended = async {
            if records.send(String::new()).await.is_ok() {
                let _ = (&mut task).await;
            }
        };
        if tokio::time::timeout(within, ended).await.is_err() {
            task.abort();
        }
        dropped.load(Relaxed)
    }
}

impl AuditWriter {
    pub fn append(&self, record: &Value) {
        if self.records.try_send(format!("{record}\n")).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Records that did not reach the file.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

async fn write(mut file: File, mut waiting: mpsc::Receiver<String>, dropped: Arc<AtomicU64>) {
    while let Some(record) = waiting.recv().await {
        if record.is_empty() {
            return;
        }
        // One write per record keeps lines whole; a full disk loses records, not decisions.
        let written = async {
            file.write_all(record.as_bytes()).await?;
            file.flush().await
        };
        if let Err(error) = written.await
            && dropped.fetch_add(1, Relaxed) == 0
        {
            tracing::error!(%error, "audit records cannot be written");
        }
    }
}
