//! What the gate answers: a typed decision, and the same as the contract's JSON.

use super::{
    audit::{self, REFS_FALLBACK},
    decide::{Code, Draft, Verdict},
    event::{Event, Route},
    python::{repr, truthy},
    schema::{VERSION, ValidationError},
    words,
};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, fmt};

const AIX_VERSION: &str = "0.1";

/// Whether a decision binds its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Enforce,
    /// Observe only: the decision is the same, the caller goes on whatever it is.
    Shadow,
}

impl Mode {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
        }
    }
}

/// What an answer repeats of the event, without anything that must not be logged.
#[derive(Clone, PartialEq)]
pub(super) struct Subject {
    pub tool_name: Value,
    pub tool_category: Value,
    pub authorization_state: Value,
    pub risk_domain: Value,
    /// Ids of the evidence, each replaced by a hash where it looks like a secret.
    pub used: Vec<String>,
    /// Names of arguments, sorted.
    pub argument_keys: Vec<String>,
}

impl Subject {
    pub fn of_json(event: &Value) -> Self {
        event.as_object().map_or_else(|| Self::of_object(&Map::new()), Self::of_object)
    }

    pub fn of_object(event: &Map<String, Value>) -> Self {
        let field = |name: &str| event.get(name).cloned().unwrap_or(Value::Null);
        let state = event.get("authorization_state").filter(|state| truthy(state)).cloned();
        let state = match event.get("metadata").and_then(Value::as_object) {
            Some(metadata) => state.or_else(|| metadata.get("authorization_state").cloned()).unwrap_or(Value::Null),
            None => state.unwrap_or_else(|| "not_declared".into()),
        };
        Self {
            tool_name: field("tool_name"),
            tool_category: field("tool_category"),
            authorization_state: state,
            risk_domain: field("risk_domain"),
            used: audit::evidence_ids(event),
            argument_keys: audit::argument_keys(event.get("proposed_arguments").and_then(Value::as_object)),
        }
    }

    pub fn of_event(event: &Event) -> Self {
        let used = event.evidence.iter().enumerate();
        Self {
            tool_name: event.tool_name.as_str().into(),
            tool_category: event.category.label().into(),
            authorization_state: event.state.label().into(),
            risk_domain: event.domain.label().into(),
            used: used.map(|(index, item)| audit::safe_id(&item.source_id, REFS_FALLBACK, index)).collect(),
            argument_keys: audit::argument_keys(Some(&event.arguments)),
        }
    }
}

/// One decision. Only [`Decision::executes`] says whether the call may run.
#[derive(Clone, PartialEq)]
pub struct Decision {
    route: Route,
    blockers: Vec<Code>,
    reasons: Vec<Code>,
    errors: Vec<ValidationError>,
    /// There was nothing to score: the event could not be read.
    closed: bool,
    /// The answer of the public check has more fields than the strict gate's.
    public: bool,
    verdict: Option<Box<Verdict>>,
    /// The evidence does not keep the decision from being published.
    publishable: bool,
    subject: Box<Subject>,
}

/// The subject is somebody's input.
impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("route", &self.route)
            .field("hard_blockers", &self.blockers)
            .field("errors", &self.errors.len())
            .finish_non_exhaustive()
    }
}

impl Decision {
    pub(super) fn decided(public: bool, subject: Subject, draft: Draft, verdict: Verdict) -> Self {
        Self {
            route: draft.route,
            blockers: draft.blockers,
            reasons: draft.reasons,
            errors: Vec::new(),
            closed: false,
            public,
            publishable: verdict.evidence.is_publishable(),
            verdict: Some(Box::new(verdict)),
            subject: Box::new(subject),
        }
    }

    /// `publishable`: what the evidence is worth is told even where the rest of the event cannot be read.
    pub(super) fn invalid(public: bool, publishable: bool, subject: Subject, errors: Vec<ValidationError>) -> Self {
        Self {
            route: Route::Refuse,
            blockers: vec![Cow::Borrowed(words::INVALID)],
            reasons: vec![Cow::Borrowed(words::INVALID_REASON)],
            errors,
            closed: false,
            public,
            verdict: None,
            publishable,
            subject: Box::new(subject),
        }
    }

    pub(super) fn closed(subject: Subject, blocker: &'static str, message: String) -> Self {
        Self {
            route: Route::Refuse,
            blockers: vec![Cow::Borrowed(blocker)],
            reasons: vec![Cow::Borrowed(words::CLOSED_REASON), Cow::Owned(message.clone())],
            errors: vec![ValidationError { path: "event".to_owned(), message }],
            closed: true,
            public: true,
            verdict: None,
            publishable: false,
            subject: Box::new(subject),
        }
    }

    /// Evidence that was looked at says whether the decision may be published; otherwise it may not.
    pub(super) fn publishable_if(self, publishable: bool) -> Self {
        Self { publishable, ..self }
    }

    /// The refusal of what is no JSON.
    pub fn unreadable(why: &str) -> Self {
        Self::closed(Subject::of_json(&Value::Null), words::RUNTIME_FAILED, why.to_owned())
    }

    /// A route that somebody else gave, with its blockers.
    pub(super) fn foreign(subject: Subject, route: Route, blockers: Vec<Code>, reasons: Vec<Code>) -> Self {
        Self {
            route,
            blockers,
            reasons,
            errors: Vec::new(),
            closed: false,
            public: true,
            verdict: None,
            publishable: false,
            subject: Box::new(subject),
        }
    }

    /// The final route, the stricter of the rules' and the runtime's.
    pub fn route(&self) -> Route {
        self.route
    }

    pub fn hard_blockers(&self) -> &[Code] {
        &self.blockers
    }

    pub fn reasons(&self) -> &[Code] {
        &self.reasons
    }

    pub fn validation_errors(&self) -> &[ValidationError] {
        &self.errors
    }

    /// What the rules found out about a valid event.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_deref()
    }

    /// What to do now, in one sentence for whoever proposed the call.
    pub fn recovery_suggestion(&self) -> &'static str {
        words::recovery(self.route)
    }

    /// The contract's execution rule: gate passed, route `accept`, no blocker, no error.
    pub fn executes(&self) -> bool {
        self.passes() && self.errors.is_empty()
    }

    fn passes(&self) -> bool {
        self.route == Route::Accept && self.blockers.is_empty()
    }

    fn candidate_passes(&self) -> bool {
        let inferred = self.verdict.as_ref().map(|verdict| verdict.inferred);
        inferred == Some(Route::Accept) && self.blockers.is_empty()
    }

    /// The stricter of two decisions on one event: the stricter route, the blockers of both. What is reported
    /// about evidence is this one's.
    #[must_use]
    pub fn stricter(mut self, other: Self) -> Self {
        self.route = self.route.stricter(other.route);
        for (own, others) in [(&mut self.blockers, other.blockers), (&mut self.reasons, other.reasons)] {
            for code in others {
                if !own.contains(&code) {
                    own.push(code);
                }
            }
        }
        self.errors.extend(other.errors);
        self.closed |= other.closed;
        self
    }

    /// Blockers that better evidence or authorization could lift.
    pub fn missing_evidence(&self) -> Vec<&str> {
        const MARKERS: [&str; 5] = ["missing", "evidence", "authorization", "citation", "source"];
        let mut missing: Vec<&str> = Vec::new();
        for blocker in &self.blockers {
            if MARKERS.iter().any(|marker| blocker.contains(marker)) && !missing.contains(&blocker.as_ref()) {
                missing.push(blocker);
            }
        }
        missing
    }

    fn contradictory(&self) -> Vec<&str> {
        let ids = self.verdict.iter().flat_map(|verdict| &verdict.evidence.contradictory).map(String::as_str);
        let blockers = self.blockers.iter().map(Cow::as_ref).filter(|blocker| blocker.contains("contradict"));
        let mut found: Vec<&str> = Vec::new();
        for marker in ids.chain(blockers) {
            if !found.contains(&marker) {
                found.push(marker);
            }
        }
        found
    }

    /// How much the event is worth: one figure for the whole, one for its form.
    fn scores(&self) -> (f64, f64) {
        let score = match self.route {
            _ if self.closed => return (0.0, 0.0),
            Route::Accept => return (0.95, 1.0),
            Route::Ask => 0.72,
            Route::Defer => 0.45,
            Route::Refuse => 0.15,
        };
        (score, 0.75)
    }

    fn pass_or_fail(passes: bool) -> &'static str {
        if passes { "pass" } else { "fail" }
    }

    fn aix(&self) -> Value {
        let (score, form) = self.scores();
        json!({
            "aix_version": AIX_VERSION,
            "score": score,
            "components": { "P": score, "F": form, "C": score },
            "decision": self.route.label(),
            "hard_blockers": self.blockers,
        })
    }

    /// The answer of the strict gate.
    pub fn strict_json(&self) -> Value {
        let gate = Self::pass_or_fail(self.passes());
        let candidate = Self::pass_or_fail(self.candidate_passes());
        let Some(verdict) = &self.verdict else {
            let errors = self.errors.iter().map(|error| json!({ "path": error.path, "message": error.message }));
            return json!({
                "contract_version": VERSION,
                "tool_name": self.subject.tool_name,
                "gate_decision": gate,
                "recommended_action": self.route.label(),
                "candidate_gate": candidate,
                "aix": self.aix(),
                "hard_blockers": self.blockers,
                "reasons": self.reasons,
                "validation_errors": errors.collect::<Vec<_>>(),
            });
        };
        json!({
            "contract_version": VERSION,
            "tool_name": self.subject.tool_name,
            "tool_category": verdict.category.label(),
            "authorization_state": verdict.state.label(),
            "risk_domain": verdict.domain.label(),
            "gate_decision": gate,
            "recommended_action": self.route.label(),
            "candidate_gate": candidate,
            "aana_route": verdict.inferred.label(),
            "runtime_recommended_route": verdict.recommended.label(),
            "aix": self.aix(),
            "hard_blockers": self.blockers,
            "reasons": self.reasons,
            "evidence_ref_count": verdict.evidence.checked,
            "evidence_integrity": verdict.evidence.to_json(),
            "authorization_report": verdict.authorization.to_json(),
        })
    }

    /// The answer of the entry that was asked.
    pub fn to_json(&self) -> Value {
        if self.public { self.public_json(Mode::Enforce) } else { self.strict_json() }
    }

    /// The answer of the public check.
    pub fn public_json(&self, mode: Mode) -> Value {
        let mut answer = self.strict_json();
        answer["architecture_decision"] = self.architecture_json();
        answer["route"] = self.route.label().into();
        answer["execution_policy"] = self.policy_json(mode);
        if mode == Mode::Shadow {
            answer["execution_mode"] = mode.label().into();
            answer["shadow_mode"] = true.into();
            answer["shadow_observation"] = self.shadow_json();
        }
        answer
    }

    /// Category and domain as the event has them; what is empty is nothing.
    fn or_null(value: &Value) -> &Value {
        if truthy(value) { value } else { &Value::Null }
    }

    fn refs_json(&self) -> Value {
        json!({
            "used": self.subject.used,
            "missing": self.missing_evidence(),
            "contradictory": self.contradictory(),
        })
    }

    pub(super) fn architecture_json(&self) -> Value {
        let event = self.audit_event();
        json!({
            "architecture_claim": words::CLAIM,
            "route": self.route.label(),
            "gate_decision": Self::pass_or_fail(self.passes()),
            "candidate_gate": Self::pass_or_fail(self.candidate_passes()),
            "aix_score": self.scores().0,
            "aix_decision": self.route.label(),
            "hard_blockers": self.blockers,
            "missing_evidence": self.missing_evidence(),
            "evidence_refs": self.refs_json(),
            "evidence_integrity": self.verdict.as_ref().map(|verdict| verdict.evidence.to_json()),
            "authorization_state": self.subject.authorization_state,
            "authorization_report": self.verdict.as_ref().map(|verdict| verdict.authorization.to_json()),
            "tool_name": self.subject.tool_name,
            "tool_category": Self::or_null(&self.subject.tool_category),
            "risk_domain": Self::or_null(&self.subject.risk_domain),
            "recovery_suggestion": self.recovery_suggestion(),
            "correction_recovery_suggestion": self.recovery_suggestion(),
            "audit_event": event,
            "audit_safe_log_event": event,
        })
    }

    /// The audit-safe event: no argument, no summary, no secret, only names, codes and ids.
    pub fn audit_event(&self) -> Value {
        self.audit_event_after(None)
    }

    /// The same with how long the decision took, in milliseconds.
    pub fn audit_event_after(&self, latency_ms: Option<f64>) -> Value {
        json!({
            "audit_event_version": "aana.audit_safe_decision.v1",
            "route": self.route.label(),
            "gate_decision": Self::pass_or_fail(self.passes()),
            "candidate_gate": Self::pass_or_fail(self.candidate_passes()),
            "aix_score": self.scores().0,
            "aix_decision": self.route.label(),
            "hard_blockers": self.blockers,
            "missing_evidence": self.missing_evidence(),
            "evidence_refs": self.refs_json(),
            "public_audit_log_allowed": self.publishable,
            "public_claim_allowed": self.publishable,
            "authorization_state": self.subject.authorization_state,
            "authorization_report": self.verdict.as_ref().map(|verdict| verdict.authorization.to_json()),
            "tool_name": self.subject.tool_name,
            "tool_category": Self::or_null(&self.subject.tool_category),
            "risk_domain": Self::or_null(&self.subject.risk_domain),
            "proposed_argument_keys": self.subject.argument_keys,
            "latency_ms": audit::rounded(latency_ms),
            "raw_payload_logged": false,
        })
    }

    fn policy_reason(&self, mode: Mode) -> &'static str {
        match mode {
            _ if !self.errors.is_empty() => "schema_or_contract_validation_failed",
            _ if !self.blockers.is_empty() => "hard_blockers_present",
            _ if !self.executes() => "route_not_accept",
            Mode::Shadow => "shadow_mode_observe_only",
            Mode::Enforce => "enforcement_accept",
        }
    }

    pub(super) fn policy_json(&self, mode: Mode) -> Value {
        let allows = self.executes();
        let table: Map<String, Value> = words::ROUTE_TABLE
            .iter()
            .map(|(route, description, next_step)| {
                let executes = *route == Route::Accept.label();
                let row = json!({ "description": description, "execution_allowed": executes, "next_step": next_step });
                ((*route).to_owned(), row)
            })
            .collect();
        json!({
            "mode": mode.label(),
            "aana_allows_execution": allows,
            "execution_allowed": allows || mode == Mode::Shadow,
            "fail_closed": !allows,
            "reason": self.policy_reason(mode),
            "required_route": Route::Accept.label(),
            "route_table": table,
            "observed": {
                "gate_decision": Self::pass_or_fail(self.passes()),
                "recommended_action": self.route.label(),
                "architecture_route": self.route.label(),
                // The result, its score and the architecture's decision each carry the list.
                "hard_blocker_count": self.blockers.len() * 3,
                "validation_error_count": self.errors.len(),
            },
        })
    }

    pub(super) fn shadow_json(&self) -> Value {
        let would_route = match self.route {
            Route::Accept => "pass",
            Route::Ask => "revise",
            Route::Defer => "defer",
            Route::Refuse => "refuse",
        };
        json!({
            "shadow_mode": true,
            "enforcement": "observe_only",
            "would_gate_decision": Self::pass_or_fail(self.passes()),
            "would_recommended_action": self.route.label(),
            "would_candidate_gate": Self::pass_or_fail(self.candidate_passes()),
            "would_aix_decision": self.route.label(),
            "would_route": would_route,
            "production_effect": "not_blocked",
        })
    }

    /// What a caller gets in place of the result of a call that does not run.
    pub fn blocked_json(&self) -> Value {
        let subject = &self.subject;
        let message = format!("The call of {} was not let through (route: {}).", repr(&subject.tool_name), self.route);
        json!({
            "error_type": "aana_tool_execution_blocked",
            "code": self.policy_reason(Mode::Enforce),
            "message": message,
            "route": self.route.label(),
            "tool_name": subject.tool_name,
            "tool_category": subject.tool_category,
            "risk_domain": subject.risk_domain,
            "hard_blockers": self.blockers,
            "recovery_suggestion": self.recovery_suggestion(),
            "execution_policy": self.policy_json(Mode::Enforce),
            "audit_safe_log_event": self.audit_event(),
        })
    }

    /// The result of the tool `aana_pre_tool_check`, without MCP's envelope.
    pub fn summary_json(&self) -> Value {
        let event = self.audit_event();
        json!({
            "route": self.route.label(),
            "execution_allowed": self.executes(),
            "gate_decision": Self::pass_or_fail(self.passes()),
            "recommended_action": self.route.label(),
            "aix_score": self.scores().0,
            "hard_blockers": self.blockers,
            "missing_evidence": self.missing_evidence(),
            "evidence_refs": self.refs_json(),
            "authorization_state": self.subject.authorization_state,
            "recovery_suggestion": self.recovery_suggestion(),
            "correction_recovery_suggestion": self.recovery_suggestion(),
            "audit_event": event,
            "audit_safe_log_event": event,
        })
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    pub(super) fn aix_summary(&self) -> Value {
        let (score, form) = self.scores();
        json!({
            "score": score,
            "decision": self.route.label(),
            "components": { "P": score, "F": form, "C": score },
            "beta": null,
            "thresholds": {},
            "hard_blockers": self.blockers,
        })
    }

    pub(super) fn gates(&self) -> (&'static str, &'static str) {
        (Self::pass_or_fail(self.passes()), Self::pass_or_fail(self.candidate_passes()))
    }
}
