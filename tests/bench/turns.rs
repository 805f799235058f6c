//! How callers fare, by human recordings; who is let in and who is not, on the labelled set; and what a call's ears cost,
//! beside decoding the same audio and measuring its level alone, in the same run.

mod conversation;
mod lines;
mod people;
mod recordings;
pub mod set;
mod stand_in;

use super::{report::Bars, samples::percentile};
use clap::Args;
use offhook::{
    audio::{FRAME, Format, VoiceDetector, rms_dbfs},
    call::{AgentSound, TurnRules, TurnTaker},
};
use people::{People, Row};
use recordings::Half;
use set::{Scene, Table};
use stand_in::Kind;
use std::{
    hint::black_box,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::time::Instant;

/// Of the scenes that are no interruptions, in percent; and of the interruptions.
const FALSE_STOPS_MAX: f64 = 5.0;
const MISSED_MAX: f64 = 2.0;
/// From the onset of an interruption to the pause, p95.
const PAUSE_MAX_MS: f64 = 100.0;
/// Width of the first column of the table.
const WHAT: usize = 70;
/// Whoever interrupts is known to by then.
const VERDICT_MAX_MS: f64 = 600.0;

#[derive(Args)]
pub struct TurnsArguments {
    /// The labelled set, as `tests/fixtures/turn_taking/generate.py FOLDER` makes it.
    #[arg(long, value_name = "FOLDER", default_value = "target/turn_taking")]
    set: PathBuf,
    /// The human recordings, as `tests/fixtures/speech/make.py FOLDER` makes them.
    #[arg(long, value_name = "FOLDER", default_value = "target/speech")]
    people: PathBuf,
    /// How often the figures of processor time take turns.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
}

pub fn run(arguments: &TurnsArguments) -> ExitCode {
    let scenes = match set::read(&arguments.set) {
        Ok(scenes) => scenes,
        Err(error) => {
            eprintln!("offhook-bench: the labelled set cannot be read: {error:#}");
            eprintln!("Make it with: tests/fixtures/turn_taking/generate.py {}", arguments.set.display());
            return ExitCode::from(3);
        }
    };
    // A point to count from; scenes are played on a clock of their own.
    let start = Instant::now().into_std();
    let mut bars = Bars::default();
    by_people(&arguments.people, start, &mut bars);
    let table = |of: fn(&Scene) -> bool| {
        let mut table = Table::default();
        for scene in scenes.iter().filter(|scene| of(scene)) {
            table.add(scene, &set::play(scene, TurnRules::default(), start));
        }
        table
    };
    print("Scenes that the thresholds were tuned on", &table(|scene| !scene.judges()));
    let judging = table(Scene::judges);
    print("Scenes that judge them", &judging);
    for (which, table) in [("the whole set", table(|_| true)), ("the scenes that judge", judging)] {
        bar(&mut bars, &format!("false stops, {which}"), table.false_stops(), FALSE_STOPS_MAX, "%");
        bar(&mut bars, &format!("missed interruptions, {which}"), table.missed(), MISSED_MAX, "%");
        let pause = percentile(&table.pause_after, 95.0).unwrap_or(f64::INFINITY);
        bar(&mut bars, &format!("onset → pause, p95, {which}"), pause, PAUSE_MAX_MS, "ms");
        let verdict = percentile(&table.verdict_after, 95.0).unwrap_or(f64::INFINITY);
        bar(&mut bars, &format!("onset → interruption, p95, {which}"), verdict, VERDICT_MAX_MS, "ms");
    }
    cost(&scenes, arguments.rounds, start);
    bars.verdict()
}

/// Prints one table. The bars are held against the half of the recordings that nothing was tuned on.
fn by_people(folder: &Path, start: std::time::Instant, bars: &mut Bars) {
    let set = match recordings::read(folder) {
        Ok(set) => set,
        Err(error) => {
            eprintln!("offhook-bench: the human recordings cannot be read: {error:#}");
            eprintln!("Make them with: tests/fixtures/speech/make.py {}", folder.display());
            return bars.bar("calls of people", "not measured", "measured", false, false);
        }
    };
    let rows = |half| Kind::ALL.map(|kind| People { set: &set, half, kind, step: 1, start }.rows());
    let [judging, tuning] = [Half::Judging, Half::Tuning].map(rows);
    let columns: Vec<&Vec<Row>> = judging.iter().chain(&tuning).collect();
    println!("Calls of people, by their recordings. Each half of these has scenes of its own:\n");
    println!("{:WHAT$}{:>8}{:>22}{:>26}", "", "", "the half that judges", "the half to tune on");
    print!("{:WHAT$}{:>8}", "", "scenes");
    for kind in Kind::ALL.iter().chain(&Kind::ALL) {
        print!("{:>12}", kind.name());
    }
    println!("{:>12}", "bar");
    for row in &judging[0] {
        let same: Vec<Option<&Row>> =
            columns.iter().map(|rows| rows.iter().find(|other| other.what == row.what)).collect();
        print!("{:WHAT$}{:>8}", row.what, row.scenes);
        for same in &same {
            print!("{:>12}", same.map_or("–".into(), Row::shown));
        }
        let missed = same.iter().take(Kind::ALL.len()).flatten().filter(|row| !row.reached()).count();
        bars.missed(missed);
        println!("{:>12}  {}", row.shown_bar(), if missed == 0 { "reached" } else { "NOT REACHED" });
    }
    println!();
}

fn print(title: &str, table: &Table) {
    println!("{title}:\n\n{table}");
    println!("false stops           {:>6.1} %", table.false_stops());
    println!("missed interruptions  {:>6.1} %", table.missed());
    let ms = |samples: &[Duration], percent| percentile(samples, percent).map_or("–".into(), |ms| format!("{ms:.0}"));
    for (name, samples) in [
        ("onset → pause", &table.pause_after),
        ("onset → interruption", &table.verdict_after),
        ("pause → taken back", &table.gaps),
    ] {
        println!("{name:<20} p50 {:>4} ms, p95 {:>4} ms", ms(samples, 50.0), ms(samples, 95.0));
    }
    println!("pauses taken back    {:.2} in each scene", table.gaps_per_scene());
    println!();
}

fn bar(bars: &mut Bars, name: &str, value: f64, bar: f64, unit: &str) {
    bars.bar(name, &format!("{value:.1} {unit}"), &format!("{bar:.0} {unit}"), value <= bar, false);
}

/// The processor time that a second of a call's audio takes.
fn cost(scenes: &[Scene], rounds: u8, start: std::time::Instant) {
    if cfg!(debug_assertions) {
        println!("\nNOT USABLE  This is a debug build: what follows is not what a call costs.");
    }
    let frames: usize = scenes.iter().map(|scene| scene.caller.len() / Format::ULAW.frame_bytes()).sum();
    let seconds = (FRAME * frames as u32).as_secs_f64();
    let each_scene = |listen: fn(&Scene, std::time::Instant)| {
        let began = Instant::now();
        scenes.iter().for_each(|scene| listen(scene, start));
        began.elapsed().as_secs_f64() * 1e6 / seconds
    };
    let names = ["floor: G.711 decoded, its level", "voice detector", "turn taker, both directions"];
    let mut best = [f64::INFINITY; 3];
    for _ in 0..rounds {
        for (best, listen) in best.iter_mut().zip([decode, detect, take_turns]) {
            *best = best.min(each_scene(listen));
        }
    }
    println!("\nProcessor time of one call, over {seconds:.0} s of audio:\n");
    println!("{:<34}{:>14}{:>14}{:>14}", "", "µs per second", "% of a core", "of the floor");
    for (name, figure) in names.into_iter().zip(best) {
        println!("{name:<34}{figure:>14.1}{:>14.4}{:>13.1}x", figure / 1e4, figure / best[0]);
    }
}

fn frames(audio: &[u8]) -> impl Iterator<Item = &[u8]> {
    audio.chunks_exact(Format::ULAW.frame_bytes())
}

fn decode(scene: &Scene, _: std::time::Instant) {
    let mut samples = Vec::new();
    for frame in frames(&scene.caller) {
        samples.clear();
        Format::ULAW.decode(black_box(frame), &mut samples);
        black_box(rms_dbfs(&samples));
    }
}

fn detect(scene: &Scene, _: std::time::Instant) {
    let (mut detector, mut heard) = (VoiceDetector::new(Format::ULAW), Vec::new());
    for frame in frames(&scene.caller) {
        heard.clear();
        detector.hear(black_box(frame), &mut heard);
    }
    black_box(&heard);
}

fn take_turns(scene: &Scene, start: std::time::Instant) {
    let (mut taker, mut events) = (TurnTaker::new(TurnRules::default(), Format::ULAW), Vec::new());
    let mut now = start;
    for (caller, agent) in frames(&scene.caller).zip(frames(&scene.agent)) {
        now += FRAME;
        taker.played(black_box(agent), now);
        taker.hear(black_box(caller), AgentSound::Speaking, now, &mut events);
    }
    black_box(&events);
}
