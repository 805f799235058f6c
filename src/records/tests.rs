use super::*;
use crate::{
    call::{EndReason, Note, Speaker, TurnTimes},
    facts::{CallFacts, Direction, Party},
    redact::Redacted,
    tool::{Audit, Mode},
};
use jiff::Timestamp;
use prometheus::Registry;
use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::SystemTime};
use tempfile::TempDir;
use tokio::time::sleep;

mod amended;
mod archive;
mod deletion;
mod faults;
mod killed;

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
        variables: Redacted::default(),
        residency: crate::facts::Residency::Any,
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

fn found(archive: &dyn Archive, search: Search) -> Vec<CallId> {
    let rows = archive.find(&Search { limit: 100, ..search }).unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

fn archive_file(directory: &Path) -> PathBuf {
    directory.join("calls.sqlite3")
}

/// The names of the spool's files.
fn spooled(config: &RecordsConfig) -> Vec<String> {
    let names = all_files(&config.directory.join("spool")).into_iter();
    let names = names.map(|file| file.file_name().unwrap().to_string_lossy().into_owned());
    names.filter(|name| name != ".lock").collect()
}

fn begun(config: &RecordsConfig) -> usize {
    spooled(config).iter().filter(|name| name.ends_with(".begun")).count()
}

fn started(config: &RecordsConfig) -> (Records, RecordCounters) {
    let (_registry, counters) = counters();
    (Records::start(config, counters.clone()).unwrap(), counters)
}

/// What is known of a call that has just begun.
fn beginning(config: &RecordsConfig) -> Record {
    let facts = facts("front");
    let close = Close::of_a_beginning(&facts, 4, "rtp", Format::ULAW);
    Diary::new(config, Timestamp::now()).close(&facts, close)
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
fn who_has_taken_the_caller_s_place_is_told_where_numbers_are_kept() {
    let folder = TempDir::new().unwrap();
    for numbers in [true, false] {
        let mut diary = Diary::new(&RecordsConfig { numbers, ..config(&folder) }, Timestamp::UNIX_EPOCH);
        let carol = Party { name: Some("Carol".to_owned()).into(), number: Some(NUMBER.to_owned()).into() };
        for note in [Note::PartyChanged(carol.clone()), Note::PartyKnown(carol)] {
            diary.note(Duration::ZERO, &note);
        }
        let record = diary.close(&CallFacts::new(CallId::random(), "front", "main"), close(EndReason::CallerHungUp));
        let json = serde_json::to_value(&record).unwrap();
        for (entry, event) in ["party_changed", "party_known"].into_iter().enumerate() {
            let told = &json["entries"][entry];
            assert_eq!((told["event"].as_str(), told["number"].is_string()), (Some(event), numbers), "{told}");
            assert_eq!(told["name"].as_str(), numbers.then_some("Carol"), "{told}");
        }
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

fn counters() -> (Registry, RecordCounters) {
    let registry = Registry::new();
    let counters = RecordCounters::new(&registry);
    (registry, counters)
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = timeout(Duration::from_secs(60), async {
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
    let gone = Deleted { found: true, stands: false, lingers: false };
    assert_eq!(delete(&config.directory, record.id).unwrap(), gone);
    assert_eq!(delete(&config.directory, record.id).unwrap(), Deleted { found: false, ..gone });
    assert_eq!(spooled(&config), [] as [String; 0]);
}

#[tokio::test]
async fn old_records_are_deleted_when_the_engine_starts() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    fs::create_dir_all(&config.directory).unwrap();
    let mut archive = Sqlite::open(&archive_file(&config.directory)).unwrap();
    let [old, new] = ["2020-01-01T10:00:00Z", &Timestamp::now().to_string()]
        .map(|began| record(&config, began, SECRET, EndReason::CallerHungUp));
    archive.put(&[old, new.clone()]).unwrap();
    let (_registry, counters) = counters();
    let records = Records::start(&config, counters.clone()).unwrap();
    until("it is deleted", || counters.expired.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
    assert_eq!(found(&archive, Search::default()), [new.id]);
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

#[tokio::test]
async fn two_engines_never_keep_their_records_in_one_folder() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (records, _counters) = started(&config);
    let stands = beginning(&config);
    records.begun(stands.clone());
    until("it is written down", || begun(&config) == 1).await;
    let (_registry, others) = counters();
    let error = Records::start(&config, others).err().unwrap();
    assert!(matches!(error, OpenError::Taken { .. }), "{error}");
    let told = error.to_string();
    let place = config.directory.display().to_string();
    assert!([place.as_str(), ".lock", "records.directory"].iter().all(|part| told.contains(part)), "{told}");
    assert_eq!(begun(&config), 1, "the first one's call still stands");
    assert!(read(&config.directory).unwrap().is_some(), "whoever only reads is no second engine");
    records.finish(Duration::from_secs(5)).await;
    let (next, _counters) = started(&config);
    next.finish(Duration::from_secs(5)).await;
}

/// An archive that is no file at all.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<Record>>>);

impl Memory {
    fn open(&self) -> Result<Box<dyn Archive>, ArchiveError> {
        Ok(Box::new(self.clone()))
    }
}

impl Access for Memory {
    fn open(&self) -> Result<Box<dyn Archive>, ArchiveError> {
        self.open()
    }

    fn existing(&self) -> Result<Option<Box<dyn Archive>>, ArchiveError> {
        self.open().map(Some)
    }

    fn read_only(&self) -> Result<Box<dyn Archive>, ArchiveError> {
        self.open()
    }
}

impl Archive for Memory {
    fn put(&mut self, records: &[Record]) -> Result<(), ArchiveError> {
        self.0.lock().unwrap().extend_from_slice(records);
        Ok(())
    }

    fn amend(&mut self, amendment: &Amendment) -> Result<(), ArchiveError> {
        let mut records = self.0.lock().unwrap();
        records.iter_mut().filter(|record| record.id == amendment.id).for_each(|record| record.amend(amendment));
        Ok(())
    }

    fn find(&self, _search: &Search) -> Result<Vec<Row>, ArchiveError> {
        Err(ArchiveError::Database("this one cannot search".into()))
    }

    fn hours(&self, _since: Timestamp, _until: Timestamp) -> Result<Vec<Hour>, ArchiveError> {
        Ok(Vec::new())
    }

    fn get(&self, id: CallId) -> Result<Option<Record>, ArchiveError> {
        Ok(self.0.lock().unwrap().iter().find(|record| record.id == id).cloned())
    }

    fn delete(&mut self, id: CallId) -> Result<bool, ArchiveError> {
        let mut records = self.0.lock().unwrap();
        let before = records.len();
        records.retain(|record| record.id != id);
        Ok(records.len() < before)
    }

    fn expire(&mut self, _before: Timestamp, _max: usize) -> Result<usize, ArchiveError> {
        Ok(0)
    }

    fn tidy(&mut self) -> Result<bool, ArchiveError> {
        Ok(true)
    }

    fn answer_before(&mut self, _deadline: tokio::time::Instant) -> Result<(), ArchiveError> {
        Ok(())
    }
}

#[tokio::test]
async fn records_are_written_read_and_deleted_in_whatever_database() {
    let folder = TempDir::new().unwrap();
    let (config, memory) = (config(&folder), Memory::default());
    let (_registry, counters) = counters();
    let spool = Spool::open(&config.directory).unwrap();
    let records = Records::with(spool, memory.open().unwrap(), &config, counters.clone()).unwrap();
    let record = record(&config, &Timestamp::now().to_string(), SECRET, EndReason::CallerHungUp);
    records.keep(record.clone());
    until("it is archived", || counters.kept.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
    let reader = Reader::by(&config.directory, Box::new(memory));
    assert_eq!(reader.get(record.id).await.unwrap(), Some(record.clone()));
    let told = reader.find(Search::default()).await.err().unwrap().to_string();
    assert!(told.contains("this one cannot search"), "{told}");
    assert!(reader.delete(record.id).await.unwrap().found);
    assert_eq!(reader.get(record.id).await.unwrap(), None);
    assert!(!archive_file(&config.directory).exists());
}
