//! `offhook-bench mcp`: what offhook's tool path adds to a call of an MCP tool, beside a floor measured in the same run:
//! the bare client library, asking another instance of the same server for the same thing.

use super::{
    process::beside,
    report::Bars,
    samples::{median, percentile},
};
use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use offhook::{
    config,
    facts::{CallFacts, CallId},
    gate::Category,
    mcp::{Fleet, McpCounters, State},
    provider,
    tool::{Admission, CallPolicy, Opening, PolicyRules, Registry, ToolCall, ToolCallId, ToolSpec, Toolbox},
};
use rmcp::{RoleClient, ServiceExt as _, model::CallToolRequestParams, service::RunningService};
use serde_json::json;
use std::{
    collections::BTreeSet,
    path::Path,
    process::{ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    task::JoinSet,
    time::Instant,
};

/// The server that is asked: our own, in Rust, so that its share of the time is small and steady.
const SERVER: &str = "phonebook";
const TOOL: &str = "find_by_number";
const EXPOSED: &str = "mcp_phonebook_find_by_number";
/// Telephone calls that share the server.
const AT_ONCE: usize = 200;
/// At most this is added in 99 of 100 cases, in ms.
const ADDED_MAX: f64 = 1.0;
const START_MAX: Duration = Duration::from_secs(10);

#[derive(Args)]
pub struct McpArguments {
    /// Calls one after the other, by each side, in each round.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    calls: u32,
    /// How often floor and engine take turns.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
}

pub fn run(arguments: &McpArguments) -> ExitCode {
    if cfg!(debug_assertions) {
        println!("NOT USABLE  This is a debug build; `cargo build --release` makes another.");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("offhook-bench: cannot start the runtime: {error}");
            return ExitCode::from(3);
        }
    };
    match runtime.block_on(bench(arguments)) {
        Ok(bars) => bars.verdict(),
        Err(error) => {
            eprintln!("offhook-bench: {error:#}");
            ExitCode::from(3)
        }
    }
}

async fn bench(arguments: &McpArguments) -> anyhow::Result<Bars> {
    let folder = super::system::Folder::create()?;
    let program = beside(SERVER)?;
    let floor = Arc::new(Bare::start(&program, &folder.path().join("floor.db")).await?);
    let engine = Arc::new(Engine::start(&program, folder.path()).await?);
    let (mut alone, mut together) = (Pair::default(), Pair::default());
    let mut medians = Vec::new();
    for _ in 0..arguments.rounds {
        let mut round = Vec::new();
        for _ in 0..arguments.calls {
            // Turn by turn, so that both meet the same moments of the machine.
            round.push(floor.call().await?);
            alone.engine.push(engine.call().await?);
        }
        medians.extend(percentile(&round, 50.0));
        alone.floor.extend(round);
        let each = (arguments.calls as usize).div_ceil(AT_ONCE);
        together.floor.extend(
            crowd(each, || {
                let floor = Arc::clone(&floor);
                async move { floor.call().await }
            })
            .await?,
        );
        together.engine.extend(
            crowd(each, || {
                let engine = Arc::clone(&engine);
                async move { engine.call().await }
            })
            .await?,
        );
    }
    engine.fleet.stop().await;
    Ok(print(arguments, &alone, &together, &medians))
}

#[derive(Default)]
struct Pair {
    floor: Vec<Duration>,
    engine: Vec<Duration>,
}

/// So many telephone calls at once, each asking `each` times.
async fn crowd<F, C>(each: usize, one: impl Fn() -> F) -> anyhow::Result<Vec<Duration>>
where
    F: Future<Output = anyhow::Result<C>> + Send + 'static,
    C: Into<Duration> + Send + 'static,
{
    let mut samples = Vec::new();
    for _ in 0..each {
        let mut calls = JoinSet::new();
        for _ in 0..AT_ONCE {
            calls.spawn(one());
        }
        while let Some(took) = calls.join_next().await {
            samples.push(took??.into());
        }
    }
    Ok(samples)
}

/// The library alone.
struct Bare {
    client: RunningService<RoleClient, ()>,
    _server: Child,
}

impl Bare {
    async fn start(program: &Path, database: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg("--database").arg(database).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.kill_on_drop(true).spawn()?;
        let (Some(stdout), Some(stdin)) = (server.stdout.take(), server.stdin.take()) else {
            bail!("no pipes to the server");
        };
        let client = tokio::time::timeout(START_MAX, ().serve((stdout, stdin))).await??;
        Ok(Self { client, _server: server })
    }

    async fn call(&self) -> anyhow::Result<Duration> {
        let arguments = json!({ "number": "+49 30 123" }).as_object().cloned().unwrap_or_default();
        let begun = Instant::now();
        let result = self.client.call_tool(CallToolRequestParams::new(TOOL).with_arguments(arguments)).await?;
        let took = begun.elapsed();
        if result.structured_content.is_none() {
            bail!("the server did not answer as it should");
        }
        Ok(took)
    }
}

/// The whole path: policy, wrapper, library, result, envelope.
struct Engine {
    fleet: Fleet,
    toolbox: Arc<Toolbox>,
}

impl Engine {
    async fn start(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let yaml = format!(
            "providers: {{ a: {{ scripted: {{ script: [silence] }} }} }}\n\
             contexts: {{ a: {{ prompt: Bench, provider: a, tools: [{EXPOSED}] }} }}\n\
             mcp:\n  servers:\n    phonebook:\n      command: [{program:?}, --database, engine.db]\n      \
             defaults: {{ access: public_read }}\n"
        );
        let file = folder.join("bench.yaml");
        std::fs::write(&file, yaml)?;
        let config = config::load(&file, &|_| None, provider::catalog()).map_err(|problems| anyhow!("{problems:?}"))?;
        let fleet = Fleet::new(Arc::new(McpCounters::new(&prometheus::Registry::new())))?;
        let mut changes = fleet.changes();
        fleet.start(&config.mcp);
        tokio::time::timeout(START_MAX, changes.changed()).await.context("the server did not start")??;
        if fleet.status(&config.mcp).get(SERVER).is_none_or(|status| status.state != State::Up) {
            bail!("the server is not up");
        }
        let tools = fleet.offers(&config.mcp).into_iter().flat_map(|offer| offer.tools(&BTreeSet::new()).0);
        // Its arguments look like a person's, to the gate; here nobody is to be identified.
        let open = |spec: &mut ToolSpec| spec.access = Category::PublicRead;
        let registry = Registry::with(tools.map(|guest| guest.tool), open).map_err(|broken| anyhow!("{broken:?}"))?;
        let toolbox = Arc::new(registry.toolbox([EXPOSED]));
        Ok(Self { fleet, toolbox })
    }

    async fn call(&self) -> anyhow::Result<Duration> {
        let opening = Opening { caller_known: true, ..Opening::default() };
        let began = (Instant::now().into_std(), jiff::Timestamp::now());
        let mut policy = CallPolicy::new(Arc::clone(&self.toolbox), Arc::<PolicyRules>::default(), opening, began);
        let arguments = json!({ "number": "+49 30 123" }).to_string();
        let call = ToolCall { id: "call_0123456789abcdef".into(), name: EXPOSED.into(), arguments };
        let (id, facts) = (ToolCallId::random(), facts());
        let begun = Instant::now();
        let Admission::Run { call, .. } = policy.admit(id, &call, begun.into_std()) else {
            bail!("the call was not admitted");
        };
        let tool = self.toolbox.tool(&call).context("the tool is in the toolbox")?;
        let outcome = tool.run(*call, &facts).await;
        if let Some(error) = outcome.error() {
            bail!("the tool failed: {}", error.label());
        }
        let settled = policy.settle(id, outcome, Instant::now().into_std());
        let took = begun.elapsed();
        settled.filter(|settled| settled.answers.len() == 1).context("the call has one answer")?;
        Ok(took)
    }
}

fn facts() -> CallFacts {
    CallFacts::new(CallId::random(), "bench", "bench")
}

fn print(arguments: &McpArguments, alone: &Pair, together: &Pair, medians: &[f64]) -> Bars {
    let (rounds, calls) = (arguments.rounds, arguments.calls);
    println!("{rounds} rounds of {calls} calls of {TOOL} by each side; in ms\n");
    println!("{:44}{:>9}{:>9}{:>9}{:>9}{:>9}", "", "p50", "ratio", "p99", "ratio", "added");
    let of = |samples: &[Duration], percent| percentile(samples, percent).unwrap_or_default();
    let mut worst = f64::MIN;
    for (name, pair) in [("one after the other", alone), ("200 telephone calls at once", together)] {
        let [f50, f99] = [50.0, 99.0].map(|percent| of(&pair.floor, percent));
        let [e50, e99] = [50.0, 99.0].map(|percent| of(&pair.engine, percent));
        println!("{:44}{f50:>9.3}{:>9}{f99:>9.3}", format!("floor: {name}"), "");
        let (r50, r99) = (e50 / f50.max(f64::EPSILON), e99 / f99.max(f64::EPSILON));
        println!("{:44}{e50:>9.3}{r50:>9.2}{e99:>9.3}{r99:>9.2}{:>9.3}", format!("offhook: {name}"), e99 - f99);
        if std::ptr::eq(pair, alone) {
            worst = worst.max(e99 - f99);
        }
    }
    println!(
        "\n  offhook decides about the call, hands it to the server's own thread, reads the result, makes a sentence of\n  \
         it, writes the envelope, the log line and the metrics. The floor asks and waits.\n"
    );
    let drift = medians.iter().copied().fold(f64::MIN, f64::max) / median(medians.iter().copied()).unwrap_or(1.0);
    if drift > 1.5 {
        println!("NOT USABLE  The machine's speed changed: the floor's median rose by a factor of {drift:.1}.");
    }
    let disturbed = cfg!(debug_assertions) || drift > 1.5;
    let (told, limit) = (format!("{worst:.3} ms"), format!("{ADDED_MAX} ms"));
    let mut bars = Bars::default();
    bars.bar("added to a call, p99 against the floor's", &told, &limit, worst <= ADDED_MAX, disturbed);
    bars
}
