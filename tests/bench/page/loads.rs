//! How long somebody waits for a page, who loads it, and in a browser.

use super::super::{
    hour,
    process::Cores,
    records,
    report::Bars,
    run::{self, Plan},
    samples::percentile,
    say,
    system::System,
};
use super::{KIND, PageArguments, filled};
use anyhow::Context as _;
use jiff::Timestamp;
use std::{path::Path, process::Stdio, time::Duration};
use tokio::{process::Command, time::Instant};

/// From the request to the last byte of the last part.
const READY_MAX: Duration = Duration::from_millis(300);
/// How often each page is loaded.
const TIMES: usize = 20;
/// A browser that starts, and opens each page that often.
const BROWSER_WITHIN: Duration = Duration::from_secs(240);
/// Stands for the page of a call that runs, whose id is not known yet.
const A_RUNNING_CALL: &str = "live/…";

/// What is asked of one engine.
struct Took {
    pages: Vec<Vec<Duration>>,
    /// Of the hour's picture, where it is no part of its page.
    waveform: Vec<Duration>,
    events: Vec<Duration>,
    /// In a browser, where there is one.
    seen: Option<Vec<Vec<Duration>>>,
}

/// Every page with all that it is made of, one part after the other, among calls that run and calls that have ended, with tools
/// and MCP servers.
pub async fn loads(
    arguments: &PageArguments,
    cores: Option<Cores>,
    folder: &Path,
    bars: &mut Bars,
) -> anyhow::Result<()> {
    say(&format!("{} records of calls are made ", arguments.records));
    let directory = folder.join("records");
    let newest = records::fill(&directory.join("calls.sqlite3"), arguments.records)?;
    let hour = hour::keep(&directory, &records::record(arguments.records, Timestamp::now()))?.id;
    filled::write(folder)?;
    say("done\n");
    let plan = Plan { calls: arguments.live.into(), window: Duration::from_secs(2), cores, extra: filled::EXTRA };
    let [one, hour, waveform] =
        [format!("history/{newest}"), format!("history/{hour}"), format!("history/{hour}/waveform.svg")];
    let pages = [
        ("floor: whether the engine is up", "live"),
        ("Live", ""),
        ("one running call", A_RUNNING_CALL),
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
        filled::wait(system).await?;
        let running = running(system).await?;
        let paths = pages.map(|(_, path)| if path == A_RUNNING_CALL { running.as_str() } else { path });
        let client = System::client()?;
        let pages = loaded(system, &client, &paths).await?;
        let waveform = drawn(system, &client, &waveform).await?;
        let events = first_events(system).await?;
        let seen = match &arguments.browser {
            Some(script) => Some(seen(system, script, cores, &paths).await?),
            None => None,
        };
        Ok(Took { pages, waveform, events, seen })
    };
    let (_, took) = run::measure_beside(KIND, &plan, folder, || say("."), beside).await?;
    say(" done\n");
    println!("\n{} live calls, {} records, {TIMES} times each, in ms\n", arguments.live, arguments.records);
    print(&pages.map(|(name, _)| name), &took, bars);
    Ok(())
}

/// Where the page of a call that runs is.
async fn running(system: &System) -> anyhow::Result<String> {
    let live: serde_json::Value = serde_json::from_str(&system.page("api/v1/live").await?)?;
    let id = live["active"][0]["id"].as_str().context("no call runs")?;
    Ok(format!("live/{id}"))
}

async fn loaded(system: &System, client: &reqwest::Client, pages: &[&str]) -> anyhow::Result<Vec<Vec<Duration>>> {
    let mut took: Vec<Vec<Duration>> = vec![Vec::new(); pages.len()];
    for _ in 0..TIMES {
        for (page, took) in pages.iter().zip(&mut took) {
            let began = Instant::now();
            let text = system.ask(client, page).await?.text().await?;
            for part in parts(&text) {
                system.ask(client, part).await?.bytes().await?;
            }
            took.push(began.elapsed());
        }
    }
    Ok(took)
}

async fn drawn(system: &System, client: &reqwest::Client, waveform: &str) -> anyhow::Result<Vec<Duration>> {
    let mut drawn = Vec::new();
    while drawn.len() < TIMES {
        let began = Instant::now();
        let Some(answer) = there(system.ask(client, waveform).await)? else { break };
        answer.bytes().await?;
        drawn.push(began.elapsed());
    }
    Ok(drawn)
}

/// From the request until a program knows how things are; each time over a connection of its own.
async fn first_events(system: &System) -> anyhow::Result<Vec<Duration>> {
    let mut took = Vec::new();
    while took.len() < TIMES {
        let client = System::client()?;
        let began = Instant::now();
        let mut answer = system.ask(&client, "api/v1/events").await?;
        let mut event = Vec::new();
        // An empty line ends it.
        while !event.ends_with(b"\n\n") {
            event.extend(answer.chunk().await?.context("the stream of events has ended")?);
        }
        took.push(began.elapsed());
    }
    Ok(took)
}

/// Names and what they took, with the bars.
fn print(pages: &[&str], took: &Took, bars: &mut Bars) {
    println!("                                       first      p50      max    ratio");
    let floor = percentile(&took.pages[0], 50.0).unwrap_or(f64::INFINITY);
    let most: Vec<f64> = pages.iter().zip(&took.pages).map(|(name, took)| line(name, took, floor)).collect();
    match took.waveform.is_empty() {
        true => println!("The waveform of a recorded hour is part of its page."),
        false => _ = line("the hour's waveform, loaded apart", &took.waveform, floor),
    }
    let events = line("the API's events, the first of them", &took.events, floor);
    println!();
    let mut bar = |name: &str, most: f64| {
        let (value, bar) = (format!("{most:.0} ms"), format!("{} ms", READY_MAX.as_millis()));
        bars.bar(name, &value, &bar, most <= READY_MAX.as_millis() as f64, false);
    };
    for (name, most) in pages.iter().zip(most).skip(1) {
        bar(&format!("the page {name}"), most);
    }
    bar("the first of the API's events", events);
    let Some(seen) = &took.seen else { return };
    println!(
        "\nin a browser, until all is loaded and painted\n                                       first      p50      max    ratio"
    );
    let floor = percentile(&seen[0], 50.0).unwrap_or(f64::INFINITY);
    for (name, took) in pages.iter().zip(seen) {
        line(name, took, floor);
    }
    println!();
    for (name, took) in pages.iter().zip(seen).skip(1) {
        // The first has nothing in the cache: among the others it would be the one in twenty that a percentile leaves out.
        let (first, others) = took.split_at(usize::from(!took.is_empty()));
        bar(
            &format!("the page {name} in a browser, the first time"),
            percentile(first, 100.0).unwrap_or(f64::INFINITY),
        );
        bar(&format!("the page {name} in a browser, p95"), percentile(others, 95.0).unwrap_or(f64::INFINITY));
    }
}

/// How long a browser needed for each page, as a script tells it: the first time with nothing in its cache, then as often.
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
    command.env("PAGES", serde_json::to_string(pages)?).env("TIMES", (TIMES + 1).to_string());
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
