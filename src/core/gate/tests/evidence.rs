//! Each test of the evidence's integrity: code, level and place.

use super::*;

fn analyze(refs: &[Value], category: Category) -> EvidenceReport {
    super::super::analyze(refs, category, now(), Settings::EVIDENCE_AGE_MAX)
}

/// The findings on one piece of evidence for a write, as `level code path`.
fn found(item: Value) -> Vec<String> {
    let report = analyze(&[item], Category::Write);
    let level = |issue: &Issue| if issue.level == Level::Error { "error" } else { "warning" };
    report.issues.iter().map(|issue| format!("{} {} {}", level(issue), issue.code, issue.path())).collect()
}

#[test]
fn good_evidence_has_no_findings() {
    assert_eq!(found(evidence("approval")), [""; 0]);
}

#[test]
fn every_code_has_its_level_and_place() {
    let at = "$.evidence_refs[0]";
    for (item, expected) in [
        (json!("text"), vec![format!("error malformed_evidence_ref {at}")]),
        (without(evidence("a"), "kind"), vec![format!("error missing_kind {at}.kind")]),
        (with(evidence("a"), "source_id", json!("")), vec![format!("error missing_source_id {at}.source_id")]),
        (
            without(evidence("a"), "trust_tier"),
            vec![
                format!("error missing_trust_tier {at}.trust_tier"),
                format!("warning weak_trust_tier {at}.trust_tier"),
            ],
        ),
        (with(evidence("a"), "trust_tier", json!("root")), vec![format!("error invalid_trust_tier {at}.trust_tier")]),
        (
            with(evidence("a"), "redaction_status", json!("unredacted")),
            vec![format!("error unsafe_redaction_status {at}.redaction_status")],
        ),
        (
            with(evidence("a"), "redaction_status", json!("odd")),
            vec![format!("warning unknown_redaction_status {at}.redaction_status")],
        ),
        (
            without(evidence("a"), "freshness"),
            vec![
                format!("warning missing_freshness {at}.freshness"),
                format!("warning unknown_freshness {at}.freshness.status"),
            ],
        ),
        (
            with(evidence("a"), "freshness", json!({ "status": "crisp" })),
            vec![format!("error invalid_freshness {at}.freshness.status")],
        ),
        (
            without(evidence("a"), "retrieved_at"),
            vec![format!("warning missing_freshness_timestamp {at}.retrieved_at")],
        ),
        (with(evidence("a"), "retrieved_at", json!(5)), vec![format!("error invalid_retrieved_at {at}.retrieved_at")]),
        (with(evidence("a"), "provenance", json!("")), vec![format!("warning missing_provenance {at}")]),
        (
            with(evidence("a"), "summary", json!("sk-abcdefghijklmnop")),
            vec![format!("error evidence_secret_leak {at}")],
        ),
    ] {
        assert_eq!(found(item), expected);
    }
    let report = analyze(&[], Category::Unknown);
    assert_eq!(report.errors(), ["missing_evidence_refs"]);
    assert_eq!(report.issues[0].path(), "$.evidence_refs");
}

#[test]
fn what_is_both_secret_and_personal_is_reported_as_secret() {
    let item = with(evidence("a"), "summary", json!("token=abcdefgh a@b.example"));
    let codes = |redaction: &str| {
        analyze(&[with(item.clone(), "redaction_status", json!(redaction))], Category::PublicRead).errors()
    };
    assert_eq!(codes("public"), ["evidence_secret_leak"]);
    assert_eq!(codes("redacted"), ["evidence_secret_leak"], "redaction excuses people's data, not keys");
}

#[test]
fn every_scanned_field_is_scanned() {
    for field in ["source_id", "summary", "citation_url", "retrieval_url", "provenance"] {
        let item = with(evidence("a"), field, json!("AKIA0123456789ABCDEF"));
        assert_eq!(analyze(&[item], Category::PublicRead).errors(), ["evidence_secret_leak"], "{field}");
    }
}

#[test]
fn public_reads_and_unknown_tools_are_not_warned_of() {
    let poor = json!({ "source_id": "a", "kind": "other", "trust_tier": "unknown", "redaction_status": "unknown",
                       "freshness": { "status": "unknown" }, "provenance": "" });
    assert_eq!(analyze(std::slice::from_ref(&poor), Category::PublicRead).issues, []);
    assert_eq!(analyze(std::slice::from_ref(&poor), Category::Unknown).issues, []);
    assert_eq!(analyze(&[poor], Category::PrivateRead).warnings().len(), 5);
}

/// G answer 11: the clock is the caller's; a piece of evidence is stale after 168 hours.
#[test]
fn age_is_measured_at_the_given_time() {
    let stale = |time: &str| {
        analyze(&[with(evidence("a"), "retrieved_at", json!(time))], Category::Write).errors() == ["stale_evidence"]
    };
    assert!(!stale("2026-11-13T12:00:00Z"), "exactly 168 hours are not stale");
    assert!(stale("2026-11-13T11:59:59.999999Z"));
    assert!(!stale("2036-01-01"), "times to come pass");
    assert!(!stale("2026-11-13T12:00:00"), "a time without an offset is UTC");
    let checked = json!({ "status": "fresh", "checked_at": "2020-01-01" });
    let item = with(evidence("a"), "freshness", checked.clone());
    assert_eq!(found(item), [""; 0], "the time of retrieval comes first");
    let item = without(with(evidence("a"), "freshness", checked), "retrieved_at");
    assert_eq!(found(item), ["error stale_evidence $.evidence_refs[0].retrieved_at"]);
}

/// G answer 11: an operator can lower that limit, never raise it.
#[test]
fn the_age_limit_can_only_be_lowered() {
    let hour = SignedDuration::from_hours(1);
    assert_eq!(Settings::default().with_evidence_age_max(hour).evidence_age_max(), hour);
    let years = SignedDuration::from_hours(100_000);
    assert_eq!(Settings::default().with_evidence_age_max(years).evidence_age_max(), Settings::EVIDENCE_AGE_MAX);
    let event = event("write", "confirmed", &[with(evidence("approval"), "retrieved_at", json!("2026-11-20T10:00Z"))]);
    assert!(contract().check(&event, now()).executes());
    assert!(!Gate::new(Settings::default().with_evidence_age_max(hour)).check(&event, now()).executes());
}

#[test]
fn the_report_lists_ids_once_and_in_order() {
    let cited = with(evidence("b"), "citation_url", json!("https://example.com"));
    let gap = with(with(evidence("a"), "source_id", json!("")), "summary", json!("unknown, and conflicts"));
    let report = analyze(&[cited.clone(), evidence("a"), gap, cited], Category::Write);
    assert_eq!(report.used, ["b.1", "a.1"]);
    assert_eq!(report.missing, ["evidence_ref:3"]);
    assert_eq!(report.contradictory, ["evidence_ref:3"]);
    assert_eq!(report.cited, ["b.1"]);
    assert_eq!(report.with_provenance, ["b.1", "a.1", "evidence_ref:3"]);
    let json = report.to_json();
    assert_eq!(json["checked_ref_count"], 4);
    assert_eq!(json["error_codes"], json!(["missing_source_id"]));
    assert_eq!((&json["has_errors"], &json["has_warnings"]), (&json!(true), &json!(false)));
    assert_eq!(json["issues"][0]["message"], "The source_id is empty.");
}
