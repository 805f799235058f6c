//! The gate before a tool runs: Agent Action Contract v1.
//!
//! An agent proposes a call; the gate looks at what the call would touch, who has been proved to be on the
//! line and what evidence there is, and gives one of four routes. Only [`Route::Accept`] without a
//! blocker executes ([`Decision::executes`]). No I/O and no clock: the time is an argument.
//!
//! Two entries read JSON: [`Gate::check`], the public check with defaults for quick starts, and
//! [`Gate::gate`], the strict gate beneath it. [`Gate::decide`] is the public check for events this program
//! builds itself, without JSON in between.
//!
//! Invariant: with the default [`Settings`] the gate is never looser than the reference implementation
//! of the contract; with [`Settings::reference`] it decides exactly as that does.

mod answer;
mod audit;
mod authorization;
mod decide;
mod event;
mod evidence;
pub mod mcp;
mod normalize;
mod patterns;
mod python;
mod remote;
mod schema;
mod time;
mod words;

pub use answer::{Decision, Mode};
pub use audit::{AuditMeta, argument_keys, stored_record};
pub use authorization::AuthorizationReport;
pub use decide::{Code, Verdict};
pub use event::{AuthState, Category, Event, EvidenceRef, Freshness, Kind, Redaction, RiskDomain, Route, TrustTier};
pub use evidence::{EvidenceReport, Issue, Level, analyze};
pub use schema::{PUBLISHED as SCHEMA, REQUIRED, VERSION, ValidationError};

use answer::Subject;
use decide::View;
use evidence::RefView;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

/// What raises the state that evidence supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceWords {
    /// The kind of the evidence, where its trust tier is `verified` or `runtime`.
    KindsOnly,
    /// The kind, and words of the summary and the source id: "has not confirmed" confirms.
    Reference,
}

/// What becomes of an event that lacks one of the seven fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredFields {
    /// It is refused, and so is one with a text where a list is due or with another schema version.
    Contract,
    /// The reference's defaults fill in what they can.
    Reference,
}

/// How strictly the gate reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub evidence_words: EvidenceWords,
    pub required_fields: RequiredFields,
    evidence_age_max: SignedDuration,
}

impl Settings {
    /// The contract's limit on the age of evidence.
    pub const EVIDENCE_AGE_MAX: SignedDuration = SignedDuration::from_hours(168);

    /// Exactly as the reference implementation decides.
    pub fn reference() -> Self {
        Self {
            evidence_words: EvidenceWords::Reference,
            required_fields: RequiredFields::Reference,
            evidence_age_max: Self::EVIDENCE_AGE_MAX,
        }
    }

    /// Evidence older than this is stale. The contract's limit can only be lowered.
    #[must_use]
    pub fn with_evidence_age_max(mut self, age: SignedDuration) -> Self {
        self.evidence_age_max = age.clamp(SignedDuration::ZERO, Self::EVIDENCE_AGE_MAX);
        self
    }

    pub fn evidence_age_max(&self) -> SignedDuration {
        self.evidence_age_max
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            evidence_words: EvidenceWords::KindsOnly,
            required_fields: RequiredFields::Contract,
            evidence_age_max: Self::EVIDENCE_AGE_MAX,
        }
    }
}

/// The gate itself; it remembers nothing between two decisions.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    settings: Settings,
}

impl Gate {
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The public check: a malformed event is an answer too, a refusal.
    pub fn check(&self, event: &Value, now: Timestamp) -> Decision {
        let normal = match normalize::public(event) {
            Ok(normal) => normal,
            Err(message) => {
                let publishable = event.as_object().is_none_or(|event| self.is_publishable(event, now));
                let closed = Decision::closed(Subject::of_json(event), words::UNREADABLE, message);
                return closed.publishable_if(publishable);
            }
        };
        if let (RequiredFields::Contract, Some(event)) = (self.settings.required_fields, event.as_object()) {
            let errors = schema::check_as_sent(event);
            if !errors.is_empty() {
                return Decision::invalid(true, self.is_publishable(&normal, now), Subject::of_object(event), errors);
            }
        }
        let subject = Subject::of_object(&normal);
        self.run(normal, subject, true, now)
    }

    /// The public check's normalized event, as an audit records it; the event itself where it has none.
    pub fn normalized(&self, event: &Value) -> Value {
        normalize::public(event).map_or_else(|_| event.clone(), Value::Object)
    }

    /// The strict gate: the schema is applied to the event nearly as sent.
    pub fn gate(&self, event: &Value, now: Timestamp) -> Decision {
        match event {
            Value::Object(object) => self.run(object.clone(), Subject::of_object(object), false, now),
            other => Decision::invalid(false, false, Subject::of_json(other), schema::validate(other)),
        }
    }

    /// What the schema says about an event as sent, after references to evidence were given their full form.
    pub fn validate(&self, event: &Value) -> Vec<ValidationError> {
        match event {
            Value::Object(object) => {
                let (event, _) = normalize::strict(object.clone(), &self.settings);
                schema::validate(&Value::Object(event))
            }
            other => schema::validate(other),
        }
    }

    /// The public check of an event built by this program.
    pub fn decide(&self, event: &Event, now: Timestamp) -> Decision {
        // The few things that the types leave open are refused as in any other event.
        let is_blank = |text: &str| python::strip(text).is_empty();
        let open = |item: &EvidenceRef| is_blank(&item.source_id) || item.provenance.is_empty();
        if event.tool_name.is_empty() || event.evidence.iter().any(open) {
            return self.check(&event.to_json(), now);
        }
        let view = View {
            tool_name: &event.tool_name,
            category: event.category,
            state: event.state,
            refs: event.evidence.iter().map(RefView::of_ref).collect(),
            domain: event.domain,
            arguments: &event.arguments,
            recommended: normalize::softened(event.category, event.state, event.recommended),
            user_intent: "",
        };
        let (draft, verdict) = decide::decide(&view, Vec::new(), &self.settings, now);
        Decision::decided(true, Subject::of_event(event), draft, verdict)
    }

    fn run(&self, event: Map<String, Value>, subject: Subject, public: bool, now: Timestamp) -> Decision {
        let (event, lifted) = normalize::strict(event, &self.settings);
        let event = Value::Object(event);
        let errors = schema::validate(&event);
        if !errors.is_empty() {
            let publishable = event.as_object().is_some_and(|event| self.is_publishable(event, now));
            return Decision::invalid(public, publishable, subject, errors);
        }
        // A valid event has a view; should the two ever disagree, the event is refused.
        let Some(view) = view_of(&event) else {
            return Decision::closed(subject, words::RUNTIME_FAILED, "The event could not be read.".to_owned());
        };
        let (draft, verdict) = decide::decide(&view, lifted, &self.settings, now);
        Decision::decided(public, subject, draft, verdict)
    }

    /// Tells whether the evidence of an event allows to publish it, whatever the schema says of the event.
    fn is_publishable(&self, event: &Map<String, Value>, now: Timestamp) -> bool {
        let refs = event.get("evidence_refs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let category = event.get("tool_category").and_then(Value::as_str).and_then(Category::parse);
        analyze(refs, category.unwrap_or(Category::Unknown), now, self.settings.evidence_age_max()).is_publishable()
    }
}

fn view_of(event: &Value) -> Option<View<'_>> {
    let word = |name: &str| event.get(name).and_then(Value::as_str);
    Some(View {
        tool_name: word("tool_name")?,
        category: Category::parse(word("tool_category")?)?,
        state: AuthState::parse(word("authorization_state")?)?,
        refs: event.get("evidence_refs")?.as_array()?.iter().map(RefView::of_json).collect(),
        domain: RiskDomain::parse(word("risk_domain")?)?,
        arguments: event.get("proposed_arguments")?.as_object()?,
        recommended: Route::parse(word("recommended_route")?)?,
        user_intent: word("user_intent").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
