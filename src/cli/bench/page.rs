//! What the page costs: how long somebody waits for it, and what it takes from the calls when somebody watches them.

use super::{
    hour,
    process::{Cores, cpu_time},
    records,
    report::Bars,
    run::{self, Plan},
    samples::{median, percentile},
    say,
    system::{Extra, Folder, Kind, System, end_of},
};
use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

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
/// From the request to the last byte of the last part.
const READY_MAX: Duration = Duration::from_millis(300);
/// How often each page is loaded.
const TIMES: usize = 20;
/// A browser that starts, and opens each page that often.
const BROWSER_WITHIN: Duration = Duration::from_secs(180);
/// The vendor whose calls cost least: the page's part of them is the largest.
const KIND: Kind = Kind::Deepgram;
const PLAIN: Extra = Extra { context: "", turns: None, more: "records: { directory: records }\n" };

pub async fn bench(arguments: &PageArguments, cores: Option<Cores>) -> anyhow::Result<Bars> {
    let folder = Folder::create()?;
    let mut bars = Bars::default();
    live_view(arguments, cores, folder.path(), &mut bars).await.map_err(told(&folder))?;
    loads(arguments, cores, folder.path(), &mut bars).await.map_err(told(&folder))?;
    Ok(bars)
}

/// What it costs that somebody watches. Both are measured in turn in one engine, among the same calls: two engines differ by
/// more than a page costs.
async fn live_view(
    arguments: &PageArguments,
    cores: Option<Cores>,
    folder: &Path,
    bars: &mut Bars,
) -> anyhow::Result<()> {
    let window = Duration::from_secs(arguments.seconds);
    let rounds = u32::from(arguments.rounds);
    let plan = Plan { calls: arguments.calls.into(), window: window * 2 * rounds, cores, extra: PLAIN };
    say(&format!("{} calls, {rounds} times {} s unwatched and {0} s watched ", plan.calls, arguments.seconds));
    let in_turn = async |system: &System| {
        let (mut unwatched, mut watched, mut events) = (Vec::new(), Vec::new(), 0);
        for round in 0..rounds {
            // What comes first takes turns as well: calls may cost more as they last.
            for watches in [round % 2 == 1, round % 2 == 0] {
                let (began, before) = (Instant::now(), used(system)?);
                match watches {
                    true => events += watch(system, window).await?,
                    false => sleep(window).await,
                }
                let cpu = (used(system)? - before).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
                if watches { &mut watched } else { &mut unwatched }.push(cpu);
            }
        }
        Ok((unwatched, watched, events))
    };
    let (figures, (unwatched, watched, events)) =
        run::measure_beside(KIND, &plan, folder, || say("."), in_turn).await?;
    say(" done\n");
    let middle = |all: &[f64]| median(all.iter().copied()).unwrap_or(f64::INFINITY);
    let more: Vec<f64> = unwatched.iter().zip(&watched).map(|(unwatched, watched)| watched - unwatched).collect();
    let adds = middle(&more);
    println!("\n{} calls with {}, {rounds} rounds, % of a core\n", plan.calls, KIND.name());
    println!("                    p50     least      most");
    for (name, all) in [("unwatched", &unwatched), ("watched", &watched), ("difference", &more)] {
        let edge = |of: fn(f64, f64) -> f64| all.iter().copied().reduce(of).unwrap_or(f64::INFINITY);
        println!("{name:12} {:10.2}{:10.2}{:10.2}", middle(all), edge(f64::min), edge(f64::max));
    }
    println!("\n{events} times the page was told how things are\n");
    let doubts = figures.doubts();
    doubts.iter().for_each(|doubt| println!("NOT USABLE  {doubt}"));
    let unusable = cores.is_none() || !doubts.is_empty();
    let value = format!("{adds:.2} % of a core");
    bars.bar("CPU of the live view", &value, &format!("{WATCHING_MAX} %"), adds <= WATCHING_MAX, unusable);
    Ok(())
}

fn used(system: &System) -> anyhow::Result<Duration> {
    cpu_time(system.pid).context("the engine has ended")
}

fn told(folder: &Folder) -> impl Fn(anyhow::Error) -> anyhow::Error {
    |error| error.context(format!("the end of the engine's log:\n{}", end_of(&folder.path().join("engine.log"))))
}

/// As a browser with the page open; how often it was told something.
async fn watch(system: &System, window: Duration) -> anyhow::Result<usize> {
    let mut answer = system.ask(&System::client()?, "stream").await?;
    let (until, mut events) = (Instant::now() + window, 0);
    while let Ok(part) = tokio::time::timeout_at(until, answer.chunk()).await {
        let part = part?.context("the stream of the page has ended")?;
        events += part.windows(7).filter(|text| text == b"event: ").count();
    }
    Ok(events)
}

/// Every page with all that it is made of, one part after the other, among calls that run and calls that have ended.
async fn loads(arguments: &PageArguments, cores: Option<Cores>, folder: &Path, bars: &mut Bars) -> anyhow::Result<()> {
    say(&format!("{} records of calls are made ", arguments.records));
    let directory = folder.join("records");
    let newest = records::fill(&directory.join("calls.sqlite3"), arguments.records)?;
    let hour = hour::keep(&directory, &records::record(arguments.records, Timestamp::now()))?.id;
    say("done\n");
    let plan = Plan { calls: arguments.live.into(), window: Duration::from_secs(2), cores, extra: PLAIN };
    let [one, hour, waveform] =
        [format!("history/{newest}"), format!("history/{hour}"), format!("history/{hour}/waveform.svg")];
    let pages = [
        ("floor: whether the engine is up", "live"),
        ("Live", ""),
        ("History", "history"),
        ("History, a search for words", "history?words=seldom"),
        ("one call", &one),
        ("one call, a recorded hour", &hour),
        ("Contexts", "contexts"),
        ("Providers", "providers"),
        ("Tools", "tools"),
        ("MCP", "mcp"),
        ("System", "system"),
    ];
    let beside = async |system: &System| {
        let client = System::client()?;
        let mut took: Vec<Vec<Duration>> = vec![Vec::new(); pages.len()];
        for _ in 0..TIMES {
            for ((_, page), took) in pages.iter().zip(&mut took) {
                let began = Instant::now();
                let text = system.ask(&client, page).await?.text().await?;
                for part in parts(&text) {
                    system.ask(&client, part).await?.bytes().await?;
                }
                took.push(began.elapsed());
            }
        }
        let mut drawn = Vec::new();
        while drawn.len() < TIMES {
            let began = Instant::now();
            let Some(answer) = there(system.ask(&client, &waveform).await)? else { break };
            answer.bytes().await?;
            drawn.push(began.elapsed());
        }
        let seen = match &arguments.browser {
            Some(script) => Some(seen(system, script, cores, &pages.map(|(_, page)| page)).await?),
            None => None,
        };
        Ok((took, drawn, seen))
    };
    let (_, (took, drawn, seen)) = run::measure_beside(KIND, &plan, folder, || say("."), beside).await?;
    say(" done\n");
    println!("\n{} live calls, {} records, {TIMES} times each, in ms\n", arguments.live, arguments.records);
    println!("                                       first      p50      max    ratio");
    let floor = percentile(&took[0], 50.0).unwrap_or(f64::INFINITY);
    let most: Vec<f64> = pages.iter().zip(&took).map(|((name, _), took)| line(name, took, floor)).collect();
    match drawn.is_empty() {
        true => println!("The waveform of a recorded hour is part of its page."),
        false => _ = line("the hour's waveform, loaded apart", &drawn, floor),
    }
    println!();
    let mut bar = |name: &str, most: f64| {
        let (value, bar) = (format!("{most:.0} ms"), format!("{} ms", READY_MAX.as_millis()));
        bars.bar(name, &value, &bar, most <= READY_MAX.as_millis() as f64, false);
    };
    for ((name, _), most) in pages.iter().zip(most).skip(1) {
        bar(&format!("the page {name}"), most);
    }
    if let Some(seen) = seen {
        println!(
            "\nin a browser, until all is loaded and painted\n                                       first      p50      max    ratio"
        );
        let floor = percentile(&seen[0], 50.0).unwrap_or(f64::INFINITY);
        for ((name, _), took) in pages.iter().zip(&seen) {
            line(name, took, floor);
        }
        println!();
        for ((name, _), took) in pages.iter().zip(&seen).skip(1) {
            let nearly_all = percentile(took, 95.0).unwrap_or(f64::INFINITY);
            bar(&format!("the page {name} in a browser, p95"), nearly_all);
        }
    }
    Ok(())
}

/// How long a browser needed for each page, as a script tells it.
async fn seen(
    system: &System,
    script: &Path,
    cores: Option<Cores>,
    pages: &[&str],
) -> anyhow::Result<Vec<Vec<Duration>>> {
    let modules = std::env::current_dir()?.join("target/npm/node_modules");
    let profile = tempfile::TempDir::with_prefix("offhook-bench-")?;
    // It goes where the system puts it, as an admin's would; the load keeps its core.
    let mut command = match cores {
        Some(Cores { system, load }) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &format!("{system},{load}"), "node"]);
            command
        }
        None => Command::new("node"),
    };
    let (address, token) = system.page_for_browsers()?;
    command.arg(script).env("NODE_MODULES", modules).env("PAGE", address).env("TOKEN", token);
    command.env("PAGES", serde_json::to_string(pages)?).env("TIMES", TIMES.to_string());
    command.env("PROFILE", profile.path().join("browser")).stdin(Stdio::null()).kill_on_drop(true);
    let output =
        tokio::time::timeout(BROWSER_WITHIN, command.output()).await.context("the browser takes too long")??;
    let told = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "the browser's script failed (make setup installs what it needs): {told}");
    let lines: Vec<Vec<f64>> =
        String::from_utf8(output.stdout)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    anyhow::ensure!(lines.len() == pages.len(), "{} pages of {} were opened", lines.len(), pages.len());
    Ok(lines.iter().map(|took| took.iter().map(|ms| Duration::from_secs_f64(ms / 1_000.0)).collect()).collect())
}

/// An answer, or nothing where the engine has no such address.
fn there(answer: anyhow::Result<reqwest::Response>) -> anyhow::Result<Option<reqwest::Response>> {
    match answer {
        Err(error) if error.downcast_ref().and_then(reqwest::Error::status) == Some(reqwest::StatusCode::NOT_FOUND) => {
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// One line of the table; the longest of the times in ms.
fn line(name: &str, took: &[Duration], floor: f64) -> f64 {
    let first = took.first().map_or(f64::INFINITY, |first| first.as_secs_f64() * 1_000.0);
    let [half, most] = [50.0, 100.0].map(|percent| percentile(took, percent).unwrap_or(f64::INFINITY));
    println!("{name:36}{first:8.1} {half:8.1} {most:8.1} {:8.1}", half / floor);
    most
}

/// What a page is made of besides.
fn parts(page: &str) -> impl Iterator<Item = &str> {
    page.split("\"/").skip(1).filter_map(|rest| rest.split('"').next()).filter(|path| path.starts_with("assets/"))
}
