//! The tools of the running generation, as the page shows them.

use super::{Shared, generation::Generation};
use crate::{
    http::{RegisteredTool, TenantTools, ToolFigures, ToolPolicyView},
    tool::{Registry, ToolSpec, UnknownArgs},
};
use std::{collections::BTreeMap, time::Duration};

impl Shared {
    /// By tenant; the tools of contexts without one come first.
    pub(super) fn inventory(&self) -> Vec<TenantTools> {
        let generation = self.generation.load();
        let outcomes = self.metrics.of_tools();
        let figures = |name: &str| self.figures(name, &outcomes);
        let tenants = generation.registries().map(|(tenant, registry)| TenantTools {
            tenant: tenant.map(str::to_owned),
            version: registry.version().to_owned(),
            tools: tools(&generation, tenant, registry, &figures),
        });
        tenants.collect()
    }

    fn figures(&self, name: &str, outcomes: &BTreeMap<String, BTreeMap<String, u64>>) -> ToolFigures {
        let usual = self.latencies.usual(name);
        ToolFigures {
            outcomes: outcomes.get(name).cloned().unwrap_or_default(),
            median_ms: usual.map(|usual| ms(usual.median)),
            mostly_ms: usual.map(|usual| ms(usual.mostly)),
        }
    }
}

fn tools(
    generation: &Generation,
    tenant: Option<&str>,
    registry: &Registry,
    figures: &dyn Fn(&str) -> ToolFigures,
) -> Vec<RegisteredTool> {
    let private = registry.taken_for_private();
    let contexts = |name: &str| -> Vec<String> {
        let contexts = generation.config.contexts.iter();
        let own = contexts.filter(|(_, context)| context.tenant.as_deref() == tenant);
        own.filter(|(_, context)| context.tools.iter().any(|tool| tool == name)).map(|(name, _)| name.clone()).collect()
    };
    let tool = |spec: &ToolSpec| RegisteredTool {
        name: spec.name.clone(),
        kind: spec.executor.label(),
        server: spec.executor.server().map(str::to_owned),
        server_tool: generation.mcp_tool(&spec.name).map(|(_, tool)| tool.to_owned()),
        description: spec.description.clone(),
        contexts: contexts(&spec.name),
        policy: policy(spec, private.contains(&spec.name.as_str())),
        parameters: spec.parameters.clone(),
        figures: figures(&spec.name),
    };
    registry.names().filter_map(|name| registry.spec(name)).map(tool).collect()
}

fn policy(spec: &ToolSpec, taken_for_private: bool) -> ToolPolicyView {
    let modes = [(spec.modes.voice, "voice"), (spec.modes.text, "text")];
    ToolPolicyView {
        version: spec.version.clone(),
        category: spec.kind.label(),
        side_effects: spec.side_effects.label(),
        idempotent: spec.idempotent,
        access: spec.access.label(),
        risk_domain: spec.risk_domain.label(),
        taken_for_private,
        requires_confirmation: spec.requires_confirmation,
        standing_approval: spec.standing_approval,
        confirm: spec.confirm_template.clone(),
        requires_authorization: spec.requires_authorization.label(),
        authenticates: spec.authenticates.map(|state| state.label()),
        modes: modes.into_iter().filter(|(is, _)| *is).map(|(_, mode)| mode).collect(),
        unknown_arguments: match spec.unknown_args {
            UnknownArgs::Drop => "drop",
            UnknownArgs::Reject => "reject",
        },
        secret_arguments: spec.secret_args.clone(),
        timeout_ms: ms(spec.timeout),
        latency_budget_ms: ms(spec.latency_budget),
        wait: spec.wait,
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
