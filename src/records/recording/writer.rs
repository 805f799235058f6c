//! The writer of recordings. The head of a file is right whenever something was written to it, so a file
//! whose engine was killed can be played, up to its last second or two. What could not be written is a hole in the file,
//! which is silence of the same length.

use super::{
    counters::{Lost, RecordingCounters},
    folder,
    mixer::Piece,
    wav,
};
use crate::{audio::Format, facts::CallId, records::spool};
use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::Instant,
};
use tracing::{error, warn};

/// A disk that takes nothing is told of so often, not for every second of every call.
const WARN_EVERY: Duration = Duration::from_secs(600);
/// Orders that are taken out of the queue at a time. Few: what is taken makes room for as much more to wait.
const AT_ONCE_MAX: usize = 32;

/// The next part of a recording.
pub(super) struct Part {
    pub call: CallId,
    pub format: Format,
    /// Bytes of one side, in the leg's format, that are silent before it.
    pub skip: u64,
    pub piece: Piece,
}

pub(super) enum Order {
    Write(Part),
    /// The last part of it; what was lost of it on the way to the disk is told, or that it was deleted meanwhile.
    End(Part, oneshot::Sender<Option<Losses>>),
    Discard(CallId),
}

/// Seconds, by why.
pub(super) type Losses = BTreeMap<Lost, f64>;

pub(super) struct Writer {
    directory: PathBuf,
    tapes: HashMap<CallId, Tape>,
    counters: RecordingCounters,
    warned: Option<Instant>,
    samples: [Vec<i16>; 2],
    data: Vec<u8>,
}

/// The recording of a call that has not ended.
#[derive(Default)]
struct Tape {
    /// `None`: it could not be made yet.
    file: Option<File>,
    /// Somebody has deleted it, so nothing more is written.
    deleted: bool,
    /// Where the next sample belongs, in bytes of samples.
    end: u64,
    /// What the head says.
    told: u64,
    lost: Losses,
}

impl Writer {
    pub fn new(directory: PathBuf, counters: RecordingCounters) -> Self {
        let samples = [Vec::new(), Vec::new()];
        Self { directory, tapes: HashMap::new(), counters, warned: None, samples, data: Vec::new() }
    }

    /// Follows orders until nothing is left that could give one. Only one thread at a time waits for the disk, and none while
    /// there is nothing to write.
    pub async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut taken = Vec::with_capacity(AT_ONCE_MAX);
        while orders.recv_many(&mut taken, AT_ONCE_MAX).await > 0 {
            self.counters.waiting.set(orders.len() as i64);
            let work = move || {
                taken.drain(..).for_each(|order| self.follow(order));
                (self, taken)
            };
            match spawn_blocking(work).await {
                Ok(again) => (self, taken) = again,
                Err(error) => return error!(%error, "recordings are not written any more"),
            }
        }
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Write(part) => self.write(&part),
            Order::End(part, done) => {
                self.write(&part);
                // A call that gave up waiting has said so in its record.
                let _ = done.send(self.end(&part));
            }
            Order::Discard(call) => self.discard(call),
        }
        self.counters.files.set(self.tapes.len() as i64);
    }

    fn write(&mut self, part: &Part) {
        part.piece.interleave(part.format, &mut self.samples, &mut self.data);
        let tape = self.tapes.entry(part.call).or_default();
        tape.end += data_bytes(part.format, part.skip);
        let (at, bytes) = (tape.end, self.data.len() as u64);
        tape.end += bytes;
        if bytes == 0 || tape.is_deleted(&self.directory, part.call) {
            return;
        }
        let seconds = bytes as f64 / (wav::SAMPLE * u64::from(part.format.rate)) as f64;
        let why = if tape.end > wav::DATA_MAX {
            Lost::Length
        } else {
            match tape.put(&self.directory, part, at, &self.data) {
                Ok(()) => return self.counters.bytes.inc_by(bytes),
                Err(error) => {
                    if self.warned.is_none_or(|warned| warned.elapsed() > WARN_EVERY) {
                        self.warned = Some(Instant::now());
                        warn!(%error, call_id = %part.call, "a recording cannot be written, so it has silence in it; the \
                                                           calls go on, and this is not told again for a while");
                    }
                    Lost::Disk
                }
            }
        };
        *tape.lost.entry(why).or_default() += seconds;
        self.counters.lost(why, seconds);
    }

    /// `None`: it was deleted meanwhile.
    fn end(&mut self, part: &Part) -> Option<Losses> {
        let Some(mut tape) = self.tapes.remove(&part.call) else { return Some(Losses::new()) };
        if tape.is_deleted(&self.directory, part.call) {
            return None;
        }
        tape.fill_up(part.format.rate);
        Some(tape.lost)
    }

    fn discard(&mut self, call: CallId) {
        self.tapes.remove(&call);
        match folder::delete(&self.directory, call) {
            Ok(_) => self.counters.made("discarded"),
            Err(error) => {
                error!(%error, call_id = %call, "the recording of this call was to be deleted and is still there")
            }
        }
    }
}

impl Tape {
    /// Whether it was deleted during the call: the file is gone, or the call's deletion is remembered before there was one.
    fn is_deleted(&mut self, directory: &Path, call: CallId) -> bool {
        let gone = || match &self.file {
            Some(file) => file.metadata().is_ok_and(|facts| facts.nlink() == 0),
            None => spool::is_deleted(directory, call),
        };
        if !self.deleted && gone() {
            (self.deleted, self.file) = (true, None);
        }
        self.deleted
    }

    fn put(&mut self, directory: &Path, part: &Part, at: u64, data: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(folder::create(directory, part.call)?);
        }
        let Some(file) = &self.file else { return Ok(()) };
        file.write_all_at(data, wav::HEAD + at)?;
        let told = at + data.len() as u64;
        file.write_all_at(&wav::head(part.format.rate, told), 0)?;
        self.told = told;
        Ok(())
    }

    /// Silence in place of what could not be written at its end.
    fn fill_up(&mut self, rate: u32) {
        let end = self.end.min(wav::DATA_MAX);
        if let Some(file) = self.file.as_ref().filter(|_| self.told < end) {
            // A disk that does not even take this leaves a recording that is shorter than its call, as is told.
            let filled = file.set_len(wav::HEAD + end).and_then(|()| file.write_all_at(&wav::head(rate, end), 0));
            if let Err(error) = filled {
                warn!(%error, "a recording ends before its call did");
            }
        }
    }
}

/// How long so many bytes of one side are in the file.
fn data_bytes(format: Format, bytes: u64) -> u64 {
    bytes / format.bytes_per_sample() as u64 * wav::SAMPLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::Registry;
    use std::fs;
    use tempfile::TempDir;

    fn part(call: CallId, level: u8) -> Part {
        let piece = Piece { caller: vec![level; 8_000], agent: vec![level; 8_000] };
        Part { call, format: Format::ULAW, skip: 0, piece }
    }

    /// The disk is full in mid-call, and later has room again.
    #[test]
    fn a_full_disk_leaves_silence_of_the_same_length() {
        let (folder, counters) = (TempDir::new().unwrap(), RecordingCounters::new(&Registry::new()));
        let mut writer = Writer::new(folder.path().to_owned(), counters.clone());
        let call = CallId::random();
        writer.write(&part(call, 0x10));
        let full = File::options().write(true).open("/dev/full").unwrap();
        let file = writer.tapes.get_mut(&call).unwrap().file.replace(full);
        writer.write(&part(call, 0x20));
        let path = folder.path().join("recordings").join(folder::file_name(call));
        let seconds = || f64::from(hound::WavReader::open(&path).unwrap().duration()) / 8_000.0;
        assert_eq!(seconds(), 1.0, "what was written before can be played");
        writer.tapes.get_mut(&call).unwrap().file = file;
        writer.write(&part(call, 0x30));
        let last = Part { skip: 4_000, piece: Piece { caller: Vec::new(), agent: Vec::new() }, ..part(call, 0) };
        writer.write(&last);
        assert_eq!(writer.end(&last), Some([(Lost::Disk, 1.0)].into()));
        assert_eq!(seconds(), 3.5, "what is left out at its end is in it as well");
        let heard: Vec<bool> = fs::read(&path).unwrap()[44..].chunks(16_000).map(|half| half[0] != 0).collect();
        assert_eq!(heard, [true, true, false, false, true, true, false]);
        assert_eq!((counters.bytes.get(), counters.lost.with_label_values(&["disk"]).get()), (64_000, 1.0));
    }

    #[test]
    fn a_recording_that_has_its_greatest_length_ends_there() {
        let (folder, counters) = (TempDir::new().unwrap(), RecordingCounters::new(&Registry::new()));
        let mut writer = Writer::new(folder.path().to_owned(), counters);
        let call = CallId::random();
        writer.write(&part(call, 0x10));
        writer.write(&Part { skip: wav::DATA_MAX / 4 - 12_000, ..part(call, 0x20) });
        let last = part(call, 0x30);
        writer.write(&last);
        assert_eq!(writer.end(&last), Some([(Lost::Length, 2.0)].into()));
        let path = folder.path().join("recordings").join(folder::file_name(call));
        assert_eq!(fs::metadata(path).unwrap().len(), u64::from(u32::MAX));
    }
}
