//! The silence that callers hear when their agent's session ends in mid-sentence, its provider takes nobody
//! any more, and another provider carries the call on.

use super::{
    load::{Calls, Cast},
    peer::{self, Play},
    process::Cores,
    report::Bars,
    run::cleared_away,
    samples::{Samples, percentile},
    say,
    system::{Folder, Kind, Setup, System, end_of},
};
use clap::Args;
use std::{sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};

#[derive(Args)]
pub struct FailoverArguments {
    /// How many calls lose their agent, one after the other.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    calls: u16,
}

/// The longest silence of a caller.
const SILENCE_MAX_MS: f64 = 1_500.0;
/// No multiple of 20 ms, so that the ends meet every phase of the engine's clock alike.
const END_EVERY: Duration = Duration::from_millis(97);
/// After the last end. A caller who hears nothing until then has heard nothing for so long.
const LISTEN: Duration = Duration::from_secs(8);

pub async fn bench(arguments: &FailoverArguments, cores: Option<Cores>) -> anyhow::Result<Bars> {
    let calls = usize::from(arguments.calls);
    let vendors: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.provider().is_vendor()).collect();
    let mut rows = Vec::new();
    // Each one's calls go on with the next one.
    for (kind, spare) in vendors.iter().zip(vendors.iter().cycle().skip(1)) {
        let (took_over, samples) = fail_over(*kind, *spare, calls, cores).await?;
        rows.push((format!("{} → {}", kind.name(), spare.name()), took_over, samples));
    }
    println!(
        "\n{calls} calls, each session closed with 1011 in mid-sentence, its provider gone, another one the fallback:\n"
    );
    println!("longest silence of a caller, ms      p50    p95    max   taken over   lost");
    for (name, took_over, samples) in &rows {
        let ms = |percent| percentile(&samples.silences, percent).unwrap_or(f64::INFINITY);
        let [half, most, all] = [50.0, 95.0, 100.0].map(ms);
        println!("{name:31}{half:9.0}{most:7.0}{all:7.0}{took_over:13}{:7}", samples.lost);
    }
    println!();
    let mut bars = Bars::default();
    for (name, took_over, samples) in &rows {
        let longest = percentile(&samples.silences, 100.0).unwrap_or(f64::INFINITY);
        let reached = longest <= SILENCE_MAX_MS && samples.lost == 0 && *took_over == calls as f64;
        let (value, most) = (format!("{longest:.0} ms"), format!("{SILENCE_MAX_MS} ms"));
        bars.bar(&format!("longest silence of any caller, {name}"), &value, &most, reached, cores.is_none());
    }
    Ok(bars)
}

/// How many calls another session has taken over, and what their callers heard.
async fn fail_over(kind: Kind, spare: Kind, calls: usize, cores: Option<Cores>) -> anyhow::Result<(f64, Samples)> {
    let folder = Folder::create()?;
    let [first, second] = [TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?];
    let at = |kind: Kind, listener: &TcpListener| -> anyhow::Result<String> {
        Ok(kind.agent().replace("@PROVIDER@", &listener.local_addr()?.to_string()))
    };
    let (agent, others) = (at(kind, &first)?, format!(", spare: {{ {} }}", at(spare, &second)?));
    let setup = Setup { others: &others, context: ", fallbacks: [spare]", ..Setup::of(&agent) };
    let system = System::engine(&setup, calls, cores, folder.path()).await?;
    say(&format!("{} → {}: {calls} calls ", kind.name(), spare.name()));
    let log = || end_of(&folder.path().join("engine.log"));
    let cast = Cast::of(kind.provider(), Play::Monologue)?;
    let up = Calls::begin(calls, system.audiosocket, &cast, &first).await;
    let up = up.map_err(|error| error.context(format!("the end of the engine's log:\n{}", log())))?;
    // From now on nobody gets through to the first one.
    drop(first);
    let _heirs = peer::serve_all(spare.provider(), second, Arc::clone(&up.load), Play::Monologue);
    for call in &up.calls {
        call.broken.set(Instant::now());
        call.breaks.cancel();
        sleep(END_EVERY).await;
    }
    sleep(LISTEN).await;
    let metrics = system.metrics().await?;
    let samples = up.end().await?;
    cleared_away(&system, calls).await.map_err(|error| error.context(log()))?;
    say("done\n");
    let took_over = metrics.map_or(0.0, |metrics| {
        let children = metrics.children("offhook_session_recoveries_total");
        children.filter(|(labels, _)| labels.contains("took_over")).map(|(_, count)| count).sum()
    });
    Ok((took_over, samples))
}
