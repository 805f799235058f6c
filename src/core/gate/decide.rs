//! The rules: from a valid event to a route, blockers and reasons, in the contract's order.

use super::{
    Settings,
    authorization::{self, AuthorizationReport},
    event::{AuthState, Category, RiskDomain, Route},
    evidence::{self, EvidenceReport, RefView},
    patterns::Text,
    python,
};
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A word that tells why; codes of the gate itself are static, those of a remote gate are not.
pub type Code = Cow<'static, str>;

/// A valid event as the rules see it.
pub(super) struct View<'a> {
    pub tool_name: &'a str,
    pub category: Category,
    pub state: AuthState,
    pub refs: Vec<RefView<'a>>,
    pub domain: RiskDomain,
    pub arguments: &'a Map<String, Value>,
    pub recommended: Route,
    pub user_intent: &'a str,
}

/// What the rules made of a valid event.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The event's own category and (perhaps lifted) state.
    pub category: Category,
    pub state: AuthState,
    pub domain: RiskDomain,
    /// What the rules alone say.
    pub inferred: Route,
    /// What the runtime proposed.
    pub recommended: Route,
    pub evidence: EvidenceReport,
    pub authorization: AuthorizationReport,
}

/// A route on its way to strictness, with why.
pub(super) struct Draft {
    pub route: Route,
    pub reasons: Vec<Code>,
    pub blockers: Vec<Code>,
}

impl Draft {
    fn because(&mut self, reason: &'static str) {
        self.reasons.push(Cow::Borrowed(reason));
    }

    fn block(&mut self, blocker: &'static str) {
        self.blockers.push(Cow::Borrowed(blocker));
    }

    fn block_once(&mut self, blocker: &'static str) {
        if !self.blockers.iter().any(|known| known == blocker) {
            self.block(blocker);
        }
    }

    fn at_least(&mut self, route: Route) {
        self.route = self.route.stricter(route);
    }
}

/// Decides over a valid event. `lifted` are the reasons why its state is not the one it was sent with.
pub(super) fn decide(view: &View, lifted: Vec<Code>, settings: &Settings, now: Timestamp) -> (Draft, Verdict) {
    let authorization = authorization::report(view.state, &view.refs, settings.evidence_words);
    let state = authorization.effective;
    let mut draft = Draft { route: Route::Accept, reasons: lifted, blockers: Vec::new() };
    if authorization.downgraded {
        draft.because("authorization_state_downgraded_to_evidence_supported_state");
        draft.block("authorization_state_not_supported_by_evidence");
    }
    let category = if is_identity_bound(view) {
        draft.because("public_read_reclassified_identity_bound_private_read");
        draft.block("public_read_identity_bound_misclassified");
        Category::PrivateRead
    } else {
        view.category
    };
    by_category(&mut draft, category, state, view);
    if view.refs.iter().any(declares_missing_authorization) {
        draft.at_least(Route::Defer);
        draft.because("evidence_declares_missing_authorization");
        draft.block("evidence_missing_authorization");
    }
    if category.is_consequential() && view.refs.is_empty() {
        draft.at_least(Route::Defer);
        draft.because("missing_evidence_refs_for_consequential_tool");
        draft.block("missing_evidence_refs");
    }
    let age_max = settings.evidence_age_max();
    let mut evidence = evidence::report(&view.refs, category, now, age_max);
    by_evidence(&mut draft, &evidence);
    if category != view.category {
        // The answer reports on the category that was declared.
        evidence = evidence::report(&view.refs, view.category, now, age_max);
    }
    let inferred = draft.route;
    draft.at_least(view.recommended);
    if draft.route != inferred {
        draft.reasons.push(Cow::Owned(format!("runtime_recommended_stricter_route:{}", view.recommended)));
    }
    if view.recommended == Route::Refuse {
        draft.block_once("runtime_refusal");
    }
    let verdict = Verdict {
        category: view.category,
        state: view.state,
        domain: view.domain,
        inferred,
        recommended: view.recommended,
        evidence,
        authorization,
    };
    (draft, verdict)
}

fn by_category(draft: &mut Draft, category: Category, state: AuthState, view: &View) {
    match category {
        Category::PublicRead => draft.because("public_read_allowed_without_identity_auth"),
        Category::PrivateRead => private_read(draft, state),
        Category::Write if state != AuthState::Confirmed && is_high_risk(view) => high_risk_write(draft, state),
        Category::Write => write(draft, state),
        Category::Unknown => {
            draft.route = Route::Defer;
            draft.because("unknown_tool_category_requires_review");
            draft.block("unknown_tool_category");
        }
    }
}

fn private_read(draft: &mut Draft, state: AuthState) {
    match state {
        AuthState::None => {
            draft.route = Route::Defer;
            draft.because("private_read_missing_authorization_context");
            draft.block("private_read_not_authenticated");
        }
        AuthState::UserClaimed => {
            draft.route = Route::Ask;
            draft.because("private_read_needs_verified_authentication");
            draft.block("private_read_not_authenticated");
        }
        _ => draft.because("private_read_has_authenticated_context"),
    }
}

fn high_risk_write(draft: &mut Draft, state: AuthState) {
    draft.route = if state == AuthState::None { Route::Defer } else { Route::Ask };
    draft.because("high_risk_write_requires_explicit_confirmation");
    draft.block("high_risk_write_missing_explicit_confirmation");
    draft.block("write_missing_explicit_confirmation");
    if matches!(state, AuthState::UserClaimed | AuthState::Authenticated) {
        draft.block("write_missing_validation_or_confirmation");
    }
}

fn write(draft: &mut Draft, state: AuthState) {
    match state {
        AuthState::Confirmed => draft.because("write_has_explicit_confirmation"),
        AuthState::Validated => {
            draft.route = Route::Ask;
            draft.because("write_validated_but_needs_explicit_confirmation");
            draft.block("write_missing_explicit_confirmation");
        }
        AuthState::Authenticated | AuthState::UserClaimed => {
            draft.route = Route::Ask;
            draft.because("write_needs_validation_and_confirmation");
            draft.block("write_missing_validation_or_confirmation");
        }
        AuthState::None => {
            draft.route = Route::Defer;
            draft.because("write_missing_authorization_context");
            draft.block("write_missing_authorization");
        }
    }
}

fn by_evidence(draft: &mut Draft, report: &EvidenceReport) {
    for code in report.errors() {
        match code {
            "evidence_secret_leak" | "evidence_pii_leak" | "unsafe_redaction_status" => draft.at_least(Route::Refuse),
            "stale_evidence" | "invalid_retrieved_at" | "missing_source_id" | "malformed_evidence_ref" => {
                draft.at_least(Route::Defer);
            }
            _ => {}
        }
        draft.block_once(code);
    }
    if !report.contradictory.is_empty() {
        draft.at_least(Route::Defer);
        draft.because("evidence_contradicts_action_or_claim");
        draft.block_once("contradictory_evidence");
    }
    if !report.missing.is_empty() {
        draft.at_least(Route::Defer);
        draft.because("evidence_marks_missing_information");
        draft.block_once("evidence_marks_missing_information");
    }
    for code in report.warnings() {
        draft.reasons.push(Cow::Owned(format!("evidence_warning:{code}")));
    }
}

fn declares_missing_authorization(item: &RefView) -> bool {
    let Some(fields) = item.fields() else { return false };
    if fields.source_id.starts_with("counterfactual.missing_authorization") {
        return true;
    }
    fields.kind == "system_state" && {
        let summary = fields.summary.to_lowercase();
        summary.contains("missing authorization") || summary.contains("removes verified authorization")
    }
}

const RISKY_WORDS: [&str; 9] = ["delete", "deploy", "grant", "pay", "purchase", "reset", "revoke", "send", "transfer"];

/// A write whose harm is hard to undo. The words count anywhere in the name, so `display_payload` is one too.
fn is_high_risk(view: &View) -> bool {
    use RiskDomain::{Devops, Finance, Healthcare, Legal, Pharma, Security};
    let name = view.tool_name.to_lowercase();
    matches!(view.domain, Finance | Devops | Security | Legal | Pharma | Healthcare)
        || RISKY_WORDS.iter().any(|word| name.contains(word))
}

const IDENTITY_KEYS: [&str; 22] = [
    "account_id",
    "account_key",
    "address",
    "card_id",
    "case_id",
    "client_id",
    "customer_id",
    "employee_id",
    "email",
    "invoice_id",
    "loan_id",
    "order_id",
    "patient_id",
    "payment_id",
    "payroll_id",
    "phone",
    "profile_id",
    "student_id",
    "subscription_id",
    "ticket_id",
    "transaction_id",
    "user_id",
];

const PRIVATE_NAMES: [&str; 13] = [
    "account",
    "booking",
    "cart",
    "client",
    "customer",
    "invoice",
    "order",
    "profile",
    "reservation",
    "subscription",
    "ticket",
    "transaction",
    "user",
];

/// A read declared public that looks as if it were about somebody.
fn is_identity_bound(view: &View) -> bool {
    if view.category != Category::PublicRead {
        return false;
    }
    if IDENTITY_KEYS.iter().any(|key| view.arguments.contains_key(*key)) {
        return true;
    }
    let name = view.tool_name.to_lowercase();
    // Asked first, because it is cheap: no other name is bound to an identity.
    if !PRIVATE_NAMES.iter().any(|hint| name.contains(hint)) {
        return false;
    }
    let mut words = name.split(|letter: char| !letter.is_ascii_lowercase() && !letter.is_ascii_digit());
    !words.any(|word| matches!(word, "search" | "list")) && !Text::new(&all_text(view)).names_public_read()
}

/// Every word of the event, in lower case.
fn all_text(view: &View) -> String {
    let arguments = if view.arguments.is_empty() { "{}".to_owned() } else { python::sorted_json(view.arguments) };
    let mut text = [view.tool_name, view.domain.label(), view.user_intent, &arguments].join("\n");
    for fields in view.refs.iter().filter_map(RefView::fields) {
        for part in [&fields.source_id, &fields.kind, &fields.summary] {
            text.push('\n');
            text.push_str(part);
        }
    }
    text.to_lowercase()
}
