//! From an event as somebody sent it to the event that is validated.
//!
//! The two entry points normalize differently. The public check fills in defaults, softens `accept` where the
//! state is too weak and refuses what it cannot read; the strict gate fills in less, and lifts the
//! state to what the evidence supports.

use super::{
    EvidenceWords, RequiredFields, Settings,
    authorization::{self, canonical},
    decide::Code,
    event::{AuthState, Category, Kind, Redaction, RiskDomain, Route, TrustTier},
    evidence::RefView,
    python::{self, repr, text, truthy, type_name},
    schema,
};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Why an event cannot be read at all.
pub(super) type Unreadable = String;

/// The summary of a mere id. The rules read summaries, so it holds none of their words, and begins with a
/// long one, for a pattern may reach over from the id (`token: …`): no decision may hang on it.
const QUICKSTART: &str = "Shorthand evidence: the calling program has named just an id.";

/// The public check's normalization.
pub(super) fn public(event: &Value) -> Result<Map<String, Value>, Unreadable> {
    let nothing = Map::new();
    let event = match event {
        Value::Object(event) => event,
        // To the reference an event that is nothing is one without fields.
        Value::Null => &nothing,
        _ => return Err("The event has to be a JSON object.".to_owned()),
    };
    let refs = || public_refs(event.get("evidence_refs").unwrap_or(&Value::Null));
    if event.get("schema_version").and_then(Value::as_str) == Some(schema::VERSION) {
        let refs = refs()?;
        let mut event = event.clone();
        event.insert("evidence_refs".to_owned(), Value::Array(refs));
        return Ok(event);
    }
    let field = |name: &str| event.get(name).unwrap_or(&Value::Null);
    let category = word("tool_category", field("tool_category"), Category::LABELS)?;
    let state = word("authorization_state", field("authorization_state"), AuthState::LABELS)?;
    let route = match event.get("recommended_route") {
        Some(route) => word("recommended_route", route, Route::LABELS)?,
        None => Route::Accept.label(),
    };
    let domain = match event.get("risk_domain") {
        Some(domain) => word("risk_domain", domain, RiskDomain::LABELS)?,
        None => RiskDomain::Unknown.label(),
    };
    let arguments = match event.get("proposed_arguments") {
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => return Err("proposed_arguments has to be an object.".to_owned()),
        None => Map::new(),
    };
    let mut normal = Map::new();
    let mut set = |name: &str, value: Value| normal.insert(name.to_owned(), value);
    set("schema_version", schema::VERSION.into());
    set("tool_name", text(field("tool_name")).into());
    set("tool_category", category.into());
    set("authorization_state", state.into());
    set("evidence_refs", Value::Array(refs()?));
    set("risk_domain", domain.into());
    set("proposed_arguments", Value::Object(arguments));
    set("recommended_route", soften(category, state, route).into());
    for name in ["request_id", "agent_id", "user_intent"] {
        if let Some(value) = event.get(name).filter(|value| truthy(value)) {
            set(name, text(value).into());
        }
    }
    if let Some(subject) = event.get("authorization_subject").filter(|subject| !subject.is_null()) {
        set("authorization_subject", dictionary(subject)?);
    }
    Ok(normal)
}

/// One of the contract's words, or why it is none.
fn word<'a>(field: &str, value: &'a Value, words: &[&str]) -> Result<&'a str, Unreadable> {
    match value {
        Value::String(word) if words.contains(&word.as_str()) => Ok(word),
        Value::Array(_) | Value::Object(_) => {
            Err(format!("{field} has to be a text; it is of type {}.", type_name(value)))
        }
        value => Err(format!("{field} knows no such word: {}.", repr(value))),
    }
}

/// A proposal that the schema would refuse becomes a question. All three are words of the contract.
fn soften<'a>(category: &str, state: &str, route: &'a str) -> &'a str {
    let parsed = (Category::parse(category), AuthState::parse(state), Route::parse(route));
    let (Some(category), Some(state), Some(proposed)) = parsed else { return route };
    let softened = softened(category, state, proposed);
    if softened == proposed { route } else { softened.label() }
}

/// What remains of a proposed route where category and state do not carry `accept`.
pub(super) fn softened(category: Category, state: AuthState, route: Route) -> Route {
    match category {
        _ if route != Route::Accept => route,
        Category::Write if !state.write_proposable() => Route::Ask,
        Category::PrivateRead if !state.private_read_allowed() => Route::Ask,
        Category::Unknown => Route::Defer,
        _ => route,
    }
}

fn public_refs(refs: &Value) -> Result<Vec<Value>, Unreadable> {
    let lone;
    let refs = match refs {
        Value::Null => return Ok(Vec::new()),
        Value::Array(refs) => refs.as_slice(),
        other => {
            lone = [other.clone()];
            lone.as_slice()
        }
    };
    let each = refs.iter().enumerate().map(|(index, item)| match item {
        Value::String(id) if python::strip(id).is_empty() => Err("An evidence id must not be blank.".to_owned()),
        Value::String(id) => Ok(quickstart(python::strip(id), true)),
        Value::Object(item) => public_ref(item),
        _ => Err(format!("Piece of evidence {} is neither an id nor an object.", index + 1)),
    });
    each.collect()
}

/// What a mere id stands for.
fn quickstart(source_id: &str, public: bool) -> Value {
    let freshness = if public {
        json!({ "status": "fresh", "source": "runtime_quickstart" })
    } else {
        json!({ "status": "fresh" })
    };
    json!({
        "source_id": source_id,
        "kind": "other",
        "trust_tier": "runtime",
        "redaction_status": "redacted",
        "summary": QUICKSTART,
        "provenance": "runtime_quickstart",
        "freshness": freshness,
    })
}

const REF_FIELDS: [&str; 12] = [
    "source_id",
    "kind",
    "trust_tier",
    "redaction_status",
    "summary",
    "retrieved_at",
    "freshness",
    "citation_url",
    "retrieval_url",
    "provenance",
    "supports",
    "contradicts",
];

fn public_ref(item: &Map<String, Value>) -> Result<Value, Unreadable> {
    if let Some(key) = item.keys().find(|key| !REF_FIELDS.contains(&key.as_str())) {
        return Err(format!("A piece of evidence has no field '{key}'."));
    }
    let source_id = match item.get("source_id") {
        None => return Err("A piece of evidence needs a source_id.".to_owned()),
        Some(Value::String(id)) if !python::strip(id).is_empty() => id,
        Some(_) => return Err("The source_id of a piece of evidence must not be blank.".to_owned()),
    };
    let kind = ref_word(item, "kind", "other", "kind of evidence", Kind::LABELS)?;
    let trust = ref_word(item, "trust_tier", "unknown", "trust_tier of evidence", TrustTier::LABELS)?;
    let redaction = ref_word(item, "redaction_status", "unknown", "redaction_status of evidence", Redaction::LABELS)?;
    let mut normal = Map::new();
    let mut set = |name: &str, value: Value| normal.insert(name.to_owned(), value);
    set("source_id", source_id.as_str().into());
    set("kind", kind.into());
    set("trust_tier", trust.into());
    set("redaction_status", redaction.into());
    for name in ["summary", "retrieved_at", "citation_url", "retrieval_url"] {
        if let Some(value) = item.get(name).filter(|value| !value.is_null()) {
            set(name, text(value).into());
        }
    }
    set(
        "provenance",
        match item.get("provenance") {
            None | Some(Value::Null) => "runtime".into(),
            Some(provenance) => text(provenance).into(),
        },
    );
    for name in ["supports", "contradicts"] {
        if let Some(value) = item.get(name).filter(|value| !value.is_null()) {
            set(name, Value::Array(list(value)?));
        }
    }
    set("freshness", public_freshness(item, trust));
    Ok(Value::Object(normal))
}

fn ref_word<'a>(
    item: &'a Map<String, Value>,
    field: &str,
    default: &'a str,
    what: &str,
    words: &[&str],
) -> Result<&'a str, Unreadable> {
    match item.get(field) {
        None => Ok(default),
        Some(Value::String(word)) if words.contains(&word.as_str()) => Ok(word),
        Some(other) => Err(format!("The {what} knows no such word: {}.", repr(other))),
    }
}

fn public_freshness(item: &Map<String, Value>, trust: &str) -> Value {
    match item.get("freshness") {
        None => json!({ "status": "unknown" }),
        Some(Value::Null) => {
            let retrieved_at = item.get("retrieved_at").filter(|value| !value.is_null());
            let vouched = matches!(trust, "verified" | "runtime") || retrieved_at.is_some_and(truthy);
            let mut freshness = json!({ "status": if vouched { "fresh" } else { "unknown" } });
            if let Some(retrieved_at) = retrieved_at.map(text).filter(|text| !text.is_empty()) {
                freshness["checked_at"] = retrieved_at.into();
            }
            freshness
        }
        Some(Value::Object(freshness)) => Value::Object(freshness.clone()),
        Some(scalar) => json!({ "status": text(scalar) }),
    }
}

/// `list(value)`: a text becomes its letters.
fn list(value: &Value) -> Result<Vec<Value>, Unreadable> {
    match value {
        Value::Array(items) => Ok(items.clone()),
        Value::String(text) => Ok(text.chars().map(|letter| letter.to_string().into()).collect()),
        Value::Object(entries) => Ok(entries.keys().map(|key| key.as_str().into()).collect()),
        other => Err(format!("A list is needed; this is of type {}.", type_name(other))),
    }
}

/// `dict(value)`: an object, or a list of pairs.
fn dictionary(value: &Value) -> Result<Value, Unreadable> {
    if let Value::Object(_) = value {
        return Ok(value.clone());
    }
    let mut entries = Map::new();
    for (index, pair) in list(value)?.iter().enumerate() {
        let pair = match pair {
            Value::Array(_) | Value::String(_) | Value::Object(_) => list(pair)?,
            _ => return Err(format!("Entry {index} of authorization_subject is no pair.")),
        };
        let [key, value] = pair.as_slice() else {
            return Err(format!("Entry {index} of authorization_subject has {} items, not two.", pair.len()));
        };
        if let Value::Array(_) | Value::Object(_) = key {
            return Err(format!("A key of authorization_subject cannot be of type {}.", type_name(key)));
        }
        entries.insert(text(key).into_owned(), value.clone());
    }
    Ok(Value::Object(entries))
}

/// The strict gate's normalization: the event to validate, and why its state was lifted.
pub(super) fn strict(mut event: Map<String, Value>, settings: &Settings) -> (Map<String, Value>, Vec<Code>) {
    let lenient = settings.required_fields == RequiredFields::Reference;
    let mut reasons = Vec::new();
    if (lenient || event.contains_key("authorization_state"))
        && let Some((state, reason)) = lift(&event, settings.evidence_words)
    {
        event.insert("authorization_state".to_owned(), state.label().into());
        reasons.push(Cow::Borrowed(reason));
    }
    let refs = match event.get_mut("evidence_refs").map(Value::take) {
        Some(Value::Array(refs)) => Value::Array(refs.into_iter().map(strict_ref).collect()),
        // The reference walks over whatever can be walked over; nothing at all is an empty list.
        Some(Value::String(text)) if lenient => {
            Value::Array(text.chars().map(|letter| quickstart(&letter.to_string(), false)).collect())
        }
        Some(Value::Object(entries)) if lenient => {
            Value::Array(entries.keys().map(|key| quickstart(key, false)).collect())
        }
        Some(other) if lenient && !truthy(&other) => Value::Array(Vec::new()),
        None if lenient => Value::Array(Vec::new()),
        None => return (event, reasons),
        Some(other) => other,
    };
    event.insert("evidence_refs".to_owned(), refs);
    (event, reasons)
}

/// The state to put in the place of a declared one that is too weak for the schema.
fn lift(event: &Map<String, Value>, words: EvidenceWords) -> Option<(AuthState, &'static str)> {
    let is = |name: &str, word: &str| event.get(name).and_then(Value::as_str) == Some(word);
    if !is("recommended_route", Route::Accept.label()) {
        return None;
    }
    let allowed: fn(AuthState) -> bool;
    let reason = if is("tool_category", Category::PrivateRead.label()) {
        allowed = AuthState::private_read_allowed;
        "authorization_state_lifted_from_auth_evidence_for_schema"
    } else if is("tool_category", Category::Write.label()) {
        allowed = AuthState::write_proposable;
        "authorization_state_lifted_from_write_evidence_for_schema"
    } else {
        return None;
    };
    let declared = canonical(&python::text_or_empty(event.get("authorization_state")));
    if allowed(declared) {
        return None;
    }
    let refs: Vec<RefView> =
        event.get("evidence_refs").and_then(Value::as_array).into_iter().flatten().map(RefView::of_json).collect();
    let supported = authorization::report(declared, &refs, words).supported;
    allowed(supported).then_some((supported, reason))
}

fn strict_ref(item: Value) -> Value {
    let mut item = match item {
        Value::String(source_id) => return quickstart(&source_id, false),
        Value::Object(item) => item,
        other => return other,
    };
    let trust = python::text_or_empty(item.get("trust_tier"));
    let status = if matches!(trust.as_ref(), "verified" | "runtime") { "fresh" } else { "unknown" };
    for (name, default) in
        [("kind", "other"), ("trust_tier", "unknown"), ("redaction_status", "unknown"), ("provenance", "runtime")]
    {
        item.entry(name).or_insert_with(|| default.into());
    }
    let retrieved_at = item.get("retrieved_at").filter(|value| truthy(value)).cloned();
    let freshness = item.entry("freshness").or_insert(Value::Null);
    if !freshness.is_object() {
        *freshness = Value::Object(Map::new());
    }
    if let Value::Object(freshness) = freshness {
        freshness.entry("status").or_insert_with(|| status.into());
        if let (Some(retrieved_at), false) = (retrieved_at, freshness.get("checked_at").is_some_and(truthy)) {
            freshness.insert("checked_at".to_owned(), retrieved_at);
        }
    }
    Value::Object(item)
}
