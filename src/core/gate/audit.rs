//! What may be kept of a decision: ids and keys that look like secrets are replaced, values are hashed.

use super::{
    answer::{Decision, Mode},
    event::Route,
    python::{self, text_or_empty, truthy},
    schema::VERSION,
};
use crate::redact::holds_identity_number;
use jiff::Timestamp;
use regex::Regex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::{fmt::Write as _, sync::LazyLock};

const REDACTED_KEY: &str = "[redacted_sensitive_key]";
/// What stands for a piece of evidence without a usable id, before its number from 1.
pub(super) const REFS_FALLBACK: &str = "evidence_ref";

/// The names of arguments, sorted, each once, secret ones as one word.
pub fn argument_keys(arguments: Option<&Map<String, Value>>) -> Vec<String> {
    const SECRET: [&str; 11] = [
        "api_key",
        "apikey",
        "auth_token",
        "bearer_token",
        "client_secret",
        "password",
        "private_account_id",
        "raw_token",
        "secret",
        "session_token",
        "token",
    ];
    let redact = |key: &String| {
        let plain = python::strip(key).to_lowercase().replace('-', "_");
        let secret = SECRET.iter().any(|marker| plain.contains(marker)) || holds_identity_number(key);
        if secret { REDACTED_KEY.to_owned() } else { key.clone() }
    };
    let mut keys: Vec<String> = arguments.into_iter().flat_map(Map::keys).map(redact).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// An id that may be logged; `index` counts from 0.
pub(super) fn safe_id(id: &str, fallback: &str, index: usize) -> String {
    const SECRET: [&str; 11] =
        ["bearer ", "api_key", "token", "secret", "password", "sk_", "sk-or_", "sk-proj_", "hf_", "ghp_", "github_pat"];
    let id = python::strip(id);
    let fallback = || format!("{fallback}:{}", index + 1);
    if id.is_empty() {
        return fallback();
    }
    let lowered = id.to_lowercase();
    if SECRET.iter().any(|marker| lowered.contains(marker)) || holds_identity_number(id) {
        return hashed(id, &fallback());
    }
    id.to_owned()
}

fn hashed(id: &str, fallback: &str) -> String {
    let digest = sha256(id.as_bytes());
    format!("{fallback}:sha256:{}", digest.get(..16).unwrap_or_default())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        // A String takes whatever is written to it.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The ids of an event's evidence. An event that is none of this contract's may have its evidence elsewhere.
pub(super) fn evidence_ids(event: &Map<String, Value>) -> Vec<String> {
    let first = |item: &Map<String, Value>, names: &[&str]| {
        let value = names.iter().filter_map(|name| item.get(*name)).find(|value| truthy(value));
        text_or_empty(value).into_owned()
    };
    if let Some(refs) = event.get("evidence_refs").and_then(Value::as_array) {
        let each = refs.iter().enumerate().filter_map(|(index, item)| Some((index, item.as_object()?)));
        return each
            .map(|(index, item)| safe_id(&first(item, &["source_id", "id", "kind"]), REFS_FALLBACK, index))
            .collect();
    }
    let evidence = ["available_evidence", "evidence"].into_iter().filter_map(|name| event.get(name));
    match evidence.into_iter().find(|evidence| truthy(evidence)) {
        Some(Value::String(text)) if !python::strip(text).is_empty() => vec!["evidence:1".to_owned()],
        Some(Value::Array(items)) => items
            .iter()
            .enumerate()
            .filter_map(|(index, item)| match item {
                Value::Object(item) => Some(safe_id(&first(item, &["source_id", "raw_record_id"]), "evidence", index)),
                Value::String(text) if !python::strip(text).is_empty() => Some(format!("evidence:{}", index + 1)),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Milliseconds with three decimals.
pub(super) fn rounded(latency_ms: Option<f64>) -> Option<f64> {
    latency_ms.filter(|latency| *latency >= 0.0).map(|latency| (latency * 1_000.0).round() / 1_000.0)
}

/// What a stored record says beside the decision.
#[derive(Debug, Clone, Copy)]
pub struct AuditMeta<'a> {
    pub created_at: Timestamp,
    /// Which service was asked: `http`, `mcp`.
    pub surface: &'a str,
    /// The path or tool that was asked.
    pub route: &'a str,
    pub latency_ms: Option<f64>,
    pub mode: Mode,
}

/// Names that no stored record shows.
static SECRET_NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(^|_)(api[_-]?key|auth[_-]?token|bearer[_-]?token|client[_-]?secret|password|private[_-]?account[_-]?id|raw[_-]?token|secret|session[_-]?token)($|_)",
    )
    .ok()
});

/// Values that no stored record shows: tokens, keys, assignments of either, account numbers.
static SECRET_VALUE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let patterns = [
        r"(?i:\bbearer\s+[A-Za-z0-9._~+/=-]{8,})",
        r"\b(?:sk|sk-or|sk-proj|hf|ghp|github_pat)_[A-Za-z0-9][A-Za-z0-9._-]{12,}",
        r"(?i:\b(?:api[_-]?key|token|secret|password)\s*[:=]\s*[^,\s}]{8,})",
        r"\b(?:acct|account|customer|user|card|payment)_[A-Za-z0-9]{8,}\b",
    ];
    Regex::new(&patterns.join("|")).ok()
});

/// An id for a stored record, which is kept longer and read by more people than an answer.
fn storable(id: String, index: usize) -> String {
    // Without its pattern nothing would be known to be safe.
    let secret = |pattern: &Option<Regex>| pattern.as_ref().is_none_or(|pattern| pattern.is_match(&id));
    if secret(&SECRET_NAME) || secret(&SECRET_VALUE) {
        return hashed(&id, &format!("{REFS_FALLBACK}:{}", index + 1));
    }
    id
}

/// The record of a decision as it is stored, one line of JSON. `event` is the normalized event; of its
/// values only hashes are kept.
pub fn stored_record(event: &Value, decision: &Decision, meta: &AuditMeta) -> Value {
    let subject = decision.subject();
    let (gate, candidate) = decision.gates();
    let (review, queue) = human_review(decision);
    let mut ids: Vec<String> = Vec::new();
    for (index, id) in subject.used.iter().enumerate() {
        let id = storable(id.clone(), index);
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let refs = event.get("evidence_refs").and_then(Value::as_array);
    let refs: Vec<Value> = refs.into_iter().flatten().map(fingerprint).collect();
    let fingerprint_of = |name: &str| event.get(name).filter(|value| !value.is_null()).map(fingerprint);
    let mut record = json!({
        "audit_record_version": "0.1",
        "created_at": meta.created_at.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string(),
        "record_type": "tool_precheck",
        "surface": meta.surface,
        "route": meta.route,
        "contract_version": VERSION,
        "tool_name": subject.tool_name,
        "tool_category": subject.tool_category,
        "risk_domain": subject.risk_domain,
        "adapter_version": null,
        "gate_decision": gate,
        "recommended_action": decision.route().label(),
        "candidate_gate": candidate,
        "aix": decision.aix_summary(),
        "hard_blockers": decision.hard_blockers(),
        "missing_evidence": stored_missing(decision),
        "authorization_state": subject.authorization_state,
        "violation_count": 0,
        "violation_codes": [],
        "violation_severities": {},
        "evidence_source_ids": ids,
        "proposed_argument_keys": subject.argument_keys,
        "latency_ms": rounded(meta.latency_ms),
        "connector_failures": [],
        "evidence_freshness_failures": [],
        "human_review_route": review,
        "human_review_queue": queue,
        "input_fingerprints": {
            "evidence_refs": refs,
            "tool_name": fingerprint_of("tool_name"),
            "proposed_arguments": fingerprint_of("proposed_arguments"),
        },
        "audit_safe_log_event": decision.audit_event_after(meta.latency_ms),
        "execution_mode": meta.mode.label(),
    });
    record["audit_safe_log_event"]["evidence_refs"]["used"] = record["evidence_source_ids"].clone();
    if meta.mode == Mode::Shadow {
        record["shadow_observation"] = decision.shadow_json();
    }
    record
}

/// Wider than an answer's list, and sorted.
fn stored_missing(decision: &Decision) -> Vec<&str> {
    const MARKERS: [&str; 6] = ["missing", "evidence", "authorization", "source", "citation", "approval"];
    let blockers = decision.hard_blockers().iter().map(AsRef::as_ref);
    let mut missing: Vec<&str> =
        blockers.filter(|blocker: &&str| MARKERS.iter().any(|marker| blocker.contains(marker))).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// Who has to look at a decision: the route alone, and with its queue.
fn human_review(decision: &Decision) -> (Value, Value) {
    let blocked = !decision.hard_blockers().is_empty();
    let action = decision.route();
    let (route, required, reason) = match action {
        Route::Accept if blocked => ("hard_blocker_review", true, "aix_hard_blocker".to_owned()),
        Route::Accept => ("none", false, "recommended_action:accept".to_owned()),
        Route::Ask => ("human_verification_review", true, "recommended_action:ask".to_owned()),
        Route::Defer => ("human_review_queue", true, "recommended_action:defer".to_owned()),
        Route::Refuse => ("blocked_action_review", true, "recommended_action:refuse".to_owned()),
    };
    let mut triggers = Vec::new();
    if blocked {
        triggers.push("aix_hard_blocker");
    }
    if action == Route::Defer {
        triggers.push("recommended_action_defer");
    }
    let priority = match (required, triggers.is_empty()) {
        (false, _) => "none",
        (true, true) => "standard",
        (true, false) => "critical",
    };
    let queue = json!({
        "required": required,
        "queue": if required { "support_human_review" } else { "none" },
        "route": route,
        "priority": priority,
        "triggers": triggers,
        "reason": reason,
    });
    (json!({ "required": required, "route": route, "reason": reason }), queue)
}

/// Hash and length, in characters, of a value: a text as it is, anything else as canonical JSON.
fn fingerprint(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        value => canonical_json(value),
    };
    json!({ "sha256": sha256(text.as_bytes()), "length": text.chars().count() })
}

/// Keys sorted, no space, numbers as JavaScript prints them.
fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            let entries = entries
                .into_iter()
                .map(|(key, item)| format!("{}:{}", Value::from(key.as_str()), canonical_json(item)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical_json).collect::<Vec<_>>().join(","))
        }
        Value::Number(number) if number.is_f64() => {
            ryu_js::Buffer::new().format(number.as_f64().unwrap_or_default()).to_owned()
        }
        other => other.to_string(),
    }
}
