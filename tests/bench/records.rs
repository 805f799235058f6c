//! How long a search in the records of ended calls takes, beside one record that is asked for by its id.

use super::{report::Bars, samples::percentile, say, system::Folder};
use anyhow::Context as _;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use offhook::{
    call::EndReason,
    facts::{CallId, Direction},
    records::{Archive as _, Cost, Counts, Ending, Entry, Event, Record, Search, Sqlite, Turn, TurnUsed, Used},
};
use std::{path::Path, process::ExitCode, time::Duration};
use tokio::time::Instant;

#[derive(Args)]
pub struct RecordsArguments {
    /// How many calls have ended.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    records: u32,
    /// How often each question is asked.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    times: u16,
}

/// No question takes longer, at 100,000 records.
const ANSWER_MAX: Duration = Duration::from_millis(100);
/// A page of a list.
const LIMIT: usize = 50;
const BATCH: u32 = 500;
/// Between two calls.
const EVERY: SignedDuration = SignedDuration::from_secs(25);
/// Said in every call, in one of a hundred, and in one of ten thousand.
const WORDS: [&str; 3] = ["everywhere", "sometimes", "seldom"];
const LINES: usize = 24;

pub fn run(arguments: &RecordsArguments) -> ExitCode {
    match bench(arguments) {
        Ok(bars) => bars.verdict(),
        Err(error) => {
            eprintln!("offhook-bench: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn bench(arguments: &RecordsArguments) -> anyhow::Result<Bars> {
    let folder = Folder::create()?;
    let file = folder.path().join("calls.sqlite3");
    say(&format!("{} records of calls are made ", arguments.records));
    let (now, began) = (Timestamp::now(), Instant::now());
    let newest = fill(&file, arguments.records)?;
    let archive = Sqlite::open(&file)?;
    let (took, bytes) = (began.elapsed(), std::fs::metadata(&file)?.len());
    say("done\n\n");
    println!(
        "{} records, {} MB, {:.0} a second\n",
        arguments.records,
        bytes >> 20,
        f64::from(arguments.records) / took.as_secs_f64()
    );
    println!("in ms                                             rows      p50    ratio      p99    ratio");
    let floor = asked(arguments.times, || Ok(usize::from(archive.get(newest)?.is_some())))?;
    line("floor: one record by its id", &floor, &floor);
    let middle = now - EVERY * i32::try_from(arguments.records / 2).unwrap_or(i32::MAX);
    let mut rows = Vec::new();
    let first = now - EVERY * i32::try_from(arguments.records).unwrap_or(i32::MAX);
    for (name, search) in searches(first, middle) {
        let answers = asked(arguments.times, || Ok(archive.find(&Search { limit: LIMIT, ..search.clone() })?.len()))?;
        line(name, &answers, &floor);
        rows.push((name, answers.ms(99.0)));
    }
    // As the page's plots ask.
    let month = now - SignedDuration::from_hours(24 * 30);
    let answers = asked(arguments.times, || Ok(archive.hours(month, now)?.len()))?;
    line("calls and costs by the hour, a month", &answers, &floor);
    rows.push(("calls and costs by the hour, a month", answers.ms(99.0)));
    println!();
    let (mut bars, most) = (Bars::default(), ANSWER_MAX.as_millis());
    for (name, p99) in rows {
        bars.bar(&format!("p99, {name}"), &format!("{p99:.1} ms"), &format!("{most} ms"), p99 <= most as f64, false);
    }
    Ok(bars)
}

/// Makes so many records of calls that have ended, and tells the newest.
pub fn fill(file: &Path, count: u32) -> anyhow::Result<CallId> {
    let (mut archive, now) = (Sqlite::open(file)?, Timestamp::now());
    let mut newest = None;
    for first in (0..count).step_by(BATCH as usize) {
        let age = |number: u32| EVERY * i32::try_from(count - number).unwrap_or(i32::MAX);
        let numbers = first..(first + BATCH).min(count);
        let batch: Vec<Record> = numbers.map(|number| record(number, now - age(number))).collect();
        archive.put(&batch)?;
        newest = batch.last().map(|record| record.id);
    }
    newest.context("no records")
}

/// What operators ask, the worst cases among it: what nothing matches is looked for everywhere.
fn searches(first: Timestamp, middle: Timestamp) -> Vec<(&'static str, Search)> {
    let text = |text: &str| Some(text.to_owned());
    let [everywhere, sometimes, seldom] = WORDS.map(text);
    vec![
        ("the newest", Search::default()),
        ("a page from the middle", Search { until: Some(middle), ..Search::default() }),
        (
            "a time that is all there is",
            Search { since: Some(first), until: Some(Timestamp::MAX), ..Search::default() },
        ),
        (
            "an hour long ago, of a context",
            Search {
                since: Some(first),
                until: Some(first + SignedDuration::from_hours(1)),
                context: text("front"),
                ..Search::default()
            },
        ),
        (
            "the first calls of all",
            Search { after: Some(i64::try_from(LIMIT).unwrap_or_default()), ..Search::default() },
        ),
        ("a context of many", Search { context: text("front"), ..Search::default() }),
        ("a context that nobody has", Search { context: text("nowhere"), ..Search::default() }),
        ("a reason of few", Search { reason: text(&EndReason::EngineFault.label()), ..Search::default() }),
        ("the end of a number", Search { number: text("004711"), ..Search::default() }),
        ("a word of every call", Search { words: everywhere, ..Search::default() }),
        ("a word of one call in a hundred", Search { words: sometimes, ..Search::default() }),
        (
            "a word of one in ten thousand, in a context",
            Search { words: seldom, context: text("front"), ..Search::default() },
        ),
        ("a word that nobody said", Search { words: text("unheard-of"), ..Search::default() }),
        (
            "a word of every call, in no context",
            Search { words: text(WORDS[0]), context: text("nowhere"), ..Search::default() },
        ),
    ]
}

struct Answers {
    took: Vec<Duration>,
    rows: usize,
}

impl Answers {
    fn ms(&self, percent: f64) -> f64 {
        percentile(&self.took, percent).unwrap_or(f64::INFINITY)
    }
}

fn asked(times: u16, mut ask: impl FnMut() -> anyhow::Result<usize>) -> anyhow::Result<Answers> {
    let mut answers = Answers { took: Vec::new(), rows: 0 };
    for _ in 0..times {
        let began = Instant::now();
        answers.rows = ask()?;
        answers.took.push(began.elapsed());
    }
    Ok(answers)
}

fn line(name: &str, answers: &Answers, floor: &Answers) {
    let [half, most] = [50.0, 99.0].map(|percent| (answers.ms(percent), answers.ms(percent) / floor.ms(percent)));
    println!("{name:48}{:6}{:9.3}{:9.1}{:9.3}{:9.1}", answers.rows, half.0, half.1, most.0, most.1);
}

/// A call of three minutes.
pub fn record(number: u32, began: Timestamp) -> Record {
    let reason = if number.is_multiple_of(1_000) { EndReason::EngineFault } else { EndReason::CallerHungUp };
    let context = if number.is_multiple_of(3) { "front" } else { "sales" };
    let rare = match number {
        number if number.is_multiple_of(10_000) => WORDS[2],
        number if number.is_multiple_of(100) => WORDS[1],
        _ => "never",
    };
    let said = (0..LINES).map(|line| {
        let text = format!("Line {line} of call {number} has some words that are heard {} and {rare} in it.", WORDS[0]);
        let speaker = if line % 2 == 0 { "caller" } else { "agent" }.to_owned();
        Entry { at_ms: line as u64 * 7_000, event: Event::Said { speaker, text } }
    });
    let turn = |turn: u64| Turn {
        at_ms: turn * 14_000,
        turn,
        provider: "main".into(),
        endpointing_ms: 600,
        thinking_ms: 300,
        speaking_ms: 80,
        playout_ms: 20,
        tools: false,
        filled: false,
    };
    let used = |tokens: u64, connected_seconds: f64, amount: f64| Used {
        provider: "main".into(),
        tokens: std::iter::once(("output_audio".into(), tokens)).collect(),
        transcribed_seconds: 0.0,
        connected_seconds,
        cost: Some(Cost { amount, currency: "EUR".into(), price_date: "2026-11-20".into(), unpriced: Vec::new() }),
    };
    Record {
        id: CallId::random(),
        began,
        seconds: 180.0,
        direction: Direction::Inbound,
        caller_number: Some(format!("+49301{number:06}")),
        caller_name: None,
        dialled_number: Some("7000".into()),
        campaign_id: None,
        lead_id: None,
        context: context.into(),
        provider: "main".into(),
        generation: 1,
        transport: "rtp".into(),
        format: "ulaw".into(),
        reason: Ending::from(reason),
        counts: Counts { agent_turns: 12, ..Counts::default() },
        turns: (1..=LINES as u64 / 2).map(turn).collect(),
        entries: said.collect(),
        left_out: 0,
        usage: vec![used(3_000, 180.0, 0.05)],
        turn_usage: (1..=LINES as u64 / 2).map(|turn| TurnUsed { turn, used: used(250, 0.0, 0.004) }).collect(),
        recording: None,
    }
}
