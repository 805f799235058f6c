//! The rules one by one: route, blockers and reasons, in order. All in the reference's reading, which the
//! stricter one shares but for what raises a state.

use super::*;

/// Route, blockers and reasons without the warnings.
fn decide(event: &Value) -> (Route, Vec<String>, Vec<String>) {
    let decision = reference().check(event, now());
    let (route, blockers, reasons) = told(&decision);
    let own = |codes: Vec<&str>| -> Vec<String> {
        codes.into_iter().filter(|code| !code.starts_with("evidence_warning:")).map(str::to_owned).collect()
    };
    (route, own(blockers), own(reasons))
}

fn assert_decision(event: &Value, route: Route, blockers: &[&str], reasons: &[&str]) {
    let own = |codes: &[&str]| codes.iter().map(|code| (*code).to_owned()).collect::<Vec<_>>();
    assert_eq!(decide(event), (route, own(blockers), own(reasons)), "{event}");
}

fn named(event: Value, name: &str) -> Value {
    with(event, "tool_name", json!(name))
}

/// G answer 2: a declared state is lowered to what the evidence supports.
#[test]
fn a_declared_state_beyond_its_evidence_counts_as_what_the_evidence_supports() {
    let event = event("private_read", "validated", &[evidence("user_message")]);
    assert_decision(
        &event,
        Route::Ask,
        &["authorization_state_not_supported_by_evidence", "private_read_not_authenticated"],
        &["authorization_state_downgraded_to_evidence_supported_state", "private_read_needs_verified_authentication"],
    );
    let report = reference().check(&event, now()).verdict().unwrap().authorization;
    assert_eq!(
        report.to_json(),
        json!({
            "declared_state": "validated", "evidence_supported_state": "user_claimed",
            "effective_state": "user_claimed", "support": ["user_claimed"], "downgraded": true,
        })
    );
}

#[test]
fn evidence_of_nothing_leaves_a_claim() {
    let event = event("private_read", "confirmed", &[evidence("other")]);
    let report = reference().check(&event, now()).verdict().unwrap().authorization;
    assert_eq!((report.supported, report.effective), (AuthState::None, AuthState::UserClaimed));
}

#[test]
fn without_evidence_nothing_is_downgraded_but_evidence_is_missing() {
    assert_decision(
        &event("private_read", "authenticated", &[]),
        Route::Defer,
        &["missing_evidence_refs"],
        &["private_read_has_authenticated_context", "missing_evidence_refs_for_consequential_tool"],
    );
}

#[test]
fn a_state_that_nobody_declared_is_taken_from_the_evidence() {
    assert_decision(
        &event("private_read", "none", &[evidence("auth_event")]),
        Route::Ask,
        &[],
        // Softened to `ask`, since what was declared does not carry `accept`.
        &["private_read_has_authenticated_context", "runtime_recommended_stricter_route:ask"],
    );
}

/// G11, G12: a private read goes by the state, from authenticated on.
#[test]
fn reads_go_by_the_state() {
    let with_refs = |state, kind| event("private_read", state, &[evidence(kind)]);
    assert_decision(
        &event("public_read", "none", &[]),
        Route::Accept,
        &[],
        &["public_read_allowed_without_identity_auth"],
    );
    assert_decision(
        &with_refs("authenticated", "auth_event"),
        Route::Accept,
        &[],
        &["private_read_has_authenticated_context"],
    );
    assert_decision(
        &with_refs("user_claimed", "user_message"),
        Route::Ask,
        &["private_read_not_authenticated"],
        &["private_read_needs_verified_authentication"],
    );
    assert_decision(
        &with_refs("none", "other"),
        Route::Defer,
        &["private_read_not_authenticated"],
        &["private_read_missing_authorization_context"],
    );
}

/// G11, G12: a write goes by the state: validated still asks, confirmed runs.
#[test]
fn writes_go_by_the_state() {
    let validation = with(evidence("tool_result"), "summary", json!("ownership checked"));
    assert_decision(
        &event("write", "confirmed", &[evidence("approval")]),
        Route::Accept,
        &[],
        &["write_has_explicit_confirmation"],
    );
    assert_decision(
        &event("write", "validated", &[validation]),
        Route::Ask,
        &["write_missing_explicit_confirmation"],
        &["write_validated_but_needs_explicit_confirmation"],
    );
    assert_decision(
        &event("write", "authenticated", &[evidence("auth_event")]),
        Route::Ask,
        &["write_missing_validation_or_confirmation"],
        &["write_needs_validation_and_confirmation"],
    );
    assert_decision(
        &event("write", "none", &[evidence("other")]),
        Route::Defer,
        &["write_missing_authorization"],
        &["write_missing_authorization_context"],
    );
}

/// G12, G19: a write that can do harm runs on a confirmation alone.
#[test]
fn writes_of_high_risk_need_a_confirmation() {
    let high = ["high_risk_write_missing_explicit_confirmation", "write_missing_explicit_confirmation"];
    let and_validation = [high[0], high[1], "write_missing_validation_or_confirmation"];
    let reason = ["high_risk_write_requires_explicit_confirmation"];
    let validation = with(evidence("policy"), "summary", json!("allowed"));
    let pay = |state, item: Value| named(event("write", state, &[item]), "pay_bill");
    assert_decision(&pay("validated", validation), Route::Ask, &high, &reason);
    assert_decision(&pay("authenticated", evidence("auth_event")), Route::Ask, &and_validation, &reason);
    assert_decision(&pay("none", evidence("other")), Route::Defer, &high, &reason);
    assert_decision(&pay("confirmed", evidence("approval")), Route::Accept, &[], &["write_has_explicit_confirmation"]);
}

#[test]
fn risk_is_in_the_name_or_in_the_domain() {
    let is_high = |name: &str, domain: &str| {
        let event = named(event("write", "authenticated", &[evidence("auth_event")]), name);
        decide(&with(event, "risk_domain", json!(domain))).1.len() == 3
    };
    for name in ["delete_x", "DeployIt", "grant", "pay", "re_purchase", "reset", "revoke", "resend", "transfer"] {
        assert!(is_high(name, "commerce"), "{name}");
    }
    // Anywhere in the name.
    assert!(is_high("display_payload", "commerce") && is_high("preset_volume", "commerce"));
    for domain in RiskDomain::ALL {
        use RiskDomain::{Devops, Finance, Healthcare, Legal, Pharma, Security};
        let risky = matches!(domain, Finance | Devops | Security | Legal | Pharma | Healthcare);
        assert_eq!(is_high("hang_up", domain.label()), risky, "{domain}");
    }
}

/// G19: a tool that nobody has classified does not run.
#[test]
fn an_unknown_category_is_for_review() {
    assert_decision(
        &event("unknown", "confirmed", &[evidence("approval")]),
        Route::Defer,
        &["unknown_tool_category"],
        &["unknown_tool_category_requires_review"],
    );
}

fn is_identity_bound(name: &str, arguments: Value, intent: &str) -> bool {
    let event = named(event("public_read", "authenticated", &[evidence("auth_event")]), name);
    let event = with(with(event, "proposed_arguments", arguments), "user_intent", json!(intent));
    let (route, blockers, reasons) = decide(&event);
    assert_eq!(route, Route::Accept);
    match blockers.as_slice() {
        [] => false,
        blockers => {
            assert_eq!(blockers, ["public_read_identity_bound_misclassified"]);
            assert_eq!(reasons[0], "public_read_reclassified_identity_bound_private_read");
            assert_eq!(reasons[1], "private_read_has_authenticated_context");
            true
        }
    }
}

/// G19: a public read counts as public only if nothing of it is about somebody.
#[test]
fn a_public_read_about_somebody_is_a_private_one() {
    let none = || json!({});
    assert!(is_identity_bound("get_profile", none(), ""));
    assert!(is_identity_bound("GetUserName", none(), ""));
    assert!(!is_identity_bound("get_weather", none(), ""));
    for key in ["account_id", "email", "phone", "address", "user_id", "payroll_id"] {
        assert!(is_identity_bound("search_public", json!({ (key): "x" }), "find"), "{key}");
    }
    assert!(!is_identity_bound("get_weather", json!({ "Account_id": 1, "emails": 1 }), ""), "exact case, whole key");
    for word in ["search", "find", "list", "lookup", "catalog", "availability", "opening hours", "public"] {
        assert!(!is_identity_bound("get_order", none(), &format!("a {word}!")), "{word}");
    }
    assert!(is_identity_bound("get_order", none(), "republic, listing"), "whole words only");
    assert!(!is_identity_bound("get_order", json!({ "q": { "deep": ["Public"] } }), ""), "arguments count as words");
    assert!(!is_identity_bound("order-list", none(), "") && !is_identity_bound("search.users", none(), ""));
    assert!(!is_identity_bound("order_search", none(), ""), "a word of the name");
    assert!(is_identity_bound("order_listing", none(), ""));
}

#[test]
fn evidence_may_say_that_authorization_is_missing() {
    let state = |summary: &str| with(evidence("system_state"), "summary", json!(summary));
    for item in [
        with(evidence("other"), "source_id", json!("counterfactual.missing_authorization.7")),
        state("This is Missing Authorization."),
        state("The stressor removes verified authorization."),
    ] {
        assert_decision(
            &event("public_read", "none", &[item]),
            Route::Defer,
            &["evidence_missing_authorization"],
            &["public_read_allowed_without_identity_auth", "evidence_declares_missing_authorization"],
        );
    }
    let elsewhere = with(evidence("policy"), "summary", json!("missing authorization"));
    assert_eq!(decide(&event("public_read", "none", &[elsewhere])).0, Route::Accept);
}

#[test]
fn leaks_refuse_and_bad_times_defer() {
    let summary = |text: &str| with(evidence("approval"), "summary", json!(text));
    let public = |text: &str| with(summary(text), "redaction_status", json!("public"));
    for (item, route, blocker) in [
        (summary("password: hunter2hunter2"), Route::Refuse, "evidence_secret_leak"),
        (public("a@b.example"), Route::Refuse, "evidence_pii_leak"),
        (with(evidence("approval"), "redaction_status", json!("sensitive")), Route::Refuse, "unsafe_redaction_status"),
        (with(evidence("approval"), "freshness", json!({ "status": "stale" })), Route::Defer, "stale_evidence"),
        (with(evidence("approval"), "retrieved_at", json!("yesterday")), Route::Defer, "invalid_retrieved_at"),
    ] {
        assert_decision(&event("write", "confirmed", &[item]), route, &[blocker], &["write_has_explicit_confirmation"]);
    }
    assert_eq!(
        decide(&event("write", "confirmed", &[summary("a@b.example")])).0,
        Route::Accept,
        "it says it is redacted"
    );
}

#[test]
fn contradictions_and_gaps_in_the_evidence_defer() {
    let summary = |text: &str| with(evidence("approval"), "summary", json!(text));
    let reason = "write_has_explicit_confirmation";
    for item in [summary("This CONFLICTS with the order."), with(evidence("approval"), "contradicts", json!(["c"]))] {
        assert_decision(
            &event("write", "confirmed", &[item]),
            Route::Defer,
            &["contradictory_evidence"],
            &[reason, "evidence_contradicts_action_or_claim"],
        );
    }
    assert_decision(
        &event("write", "confirmed", &[summary("The record is unavailable.")]),
        Route::Defer,
        &["evidence_marks_missing_information"],
        &[reason, "evidence_marks_missing_information"],
    );
}

#[test]
fn warnings_are_reasons_after_all_others() {
    let item = without(with(evidence("approval"), "trust_tier", json!("unknown")), "retrieved_at");
    let decision = reference().check(&event("write", "confirmed", &[item]), now());
    assert_eq!(
        told(&decision).2,
        [
            "write_has_explicit_confirmation",
            "evidence_warning:weak_trust_tier",
            "evidence_warning:missing_freshness_timestamp",
        ]
    );
    assert!(decision.executes(), "warnings do not block");
}

#[test]
fn a_runtime_that_refuses_is_believed() {
    let event = with(event("public_read", "none", &[]), "recommended_route", json!("refuse"));
    assert_decision(
        &event,
        Route::Refuse,
        &["runtime_refusal"],
        &["public_read_allowed_without_identity_auth", "runtime_recommended_stricter_route:refuse"],
    );
    let json = reference().check(&event, now()).to_json();
    assert_eq!((&json["aana_route"], &json["candidate_gate"]), (&json!("accept"), &json!("fail")));
}

#[test]
fn scores_follow_the_final_route() {
    for (route, score, form) in
        [("accept", 0.95, 1.0), ("ask", 0.72, 0.75), ("defer", 0.45, 0.75), ("refuse", 0.15, 0.75)]
    {
        let event = with(event("public_read", "none", &[]), "recommended_route", json!(route));
        let aix = &reference().check(&event, now()).to_json()["aix"];
        assert_eq!(aix["score"], json!(score));
        assert_eq!(aix["components"], json!({ "P": score, "F": form, "C": score }));
        assert_eq!(aix["decision"], route);
    }
}

/// G answer 3: a summary that says "confirmed" confirms in the reference's reading only.
#[test]
fn words_raise_a_state_in_the_reference_only() {
    let said = |kind: &str, text: &str| with(evidence(kind), "summary", json!(text));
    for (item, by_words, by_kind) in [
        (said("other", "user claimed it"), AuthState::UserClaimed, AuthState::None),
        (said("other", "was authenticated"), AuthState::Authenticated, AuthState::None),
        (said("other", "has NOT confirmed"), AuthState::Confirmed, AuthState::None),
        (said("other", "explicitly confirm it"), AuthState::Confirmed, AuthState::None),
        (said("tool_result", "verified target"), AuthState::Validated, AuthState::Validated),
        (said("tool_result", "allowed"), AuthState::None, AuthState::None),
        (said("policy", "allowed"), AuthState::Validated, AuthState::Validated),
        (said("policy", "ownership"), AuthState::None, AuthState::None),
        (evidence("user_message"), AuthState::UserClaimed, AuthState::UserClaimed),
        (evidence("auth_event"), AuthState::Authenticated, AuthState::Authenticated),
        (evidence("approval"), AuthState::Confirmed, AuthState::Confirmed),
        (with(evidence("approval"), "trust_tier", json!("unverified")), AuthState::Confirmed, AuthState::None),
        (with(evidence("approval"), "trust_tier", json!("user_claimed")), AuthState::Confirmed, AuthState::UserClaimed),
        (with(evidence("approval"), "trust_tier", json!("runtime")), AuthState::Confirmed, AuthState::Confirmed),
    ] {
        let event = event("public_read", "none", &[item]);
        let supported = |gate: Gate| gate.check(&event, now()).verdict().unwrap().authorization.supported;
        assert_eq!((supported(reference()), supported(contract())), (by_words, by_kind), "{event}");
    }
}
