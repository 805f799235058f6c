//! The command line as its users and their scripts meet it: exit codes, and what is said where.

use offhook::{
    config,
    http::{Accounts, Role},
    provider,
    records::{Archive as _, Record, Sqlite},
};
use offhook_kit::processes::signal;
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, openat};
use serde_json::json;
use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    time::{sleep, timeout},
};

const CALL: &str = "0e3f2c9a-7b1d-4a3e-9f65-1c2d3e4f5a6b";
/// The longest any of these may take; a run that goes on is a failure, not a wait.
const WITHIN: Duration = Duration::from_secs(20);

const FIVE_MISTAKES: &str = "\
limits:
  calls: many
default_context: recption
providers:
  front: { scripted: { script: [{ listen: {} }] } }
contexts:
  reception:
    prompt: Be kind.
    provider: frnt
    tools: [hangup_call, trasfer]
    greetings: Hello
";

fn offhook(arguments: &[&str]) -> Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let output = Command::new(offhook_kit::program())
            .args(arguments)
            .current_dir(offhook_kit::project())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let ended = timeout(WITHIN, output).await;
        ended.unwrap_or_else(|_| panic!("offhook {arguments:?} still runs")).expect("cargo built the program")
    })
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("ended by a signal: {output:?}"))
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

struct File {
    directory: TempDir,
}

impl File {
    fn new(yaml: &str) -> Self {
        let directory = TempDir::with_prefix("offhook-cli-").expect("a temporary directory");
        std::fs::write(directory.path().join("offhook.yaml"), yaml).expect("a file in the test's own directory");
        Self { directory }
    }

    fn path(&self) -> String {
        self.directory.path().join("offhook.yaml").display().to_string()
    }
}

/// An installation without Asterisk, listening here.
fn installation(http: &str, audiosocket: &str) -> String {
    format!(
        "http: {{ bind: \"{http}\" }}\nmedia: {{ audiosocket: {{ bind: \"{audiosocket}\" }} }}\n\
         providers: {{ p: {{ scripted: {{ script: [{{ listen: {{}} }}] }} }} }}\n\
         contexts: {{ c: {{ prompt: Test, provider: p }} }}\n"
    )
}

#[test]
fn check_says_on_one_line_that_all_is_well() {
    for arguments in [&["check", "config/offhook.yaml"][..], &["check", "--config", "config/offhook.yaml"], &["check"]]
    {
        let output = offhook(arguments);
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(out(&output), "config/offhook.yaml: no problems (1 context, 1 provider)\n");
        assert_eq!(err(&output), "");
    }
}

/// The same report, and the same code, from every command that reads a configuration.
#[test]
fn every_mistake_is_a_line_of_its_own_on_standard_error_with_exit_code_1() {
    let file = File::new(FIVE_MISTAKES);
    for command in ["check", "run", "demo"] {
        let output = offhook(&[command, "--config", &file.path()]);
        assert_eq!(code(&output), 1, "{command}: {output:?}");
        assert_eq!(out(&output), "", "{command}");
        let said = err(&output);
        let lines: Vec<&str> = said.lines().collect();
        for (number, part) in [
            (2, "limits.calls: expected a whole number"),
            (3, "default_context: unknown context \"recption\"; did you mean \"reception\"?"),
            (9, "contexts.reception.provider: unknown provider \"frnt\"; did you mean \"front\"?"),
            (10, "contexts.reception.tools[1]: unknown tool \"trasfer\"; did you mean \"transfer\"?"),
            (11, "contexts.reception.greetings: unknown key; did you mean \"greeting\"?"),
        ] {
            let begin = format!("{}:{number}: {part}", file.path());
            assert_eq!(lines.iter().filter(|line| line.starts_with(&begin)).count(), 1, "{command}: {begin}\n{said}");
        }
        assert_eq!(lines.len(), 5, "{command}: {said}");
    }
}

/// P1: a tool that cannot be used is a mistake of the configuration: each with its file and its place.
#[test]
fn mistakes_in_tools_are_lines_too() {
    let yaml = |tools: &str| {
        format!(
            "providers: {{ p: {{ openai_realtime: {{ api_key: key }} }} }}\ntenants: {{ acme: {{ tools: tools }} }}\n\
             contexts:\n  c:\n    prompt: Test\n    provider: p\n    tools: [{tools}]\n    audiosocket_id: 0ff40001\n"
        )
    };
    let good = "name: good\ndescription: Fine.\nactions: [{ type: respond, message: Hello }]\n";
    let bad = "name: bad\ndescription: Not fine.\nparameters: [{ name: \"a b\", type: text }]\n\
               actions: [{ type: respond }, { type: sing }]\npolicy: { risk_domain: moon }\n";
    let says = |yaml: &str, tools: &[(&str, &str)], expected: &[&str]| {
        let file = File::new(yaml);
        let folder = file.directory.path().join("tools");
        std::fs::create_dir(&folder).expect("a folder in the test's own directory");
        for (name, text) in tools {
            std::fs::write(folder.join(name), text).expect("a file in the test's own directory");
        }
        let output = offhook(&["check", &file.path()]);
        let said = err(&output);
        assert_eq!(code(&output), i32::from(!expected.is_empty()), "{said}");
        assert_eq!(said.lines().count(), expected.len(), "{said}");
        for (line, part) in said.lines().zip(expected) {
            assert!(line.starts_with(&format!("{}:", file.path())) && line.contains(part), "{part:?} in {line}");
        }
    };
    says(&yaml("good"), &[("good.yaml", good)], &[]);
    says(
        &yaml("good, goood"),
        &[("good.yaml", good)],
        &[":7: contexts.c.tools[1]: unknown tool \"goood\"; did you mean \"good\"?"],
    );
    says(
        &yaml("bad"),
        &[("bad.yaml", bad)],
        &[
            "tenants.acme: bad: parameters[0].name: ",
            "tenants.acme: bad: parameters[0].type: ",
            "tenants.acme: bad: policy.risk_domain: ",
            "tenants.acme: bad: actions[0]",
            "tenants.acme: bad: actions[1].type: ",
        ],
    );
    says(
        &yaml("good"),
        &[("good.yaml", good), ("hangup_call.yaml", &good.replace("good", "hangup_call")), ("noise.yaml", "}{")],
        &["tenants.acme: hangup_call: the name belongs to a built-in tool", "tenants.acme: noise: "],
    );
}

#[test]
fn a_file_that_is_not_there_is_a_problem_too() {
    for command in ["check", "run", "demo"] {
        let output = offhook(&[command, "--config", "nowhere/offhook.yaml"]);
        assert_eq!(code(&output), 1, "{command}: {output:?}");
        assert!(err(&output).starts_with("nowhere/offhook.yaml: "), "{command}: {output:?}");
    }
}

#[test]
fn a_demo_without_the_context_it_dials_says_which_it_needs() {
    let file = File::new(&installation("127.0.0.1:0", "127.0.0.1:0"));
    let output = offhook(&["demo", "--config", &file.path()]);
    assert_eq!(code(&output), 1, "{output:?}");
    assert!(err(&output).contains("contexts.reception.audiosocket_id"), "{output:?}");
}

#[test]
fn what_a_file_quotes_reaches_the_terminal_as_plain_text() {
    let file = File::new("\"\\u001b]0;owned\\u0007\": 1\ncontexts: { \"a\\e[31mb\": {} }\n");
    let output = offhook(&["check", "--config", &file.path()]);
    assert_eq!(code(&output), 1, "{output:?}");
    let said = err(&output);
    assert!(said.contains("owned") && said.contains("\\u{1b}"), "{said}");
    assert!(said.chars().all(|letter| letter == '\n' || !letter.is_control()), "{said:?}");
}

#[test]
fn wrong_arguments_are_exit_code_2() {
    for arguments in [
        &["rnu"][..],
        &["run", "--confg", "x"],
        &["check", "config/offhook.yaml", "extra"],
        &["run", "--log-format", "xml"],
        &["run", "--config", "config/offhook.yaml", "--log", "offhook=loud"],
        &[],
    ] {
        let output = offhook(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {output:?}");
        assert!(!err(&output).is_empty(), "{arguments:?}");
    }
    assert!(err(&offhook(&["chek"])).contains("'check'"), "the subcommand that was meant");
}

#[test]
fn a_port_in_use_is_exit_code_3_and_says_which_setting_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    for (setting, yaml) in [
        ("http.bind", installation(&address, "127.0.0.1:0")),
        ("media.audiosocket.bind", installation("127.0.0.1:0", &address)),
    ] {
        let file = File::new(&yaml);
        let output = offhook(&["run", "--config", &file.path()]);
        assert_eq!(code(&output), 3, "{output:?}");
        let said = err(&output);
        assert!(said.contains(&format!("{setting} {address}")), "{said}");
        assert!(said.contains("in use"), "{said}");
    }
}

#[test]
fn a_second_engine_on_one_folder_of_records_is_exit_code_3_and_says_what_to_do() {
    let folder = TempDir::new().expect("a temporary directory");
    let spool = folder.path().join("spool");
    std::fs::create_dir(&spool).expect("a folder of the test's own");
    let lock = std::fs::File::create(spool.join(".lock")).expect("a folder of the test's own");
    lock.try_lock().expect("nobody else has it");
    let yaml = installation("127.0.0.1:0", "127.0.0.1:0");
    let file = File::new(&format!("{yaml}records: {{ directory: \"{}\" }}\n", folder.path().display()));
    let output = offhook(&["run", "--config", &file.path()]);
    assert_eq!(code(&output), 3, "{output:?}");
    let said = err(&output);
    let place = folder.path().display().to_string();
    assert!(["another engine", "records.directory", &place].iter().all(|part| said.contains(part)), "{said}");
}

/// As a configuration on a network mount that does not answer: the read of a pipe ends with its writer, which is held here.
#[test]
fn an_engine_stops_while_the_read_of_its_file_hangs() {
    let file = File::new(&installation("127.0.0.1:0", "127.0.0.1:0"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut engine = Command::new(offhook_kit::program())
            .args(["run", "--config", &file.path()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("cargo built the program");
        let mut log = BufReader::new(engine.stderr.take().expect("it is piped")).lines();
        let up =
            async { while !log.next_line().await.expect("text").expect("it goes on").contains("offhook is up") {} };
        timeout(WITHIN, up).await.expect("it starts");
        std::fs::remove_file(file.path()).expect("a file of the test's own");
        mkfifoat(CWD, file.path(), Mode::RUSR | Mode::WUSR).expect("a pipe in its place");
        let pid = engine.id().expect("it runs");
        signal(pid, "HUP");
        let opens = async {
            loop {
                // Refused as long as nobody reads.
                match openat(CWD, file.path(), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
                    Ok(writer) => break writer,
                    Err(_) => sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let _writer = timeout(WITHIN, opens).await.expect("the file is read again");
        signal(pid, "TERM");
        let ended = timeout(WITHIN, engine.wait()).await.expect("it stops").expect("it is a child");
        assert_eq!(ended.code(), Some(0));
    });
}

/// The archive of a folder of records, with one call in it.
fn archive_with(folder: &TempDir, caller_number: &str) -> PathBuf {
    let record = json!({
        "id": CALL, "began": "2026-11-20T10:00:00Z", "seconds": 3.0,
        "direction": "inbound", "caller_number": caller_number, "dialled_number": "+4930", "context": "front",
        "provider": "main", "generation": 1, "transport": "rtp", "format": "ulaw",
        "reason": { "label": "caller_hung_up", "class": "normal", "description": "the caller hung up" },
        "counts": {
            "agent_turns": 0, "barge_ins": 0, "tool_calls": 0, "keys": 0, "slots_missed": 0, "frames_dropped": 0,
        },
        "turns": [], "entries": [], "usage": [],
    });
    let record: Record = serde_json::from_value(record).expect("a record");
    let file = folder.path().join("calls.sqlite3");
    let mut archive = Sqlite::open(&file).expect("a new archive");
    archive.put(&[record]).expect("a new archive takes records");
    file
}

/// Whoever calls chooses what their number is.
#[test]
fn a_table_of_calls_holds_nothing_that_a_spreadsheet_would_run() {
    let folder = TempDir::new().expect("a temporary directory");
    archive_with(&folder, "=1+1");
    let output = offhook(&["calls", "--format", "csv", "--records", &folder.path().display().to_string()]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(out(&output).contains(",'=1+1,+4930,"), "{}", out(&output));
}

/// At night an empty list says that no call went wrong: it has to be true.
#[test]
fn a_question_that_cannot_be_answered_is_no_empty_list() {
    let folder = TempDir::new().expect("a temporary directory");
    let empty = folder.path().join("empty").display().to_string();
    let output = offhook(&["calls", "--records", &empty]);
    assert_eq!((code(&output), out(&output)), (3, String::new()), "{output:?}");
    assert!(err(&output).contains(&format!("no records in {empty}")), "{}", err(&output));
    // A place that cannot be looked at: a link that leads to itself.
    let circle = folder.path().join("circle");
    std::os::unix::fs::symlink(&circle, &circle).expect("a link");
    let circle = circle.display().to_string();
    for command in [vec!["calls", "--records", &circle], vec!["call", &CALL[..8], "--records", &circle]] {
        let output = offhook(&command);
        let told = err(&output);
        assert!(code(&output) == 3 && told.contains(&format!("{circle}/calls.sqlite3 cannot be opened")), "{told}");
    }
    archive_with(&folder, "+4940");
    let place = folder.path().display().to_string();
    let output = offhook(&["calls", "--records", &place, "--reason", "caller_hang_up"]);
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(err(&output).contains("caller_hung_up") && err(&output).contains("provider"), "{}", err(&output));
    for search in [["--reason", "caller_hung_up"], ["--reason", "normal"], ["--until", "today"], ["--since", "-9000d"]]
    {
        let output = offhook(&[&["calls", "--records", &place][..], &search].concat());
        assert!(code(&output) == 0 && out(&output).contains(CALL), "{output:?}");
    }
    for search in
        [["--reason", "no_input"], ["--reason", "engine_killed"], ["--reason", "not_normal"], ["--until", "-9000d"]]
    {
        let output = offhook(&[&["calls", "--records", &place][..], &search].concat());
        assert_eq!((code(&output), err(&output).trim()), (0, "no call matches"), "{output:?}");
    }
    let output = offhook(&["calls", "--records", &place, "--since", "tomorrow"]);
    assert!(code(&output) == 2 && err(&output).contains("yesterday"), "{output:?}");
}

/// An engine of another version may be at work with it, which could not go on with what this one would make of it.
#[test]
fn an_archive_of_another_version_is_exit_code_3_with_a_remedy_and_stays_as_it_is() {
    let folder = TempDir::new().expect("a temporary directory");
    let (file, place) = (archive_with(&folder, "+4940"), folder.path().display().to_string());
    let commands = [
        vec!["calls", "--records", &place],
        vec!["call", CALL, "--records", &place],
        vec!["call", CALL, "--delete", "--records", &place],
    ];
    let connection = || rusqlite::Connection::open(&file).expect("the test's own file");
    let version =
        || -> i64 { connection().pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number") };
    let write = |schema: i64| connection().pragma_update(None, "user_version", schema).expect("a number");
    let own = version();
    for (schema, remedy) in [(own - 1, "start an engine of this version"), (own + 1, "use that one")] {
        write(schema);
        for command in &commands {
            let output = offhook(command);
            let said = err(&output);
            assert_eq!(code(&output), 3, "{command:?}: {output:?}");
            let told = [remedy, &format!("schema {schema}"), "calls.sqlite3"];
            assert!(told.iter().all(|part| said.contains(part)), "{command:?}: {said}");
        }
        assert_eq!(version(), schema);
    }
    write(own);
    assert!(commands.iter().all(|command| code(&offhook(command)) == 0), "the call was there all the time");
}

/// `offhook check FILE 2>&1 | head -1`, of which the second line reaches nobody.
#[test]
fn a_reader_who_has_seen_enough_is_not_a_fault() {
    let file = File::new(FIVE_MISTAKES);
    let folder = TempDir::new().expect("a temporary directory");
    let accounts = folder.path().join("accounts.json").display().to_string();
    let commands = [
        (vec!["check".to_owned(), file.path()], 1),
        (["account", "add", "ada", "--role", "viewer", "--accounts", &accounts].map(str::to_owned).into(), 0),
        (["account", "list", "--accounts", &accounts].map(str::to_owned).into(), 0),
        (["doctor", "--offline", "--config", &file.path()].map(str::to_owned).into(), 1),
        (["init", "--yes", "--offline", "--output", &accounts].map(str::to_owned).into(), 2),
    ];
    for (command, expected) in commands {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let both = [writer.try_clone().expect("a pipe"), writer];
        let [out, err] = both.map(Stdio::from);
        let ran = std::process::Command::new(offhook_kit::program())
            .args(&command)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .status();
        assert_eq!(ran.expect("cargo built the program").code(), Some(expected), "{command:?}");
    }
}

/// A token is told once, and the file has none of it.
#[test]
fn tokens_of_programs_are_made_listed_and_removed_and_accounts_get_other_roles() {
    let folder = TempDir::new().expect("a temporary directory");
    let file = folder.path().join("accounts.json");
    let accounts = file.display().to_string();
    let run = |command: &[&str]| offhook(&[command, &["--accounts", &accounts]].concat());
    let made = run(&["token", "add", "wallboard", "--role", "viewer"]);
    let token = out(&made).lines().last().expect("a line").to_owned();
    assert!(code(&made) == 0 && token.starts_with("offhook-"), "{made:?}");
    assert!(!std::fs::read_to_string(&file).expect("it is there").contains(&token[8..]));
    let list = out(&run(&["token", "list"]));
    assert!(list.starts_with("wallboard ") && list.contains("  viewer  ") && !list.contains(&token), "{list}");
    let again = run(&["token", "add", "wallboard", "--role", "admin"]);
    assert!(code(&again) == 3 && err(&again).contains("there is a token of this name"), "{again:?}");
    assert_eq!(code(&run(&["token", "remove", "wallboard"])), 0);
    assert_eq!(out(&run(&["token", "list"])), "");
    for name in ["ada", "bob"] {
        assert_eq!(code(&run(&["account", "add", name, "--role", "admin"])), 0);
    }
    assert_eq!(code(&run(&["account", "role", "bob", "viewer"])), 0);
    let last = run(&["account", "role", "ada", "viewer"]);
    assert!(code(&last) == 3 && err(&last).contains("last account with the role admin"), "{last:?}");
    let list = out(&run(&["account", "list"]));
    assert!(list.contains("admin") && list.contains("viewer"), "{list}");
}

#[test]
fn tokens_of_an_account_that_is_changed_or_removed_are_told_with_the_command_that_revokes_them() {
    let folder = TempDir::new().expect("a temporary directory");
    let file = folder.path().join("accounts.json");
    let accounts = file.display().to_string();
    let run = |command: &[&str]| offhook(&[command, &["--accounts", &accounts]].concat());
    for name in ["ada", "bob"] {
        assert_eq!(code(&run(&["account", "add", name, "--role", "admin"])), 0);
    }
    let book = Accounts::new(&file);
    for (token, by) in [("crm", Some("bob")), ("wallboard", Some("ada")), ("backup", None)] {
        book.add_token(token, Role::Viewer, by).expect("a token");
    }
    let list = out(&run(&["token", "list"]));
    let by: Vec<_> = list.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(by, ["-", "bob", "ada"], "{list}");
    let command = format!("token remove crm --accounts {accounts}");
    for change in
        [&["account", "password", "bob"][..], &["account", "role", "bob", "viewer"], &["account", "remove", "bob"]]
    {
        let told = out(&run(change));
        assert!(told.contains("Tokens that bob made are still good") && told.contains(&command), "{change:?}: {told}");
        assert!(!told.contains("wallboard") && !told.contains("backup"), "{change:?}: {told}");
    }
    assert_eq!(code(&run(&["token", "remove", "crm"])), 0);
    assert!(!out(&run(&["token", "list"])).contains("crm"));
}

/// Whoever looks for a call at night need not have the engine's environment.
#[test]
fn what_only_reads_records_or_accounts_needs_no_secret_of_the_configuration() {
    let folder = TempDir::new().expect("a temporary directory");
    archive_with(&folder, "+4940");
    let yaml = |directory: &str| {
        format!(
            "asterisk: {{ password: \"${{A_PASSWORD_THAT_IS_NOT_SET}}\" }}\nrecords: {{ directory: \"{directory}\" }}\n\
             providers: {{ front: {{ scripted: {{ script: [silence] }} }} }}\n\
             contexts: {{ desk: {{ prompt: Test, provider: front }} }}\n"
        )
    };
    let file = File::new(&yaml(&folder.path().display().to_string()));
    let list = offhook(&["calls", "--config", &file.path()]);
    assert!(code(&list) == 0 && out(&list).contains(CALL), "{list:?}");
    assert_eq!(code(&offhook(&["call", CALL, "--config", &file.path()])), 0);
    assert_eq!(code(&offhook(&["account", "list", "--config", &file.path()])), 0);
    // Where it is part of the place, nobody can know what is meant.
    let file = File::new(&yaml("${A_FOLDER_THAT_IS_NOT_SET}"));
    let list = offhook(&["calls", "--config", &file.path()]);
    assert!(code(&list) == 3 && err(&list).contains("A_FOLDER_THAT_IS_NOT_SET"), "{list:?}");
}

#[test]
fn schema_prints_the_committed_file() {
    let output = offhook(&["schema"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let committed = offhook_kit::project().join("config/offhook.schema.json");
    assert_eq!(out(&output), std::fs::read_to_string(committed).expect("a committed file"));
    assert_eq!(out(&output), config::schema_text(provider::catalog()));
}

/// The first line of the manual's first steps works in any folder: it goes as far as to ask for the caller's voice.
#[test]
fn the_demo_needs_no_file_of_the_project() {
    let folder = TempDir::new().expect("a temporary directory");
    let ran = std::process::Command::new(offhook_kit::program())
        .arg("demo")
        .current_dir(folder.path())
        .env("PATH", "")
        .stdin(Stdio::null())
        .output();
    let output = ran.expect("cargo built the program");
    assert!(code(&output) == 3 && err(&output).contains("espeak-ng"), "{output:?}");
}

#[test]
fn help_reads_like_a_manual() {
    let output = offhook(&["--help"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let manual = out(&output);
    for word in [
        "run",
        "demo",
        "check",
        "schema",
        "SIGHUP",
        "SIGTERM",
        "SIGINT",
        "127.0.0.1:15000",
        "/live",
        "/ready",
        "/metrics",
        "/reload",
        "AI_CONTEXT",
        "EXIT CODES",
    ] {
        assert!(manual.contains(word), "{word} is missing:\n{manual}");
    }
    let codes = &manual[manual.find("EXIT CODES").expect("checked above")..];
    for code in ["0  all well", "1  the configuration", "2  wrong arguments", "3  the engine could not start"] {
        assert!(codes.contains(code), "{code} is missing: {codes}");
    }
    for command in ["run", "demo", "check", "schema"] {
        let output = offhook(&[command, "--help"]);
        assert_eq!(code(&output), 0, "{command}: {output:?}");
        assert!(out(&output).contains("Usage: offhook"), "{command}: {output:?}");
    }
}

#[test]
fn version_names_the_program() {
    let output = offhook(&["--version"]);
    assert_eq!((code(&output), out(&output)), (0, format!("offhook {}\n", env!("CARGO_PKG_VERSION"))));
}
