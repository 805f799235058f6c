//! `offhook-bench vam`: conversations of VAM clients beside telephone calls, on one core. Their agents say a tone, call a tool
//! of an action server, and say a tone again; clients run the tool themselves, for telephones offhook asks the server.

mod client;
mod server;

use super::{
    load::{CONTEXT_ID, Calls, Cast, Provider},
    peer::Play,
    process::{Cores, cpu_time},
    report::Bars,
    run::{TICK_LATENESS, cleared_away, missed},
    samples::percentile,
    say,
    system::{Folder, Metrics, System, end_of, free_address},
};
use anyhow::Context as _;
use clap::Args;
use client::{Clients, Told};
use std::{net::SocketAddr, path::Path, time::Duration};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};

#[derive(Args)]
pub struct VamArguments {
    /// VAM sessions at once.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    sessions: u16,
    /// Telephone calls beside them.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    calls: u16,
    /// How long each of the two rounds measures, once all are up.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: u64,
}

/// Half a slot: beyond it a chunk that came in time may be taken for one of the next slot.
const LOAD_LATE_MAX_MS: f64 = 10.0;
const TOKEN: &str = "bench-has-sessions";
const EMISSION: &str = "offhook_vam_action_emission_seconds";
/// From the agent's wish to the request on the stream, 99 of 100; the specification allows 50 ms.
const EMISSION_MAX_MS: f64 = 5.0;
/// After the last greeting, until the window begins.
const SETTLE: Duration = Duration::from_secs(2);
const REGISTERED_WITHIN: Duration = Duration::from_secs(10);
/// Actions of one conversation, one every two seconds: more than any window's, so that none repeats.
const ACTIONS: usize = 100;

pub async fn bench(arguments: &VamArguments, cores: Option<Cores>) -> anyhow::Result<Bars> {
    let (sessions, calls) = (usize::from(arguments.sessions), usize::from(arguments.calls));
    let window = Duration::from_secs(arguments.seconds);
    say(&format!("{sessions} telephone calls, {} s ", arguments.seconds));
    let telephones = round(0, sessions, window, cores).await?;
    say(&format!("done\n{sessions} VAM sessions and {calls} telephone calls, {} s ", arguments.seconds));
    let mixed = round(sessions, calls, window, cores).await?;
    say("done\n");

    let telephone = telephones.cpu / sessions as f64;
    let session = (mixed.cpu - telephone * calls as f64) / sessions as f64;
    let ms = |percent| percentile(&mixed.told.gaps, percent).unwrap_or(f64::INFINITY);
    println!(
        "\n{sessions} VAM sessions beside {calls} telephone calls; before that, {sessions} telephone calls alone:\n"
    );
    println!("CPU of a telephone call, % of a core         {telephone:8.3}");
    println!(
        "CPU of a VAM session, % of a core            {session:8.3}   {:.1} × a telephone call",
        session / telephone
    );
    println!("between two chunks, ms, p50, p99, max        {:8.1} {:7.1} {:7.1}", ms(50.0), ms(99.0), ms(100.0));
    println!("actions that clients answered                {:8}", mixed.told.actions);
    println!("actions that the engine asked the server for {:8}\n", mixed.asked);
    if let Some(late) = mixed.load_late.filter(|late| *late > LOAD_LATE_MAX_MS) {
        println!("NOT USABLE  the load itself was late by up to {late:.0} ms\n");
    }
    let disturbed = cores.is_none() || mixed.load_late.is_none_or(|late| late > LOAD_LATE_MAX_MS);
    let mut bars = Bars::default();
    let lost = mixed.told.lost + mixed.lost;
    bars.bar("sessions and calls that were lost", &lost.to_string(), "0", lost == 0, disturbed);
    let slots = format!("{} of the clients, {} of the engine's clock", mixed.told.missed, mixed.missed);
    bars.bar("20 ms slots missed", &slots, "0", mixed.told.missed == 0 && mixed.missed == 0.0, disturbed);
    let (value, reached) = match mixed.emission {
        Some((_, most)) => (format!("within {:.1} ms", most * 1_000.0), most * 1_000.0 <= EMISSION_MAX_MS),
        None => ("no action was asked for".into(), false),
    };
    bars.bar("wish → action on the stream, p99", &value, &format!("{EMISSION_MAX_MS} ms"), reached, disturbed);
    if let Some((_, late)) = mixed.late {
        println!("the engine's clock was late by at most {:.1} ms in 99 of 100 slots", late * 1_000.0);
    }
    Ok(bars)
}

/// What a round measured.
struct Round {
    /// Percent of a core, of all together.
    cpu: f64,
    told: Told,
    /// Slots that the engine gave up.
    missed: f64,
    /// The bucket of the 99th percentile: how late the engine's clock was, and how long an action took to leave.
    late: Option<(f64, f64)>,
    emission: Option<(f64, f64)>,
    /// Actions that the engine itself asked for.
    asked: usize,
    /// Telephone calls.
    lost: u64,
    /// Of the clients' own process, the latest of all frames of its telephones.
    load_late: Option<f64>,
}

async fn round(sessions: usize, calls: usize, window: Duration, cores: Option<Cores>) -> anyhow::Result<Round> {
    let folder = Folder::create()?;
    let measured = measured(sessions, calls, window, cores, folder.path()).await;
    measured.map_err(|error| {
        let log = end_of(&folder.path().join("engine.log"));
        error.context(format!("the end of the engine's log:\n{log}\n"))
    })
}

async fn measured(
    sessions: usize,
    calls: usize,
    window: Duration,
    cores: Option<Cores>,
    folder: &Path,
) -> anyhow::Result<Round> {
    let server = server::Server::start().await?;
    let (audiosocket, gateway) = (free_address()?, free_address()?);
    let config = config(sessions + calls, audiosocket, gateway, folder);
    let system = System::run(&config, audiosocket, cores, folder).await?;
    client::register(gateway, &server.uri).await?;
    tool_is_there(&system).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let cast = Cast::of(Provider::Embedded, Play::Answers)?;
    let telephones = Calls::begin(calls, system.audiosocket, &cast, &listener).await?;
    let clients = Clients::begin(sessions, gateway).await?;
    sleep(SETTLE).await;
    let page = async || -> anyhow::Result<Metrics> { system.metrics().await?.context("an engine has metrics") };
    let used = || cpu_time(system.pid).context("the engine has ended");
    let (before, began, cpu) = (page().await?, Instant::now(), used()?);
    clients.record();
    telephones.load.record();
    for _ in 0..window.as_secs() {
        sleep(Duration::from_secs(1)).await;
        say(".");
    }
    let (took, cpu) = (began.elapsed(), used()?.saturating_sub(cpu));
    let after = page().await?;
    anyhow::ensure!(calls == 0 || server.asked() > 0, "the telephones' agents did not ask the action server");
    let told = clients.end().await;
    let samples = telephones.end().await?;
    cleared_away(&system, sessions + calls).await?;
    Ok(Round {
        cpu: cpu.as_secs_f64() / took.as_secs_f64() * 100.0,
        told,
        missed: missed(&after) - missed(&before),
        late: after.bucket_since(&before, TICK_LATENESS, 99.0),
        emission: after.bucket_since(&before, EMISSION, 99.0),
        asked: server.asked(),
        lost: samples.lost,
        load_late: percentile(&samples.late, 100.0),
    })
}

/// New calls have the tool from then on.
async fn tool_is_there(system: &System) -> anyhow::Result<()> {
    let until = Instant::now() + REGISTERED_WITHIN;
    loop {
        let status: serde_json::Value = serde_json::from_str(&system.page("mcp/status").await?)?;
        let tools = status["servers"]["vam_bench"]["tools"].as_array().map_or(&[][..], Vec::as_slice);
        if tools.iter().any(|tool| tool["registered"] == true) {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < until, "the action server's tool is not there: {status}");
        sleep(Duration::from_millis(50)).await;
    }
}

fn config(calls: usize, audiosocket: SocketAddr, gateway: SocketAddr, folder: &Path) -> String {
    let id: String = CONTEXT_ID.iter().map(|byte| format!("{byte:02x}")).collect();
    let tone = |length: &str| format!("{{ tone: {{ hertz: 500, for: {length} }} }}");
    let mut script = vec![tone("200ms")];
    for number in 0..ACTIONS {
        script.push(format!("{{ call: {{ tool: {}, arguments: {{ note: \"{number}\" }} }} }}", server::TOOL));
        script.extend([tone("1500ms"), "{ pause: 500ms }".into()]);
    }
    // A threshold that nothing reaches: nobody interrupts. Nobody speaks either, so all is one turn.
    let scripted = format!("scripted: {{ detector: {{ threshold_dbfs: 0 }}, script: [{}] }}", script.join(", "));
    let kept = folder.join("registrations.json");
    format!(
        "media: {{ audiosocket: {{ bind: \"{audiosocket}\" }} }}\n\
         limits: {{ calls: {calls} }}\n\
         default_context: bench\n\
         turns: {{ owner: provider }}\n\
         vam:\n  bind: \"{gateway}\"\n  tokens: [{TOKEN}]\n  allowed_hosts: [127.0.0.1]\n  registrations: \"{}\"\n  \
         sessions: {{ context: bench, hosted: any, limit: {calls} }}\n\
         policy: {{ budgets: {{ retrieval: 100, total: 100 }} }}\n\
         tools: {{ {tool}: {{ access: public_read }} }}\n\
         providers: {{ agent: {{ {scripted} }} }}\n\
         contexts:\n  bench: {{ prompt: You are measured., provider: agent, audiosocket_id: \"{id}\", tools: [{tool}] }}\n",
        kept.display(),
        tool = server::TOOL,
    )
}
