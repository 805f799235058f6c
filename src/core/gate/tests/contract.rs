//! What the contract itself says, line by line.

use super::*;

fn published() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

fn cases() -> Vec<Value> {
    let text = include_str!("../../../../tests/fixtures/contract/agent_action_contract_v1.cases.json");
    let cases: Value = serde_json::from_str(text).unwrap();
    cases["cases"].as_array().unwrap().clone()
}

/// G14: the published schema by its id, and the six published cases, in either reading.
#[test]
fn the_published_cases_get_their_published_routes() {
    assert_eq!(published()["$id"], "https://aana.dev/schemas/agent_action_contract_v1.schema.json");
    assert_eq!(cases().len(), 6);
    for case in cases() {
        for gate in [contract(), reference()] {
            for decision in [gate.check(&case["event"], now()), gate.gate(&case["event"], now())] {
                assert_eq!(decision.route().label(), case["expected_route"], "{}", case["name"]);
                assert_eq!(decision.executes(), case["expected_route"] == "accept", "{}", case["name"]);
            }
        }
    }
}

/// G13: the documented outcomes.
#[test]
fn the_documented_outcomes_hold() {
    let send = json!({
        "tool_name": "send_email", "tool_category": "write", "authorization_state": "user_claimed",
        "evidence_refs": ["draft_id:123"], "risk_domain": "customer_support", "proposed_arguments": { "to": "redacted" },
        "recommended_route": "accept",
    });
    let delete = with(event("unknown", "none", &[]), "tool_name", json!("delete_database"));
    for (event, route) in [
        (event("public_read", "none", &[]), Route::Accept),
        (send, Route::Ask),
        (event("private_read", "none", &[]), Route::Defer),
        (with(delete, "recommended_route", json!("refuse")), Route::Refuse),
    ] {
        for gate in [contract(), reference()] {
            assert_eq!(gate.check(&event, now()).route(), route, "{event}");
        }
    }
}

/// G1: one question with four answers, and an audit-safe event of each.
#[test]
fn every_decision_is_a_route_with_an_audit_event() {
    for state in AuthState::LABELS {
        let decision = contract().check(&event("write", state, &[evidence("approval")]), now());
        let audit = decision.audit_event();
        assert_eq!(audit["route"], decision.route().label());
        assert_eq!(audit["audit_event_version"], "aana.audit_safe_decision.v1");
        assert_eq!(audit["raw_payload_logged"], false);
    }
}

/// G2, G18: all seven fields, or a refusal.
#[test]
fn an_event_without_one_of_its_seven_fields_is_refused() {
    let whole = event("public_read", "none", &[]);
    assert!(contract().check(&whole, now()).executes());
    let order: Vec<&str> = whole.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(order, REQUIRED, "events are written in the frozen order");
    for field in REQUIRED {
        for whole in [whole.clone(), with(whole.clone(), "schema_version", json!(VERSION))] {
            let event = without(whole, field);
            for decision in [contract().check(&event, now()), contract().gate(&event, now())] {
                assert_eq!(decision.route(), Route::Refuse, "without {field}");
                assert!(!decision.executes());
            }
        }
    }
    let decision = contract().check(&without(whole, "risk_domain"), now());
    assert_eq!(told(&decision).1, ["schema_validation_failed"]);
    assert_eq!(decision.validation_errors()[0].message, "'risk_domain' is a required property");
}

/// G2, G9: the words of the contract, and no others.
#[test]
fn the_closed_words_are_those_of_the_published_schema() {
    let published = published();
    let of = |pointer: &str| published.pointer(pointer).unwrap().clone();
    for (words, pointer) in [
        (Category::LABELS, "/properties/tool_category/enum"),
        (AuthState::LABELS, "/properties/authorization_state/enum"),
        (RiskDomain::LABELS, "/properties/risk_domain/enum"),
        (Route::LABELS, "/properties/recommended_route/enum"),
        (Kind::LABELS, "/properties/evidence_refs/items/properties/kind/enum"),
        (TrustTier::LABELS, "/properties/evidence_refs/items/properties/trust_tier/enum"),
        (Redaction::LABELS, "/properties/evidence_refs/items/properties/redaction_status/enum"),
        (Freshness::LABELS, "/properties/evidence_refs/items/properties/freshness/properties/status/enum"),
    ] {
        assert_eq!(of(pointer), json!(words));
    }
    assert_eq!(AuthState::ALL.iter().map(|state| state.label()).collect::<Vec<_>>(), AuthState::LABELS);
    assert_eq!(Route::parse("revise"), None);
}

/// G3: optional fields are taken, other versions are not.
#[test]
fn the_optional_fields_are_accepted() {
    let mut event = event("public_read", "none", &[]);
    for (field, value) in [
        ("schema_version", json!(VERSION)),
        ("request_id", json!("r1")),
        ("agent_id", json!("a1")),
        ("user_intent", json!("read the weather")),
        ("authorization_subject", json!({ "subject_type": "client", "subject_ref": "opaque" })),
    ] {
        event = with(event, field, value);
        assert!(contract().check(&event, now()).executes(), "{field}");
        assert!(contract().gate(&event, now()).executes(), "{field}");
    }
}

/// G4: a mere id is evidence for a quick start; every structured field is understood.
#[test]
fn evidence_is_an_id_or_a_structure() {
    let mut full = evidence("approval");
    for (field, value) in [
        ("summary", json!("the caller said yes")),
        ("citation_url", json!("https://example.com/policy")),
        ("retrieval_url", json!("crm://case")),
        ("supports", json!(["claim.1"])),
        ("contradicts", json!([])),
    ] {
        full[field] = value;
    }
    let decision = contract().check(&event("write", "confirmed", &[full, json!("draft:1")]), now());
    assert!(decision.executes(), "{:?}", told(&decision));
    assert_eq!(decision.verdict().unwrap().evidence.used, ["approval.1", "draft:1"]);
}

/// G5: neither secrets nor arguments nor summaries get into an audit-safe event.
#[test]
fn an_audit_event_holds_names_codes_and_ids_only() {
    let mut item = evidence("approval");
    item["source_id"] = json!("token_4f9a");
    item["summary"] = json!("SUMMARY");
    let mut event = event("write", "confirmed", &[item]);
    event["proposed_arguments"] = json!({ "API-Key": "VALUE", "note": "VALUE", "a": { "b": "VALUE" } });
    let decision = contract().check(&event, now());
    let audit = decision.audit_event();
    let text = audit.to_string();
    assert!(!text.contains("VALUE") && !text.contains("SUMMARY") && !text.contains("4f9a"), "{text}");
    assert_eq!(audit["proposed_argument_keys"], json!(["[redacted_sensitive_key]", "a", "note"]));
    let id = audit["evidence_refs"]["used"][0].as_str().unwrap();
    assert!(id.starts_with("evidence_ref:1:sha256:") && id.len() == "evidence_ref:1:sha256:".len() + 16, "{id}");
    assert!(!format!("{decision:?}").contains("4f9a"));
}

/// G5, G answer 6: identity numbers in ids and keys are replaced in what is logged, without another decision.
#[test]
fn identity_numbers_are_in_no_audit_event() {
    let with_id = |id: &str, key: &str| {
        let mut event = event("write", "confirmed", &[with(evidence("approval"), "source_id", json!(id))]);
        event["proposed_arguments"] = json!({ key: 1 });
        contract().check(&event, now())
    };
    let plain = with_id("approval.1", "note");
    for number in ["pan_ABCDE1234F", "ABCDE1234F"] {
        let decision = with_id(number, number);
        assert_eq!(told(&decision), told(&plain));
        let audit = decision.audit_event();
        assert!(!audit.to_string().contains("ABCDE1234F"), "{audit}");
        assert_eq!(audit["proposed_argument_keys"], json!(["[redacted_sensitive_key]"]));
    }
    let keyed = with_id("approval.1", "1234 5678 9012");
    assert_eq!(
        (told(&keyed), ["5678 9012", "56789012"].map(|part| keyed.audit_event().to_string().contains(part))),
        (told(&plain), [false; 2])
    );
}

/// G6, G10: nothing but `accept` with a passed gate and no blocker executes.
#[test]
fn only_an_accept_without_blockers_executes() {
    let good = event("write", "confirmed", &[evidence("approval")]);
    assert!(contract().check(&good, now()).executes());
    for route in ["ask", "defer", "refuse"] {
        let decision = contract().check(&with(good.clone(), "recommended_route", json!(route)), now());
        assert_eq!(decision.route().label(), route);
        assert!(!decision.executes());
        assert!(!decision.recovery_suggestion().is_empty());
    }
    // Authenticated, so the route is `accept`; but the read was declared public, and that blocks.
    let mut misclassified = event("public_read", "authenticated", &[evidence("auth_event")]);
    misclassified["proposed_arguments"] = json!({ "account_id": "a" });
    let decision = contract().check(&misclassified, now());
    assert_eq!(decision.route(), Route::Accept);
    assert!(!decision.executes());
    let json = decision.to_json();
    assert_eq!((&json["recommended_action"], &json["gate_decision"]), (&json!("accept"), &json!("fail")));
    assert_eq!(json["execution_policy"]["reason"], "hard_blockers_present");
    assert_eq!(json["execution_policy"]["observed"]["hard_blocker_count"], 3);
}

/// G7: the wider envelope's routes are described, and none of them executes or can be recommended.
#[test]
fn revise_and_retrieve_are_only_described() {
    let json = contract().check(&event("public_read", "none", &[]), now()).to_json();
    let table = json["execution_policy"]["route_table"].as_object().unwrap();
    assert_eq!(table.keys().collect::<Vec<_>>(), ["accept", "revise", "retrieve", "ask", "defer", "refuse"]);
    let executing: Vec<_> = table.iter().filter(|(_, row)| row["execution_allowed"] == true).collect();
    assert_eq!(executing.len(), 1);
    for route in ["revise", "retrieve"] {
        let event = with(event("public_read", "none", &[]), "recommended_route", json!(route));
        assert_eq!(contract().check(&event, now()).route(), Route::Refuse);
    }
}

/// G8: routes are ordered, and the stricter of two wins whoever gave it.
#[test]
fn the_stricter_route_wins() {
    assert!(Route::Accept < Route::Ask && Route::Ask < Route::Defer && Route::Defer < Route::Refuse);
    for own in Route::ALL {
        for other in Route::ALL {
            assert_eq!(own.stricter(*other), other.stricter(*own));
        }
    }
    let deferred = event("private_read", "none", &[]);
    let decision = contract().check(&with(deferred, "recommended_route", json!("ask")), now());
    assert_eq!(decision.route(), Route::Defer, "the runtime cannot soften");
    let asked = event("public_read", "none", &[]);
    let decision = contract().check(&with(asked, "recommended_route", json!("ask")), now());
    assert_eq!(told(&decision).2.last(), Some(&"runtime_recommended_stricter_route:ask"));
    let verdict = decision.verdict().unwrap();
    assert_eq!((verdict.inferred, verdict.recommended), (Route::Accept, Route::Ask));
}

/// G9: what is not understood is refused.
#[test]
fn unknown_words_and_versions_fail_closed() {
    for (field, value) in [
        ("recommended_route", json!("retrieve")),
        ("tool_category", json!("delete")),
        ("authorization_state", json!("root")),
        ("risk_domain", json!("casino")),
        ("schema_version", json!("aana.agent_tool_precheck.v2")),
    ] {
        let event = with(event("public_read", "none", &[]), field, value);
        for decision in [contract().check(&event, now()), contract().gate(&event, now())] {
            assert_eq!(decision.route(), Route::Refuse, "{field}");
            assert!(!decision.validation_errors().is_empty());
        }
    }
}

/// G11, G12: the table of states. `validated` may be proposed for a write, and still does not execute.
#[test]
fn states_allow_what_the_table_says() {
    let table = [
        ("none", false, false, false),
        ("user_claimed", false, false, false),
        ("authenticated", true, false, false),
        ("validated", true, true, false),
        ("confirmed", true, true, true),
    ];
    let all = ["user_message", "auth_event", "approval"].map(evidence);
    for (state, reads, proposable, writes) in table {
        let read = contract().check(&event("private_read", state, &all), now());
        // With all the evidence there is, `none` counts as what the evidence supports; alone it does not.
        let alone = contract().check(&event("private_read", state, &all[..1]), now());
        assert_eq!(read.executes() && (state != "none"), reads, "{state}");
        assert!(!alone.executes(), "{state} without its evidence");
        let write = event("write", state, &all);
        assert_eq!(contract().check(&write, now()).executes(), writes, "{state}");
        let schema_valid = contract().validate(&with(write.clone(), "evidence_refs", json!([]))).is_empty();
        assert_eq!(schema_valid, proposable, "{state}");
    }
}

/// G15: what a program reads of a decision, and what it gets in place of the result of a blocked call.
#[test]
fn a_blocked_call_says_why() {
    let event = with(event("write", "user_claimed", &[json!("draft:1")]), "tool_name", json!("send_email"));
    let whole = contract().check(&event, now()).to_json();
    let decision = &whole["architecture_decision"];
    assert_eq!((&decision["route"], &decision["gate_decision"]), (&json!("ask"), &json!("fail")));
    let json = contract().check(&event, now()).blocked_json();
    assert_eq!(json["error_type"], "aana_tool_execution_blocked");
    assert_eq!(json["code"], "hard_blockers_present");
    assert_eq!(json["route"], "ask");
    assert_eq!(json["message"], "The call of 'send_email' was not let through (route: ask).");
    assert_eq!(json["execution_policy"]["execution_allowed"], false);
}

/// G18: fields of the answer that clients rely on.
#[test]
fn the_answer_keeps_the_fields_that_clients_read() {
    let json = contract().check(&event("public_read", "none", &[]), now()).to_json();
    assert_eq!(json["contract_version"], VERSION);
    for (pointer, value) in [
        ("/gate_decision", json!("pass")),
        ("/recommended_action", json!("accept")),
        ("/route", json!("accept")),
        ("/hard_blockers", json!([])),
        ("/aix/hard_blockers", json!([])),
        ("/aix/score", json!(0.95)),
        ("/aix/components", json!({ "P": 0.95, "F": 1.0, "C": 0.95 })),
        ("/architecture_decision/route", json!("accept")),
        ("/architecture_decision/authorization_state", json!("none")),
        ("/architecture_decision/audit_event/public_claim_allowed", json!(true)),
        ("/execution_policy/execution_allowed", json!(true)),
        ("/execution_policy/reason", json!("enforcement_accept")),
    ] {
        assert_eq!(json.pointer(pointer), Some(&value), "{pointer}");
    }
}

/// G19: weak, unredacted, old or unproved evidence is warned of, and keeps a decision from being published.
#[test]
fn poor_evidence_is_not_published() {
    for (field, value) in [
        ("redaction_status", json!("unknown")),
        ("freshness", json!({ "status": "unknown" })),
        ("freshness", json!({ "status": "stale" })),
    ] {
        let item = with(evidence("auth_event"), field, value);
        let decision = contract().check(&event("private_read", "authenticated", &[item]), now());
        assert_eq!(decision.audit_event()["public_audit_log_allowed"], false, "{field}");
    }
    let decision = contract().check(&event("private_read", "authenticated", &[evidence("auth_event")]), now());
    assert_eq!(decision.audit_event()["public_audit_log_allowed"], true);
}

/// Bad evidence counts also in an event that is refused for its form, as in the reference; nothing is published of what was not read.
#[test]
fn poor_evidence_of_an_event_that_is_refused_is_not_published() {
    let leak = with(evidence("auth_event"), "summary", json!("password: hunter2hunter2"));
    let poor = [leak, with(evidence("auth_event"), "redaction_status", json!("sensitive"))];
    for gate in [contract(), reference()] {
        let published = |item: &Value| {
            let refused = with(
                event("private_read", "authenticated", std::slice::from_ref(item)),
                "risk_domain",
                json!("no_such"),
            );
            let decision = gate.check(&refused, now());
            assert_eq!((decision.route(), decision.verdict()), (Route::Refuse, None));
            decision.audit_event()["public_audit_log_allowed"] == true
        };
        assert!(published(&evidence("auth_event")));
        assert_eq!(poor.each_ref().map(published), [false, false]);
        for (field, value) in [("risk_domain", json!(7)), ("recommended_route", json!(["accept"]))] {
            let refused = with(event("private_read", "authenticated", &poor), field, value);
            assert_eq!(gate.check(&refused, now()).audit_event()["public_audit_log_allowed"], false, "{field}");
        }
    }
    assert_eq!(Decision::unreadable("It is no JSON.").audit_event()["public_claim_allowed"], false);
}
