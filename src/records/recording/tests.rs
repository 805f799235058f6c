use super::{counters::Lost, wav::head, *};
use prometheus::Registry;
use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::SystemTime};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const FRAME: usize = 160;
/// µ-law of two levels, and what they are as samples.
const CALLER: (u8, i16) = (0x10, -15_996);
const AGENT: (u8, i16) = (0x20, -7_932);
const MS_20: Duration = Duration::from_millis(20);

struct Studio {
    folder: TempDir,
    recordings: Recordings,
    counters: RecordingCounters,
}

impl Studio {
    fn open() -> Self {
        let folder = TempDir::new().unwrap();
        let counters = RecordingCounters::new(&Registry::new());
        let recordings = Recordings::start(folder.path(), counters.clone());
        Self { folder, recordings, counters }
    }

    fn recorder(&self) -> (CallId, Recorder) {
        let id = CallId::random();
        (id, self.recordings.recorder(id, Format::ULAW))
    }

    fn file(&self, id: CallId) -> PathBuf {
        recording_file(self.folder.path(), id)
    }

    /// What any player makes of a file: its two sides.
    fn played(&self, id: CallId) -> [Vec<i16>; 2] {
        let mut reader = hound::WavReader::open(self.file(id)).unwrap();
        let spec = reader.spec();
        assert_eq!((spec.channels, spec.sample_rate, spec.bits_per_sample), (2, 8_000, 16));
        let samples: Vec<i16> = reader.samples().map(Result::unwrap).collect();
        let side = |side: usize| samples.iter().skip(side).step_by(2).copied().collect();
        [side(0), side(1)]
    }

    fn lost(&self, why: Lost) -> f64 {
        self.counters.lost.with_label_values(&[why.label()]).get()
    }

    fn made(&self, outcome: &str) -> u64 {
        self.counters.made.with_label_values(&[outcome]).get()
    }
}

/// So many slots, in each of which both sides are heard.
fn talk(recorder: &mut Recorder, slots: usize) {
    for _ in 0..slots {
        recorder.plays(Some(&[AGENT.0; FRAME]), MS_20);
        recorder.hears(&[CALLER.0; FRAME]);
    }
}

/// How long each stretch of one level is, in slots.
fn stretches(side: &[i16]) -> Vec<(i16, usize)> {
    let mut found: Vec<(i16, usize)> = Vec::new();
    for sample in side {
        match found.last_mut() {
            Some((level, count)) if level == sample => *count += 1,
            _ => found.push((*sample, 1)),
        }
    }
    found.into_iter().map(|(level, count)| (level, count / FRAME)).collect()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_caller_is_on_the_left_and_what_they_heard_on_the_right_sample_by_sample() {
    let studio = Studio::open();
    let (id, mut recorder) = studio.recorder();
    talk(&mut recorder, 10);
    recorder.set(Recording::On);
    for slot in 0..200 {
        let agent = if (50..100).contains(&slot) { AGENT.0 } else { 0xff };
        recorder.plays(Some(&[agent; FRAME]), MS_20 * (slot + 7));
        if slot < 150 {
            recorder.hears(&[CALLER.0; FRAME]);
        }
    }
    let recorded = recorder.finish().await.unwrap();
    let [caller, agent] = studio.played(id);
    assert_eq!(stretches(&caller), [(CALLER.1, 150), (0, 50)]);
    assert_eq!(stretches(&agent), [(0, 50), (AGENT.1, 50), (0, 100)]);
    assert_eq!((recorded.file, recorded.began_ms, recorded.seconds), (format!("{id}.wav"), 140, 4.0));
    assert!(recorded.lost_seconds.is_empty());
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(studio.file(id)), mode(studio.folder.path().join("recordings"))), (0o600, 0o700));
    assert_eq!(studio.counters.bytes.get(), 200 * 640);
}

#[tokio::test]
async fn what_may_not_be_kept_is_silence_of_the_same_length_on_both_sides() {
    let studio = Studio::open();
    let (id, mut recorder) = studio.recorder();
    recorder.set(Recording::Notice);
    talk(&mut recorder, 50);
    recorder.set(Recording::On);
    talk(&mut recorder, 50);
    for state in [Recording::Private, Recording::Off] {
        recorder.set(state);
        talk(&mut recorder, 75);
        recorder.set(Recording::On);
        talk(&mut recorder, 50);
    }
    recorder.finish().await.unwrap();
    let [caller, agent] = studio.played(id);
    let (heard, silent) = ((CALLER.1, 50), (0, 75));
    assert_eq!(stretches(&caller), [(0, 50), heard, silent, heard, silent, heard]);
    let heard = (AGENT.1, 50);
    assert_eq!(stretches(&agent), [(AGENT.1, 100), silent, heard, silent, heard]);
}

/// Whoever opens the file while the call lasts, or after the engine was killed, can play what is there.
#[tokio::test]
async fn a_recording_can_be_played_at_any_time() {
    let studio = Studio::open();
    let (id, mut recorder) = studio.recorder();
    recorder.set(Recording::On);
    for seconds in 1..=3 {
        talk(&mut recorder, 50);
        let written = 32_000 * (seconds - 1);
        until("it is written", || studio.counters.bytes.get() == written).await;
        if written > 0 {
            let [caller, agent] = studio.played(id);
            assert_eq!(
                [stretches(&caller), stretches(&agent)],
                [CALLER, AGENT].map(|(_, level)| vec![(level, written as usize / 640)])
            );
        }
    }
    drop(recorder);
}

#[tokio::test]
async fn slots_that_were_given_up_are_silent_however_many() {
    for (missed, seconds) in [(40, 2.8), (10_000, 202.0)] {
        let studio = Studio::open();
        let (id, mut recorder) = studio.recorder();
        recorder.set(Recording::On);
        talk(&mut recorder, 50);
        recorder.misses(missed);
        talk(&mut recorder, 50);
        let recorded = recorder.finish().await.unwrap();
        assert_eq!((recorded.seconds, recorded.lost_seconds.len()), (seconds, 0));
        let [_, agent] = studio.played(id);
        assert_eq!(stretches(&agent), [(AGENT.1, 50), (0, missed as usize), (AGENT.1, 50)]);
        assert!(studio.counters.bytes.get() < 200 * 640, "a hole is no bytes");
    }
}

/// For a while: no file can be made below one that is no folder, not even by root.
#[tokio::test]
async fn a_disk_that_takes_nothing_ends_no_call_and_what_is_lost_is_silent_and_told() {
    let studio = Studio::open();
    let (id, mut recorder) = studio.recorder();
    let folder = studio.folder.path().join("recordings");
    fs::write(&folder, "").unwrap();
    recorder.set(Recording::On);
    talk(&mut recorder, 100);
    until("it was tried", || studio.lost(Lost::Disk) == 1.0).await;
    fs::remove_file(&folder).unwrap();
    talk(&mut recorder, 100);
    let recorded = recorder.finish().await.unwrap();
    assert_eq!((recorded.seconds, recorded.lost_seconds), (4.0, [("disk".to_owned(), 1.0)].into()));
    assert_eq!(stretches(&studio.played(id)[1]), [(0, 50), (AGENT.1, 150)]);
    assert_eq!(studio.made("incomplete"), 1);
}

#[tokio::test]
async fn a_disk_that_takes_nothing_at_all_leaves_no_file_and_a_record_that_says_so() {
    let studio = Studio::open();
    fs::write(studio.folder.path().join("recordings"), "").unwrap();
    let (id, mut recorder) = studio.recorder();
    recorder.set(Recording::On);
    talk(&mut recorder, 100);
    let recorded = recorder.finish().await.unwrap();
    assert_eq!(recorded.lost_seconds, [("disk".to_owned(), 2.0)].into());
    assert!(!studio.file(id).exists());
}

/// The disk hangs: the queue is full, and nobody waits.
#[tokio::test]
async fn what_finds_no_room_in_the_queue_is_lost_counted_and_silent() {
    let (orders, mut waiting) = mpsc::channel(1);
    let counters = RecordingCounters::new(&Registry::new());
    let recordings = Recordings { orders, counters: counters.clone() };
    let mut recorder = recordings.recorder(CallId::random(), Format::ULAW);
    recorder.set(Recording::On);
    talk(&mut recorder, 75 + 100);
    assert_eq!(counters.lost.with_label_values(&["queue"]).get(), 2.0);
    let Ok(Order::Write(first)) = waiting.try_recv() else { panic!("the first part") };
    assert_eq!((first.skip, first.piece.agent.len()), (0, 50 * FRAME));
    talk(&mut recorder, 50);
    let Ok(Order::Write(next)) = waiting.try_recv() else { panic!("the part after it") };
    assert_eq!((next.skip, next.piece.agent.len()), (100 * FRAME as u64, 50 * FRAME), "where it belongs");
    talk(&mut recorder, 50);
    let Ok(Order::Write(next)) = waiting.try_recv() else { panic!("and the one after that") };
    assert_eq!(next.skip, 0, "what was skipped is told once");
    drop(waiting);
    let recorded = recorder.finish().await.unwrap();
    assert_eq!((recorded.seconds, recorded.lost_seconds["queue"]), (5.5, 2.0));
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_holds_up_the_end_of_a_call_for_two_seconds_and_no_longer() {
    let (orders, _nobody_reads) = mpsc::channel(1_000);
    let recordings = Recordings { orders, counters: RecordingCounters::new(&Registry::new()) };
    let mut recorder = recordings.recorder(CallId::random(), Format::ULAW);
    recorder.set(Recording::On);
    talk(&mut recorder, 100);
    let began = Instant::now();
    let recorded = recorder.finish().await.unwrap();
    assert_eq!(began.elapsed(), END_MAX);
    assert_eq!(recorded.lost_seconds, [("disk".to_owned(), 2.0)].into(), "what became of it nobody knows");
}

#[tokio::test]
async fn a_caller_who_does_not_want_it_leaves_no_file() {
    let studio = Studio::open();
    let (id, mut recorder) = studio.recorder();
    recorder.set(Recording::On);
    talk(&mut recorder, 100);
    until("there is a file", || studio.file(id).exists()).await;
    recorder.set(Recording::Discarded);
    until("it is deleted at once", || studio.made("discarded") == 1).await;
    talk(&mut recorder, 100);
    assert_eq!(recorder.finish().await, None);
    drop(studio.recordings);
    assert!(!recording_file(studio.folder.path(), id).exists());
}

/// It is told again when the call ends.
#[tokio::test]
async fn a_caller_who_does_not_want_it_is_heeded_when_the_queue_is_full() {
    let (orders, mut waiting) = mpsc::channel(1);
    let recordings = Recordings { orders, counters: RecordingCounters::new(&Registry::new()) };
    let mut recorder = recordings.recorder(CallId::random(), Format::ULAW);
    recorder.set(Recording::On);
    talk(&mut recorder, 75);
    recorder.set(Recording::Discarded);
    assert!(matches!(waiting.try_recv(), Ok(Order::Write(_))) && waiting.is_empty());
    assert_eq!(recorder.finish().await, None);
    assert!(matches!(waiting.try_recv(), Ok(Order::Discard(_))));
}

#[tokio::test]
async fn a_call_that_was_never_to_be_recorded_has_no_file() {
    let studio = Studio::open();
    let (id, mut recorder) = studio.recorder();
    talk(&mut recorder, 200);
    recorder.misses(7);
    assert_eq!(recorder.finish().await, None);
    assert!(!studio.file(id).exists());
}

#[tokio::test]
async fn old_recordings_are_deleted_with_or_without_a_record_and_nothing_else_is() {
    let studio = Studio::open();
    let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
    let folder = studio.folder.path().join("recordings");
    fs::create_dir(&folder).unwrap();
    let [old, new] = [CallId::random(), CallId::random()].map(|id| studio.file(id));
    let others = folder.join("mine.wav");
    for (file, age) in [(&old, day * 31), (&new, day), (&others, day * 31)] {
        fs::write(file, "sound").unwrap();
        fs::File::options().write(true).open(file).unwrap().set_modified(now - age).unwrap();
    }
    assert_eq!(expire(studio.folder.path(), now - day * 30).unwrap(), 1);
    assert_eq!([&old, &new, &others].map(|file| file.exists()), [false, true, true]);
    assert_eq!(expire(&studio.folder.path().join("nowhere"), now).unwrap(), 0);
}

#[tokio::test]
async fn a_waveform_shows_each_side_in_as_many_columns_as_wanted() {
    let studio = Studio::open();
    let (id, mut recorder) = studio.recorder();
    recorder.set(Recording::On);
    for slot in 0..100 {
        let (caller, agent) = if slot < 50 { (CALLER.0, 0xff) } else { (0xff, AGENT.0) };
        recorder.plays(Some(&[agent; FRAME]), MS_20);
        recorder.hears(&[caller; FRAME]);
    }
    recorder.finish().await.unwrap();
    let mut file = open_recording(studio.folder.path(), id).unwrap().unwrap();
    let (caller, agent) = (CALLER.1.unsigned_abs(), AGENT.1.unsigned_abs());
    let wave = Waveform::read(&mut file, 4).unwrap();
    assert_eq!(wave, Waveform { seconds: 2.0, caller: vec![caller, caller, 0, 0], agent: vec![0, 0, agent, agent] });
    // Columns need not divide the samples.
    let wave = Waveform::read(&mut file, 3).unwrap();
    assert_eq!((wave.caller, wave.agent), (vec![caller, caller, 0], vec![0, agent, agent]));
    assert_eq!(Waveform::read(&mut file, 1_000_000).unwrap().caller.len(), 10_000);
    assert_eq!(Waveform::read(&mut file, 0).unwrap().agent, [agent]);
    assert!(open_recording(studio.folder.path(), CallId::random()).unwrap().is_none());
    // A head that promises more than is there, as of a file that was cut, and one that is none.
    let path = studio.folder.path().join("other.wav");
    for (bytes, columns) in
        [([&head(8_000, 999)[..], &[1; 9]].concat(), Some(2)), (vec![7; 100], None), (head(8_000, 0).into(), Some(0))]
    {
        fs::write(&path, bytes).unwrap();
        let wave = Waveform::read(&mut fs::File::open(&path).unwrap(), 5);
        assert_eq!(wave.ok().map(|wave| wave.caller.len()), columns);
    }
}

#[test]
fn a_recording_ends_where_its_head_could_not_tell_its_length() {
    let bytes = head(8_000, wav::DATA_MAX);
    assert_eq!(&bytes[4..8], &(u32::MAX - 8).to_le_bytes());
    assert_eq!(&bytes[40..], &(u32::MAX - 44).to_le_bytes());
}
