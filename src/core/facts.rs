//! What is known about a call before anybody speaks.

use crate::{chance, redact::Redacted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};
use uuid::Uuid;

/// Names one call everywhere: in logs, records, channel ids and as the AudioSocket UUID of its
/// media leg. It holds nothing of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CallId(pub Uuid);

impl CallId {
    pub fn random() -> Self {
        let (high, low) = (chance::bits(), chance::bits());
        Self(uuid::Builder::from_random_bytes(((u128::from(high) << 64) | u128::from(low)).to_be_bytes()).into_uuid())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    #[default]
    Inbound,
    Outbound,
}

impl Direction {
    pub fn label(self) -> &'static str {
        match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
        }
    }
}

/// Where what a caller says may go, from the loosest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Residency {
    #[default]
    Any,
    IndiaOnly,
    OnPrem,
}

impl Residency {
    pub const LABELS: [&str; 3] = [Self::Any.label(), Self::IndiaOnly.label(), Self::OnPrem.label()];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::IndiaOnly => "india_only",
            Self::OnPrem => "on_prem",
        }
    }

    pub fn parse(label: &str) -> Option<Self> {
        [Self::Any, Self::IndiaOnly, Self::OnPrem].into_iter().find(|residency| residency.label() == label)
    }
}

/// One at the caller's end of a call, as far as the call may know who that is. `None` means that Asterisk did not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Party {
    pub name: Redacted<Option<String>>,
    pub number: Redacted<Option<String>>,
}

/// Facts about one call, fixed when it begins but for the caller, whose place another party may take. `None` means that Asterisk did not say.
#[derive(Debug, Clone)]
pub struct CallFacts {
    pub id: CallId,
    /// Name of the context that answers.
    pub context: String,
    /// Name of the configured provider that speaks.
    pub provider: String,
    pub direction: Direction,
    pub caller_name: Redacted<Option<String>>,
    pub caller_number: Redacted<Option<String>>,
    pub dialled_number: Redacted<Option<String>>,
    pub campaign_id: Option<String>,
    pub lead_id: Option<String>,
    /// Channel variables that prompts and greetings name.
    pub variables: Redacted<BTreeMap<String, String>>,
    /// What tools are held to; [`Residency::Any`] where nobody asks for more.
    pub residency: Residency,
}

impl CallFacts {
    /// Takes this party for the caller from here on.
    pub fn set_caller(&mut self, party: &Party) {
        self.caller_name.clone_from(&party.name);
        self.caller_number.clone_from(&party.number);
    }

    /// A call for this context and provider of which nothing else is known.
    pub fn new(id: CallId, context: &str, provider: &str) -> Self {
        Self {
            id,
            context: context.to_owned(),
            provider: provider.to_owned(),
            direction: Direction::Inbound,
            caller_name: None.into(),
            caller_number: None.into(),
            dialled_number: None.into(),
            campaign_id: None,
            lead_id: None,
            variables: Redacted::default(),
            residency: Residency::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A call has an id of its own, the same wherever it is named, and nothing of the caller in it.
    #[test]
    fn every_call_has_its_own_id() {
        let ids: BTreeSet<String> = (0..1_000).map(|_| CallId::random().to_string()).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(ids.iter().all(|id| id.len() == 36 && Uuid::parse_str(id).is_ok_and(|id| id.get_version_num() == 4)));
    }
}
