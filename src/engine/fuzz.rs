//! Any lines `NAME=value` as what the dialplan says of a call. Some of it comes from callers and their telephones.

use super::{
    admission::{Wish, grant},
    generation::Generation,
    opening::{self, Told},
    workshop::Workshop,
};
use crate::{
    call::AgentTraits,
    config::{self, Identify, prompt},
    facts::{CallFacts, CallId},
    gate::AuthState,
    provider,
    redact::Redacted,
};
use std::{collections::BTreeMap, sync::LazyLock};
use uuid::Uuid;

const YAML: &str = "
asterisk: { password: x }
default_context: front
providers: { one: { scripted: { script: [{ say: One }] } } }
contexts:
  front: { prompt: Front, provider: one, greeting: Hello }
  sales: { prompt: Sales, provider: one, audio: rtp/alaw }
";

static GENERATION: LazyLock<Generation> = LazyLock::new(|| {
    let config = config::load_str("fuzz.yaml", YAML, &|_| None, provider::catalog()).expect("good YAML");
    Generation::build(1, config, &Workshop::closed()).unwrap_or_else(|_| panic!("the provider can be built"))
});

pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let variables: BTreeMap<String, String> =
        text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect();
    let said = |name: &str| variables.get(name).filter(|value| !value.is_empty()).cloned();

    let wish = Wish {
        context: said("AI_CONTEXT"),
        provider: said("AI_PROVIDER"),
        greeting: said("AI_GREETING"),
        audio: said("AI_AUDIO"),
    };
    let granted = grant(&GENERATION, wish).unwrap_or_else(|_| panic!("there is a default context"));
    for refused in &granted.refused {
        assert!(refused.reason.chars().count() <= 200, "{}", refused.reason);
        assert!(!refused.reason.contains(|c: char| c.is_control()), "a line of the log is broken: {}", refused.reason);
        let quoted = refused.reason.rsplit_once('"').map_or("", |(quoted, _)| quoted);
        assert!(!quoted.contains(|c: char| c.is_ascii_digit()), "a number is told: {}", refused.reason);
    }

    let facts = CallFacts {
        caller_name: Redacted::new(said("NAME")),
        caller_number: Redacted::new(said("NUMBER")),
        campaign_id: said("AI_CAMPAIGN_ID"),
        lead_id: said("AI_LEAD_ID"),
        variables: variables.clone().into(),
        residency: crate::facts::Residency::Any,
        ..CallFacts::new(CallId(Uuid::nil()), &granted.context.name, &granted.provider_name)
    };
    let filled = prompt::fill("<{caller_name}{caller_number}{campaign_id}{channel.AI_LEAD_ID}>", &facts);
    assert!(filled.chars().count() <= 2 + 4 * 128, "{filled}");
    assert!(!filled.contains(|c: char| c.is_control() || "{}".contains(c)), "room for instructions: {filled}");
    let _ = prompt::fill(&text, &facts);

    let identify = Identify { pin_variable: Some("PIN".into()), trusted_contexts: vec!["from-bank".into()] };
    let opened = |place: &str| {
        let told = Told { variables: variables.clone().into(), place: Some(place.into()), authorization: None };
        opening::opening(&facts, AgentTraits::PLAIN, &identify, &told)
    };
    let stranger = opened("from-outside");
    assert_eq!(stranger.authorization, None, "whoever comes from elsewhere is believed nothing");
    let known = opened("from-bank");
    assert!(known.authorization.is_none_or(|state| state <= AuthState::Validated));
}
