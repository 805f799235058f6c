//! Clocks of tests: which of them sleep in real time and why, and where the clock has to be paused.

use super::{programs::files_of, sources};
use offhook_kit::project;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Entry of the list: how often a file of tests sleeps in real time, and why it may.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Sleeps {
    times: usize,
    why: String,
}

/// Parts of the kit that only tests with a paused clock use.
const PAUSED_KIT: &[&str] = &["tests/kit/exchange", "tests/kit/virtual_time.rs"];
/// Modules of `whole_calls` whose scenes are also played on a real Asterisk, in real time.
const SCENES: &[&str] = &["tests/calls", "tests/lab_selftest.rs"];

/// Cost of a sleep in a file.
#[derive(Clone, Copy)]
enum Clock {
    /// Time, unless its own test has a paused clock.
    OfEachTest,
    /// No time, where the sleep is tokio's.
    Paused,
    Real,
}

/// Clock of a file. `paused` holds the files whose tests all have a paused clock, unless they ask for real time.
fn clock_of(file: &str, text: &str, paused: &BTreeSet<String>) -> Clock {
    if file.starts_with("src/") || file.starts_with("tests/bench/") {
        return Clock::OfEachTest;
    }
    let runs_in_real_time = text.contains("run_in_real_time(");
    let is_paused = PAUSED_KIT.iter().any(|module| file.starts_with(module)) || paused.contains(file);
    if is_paused && !runs_in_real_time { Clock::Paused } else { Clock::Real }
}

/// Files of `whole_calls` that no test in real time uses.
fn paused() -> BTreeSet<String> {
    let mut files: BTreeSet<String> = files_of("whole_calls").difference(&files_of("real")).cloned().collect();
    files.retain(|file| !SCENES.iter().any(|scenes| file.starts_with(scenes)));
    files
}

/// Code without what stands in quotation marks and behind `//`.
fn bare(text: &str) -> String {
    let mut bare = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                while let Some(inside) = letters.next().filter(|inside| *inside != '"') {
                    if inside == '\\' {
                        letters.next();
                    }
                }
            }
            '\'' if letters.peek().is_some_and(|next| "{}\"\\".contains(*next)) => {
                let escaped = letters.next() == Some('\\');
                letters.nth(usize::from(escaped));
            }
            '/' if letters.peek() == Some(&'/') => {
                while letters.peek().is_some_and(|next| *next != '\n') {
                    letters.next();
                }
            }
            other => bare.push(other),
        }
    }
    bare
}

/// How often code sleeps other than between two looks at what it waits for: outside of every `loop` and `while`, or in one
/// that only waits for a time.
fn fixed_sleeps(code: &str) -> usize {
    let (mut blocks, mut since, mut times) = (Vec::<&str>::new(), 0, 0);
    for (at, letter) in code.char_indices() {
        match letter {
            '{' => {
                blocks.push(code[since..at].trim());
                since = at + 1;
            }
            '}' => {
                blocks.pop();
                since = at + 1;
            }
            ';' => since = at + 1,
            's' if ["sleep(", "sleep_until("].iter().any(|call| code[at..].starts_with(call))
                && !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') =>
            {
                let looks = |header: &&str| {
                    let own = header.rsplit('\n').next().unwrap_or_default().trim();
                    let begins =
                        |word: &str| header.starts_with(word) || own.starts_with(word) || header.ends_with(word);
                    (begins("while") && !header.contains("while Instant::now() <")) || begins("loop")
                };
                times += usize::from(!code[..at].ends_with("fn ") && !blocks.iter().any(looks));
            }
            _ => {}
        }
    }
    times
}

/// Tests of tokio's whose clock is not paused, each from its attribute to the next one.
fn unpaused(code: &str) -> impl Iterator<Item = &str> {
    code.split("#[tokio::test").skip(1).filter(|test| !test.split(']').next().unwrap().contains("start_paused = true"))
}

/// How often a file sleeps in real time.
fn sleeps_in(clock: Clock, text: &str) -> usize {
    let code = bare(text);
    match clock {
        Clock::OfEachTest => unpaused(&code).filter_map(|test| test.split("\n}").next()).map(fixed_sleeps).sum(),
        Clock::Paused => code.matches("thread::sleep").count(),
        Clock::Real => fixed_sleeps(&code),
    }
}

/// A test that waits for a time and not for what it wants to see is slow when all is well and wrong when the machine is busy.
/// A sleep between two looks at another program is no such wait.
/// `OFFHOOK_BLESS=1 cargo test --test house tidy` writes the numbers; the reasons are written by hand.
#[test]
fn nothing_sleeps_in_real_time_outside_of_the_list() {
    let path = project().join("tests/fixtures/sleeps.yaml");
    let written = fs::read_to_string(&path).unwrap_or_default();
    let mut listed: BTreeMap<String, Sleeps> = serde_yaml::from_str(&written).unwrap();
    let (files, paused) = (["src", "tests", "mcp_servers"].into_iter().flat_map(sources), paused());
    let files = files.filter(|(name, _)| name != "tests/tidy/clocks.rs");
    let times = |(name, text): (String, String)| {
        let times = sleeps_in(clock_of(&name, &text, &paused), &text);
        (name, times)
    };
    let found: BTreeMap<String, usize> = files.map(times).filter(|(_, times)| *times > 0).collect();
    assert!(found.values().sum::<usize>() > 3, "the search finds sleeps: {found:?}");
    if std::env::var_os("OFFHOOK_BLESS").is_some() {
        let why = |name: &String| listed.get(name).map(|sleeps| sleeps.why.clone()).unwrap_or_default();
        let fresh =
            found.iter().map(|(name, times)| (name.clone(), Sleeps { times: *times, why: why(name) })).collect();
        listed = fresh;
        let head: String =
            written.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        fs::write(&path, format!("{head}{}", serde_yaml::to_string(&listed).unwrap())).unwrap();
    }
    let mut wrong = Vec::new();
    for (name, times) in &found {
        match listed.get(name) {
            None => wrong.push(format!("{name} sleeps; wait for what the test wants to see")),
            Some(sleeps) if sleeps.times != *times => {
                wrong.push(format!("{name} sleeps {times} times, and {} in the list", sleeps.times));
            }
            Some(sleeps) if sleeps.why.is_empty() => wrong.push(format!("{name} sleeps without a reason")),
            Some(_) => {}
        }
    }
    wrong.extend(listed.keys().filter(|name| !found.contains_key(*name)).map(|name| format!("{name} does not sleep")));
    assert!(wrong.is_empty(), "tests/fixtures/sleeps.yaml:\n{}", wrong.join("\n"));
}

/// In the program of whole calls a test without a paused clock would wait for each frame. What has to be in real time there is a
/// scene on a real Asterisk, or says why to `run_in_real_time`.
#[test]
fn whole_calls_have_a_paused_clock() {
    let (mut wrong, own) = (Vec::new(), files_of("whole_calls"));
    for (name, text) in sources("tests").into_iter().filter(|(name, _)| own.contains(name)) {
        wrong.extend(unpaused(&text).map(|test| {
            let function = test.split("fn ").nth(1).and_then(|rest| rest.split('(').next()).unwrap_or_default();
            format!("{name}: {function}")
        }));
    }
    assert!(wrong.is_empty(), "tests whose clock runs:\n{}", wrong.join("\n"));
}

#[test]
fn a_sleep_counts_where_its_clock_runs() {
    let text = "#[tokio::test(start_paused = true)]\nasync fn a() {\n    sleep(x).await;\n}\n\
                #[tokio::test]\nasync fn b() {\n    tokio::time::sleep(x).await;\n    sleep_until(y).await;\n}\n// sleep(x)\n";
    assert_eq!((sleeps_in(Clock::OfEachTest, text), sleeps_in(Clock::Real, text)), (2, 3));
    let looks =
        "fn c() { a; while !said(\"{\") { let b = { 1 }; sleep(x); } let z = loop { match y { _ => sleep(x) } }; }";
    assert_eq!(sleeps_in(Clock::Real, looks), 0);
    let waits = "fn c() { while Instant::now() < until { sleep(x); } for _ in 0..3 { sleep(x); } fn sleep(x: u8) {} }";
    assert_eq!(sleeps_in(Clock::Real, waits), 2);
    assert_eq!(sleeps_in(Clock::Paused, &format!("{text}std::thread::sleep(x);")), 1);
}

#[test]
fn a_file_has_the_clock_of_its_program() {
    let paused = paused();
    let clock = |file: &str, text: &str| clock_of(file, text, &paused);
    assert!(matches!(clock("tests/providers/turns.rs", ""), Clock::Paused));
    assert!(matches!(clock("tests/providers/turns.rs", "run_in_real_time(WHY, || async {})"), Clock::Real));
    for shared in ["tests/vam/client.rs", "tests/calls/legs.rs", "tests/lab_selftest.rs", "tests/kit/stages.rs"] {
        assert!(matches!(clock(shared, ""), Clock::Real), "{shared}");
    }
}
