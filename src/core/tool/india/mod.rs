//! The India tool registry 1.0-draft: tools that every action server of VAM/1.0 offers under one name, with one schema
//! (V17). A server that says its tool is one of these is held to it exactly.
//!
//! The facts are in `registry.json`, from <https://github.com/vani-voice/vani> (Apache-2.0). What each tool touches is ours:
//! whose data it reads, and that a one-time password which is sent to somebody's telephone is an effect.

use crate::gate::Category;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, sync::LazyLock};

/// Arguments that name a person, wherever they stand: never said, shown or logged (V20).
pub const PRIVATE_ARGUMENTS: [&str; 8] = [
    "aadhaar_number",
    "aadhaar_last4",
    "pan_number",
    "mobile_number",
    "ration_card_number",
    "phone",
    "caller_number",
    "to",
];

/// How much harm a tool can do to whom it is about, in the registry's own steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sensitivity {
    Low,
    Medium,
    High,
}

/// One tool of the registry.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canonical {
    pub sensitivity: Sensitivity,
    /// Only servers in India may have it.
    pub in_india: bool,
    access: String,
    /// The schema of its arguments, without descriptions.
    #[serde(rename = "inputSchema")]
    pub schema: Value,
}

impl Canonical {
    /// What it touches, for the contract gate.
    pub fn access(&self) -> Category {
        Category::parse(&self.access).unwrap_or(Category::Unknown)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "source")]
    _source: String,
    tools: BTreeMap<String, Canonical>,
}

static REGISTRY: LazyLock<BTreeMap<String, Canonical>> = LazyLock::new(|| {
    let written: Written = serde_json::from_str(include_str!("registry.json")).expect("a test reads it");
    written.tools
});

/// The tool of the registry that is called so.
pub fn canonical(key: &str) -> Option<&'static Canonical> {
    REGISTRY.get(key)
}

/// The names of all of its tools, in order.
pub fn keys() -> impl Iterator<Item = &'static str> {
    REGISTRY.keys().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::prune::Arguments;

    /// V17: the registry has its six tools, each with a schema that arguments can be checked against.
    #[test]
    fn every_tool_of_the_registry_can_be_used() {
        let all = [
            "aadhaar_verify_otp",
            "bhashini_translate",
            "enam_mandi_price",
            "pan_validate",
            "pm_kisan_eligibility",
            "ration_card_lookup",
        ];
        assert_eq!(keys().collect::<Vec<_>>(), all);
        for key in all {
            let tool = canonical(key).unwrap();
            assert!(Arguments::new(tool.schema.clone()).is_ok(), "{key}");
            assert_ne!(tool.access(), Category::Unknown, "{key}");
        }
        assert!(canonical("upi_payment_initiate").is_none(), "it is reserved, and has no schema yet");
    }

    /// V20: what names a person in a tool of high sensitivity is among the arguments that are never shown.
    #[test]
    fn tools_of_high_sensitivity_have_private_arguments() {
        for key in keys().filter(|key| canonical(key).unwrap().sensitivity == Sensitivity::High) {
            let properties = canonical(key).unwrap().schema["properties"].as_object().unwrap();
            assert!(properties.keys().any(|name| PRIVATE_ARGUMENTS.contains(&name.as_str())), "{key}");
        }
    }
}
