//! `offhook-bench`: what a call costs, beside a floor that is measured in the same run.
//!
//! The system under test has one core, the load another. Floor and engine take turns, so that a
//! machine whose speed drifts does so for both.

mod asterisk;
mod barge_in;
mod failover;
mod floor;
mod gate;
mod greeting;
mod hour;
mod load;
mod mcp;
mod page;
mod peer;
mod process;
mod recording;
mod records;
mod repair;
mod report;
mod run;
mod samples;
mod soak;
mod stages;
mod system;
mod telephone;
mod tools;
mod turns;
mod vam;

use clap::{Parser, Subcommand};
use process::{Cores, ENGINE, beside};
use report::{Bars, Rounds};
use run::Plan;
use std::{io::Write as _, process::ExitCode, time::Duration};
use system::{Extra, Folder, Kind};

/// What a call costs, beside a floor measured in the same run.
#[derive(Parser)]
#[command(name = "offhook-bench", version, args_conflicts_with_subcommands = true, after_long_help = MANUAL)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    /// Calls at once.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    calls: u16,
    /// How long each round measures, once all calls are up.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=3_600))]
    seconds: u64,
    /// How often floor and engine take turns.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Only these, beside the floor, and no calls through a real Asterisk unless `--asterisk` asks for them.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = Kind::by_name)]
    only: Vec<Kind>,
    /// With `--only`, the calls through a real Asterisk as well: `--only floor --asterisk` is these alone.
    #[arg(long, requires = "only")]
    asterisk: bool,
}

const MANUAL: &str = "\
EXIT CODES
  0  every bar was reached
  1  a bar was missed
  2  wrong arguments
  3  something could not be measured
";

/// What is measured by itself, without calls.
#[derive(Subcommand)]
enum Part {
    /// What a decision of the gate costs, beside reading the same event as JSON.
    Gate(gate::GateArguments),
    /// What it costs to decide about a tool call, beside parsing and validating its arguments alone.
    Tools(tools::ToolsArguments),
    /// What offhook adds to a call of an MCP tool, beside the bare client library.
    Mcp(mcp::McpArguments),
    /// What a search in the records of ended calls costs.
    Records(records::RecordsArguments),
    /// How long a browser waits for the page, and what it costs to watch calls.
    Page(page::PageArguments),
    /// What it costs to record calls.
    Recording(recording::RecordingArguments),
    /// Who interrupts the agent and who does not, on a labelled set, and what a call's ears cost.
    Turns(turns::TurnsArguments),
    /// How soon an agent falls silent when a caller interrupts it, with every provider.
    BargeIn(barge_in::BargeInArguments),
    /// From the answer of a call to the first sound of its greeting.
    Greeting(greeting::GreetingArguments),
    /// Calls that end in every way, and calls that stay, through a real Asterisk: what is left of them?
    Soak(soak::SoakArguments),
    /// Conversations of VAM clients beside telephone calls.
    Vam(vam::VamArguments),
    /// The silence that callers hear when their agent's session ends in mid-call.
    Failover(failover::FailoverArguments),
    /// The silence that callers hear when the audio path of their call breaks, through a real Asterisk.
    Repair(repair::RepairArguments),
    /// The floor, started by this program itself.
    #[command(hide = true)]
    Floor(floor::FloorArguments),
}

fn main() -> ExitCode {
    // Installed once, before anything can dial.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("offhook-bench: a TLS provider was installed before the program began");
        return ExitCode::from(3);
    }
    run(&Arguments::parse())
}

fn run(arguments: &Arguments) -> ExitCode {
    match &arguments.part {
        Some(Part::Gate(arguments)) => return gate::run(arguments),
        Some(Part::Tools(arguments)) => return tools::run(arguments),
        Some(Part::Mcp(arguments)) => return mcp::run(arguments),
        Some(Part::Records(arguments)) => return records::run(arguments),
        Some(Part::Turns(arguments)) => return turns::run(arguments),
        Some(Part::Floor(arguments)) => return floor::run(arguments),
        Some(Part::Recording(arguments)) => return on_cores(|cores| recording::bench(arguments, cores)),
        Some(Part::Page(arguments)) => return on_cores(|cores| page::bench(arguments, cores)),
        Some(Part::BargeIn(arguments)) => return on_cores(|cores| barge_in::bench(arguments, cores)),
        Some(Part::Greeting(arguments)) => return on_cores(|cores| greeting::bench(arguments, cores)),
        Some(Part::Soak(arguments)) => return on_cores(|cores| soak::bench(arguments, cores)),
        Some(Part::Vam(arguments)) => return on_cores(|cores| vam::bench(arguments, cores)),
        Some(Part::Failover(arguments)) => return on_cores(|cores| failover::bench(arguments, cores)),
        Some(Part::Repair(arguments)) => return on_cores(|cores| repair::bench(arguments, cores)),
        None => {}
    }
    on_cores(|cores| bench(arguments, cores))
}

/// Runs what needs a core of its own for the system under test.
fn on_cores<F: Future<Output = anyhow::Result<Bars>>>(bench: impl FnOnce(Option<Cores>) -> F) -> ExitCode {
    // Told at once, and not when the floor has been measured.
    if let Err(error) = beside(ENGINE) {
        eprintln!("offhook-bench: {error}");
        return ExitCode::from(3);
    }
    let cores = Cores::claim();
    match &cores {
        Ok(Cores { system, load }) => println!("The system under test runs on core {system}, the load on core {load}."),
        Err(why) => println!("NOT USABLE  The system under test has no core of its own: {why}."),
    }
    if cfg!(debug_assertions) {
        println!("NOT USABLE  This is a debug build; `make bench` makes a release build.");
    }
    // One core means one thread; more would only make the load's clock worse.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("offhook-bench: cannot start the runtime: {error}");
            return ExitCode::from(3);
        }
    };
    runtime.block_on(async {
        // What was started is killed when `bench` is dropped, however it ends.
        let result = tokio::select! {
            result = bench(cores.ok()) => result,
            () = interrupted() => Err(anyhow::anyhow!("interrupted")),
        };
        match result {
            Ok(bars) => bars.verdict(),
            Err(error) => {
                eprintln!("\noffhook-bench: {error:#}");
                ExitCode::from(3)
            }
        }
    })
}

async fn bench(arguments: &Arguments, cores: Option<Cores>) -> anyhow::Result<Bars> {
    let folder = Folder::create()?;
    let window = Duration::from_secs(arguments.seconds);
    let plan = Plan { calls: arguments.calls.into(), window, cores, extra: Extra::default() };
    let wanted = |kind: &Kind| *kind == Kind::Floor || arguments.only.is_empty() || arguments.only.contains(kind);
    let kinds = Kind::ALL.into_iter().filter(wanted);
    let mut all: Vec<Rounds> = kinds.map(|kind| Rounds { kind, rounds: Vec::new() }).collect();
    for round in 1..=arguments.rounds {
        for rounds in &mut all {
            let name = rounds.kind.name();
            say(&format!(
                "round {round} of {}, {name:10}: {} calls, {} s ",
                arguments.rounds, plan.calls, arguments.seconds
            ));
            let figures = run::measure(rounds.kind, &plan, folder.path(), || say(".")).await;
            // The log tells more than the load can see.
            let figures = figures.map_err(|error| {
                let log = system::end_of(&folder.path().join("engine.log"));
                error.context(format!("{name} could not be measured; the end of the engine's log:\n{log}\n"))
            })?;
            say(" done\n");
            rounds.rounds.push(figures);
        }
    }
    let mut bars = Bars::default();
    report::print(&plan, &all, &mut bars);
    if !arguments.only.is_empty() && !arguments.asterisk {
        return Ok(bars);
    }
    match asterisk::no_lab().await {
        None => asterisk::run(plan.calls, cores, folder.path(), report::floor(&all), &mut bars).await?,
        Some(why) => {
            bars.bar("calls through a real Asterisk", &format!("not measured: {why}"), "measured", false, false)
        }
    }
    Ok(bars)
}

/// Progress, on standard error, so that the figures can be piped.
fn say(text: &str) {
    eprint!("{text}");
    // Progress that cannot be shown is no reason to stop.
    let _ = std::io::stderr().flush();
}

async fn interrupted() {
    let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    match terminate {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}
