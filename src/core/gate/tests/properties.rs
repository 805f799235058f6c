//! What holds for every event, tried on random ones.

use super::*;
use proptest::{collection::vec, option, prelude::*, sample::select};

/// Summaries and ids that mean something to one rule or another.
const WORDS: &[&str] = &[
    "authenticated",
    "has not confirmed",
    "ownership validated",
    "allowed",
    "user claimed",
    "unavailable",
    "conflicts",
    "missing authorization",
    "public search",
    "password: hunter2hunter2",
    "a@b.example",
    "auth.pin",
    "draft:1",
    "token_1",
    "counterfactual.missing_authorization",
    "",
    " ",
    "é\u{1d}",
];
const NAMES: &[&str] = &["get_order", "send_mail", "hang_up", "search_users", "x", ""];
const TIMES: &[&str] = &["2026-11-20", "2020-01-01", "2026-11-13T12:00:00Z", "soon", ""];

fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(words).prop_map(str::to_owned)
}

prop_compose! {
    fn a_ref()(
        source_id in word(WORDS),
        kind in select(Kind::ALL),
        trust in select(TrustTier::ALL),
        redaction in select(Redaction::ALL),
        summary in option::of(word(WORDS)),
        retrieved_at in option::of(word(TIMES)),
        freshness in select(Freshness::ALL),
        provenance in select(&["runtime", "connector", ""][..]),
        contradicts in vec(word(WORDS), 0..2),
    ) -> EvidenceRef {
        let provenance = provenance.to_owned();
        EvidenceRef { source_id, kind, trust, redaction, summary, retrieved_at, freshness, provenance, contradicts }
    }
}

prop_compose! {
    fn an_event()(
        tool_name in word(NAMES),
        category in select(Category::ALL),
        state in select(AuthState::ALL),
        evidence in vec(a_ref(), 0..4),
        domain in select(RiskDomain::ALL),
        key in select(&["q", "account_id", "Api-Key"][..]),
        value in word(WORDS),
        recommended in select(Route::ALL),
    ) -> Event {
        let arguments = Map::from_iter([(key.to_owned(), Value::from(value))]);
        Event { tool_name, category, state, evidence, domain, arguments, recommended, request_id: None }
    }
}

/// JSON of every shape, with the contract's own names in it.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        word(WORDS).prop_map(Value::from),
        select([Category::LABELS, AuthState::LABELS, Route::LABELS, Kind::LABELS].concat()).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        let fields = ["source_id", "kind", "freshness", "supports", "status", "metadata", "schema_version"];
        let keys = prop_oneof![select([&REQUIRED[..], &fields[..]].concat()).prop_map(str::to_owned), ".{0,6}"];
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((keys, inner), 0..9).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// A valid event with some of its values replaced by anything.
fn a_damaged_event() -> impl Strategy<Value = Value> {
    let damage = vec((select(&REQUIRED[..]), any_json()), 0..3);
    (an_event(), damage, option::of((0..3_usize, a_field(), any_json()))).prop_map(|(event, damage, in_ref)| {
        let mut event = event.to_json();
        for (field, value) in damage {
            event[field] = value;
        }
        if let Some((index, field, value)) = in_ref
            && let Some(Value::Object(item)) = event["evidence_refs"].get_mut(index)
        {
            item.insert(field.to_owned(), value);
        }
        event
    })
}

fn a_field() -> impl Strategy<Value = &'static str> {
    select(&["source_id", "kind", "summary", "freshness", "retrieved_at", "supports", "contradicts", "zz"][..])
}

fn answers_everything(event: &Value) -> Result<(), TestCaseError> {
    for gate in [contract(), reference()] {
        for decision in [gate.check(event, now()), gate.gate(event, now())] {
            let json = decision.to_json();
            prop_assert_eq!(&json["recommended_action"], decision.route().label());
            prop_assert_eq!(
                decision.executes(),
                json["gate_decision"] == "pass" && decision.validation_errors().is_empty()
            );
            prop_assert!(
                decision.executes() || decision.route() != Route::Accept || !decision.hard_blockers().is_empty()
            );
            prop_assert!(
                !decision.executes() || (decision.route() == Route::Accept && decision.hard_blockers().is_empty())
            );
            let meta = AuditMeta { created_at: now(), surface: "t", route: "t", latency_ms: None, mode: Mode::Enforce };
            stored_record(&gate.normalized(event), &decision, &meta);
        }
        gate.validate(event);
        mcp::answer(&gate, event, now());
    }
    Ok(())
}

fn is_not_looser(event: &Value) -> Result<(), TestCaseError> {
    for (own, theirs) in [
        (contract().check(event, now()), reference().check(event, now())),
        (contract().gate(event, now()), reference().gate(event, now())),
    ] {
        prop_assert!(own.route() >= theirs.route(), "{event}: {own:?} {theirs:?}");
        prop_assert!(!own.executes() || theirs.executes(), "{event}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// No event is let through that the reference would stop.
    #[test]
    fn the_contracts_reading_is_never_looser_than_the_references(event in an_event()) {
        is_not_looser(&event.to_json())?;
    }

    #[test]
    fn nor_is_it_on_damaged_events(event in a_damaged_event()) {
        is_not_looser(&event)?;
    }

    #[test]
    fn a_built_event_and_its_json_are_decided_alike(event in an_event()) {
        for gate in [contract(), reference()] {
            let (typed, json) = (gate.decide(&event, now()), gate.check(&event.to_json(), now()));
            prop_assert_eq!(typed.to_json(), json.to_json());
            prop_assert_eq!(typed, json);
        }
    }

    /// G9: whatever arrives gets an answer, and no panic.
    #[test]
    fn every_json_is_answered(event in any_json()) {
        answers_everything(&event)?;
    }

    #[test]
    fn every_damaged_event_is_answered(event in a_damaged_event()) {
        answers_everything(&event)?;
    }

    /// G10: an event that executes is confirmed where it writes, authenticated where it reads something private.
    #[test]
    fn nothing_executes_above_its_state(event in an_event()) {
        let decision = contract().decide(&event, now());
        if decision.executes() {
            let state = decision.verdict().map(|verdict| verdict.authorization.effective);
            prop_assert!(event.category != Category::Unknown);
            prop_assert!(event.category != Category::Write || state == Some(AuthState::Confirmed));
            prop_assert!(event.category != Category::PrivateRead || state >= Some(AuthState::Authenticated));
            prop_assert_eq!(event.recommended, Route::Accept);
        }
    }
}

#[test]
fn huge_and_deep_events_are_answered() {
    let many: Vec<Value> = (0..5_000).map(|index| json!(format!("id:{index}"))).collect();
    assert!(!contract().check(&event("write", "confirmed", &many), now()).executes());
    let deep = (0..120).fold(json!("public"), |inner, _| json!([inner]));
    let event = with(event("public_read", "none", &[]), "proposed_arguments", json!({ "deep": deep }));
    assert!(contract().check(&event, now()).executes());
    let long = with(event, "tool_name", json!("user ".repeat(50_000)));
    assert_eq!(contract().check(&long, now()).route(), Route::Accept);
}
