//! Texts that are part of the contract's answers. Clients compare them, so they are as published at the
//! contract's origin (MIT licence, see `tests/fixtures/contract/README.md`).

use super::event::Route;

pub(super) const CLAIM: &str = "AANA makes agents more auditable, safer, more grounded, and more controllable.";

/// Blocker of an event that the public check cannot read.
pub(super) const UNREADABLE: &str = "contract_normalization_failed";
/// Blocker where no decision could be had at all.
pub(super) const RUNTIME_FAILED: &str = "runtime_precheck_failed";
pub(super) const INVALID: &str = "schema_validation_failed";
pub(super) const INVALID_REASON: &str = "event_failed_schema_validation";
pub(super) const CLOSED_REASON: &str = "fail_closed_runtime_safety";

/// What to do about a route, for whoever proposed the call.
pub(super) const fn recovery(route: Route) -> &'static str {
    match route {
        Route::Accept => "Proceed only within the checked scope. Append the audit-safe decision event.",
        Route::Ask => {
            "Ask the user or runtime for the missing authorization, confirmation, or evidence before execution."
        }
        Route::Defer => "Defer to stronger evidence retrieval, a domain owner, or human review before execution.",
        Route::Refuse => "Refuse the proposed action or answer because a hard blocker prevents safe execution.",
    }
}

/// Every route of the wider result envelope: name, meaning, next step. Only the first executes.
pub(super) const ROUTE_TABLE: [(&str, &str, &str); 6] = [
    ("accept", "Proceed only within the checked scope.", "execute_checked_action"),
    ("revise", "Revise the candidate output or action, then recheck before execution.", "revise_then_recheck"),
    (
        "retrieve",
        "Retrieve missing grounding or policy evidence, then recheck before execution.",
        "retrieve_evidence_then_recheck",
    ),
    ("ask", "Ask the user or runtime for missing information, authorization, or confirmation.", "ask_then_recheck"),
    ("defer", "Route to stronger evidence, a domain owner, review queue, or human reviewer.", "defer_to_review"),
    ("refuse", "Do not execute because a hard blocker prevents safe action.", "refuse_action"),
];
