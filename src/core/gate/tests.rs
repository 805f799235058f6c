use super::*;
use serde_json::json;

mod contract;
mod entries;
mod evidence;
mod properties;
mod rules;

const NOW: &str = "2026-11-20T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn contract() -> Gate {
    Gate::new(Settings::default())
}

fn reference() -> Gate {
    Gate::new(Settings::reference())
}

/// Good evidence of this kind, as JSON.
fn evidence(kind: &str) -> Value {
    json!({
        "source_id": format!("{kind}.1"), "kind": kind, "trust_tier": "verified", "redaction_status": "redacted",
        "freshness": { "status": "fresh" }, "provenance": "connector", "retrieved_at": "2026-11-20T11:59:00Z",
    })
}

/// An event of this category and state, for a tool and a domain of no risk, with the evidence given.
fn event(category: &str, state: &str, refs: &[Value]) -> Value {
    json!({
        "tool_name": "do_it", "tool_category": category, "authorization_state": state, "evidence_refs": refs,
        "risk_domain": "commerce", "proposed_arguments": {}, "recommended_route": "accept",
    })
}

fn with(mut event: Value, field: &str, value: Value) -> Value {
    event[field] = value;
    event
}

fn without(mut event: Value, field: &str) -> Value {
    event.as_object_mut().unwrap().shift_remove(field);
    event
}

/// Route, blockers and reasons of a decision.
fn told(decision: &Decision) -> (Route, Vec<&str>, Vec<&str>) {
    let texts = |codes| <[Code]>::iter(codes).map(AsRef::as_ref).collect();
    (decision.route(), texts(decision.hard_blockers()), texts(decision.reasons()))
}
