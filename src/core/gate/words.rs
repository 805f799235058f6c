//! Texts that are part of the contract's answers. Codes, keys and steps are the contract's, for programs
//! compare them; sentences, which people read, are this project's own.

use super::event::Route;

pub(super) const CLAIM: &str =
    "Checked before it ran: what was proposed, on which evidence, and who decided stay on record.";

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
        Route::Accept => "Run exactly the call that was checked, and keep the audit event of this decision.",
        Route::Ask => {
            "Something is lacking: get the proof, the yes or the record from whoever has it, then check again."
        }
        Route::Defer => {
            "Hand this to a person who may decide it, or come back with better evidence. Do not run it yet."
        }
        Route::Refuse => "Do not run this call. What stands in its way is listed under hard_blockers.",
    }
}

/// Every route of the wider result envelope: name, meaning, next step. Only the first executes.
pub(super) const ROUTE_TABLE: [(&str, &str, &str); 6] = [
    ("accept", "The call may run as it was checked.", "execute_checked_action"),
    ("revise", "The proposal has to be changed and checked again.", "revise_then_recheck"),
    ("retrieve", "Evidence has to be fetched first, then the call is checked again.", "retrieve_evidence_then_recheck"),
    ("ask", "The caller or the program has to be asked for what is lacking.", "ask_then_recheck"),
    ("defer", "Somebody with more knowledge or authority has to look at it.", "defer_to_review"),
    ("refuse", "The call must not run.", "refuse_action"),
];
