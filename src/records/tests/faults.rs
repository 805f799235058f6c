//! Disks and databases that are slow, full, locked, or hold what they should not.

use super::*;
use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
    mpsc,
};
use tokio::{sync::mpsc as channel, task::yield_now, time::Instant};

/// An archive that does what a test says.
struct Moody {
    works: Arc<AtomicBool>,
    /// Where it does not work, there is no room; else it says no.
    fills: bool,
    /// What it is asked takes as long as the test likes.
    hold: Option<Hold>,
    archive: Sqlite,
}

#[derive(Clone)]
struct Hold {
    deadline: Option<Instant>,
    /// Told whenever a question begins, by when it has to be answered.
    asked: channel::Sender<Option<Instant>>,
    go: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Hold {
    /// With what hears of questions; they are answered when the last part is dropped.
    fn new() -> (Self, channel::Receiver<Option<Instant>>, mpsc::Sender<()>) {
        let ((asked, heard), (go, wait)) = (channel::channel(16), mpsc::channel());
        (Self { deadline: None, asked, go: Arc::new(Mutex::new(wait)) }, heard, go)
    }

    fn wait(&self) {
        let _ = self.asked.try_send(self.deadline);
        let _ = self.go.lock().unwrap().recv();
    }
}

impl Archive for Moody {
    fn put(&mut self, records: &[Record]) -> Result<(), ArchiveError> {
        if let Some(hold) = self.hold.as_ref().filter(|_| !records.is_empty()) {
            hold.wait();
        }
        let works = records.is_empty() || self.works.load(Ordering::SeqCst);
        if works || self.fills {
            self.archive.limit_to(if works { u32::MAX - 1 } else { 1 });
            return self.archive.put(records);
        }
        Err(ArchiveError::Failed("the test says no".into()))
    }

    fn amend(&mut self, amendment: &Amendment) -> Result<(), ArchiveError> {
        self.archive.amend(amendment)
    }

    fn find(&self, search: &Search) -> Result<Vec<Row>, ArchiveError> {
        self.archive.find(search)
    }

    fn hours(&self, since: Timestamp, until: Timestamp) -> Result<Vec<Hour>, ArchiveError> {
        self.archive.hours(since, until)
    }

    fn get(&self, id: CallId) -> Result<Option<Record>, ArchiveError> {
        self.hold.iter().for_each(Hold::wait);
        self.archive.get(id)
    }

    fn delete(&mut self, id: CallId) -> Result<bool, ArchiveError> {
        self.archive.delete(id)
    }

    fn expire(&mut self, before: Timestamp, max: usize) -> Result<usize, ArchiveError> {
        self.archive.expire(before, max)
    }

    fn tidy(&mut self) -> Result<bool, ArchiveError> {
        self.archive.tidy()
    }

    fn answer_before(&mut self, deadline: Instant) -> Result<(), ArchiveError> {
        self.hold.iter_mut().for_each(|hold| hold.deadline = Some(deadline));
        self.archive.answer_before(deadline)
    }
}

/// Such archives of one file, for reading.
struct Slow(PathBuf, Hold);

impl Access for Slow {
    fn open(&self) -> Result<Box<dyn Archive>, ArchiveError> {
        let archive = Sqlite::open(&self.0)?;
        Ok(Box::new(Moody { works: Arc::new(true.into()), fills: false, hold: Some(self.1.clone()), archive }))
    }

    fn existing(&self) -> Result<Option<Box<dyn Archive>>, ArchiveError> {
        self.open().map(Some)
    }

    fn read_only(&self) -> Result<Box<dyn Archive>, ArchiveError> {
        self.open()
    }
}

/// Whoever keeps a record does not wait, and what comes meanwhile is on the disk already.
#[tokio::test]
async fn a_slow_database_holds_up_nobody_and_loses_no_record() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (_registry, counters) = counters();
    let (hold, mut asked, go) = Hold::new();
    let spool = Spool::open(&config.directory).unwrap();
    let archive = Slow(archive_file(&config.directory), hold).open().unwrap();
    let records = Records::with(spool, archive, &config, counters.clone()).unwrap();
    let keep = || records.keep(record(&config, &Timestamp::now().to_string(), SECRET, EndReason::CallerHungUp));
    keep();
    asked.recv().await.unwrap();
    (0..9).for_each(|_| keep());
    // Each is counted a moment after its file is there.
    until("all are in the spool", || spooled(&config).len() == 10 && counters.waiting.get() == 10).await;
    let retries = counters.retries.with_label_values(&["archive"]).get();
    assert_eq!((counters.kept.get(), retries), (0, 0));
    drop(go);
    until("all are archived", || counters.kept.get() == 10).await;
    records.finish(Duration::from_secs(5)).await;
    assert_eq!(found(&*read(&config.directory).unwrap().unwrap(), Search::default()).len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_five_seconds_for_its_turn_and_is_told_then_that_too_many_are_asked() {
    let folder = TempDir::new().unwrap();
    let (hold, mut asked, go) = Hold::new();
    let reader = Reader::by(folder.path(), Box::new(Slow(archive_file(folder.path()), hold)));
    let ask = || {
        let reader = reader.clone();
        tokio::spawn(async move { reader.get(CallId::random()).await })
    };
    let under_way = [ask(), ask()];
    for _ in &under_way {
        let deadline = asked.recv().await.unwrap().expect("an answer has to come in time");
        assert_eq!(deadline - Instant::now(), Duration::from_secs(5));
    }
    let third = ask();
    yield_now().await;
    tokio::time::advance(Duration::from_millis(4_900)).await;
    yield_now().await;
    assert!(!third.is_finished());
    tokio::time::advance(Duration::from_millis(200)).await;
    let refused = third.await.unwrap();
    assert!(matches!(refused, Err(ReadError::Busy)), "{:?}", refused.err());
    drop(go);
    for answer in under_way.into_iter().chain([ask()]) {
        assert!(matches!(answer.await.unwrap(), Ok(None)));
    }
}

/// What takes longer than it may is broken off, in the middle of it.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_not_answered_in_time_is_given_up() {
    let folder = TempDir::new().unwrap();
    let mut archive = archive(&folder);
    let many = "
        WITH RECURSIVE one (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < 20000)
        INSERT INTO calls (id, began, seconds, direction, context, provider, reason, class, turns, tool_calls)
        SELECT 'call ' || n, n, 1, 'inbound', 'front', 'main', 'caller_hung_up', 'caller', 1, 0 FROM one";
    rusqlite::Connection::open(folder.path().join("calls.sqlite3")).unwrap().execute_batch(many).unwrap();
    // Each row is looked at, and none is it.
    let search = Search { number: Some("4711".into()), limit: 10, ..Search::default() };
    archive.answer_before(Instant::now() + Duration::from_secs(5)).unwrap();
    assert!(archive.find(&search).unwrap().is_empty());
    tokio::time::advance(Duration::from_secs(6)).await;
    let error = archive.find(&search).err().expect("it is too late").to_string();
    assert!(error.contains("interrupted"), "{error}");
}

/// The engine may even be stopped meanwhile.
#[tokio::test]
async fn a_database_that_takes_nothing_loses_no_record() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (works, file) = (Arc::new(AtomicBool::new(false)), archive_file(&config.directory));
    let spool = || Spool::open(&config.directory).unwrap();
    let moody = |spool| {
        let archive = Sqlite::open(&file).unwrap();
        let (_registry, counters) = counters();
        let archive = Moody { works: Arc::clone(&works), fills: false, hold: None, archive };
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
    assert!(delete(&config.directory, second.id).unwrap().found);
    works.store(true, Ordering::SeqCst);
    let (records, counters) = moody(spool());
    until("they are archived", || counters.kept.get() == 2).await;
    records.finish(Duration::from_secs(5)).await;
    let archive = read(&config.directory).unwrap().unwrap();
    assert_eq!([&first, &second, &third].map(|record| archive.get(record.id).unwrap().is_some()), [true, false, true]);
    assert_eq!(spool().count().unwrap(), 0);
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

/// Somebody holds it while the engine starts again, as a backup does; who reads is not in their way either.
#[tokio::test]
async fn an_engine_starts_beside_a_locked_database_and_it_can_be_read() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    fs::create_dir_all(&config.directory).unwrap();
    drop(SqliteFile::below(&config.directory).open().unwrap());
    let other = rusqlite::Connection::open(archive_file(&config.directory)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    let (_registry, counters) = counters();
    let records = Records::start(&config, counters.clone()).unwrap();
    assert!(read(&config.directory).unwrap().unwrap().find(&Search::default()).unwrap().is_empty());
    assert!(began.elapsed() < Duration::from_secs(4), "nobody waits for the lock");
    other.execute_batch("COMMIT").unwrap();
    records.keep(record(&config, &Timestamp::now().to_string(), SECRET, EndReason::CallerHungUp));
    until("it is archived", || counters.kept.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn an_engine_starts_without_an_archive_that_cannot_be_opened_and_opens_it_when_it_can() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let in_the_way = archive_file(&config.directory);
    fs::create_dir_all(&in_the_way).unwrap();
    let (_registry, counters) = counters();
    let records = Records::start(&config, counters.clone()).unwrap();
    let tried = || counters.retries.with_label_values(&["archive"]).get();
    assert_eq!(tried(), 1);
    records.keep(record(&config, &Timestamp::now().to_string(), SECRET, EndReason::CallerHungUp));
    until("it is tried again", || tried() > 1 && counters.waiting.get() == 1).await;
    fs::remove_dir(&in_the_way).unwrap();
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
    fs::remove_dir_all(&spool).unwrap();
    let now = Timestamp::now().to_string();
    let retried = || counters.retries.with_label_values(&["spool"]).get() >= 1;
    records.keep(record(&config, &now, "first", EndReason::CallerHungUp));
    until("it is tried", retried).await;
    for _ in 0..=WAITING_MAX {
        records.keep(record(&config, &now, "more", EndReason::CallerHungUp));
    }
    let lost = |why: &str| counters.lost.with_label_values(&[why]).get();
    assert_eq!(lost("full"), 1, "one was under way, and so many wait");
    assert_eq!(counters.waiting.get(), WAITING_MAX as i64 + 1, "in memory is waiting as well");
    fs::create_dir(&spool).unwrap();
    until("all are archived", || counters.kept.get() == WAITING_MAX as u64 + 1).await;
    until("nothing waits", || counters.waiting.get() == 0).await;
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
    assert_eq!(spooled(&config), ["0-a.unreadable"]);
}

/// The disk of the database, while that of the spool has room.
#[tokio::test]
async fn a_full_database_is_asked_again_until_it_has_room() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (_registry, counters) = counters();
    let spool = Spool::open(&config.directory).unwrap();
    let works = Arc::new(AtomicBool::new(false));
    let archive = Sqlite::open(&archive_file(&config.directory)).unwrap();
    let archive = Moody { works: Arc::clone(&works), fills: true, hold: None, archive };
    let records = Records::with(spool, Box::new(archive), &config, counters.clone()).unwrap();
    // More than the pages that are there hold.
    let words = [SECRET; 10_000].join(" ");
    records.keep(record(&config, &Timestamp::now().to_string(), &words, EndReason::CallerHungUp));
    let retries = || counters.retries.with_label_values(&["archive"]).get();
    until("it is tried", || retries() >= 2).await;
    assert_eq!((spooled(&config).len(), counters.waiting.get(), counters.kept.get()), (1, 1, 0));
    works.store(true, Ordering::SeqCst);
    until("it is archived", || counters.kept.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
    let archive = read(&config.directory).unwrap().unwrap();
    assert_eq!(found(&*archive, Search { words: Some(SECRET.into()), ..Search::default() }).len(), 1);
}

#[tokio::test]
async fn beginnings_that_are_not_written_down_are_counted_for_themselves() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (records, counters) = started(&config);
    fs::remove_dir_all(config.directory.join("spool")).unwrap();
    let lost = |why: &str| counters.beginnings_lost.with_label_values(&[why]).get();
    records.begun(beginning(&config));
    until("it is tried", || lost("disk") == 1).await;
    let retries = || counters.retries.with_label_values(&["spool"]).get();
    assert_eq!(retries(), 0, "once is enough");
    // The end of a call is tried again and again, and everything else waits behind it.
    records.keep(record(&config, &Timestamp::now().to_string(), SECRET, EndReason::CallerHungUp));
    until("it is tried", || retries() >= 1).await;
    for _ in 0..=WAITING_MAX {
        records.begun(beginning(&config));
    }
    assert_eq!((lost("full"), counters.lost.with_label_values(&["full"]).get()), (1, 0));
    records.finish(Duration::from_millis(10)).await;
    let stopped = counters.lost.with_label_values(&["stopped"]).get();
    assert_eq!((lost("stopped"), stopped), (WAITING_MAX as u64, 1), "the one that is under way is a record");
}
