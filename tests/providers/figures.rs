//! What is measured of a call, and what it costs, against what the caller's recording and the vendor know of it.

use crate::providers::{
    desk::Desk,
    kit::vendor::{Dialect, Scenario, Vendor, hertz},
    ms,
};
use futures_util::future::join_all;
use offhook::{
    records::{self, TurnUsed, Used},
    telemetry::LogCapture,
};
use std::{collections::BTreeMap, sync::LazyLock, time::Duration};
use tempfile::TempDir;
use tracing_subscriber::{Layer as _, filter::filter_fn, layer::SubscriberExt as _};

/// Every line that tells a turn's latency, of all calls of this process.
static TURNS: LazyLock<LogCapture> = LazyLock::new(|| {
    let capture = LogCapture::new();
    let turns = capture.layer().with_filter(filter_fn(|line| line.target() == "offhook::turn"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(turns)).expect("the first one");
    capture
});

/// The caller's clock counts frames, and so does the engine's.
const CLOCKS: Duration = ms(80);
/// What the vendor takes for an answer. One that finds the caller's turns itself can answer before offhook's own ears have
/// found their end.
pub const THINKS: [Duration; 2] = [ms(0), ms(400)];
/// Longer than it takes until a caller who waits for an answer hears a filler.
const NO_FILLER: Duration = ms(1_600);
const STAGES: [&str; 4] = ["endpointing", "thinking", "speaking", "playout"];

pub async fn the_latency_that_is_told_is_what_the_caller_hears<D: Dialect>() {
    join_all(THINKS.map(latency::<D>)).await;
}

async fn latency<D: Dialect>(thinks: Duration) {
    let name = format!("{}_{}", D::KIND, thinks.as_millis());
    let vendor = Vendor::start::<D>(Scenario { thinks, ..Scenario::default() }).await;
    let desk = Desk::with(&[(&name, vendor.yaml())], "").await;
    what_is_told_is_what_is_heard(&desk, &name).await;
    vendor.is_content();
}

pub async fn what_is_told_is_what_is_heard(desk: &Desk, name: &str) {
    LazyLock::force(&TURNS);
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    caller.says("When do you open on Sunday").await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), ms(900)).await;
    caller.hears_nothing_for(NO_FILLER).await;
    assert_eq!(desk.metric("offhook_sentences_total"), 0.0, "an answer is an answer");
    let story = caller.look(|tape| format!("{tape:?}"));
    let heard = caller.look(|tape| tape.first_of(hertz(1), said.end)).expect("waited for") - said.end;

    let sum = |metric: &str, more: &str| desk.metric(&format!("offhook_turn_{metric}{{provider=\"{name}\"{more}}}"));
    assert_eq!(sum("latency_seconds_count", ""), 1.0, "the greeting answers nobody");
    let total = Duration::from_secs_f64(sum("latency_seconds_sum", ""));
    // What the machine keeps the caller waiting for is in what is said and again in what is heard.
    let late = caller.look(|tape| tape.late);
    assert!(
        total.abs_diff(heard) <= CLOCKS + 2 * late,
        "{total:?} is told, {heard:?} was heard, {late:?} late; {story}"
    );
    let stage = |stage: &str| Duration::from_secs_f64(sum("stage_seconds_sum", &format!(",stage=\"{stage}\"")));
    let stages = STAGES.map(stage);
    assert!(stages.iter().sum::<Duration>().abs_diff(total) < ms(1), "{stages:?}, {total:?}");

    let lines = TURNS.lines();
    let lines: Vec<&String> = lines.iter().filter(|line| line.contains(&format!("provider=\"{name}\""))).collect();
    let [line] = lines.as_slice() else { panic!("one line: {lines:?}") };
    let told = |key: &str| {
        let value = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix("_ms="));
        ms(value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{key} in {line}")))
    };
    assert!(told("total").abs_diff(total) <= ms(1), "{line}");
    for (key, took) in STAGES.into_iter().zip(stages) {
        assert!(told(key).abs_diff(took) <= ms(1), "{key}: {line}");
    }
    assert!(line.contains("tools=false") && line.contains("filled=false"), "{line}");
    desk.ends_with(&caller).await;
}

/// Each kind at a price of its own, so that none can stand for another. Per million tokens, and per minute.
const PRICES: [(&str, f64); 7] = [
    ("input_text", 2.0),
    ("input_audio", 30.0),
    ("input_cached_text", 0.5),
    ("input_cached_audio", 7.0),
    ("output_text", 11.0),
    ("output_audio", 130.0),
    ("output_thinking", 17.0),
];
const PER_MINUTE: f64 = 0.6;

fn prices(units: &str) -> String {
    format!("prices: {{ first: {{ currency: EUR, date: 2026-11-20, source: the test, {units} }} }}\n")
}

/// What is told of the call when it has ended.
fn told(desk: &Desk) -> Used {
    let ended = desk.engine.calls().view().recent[0].usage.clone();
    let [used] = ended.as_slice() else { panic!("one provider: {ended:?}") };
    used.clone()
}

pub async fn tokens_are_counted_as_they_are_reported_and_priced<D: Dialect>() {
    let (vendor, records) = (Vendor::start::<D>(Scenario::default()).await, TempDir::new().expect("a folder"));
    let desk = Desk::at(&[("first", vendor.yaml())], "", &of_tokens(&records)).await;
    tokens_are_counted_and_priced(&desk, &records, &[(0, D::tokens()), (1, D::tokens())]).await;
    vendor.is_content();
}

/// The sections of prices and of records, which are kept here.
pub fn of_tokens(records: &TempDir) -> String {
    let units = PRICES.map(|(kind, price)| format!("{kind}: {price}")).join(", ");
    let prices = prices(&format!("per_million_tokens: {{ {units} }}, per_minute: {{ transcribed: 0 }}"));
    format!("{prices}records: {{ directory: \"{}\" }}\n", records.path().display())
}

type Tokens = BTreeMap<&'static str, u64>;

/// What was reported of a greeting, in turn 0, and of an answer.
pub async fn tokens_are_counted_and_priced(desk: &Desk, records: &TempDir, turns: &[(u64, Tokens)]) {
    let mut reported = Tokens::new();
    for (kind, count) in turns.iter().flat_map(|(_, tokens)| tokens) {
        *reported.entry(kind).or_default() += count;
    }
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.speaks().await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), ms(900)).await;
    assert!(!reported.is_empty(), "this vendor reports tokens");
    desk.counts("offhook_tokens_total", reported.values().sum::<u64>() as f64).await;
    desk.ends_with(&caller).await;
    for (kind, count) in &reported {
        assert_eq!(desk.metric(&format!("offhook_tokens_total{{kind=\"{kind}\",provider=\"first\"}}")), *count as f64);
    }
    let used = told(desk);
    assert_eq!(kinds(&used), reported);
    let by_turn = used_by_turn(desk, records).await;
    assert_eq!(
        by_turn.iter().map(|used| used.turn).collect::<Vec<_>>(),
        turns.iter().map(|turn| turn.0).collect::<Vec<_>>()
    );
    for (used, (turn, tokens)) in by_turn.iter().zip(turns) {
        assert_eq!((used.used.provider.as_str(), &kinds(&used.used)), ("first", tokens), "turn {turn}");
        let told = used.used.cost.as_ref().expect("there are prices").amount;
        assert!((told - priced(tokens)).abs() < 1e-6, "turn {turn}: {told}");
    }
    let cost = priced(&reported);
    let told = used.cost.expect("there are prices");
    assert!((told.amount - cost).abs() < 1e-6 && told.unpriced.is_empty(), "{cost}, but {told:?}");
    assert_eq!((told.currency.as_str(), told.price_date.as_str()), ("EUR", "2026-11-20"));
    let counted = desk.metric("offhook_cost_total{currency=\"EUR\",provider=\"first\"}");
    assert!((counted - cost).abs() < 1e-9, "{cost}, but {counted}");
}

fn kinds(used: &Used) -> BTreeMap<&str, u64> {
    used.tokens.iter().map(|(kind, count)| (kind.as_str(), *count)).collect()
}

/// What the record of the call says.
async fn used_by_turn(desk: &Desk, records: &TempDir) -> Vec<TurnUsed> {
    desk.counts("offhook_records_total", 1.0).await;
    let archive = records::read(records.path()).expect("it can be read").expect("a record was kept");
    let id = desk.engine.calls().view().recent[0].call.id;
    archive.get(id).expect("it can be read").expect("it is there").turn_usage
}

fn priced(tokens: &Tokens) -> f64 {
    let of = |kind: &str| tokens.get(kind).copied().unwrap_or(0) as f64;
    let price = |kind: &str| PRICES.iter().find(|(priced, _)| *priced == kind).expect("it has a price").1 / 1e6;
    // What is cached is text here, and no part of the rest.
    let cached = of("input_cached");
    (of("input_text") - cached) * price("input_text")
        + cached * price("input_cached_text")
        + of("input_audio") * price("input_audio")
        + of("output_text") * price("output_text")
        + of("output_audio") * price("output_audio")
}

/// Where tokens are reported as well and have no price, that is said.
pub async fn the_time_of_a_connection_is_counted_and_priced<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::at(&[("first", vendor.yaml())], "", &of_time()).await;
    time_is_counted_and_priced(&desk, !D::tokens().is_empty()).await;
    vendor.is_content();
}

/// The section of prices.
pub fn of_time() -> String {
    prices(&format!("per_minute: {{ connected: {PER_MINUTE} }}"))
}

/// Of a call with a greeting.
pub async fn time_is_counted_and_priced(desk: &Desk, tells_tokens: bool) {
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(600)).await;
    let lasted = caller.now();
    desk.ends_with(&caller).await;
    let used = told(desk);
    let connected = Duration::from_secs_f64(used.connected_seconds);
    assert!(connected.abs_diff(lasted) <= ms(300), "{connected:?} of {lasted:?}");
    let (told, cost) = (used.cost.expect("there is a price"), used.connected_seconds / 60.0 * PER_MINUTE);
    assert!((told.amount - cost).abs() < 1e-5, "{cost}, but {told:?}");
    assert_eq!(told.unpriced.is_empty(), !tells_tokens, "{told:?}");
    let counted = desk.metric("offhook_cost_total{currency=\"EUR\",provider=\"first\"}");
    assert!((counted - cost).abs() < 1e-5, "{cost}, but {counted}");
}
