//! What a definition is to the model and to the policy.

use super::definition::{Action, Definition, Parameter};
use crate::gate::{Category as Access, RiskDomain};
use crate::tool::{
    Executor, SideEffects, ToolKind, ToolSpec,
    memory::{Path, Root},
};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Of a tool that makes requests: its requests end a little earlier, so that `on_failure` still runs.
const TIMEOUT_WITH_REQUESTS: Duration = Duration::from_secs(10);

/// What the actions of a tool do, all of them taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Reads what the call knows, speaks, logs.
    Within,
    /// Reads elsewhere.
    Fetches,
    Writes,
}

/// What follows from the actions alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Derived {
    pub(super) kind: ToolKind,
    pub(super) side_effects: SideEffects,
    pub(super) access: Access,
}

impl Definition {
    /// Policy that the definition does not state is derived from its actions (D answer 28).
    pub fn spec(&self) -> ToolSpec {
        let (policy, reach) = (&self.policy, self.reach());
        let plain = ToolSpec::new(self.name.clone(), self.description.clone(), self.schema());
        let Derived { kind, side_effects, access } = self.derived();
        let kind = policy.category.unwrap_or(kind);
        let timeout = if self.makes_requests() { TIMEOUT_WITH_REQUESTS } else { plain.timeout };
        ToolSpec {
            version: policy.version.clone().unwrap_or(plain.version),
            kind,
            side_effects: policy.side_effects.unwrap_or(side_effects),
            idempotent: policy.idempotent.unwrap_or(reach != Reach::Writes),
            access: policy.access.unwrap_or(access),
            risk_domain: policy.risk_domain.unwrap_or(RiskDomain::Unknown),
            modes: policy.modes.unwrap_or(plain.modes),
            requires_confirmation: policy.requires_confirmation.unwrap_or(plain.requires_confirmation),
            standing_approval: policy.standing_approval.unwrap_or(plain.standing_approval),
            confirm_template: policy.confirm_template.clone(),
            unknown_args: policy.unknown_args.unwrap_or(plain.unknown_args),
            secret_args: policy.secret_args.clone(),
            timeout: policy.timeout.unwrap_or(timeout),
            latency_budget: policy.latency_budget.unwrap_or(kind.latency_target()),
            wait: policy.wait.unwrap_or(plain.wait),
            authenticates: policy.authenticates,
            executor: Executor::Declarative,
            sends: self.makes_requests(),
            ..plain
        }
    }

    pub(super) fn derived(&self) -> Derived {
        let (kind, side_effects, access) = match self.reach() {
            Reach::Within if self.reads_user() => (ToolKind::Utility, SideEffects::None, Access::PrivateRead),
            Reach::Within => (ToolKind::Utility, SideEffects::None, Access::PublicRead),
            Reach::Fetches => (ToolKind::Retrieval, SideEffects::ReadOnly, Access::PrivateRead),
            Reach::Writes => (ToolKind::Action, SideEffects::Writes, Access::Write),
        };
        Derived { kind, side_effects, access }
    }

    /// JSON Schema of the arguments (D answer 12).
    pub fn schema(&self) -> Value {
        let properties: Map<String, Value> =
            self.parameters.iter().map(|parameter| (parameter.name.clone(), property(parameter))).collect();
        let mut schema = json!({ "type": "object", "properties": properties });
        let required = self.parameters.iter().filter(|parameter| parameter.required && parameter.default.is_none());
        let required: Vec<&str> = required.map(|parameter| parameter.name.as_str()).collect();
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema["additionalProperties"] = false.into();
        schema
    }

    pub(super) fn is_idempotent(&self) -> bool {
        self.policy.idempotent.unwrap_or(self.reach() != Reach::Writes)
    }

    fn makes_requests(&self) -> bool {
        self.every_action().iter().any(|action| matches!(action, Action::ApiCall(_)))
    }

    fn reach(&self) -> Reach {
        let reach = |action: &&Action| match action {
            Action::ApiCall(call) if call.method.only_reads() => Reach::Fetches,
            Action::ApiCall(_)
            | Action::ContextSet(_)
            | Action::ContextDelete(_)
            | Action::Handoff(_)
            | Action::FlagSet { .. }
            | Action::FlagClear { .. } => Reach::Writes,
            // What these keep of what they read stays in the call.
            Action::ContextGet { .. }
            | Action::Respond { .. }
            | Action::Conditional { .. }
            | Action::Validate(_)
            | Action::Transform(_)
            | Action::Log { .. } => Reach::Within,
        };
        self.every_action().iter().map(reach).max_by_key(|reach| *reach as u8).unwrap_or(Reach::Within)
    }

    fn reads_user(&self) -> bool {
        let mut paths: Vec<&Path> = Vec::new();
        for action in self.every_action() {
            action.paths(&mut paths);
        }
        paths.iter().any(|path| path.root == Root::User)
    }
}

fn property(parameter: &Parameter) -> Value {
    let mut map = Map::new();
    map.insert("type".into(), parameter.kind.label().into());
    if let Some(description) = &parameter.description {
        map.insert("description".into(), description.as_str().into());
    }
    if !parameter.choices.is_empty() {
        map.insert("enum".into(), parameter.choices.clone().into());
    }
    if parameter.kind == super::definition::Kind::Array {
        // Some providers refuse an array that says nothing of its items.
        map.insert("items".into(), parameter.items.map_or_else(|| json!({}), |kind| json!({ "type": kind.label() })));
    }
    if let Some(default) = &parameter.default {
        map.insert("default".into(), default.clone());
    }
    Value::Object(map)
}
