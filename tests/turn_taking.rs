//! Turn-taking on two sets. One is labelled, made by espeak-ng and sox: how often the agent is stopped for nothing, and how
//! often a caller who interrupts is not heard. The other one is human recordings in whole calls.

#[path = "bench/turns"]
mod bench {
    pub mod conversation;
    pub mod lines;
    pub mod people;
    pub mod recordings;
    pub mod set;
    pub mod stand_in;
}

use bench::{
    conversation::{Script, play},
    lines::Line,
    people::{Bar, People, Row},
    recordings::{self, Half, Recording},
    set::{self, Label, Scene, Table},
    stand_in::Kind,
};
use offhook::call::TurnRules;
use offhook_kit::virtual_time::output_of;
use std::{
    path::PathBuf,
    process::Command,
    sync::LazyLock,
    time::{Duration, Instant},
};

/// Makes a set by its script in `tests/fixtures`; quick where it is there.
fn made(name: &str, script: &str) -> PathBuf {
    let folder = offhook_kit::program().with_file_name(format!("../{name}"));
    let script = offhook_kit::project().join("tests/fixtures").join(name).join(script);
    let made = output_of(Command::new("python3").arg(script).arg(&folder)).expect("python3 can be run");
    assert!(made.status.success(), "the set {name} could not be made; `make setup` installs what it needs: {made:?}");
    folder
}

static SCENES: LazyLock<Vec<Scene>> = LazyLock::new(|| set::read(&made("turn_taking", "generate.py")).unwrap());
static PEOPLE: LazyLock<Vec<Recording>> = LazyLock::new(|| recordings::read(&made("speech", "make.py")).unwrap());

#[allow(clippy::disallowed_methods)] // A test needs some instant to count from.
fn table(rules: &TurnRules, scenes: impl Iterator<Item = &'static Scene>) -> Table {
    let start = Instant::now();
    let mut table = Table::default();
    scenes.for_each(|scene| table.add(scene, &set::play(scene, rules.clone(), start)));
    table
}

/// What one half of the set comes to.
fn half(judges: bool) -> Table {
    let table = table(&TurnRules::default(), SCENES.iter().filter(|scene| scene.judges() == judges));
    println!("{table}");
    for (what, times) in [("pause", &table.pause_after), ("verdict", &table.verdict_after), ("gap", &table.gaps)] {
        let mut times = times.clone();
        times.sort_unstable();
        println!("{what}: p50 {:?}, p95 {:?}", times[times.len() / 2], times[(times.len() * 95).div_ceil(100) - 1]);
    }
    assert!(table.rows.iter().all(|row| row.scenes >= 50), "each label has its scenes");
    table
}

/// False stops and missed interruptions in percent, the pause after an onset in milliseconds (p95), and how often an agent
/// fell silent for nothing in a scene: each at most this.
#[track_caller]
fn at_most(table: &Table, bounds: [f64; 4]) {
    let mut pauses = table.pause_after.clone();
    pauses.sort_unstable();
    let p95 = pauses[(pauses.len() * 95).div_ceil(100) - 1].as_secs_f64() * 1_000.0;
    let figures = [table.false_stops(), table.missed(), p95, table.gaps_per_scene()];
    assert!(figures.iter().zip(bounds).all(|(figure, bound)| *figure <= bound), "{figures:.2?}, at most {bounds:.2?}");
}

#[test]
fn on_the_whole_set_the_bars_are_reached() {
    at_most(&table(&TurnRules::default(), SCENES.iter()), [5.0, 2.0, 100.0, 0.7]);
}

#[test]
fn on_the_scenes_it_was_tuned_on_the_bars_are_reached() {
    at_most(&half(false), [5.0, 2.0, 100.0, 0.7]);
}

#[test]
fn on_the_scenes_that_judge_the_bars_are_reached() {
    at_most(&half(true), [5.0, 2.0, 100.0, 0.7]);
}

#[test]
fn an_agent_that_is_not_interruptible_is_never_even_paused() {
    let rules = TurnRules { interruptible: false, ..TurnRules::default() };
    let some = SCENES.iter().filter(|scene| scene.label == Label::Interruption).take(20);
    let table = table(&rules, some);
    assert!(table.rows.iter().all(|row| row.interrupted == 0 && row.only_paused == 0), "{table}");
    assert!((table.missed() - 100.0).abs() < f64::EPSILON);
}

/// Else the figures would change from run to run.
#[test]
fn a_scene_that_is_played_again_goes_the_same_way() {
    let pauses = |scene| {
        let (one, two) = [(); 2].map(|()| table(&TurnRules::default(), std::iter::once(scene))).into();
        (one.pause_after, two.pause_after)
    };
    for scene in SCENES.iter().step_by(37) {
        let (one, two) = pauses(scene);
        assert_eq!(one, two, "scene {}", scene.number);
    }
}

// ---- Human recordings ----

/// Bars that are not reached, with the figure of today by a pipeline and by a realtime provider; `None`: it is reached there, or
/// has no such row. Who improves one writes the better figure here, and who reaches the bar takes it off the list.
const NOT_REACHED: &[(&str, Option<f64>, Option<f64>)] = &[
    ("sentence cut behind a function word, 700 ms: not cut off", None, Some(50.0)),
    ("sentence cut behind a function word, 900 ms: not cut off", None, Some(0.0)),
    ("sentence cut at a real pause, 900 ms: not cut off", Some(0.0), Some(0.0)),
    ("sentence cut at a real pause, full stop written, 900 ms: not cut off", Some(0.0), None),
    ("gap after a complete sentence, p50", None, Some(773.0)),
    ("short answers on a line at -45 dBFS: answered", Some(90.9), Some(90.9)),
    ("sentences with five voices 10 dB below: gap, p95", None, Some(2173.0)),
    ("agent heard over 10 s of a television at -30 dBFS, before the caller has spoken", Some(3.0), Some(3.0)),
    ("agent heard over 10 s of five voices at -30 dBFS, before the caller has spoken", Some(2.0), Some(2.0)),
    ("agent heard over 10 s of hold music at -30 dBFS, before the caller has spoken", Some(33.0), Some(33.0)),
    ("SYNTHETIC cough at -40, -30, -20 dBFS: false stops", Some(1.0), Some(1.0)),
];

/// Every second scene about words and sentences is played here, and all of them by `offhook-bench turns`.
const STEP: usize = 2;

#[allow(clippy::disallowed_methods)] // A test needs some instant to count from.
fn rows(kind: Kind) -> Vec<Row> {
    People { set: &PEOPLE, half: Half::Judging, kind, step: STEP, start: Instant::now() }.rows()
}

/// What is wrong with a row, by the list of those bars that are not reached.
fn wrong(row: &Row, kind: Kind) -> Option<String> {
    let listed = NOT_REACHED.iter().find(|(what, ..)| *what == row.what);
    let today = listed.and_then(|(_, pipeline, realtime)| match kind {
        Kind::Pipeline => *pipeline,
        Kind::Realtime => *realtime,
    });
    let (what, figure, bar) = (&row.what, row.shown(), row.shown_bar());
    match today {
        None => (!row.reached()).then(|| format!("{what}: {figure}, and the bar is {bar}")),
        Some(_) if row.reached() => Some(format!("{what}: {figure} reaches {bar}: take it off the list")),
        Some(today) => {
            let worse = match row.bar {
                Bar::AtLeast(_) => row.figure < today - 0.5,
                Bar::AtMost(_) => row.figure > today + 0.5,
            };
            worse.then(|| format!("{what}: {figure} is worse than the {today:.0} of the list"))
        }
    }
}

fn fares_no_worse(kind: Kind) {
    let rows = rows(kind);
    for row in &rows {
        println!("{:<70}{:>8}{:>12}{:>12}  {}", row.what, row.scenes, row.shown(), row.shown_bar(), row.figure);
    }
    let wrong: Vec<String> = rows.iter().filter_map(|row| wrong(row, kind)).collect();
    assert!(wrong.is_empty(), "by the recordings that judge, {}:\n{}", kind.name(), wrong.join("\n"));
    let known = |what: &str| kind == Kind::Realtime || rows.iter().any(|row| row.what == what);
    assert!(NOT_REACHED.iter().all(|(what, ..)| known(what)), "the list names rows that there are");
}

#[test]
fn people_who_call_a_pipeline_fare_as_the_bars_say_and_the_list_of_exceptions() {
    fares_no_worse(Kind::Pipeline);
}

#[test]
fn people_who_call_a_realtime_provider_fare_as_the_bars_say_and_the_list_of_exceptions() {
    fares_no_worse(Kind::Realtime);
}

/// Without this no share of what is heard would mean anything.
#[test]
#[allow(clippy::disallowed_methods)] // A test needs some instant to count from.
fn on_a_quiet_line_all_of_the_agent_is_heard() {
    let greeting = &PEOPLE[0].sound;
    let lasts = Duration::from_secs(8);
    for kind in Kind::ALL {
        let agent = [greeting, greeting];
        let script = Script {
            kind,
            agent,
            question: "",
            said: Vec::new(),
            background: None,
            line: Line::Good,
            full_stops: false,
            lasts,
        };
        let call = play(&script, Instant::now());
        let heard = 20 * call.audible.len();
        let audible = greeting.without_pauses().len() / 8;
        assert!(heard.abs_diff(audible) <= 60, "{heard} of {audible} ms");
        assert!(call.turns.is_empty() && call.interrupts.is_empty() && call.asked.is_empty());
    }
}
