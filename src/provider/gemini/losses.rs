//! Why the server ended a session. Its close codes say little; the reason's words say more.

use crate::call::AgentLoss;

/// What a close frame means, for a session that stood or did not stand yet.
pub(super) fn closed(code: Option<u16>, reason: &str, stood: bool, announced: bool) -> AgentLoss {
    match (by_words(reason), code) {
        (Some(loss), _) => loss,
        (None, _) if announced => AgentLoss::Expired,
        // The set-up was refused, or the handle of the session that was to go on.
        (None, Some(1_003 | 1_007 | 1_008)) if !stood => AgentLoss::Handshake,
        (None, Some(1_007)) => AgentLoss::Protocol,
        (None, Some(1_013)) => AgentLoss::Throttled,
        (None, _) => AgentLoss::Closed,
    }
}

pub(super) fn by_words(reason: &str) -> Option<AgentLoss> {
    let reason = reason.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| reason.contains(words));
    if says(&["api key", "api_key", "unauthenticated", "permission", "credential", "access token", "denied"]) {
        Some(AgentLoss::Unauthorized)
    } else if says(&["billing", "exceeded your current quota", "prepay"]) {
        Some(AgentLoss::Quota)
    } else if says(&["exhausted", "concurrent", "overloaded", "too many", "unavailable"]) && !reason.contains("context")
    {
        // Also what the vendor says of rates: "Resource has been exhausted (e.g. check quota)".
        Some(AgentLoss::Throttled)
    } else if says(&["quota"]) {
        Some(AgentLoss::Quota)
    } else if says(&["deadline", "session duration", "session expired", "context", "token limit", "token count"]) {
        Some(AgentLoss::Expired)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_reason_count_more_than_its_code() {
        for (code, reason, expected) in [
            (1_007, "API key not valid. Please pass a valid API key.", AgentLoss::Unauthorized),
            (1_008, "Your project has been denied access. Please contact support.", AgentLoss::Unauthorized),
            (1_011, "You exceeded your current quota, please check your plan and billing details.", AgentLoss::Quota),
            (1_011, "RESOURCE_EXHAUSTED: Resource has been exhausted (e.g. check quota).", AgentLoss::Throttled),
            (1_011, "RESOURCE_EXHAUSTED: too many concurrent sessions", AgentLoss::Throttled),
            (1_011, "The service is currently unavailable.", AgentLoss::Throttled),
            (1_011, "Deadline expired before operation could complete.", AgentLoss::Expired),
            (1_007, "The context window of this session is exhausted.", AgentLoss::Expired),
            (1_011, "Internal error encountered.", AgentLoss::Closed),
            (1_008, "Operation is not implemented, or supported, or enabled.", AgentLoss::Closed),
            (1_007, "Request contains an invalid argument.", AgentLoss::Protocol),
            (1_013, "", AgentLoss::Throttled),
            (1_000, "", AgentLoss::Closed),
        ] {
            assert_eq!(closed(Some(code), reason, true, false), expected, "{code} {reason}");
        }
        assert_eq!(closed(None, "", true, false), AgentLoss::Closed);
    }

    #[test]
    fn a_session_that_did_not_stand_was_refused_and_one_whose_end_was_announced_has_ended() {
        let refused = |reason| closed(Some(1_007), reason, false, false);
        assert_eq!(refused("Invalid session resumption handle."), AgentLoss::Handshake);
        assert_eq!(refused("API key not valid."), AgentLoss::Unauthorized);
        assert_eq!(
            closed(Some(1_008), "models/x is not found for API version v1beta", false, false),
            AgentLoss::Handshake
        );
        assert_eq!(closed(Some(1_001), "", true, true), AgentLoss::Expired);
        assert_eq!(closed(None, "", true, true), AgentLoss::Expired);
    }
}
