//! `offhook-bench tools`: what it costs to decide about a tool call, beside a floor measured in the
//! same run: the same arguments, parsed and held against their schema, and nothing else.

use super::{
    report::Bars,
    samples::{median, percentile},
};
use clap::Args;
use futures_util::future::BoxFuture;
use offhook::{
    facts::CallFacts,
    gate::{AuthState, Category, RiskDomain},
    tool::{
        Admission, Approved, CallPolicy, Opening, PolicyRules, Registry, Tool, ToolCall, ToolCallId, ToolKind,
        ToolOutcome, ToolSpec, Toolbox, prune,
    },
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, hint::black_box, process::ExitCode, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Tools in the registry, all of them in the context's list.
const TOOLS: usize = 500;
/// Tool calls of one telephone call, each in a turn of its own.
const CALLS_PER_CALL: usize = 200;
/// At most this in 99 of 100 cases, in µs.
const P99_MAX: f64 = 100.0;
const MICROSECONDS: f64 = 1_000.0;

#[derive(Args)]
pub struct ToolsArguments {
    /// Tool calls of each kind, and of the floor, in each round.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    calls: u32,
    /// How often floor and policy take turns.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
}

/// What becomes of a call depends on its tool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    PublicRead,
    PrivateRead,
    Write,
    Asked,
    Unfit,
    Unknown,
}

impl Kind {
    const ALL: [Self; 6] = [Self::PublicRead, Self::PrivateRead, Self::Write, Self::Asked, Self::Unfit, Self::Unknown];

    const fn name(self) -> &'static str {
        match self {
            Self::PublicRead => "public read, runs",
            Self::PrivateRead => "private read of a known caller, runs",
            Self::Write => "write with standing approval, runs",
            Self::Asked => "write, the caller is asked",
            Self::Unfit => "arguments that do not fit, refused",
            Self::Unknown => "no such tool, refused",
        }
    }

    /// The admission is the one that this kind is to measure.
    fn is(self, admission: &Admission) -> bool {
        match self {
            Self::PublicRead | Self::PrivateRead | Self::Write => matches!(admission, Admission::Run { .. }),
            Self::Asked | Self::Unfit | Self::Unknown => matches!(admission, Admission::Answered(_)),
        }
    }
}

struct Idle(ToolSpec);

impl Tool for Idle {
    fn spec(&self) -> ToolSpec {
        self.0.clone()
    }

    fn run(&self, _: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        Box::pin(std::future::pending())
    }
}

pub fn run(arguments: &ToolsArguments) -> ExitCode {
    if cfg!(debug_assertions) {
        println!("NOT USABLE  This is a debug build; `cargo build --release` makes another.");
    }
    let Some(stage) = Stage::new() else {
        eprintln!("offhook-bench: a schema of the bench is not usable");
        return ExitCode::from(3);
    };
    let (mut floor, mut all) = (Vec::new(), BTreeMap::<Kind, Vec<Duration>>::new());
    let mut medians = Vec::new();
    for _ in 0..arguments.rounds {
        let round = stage.floor(arguments.calls as usize);
        medians.extend(percentile(&round, 50.0));
        floor.extend(round);
        for kind in Kind::ALL {
            let Some(samples) = stage.policy(kind, arguments.calls as usize) else {
                eprintln!("offhook-bench: \"{}\" went another way than it should", kind.name());
                return ExitCode::from(3);
            };
            all.entry(kind).or_default().extend(samples);
        }
    }
    print(arguments, &floor, &all, &medians).verdict()
}

/// Everything that is made once.
struct Stage {
    toolbox: Arc<Toolbox>,
    validators: Vec<jsonschema::Validator>,
}

fn parameters(index: usize) -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "minLength": 3, "maxLength": 500, "description": format!("What to look for, {index}.") },
            "top_k": { "type": "integer", "minimum": 1, "maximum": 10, "default": 5 },
            "kind": { "type": "string", "enum": ["article", "person", "place", "event"] },
            "tags": { "type": "array", "items": { "type": "string", "maxLength": 40 }, "maxItems": 10 },
            "range": {
                "type": "object",
                "properties": { "from": { "type": "string" }, "to": { "type": "string" } },
                "required": ["from"],
                "additionalProperties": false
            },
            "exact": { "type": "boolean" }
        },
        "required": ["query", "kind"],
        "additionalProperties": false
    })
}

/// What a model writes; no two are the same.
fn arguments(kind: Kind, n: usize) -> String {
    let kind_of_thing = if kind == Kind::Unfit { "nonsense" } else { "place" };
    json!({
        "query": format!("where is the nearest branch to street {n}"),
        "kind": kind_of_thing,
        "tags": ["open now", "parking", "step-free"],
        "range": { "from": "2026-03-01", "to": "2026-03-31" },
        "exact": false
    })
    .to_string()
}

fn spec(index: usize) -> ToolSpec {
    let (kind, access, standing_approval) = match index % 4 {
        0 => (ToolKind::Retrieval, Category::PublicRead, false),
        1 => (ToolKind::Retrieval, Category::PrivateRead, false),
        2 => (ToolKind::Action, Category::Write, true),
        _ => (ToolKind::Action, Category::Write, false),
    };
    ToolSpec {
        kind,
        access,
        standing_approval,
        risk_domain: RiskDomain::CustomerSupport,
        ..ToolSpec::new(name(index), "Finds things. Of every kind.", parameters(index))
    }
}

fn name(index: usize) -> String {
    format!("find_things_{index}")
}

impl Stage {
    fn new() -> Option<Self> {
        let tools = (0..TOOLS).map(|index| Arc::new(Idle(spec(index))) as Arc<dyn Tool>);
        let registry = Registry::new(tools).ok()?;
        let toolbox = Arc::new(registry.toolbox(registry.names()));
        let validators = (0..TOOLS).map(|index| prune::validator(&parameters(index))).collect::<Result<_, _>>().ok()?;
        Some(Self { toolbox, validators })
    }

    /// Parses arguments and holds them against the schema of one tool after another.
    fn floor(&self, calls: usize) -> Vec<Duration> {
        let one = |n: usize| {
            let (text, validator) = (arguments(Kind::PublicRead, n), &self.validators[n % TOOLS]);
            let begun = Instant::now();
            let valid = serde_json::from_str::<Value>(black_box(&text)).is_ok_and(|value| validator.is_valid(&value));
            black_box(valid);
            begun.elapsed()
        };
        (0..calls).map(one).collect()
    }

    /// Admits calls of one kind; `None` if one of them goes another way.
    fn policy(&self, kind: Kind, calls: usize) -> Option<Vec<Duration>> {
        let mut policy = self.opened();
        let mut samples = Vec::with_capacity(calls);
        for n in 0..calls {
            if n % CALLS_PER_CALL == 0 {
                policy = self.opened();
            }
            let offset = match kind {
                Kind::PublicRead | Kind::Unfit | Kind::Unknown => 0,
                Kind::PrivateRead => 1,
                Kind::Write => 2,
                Kind::Asked => 3,
            };
            let name = if kind == Kind::Unknown { "no_such_tool".into() } else { name((n * 4 + offset) % TOOLS) };
            let call = ToolCall { id: format!("call_{n:016}"), name, arguments: arguments(kind, n) };
            let id = ToolCallId::random();
            policy.caller_spoke(None, Instant::now().into_std());
            let begun = Instant::now();
            let admission = policy.admit(id, black_box(&call), begun.into_std());
            samples.push(begun.elapsed());
            if !kind.is(&admission) {
                return None;
            }
            policy.settle(id, ToolOutcome::done("Found.", json!({ "found": n })), begun.into_std());
        }
        Some(samples)
    }

    fn opened(&self) -> CallPolicy {
        let opening =
            Opening { caller_known: true, authorization: Some(AuthState::Authenticated), ..Opening::default() };
        let began = (Instant::now().into_std(), jiff::Timestamp::now());
        CallPolicy::new(Arc::clone(&self.toolbox), Arc::new(PolicyRules::default()), opening, began)
    }
}

fn print(arguments: &ToolsArguments, floor: &[Duration], all: &BTreeMap<Kind, Vec<Duration>>, medians: &[f64]) -> Bars {
    println!("{TOOLS} tools, {} rounds of {} calls of each kind, in µs\n", arguments.rounds, arguments.calls);
    println!("{:40}{:>9}{:>9}{:>9}{:>9}{:>9}", "", "p50", "ratio", "p99", "ratio", "p99.9");
    let of = |samples: &[Duration], percent| percentile(samples, percent).unwrap_or_default() * MICROSECONDS;
    let row = |name: &str, samples: &[Duration]| {
        let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|percent| of(samples, percent));
        let [r50, r99] =
            [(p50, 50.0), (p99, 99.0)].map(|(value, percent)| value / of(floor, percent).max(f64::EPSILON));
        println!("{name:40}{p50:>9.2}{r50:>9.1}{p99:>9.2}{r99:>9.1}{p999:>9.2}");
    };
    row("floor: parsed and held against a schema", floor);
    for (kind, samples) in all {
        row(kind.name(), samples);
    }
    let everything: Vec<Duration> = all.values().flatten().copied().collect();
    row("all kinds", &everything);
    println!(
        "\n  A call is decoded, looked up in the replay store, the list and the schema, held against budgets and\n  \
         loops, put before the gate and, where it may run, counted; where it may not, its answer is written.\n"
    );
    let p99 = all.values().map(|samples| of(samples, 99.0)).fold(0.0, f64::max);
    let drift = medians.iter().copied().fold(f64::MIN, f64::max) / median(medians.iter().copied()).unwrap_or(1.0);
    if drift > 1.5 {
        println!("NOT USABLE  The machine's speed changed: the floor's median rose by a factor of {drift:.1}.");
    }
    let disturbed = cfg!(debug_assertions) || drift > 1.5;
    let mut bars = Bars::default();
    bars.bar(
        "admission, p99 of the slowest kind",
        &format!("{p99:.1} µs"),
        &format!("{P99_MAX} µs"),
        p99 <= P99_MAX,
        disturbed,
    );
    bars
}
