//! From the answer of a call to the first sound of its greeting, which is a clip that was made when the
//! configuration was loaded.

use super::{
    load::{Calls, Provider},
    peer::Play,
    process::Cores,
    report::bar,
    run::cleared_away,
    samples::percentile,
    say,
    system::{Folder, Kind, Setup, System, end_of},
};
use clap::Args;
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

pub async fn bench(arguments: &GreetingArguments, cores: Option<Cores>) -> anyhow::Result<()> {
    let (folder, calls) = (Folder::create()?, usize::from(arguments.calls));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let agent = Kind::OpenAi.agent().replace("@PROVIDER@", &listener.local_addr()?.to_string());
    let setup = Setup { context: CONTEXT, ..Setup::of(&agent) };
    let system = System::engine(&setup, calls, cores, folder.path()).await?;
    say(&format!("{calls} calls "));
    let log = || end_of(&folder.path().join("engine.log"));
    let up = Calls::begin(calls, system.audiosocket, Provider::OpenAi, Play::Answers, &listener).await;
    let samples = up.map_err(|error| error.context(format!("the end of the engine's log:\n{}", log())))?.end().await?;
    cleared_away(&system, calls).await?;
    say("done\n");
    let ms = |percent| percentile(&samples.set_up, percent).unwrap_or(f64::INFINITY);
    println!("\n{calls} calls, openai_realtime, answered when they come:");
    println!(
        "  answer → first sound of the greeting, ms   p50 {:.1}, p95 {:.1}, max {:.1}",
        ms(50.0),
        ms(95.0),
        ms(100.0)
    );
    let (value, most) = (format!("{:.1} ms", ms(95.0)), format!("{GREETED_MAX_MS} ms"));
    bar("answer → first sound of the greeting, p95", &value, &most, ms(95.0) <= GREETED_MAX_MS, cores.is_none());
    Ok(())
}
