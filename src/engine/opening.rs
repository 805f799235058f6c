//! What the dialplan says of a caller, for the policy of the call: who they are, their PIN, what the
//! tools should know.

use crate::{
    call::AgentTraits,
    config::{Config, Identify},
    facts::{CallFacts, CallId},
    gate::AuthState,
    redact::Redacted,
    tool::{Memory, Opening},
    wall_clock,
};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use tracing::warn;

/// The caller's authorization, believed from trusted contexts of the dialplan only.
pub(super) const AUTHORIZATION: &str = "AI_AUTHORIZATION";
/// What the tools should know of the caller: a JSON object.
pub(super) const USER: &str = "AI_USER";
/// A customer record is a few kilobytes; Asterisk's own lines end at 8 KiB.
const USER_BYTES_MAX: usize = 8 * 1024;

/// Facts about a caller that others tell.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Variables of the caller's channel.
    pub variables: Redacted<BTreeMap<String, String>>,
    /// Context of the dialplan in which the caller was.
    pub place: Option<String>,
    /// Authorization by a VAM client that is believed.
    pub authorization: Option<AuthState>,
}

/// Variables whose names the configuration chooses.
pub(super) fn variables(config: &Config) -> BTreeSet<String> {
    let pins = config.contexts.values().filter_map(|context| context.policy.identify.pin_variable.clone());
    pins.chain(config.prompt_variables().into_iter().map(str::to_owned)).collect()
}

pub(super) fn opening(facts: &CallFacts, traits: AgentTraits, identify: &Identify, told: &Told) -> Opening {
    let (variables, place) = (told.variables.reveal(), told.place.as_deref());
    let text = |name: &str| variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
    Opening {
        session: client_id(facts.id, wall_clock::now()),
        caller_known: facts.caller_number.reveal().is_some(),
        authorization: told.authorization.or_else(|| believed(text(AUTHORIZATION)?, identify, place)),
        pin: pin(identify, variables),
        memory: Memory { user: text(USER).map(user).unwrap_or_default(), ..Memory::default() },
        answers: traits.answer_limits(),
        residency: facts.residency,
        ..Opening::default()
    }
}

/// What a context compares the caller's PIN with.
pub(super) fn pin(identify: &Identify, variables: &BTreeMap<String, String>) -> Option<Redacted<String>> {
    let pin = variables.get(identify.pin_variable.as_deref()?)?.trim();
    (!pin.is_empty()).then(|| pin.to_owned().into())
}

/// P5: how audit lines name a conversation: milliseconds since 1970, a dash, six digits of base 36. The
/// log has the call's own id beside it.
fn client_id(call: CallId, at: jiff::Timestamp) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut rest = call.0.as_u128();
    let mut digit = || {
        let digit = DIGITS[(rest % 36) as usize];
        rest /= 36;
        char::from(digit)
    };
    let tail: String = (0..6).map(|_| digit()).collect();
    format!("{}-{tail}", at.as_millisecond())
}

fn believed(written: &str, identify: &Identify, place: Option<&str>) -> Option<AuthState> {
    if !place.is_some_and(|place| identify.trusted_contexts.iter().any(|trusted| trusted == place)) {
        warn!("{AUTHORIZATION} comes from a context of the dialplan that is not in trusted_contexts; it is ignored");
        return None;
    }
    let state = AuthState::parse(written).filter(|state| *state <= AuthState::Validated);
    if state.is_none() {
        warn!("{AUTHORIZATION} is neither authenticated nor validated; it is ignored");
    }
    state
}

fn user(written: &str) -> Map<String, Value> {
    if written.len() > USER_BYTES_MAX {
        warn!("{USER} is too long; it is ignored");
        return Map::new();
    }
    match serde_json::from_str(written) {
        Ok(Value::Object(user)) => user,
        _ => {
            warn!("{USER} is no JSON object; it is ignored");
            Map::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::policy::AnswerLimits;

    fn identify() -> Identify {
        Identify { pin_variable: Some("PIN".into()), trusted_contexts: vec!["from-bank".into()] }
    }

    /// P5: a client's id tells when it came and is like no other's.
    #[test]
    fn a_conversation_is_named_by_its_time_and_six_more_characters() {
        let at = jiff::Timestamp::from_millisecond(1_763_582_071_621).unwrap();
        let id = client_id(CallId(uuid::Uuid::from_u128(0x1234_5678_9abc)), at);
        let (time, tail) = id.split_once('-').unwrap();
        assert_eq!(time, "1763582071621");
        assert!(tail.len() == 6 && tail.chars().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase()), "{tail}");
        assert_ne!(client_id(CallId::random(), at), client_id(CallId::random(), at));
    }

    #[test]
    fn authorization_is_believed_from_a_trusted_context_alone() {
        let identify = identify();
        assert_eq!(believed("authenticated", &identify, Some("from-bank")), Some(AuthState::Authenticated));
        assert_eq!(believed("validated", &identify, Some("from-bank")), Some(AuthState::Validated));
        assert_eq!(believed("confirmed", &identify, Some("from-bank")), None, "that is for the caller to say");
        assert_eq!(believed("authenticated", &identify, Some("from-trunk")), None);
        assert_eq!(believed("authenticated", &identify, None), None);
    }

    /// G12: each context has its own PIN, of the variables that came with the call.
    #[test]
    fn each_context_has_its_own_pin() {
        let variables = [("FRONT".to_owned(), "1357".to_owned()), ("BANK".to_owned(), " 2468 ".to_owned())].into();
        let of = |name: Option<&str>| {
            let identify = Identify { pin_variable: name.map(str::to_owned), ..Identify::default() };
            pin(&identify, &variables).map(|pin| pin.reveal().clone())
        };
        assert_eq!([of(Some("FRONT")), of(Some("BANK"))], [Some("1357".into()), Some("2468".into())]);
        assert_eq!([of(Some("NONE")), of(None)], [None, None]);
    }

    fn opened(traits: AgentTraits, variables: &BTreeMap<String, String>) -> Opening {
        let facts = CallFacts::new(crate::facts::CallId::random(), "a", "a");
        let told = Told { variables: variables.clone().into(), ..Told::default() };
        opening(&facts, traits, &identify(), &told)
    }

    const TRAITS: AgentTraits =
        AgentTraits { detects_speech: true, cancels_on_speech: true, truncates: true, ..AgentTraits::PLAIN };

    /// D18: what the dialplan hands over with the call is the tools' `user`, tokens among it; no Debug print shows it.
    #[test]
    fn tokens_come_with_the_call() {
        let variables = [(USER.to_owned(), r#"{"id":"u-1","auth_token":"tok-4711"}"#.to_owned())].into();
        let opening = opened(TRAITS, &variables);
        assert_eq!(opening.memory.user["auth_token"], "tok-4711");
        assert!(!format!("{opening:?}").contains("tok-4711"));
    }

    /// M23, M24: a call begins with what its provider bears of a result.
    #[test]
    fn a_providers_limits_come_with_the_call() {
        let small = AgentTraits { answer_bytes_max: Some(2048), forwards_data: false, ..TRAITS };
        let answers = |traits| opened(traits, &BTreeMap::new()).answers;
        assert_eq!(answers(small), AnswerLimits { bytes_max: Some(2048), data: false });
        assert_eq!(answers(TRAITS), AnswerLimits::default());
    }

    #[test]
    fn what_the_dialplan_says_of_the_caller_has_to_be_an_object() {
        assert_eq!(user(r#"{"id":7}"#)["id"], 7);
        assert!(user("[1]").is_empty());
        assert!(user(&format!("{{\"a\":\"{}\"}}", "x".repeat(USER_BYTES_MAX))).is_empty());
    }
}
