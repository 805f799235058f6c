//! One loaded configuration and everything made from it once: providers, toolboxes, clips.
//! Immutable; a call keeps the generation it began with.

use super::{
    clips::{self, Repertoire},
    registries::{Tools, registries},
    workshop::{Definitions, Workshop},
};
use crate::{
    call::TurnOwner,
    config::{Config, Context},
    mcp::LeftOut,
    outbound::RemoteGate,
    provider::{self, Among, Provider},
    tool::{NEEDS_ARI, Registry, ToolSpec, Toolbox, schemas::Dialect},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub struct Generation {
    /// Counts up with each reload.
    pub number: u64,
    pub config: Config,
    pub providers: BTreeMap<String, Arc<dyn Provider>>,
    /// Every tool there is.
    tools: Tools,
    /// What the tenants' tools were made from.
    pub definitions: Definitions,
    /// Version of the fleet's tools with which each MCP server told those that are here.
    told_at: BTreeMap<String, u64>,
    kits: BTreeMap<String, Kit>,
    repertoires: BTreeMap<String, Repertoire>,
}

/// What the calls of one context share.
struct Kit {
    /// With everything that ARI makes possible.
    toolbox: Arc<Toolbox>,
    /// For calls that come by `AudioSocket()`, where nobody can be transferred.
    toolbox_without_ari: Arc<Toolbox>,
    remote_gate: Option<Arc<RemoteGate>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct BuildError {
    pub place: String,
    pub message: String,
}

impl Generation {
    pub(super) fn build(number: u64, config: Config, workshop: &Workshop) -> Result<Self, Vec<BuildError>> {
        let mut errors = Vec::new();
        let mut providers = BTreeMap::new();
        let among = Among { services: &config.services, wards: &workshop.wards };
        for (name, entry) in &config.providers {
            match provider::build_among(&entry.kind, &entry.options, &among) {
                Ok(provider) => drop(providers.insert(name.clone(), provider)),
                Err(problems) => errors.extend(problems.into_iter().map(|problem| BuildError {
                    place: format!("providers.{name}.{}.{}", entry.kind, problem.path),
                    message: match problem.hint {
                        Some(hint) => format!("{}; {hint}", problem.message),
                        None => problem.message,
                    },
                })),
            }
        }
        match Self::assemble(number, config, providers, workshop) {
            Ok(generation) if errors.is_empty() => Ok(generation),
            Ok(_) => Err(errors),
            Err(more) => {
                errors.extend(more);
                Err(errors)
            }
        }
    }

    /// The same configuration with the tools that there are now. Providers, whose voices take seconds to render, stay.
    pub(super) fn renewed(&self, workshop: &Workshop) -> Result<Self, Vec<BuildError>> {
        Self::assemble(self.number + 1, self.config.clone(), self.providers.clone(), workshop)
    }

    fn assemble(
        number: u64,
        config: Config,
        providers: BTreeMap<String, Arc<dyn Provider>>,
        workshop: &Workshop,
    ) -> Result<Self, Vec<BuildError>> {
        let mut errors = Vec::new();
        let mut tools = registries(&config, workshop)?;
        let mut kits = BTreeMap::new();
        for (name, context) in &config.contexts {
            let Some(registry) = tools.registries.get(&context.tenant) else { continue };
            errors.extend(deaf(name, context, &providers));
            let mut foreign = BTreeMap::new();
            let agents = context.providers().filter_map(|provider| providers.get(provider));
            // Each once, so that a mistake is told once.
            let dialects: BTreeSet<Dialect> = agents.filter_map(|provider| provider.dialect()).collect();
            for dialect in dialects {
                let (more, own) = uncarried(registry, name, context, dialect, &tools.guests);
                foreign.extend(more);
                errors.extend(own);
            }
            let kit = Kit::build(registry, context, &foreign.keys().map(String::as_str).collect::<Vec<_>>());
            tools.left_out.extend(foreign.into_values());
            match kit {
                Ok(kit) => drop(kits.insert(name.clone(), kit)),
                Err(message) => errors.push(BuildError { place: format!("contexts.{name}"), message }),
            }
        }
        let specs = kits.iter().map(|(name, kit)| (name.as_str(), kit.toolbox.specs())).collect();
        let repertoires = clips::prepare(&config, &specs, &workshop.studio).unwrap_or_else(|more| {
            errors.extend(more);
            BTreeMap::new()
        });
        if errors.is_empty() {
            let definitions = workshop.definitions.clone();
            let told_at = workshop.mcp.iter().map(|offer| (offer.server().to_owned(), offer.told_at())).collect();
            Ok(Self { number, config, providers, tools, definitions, told_at, kits, repertoires })
        } else {
            Err(errors)
        }
    }

    /// The tools of a context; `ari` says whether the call's channel is under ARI control.
    pub fn toolbox(&self, context: &str, ari: bool) -> Arc<Toolbox> {
        let kit = self.kit(context);
        Arc::clone(if ari { &kit.toolbox } else { &kit.toolbox_without_ari })
    }

    /// The gate that is asked before a tool of this context runs.
    pub fn remote_gate(&self, context: &str) -> Option<Arc<RemoteGate>> {
        self.kit(context).remote_gate.clone()
    }

    /// The tools of each tenant, and those of contexts without one.
    pub fn registries(&self) -> impl Iterator<Item = (Option<&str>, &Registry)> {
        self.tools.registries.iter().map(|(tenant, registry)| (tenant.as_deref(), registry))
    }

    /// Server and own name of a tool of an MCP server, by its exposed name.
    pub fn mcp_tool(&self, exposed: &str) -> Option<(&str, &str)> {
        self.tools.guests.get(exposed).map(|(server, tool)| (server.as_str(), tool.as_str()))
    }

    /// Version of the fleet's tools with which an MCP server told those that are here.
    pub fn told_at(&self, server: &str) -> u64 {
        self.told_at.get(server).copied().unwrap_or_default()
    }

    /// Every tool of an MCP server.
    pub fn mcp_tools(&self) -> &BTreeMap<String, (String, String)> {
        &self.tools.guests
    }

    /// Tools of MCP servers that cannot be used.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.tools.left_out
    }

    /// A tool of this name, whoever may use it.
    pub fn knows(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.registries.values().find_map(|registry| registry.spec(name))
    }

    /// What callers of a context hear without an agent.
    pub fn repertoire(&self, context: &str) -> &Repertoire {
        self.repertoires.get(context).expect("`build` makes one for every context of the same configuration")
    }

    /// The same with another tool instead of a context's own ones.
    #[cfg(test)]
    pub fn with_tool(&self, context: &str, tool: Arc<dyn crate::tool::Tool>) -> Self {
        let mut next = Self::build(self.number, self.config.clone(), &Workshop::closed())
            .unwrap_or_else(|_| panic!("it was built before"));
        let toolbox = Arc::new(Toolbox::new([tool]).expect("a usable schema"));
        let kit = next.kits.get_mut(context).expect("a known context");
        (kit.toolbox, kit.toolbox_without_ari) = (Arc::clone(&toolbox), toolbox);
        next
    }

    fn kit(&self, context: &str) -> &Kit {
        self.kits.get(context).expect("`build` makes a kit for every context of the same configuration")
    }
}

/// Providers that would never know that the caller has spoken.
fn deaf<'a>(
    name: &'a str,
    context: &'a Context,
    providers: &'a BTreeMap<String, Arc<dyn Provider>>,
) -> impl Iterator<Item = BuildError> + 'a {
    let theirs = context.rules.turns.owner == TurnOwner::Provider;
    let deaf = |provider: &&str| providers.get(*provider).is_some_and(|known| !known.traits().detects_speech);
    context.providers().filter(move |_| theirs).filter(deaf).map(move |provider| BuildError {
        place: format!("contexts.{name}.turns.owner"),
        message: format!("the provider {provider} does not find the caller's turns by itself; write `owner: offhook`"),
    })
}

/// What one of a context's providers cannot be told of its tools: a mistake where the tool is ours or the operator's, and
/// left out where it is an MCP server's.
fn uncarried(
    registry: &Registry,
    name: &str,
    context: &Context,
    dialect: Dialect,
    guests: &BTreeMap<String, (String, String)>,
) -> (BTreeMap<String, LeftOut>, Vec<BuildError>) {
    let (mut foreign, mut own) = (BTreeMap::new(), Vec::new());
    let toolbox = registry.toolbox(context.tools.iter().map(String::as_str));
    for (tool, uncarried) in toolbox.uncarried(dialect) {
        let why = format!("{} cannot be told this tool: {}: {}", dialect.label(), uncarried.path, uncarried.reason);
        match guests.get(tool) {
            None => own.push(BuildError { place: format!("contexts.{name}.tools.{tool}"), message: why }),
            Some((server, own_name)) => {
                let reason = format!("contexts.{name}: {why}");
                let out = LeftOut { server: server.clone(), tool: own_name.clone(), reason };
                foreign.entry(tool.to_owned()).or_insert(out);
            }
        }
    }
    (foreign, own)
}

impl Kit {
    fn build(registry: &Registry, context: &Context, without: &[&str]) -> Result<Self, String> {
        let names = || context.tools.iter().map(String::as_str).filter(|name| !without.contains(name));
        let remote_gate = match context.policy.remote_gate.clone() {
            None => None,
            Some(gate) => {
                let gate = RemoteGate::new(gate.url, gate.token, gate.timeout);
                Some(Arc::new(gate.map_err(|error| format!("policy.gate.remote: {error}"))?))
            }
        };
        Ok(Self {
            remote_gate,
            toolbox: Arc::new(registry.toolbox(names())),
            toolbox_without_ari: Arc::new(registry.toolbox(names().filter(|name| !NEEDS_ARI.contains(name)))),
        })
    }
}
