//! Deletion on request, of calls that have ended and of calls that stand.

use super::*;
use crate::call::Recording;
use crate::records::way::TIDY_EVERY;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

#[test]
fn nothing_of_a_deleted_call_stays_in_a_file() {
    let folder = TempDir::new().unwrap();
    let (config, mut archive) = (config(&folder), archive(&folder));
    let kept = record(&config, "2026-11-19T10:00:00Z", "something else", EndReason::CallerHungUp);
    let gone = record(&config, "2026-11-19T10:00:00Z", &format!("from {SECRET} with love"), EndReason::CallerHungUp);
    archive.put(&[kept.clone(), gone.clone()]).unwrap();
    assert!(is_in_a_file(folder.path(), SECRET));
    assert!(archive.delete(gone.id).unwrap() && archive.tidy().unwrap());
    assert!(!archive.delete(gone.id).unwrap(), "it is gone");
    assert!(!is_in_a_file(folder.path(), SECRET) && !is_in_a_file(folder.path(), &gone.id.to_string()));
    assert_eq!(found(&archive, Search { words: Some("love".into()), ..Search::default() }), []);
    assert_eq!(found(&archive, Search::default()), [kept.id]);
}

/// Words of one call, which stand between those of others, in an index of many pages that was never merged. What is deleted
/// is not only not found: it is not in the bytes.
#[test]
fn the_words_of_a_deleted_call_leave_the_index_at_once_and_those_of_others_stay() {
    let folder = TempDir::new().unwrap();
    let (config, mut archive) = (config(&folder), archive(&folder));
    // None like another, and none beside the next of its call.
    let word = |call: usize, at: usize| {
        let mut hasher = DefaultHasher::new();
        (call, at).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    };
    let words = |call: usize| (0..40).map(move |at| word(call, at));
    let calls: Vec<Record> = (0..300)
        .map(|call| {
            let words = words(call).collect::<Vec<_>>().join(" ");
            record(&config, "2026-11-19T10:00:00Z", &words, EndReason::CallerHungUp)
        })
        .collect();
    calls.chunks(10).for_each(|calls| archive.put(calls).unwrap());
    assert!(archive.tidy().unwrap());
    let left = |call: usize| {
        let bytes: Vec<Vec<u8>> = all_files(folder.path()).iter().map(|file| fs::read(file).unwrap()).collect();
        let is_there = |end: &str| bytes.iter().any(|file| file.windows(end.len()).any(|part| part == end.as_bytes()));
        // What neighbours in the index begin with alike stands there once.
        words(call).filter(|word| is_there(&word[word.len() - 9..])).count()
    };
    let by_a_word =
        |archive: &Sqlite, call: usize| found(archive, Search { words: words(call).nth(7), ..Search::default() });
    let gone = [0, 7, 150, 151, 299];
    assert!(gone.iter().all(|call| left(*call) == 40), "they are seen where they are");
    for call in gone {
        assert!(archive.delete(calls[call].id).unwrap() && archive.tidy().unwrap());
        assert_eq!((left(call), by_a_word(&archive, call)), (0, vec![]), "call {call}");
    }
    for call in (0..300).filter(|call| !gone.contains(call)) {
        assert_eq!(by_a_word(&archive, call), [calls[call].id]);
    }
    let file = rusqlite::Connection::open(folder.path().join("calls.sqlite3")).unwrap();
    file.execute_batch("INSERT INTO words (words) VALUES ('integrity-check')").unwrap();
}

/// With a record or without one, as after an engine was killed.
#[tokio::test]
async fn a_recording_is_deleted_with_its_call_and_when_it_is_old() {
    let folder = TempDir::new().unwrap();
    let config = RecordsConfig { keep_recordings: Duration::from_secs(86_400), ..config(&folder) };
    let sound = config.directory.join("recordings");
    fs::create_dir_all(&sound).unwrap();
    let (asked, old, new) = (CallId::random(), CallId::random(), CallId::random());
    let file = |id: &CallId| recording_file(&config.directory, *id);
    for (id, days) in [(asked, 0), (old, 2), (new, 0)] {
        fs::write(file(&id), "sound").unwrap();
        let written = SystemTime::now() - Duration::from_secs(86_400 * days);
        fs::File::options().write(true).open(file(&id)).unwrap().set_modified(written).unwrap();
    }
    let found = || delete(&config.directory, asked).unwrap().found;
    assert_eq!([found(), found()], [true, false]);
    let (_registry, counters) = counters();
    let records = Records::start(&config, counters.clone()).unwrap();
    until("it is deleted", || counters.recordings.expired.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
    assert_eq!([asked, old, new].map(|id| file(&id).exists()), [false, false, true]);
}

/// An engine that starts with a clock that is ahead: of all that it sees, nothing is as old as it seems.
#[tokio::test]
async fn a_clock_that_jumps_deletes_nothing_until_an_admin_says_that_it_is_right() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let ago = Duration::from_secs(40 * 86_400);
    let (old, clock) = (SystemTime::now() - ago, config.directory.join("clock"));
    let call = record(&config, &(Timestamp::now() - ago).to_string(), "hello", EndReason::CallerHungUp);
    let sound = recording_file(&config.directory, call.id);
    fs::create_dir_all(sound.parent().unwrap()).unwrap();
    SqliteFile::below(&config.directory).open().unwrap().put(std::slice::from_ref(&call)).unwrap();
    fs::write(&sound, "sound").unwrap();
    fs::File::options().write(true).open(&sound).unwrap().set_modified(old).unwrap();
    // Without a time that was written down the newest record tells it, and then the time.
    for written in [false, true] {
        assert_eq!(clock.exists(), written);
        let (records, counters) = started(&config);
        until("the clock is doubted", || counters.clock_doubted.get() == 1).await;
        until("the time is kept", || clock.exists()).await;
        records.finish(Duration::from_secs(5)).await;
        assert_eq!((counters.expired.get(), counters.recordings.expired.get()), (0, 0));
        assert!(sound.exists() && read(&config.directory).unwrap().unwrap().get(call.id).unwrap().is_some());
    }
    fs::File::options().write(true).open(&clock).unwrap().set_modified(SystemTime::now()).unwrap();
    let (records, counters) = started(&config);
    until("what is old is deleted", || (counters.expired.get(), counters.recordings.expired.get()) == (1, 1)).await;
    records.finish(Duration::from_secs(5)).await;
    assert!(!sound.exists() && counters.clock_doubted.get() == 0);
}

const LOUD: [u8; 160] = [0x10; 160];

/// As a call that is recorded does it, for so many slots.
fn records_slots(recorder: &mut Recorder, slots: u32) {
    for slot in 0..slots {
        recorder.hears(&LOUD);
        recorder.plays(Some(&LOUD), Duration::from_millis(20) * slot);
    }
}

/// Deleted while it is recorded, or before the first sound is.
#[tokio::test]
async fn nothing_is_kept_of_a_call_that_was_deleted_while_it_stood() {
    for slots in [200, 0] {
        let folder = TempDir::new().unwrap();
        let config = config(&folder);
        let (records, counters) = started(&config);
        let stands = beginning(&config);
        let sound = recording_file(&config.directory, stands.id);
        records.begun(stands.clone());
        let mut recorder = records.recorder(stands.id, Format::ULAW);
        recorder.set(Recording::On);
        records_slots(&mut recorder, slots);
        until("it is written down", || begun(&config) == 1 && (slots == 0 || sound.exists())).await;
        let deleted = delete(&config.directory, stands.id).unwrap();
        assert_eq!(deleted, Deleted { found: true, stands: true, lingers: false });
        assert_eq!(spooled(&config), [format!("{}.deleted", stands.id)]);
        records_slots(&mut recorder, 200);
        assert_eq!(recorder.finish().await, None);
        let said = record(&config, &stands.began.to_string(), SECRET, EndReason::CallerHungUp);
        records.keep(Record { id: stands.id, ..said });
        until("it is over", || spooled(&config).is_empty()).await;
        records.finish(Duration::from_secs(5)).await;
        assert_eq!(read(&config.directory).unwrap().unwrap().get(stands.id).unwrap(), None);
        assert!(!sound.exists() && !is_in_a_file(folder.path(), SECRET));
        assert_eq!((counters.kept.get(), counters.waiting.get()), (0, 0));
    }
}

/// Whatever the engine that was killed left of it: its record on the way, in the archive, or its sound.
#[tokio::test]
async fn a_deletion_outlives_the_engine() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (records, _counters) = started(&config);
    let calls = [(); 3].map(|()| beginning(&config));
    calls.iter().for_each(|call| records.begun(call.clone()));
    until("they are written down", || begun(&config) == 3).await;
    for call in &calls {
        assert!(delete(&config.directory, call.id).unwrap().stands);
    }
    records.finish(Duration::from_secs(5)).await;
    assert_eq!(spooled(&config).len(), 3);
    let said = record(&config, &Timestamp::now().to_string(), SECRET, EndReason::CallerHungUp);
    let of = |call: &Record| Record { id: call.id, ..said.clone() };
    let name = format!("{:015}-{}.json", said.began.as_millisecond(), calls[0].id);
    fs::write(config.directory.join("spool").join(name), serde_json::to_vec(&of(&calls[0])).unwrap()).unwrap();
    Sqlite::open(&archive_file(&config.directory)).unwrap().put(&[of(&calls[1])]).unwrap();
    let sound = recording_file(&config.directory, calls[2].id);
    fs::create_dir_all(sound.parent().unwrap()).unwrap();
    fs::write(&sound, "sound").unwrap();
    let (records, counters) = started(&config);
    until("it is done", || spooled(&config).is_empty()).await;
    records.finish(Duration::from_secs(5)).await;
    assert_eq!(found(&*read(&config.directory).unwrap().unwrap(), Search::default()), []);
    assert!(counters.kept.get() == 0 && !sound.exists());
}

#[test]
fn a_deletion_is_forgotten_when_the_record_would_be_too_old_to_be_kept() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let spool = Spool::open(&config.directory).unwrap();
    spool.remember_deletion(CallId::random()).unwrap();
    spool.expire_deletions(SystemTime::now() - Duration::from_secs(60)).unwrap();
    assert_eq!(spooled(&config).len(), 1);
    spool.expire_deletions(SystemTime::now() + Duration::from_secs(60)).unwrap();
    assert_eq!(spooled(&config).len(), 0);
}

/// Somebody reads for a long time, as a backup does, and keeps the journal from being emptied.
#[tokio::test]
async fn what_was_deleted_leaves_the_journal_when_nobody_reads_any_more() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (records, counters) = started(&config);
    let gone = record(&config, &Timestamp::now().to_string(), SECRET, EndReason::CallerHungUp);
    records.keep(gone.clone());
    until("it is archived", || counters.kept.get() == 1).await;
    let other = rusqlite::Connection::open(archive_file(&config.directory)).unwrap();
    other.execute_batch("BEGIN; SELECT count(*) FROM calls").unwrap();
    let deleted = delete(&config.directory, gone.id).unwrap();
    assert_eq!(deleted, Deleted { found: true, stands: false, lingers: true });
    assert!(is_in_a_file(folder.path(), SECRET));
    let again = || counters.retries.with_label_values(&["journal"]).get();
    tokio::time::pause();
    tokio::time::advance(TIDY_EVERY).await;
    until("it is tried", || again() >= 1).await;
    assert!(is_in_a_file(folder.path(), SECRET));
    other.execute_batch("COMMIT").unwrap();
    until("it is gone", || !is_in_a_file(folder.path(), SECRET)).await;
    records.finish(Duration::from_secs(5)).await;
}
