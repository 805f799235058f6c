use super::*;
use crate::{
    call::{EndReason, Note, Speaker, TurnTimes},
    facts::{CallFacts, Direction},
    redact::Redacted,
    tool::{Audit, Mode},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};
use tempfile::TempDir;

const SECRET: &str = "zanzibar";
const NUMBER: &str = "+4930901820";

fn config(folder: &TempDir) -> RecordsConfig {
    let keep = Duration::from_secs(30 * 24 * 60 * 60);
    RecordsConfig { directory: folder.path().join("records"), keep, keep_recordings: keep, words: true, numbers: true }
}

fn facts(context: &str) -> CallFacts {
    CallFacts {
        id: CallId::random(),
        context: context.into(),
        provider: "main".into(),
        direction: Direction::Inbound,
        caller_name: Redacted::new(Some("Ada Byron".into())),
        caller_number: Redacted::new(Some(NUMBER.into())),
        dialled_number: Redacted::new(Some("7000".into())),
        campaign_id: None,
        lead_id: None,
    }
}

fn said(speaker: Speaker, text: &str) -> Note {
    Note::Said { speaker, text: text.to_owned().into() }
}

fn close(reason: EndReason) -> Close {
    Close {
        context: "front".into(),
        provider: "main".into(),
        seconds: 83.25,
        generation: 4,
        transport: "rtp".into(),
        format: "ulaw".into(),
        reason: Ending::from(reason),
        counts: Counts { agent_turns: 3, tool_calls: 1, ..Counts::default() },
        usage: vec![Used {
            provider: "main".into(),
            tokens: std::iter::once(("output_audio".into(), 300)).collect(),
            transcribed_seconds: 0.0,
            connected_seconds: 83.2,
            cost: Some(Cost {
                amount: 0.0192,
                currency: "EUR".into(),
                price_date: "2026-11-20".into(),
                unpriced: Vec::new(),
            }),
        }],
        recording: None,
    }
}

/// A call of the front desk, in which these words were said.
fn record(config: &RecordsConfig, began: &str, words: &str, reason: EndReason) -> Record {
    let mut diary = Diary::new(config, began.parse().unwrap());
    diary.note(Duration::from_millis(1_500), &said(Speaker::Caller, words));
    diary.close(&facts("front"), close(reason))
}

fn archive(folder: &TempDir) -> Sqlite {
    Sqlite::open(&folder.path().join("calls.sqlite3")).unwrap()
}

fn found(archive: &Sqlite, search: Search) -> Vec<CallId> {
    let rows = archive.find(&Search { limit: 100, ..search }).unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { all_files(&path) } else { vec![path] }).collect()
}

fn is_in_a_file(folder: &Path, words: &str) -> bool {
    let holds = |file: &PathBuf| String::from_utf8_lossy(&fs::read(file).unwrap()).contains(words);
    all_files(folder).iter().any(holds)
}

#[test]
fn what_happened_in_a_call_is_written_down_with_its_time() {
    let folder = TempDir::new().unwrap();
    let mut diary = Diary::new(&config(&folder), "2026-11-20T10:00:00Z".parse().unwrap());
    let ms = Duration::from_millis;
    diary.note(ms(40), &Note::Answered);
    diary.note(ms(2_000), &said(Speaker::Caller, SECRET));
    diary.note(ms(2_500), &Note::Digit(Redacted::new('7')));
    diary.note(ms(3_000), &Note::BargeIn { heard: ms(640) });
    diary.note(ms(3_200), &Note::Audit(Box::new(Audit::new("c1".into(), "s1", Mode::Voice, "1.0.00000000", 1))));
    let times = TurnTimes {
        turn: 2,
        endpointing: ms(600),
        thinking: ms(300),
        speaking: ms(80),
        playout: ms(20),
        tools: true,
        filled: false,
    };
    diary.turn(ms(4_000), "main", &times);
    diary.used(TurnUsed { turn: 2, used: close(EndReason::CallerHungUp).usage.remove(0) });
    let record = diary.close(&facts("front"), close(EndReason::CallerHungUp));
    let json = serde_json::to_value(&record).unwrap();
    let mut entries = json["entries"].as_array().unwrap().clone();
    let tool = entries.pop().unwrap();
    assert_eq!((&tool["event"], &tool["audit"]["callId"]), (&"tool".into(), &"c1".into()));
    assert_eq!(
        serde_json::Value::from(entries),
        serde_json::json!([
            { "at_ms": 40, "event": "answered" },
            { "at_ms": 2_000, "event": "said", "speaker": "caller", "text": SECRET },
            { "at_ms": 2_500, "event": "key" },
            { "at_ms": 3_000, "event": "barge_in", "heard_ms": 640 },
        ]),
        "which key is nobody's business"
    );
    assert_eq!((&json["turns"][0]["endpointing_ms"], &json["turns"][0]["tools"]), (&600.into(), &true.into()));
    let used = &json["turn_usage"][0];
    assert_eq!(
        (&used["turn"], &used["provider"], &used["cost"]["amount"]),
        (&2.into(), &"main".into(), &0.0192.into())
    );
    assert_eq!((&json["reason"]["label"], &json["reason"]["class"]), (&"caller_hung_up".into(), &"normal".into()));
    assert_eq!((&json["caller_number"], &json["direction"]), (&NUMBER.into(), &"inbound".into()));
    assert!(!format!("{record:?}").contains(SECRET) && !format!("{record:?}").contains(NUMBER), "{record:?}");
    assert_eq!(serde_json::from_value::<Record>(json).unwrap(), record, "and it is read as it was written");
}

#[test]
fn words_and_numbers_are_not_kept_where_that_is_switched_off() {
    let folder = TempDir::new().unwrap();
    let config = RecordsConfig { words: false, numbers: false, ..config(&folder) };
    let record = record(&config, "2026-11-20T10:00:00Z", SECRET, EndReason::CallerHungUp);
    let text = serde_json::to_string(&record).unwrap();
    for private in [SECRET, NUMBER, "7000", "Byron"] {
        assert!(!text.contains(private), "{private} in {text}");
    }
}

#[test]
fn a_record_has_a_limit_and_says_what_it_left_out() {
    let folder = TempDir::new().unwrap();
    let mut diary = Diary::new(&config(&folder), Timestamp::UNIX_EPOCH);
    for _ in 0..100 {
        diary.note(Duration::ZERO, &said(Speaker::Agent, &"x".repeat(10_000)));
    }
    for _ in 0..10_000 {
        diary.note(Duration::ZERO, &Note::AgentSpeaks);
    }
    let record = diary.close(&facts("front"), close(EndReason::CallerHungUp));
    assert_eq!((record.entries.len(), record.left_out), (6_000, 4_100));
    assert!(serde_json::to_vec(&record).unwrap().len() < 1_000_000);
}

#[test]
fn calls_are_found_by_when_who_why_and_what_was_said() {
    let folder = TempDir::new().unwrap();
    let (config, mut archive) = (config(&folder), archive(&folder));
    let first = record(&config, "2026-11-19T10:00:00Z", "Wann haben Sie geöffnet?", EndReason::CallerHungUp);
    let mut second = record(&config, "2026-11-20T10:00:00Z", "I want a red boat.", EndReason::EngineFault);
    (second.context, second.provider) = ("sales".into(), "spare".into());
    second.caller_number = Some("15550199".into());
    let third = record(&config, "2026-11-21T10:00:00Z", "A red house, and a boat.", EndReason::CallerHungUp);
    archive.put(&[first.clone(), second.clone(), third.clone()]).unwrap();
    archive.put(&[second.clone()]).unwrap();
    let time = |text: &str| Some(text.parse().unwrap());
    let text = |text: &str| Some(text.to_owned());
    let (first, second, third) = (first.id, second.id, third.id);
    for (search, expected) in [
        (Search::default(), vec![third, second, first]),
        (Search { since: time("2026-11-20T10:00:00Z"), ..Search::default() }, vec![third, second]),
        (Search { until: time("2026-11-20T10:00:00Z"), ..Search::default() }, vec![first]),
        (Search { context: text("sales"), ..Search::default() }, vec![second]),
        (Search { provider: text("main"), ..Search::default() }, vec![third, first]),
        (Search { reason: text("caller_hung_up"), ..Search::default() }, vec![third, first]),
        (Search { reason: text("engine"), ..Search::default() }, vec![second]),
        (Search { number: text("0199"), ..Search::default() }, vec![second]),
        (Search { number: text("7000"), context: text("sales"), ..Search::default() }, vec![second]),
        (Search { number: text("199"), words: text("red"), reason: text("engine"), ..Search::default() }, vec![second]),
        (Search { number: text(""), words: text(" "), ..Search::default() }, vec![third, second, first]),
        (Search { words: text("boat red"), ..Search::default() }, vec![third, second]),
        (Search { words: text("GEOFFNET"), ..Search::default() }, vec![first]),
        (Search { words: text("\"red\" OR (boat* NEAR"), ..Search::default() }, vec![]),
    ] {
        assert_eq!(found(&archive, search.clone()), expected, "{:?} {:?}", search.words, search.reason);
    }
    let page = archive.find(&Search { limit: 2, ..Search::default() }).unwrap();
    assert_eq!(found(&archive, Search { after: Some(page[1].row), ..Search::default() }), [first]);
    let row = &page[1];
    assert_eq!((row.class.as_str(), row.turns, row.tool_calls, row.cost), ("engine", 3, 1, Some(0.0192)));
    assert_eq!(archive.get(second).unwrap().unwrap().context, "sales");
    assert_eq!(archive.get(CallId::random()).unwrap(), None);
}

#[test]
fn nothing_of_a_deleted_call_stays_in_a_file() {
    let folder = TempDir::new().unwrap();
    let (config, mut archive) = (config(&folder), archive(&folder));
    let kept = record(&config, "2026-11-19T10:00:00Z", "something else", EndReason::CallerHungUp);
    let gone = record(&config, "2026-11-19T10:00:00Z", &format!("from {SECRET} with love"), EndReason::CallerHungUp);
    archive.put(&[kept.clone(), gone.clone()]).unwrap();
    assert!(is_in_a_file(folder.path(), SECRET));
    assert!(archive.delete(gone.id).unwrap());
    assert!(!archive.delete(gone.id).unwrap(), "it is gone");
    assert!(!is_in_a_file(folder.path(), SECRET) && !is_in_a_file(folder.path(), &gone.id.to_string()));
    assert_eq!(found(&archive, Search { words: Some("love".into()), ..Search::default() }), []);
    assert_eq!(found(&archive, Search::default()), [kept.id]);
}

#[test]
fn what_is_older_than_it_may_be_is_deleted_a_batch_at_a_time() {
    let folder = TempDir::new().unwrap();
    let (config, mut archive) = (config(&folder), archive(&folder));
    let old = |day: u32| record(&config, &format!("2026-10-{day:02}T10:00:00Z"), SECRET, EndReason::CallerHungUp);
    let new = record(&config, "2026-11-20T10:00:00Z", "something else", EndReason::CallerHungUp);
    archive.put(&[old(1), old(2), new.clone(), old(3)]).unwrap();
    let before = "2026-11-01T00:00:00Z".parse().unwrap();
    assert_eq!(
        [archive.expire(before, 2), archive.expire(before, 2), archive.expire(before, 2)].map(Result::unwrap),
        [2, 1, 0]
    );
    assert_eq!(found(&archive, Search::default()), [new.id]);
    assert!(!is_in_a_file(folder.path(), SECRET));
}

#[test]
fn an_archive_of_a_later_version_is_left_alone() {
    let folder = TempDir::new().unwrap();
    drop(archive(&folder));
    let file = folder.path().join("calls.sqlite3");
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Sqlite::open(&file).err().unwrap().to_string();
    assert!(error.contains("schema 99") && error.contains("later version"), "{error}");
    fs::write(&file, "no database at all, and long enough to be taken for one").unwrap();
    let error = Sqlite::open(&file).err().unwrap().to_string();
    assert!(error.contains("calls.sqlite3"), "{error}");
}

#[test]
fn an_archive_of_an_earlier_version_is_brought_up_to_date_with_what_it_holds() {
    let folder = TempDir::new().unwrap();
    let mut old = archive(&folder);
    let kept = record(&config(&folder), "2026-11-20T10:40:00Z", "Hello.", EndReason::CallerHungUp);
    old.put(std::slice::from_ref(&kept)).unwrap();
    drop(old);
    let file = folder.path().join("calls.sqlite3");
    let first = rusqlite::Connection::open(&file).unwrap();
    first.execute_batch("DROP INDEX calls_hours; PRAGMA user_version = 1").unwrap();
    drop(first);
    let archive = Sqlite::open(&file).unwrap();
    assert_eq!(found(&archive, Search::default()), [kept.id]);
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE name = 'calls_hours'";
    let made: i64 = rusqlite::Connection::open(&file).unwrap().query_row(indexes, [], |row| row.get(0)).unwrap();
    assert_eq!(made, 1);
    let at = |time: &str| time.parse().unwrap();
    let hours = archive.hours(at("2026-11-20T10:30:00Z"), at("2026-11-20T10:50:00Z")).unwrap();
    let [hour] = &hours[..] else { panic!("{hours:?}") };
    assert_eq!((hour.began, hour.calls), (at("2026-11-20T10:00:00Z"), 1));
}

/// An archive that does what a test says.
struct Moody {
    works: Arc<AtomicBool>,
    archive: Sqlite,
}

impl Archive for Moody {
    fn put(&mut self, records: &[Record]) -> Result<(), ArchiveError> {
        if records.is_empty() || self.works.load(Ordering::SeqCst) {
            return self.archive.put(records);
        }
        Err(ArchiveError::Failed("the test says no".into()))
    }

    fn find(&self, search: &Search) -> Result<Vec<Row>, ArchiveError> {
        self.archive.find(search)
    }

    fn hours(&self, since: Timestamp, until: Timestamp) -> Result<Vec<Hour>, ArchiveError> {
        self.archive.hours(since, until)
    }

    fn get(&self, id: CallId) -> Result<Option<Record>, ArchiveError> {
        self.archive.get(id)
    }

    fn delete(&mut self, id: CallId) -> Result<bool, ArchiveError> {
        self.archive.delete(id)
    }

    fn expire(&mut self, before: Timestamp, max: usize) -> Result<usize, ArchiveError> {
        self.archive.expire(before, max)
    }
}

fn counters() -> (Registry, RecordCounters) {
    let registry = Registry::new();
    let counters = RecordCounters::new(&registry);
    (registry, counters)
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = timeout(Duration::from_secs(20), async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn a_record_reaches_the_archive_and_only_its_owner_may_read_the_files() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (_registry, counters) = counters();
    let records = Records::start(&config, counters.clone()).unwrap();
    let record = record(&config, &Timestamp::now().to_string(), SECRET, EndReason::CallerHungUp);
    records.keep(record.clone());
    until("it is archived", || counters.kept.get() == 1).await;
    let archive = read(&config.directory).unwrap().unwrap();
    assert_eq!(archive.get(record.id).unwrap(), Some(record.clone()));
    assert_eq!(counters.waiting.get(), 0);
    records.finish(Duration::from_secs(5)).await;
    for file in all_files(&config.directory) {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0, "{}", file.display());
    }
    assert!(delete(&config.directory, record.id).unwrap());
    assert!(!delete(&config.directory, record.id).unwrap());
}

/// The engine may even be stopped meanwhile.
#[tokio::test]
async fn a_database_that_takes_nothing_loses_no_record() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (works, file) = (Arc::new(AtomicBool::new(false)), archive_file(&config.directory));
    let spool = || Spool::open(&config.directory.join("spool")).unwrap();
    let moody = |spool| {
        let archive = Sqlite::open(&file).unwrap();
        let (_registry, counters) = counters();
        let archive = Moody { works: Arc::clone(&works), archive };
        (Records::with(spool, Box::new(archive), &config, counters.clone()).unwrap(), counters)
    };
    let (records, counters) = moody(spool());
    let now = Timestamp::now().to_string();
    let [first, second, third] = [(); 3].map(|()| record(&config, &now, SECRET, EndReason::CallerHungUp));
    for record in [&first, &second] {
        records.keep(record.clone());
    }
    let retries = |counters: &RecordCounters| counters.retries.with_label_values(&["archive"]).get();
    until("it was tried", || retries(&counters) >= 1 && counters.waiting.get() == 2).await;
    records.keep(third.clone());
    records.finish(Duration::from_secs(10)).await;
    assert_eq!((counters.kept.get(), counters.lost.with_label_values(&["stopped"]).get()), (0, 0));
    // One of them is deleted on request before it ever reached the archive.
    assert!(delete(&config.directory, second.id).unwrap());
    works.store(true, Ordering::SeqCst);
    let (records, counters) = moody(spool());
    until("they are archived", || counters.kept.get() == 2).await;
    records.finish(Duration::from_secs(5)).await;
    let archive = read(&config.directory).unwrap().unwrap();
    assert_eq!([&first, &second, &third].map(|record| archive.get(record.id).unwrap().is_some()), [true, false, true]);
    assert_eq!(spool().count().unwrap(), 0);
}

/// Nothing is known of its end, but that there was a call, whose, and why there is no more to tell.
#[tokio::test]
async fn a_call_that_stands_when_the_engine_is_killed_has_a_record_that_says_so() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let started = || {
        let (_registry, counters) = counters();
        (Records::start(&config, counters.clone()).unwrap(), counters)
    };
    let beginning = || {
        let facts = facts("front");
        let close = Close::of_a_beginning(&facts, 4, "rtp", Format::ULAW);
        Diary::new(&config, Timestamp::now()).close(&facts, close)
    };
    let [stands, ends] = [(); 2].map(|()| beginning());
    let (records, counters) = started();
    records.begun(stands.clone());
    records.begun(ends.clone());
    let ended = Record { reason: Ending::from(EndReason::CallerHungUp), seconds: 9.0, ..ends.clone() };
    records.keep(ended.clone());
    until("it is archived", || counters.kept.get() == 1).await;
    let names: Vec<_> = all_files(&config.directory.join("spool"));
    assert_eq!(names.len(), 1, "of the one that stands: {names:?}");
    // Nobody says that the other one has ended.
    records.finish(Duration::from_secs(5)).await;
    let (records, counters) = started();
    until("it is archived", || counters.kept.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
    let archive = read(&config.directory).unwrap().unwrap();
    assert_eq!(archive.get(stands.id).unwrap(), Some(stands.clone()));
    assert_eq!((stands.reason.label.as_str(), stands.reason.class.as_str()), ("engine_killed", "engine"));
    assert_eq!(archive.get(ends.id).unwrap(), Some(ended), "the other one's is its own");
}

/// Killed between the end of a call and the removal of what its beginning left.
#[test]
fn a_beginning_whose_end_is_there_is_no_call_of_its_own() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let spool = Spool::open(&config.directory.join("spool")).unwrap();
    let ended = record(&config, "2026-11-20T10:00:00Z", SECRET, EndReason::CallerHungUp);
    spool.put(&ended).unwrap();
    spool.begin(&Record { reason: Ending::killed(), ..ended.clone() }).unwrap();
    let spool = Spool::open(&config.directory.join("spool")).unwrap();
    assert_eq!(spool.batch(9).unwrap().records, std::slice::from_ref(&ended));
    assert!(spool.delete(ended.id).unwrap());
    assert!(all_files(&config.directory).is_empty());
}

/// Somebody else writes to the file all the time.
#[tokio::test]
async fn a_locked_database_is_asked_again() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (_registry, counters) = counters();
    let records = Records::start(&config, counters.clone()).unwrap();
    let other = rusqlite::Connection::open(archive_file(&config.directory)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    records.keep(record(&config, &Timestamp::now().to_string(), SECRET, EndReason::CallerHungUp));
    until("it is locked", || counters.retries.with_label_values(&["archive"]).get() >= 1).await;
    assert_eq!(counters.kept.get(), 0);
    other.execute_batch("COMMIT").unwrap();
    until("it is archived", || counters.kept.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_disk_that_takes_nothing_is_waited_for_within_bounds_and_what_is_lost_is_counted() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (_registry, counters) = counters();
    let records = Records::start(&config, counters.clone()).unwrap();
    let spool = config.directory.join("spool");
    fs::remove_dir(&spool).unwrap();
    let now = Timestamp::now().to_string();
    let retried = || counters.retries.with_label_values(&["spool"]).get() >= 1;
    records.keep(record(&config, &now, "first", EndReason::CallerHungUp));
    until("it is tried", retried).await;
    for _ in 0..=WAITING_MAX {
        records.keep(record(&config, &now, "more", EndReason::CallerHungUp));
    }
    let lost = |why: &str| counters.lost.with_label_values(&[why]).get();
    assert_eq!(lost("full"), 1, "one was under way, and so many wait");
    fs::create_dir(&spool).unwrap();
    until("all are archived", || counters.kept.get() == WAITING_MAX as u64 + 1).await;
    records.finish(Duration::from_secs(5)).await;
    assert_eq!((lost("full"), lost("stopped")), (1, 0));
}

#[tokio::test]
async fn a_file_that_holds_no_record_is_put_aside_and_half_a_file_is_nobodys() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let spool = config.directory.join("spool");
    fs::create_dir_all(&spool).unwrap();
    fs::write(spool.join("0-a.json"), "{\"id\": 7}").unwrap();
    fs::write(spool.join("0-b.part"), "{\"id\":").unwrap();
    let (_registry, counters) = counters();
    let records = Records::start(&config, counters.clone()).unwrap();
    records.keep(record(&config, &Timestamp::now().to_string(), SECRET, EndReason::CallerHungUp));
    until("the record is archived", || counters.kept.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
    assert_eq!(counters.lost.with_label_values(&["unreadable"]).get(), 1);
    let names: Vec<_> = all_files(&spool).iter().map(|file| file.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["0-a.unreadable"]);
}

#[tokio::test]
async fn old_records_are_deleted_when_the_engine_starts() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    fs::create_dir_all(&config.directory).unwrap();
    let mut archive = Sqlite::open(&archive_file(&config.directory)).unwrap();
    archive.put(&[record(&config, "2020-01-01T10:00:00Z", SECRET, EndReason::CallerHungUp)]).unwrap();
    let (_registry, counters) = counters();
    let records = Records::start(&config, counters.clone()).unwrap();
    until("it is deleted", || counters.expired.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
    assert_eq!(found(&archive, Search::default()), []);
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
    assert!(delete(&config.directory, asked).unwrap() && !delete(&config.directory, asked).unwrap());
    let (_registry, counters) = counters();
    let records = Records::start(&config, counters.clone()).unwrap();
    until("it is deleted", || counters.recordings.expired.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
    assert_eq!([asked, old, new].map(|id| file(&id).exists()), [false, false, true]);
}

#[test]
fn a_folder_that_cannot_be_written_is_told_with_its_remedy() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let config = RecordsConfig { directory: folder.path().join("file"), ..config(&folder) };
    let (_registry, counters) = counters();
    let error = Records::start(&config, counters).err().unwrap().to_string();
    assert!(error.contains("records.directory") && error.contains("file"), "{error}");
}
