//! Which state of authorization the evidence supports, and which state counts.

use super::{
    EvidenceWords,
    event::AuthState,
    evidence::{Fields, RefView},
};
use serde_json::{Value, json};

/// Declared, supported and effective state of authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthorizationReport {
    pub declared: AuthState,
    pub supported: AuthState,
    /// The state that counts.
    pub effective: AuthState,
    /// Which states some evidence supports, weakest first; [`AuthState::None`] needs none.
    support: [bool; 5],
    /// Declared more than the evidence supports.
    pub downgraded: bool,
}

impl AuthorizationReport {
    pub fn support(&self) -> impl Iterator<Item = AuthState> {
        AuthState::ALL.iter().zip(self.support).filter_map(|(state, held)| held.then_some(*state))
    }

    pub fn to_json(&self) -> Value {
        json!({
            "declared_state": self.declared.label(),
            "evidence_supported_state": self.supported.label(),
            "effective_state": self.effective.label(),
            "support": self.support().map(AuthState::label).collect::<Vec<_>>(),
            "downgraded": self.downgraded,
        })
    }
}

/// Without any evidence nothing is downgraded: that evidence is missing blocks by itself.
pub(super) fn report(declared: AuthState, refs: &[RefView], words: EvidenceWords) -> AuthorizationReport {
    let mut support = [false; 5];
    for fields in refs.iter().filter_map(RefView::fields) {
        match words {
            EvidenceWords::Reference => by_words(fields, &mut support),
            EvidenceWords::KindsOnly => by_kind(fields, &mut support),
        }
    }
    let supported = AuthState::ALL.iter().zip(support).rfind(|(_, held)| *held).map_or(AuthState::None, |(s, _)| *s);
    let downgraded = declared >= AuthState::Authenticated && !refs.is_empty() && supported < declared;
    let effective = match (downgraded, declared) {
        (true, _) => supported.max(AuthState::UserClaimed),
        (false, AuthState::None) => supported,
        (false, declared) => declared,
    };
    AuthorizationReport { declared, supported, effective, support, downgraded }
}

const TOOL_RESULT: [&str; 5] = ["validated", "ownership", "eligible", "policy validation", "verified target"];
const POLICY: [&str; 3] = ["validated", "allowed", "eligible"];

fn text_of(fields: &Fields) -> String {
    format!("{} {}", fields.source_id.to_lowercase(), fields.summary.to_lowercase())
}

fn validates(kind: &str, text: &str) -> bool {
    let holds = |markers: &[&str]| markers.iter().any(|marker| text.contains(marker));
    (kind == "tool_result" && holds(&TOOL_RESULT)) || (kind == "policy" && holds(&POLICY))
}

/// The reference's reading: words of a summary raise a state as well as the kind of the evidence does.
fn by_words(fields: &Fields, support: &mut [bool; 5]) {
    let (kind, text) = (fields.kind.as_ref(), text_of(fields));
    support[1] |= kind == "user_message" || fields.trust == "user_claimed" || text.contains("user claimed");
    support[2] |= kind == "auth_event" || text.contains("authenticated");
    support[3] |= validates(kind, &text);
    support[4] |= kind == "approval" || text.contains("confirmed") || text.contains("explicitly confirm");
}

/// The stricter reading: only the kind of evidence that somebody trustworthy vouches for.
fn by_kind(fields: &Fields, support: &mut [bool; 5]) {
    let kind = fields.kind.as_ref();
    support[1] |= kind == "user_message" || fields.trust == "user_claimed";
    if !matches!(fields.trust.as_ref(), "verified" | "runtime") {
        return;
    }
    match kind {
        "auth_event" => support[2] = true,
        "tool_result" | "policy" => support[3] |= validates(kind, &text_of(fields)),
        "approval" => support[4] = true,
        _ => {}
    }
}

/// The state a declared word stands for. Aliases count here, though the schema lets none of them through.
pub(super) fn canonical(declared: &str) -> AuthState {
    let word = super::python::strip(declared).to_lowercase().replace(['-', ' '], "_");
    if let Some(state) = AuthState::parse(&word) {
        return state;
    }
    match word.as_str() {
        "claimed" | "requested" | "user_requested" => AuthState::UserClaimed,
        "logged_in" | "login" | "session" | "verified_identity" => AuthState::Authenticated,
        "verified" | "eligible" | "policy_validated" | "ownership_validated" => AuthState::Validated,
        "approved" | "confirmation" | "explicit_confirmation" | "user_confirmed" => AuthState::Confirmed,
        _ => AuthState::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_stand_for_states() {
        for (word, state) in [
            ("", AuthState::None),
            ("Anonymous", AuthState::None),
            ("nonsense", AuthState::None),
            (" User-Requested ", AuthState::UserClaimed),
            ("logged in", AuthState::Authenticated),
            ("VERIFIED", AuthState::Validated),
            ("explicit confirmation", AuthState::Confirmed),
            ("confirmed", AuthState::Confirmed),
        ] {
            assert_eq!(canonical(word), state, "{word}");
        }
    }
}
