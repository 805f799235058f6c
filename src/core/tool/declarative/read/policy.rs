//! The `policy` of a definition: what its actions cannot tell.

use super::{
    Reader,
    pieces::{TEXT_BYTES_MAX, join},
};
use crate::{
    gate::{AuthState, Category as Access, RiskDomain},
    tool::{
        Modes, SideEffects, ToolKind, UnknownArgs,
        declarative::definition::{Definition, Policy, label},
    },
};
use serde_json::Value;

pub(in crate::tool::declarative) const CATEGORIES: [(&str, ToolKind); 3] =
    [("retrieval", ToolKind::Retrieval), ("action", ToolKind::Action), ("utility", ToolKind::Utility)];
pub(in crate::tool::declarative) const SIDE_EFFECTS: [(&str, SideEffects); 3] =
    [("none", SideEffects::None), ("read_only", SideEffects::ReadOnly), ("writes", SideEffects::Writes)];
pub(in crate::tool::declarative) const ACCESS: [(&str, Access); 4] = [
    ("public_read", Access::PublicRead),
    ("private_read", Access::PrivateRead),
    ("write", Access::Write),
    ("unknown", Access::Unknown),
];
pub(in crate::tool::declarative) const RISK_DOMAINS: [(&str, RiskDomain); 14] = [
    ("devops", RiskDomain::Devops),
    ("finance", RiskDomain::Finance),
    ("education", RiskDomain::Education),
    ("hr", RiskDomain::Hr),
    ("legal", RiskDomain::Legal),
    ("pharma", RiskDomain::Pharma),
    ("healthcare", RiskDomain::Healthcare),
    ("commerce", RiskDomain::Commerce),
    ("customer_support", RiskDomain::CustomerSupport),
    ("security", RiskDomain::Security),
    ("research", RiskDomain::Research),
    ("personal_productivity", RiskDomain::PersonalProductivity),
    ("public_information", RiskDomain::PublicInformation),
    ("unknown", RiskDomain::Unknown),
];
pub(in crate::tool::declarative) const AUTH_STATES: [(&str, AuthState); 5] = [
    ("none", AuthState::None),
    ("user_claimed", AuthState::UserClaimed),
    ("authenticated", AuthState::Authenticated),
    ("validated", AuthState::Validated),
    ("confirmed", AuthState::Confirmed),
];
pub(in crate::tool::declarative) const UNKNOWN_ARGS: [(&str, UnknownArgs); 2] =
    [("drop", UnknownArgs::Drop), ("reject", UnknownArgs::Reject)];

const FIELDS: [&str; 16] = [
    "category",
    "side_effects",
    "access",
    "risk_domain",
    "idempotent",
    "requires_confirmation",
    "standing_approval",
    "confirm_template",
    "timeout",
    "latency_budget",
    "wait",
    "modes",
    "secret_args",
    "authenticates",
    "unknown_args",
    "version",
];
/// A tool a caller waits longer for is not one for a call.
const TIMEOUT_SECONDS_MAX: f64 = 120.0;
const VERSION_BYTES_MAX: usize = 32;

impl Reader<'_> {
    pub(super) fn policy(&mut self, value: Option<&Value>, at: &str) -> Policy {
        let Some(map) = value.and_then(|value| self.object(value, at)) else { return Policy::default() };
        self.fields(map, at, &FIELDS, &[]);
        let place = |name: &str| join(at, name);
        macro_rules! choice {
            ($name:literal, $all:expr) => {
                map.get($name).and_then(|value| self.choice(value, &place($name), &$all))
            };
        }
        let text = |name: &str| map.get(name).map(|value| (value, place(name)));
        let policy = Policy {
            category: choice!("category", CATEGORIES),
            side_effects: choice!("side_effects", SIDE_EFFECTS),
            access: choice!("access", ACCESS),
            risk_domain: choice!("risk_domain", RISK_DOMAINS),
            authenticates: choice!("authenticates", AUTH_STATES),
            unknown_args: choice!("unknown_args", UNKNOWN_ARGS),
            idempotent: self.flag(map, "idempotent", at),
            requires_confirmation: self.flag(map, "requires_confirmation", at),
            standing_approval: self.flag(map, "standing_approval", at),
            wait: self.flag(map, "wait", at),
            confirm_template: text("confirm_template").and_then(|(value, at)| self.text(value, &at, TEXT_BYTES_MAX)),
            version: text("version").and_then(|(value, at)| self.text(value, &at, VERSION_BYTES_MAX)),
            timeout: self.seconds(map, "timeout", at, 0.1, TIMEOUT_SECONDS_MAX),
            latency_budget: self.seconds(map, "latency_budget", at, 0.01, TIMEOUT_SECONDS_MAX),
            modes: map.contains_key("modes").then(|| self.modes(map.get("modes"), &place("modes"))),
            secret_args: self.words(map.get("secret_args"), &place("secret_args"), super::PARAMETERS_MAX),
        };
        for (index, argument) in policy.secret_args.iter().enumerate() {
            if !self.parameters.contains(argument) {
                self.problem(&format!("{at}.secret_args[{index}]"), format!("there is no parameter {argument}"));
            }
        }
        self.confirmation(&policy, &place("confirm_template"));
        policy
    }

    /// Who may change a definition does not approve of it: what asks for less than follows from the actions is the
    /// operator's to say (G answer 7).
    pub(super) fn loosening(&mut self, definition: &Definition, at: &str) {
        if self.surroundings.trusted {
            return;
        }
        let (policy, derived) = (&definition.policy, definition.derived());
        let own = "less than follows from the actions, which is";
        let mut found = Vec::new();
        if policy.standing_approval == Some(true) {
            found.push(("standing_approval", "standing_approval", "a tool does not approve of itself".to_owned()));
        }
        if policy.access.is_some_and(|access| strictness(access) < strictness(derived.access)) {
            found.push(("access", "access", format!("{own} {}", label(&ACCESS, derived.access))));
        }
        if policy.authenticates.is_some_and(|state| state != AuthState::None) {
            let message = "a tool does not say by itself that it shows who the caller is";
            found.push(("authenticates", "authenticates", message.to_owned()));
        }
        // Look-ups have a budget of their own, inside the one for all tools.
        if derived.kind == ToolKind::Retrieval && policy.category.is_some_and(|kind| kind != ToolKind::Retrieval) {
            found.push(("category", "kind", format!("{own} {}", label(&CATEGORIES, derived.kind))));
        }
        for (field, key, message) in found {
            let remedy = format!(
                "the operator can say so in the configuration: tools.{}.{key}, or trusted: true for the tenant",
                definition.name
            );
            self.hinted(&join(at, field), message, Some(remedy));
        }
    }

    /// What is read out before a yes names parameters, and no secret one.
    fn confirmation(&mut self, policy: &Policy, at: &str) {
        let pieces = policy.confirm_template.as_deref().unwrap_or_default().split('{').skip(1);
        for name in pieces.map(|piece| piece.split('}').next().unwrap_or_default()) {
            if !self.parameters.iter().any(|parameter| parameter == name) {
                self.problem(at, format!("there is no parameter \"{name}\""));
            } else if policy.secret_args.iter().any(|secret| secret == name) {
                self.problem(at, format!("{name} is secret: it is not read out"));
            }
        }
    }

    fn modes(&mut self, value: Option<&Value>, at: &str) -> Modes {
        let modes = self.words(value, at, 2);
        for (index, mode) in modes.iter().enumerate() {
            if mode != "voice" && mode != "text" {
                self.problem(&format!("{at}[{index}]"), "has to be voice or text");
            }
        }
        let has = |name: &str| modes.iter().any(|mode| mode == name);
        Modes { voice: has("voice"), text: has("text") }
    }
}

/// How much the contract gate wants before such a tool runs.
const fn strictness(access: Access) -> u8 {
    match access {
        Access::PublicRead => 0,
        Access::PrivateRead => 1,
        Access::Write => 2,
        Access::Unknown => 3,
    }
}
