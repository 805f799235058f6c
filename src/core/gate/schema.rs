//! The published schema of the event, as checks: same errors, same paths, same order as a validator of
//! draft 2020-12 in Python gives. [`PUBLISHED`] is the schema itself; tests hold the two together.

use super::{
    event::{AuthState, Category, Freshness, Kind, Redaction, RiskDomain, Route, TrustTier},
    python,
};
use serde_json::{Map, Value};

/// The schema as published with the contract (see `tests/fixtures/contract/README.md`).
pub const PUBLISHED: &str = include_str!("../../../tests/fixtures/contract/agent_action_contract_v1.schema.json");

/// The only value of `schema_version`.
pub const VERSION: &str = "aana.agent_tool_precheck.v1";

/// The seven fields of an event, in their frozen order.
pub const REQUIRED: [&str; 7] = [
    "tool_name",
    "tool_category",
    "authorization_state",
    "evidence_refs",
    "risk_domain",
    "proposed_arguments",
    "recommended_route",
];

const OPTIONAL: [&str; 5] = ["schema_version", "request_id", "agent_id", "user_intent", "authorization_subject"];
const REF_REQUIRED: [&str; 6] = ["source_id", "kind", "trust_tier", "redaction_status", "freshness", "provenance"];
const REF_OPTIONAL: [&str; 6] = ["summary", "retrieved_at", "citation_url", "retrieval_url", "supports", "contradicts"];
const FRESHNESS_FIELDS: [&str; 5] = ["status", "checked_at", "max_age_hours", "age_hours", "source"];
const SUBJECT_TYPES: [&str; 9] =
    ["user", "account", "client", "employee", "student", "patient", "case", "service", "unknown"];

/// One thing wrong with an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationError {
    /// Where, joined by dots; empty for the event itself.
    pub path: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Index(usize),
    Field(&'static str),
}

#[derive(Default)]
struct Errors {
    path: Vec<Step>,
    found: Vec<(Vec<Step>, String)>,
}

impl Errors {
    fn add(&mut self, message: String) {
        self.found.push((self.path.clone(), message));
    }

    fn within(&mut self, step: Step, check: impl FnOnce(&mut Self)) {
        self.path.push(step);
        check(self);
        self.path.pop();
    }

    fn is_type(&mut self, value: &Value, holds: bool, name: &str) {
        if !holds {
            self.add(format!("{} is not of type '{name}'", python::repr(value)));
        }
    }

    fn text(&mut self, value: &Value) {
        self.is_type(value, value.is_string(), "string");
    }

    fn text_with_content(&mut self, value: &Value) {
        self.text(value);
        if value.as_str() == Some("") {
            self.add("'' should be non-empty".to_owned());
        }
    }

    fn one_of(&mut self, value: &Value, words: &[&str]) {
        if !value.as_str().is_some_and(|word| words.contains(&word)) {
            let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            self.add(format!("{} is not one of [{}]", python::repr(value), words.join(", ")));
        }
    }

    fn word(&mut self, value: &Value, words: &[&str]) {
        self.text(value);
        self.one_of(value, words);
    }

    fn texts(&mut self, value: &Value) {
        self.is_type(value, value.is_array(), "array");
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            self.within(Step::Index(index), |errors| errors.text(item));
        }
    }

    fn number(&mut self, value: &Value) {
        self.is_type(value, value.is_number(), "number");
    }

    fn only(&mut self, object: &Map<String, Value>, known: &[&[&str]]) {
        let mut others: Vec<&String> =
            object.keys().filter(|key| !known.iter().any(|names| names.contains(&key.as_str()))).collect();
        if others.is_empty() {
            return;
        }
        others.sort_unstable();
        let verb = if others.len() == 1 { "was" } else { "were" };
        let others: Vec<String> = others.into_iter().map(|key| python::repr(&Value::from(key.as_str()))).collect();
        self.add(format!("Additional properties are not allowed ({} {verb} unexpected)", others.join(", ")));
    }

    fn all_of(&mut self, object: &Map<String, Value>, required: &[&str]) {
        for field in required.iter().filter(|field| !object.contains_key(**field)) {
            self.add(format!("'{field}' is a required property"));
        }
    }

    fn sorted(mut self) -> Vec<ValidationError> {
        self.found.sort_by(|(left, _), (right, _)| left.cmp(right));
        let join = |path: Vec<Step>| {
            let steps = path.into_iter().map(|step| match step {
                Step::Index(index) => index.to_string(),
                Step::Field(name) => name.to_owned(),
            });
            steps.collect::<Vec<_>>().join(".")
        };
        self.found.into_iter().map(|(path, message)| ValidationError { path: join(path), message }).collect()
    }
}

/// Everything wrong with a normalized event, sorted by path.
pub fn validate(event: &Value) -> Vec<ValidationError> {
    let mut errors = Errors::default();
    match event.as_object() {
        Some(event) => check_event(event, &mut errors),
        None => errors.is_type(event, false, "object"),
    }
    errors.sorted()
}

fn check_event(event: &Map<String, Value>, errors: &mut Errors) {
    errors.only(event, &[&REQUIRED, &OPTIONAL]);
    errors.all_of(event, &REQUIRED);
    let mut field = |name: &'static str, check: fn(&mut Errors, &Value)| {
        if let Some(value) = event.get(name) {
            errors.within(Step::Field(name), |errors| check(errors, value));
        }
    };
    field("schema_version", |errors, value| {
        errors.text(value);
        check_version(value, errors);
    });
    field("tool_name", Errors::text_with_content);
    field("tool_category", |errors, value| errors.word(value, Category::LABELS));
    field("authorization_state", |errors, value| errors.word(value, AuthState::LABELS));
    field("evidence_refs", check_refs);
    field("risk_domain", |errors, value| errors.word(value, RiskDomain::LABELS));
    field("proposed_arguments", |errors, value| errors.is_type(value, value.is_object(), "object"));
    field("recommended_route", |errors, value| errors.word(value, Route::LABELS));
    field("request_id", Errors::text);
    field("agent_id", Errors::text);
    field("user_intent", Errors::text);
    field("authorization_subject", check_subject);
    check_conditions(event, errors);
}

fn check_version(value: &Value, errors: &mut Errors) {
    if value.as_str() != Some(VERSION) {
        errors.add(format!("'{VERSION}' was expected"));
    }
}

fn check_refs(errors: &mut Errors, value: &Value) {
    errors.is_type(value, value.is_array(), "array");
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        errors.within(Step::Index(index), |errors| match item.as_object() {
            Some(item) => check_ref(item, errors),
            None => errors.is_type(item, false, "object"),
        });
    }
}

fn check_ref(item: &Map<String, Value>, errors: &mut Errors) {
    errors.only(item, &[&REF_REQUIRED, &REF_OPTIONAL]);
    errors.all_of(item, &REF_REQUIRED);
    let mut field = |name: &'static str, check: fn(&mut Errors, &Value)| {
        if let Some(value) = item.get(name) {
            errors.within(Step::Field(name), |errors| check(errors, value));
        }
    };
    field("source_id", Errors::text_with_content);
    field("kind", |errors, value| errors.word(value, Kind::LABELS));
    field("trust_tier", |errors, value| errors.word(value, TrustTier::LABELS));
    field("redaction_status", |errors, value| errors.word(value, Redaction::LABELS));
    field("summary", Errors::text);
    field("retrieved_at", Errors::text);
    field("freshness", check_freshness);
    field("citation_url", Errors::text);
    field("retrieval_url", Errors::text);
    field("provenance", Errors::text_with_content);
    field("supports", Errors::texts);
    field("contradicts", Errors::texts);
}

fn check_freshness(errors: &mut Errors, value: &Value) {
    let Some(object) = value.as_object() else {
        errors.is_type(value, false, "object");
        return;
    };
    errors.only(object, &[&FRESHNESS_FIELDS]);
    errors.all_of(object, &["status"]);
    let mut field = |name: &'static str, check: fn(&mut Errors, &Value)| {
        if let Some(value) = object.get(name) {
            errors.within(Step::Field(name), |errors| check(errors, value));
        }
    };
    field("status", |errors, value| errors.word(value, Freshness::LABELS));
    field("checked_at", Errors::text);
    field("max_age_hours", Errors::number);
    field("age_hours", Errors::number);
    field("source", Errors::text);
}

fn check_subject(errors: &mut Errors, value: &Value) {
    let Some(object) = value.as_object() else {
        errors.is_type(value, false, "object");
        return;
    };
    errors.only(object, &[&["subject_type", "subject_ref"]]);
    if let Some(value) = object.get("subject_type") {
        errors.within(Step::Field("subject_type"), |errors| errors.word(value, &SUBJECT_TYPES));
    }
    if let Some(value) = object.get("subject_ref") {
        errors.within(Step::Field("subject_ref"), |errors| errors.text(value));
    }
}

/// What the category and the proposed route ask of the other fields.
fn check_conditions(event: &Map<String, Value>, errors: &mut Errors) {
    let is = |name: &str, word: &str| event.get(name).and_then(Value::as_str) == Some(word);
    let accepts = is("recommended_route", "accept");
    let state = event.get("authorization_state");
    let enough: &[&str] = match () {
        () if accepts && is("tool_category", "write") => &["validated", "confirmed"],
        () if accepts && is("tool_category", "private_read") => &["authenticated", "validated", "confirmed"],
        () => &[],
    };
    if let (Some(state), false) = (state, enough.is_empty()) {
        errors.within(Step::Field("authorization_state"), |errors| errors.one_of(state, enough));
    }
    if let (true, Some(route)) = (is("tool_category", "unknown"), event.get("recommended_route")) {
        errors.within(Step::Field("recommended_route"), |errors| errors.one_of(route, &["ask", "defer", "refuse"]));
    }
}

/// What the contract requires of an event as sent, where the reference fills in or coerces: all seven fields, a tool
/// name that is text, no other schema version, and lists where lists are due.
pub fn check_as_sent(event: &Map<String, Value>) -> Vec<ValidationError> {
    let mut errors = Errors::default();
    errors.all_of(event, &REQUIRED);
    if let Some(version) = event.get("schema_version") {
        errors.within(Step::Field("schema_version"), |errors| check_version(version, errors));
    }
    if let Some(name) = event.get("tool_name") {
        errors.within(Step::Field("tool_name"), |errors| errors.text_with_content(name));
    }
    let refs = event.get("evidence_refs");
    errors.within(Step::Field("evidence_refs"), |errors| match refs {
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                errors.within(Step::Index(index), |errors| check_lists(item, errors));
            }
        }
        Some(Value::Null) => errors.is_type(&Value::Null, false, "array"),
        Some(lone) => check_lists(lone, errors),
        None => {}
    });
    errors.sorted()
}

fn check_lists(item: &Value, errors: &mut Errors) {
    for name in ["supports", "contradicts"] {
        // The reference drops a null here.
        if let Some(list) = item.get(name).filter(|list| !list.is_null()) {
            errors.within(Step::Field(name), |errors| errors.texts(list));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn valid() -> Value {
        json!({
            "tool_name": "x", "tool_category": "public_read", "authorization_state": "none",
            "evidence_refs": [{
                "source_id": "a", "kind": "policy", "trust_tier": "verified", "redaction_status": "public",
                "freshness": { "status": "fresh" }, "provenance": "p"
            }],
            "risk_domain": "unknown", "proposed_arguments": {}, "recommended_route": "accept"
        })
    }

    fn errors(change: impl FnOnce(&mut Value)) -> Vec<(String, String)> {
        let mut event = valid();
        change(&mut event);
        validate(&event).into_iter().map(|error| (error.path, error.message)).collect()
    }

    #[test]
    fn errors_are_sorted_by_path_and_say_what_is_wrong() {
        let found = errors(|event| {
            event["evidence_refs"][0]["kind"] = json!(5);
            event["evidence_refs"][0]["zeta"] = json!(1);
            event["evidence_refs"][0]["alpha"] = json!(1);
            event["tool_name"] = json!("");
            event["more"] = json!(1);
            event.as_object_mut().unwrap().shift_remove("risk_domain");
        });
        let expected = [
            ("", "Additional properties are not allowed ('more' was unexpected)"),
            ("", "'risk_domain' is a required property"),
            ("evidence_refs.0", "Additional properties are not allowed ('alpha', 'zeta' were unexpected)"),
            ("evidence_refs.0.kind", "5 is not of type 'string'"),
            (
                "evidence_refs.0.kind",
                "5 is not one of ['user_message', 'assistant_message', 'tool_result', 'policy', 'auth_event', \
                 'approval', 'system_state', 'audit_record', 'other']",
            ),
            ("tool_name", "'' should be non-empty"),
        ];
        assert_eq!(found, expected.map(|(path, message)| (path.to_owned(), message.to_owned())));
    }

    /// G2: the seven fields are required, in their frozen order.
    #[test]
    fn the_required_fields_are_those_of_the_published_schema() {
        let published: Value = serde_json::from_str(PUBLISHED).unwrap();
        assert_eq!(published["required"], json!(REQUIRED));
        assert_eq!(published["x-aana-contract-freeze"]["required_field_order"], json!(REQUIRED));
        assert_eq!(published["properties"]["evidence_refs"]["items"]["required"], json!(REF_REQUIRED));
    }
}
