//! What a decision of the gate costs, beside reading the same event as JSON, measured in the same run.

use clap::Args;
use jiff::Timestamp;
use offhook::gate::{AuthState, Category, Event, EvidenceRef, Gate, Kind, RiskDomain, Route, Settings, TrustTier};
use serde_json::{Value, json};
use std::{hint::black_box, process::ExitCode, time::Duration};
use tokio::time::Instant;

#[derive(Args)]
pub struct GateArguments {
    /// How long each figure is measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How often the figures take turns.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
}

/// Between two looks at the clock.
const BATCH: u32 = 256;

/// A confirmed write with the evidence of a usual call: who is on the line, what is allowed, what was said.
fn event() -> Event {
    let mut evidence = vec![
        EvidenceRef::new("auth.pin", Kind::AuthEvent, TrustTier::Verified),
        EvidenceRef::new("policy.refund", Kind::Policy, TrustTier::Verified),
        EvidenceRef::new("approval.keypress", Kind::Approval, TrustTier::Verified),
    ];
    for (item, summary) in
        evidence.iter_mut().zip(["PIN verified", "Refunds up to 50 are allowed", "Read back and confirmed by keypress"])
    {
        item.summary = Some(summary.to_owned());
        item.retrieved_at = Some("2026-11-20T11:59:30Z".to_owned());
    }
    let arguments = json!({ "order_id": "o-17", "amount": 12.5, "note": "second parcel" });
    Event {
        tool_name: "send_refund".to_owned(),
        category: Category::Write,
        state: AuthState::Confirmed,
        evidence,
        domain: RiskDomain::Commerce,
        arguments: arguments.as_object().cloned().unwrap_or_default(),
        recommended: Route::Accept,
        request_id: None,
    }
}

/// How often something can be done in a second.
fn per_second(window: Duration, mut once: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut done = 0_u32;
    while start.elapsed() < window {
        for _ in 0..BATCH {
            once();
        }
        done += BATCH;
    }
    f64::from(done) / start.elapsed().as_secs_f64()
}

pub fn run(arguments: &GateArguments) -> ExitCode {
    let event = event();
    let value = event.to_json();
    let text = value.to_string();
    let Ok(now) = "2026-11-20T12:00:00Z".parse::<Timestamp>() else { return ExitCode::from(3) };
    let gate = Gate::new(Settings::default());
    if !gate.decide(&event, now).executes() {
        eprintln!("offhook-bench: the event that is measured is not accepted");
        return ExitCode::from(3);
    }
    if cfg!(debug_assertions) {
        println!("NOT USABLE  This is a debug build.");
    }
    let window = Duration::from_secs(arguments.seconds);
    let names = [
        "floor: the event read as JSON",
        "decision on a built event",
        "public check of parsed JSON",
        "public check, text to text",
    ];
    let mut best = [0.0_f64; 4];
    for _ in 0..arguments.rounds {
        let round = [
            per_second(window, || drop(black_box(serde_json::from_str::<Value>(black_box(&text))))),
            per_second(window, || drop(black_box(gate.decide(black_box(&event), now)))),
            per_second(window, || drop(black_box(gate.check(black_box(&value), now)))),
            per_second(window, || {
                let event = serde_json::from_str::<Value>(black_box(&text)).unwrap_or_default();
                drop(black_box(gate.check(&event, now).to_json().to_string()));
            }),
        ];
        for (best, figure) in best.iter_mut().zip(round) {
            *best = best.max(figure);
        }
    }
    println!("The gate, on one core: an event of {} bytes with three pieces of evidence.\n", text.len());
    println!("{:<32} {:>12} {:>10} {:>12}", "", "per second", "µs each", "of the floor");
    let floor = best.first().copied().unwrap_or_default();
    for (name, figure) in names.into_iter().zip(best) {
        println!("{name:<32} {figure:>12.0} {:>10.2} {:>11.2}x", 1_000_000.0 / figure, floor / figure);
    }
    ExitCode::SUCCESS
}
