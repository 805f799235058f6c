//! The silence that callers hear when their agent's session ends in mid-sentence, its provider takes nobody
//! any more, and another provider carries the call on.

use super::{
    load::{Call, Calls, Load, Provider},
    peer::{self, OpenAi, Play},
    process::Cores,
    report::bar,
    run::cleared_away,
    samples::percentile,
    say,
    system::{Folder, Kind, Setup, System, end_of},
};
use clap::Args;
use std::{sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    task::JoinSet,
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

pub async fn bench(arguments: &FailoverArguments, cores: Option<Cores>) -> anyhow::Result<()> {
    let (folder, calls) = (Folder::create()?, usize::from(arguments.calls));
    let [first, spare] = [TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?];
    let at = |listener: &TcpListener| -> anyhow::Result<String> {
        Ok(Kind::OpenAi.agent().replace("@PROVIDER@", &listener.local_addr()?.to_string()))
    };
    let (agent, others) = (at(&first)?, format!(", spare: {{ {} }}", at(&spare)?));
    let setup = Setup { others: &others, context: ", fallbacks: [spare]", ..Setup::of(&agent) };
    let system = System::engine(&setup, calls, cores, folder.path()).await?;
    say(&format!("{calls} calls "));
    let log = || end_of(&folder.path().join("engine.log"));
    let up = Calls::begin(calls, system.audiosocket, Provider::OpenAi, Play::Monologue, &first).await;
    let up = up.map_err(|error| error.context(format!("the end of the engine's log:\n{}", log())))?;
    // From now on nobody gets through to the first one.
    drop(first);
    let _heirs = heirs(spare, Arc::clone(&up.load));
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
    let ms = |percent| percentile(&samples.silences, percent).unwrap_or(f64::INFINITY);
    println!("\n{calls} calls, each session closed with 1011 in mid-sentence, its provider gone, one fallback:");
    println!("  calls that another session has taken over   {took_over}");
    println!("  calls that were lost                        {}", samples.lost);
    println!("  longest silence of a caller, ms   p50 {:.0}, p95 {:.0}, max {:.0}", ms(50.0), ms(95.0), ms(100.0));
    let (value, most) = (format!("{:.0} ms", ms(100.0)), format!("{SILENCE_MAX_MS} ms"));
    let reached = ms(100.0) <= SILENCE_MAX_MS && samples.lost == 0;
    bar("longest silence of any caller", &value, &most, reached, cores.is_none());
    Ok(())
}

/// The sessions that take over; whose call it is does not matter here.
fn heirs(listener: TcpListener, load: Arc<Load>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut sessions = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let call = Arc::new(Call::default());
            sessions.spawn(peer::serve::<OpenAi>(stream, Arc::clone(&load), call, Play::Monologue));
        }
    });
    tasks
}
