//! How long callers hear nothing when the audio path of their call breaks under them, through a real Asterisk.

use super::{
    asterisk::{Asterisk, no_lab},
    process::Cores,
    report::Bars,
    run::gone,
    samples::percentile,
    say,
    system::{Folder, Setup, System, end_of},
    telephone::{self, Codec, Order, Outcome},
};
use anyhow::Context as _;
use clap::Args;
use reqwest::Method;
use std::{path::Path, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};

#[derive(Args)]
pub struct RepairArguments {
    /// How many calls lose their path, of each leg and by each fault.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
    calls: u16,
}

/// The longest silence of a caller.
const SILENCE_MAX_MS: f64 = 2_000.0;
/// For longer than a call of the bench lasts.
const AGENT: &str = "scripted: { script: [{ tone: { hertz: 500, for: 60s } }] }";
const ARRIVAL_EVERY: Duration = Duration::from_millis(100);
/// From the last arrival to the first fault: all have heard the agent.
const SETTLED: Duration = Duration::from_secs(2);
/// No multiple of 20 ms, so that the faults meet every phase of the engine's clock alike.
const BREAK_EVERY: Duration = Duration::from_millis(97);
/// After the last fault. Who hears nothing until then was not helped.
const LISTEN: Duration = Duration::from_secs(6);
const REPAIRED: &str = "offhook_media_repairs_total{outcome=\"repaired\"}";

const LEGS: [(&str, Codec); 4] = [
    ("audiosocket/slin", Codec::MuLaw),
    ("rtp/ulaw", Codec::MuLaw),
    ("websocket/slin16", Codec::MuLaw),
    ("websocket/opus", Codec::Opus),
];

/// What somebody does to a call in Asterisk.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The media channel is hung up.
    Ended,
    /// The media channel stays up, and Asterisk passes nothing on of what it is sent.
    Muted,
    /// The bridge is destroyed, of which Asterisk tells offhook nothing.
    Unbridged,
}

impl Fault {
    const ALL: [Self; 3] = [Self::Ended, Self::Muted, Self::Unbridged];

    const fn name(self) -> &'static str {
        match self {
            Self::Ended => "the media channel ends",
            Self::Muted => "nothing is passed on",
            Self::Unbridged => "the bridge is gone",
        }
    }

    /// Requests to ARI, one for each call.
    async fn of_all(self, asterisk: &Asterisk) -> anyhow::Result<Vec<(Method, String)>> {
        let (list, part) = match self {
            Self::Unbridged => ("bridges", ""),
            Self::Ended | Self::Muted => ("channels", "-media"),
        };
        let ids = asterisk.ari(Method::GET, list).await?;
        let ids = ids.as_array().context("a list")?.iter().filter_map(|one| one["id"].as_str());
        let request = |id| match self {
            Self::Ended => (Method::DELETE, format!("channels/{id}")),
            Self::Muted => (Method::POST, format!("channels/{id}/mute?direction=in")),
            Self::Unbridged => (Method::DELETE, format!("bridges/{id}")),
        };
        Ok(ids.filter(|id| id.contains(part)).map(request).collect())
    }
}

struct Row {
    leg: &'static str,
    fault: Fault,
    silences: Vec<Duration>,
    repaired: f64,
    /// Who did not stay to the end.
    lost: usize,
}

pub async fn bench(arguments: &RepairArguments, cores: Option<Cores>) -> anyhow::Result<Bars> {
    if let Some(why) = no_lab().await {
        anyhow::bail!("this needs a real Asterisk: {why}");
    }
    let calls = usize::from(arguments.calls);
    let folder = Folder::create()?;
    let asterisk = Asterisk::start_with(folder.path().join("asterisk"), "").await?;
    let mut rows = Vec::new();
    for leg in LEGS {
        let broken = over(leg, calls, &asterisk, cores, folder.path()).await;
        let log = || end_of(&folder.path().join("engine.log"));
        rows.extend(broken.map_err(|error| error.context(format!("the end of the engine's log:\n{}", log())))?);
    }
    asterisk.stop().await;
    println!("\n{calls} SIP calls each through a real Asterisk, whose agents speak without a pause:\n");
    println!("longest silence of a caller, ms                       p50    p95    max   repaired   lost");
    for Row { leg, fault, silences, repaired, lost } in &rows {
        let ms = |percent| percentile(silences, percent).unwrap_or(f64::INFINITY);
        let [half, most, all] = [50.0, 95.0, 100.0].map(ms);
        println!("{leg:24}{:25}{half:8.0}{most:7.0}{all:7.0}{repaired:11}{lost:7}", fault.name());
    }
    println!();
    let mut bars = Bars::default();
    for Row { leg, fault, silences, repaired, lost } in &rows {
        let longest = percentile(silences, 100.0).unwrap_or(f64::INFINITY);
        let reached = longest <= SILENCE_MAX_MS && *lost == 0 && *repaired == calls as f64;
        let (name, value) = (format!("longest silence, {leg}, {}", fault.name()), format!("{longest:.0} ms"));
        bars.bar(&name, &value, &format!("{SILENCE_MAX_MS} ms"), reached, cores.is_none());
    }
    Ok(bars)
}

/// Each fault under as many calls over this leg.
async fn over(
    (leg, codec): (&'static str, Codec),
    calls: usize,
    asterisk: &Asterisk,
    cores: Option<Cores>,
    folder: &Path,
) -> anyhow::Result<Vec<Row>> {
    let (more, context) = (asterisk.configuration(), format!(", audio: {leg}"));
    let setup = Setup { more: &more, context: &context, ..Setup::of(AGENT) };
    let system = System::engine(&setup, calls, cores, folder).await?;
    system.is_ready(folder).await?;
    let mut rows = Vec::new();
    for fault in Fault::ALL {
        say(&format!("{leg}, {}: {calls} calls ", fault.name()));
        let repaired = async || Ok::<_, anyhow::Error>(system.metrics().await?.context("no metrics")?.value(REPAIRED));
        let before = repaired().await?;
        let outcomes = broken(fault, codec, calls, asterisk).await?;
        gone(&system).await?;
        let lost = outcomes.iter().filter(|outcome| outcome.hung_up != Some(telephone::Side::Caller)).count();
        let silences = outcomes.iter().map(|outcome| outcome.longest_silence).collect();
        rows.push(Row { leg, fault, silences, repaired: repaired().await? - before, lost });
        say("done\n");
    }
    Ok(rows)
}

async fn broken(fault: Fault, codec: Codec, calls: usize, asterisk: &Asterisk) -> anyhow::Result<Vec<Outcome>> {
    let breaks = Instant::now() + ARRIVAL_EVERY * u32::try_from(calls)? + SETTLED;
    let over = breaks + BREAK_EVERY * u32::try_from(calls)? + LISTEN;
    let order = Order { codec, ..Order::listens(asterisk.sip()) };
    let breaking = async {
        sleep_until(breaks).await;
        let requests = fault.of_all(asterisk).await?;
        anyhow::ensure!(requests.len() == calls, "{} of {calls} calls stand", requests.len());
        for (method, path) in requests {
            asterisk.ari(method, &path).await?;
            sleep(BREAK_EVERY).await;
        }
        Ok(())
    };
    let (outcomes, broke) = tokio::join!(telephone::crowd(&order, calls, ARRIVAL_EVERY, over), breaking);
    broke?;
    Ok(outcomes?)
}
