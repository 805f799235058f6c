//! Where what a caller says may go (V18, V19, V answer 3).

use crate::config::Residency;

/// What an action server says of where it is: the `data_residency` of its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It says nothing.
    None,
    Any,
    IndiaOnly,
    OnPrem,
}

impl Claim {
    /// The manifest has a text where the session has an enumeration; the words of both are read. `None`: another word.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::None),
            "ANY" | "DATA_RESIDENCY_ANY" => Some(Self::Any),
            "IN_ONLY" | "INDIA_ONLY" | "DATA_RESIDENCY_INDIA_ONLY" => Some(Self::IndiaOnly),
            "ON_PREM" | "DATA_RESIDENCY_ON_PREM" => Some(Self::OnPrem),
            _ => None,
        }
    }

    /// As manifests are given back.
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Any => "ANY",
            Self::IndiaOnly => "IN_ONLY",
            Self::OnPrem => "ON_PREM",
        }
    }
}

/// Whether what is said under this rule may go to a server of this claim. `local`: it is a program of this machine, or
/// connections to it are held to addresses of the local network. An endpoint elsewhere proves nothing by a claim of being
/// local, and a local one needs none.
pub fn allows(rule: Residency, claim: Claim, local: bool) -> bool {
    match rule {
        Residency::Any => true,
        Residency::IndiaOnly => local || matches!(claim, Claim::IndiaOnly | Claim::OnPrem),
        Residency::OnPrem => local,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V18, V19, V answer 3: every pair of rule and claim, for servers of the local network and for others.
    #[test]
    fn every_pair_of_rule_and_claim_is_decided() {
        use Claim::{Any, IndiaOnly, None, OnPrem};
        let remote = |rule| [None, Any, IndiaOnly, OnPrem].map(|claim| allows(rule, claim, false));
        assert_eq!(remote(Residency::Any), [true; 4]);
        assert_eq!(remote(Residency::IndiaOnly), [false, false, true, true]);
        assert_eq!(remote(Residency::OnPrem), [false; 4]);
        for rule in [Residency::Any, Residency::IndiaOnly, Residency::OnPrem] {
            assert_eq!([None, Any, IndiaOnly, OnPrem].map(|claim| allows(rule, claim, true)), [true; 4]);
        }
    }

    /// V answer 3: the words of the manifest's text and of the session's enumeration are one.
    #[test]
    fn claims_are_read_in_the_words_of_both_messages() {
        for (text, label) in [
            ("", ""),
            ("ANY", "ANY"),
            ("DATA_RESIDENCY_ANY", "ANY"),
            ("IN_ONLY", "IN_ONLY"),
            ("INDIA_ONLY", "IN_ONLY"),
            ("DATA_RESIDENCY_INDIA_ONLY", "IN_ONLY"),
            ("ON_PREM", "ON_PREM"),
            ("DATA_RESIDENCY_ON_PREM", "ON_PREM"),
        ] {
            assert_eq!(Claim::parse(text).map(Claim::label), Some(label), "{text}");
        }
        for other in ["in_only", "EU_ONLY", " IN_ONLY"] {
            assert_eq!(Claim::parse(other), Option::None, "{other}");
        }
    }
}
