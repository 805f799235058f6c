//! The two entries and how they differ, the two readings and how they differ, and gates elsewhere.

use super::*;

/// Why the public check cannot read an event, in the reference's reading.
fn unreadable(event: &Value) -> String {
    let decision = reference().check(event, now());
    let (route, blockers, reasons) = told(&decision);
    assert_eq!(
        (route, blockers, reasons[0]),
        (Route::Refuse, vec!["contract_normalization_failed"], "fail_closed_runtime_safety")
    );
    let json = decision.to_json();
    assert_eq!(json["aix"]["score"], json!(0.0));
    assert_eq!(json["aix"]["components"], json!({ "P": 0.0, "F": 0.0, "C": 0.0 }));
    assert_eq!(json["validation_errors"], json!([{ "path": "event", "message": reasons[1] }]));
    assert_eq!(json["execution_policy"]["reason"], "schema_or_contract_validation_failed");
    reasons[1].to_owned()
}

fn first_ref(field: &str, value: Value) -> Value {
    event("write", "confirmed", &[with(evidence("approval"), field, value)])
}

#[test]
fn the_public_check_says_what_it_cannot_read() {
    let base = || event("public_read", "none", &[]);
    for (event, why) in [
        (json!(null), "tool_category knows no such word: None."),
        (json!([1]), "The event has to be a JSON object."),
        (with(base(), "tool_category", json!("it's")), "tool_category knows no such word: \"it's\"."),
        (with(base(), "tool_category", json!([])), "tool_category has to be a text; it is of type list."),
        (with(base(), "risk_domain", json!({})), "risk_domain has to be a text; it is of type dict."),
        (without(base(), "authorization_state"), "authorization_state knows no such word: None."),
        (with(base(), "recommended_route", json!(true)), "recommended_route knows no such word: True."),
        (with(base(), "proposed_arguments", json!([])), "proposed_arguments has to be an object."),
        (with(base(), "evidence_refs", json!([" "])), "An evidence id must not be blank."),
        (with(base(), "evidence_refs", json!([1])), "Piece of evidence 1 is neither an id nor an object."),
        (with(base(), "evidence_refs", json!([{}])), "A piece of evidence needs a source_id."),
        (first_ref("extra", json!(1)), "A piece of evidence has no field 'extra'."),
        (first_ref("source_id", json!(" ")), "The source_id of a piece of evidence must not be blank."),
        (first_ref("kind", json!(null)), "The kind of evidence knows no such word: None."),
        (first_ref("trust_tier", json!("root")), "The trust_tier of evidence knows no such word: 'root'."),
        (first_ref("redaction_status", json!(1.0)), "The redaction_status of evidence knows no such word: 1.0."),
        (first_ref("supports", json!(5)), "A list is needed; this is of type int."),
    ] {
        assert_eq!(unreadable(&event), why, "{event}");
    }
}

/// G13, G answer 1: the public check softens an `accept` that the schema would refuse.
#[test]
fn accept_is_softened_where_the_state_is_too_weak() {
    let recommended = |category: &str, state: &str| {
        let event = event(category, state, &[evidence("approval")]);
        reference().check(&event, now()).verdict().unwrap().recommended
    };
    assert_eq!(recommended("write", "authenticated"), Route::Ask);
    assert_eq!(recommended("write", "validated"), Route::Accept);
    assert_eq!(recommended("private_read", "user_claimed"), Route::Ask);
    assert_eq!(recommended("private_read", "authenticated"), Route::Accept);
    assert_eq!(recommended("unknown", "confirmed"), Route::Defer);
    assert_eq!(recommended("public_read", "none"), Route::Accept);
}

/// G answer 1: with the version marker nothing is softened, as at the origin.
#[test]
fn the_version_marker_switches_softening_off() {
    let quick = with(event("write", "user_claimed", &[json!("draft:1")]), "tool_name", json!("send_email"));
    assert_eq!(reference().check(&quick, now()).route(), Route::Ask);
    let decision = reference().check(&with(quick, "schema_version", json!(VERSION)), now());
    assert_eq!(told(&decision).1, ["schema_validation_failed"]);
    let error = &decision.validation_errors()[0];
    assert_eq!(error.path, "authorization_state");
    assert_eq!(error.message, "'user_claimed' is not one of ['validated', 'confirmed']");
}

#[test]
fn unknown_fields_are_dropped_without_the_marker_and_refused_with_it() {
    let more = with(event("public_read", "none", &[]), "more", json!(1));
    assert!(contract().check(&more, now()).executes());
    let marked = with(more.clone(), "schema_version", json!(VERSION));
    for decision in [contract().check(&marked, now()), contract().gate(&more, now())] {
        assert_eq!(
            decision.validation_errors()[0].message,
            "Additional properties are not allowed ('more' was unexpected)"
        );
    }
}

/// G answer 2: the strict gate lifts a declared state to what the evidence supports.
#[test]
fn the_strict_gate_lifts_a_state_to_its_evidence() {
    for (category, kind, reason) in [
        ("private_read", "auth_event", "authorization_state_lifted_from_auth_evidence_for_schema"),
        ("write", "approval", "authorization_state_lifted_from_write_evidence_for_schema"),
    ] {
        let event = event(category, "none", &[evidence(kind)]);
        let decision = reference().gate(&event, now());
        assert!(decision.executes());
        assert_eq!(told(&decision).2[0], reason);
        let report = decision.verdict().unwrap().authorization;
        assert_eq!(decision.to_json()["authorization_state"], report.declared.label());
        assert!(decision.to_json().get("architecture_decision").is_none(), "the strict answer is the shorter one");
    }
    let weak = event("write", "none", &[evidence("auth_event")]);
    assert_eq!(told(&reference().gate(&weak, now())).1, ["schema_validation_failed"]);
}

#[test]
fn what_was_lifted_is_shown_as_it_was_declared() {
    let event = with(event("write", "none", &[evidence("approval")]), "schema_version", json!(VERSION));
    let json = reference().check(&event, now()).to_json();
    assert_eq!((&json["authorization_state"], &json["route"]), (&json!("confirmed"), &json!("accept")));
    assert_eq!(json["architecture_decision"]["authorization_state"], "none");
    assert_eq!(json["architecture_decision"]["audit_event"]["authorization_state"], "none");
}

#[test]
fn references_differ_in_their_freshness_between_the_entries() {
    let event = event("private_read", "authenticated", &[without(evidence("auth_event"), "freshness")]);
    let warnings = |decision: Decision| decision.verdict().unwrap().evidence.warnings();
    assert_eq!(warnings(reference().gate(&event, now())), [""; 0]);
    assert_eq!(warnings(reference().check(&event, now())), ["unknown_freshness"]);
}

#[test]
fn the_reference_fills_in_and_the_contract_refuses() {
    let base = || event("public_read", "none", &[]);
    for event in [
        without(base(), "tool_name"),
        with(base(), "tool_name", json!(5)),
        without(base(), "risk_domain"),
        without(base(), "proposed_arguments"),
        without(base(), "recommended_route"),
        without(base(), "evidence_refs"),
        with(base(), "evidence_refs", json!(null)),
        with(base(), "schema_version", json!("other")),
        event("public_read", "none", &[with(evidence("policy"), "supports", json!("abc"))]),
        event("public_read", "none", &[with(evidence("policy"), "contradicts", json!(""))]),
    ] {
        assert!(reference().check(&event, now()).executes(), "{event}");
        let refused = contract().check(&event, now());
        assert_eq!(told(&refused).1, ["schema_validation_failed"], "{event}");
        assert_eq!(told(&refused).2, ["event_failed_schema_validation"]);
    }
    let lifted = without(event("write", "none", &[evidence("approval")]), "authorization_state");
    assert!(reference().gate(&lifted, now()).executes());
    assert!(!contract().gate(&lifted, now()).executes());
    assert_eq!(reference().check(&without(base(), "tool_name"), now()).to_json()["tool_name"], "None");
}

#[test]
fn shadow_mode_changes_the_permission_and_not_the_decision() {
    let decision = contract().check(&event("write", "none", &[]), now());
    let (shadow, plain) = (decision.public_json(Mode::Shadow), decision.to_json());
    for field in ["route", "gate_decision", "hard_blockers", "reasons", "aix", "architecture_decision"] {
        assert_eq!(shadow[field], plain[field]);
    }
    assert_eq!(shadow["execution_mode"], "shadow");
    assert_eq!(shadow["execution_policy"]["execution_allowed"], true);
    assert_eq!(shadow["execution_policy"]["aana_allows_execution"], false);
    assert_eq!(shadow["shadow_observation"]["would_route"], "defer");
    assert_eq!(shadow["shadow_observation"]["production_effect"], "not_blocked");
    let accepted = contract().check(&event("public_read", "none", &[]), now()).public_json(Mode::Shadow);
    assert_eq!(accepted["execution_policy"]["reason"], "shadow_mode_observe_only");
    assert_eq!(accepted["shadow_observation"]["would_route"], "pass");
}

fn own_event() -> Event {
    Event {
        tool_name: "order_status".into(),
        category: Category::PrivateRead,
        state: AuthState::Authenticated,
        evidence: vec![EvidenceRef::new("auth.pin", Kind::AuthEvent, TrustTier::Verified)],
        domain: RiskDomain::Commerce,
        arguments: json!({ "order_id": "o1" }).as_object().unwrap().clone(),
        recommended: Route::Accept,
        request_id: Some("call.1".into()),
    }
}

#[test]
fn a_built_event_is_decided_as_its_json_is() {
    let mut event = own_event();
    assert!(contract().decide(&event, now()).executes());
    assert_eq!(contract().decide(&event, now()), contract().check(&event.to_json(), now()));
    assert!(!format!("{event:?}").contains("o1"), "arguments are the caller's");
    for change in [
        |event: &mut Event| event.tool_name.clear(),
        |event: &mut Event| event.evidence[0].source_id = " ".into(),
        |event: &mut Event| event.evidence[0].provenance.clear(),
    ] {
        event = own_event();
        change(&mut event);
        let decision = contract().decide(&event, now());
        assert_eq!(decision.route(), Route::Refuse);
        assert_eq!(decision, contract().check(&event.to_json(), now()));
    }
}

#[test]
fn another_gates_answer_is_read_with_distrust() {
    let event = own_event();
    let answer = contract().decide(&event, now());
    assert!(Decision::of_remote(&event, &answer.to_json()).executes());
    assert!(Decision::of_remote(&event, &answer.summary_json()).executes());
    let asks = json!({ "route": "ask", "hard_blockers": ["x_missing"], "gate_decision": "fail" });
    let decision = Decision::of_remote(&event, &asks);
    assert_eq!((decision.route(), told(&decision).1), (Route::Ask, vec!["x_missing"]));
    for answer in [
        json!(null),
        json!({}),
        json!({ "route": "maybe" }),
        json!({ "route": 1 }),
        json!({ "route": "accept" }),
        json!({ "route": "accept", "gate_decision": "fail" }),
        json!({ "route": "accept", "gate_decision": "pass", "recommended_action": "ask" }),
        json!({ "route": "accept", "gate_decision": "pass", "hard_blockers": "none" }),
        json!({ "route": "accept", "gate_decision": "pass", "hard_blockers": ["x".repeat(1000)] }),
        json!({ "route": "accept", "gate_decision": "pass", "validation_errors": [{}] }),
    ] {
        let decision = Decision::of_remote(&event, &answer);
        assert_eq!(told(&decision).1, ["runtime_precheck_failed"], "{answer}");
        assert_eq!(decision.route(), Route::Refuse);
    }
    assert_eq!(told(&Decision::unavailable(&event, "timeout")).2, ["fail_closed_runtime_safety", "timeout"]);
}

/// G8: of two gates the stricter one wins, in either order.
#[test]
fn two_gates_agree_on_the_stricter_route() {
    let event = own_event();
    let own = || contract().decide(&event, now());
    let other = |route: &str, blockers: Value| {
        Decision::of_remote(&event, &json!({ "route": route, "hard_blockers": blockers, "gate_decision": "fail" }))
    };
    let both = own().stricter(other("defer", json!(["contradictory_evidence"])));
    assert_eq!((both.route(), told(&both).1), (Route::Defer, vec!["contradictory_evidence"]));
    assert!(!own().stricter(other("accept", json!(["blocker"]))).executes(), "a blocker alone is enough");
    assert!(!own().stricter(Decision::unavailable(&event, "timeout")).executes());
    let refused = other("refuse", json!(["runtime_refusal"])).stricter(own());
    assert_eq!(refused.route(), Route::Refuse);
}

/// G5, G answer 9: a stored record has hashes of canonical JSON in place of values.
#[test]
fn a_stored_record_has_hashes_for_values() {
    let mut event = event("write", "none", &[with(evidence("approval"), "source_id", json!("customer_12345678ab"))]);
    event["proposed_arguments"] = json!({ "b": "VALUE", "a": 1.0 });
    let decision = contract().check(&event, now());
    let meta = AuditMeta {
        created_at: now(),
        surface: "http",
        route: "/pre-tool-check",
        latency_ms: Some(0.12345),
        mode: Mode::Shadow,
    };
    let record = stored_record(&contract().normalized(&event), &decision, &meta);
    let text = record.to_string();
    assert!(!text.contains("VALUE") && !text.contains("customer_1"), "{text}");
    assert_eq!(record["created_at"], "2026-11-20T12:00:00+00:00");
    assert_eq!(record["latency_ms"], json!(0.123));
    assert_eq!(record["human_review_route"]["route"], "human_verification_review");
    assert_eq!(record["human_review_queue"]["priority"], "standard", "nothing blocks but the missing declaration");
    assert_eq!(record["execution_mode"], "shadow");
    let arguments = &record["input_fingerprints"]["proposed_arguments"];
    assert_eq!(arguments["length"], r#"{"a":1,"b":"VALUE"}"#.len());
    assert_eq!(arguments["sha256"].as_str().unwrap().len(), 64);
}

/// G17: the tool, and what becomes of a call of it.
#[test]
fn mcp_messages_are_answered() {
    let answer = |message: Value| mcp::answer(&contract(), &message, now()).message;
    let list = answer(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).unwrap();
    let tool = &list["result"]["tools"][0];
    assert_eq!(tool["name"], "aana_pre_tool_check");
    assert_eq!(tool["inputSchema"]["required"], json!(REQUIRED));
    assert_eq!(tool["inputSchema"]["additionalProperties"], false);
    let call = |arguments: Value| {
        let params = json!({ "name": mcp::TOOL, "arguments": arguments });
        answer(json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": params })).unwrap()
    };
    let accepted = call(event("public_read", "none", &[]));
    assert_eq!(accepted["id"], "x");
    assert_eq!(accepted["result"]["content"][0]["text"], "AANA route: accept. Execution allowed: true.");
    assert_eq!(accepted["result"]["structuredContent"]["hard_blockers"], json!([]));
    assert_eq!(accepted["result"]["_meta"]["aana_decision"]["route"], "accept");
    assert_eq!(call(json!({}))["result"]["structuredContent"]["route"], "refuse");
    for (message, id) in [
        (json!({ "id": 1, "method": "tools/call", "params": { "name": "other" } }), json!(1)),
        (json!({ "id": 2, "method": "nonsense" }), json!(2)),
        (json!({ "id": 3 }), json!(3)),
        (json!([]), json!(null)),
    ] {
        let refused = answer(message).unwrap();
        assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32000), &id));
    }
    assert_eq!(answer(json!({ "method": "notifications/initialized" })), None);
    assert_eq!(answer(json!({ "id": 1, "result": {} })), None);
}

/// G4: what a mere id is summed up as is read by every rule that reads summaries, and moves none of them.
#[test]
fn the_summary_of_a_mere_id_changes_no_decision() {
    // Ids over whose end a pattern could reach into the summary, and ids that are found by themselves.
    let ids = ["draft:1", "token:", "password =", "user", "explicitly", "opening", "missing", "555", "policy.allowed"];
    let structured = |id: &str| {
        json!({
            "source_id": id, "kind": "other", "trust_tier": "runtime", "redaction_status": "redacted",
            "provenance": "runtime_quickstart", "freshness": { "status": "fresh", "source": "runtime_quickstart" },
        })
    };
    let categories = Category::LABELS.iter().flat_map(|category| AuthState::LABELS.iter().map(move |s| (category, s)));
    for (category, state) in categories {
        for (id, tool) in ids.iter().flat_map(|id| ["do_it", "get_order", "send_email"].map(|tool| (id, tool))) {
            let event = |item| with(event(category, state, &[item]), "tool_name", json!(tool));
            let (mere, bare) = (event(json!(id)), event(structured(id)));
            for gate in [contract(), reference()] {
                assert_eq!(gate.check(&mere, now()).to_json(), gate.check(&bare, now()).to_json(), "{mere}");
                let strict = |event| gate.gate(event, now()).to_json();
                assert_eq!(strict(&mere), strict(&bare), "strictly: {mere}");
            }
        }
    }
}
