//! How soon callers are not spoken over, through a whole engine: the interruptions of the labelled set, spoken to
//! agents who talk without an end and never stop by themselves.

use super::{
    load::{Calls, Cast, LEG, Speech},
    peer::Play,
    process::Cores,
    report::{BARGE_IN_MAX_MS, Bars},
    run::cleared_away,
    samples::{Samples, percentile},
    say,
    stages::Stages,
    system::{Extra, Folder, Kind, System, end_of},
    turns::set::{self, Label},
};
use anyhow::Context as _;
use clap::Args;
use offhook::audio::{Converter, Format};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, time::sleep};

#[derive(Args)]
pub struct BargeInArguments {
    /// The labelled set, as `tests/fixtures/turn_taking/generate.py FOLDER` makes it.
    #[arg(long, value_name = "FOLDER", default_value = "target/turn_taking")]
    set: PathBuf,
    /// How many of its interruptions are spoken to each provider's agent, all of them at once.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=200))]
    calls: u16,
}

/// Callers listen for so long before their recording begins: by then the agent speaks.
const LISTENS: usize = 100;
/// What a pipeline's voice takes for its one clause: longer than any caller stays.
const MONOLOGUE: Duration = Duration::from_secs(20);
const CONTEXT: &str = ", limits: { agent_silence: 1m }";
const TURNS: &str = ", turns: { owner: offhook }";

pub async fn bench(arguments: &BargeInArguments, cores: Option<Cores>) -> anyhow::Result<Bars> {
    let speeches = interruptions(&arguments.set, arguments.calls.into()).with_context(|| {
        let folder = arguments.set.display();
        format!("the labelled set; make it with: tests/fixtures/turn_taking/generate.py {folder}")
    })?;
    let mut rows = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| *kind == Kind::Pipeline || kind.provider().is_vendor()) {
        let mut cast = Cast::of(kind.provider(), Play::Monologue)?;
        cast.speeches.clone_from(&speeches);
        rows.push((kind, interrupt(kind, &cast, cores).await?));
    }
    println!("\n{} interruptions of the labelled set, by offhook's own ears:\n", speeches.len());
    println!("onset → last agent frame, ms      p50    p95    max   went on at first");
    for (kind, samples) in &rows {
        let ms = |percent| percentile(&samples.barge_in, percent).unwrap_or(f64::INFINITY);
        let [half, most, all] = [50.0, 95.0, 100.0].map(ms);
        println!("{:28}{half:9.0}{most:7.0}{all:7.0}{:19}", kind.name(), samples.went_on);
    }
    println!();
    let mut bars = Bars::default();
    for (kind, samples) in &rows {
        let p95 = percentile(&samples.barge_in, 95.0).unwrap_or(f64::INFINITY);
        let name = format!("onset → last agent frame, p95, {}", kind.name());
        let reached = p95 <= BARGE_IN_MAX_MS && samples.lost == 0 && samples.barge_in.len() == speeches.len();
        bars.bar(&name, &format!("{p95:.0} ms"), &format!("{BARGE_IN_MAX_MS} ms"), reached, cores.is_none());
    }
    Ok(bars)
}

/// The scenes that no threshold was tuned on, as their callers send them.
fn interruptions(folder: &Path, most: usize) -> anyhow::Result<Vec<Speech>> {
    let scenes = set::read(folder)?;
    let judges = scenes.iter().filter(|scene| scene.label == Label::Interruption && scene.judges());
    let speech = |scene: &set::Scene| {
        let mut samples = Vec::new();
        let mut converter = Converter::new(Format::ULAW, LEG);
        converter.push(&scene.caller, &mut samples);
        converter.flush(&mut samples);
        Ok(Speech::interruption(LISTENS, &samples, scene.onset)?)
    };
    judges.take(most).map(speech).collect()
}

async fn interrupt(kind: Kind, cast: &Cast, cores: Option<Cores>) -> anyhow::Result<Samples> {
    let (folder, calls) = (Folder::create()?, cast.speeches.len());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let stages = Stages::start(Arc::clone(&cast.load), MONOLOGUE).await?;
    let servers = [listener.local_addr()?, stages.address];
    let system = System::start(
        kind,
        Extra { context: CONTEXT, turns: Some(TURNS), ..Extra::default() },
        calls,
        cores,
        servers,
        folder.path(),
    )
    .await?;
    say(&format!("{}: {calls} interruptions ", kind.name()));
    let log = || end_of(&folder.path().join("engine.log"));
    let up = Calls::begin(calls, system.audiosocket, cast, &listener).await;
    let up = up.map_err(|error| error.context(format!("the end of the engine's log:\n{}", log())))?;
    up.load.record();
    let longest = cast.speeches.iter().map(Speech::length).max().unwrap_or_default();
    sleep(longest).await;
    let samples = up.end().await?;
    cleared_away(&system, calls).await.map_err(|error| error.context(log()))?;
    say("done\n");
    Ok(samples)
}
