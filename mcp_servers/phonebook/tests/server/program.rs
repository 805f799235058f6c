//! The program and its file: who shares it, what is wrong with it, how it ends.

use super::support::{Client, Desk, WITHIN, ended, path, phonebook};
use rusqlite::Connection;
use serde_json::json;
use std::{
    fs,
    os::unix::{fs::MetadataExt as _, fs::PermissionsExt as _},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::{process::Command, task::JoinSet, time::timeout};

const ANNA: &str = "number,name\n030 23125 010,Anna Meier\n";

#[tokio::test]
async fn the_file_is_made_when_it_is_missing() {
    let desk = Desk::new();
    let client = Client::start(desk.phonebook(&[])).await;
    assert_eq!(client.call("search", json!({ "text": "a" })).await["contacts"], json!([]));
    let mode: String = Connection::open(desk.database())
        .and_then(|connection| connection.pragma_query_value(None, "journal_mode", |row| row.get(0)))
        .expect("a database");
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn servers_that_start_at_once_on_a_missing_file_all_start() {
    // They get into each other's way in one of many tries only.
    for _ in 0..5 {
        let desk = Desk::new();
        let starts = (0..8).map(|_| tokio::spawn(Client::start(desk.phonebook(&["--writable"])))).collect::<Vec<_>>();
        for (row, start) in starts.into_iter().enumerate() {
            let client = start.await.expect("it starts");
            let new = json!({ "number": format!("600{row}"), "name": format!("Person {row}") });
            assert_eq!(client.call("add_contact", new).await["changed"], true);
        }
    }
}

#[tokio::test]
async fn two_clients_write_to_one_file_at_once_and_see_each_other() {
    let desk = Desk::new();
    let first = Client::start(desk.phonebook(&["--writable"])).await;
    let second = Client::start(desk.phonebook(&["--writable"])).await;
    let write = async |client: &Client, digit: u32| {
        for row in 0..50 {
            let new = json!({ "number": format!("{digit}{row:03}"), "name": format!("Person {digit} {row}") });
            assert_eq!(client.call("add_contact", new).await["changed"], true);
        }
    };
    tokio::join!(write(&first, 1), write(&second, 2));
    for (client, number) in [(&first, "2049"), (&second, "1049")] {
        assert_eq!(client.call("find_by_number", json!({ "number": number })).await["found"], true, "{number}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_told_with_a_remedy_and_the_program_ends() {
    let desk = Desk::new();
    let other = desk.folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE tracks (title TEXT)").unwrap();
    let newer = desk.folder.path().join("newer.db");
    assert!(ended(phonebook(&newer, &[])).await.0);
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let cases = [
        (desk.write("words.db", "Not a database, only words. ".repeat(100)), "this is no SQLite database"),
        (other, "another program's database; name a file of its own"),
        (newer, "a newer phonebook (version 99, this one knows 1)"),
        (desk.folder.path().to_owned(), "the file cannot be opened"),
        (desk.folder.path().join("missing/phonebook.db"), "its folder has to be there"),
    ];
    for (path, words) in &cases {
        let (good, said, problem) = ended(phonebook(path, &[])).await;
        assert!(!good && said.is_empty(), "{path:?}: {said}");
        assert!(problem.contains(words) && problem.contains(&path.display().to_string()), "{path:?}: {problem}");
    }
    let words = fs::read_to_string(&cases[0].0).expect("the file is left as it was");
    assert!(words.starts_with("Not a database"));
}

#[tokio::test]
async fn a_file_that_another_program_keeps_locked_is_told_and_served_when_it_is_free() {
    let desk = Desk::new();
    desk.import(ANNA).await;
    let client = Client::start(desk.phonebook(&["--writable"])).await;
    let other = Connection::open(desk.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Readers do not wait for a writer.
    assert_eq!(client.call("find_by_number", json!({ "number": "03023125010" })).await["found"], true);
    let new = json!({ "number": "6002", "name": "Eve" });
    let told = client.refused("add_contact", new.clone()).await;
    assert!(told.contains("another program has locked the file"), "{told}");
    let (good, _, problem) = desk.try_import(ANNA).await;
    assert!(!good && problem.contains("another program has locked the file"), "{problem}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(client.call("add_contact", new).await["changed"], true);
}

#[tokio::test]
async fn more_requests_than_may_wait_are_refused_at_once_and_the_others_are_answered() {
    let desk = Desk::new();
    let client = Arc::new(Client::start(desk.phonebook(&["--writable"])).await);
    let other = Connection::open(desk.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut calls = JoinSet::new();
    for row in 0..300 {
        let client = client.clone();
        let new = json!({ "number": format!("6{row:03}"), "name": "Eve" });
        calls.spawn(async move { client.try_call("add_contact", new).await.expect("an answer") });
    }
    // One is at work and 256 wait; nobody but the rest can be answered while the file is locked.
    for _ in 0..30 {
        let refused = calls.join_next().await.unwrap().unwrap();
        assert_eq!(refused.is_error, Some(true));
        assert!(refused.content[0].as_text().unwrap().text.contains("too many requests wait"), "{refused:?}");
    }
    other.execute_batch("ROLLBACK").unwrap();
    let last = calls.join_all().await;
    assert!(last.iter().filter(|result| result.is_error != Some(true)).count() >= 256, "{last:?}");
}

#[tokio::test]
async fn a_server_starts_beside_a_long_writer() {
    let desk = Desk::new();
    desk.import(ANNA).await;
    let other = Connection::open(desk.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let client = Client::start(desk.phonebook(&[])).await;
    assert_eq!(client.call("find_by_number", json!({ "number": "03023125010" })).await["found"], true);
}

/// The command as a user who may write only what everybody may; root may write everything.
fn unprivileged(desk: &Desk, mut command: Command) -> Command {
    let folder = desk.folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(desk.database(), fs::Permissions::from_mode(0o444)).unwrap();
    if fs::metadata(folder).unwrap().uid() == 0 {
        // That user may not even reach the folder of the build.
        let copy = folder.join("phonebook");
        if !copy.exists() {
            // By a program of its own: a child of another test could inherit a file that is open for writing here,
            // and such a file cannot be run.
            let copied = std::process::Command::new("cp").arg(path()).arg(&copy).status();
            assert!(copied.expect("cp").success());
        }
        let mut other = Command::new(copy);
        other.args(command.as_std().get_args()).uid(65534).gid(65534).kill_on_drop(true);
        other.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        other.stderr(std::process::Stdio::piped());
        command = other;
    }
    command
}

/// Takes the file out of WAL mode, as it comes from a backup: one file, nothing beside it.
fn alone(database: &Path) {
    Connection::open(database).unwrap().pragma_update(None, "journal_mode", "delete").unwrap();
}

#[tokio::test]
async fn a_file_that_may_only_be_read_is_served_unless_writing_is_asked_for() {
    let desk = Desk::new();
    desk.import(ANNA).await;
    // WAL mode needs files beside the database.
    let (good, _, problem) = ended(unprivileged(&desk, desk.phonebook(&[]))).await;
    assert!(!good && problem.contains("the right to write it and its folder"), "{problem}");
    alone(&desk.database());
    let client = Client::start(unprivileged(&desk, desk.phonebook(&[]))).await;
    assert_eq!(client.call("find_by_number", json!({ "number": "03023125010" })).await["found"], true);
    let (good, _, problem) = ended(unprivileged(&desk, desk.phonebook(&["--writable"]))).await;
    assert!(!good && problem.contains("the file cannot be written"), "{problem}");
    assert!(problem.contains("or leave out --writable"), "{problem}");
}

#[tokio::test]
async fn an_import_is_whole_or_nothing_and_may_be_repeated() {
    let desk = Desk::new();
    let file = "number,name,company,note\n030 23125 010,Anna Meier,Meier Ltd.,First\n6001,Front desk,,\n";
    assert_eq!(desk.import(file).await, "2 added, 0 changed, 0 as before\n");
    assert_eq!(desk.import(file).await, "0 added, 0 changed, 2 as before\n");
    // A column that the file lacks leaves what is stored.
    let shorter = "number;name\n+49 30 23125010;Anna Meier-Schmidt\n6002;Eve\n";
    assert_eq!(desk.import(shorter).await, "1 added, 1 changed, 0 as before\n");

    let (good, said, problems) = desk.try_import("number,name\n6003,Frank\nnobody,Gerd\n6004,\n").await;
    assert!(!good && said.is_empty());
    for words in ["nothing was imported", "line 3: number: this is no telephone number", "line 4: name: it is empty"] {
        assert!(problems.contains(words), "{problems}");
    }
    let client = Client::start(desk.phonebook(&[])).await;
    let anna = client.call("find_by_number", json!({ "number": "03023125010" })).await;
    assert_eq!(anna["message"], "Anna Meier-Schmidt of Meier Ltd.");
    assert_eq!(anna["note"], "First");
    assert_eq!(client.call("find_by_number", json!({ "number": "6003" })).await["found"], false);
}

#[tokio::test]
async fn the_sample_can_be_imported() {
    let desk = Desk::new();
    let sample = fs::read_to_string("contacts.csv").unwrap();
    let rows = sample.lines().count() - 1;
    assert_eq!(desk.import(&sample).await, format!("{rows} added, 0 changed, 0 as before\n"));
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let desk = Desk::new();
    for arguments in [["--country-prefix", "+49"], ["--country-prefix", ""], ["--trunk-prefix", "0-"]] {
        let (good, _, problem) = ended(desk.phonebook(&arguments)).await;
        assert!(!good && problem.contains(arguments[0]), "{problem}");
    }
}

#[tokio::test]
async fn it_ends_when_its_input_closes_also_before_a_client_has_spoken() {
    let desk = Desk::new();
    let client = Client::start(desk.phonebook(&[])).await;
    let (status, _) = client.close().await;
    assert!(status.success(), "{status}");
    let (good, said, _) = ended(desk.phonebook(&[])).await;
    assert!(good && said.is_empty(), "{said}");
}

#[tokio::test]
async fn its_log_holds_no_number_and_no_name() {
    let desk = Desk::new();
    desk.import(ANNA).await;
    let mut command = desk.phonebook(&["--writable"]);
    command.env("RUST_LOG", "trace");
    let client = Client::start(command).await;
    client.call("find_by_number", json!({ "number": "030 23125 010" })).await;
    client.call("search", json!({ "text": "Meier" })).await;
    client.refused("find_by_number", json!({ "number": "03023125010", "name": "Anna" })).await;
    // A failure is logged; it must not take what was asked for along.
    let other = Connection::open(desk.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    client.refused("set_note", json!({ "number": "030 23125 010", "note": "Meier owes" })).await;
    let (_, log) = timeout(WITHIN + Duration::from_secs(1), client.close()).await.unwrap();
    assert!(log.contains("the phone book cannot be used"), "{log}");
    for private in ["23125", "Anna", "Meier", "owes"] {
        assert!(!log.contains(private), "{log}");
    }
}
