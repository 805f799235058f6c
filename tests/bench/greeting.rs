//! From the answer of a call to the first sound of its greeting, which is a clip that was made when the
//! configuration was loaded.

use super::{
    load::{Calls, Cast},
    peer::Play,
    process::Cores,
    report::Bars,
    run::cleared_away,
    samples::percentile,
    say,
    system::{Folder, Kind, Setup, System, end_of},
};
use clap::Args;
use std::time::Duration;
use tokio::net::TcpListener;

#[derive(Args)]
pub struct GreetingArguments {
    /// How many calls are greeted, twenty-five a second; all stay up.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    calls: u16,
}

/// Answer → first sound, p95.
const GREETED_MAX_MS: f64 = 50.0;
/// A sentence of a usual length.
const CONTEXT: &str = ", greeting: \"Good day. This is the bench. How can I help you?\", greeting_by: clip";

pub async fn bench(arguments: &GreetingArguments, cores: Option<Cores>) -> anyhow::Result<Bars> {
    let calls = usize::from(arguments.calls);
    let mut rows = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| kind.provider().is_vendor()) {
        rows.push((kind.name(), greet(kind, calls, cores).await?));
    }
    println!("\n{calls} calls, answered when they come:\n");
    println!("answer → first sound of the greeting, ms      p50    p95    max");
    for (name, took) in &rows {
        let [half, most, all] = [50.0, 95.0, 100.0].map(|percent| percentile(took, percent).unwrap_or(f64::INFINITY));
        println!("{name:40}{half:9.1}{most:7.1}{all:7.1}");
    }
    println!();
    let mut bars = Bars::default();
    for (name, took) in &rows {
        let p95 = percentile(took, 95.0).unwrap_or(f64::INFINITY);
        let name = format!("answer → first sound of the greeting, p95, {name}");
        let (value, most) = (format!("{p95:.1} ms"), format!("{GREETED_MAX_MS} ms"));
        bars.bar(&name, &value, &most, p95 <= GREETED_MAX_MS, cores.is_none());
    }
    Ok(bars)
}

/// How long each of these calls waits.
async fn greet(kind: Kind, calls: usize, cores: Option<Cores>) -> anyhow::Result<Vec<Duration>> {
    let folder = Folder::create()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let agent = kind.agent().replace("@PROVIDER@", &listener.local_addr()?.to_string());
    let setup = Setup { context: CONTEXT, ..Setup::of(&agent) };
    let system = System::engine(&setup, calls, cores, folder.path()).await?;
    say(&format!("{}: {calls} calls ", kind.name()));
    let log = || end_of(&folder.path().join("engine.log"));
    let cast = Cast::of(kind.provider(), Play::Answers)?;
    let up = Calls::begin(calls, system.audiosocket, &cast, &listener).await;
    let samples = up.map_err(|error| error.context(format!("the end of the engine's log:\n{}", log())))?.end().await?;
    cleared_away(&system, calls).await?;
    say("done\n");
    Ok(samples.set_up)
}
