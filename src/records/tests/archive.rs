//! The archive alone.

use super::*;

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
        (Search { id: text(&second.to_string()[..8]), ..Search::default() }, vec![second]),
        (Search { id: text("g"), ..Search::default() }, vec![]),
        (Search { since: time("2026-11-20T10:00:00Z"), ..Search::default() }, vec![third, second]),
        (Search { until: time("2026-11-20T10:00:00Z"), ..Search::default() }, vec![first]),
        (Search { context: text("sales"), ..Search::default() }, vec![second]),
        (Search { provider: text("main"), ..Search::default() }, vec![third, first]),
        (Search { reason: text("caller_hung_up"), ..Search::default() }, vec![third, first]),
        (Search { reason: text("engine"), ..Search::default() }, vec![second]),
        (Search { reason: text(NOT_NORMAL), ..Search::default() }, vec![second]),
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
    assert!(archive.tidy().unwrap());
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

/// An engine of that version may be at work with it: to look into it, or to delete a call, changes nothing else.
#[test]
fn an_archive_of_another_version_is_left_as_it_is_by_whoever_comes_beside_the_engine() {
    let folder = TempDir::new().unwrap();
    drop(archive(&folder));
    let file = folder.path().join("calls.sqlite3");
    let version = || -> i64 {
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    let recorded = CallId::random();
    let sound = recording_file(folder.path(), recorded);
    fs::create_dir_all(sound.parent().unwrap()).unwrap();
    fs::write(&sound, "a recording").unwrap();
    for (found, says) in [(2, "start an engine of this version"), (99, "later version; use that one")] {
        rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", found).unwrap();
        let before = fs::read(&file).unwrap();
        let read = read(folder.path()).err().unwrap();
        let deleted = delete(folder.path(), recorded).err().unwrap();
        for error in [read.to_string(), deleted.to_string()] {
            let told = [says, &file.display().to_string(), &format!("schema {found}")];
            assert!(told.iter().all(|part| error.contains(part)), "{error}");
        }
        assert_eq!((version(), fs::read(&file).unwrap() == before, sound.exists()), (found, true, true));
    }
    let nowhere = folder.path().join("nowhere");
    assert!(read(&nowhere).unwrap().is_none() && !nowhere.exists());
}

/// What only looks does not write, whatever is asked of it.
#[test]
fn whoever_reads_cannot_write() {
    let folder = TempDir::new().unwrap();
    let kept = record(&config(&folder), "2026-11-20T10:40:00Z", "Hello.", EndReason::CallerHungUp);
    archive(&folder).put(std::slice::from_ref(&kept)).unwrap();
    let mut read = read(folder.path()).unwrap().unwrap();
    assert_eq!(found(&*read, Search::default()), [kept.id]);
    assert!(read.delete(kept.id).is_err() && read.put(std::slice::from_ref(&kept)).is_err());
    assert_eq!(found(&*read, Search::default()), [kept.id]);
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
    let as_it_was = "
        DROP INDEX calls_hours; DROP TABLE words; DROP VIEW spoken;
        CREATE VIRTUAL TABLE words USING fts5 (said, content = '', contentless_delete = 1);
        INSERT INTO words (rowid, said) VALUES (1, 'Hello.');
        PRAGMA user_version = 1";
    first.execute_batch(as_it_was).unwrap();
    drop(first);
    let archive = Sqlite::open(&file).unwrap();
    assert_eq!(found(&archive, Search::default()), [kept.id]);
    assert_eq!(found(&archive, Search { words: Some("hello".into()), ..Search::default() }), [kept.id]);
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE name = 'calls_hours'";
    let made: i64 = rusqlite::Connection::open(&file).unwrap().query_row(indexes, [], |row| row.get(0)).unwrap();
    assert_eq!(made, 1);
    let at = |time: &str| time.parse().unwrap();
    let hours = archive.hours(at("2026-11-20T10:30:00Z"), at("2026-11-20T10:50:00Z")).unwrap();
    let [hour] = &hours[..] else { panic!("{hours:?}") };
    assert_eq!((hour.began, hour.calls), (at("2026-11-20T10:00:00Z"), 1));
}

#[test]
fn a_row_for_spreadsheets_holds_no_formula_and_its_numbers_as_they_are() {
    let folder = TempDir::new().unwrap();
    let (config, mut archive) = (config(&folder), archive(&folder));
    for (text, harmless) in [
        ("=1+1", "'=1+1"),
        ("+1+cmd", "'+1+cmd"),
        ("-2", "'-2"),
        ("@sum", "'@sum"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("+4930", "+4930"),
        ("7000", "7000"),
        ("front", "front"),
    ] {
        let mut call = record(&config, "2026-11-20T10:00:00Z", "Hello.", EndReason::CallerHungUp);
        (call.caller_number, call.context) = (Some(text.into()), text.into());
        archive.put(&[call]).unwrap();
        let row = archive.find(&Search { limit: 1, ..Search::default() }).unwrap().remove(0).for_spreadsheets();
        assert_eq!((row.caller_number.as_deref(), row.context.as_str()), (Some(harmless), harmless));
    }
}
