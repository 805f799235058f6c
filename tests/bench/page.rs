//! What the page costs: how long somebody waits for it, and what it takes from the calls when somebody watches them.

mod filled;
mod loads;

use super::{
    process::{Cores, cpu_time},
    report::Bars,
    run::{self, Plan},
    samples::median,
    say,
    system::{Extra, Folder, Kind, System, end_of},
};
use anyhow::Context as _;
use clap::Args;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep};

#[derive(Args)]
pub struct PageArguments {
    /// Calls at once while somebody watches them.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    calls: u16,
    /// Calls at once while pages are loaded.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    live: u16,
    /// How many calls have ended.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    records: u32,
    /// How long calls are watched, and not watched, in each round.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=3_600))]
    seconds: u64,
    /// How often they are watched and not watched in turn.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// A script for node that opens pages in a browser: tests/web/ready.mjs. Without one, pages are loaded and not drawn.
    #[arg(long, value_name = "SCRIPT")]
    browser: Option<PathBuf>,
}

/// Of a core, at 100 calls.
const WATCHING_MAX: f64 = 2.0;
/// Who watches, and nobody: a browser with *Live*, a program.
const WATCHERS: [Option<&str>; 3] = [None, Some("stream"), Some("api/v1/events")];
/// The vendor whose calls cost least: the page's part of them is the largest.
const KIND: Kind = Kind::Deepgram;
const PLAIN: Extra = Extra { context: "", turns: None, more: "records: { directory: records }\n" };

pub async fn bench(arguments: &PageArguments, cores: Option<Cores>) -> anyhow::Result<Bars> {
    let folder = Folder::create()?;
    let mut bars = Bars::default();
    live_view(arguments, cores, folder.path(), &mut bars).await.map_err(told(&folder))?;
    loads::loads(arguments, cores, folder.path(), &mut bars).await.map_err(told(&folder))?;
    Ok(bars)
}

/// What it costs that somebody watches. All are measured in turn in one engine, among the same calls: two engines differ by
/// more than a page costs.
async fn live_view(
    arguments: &PageArguments,
    cores: Option<Cores>,
    folder: &Path,
    bars: &mut Bars,
) -> anyhow::Result<()> {
    let window = Duration::from_secs(arguments.seconds);
    let rounds = u32::from(arguments.rounds);
    let plan = Plan { calls: arguments.calls.into(), window: window * 3 * rounds, cores, extra: PLAIN };
    say(&format!(
        "{} calls, {rounds} times {} s unwatched, {1} s watched and {1} s told to a program ",
        plan.calls, arguments.seconds
    ));
    let in_turn = async |system: &System| {
        let (mut cpu, mut events) = ([const { Vec::new() }; WATCHERS.len()], 0);
        for round in 0..usize::from(arguments.rounds) {
            // What comes first takes turns as well: calls may cost more as they last.
            for turn in 0..WATCHERS.len() {
                let who = (round + turn) % WATCHERS.len();
                let (began, before) = (Instant::now(), used(system)?);
                match WATCHERS[who] {
                    Some(stream) => events += watch(system, stream, window).await?,
                    None => sleep(window).await,
                }
                cpu[who].push((used(system)? - before).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0);
            }
        }
        Ok((cpu, events))
    };
    let (figures, (cpu, events)) = run::measure_beside(KIND, &plan, folder, || say("."), in_turn).await?;
    say(" done\n");
    let [unwatched, watched, told] = &cpu;
    let more = |of: &[f64]| -> Vec<f64> { unwatched.iter().zip(of).map(|(unwatched, of)| of - unwatched).collect() };
    let (more_watched, more_told) = (more(watched), more(told));
    println!("\n{} calls with {}, {rounds} rounds, % of a core\n", plan.calls, KIND.name());
    println!("                    p50     least      most");
    for (name, all) in [
        ("unwatched", unwatched),
        ("watched", watched),
        ("difference", &more_watched),
        ("by the API", told),
        ("difference", &more_told),
    ] {
        let edge = |of: fn(f64, f64) -> f64| all.iter().copied().reduce(of).unwrap_or(f64::INFINITY);
        println!("{name:12} {:10.2}{:10.2}{:10.2}", middle(all), edge(f64::min), edge(f64::max));
    }
    println!("\n{events} times somebody was told how things are\n");
    let doubts = figures.doubts();
    doubts.iter().for_each(|doubt| println!("NOT USABLE  {doubt}"));
    let unusable = cores.is_none() || !doubts.is_empty();
    for (name, more) in [("the live view", more_watched), ("the API's events", more_told)] {
        let (adds, bar) = (middle(&more), format!("{WATCHING_MAX} %"));
        let value = format!("{adds:.2} % of a core");
        bars.bar(&format!("CPU of {name}"), &value, &bar, adds <= WATCHING_MAX, unusable);
    }
    Ok(())
}

fn middle(all: &[f64]) -> f64 {
    median(all.iter().copied()).unwrap_or(f64::INFINITY)
}

fn used(system: &System) -> anyhow::Result<Duration> {
    cpu_time(system.pid).context("the engine has ended")
}

fn told(folder: &Folder) -> impl Fn(anyhow::Error) -> anyhow::Error {
    |error| error.context(format!("the end of the engine's log:\n{}", end_of(&folder.path().join("engine.log"))))
}

/// As a browser with the page open, or a program; how often it was told something.
async fn watch(system: &System, stream: &str, window: Duration) -> anyhow::Result<usize> {
    let mut answer = system.ask(&System::client()?, stream).await?;
    let (until, mut events) = (Instant::now() + window, 0);
    while let Ok(part) = tokio::time::timeout_at(until, answer.chunk()).await {
        let part = part?.context("the stream of events has ended")?;
        events += part.windows(7).filter(|text| text == b"event: ").count();
    }
    Ok(events)
}
