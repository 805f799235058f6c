//! The labelled set of turn-taking, made by espeak-ng and sox: how often the agent is stopped for nothing, and how
//! often a caller who interrupts is not heard.

#[path = "../src/cli/bench/turns/set.rs"]
mod set;

use offhook::call::TurnRules;
use set::{Label, Scene, Table};
use std::{process::Command, sync::LazyLock, time::Instant};

static SCENES: LazyLock<Vec<Scene>> = LazyLock::new(|| {
    let folder = offhook_kit::program().with_file_name("../turn_taking");
    let generator = offhook_kit::project().join("tests/fixtures/turn_taking/generate.py");
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
