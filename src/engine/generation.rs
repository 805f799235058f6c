//! One loaded configuration and everything made from it once: providers, toolboxes, apology clips.
//! Immutable; a call keeps the generation it began with.

use super::{
    registries::registries,
    workshop::{Definitions, Workshop},
};
use crate::{
    audio::Clip,
    config::{Config, Context},
    outbound::RemoteGate,
    provider::{self, Provider},
    tool::{NEEDS_ARI, Registry, ToolSpec, Toolbox},
};
use std::{collections::BTreeMap, sync::Arc};

pub struct Generation {
    /// Counts up with each reload.
    pub number: u64,
    pub config: Config,
    pub providers: BTreeMap<String, Arc<dyn Provider>>,
    /// Every tool there is, by the tenant whose they are; `None` has the built-in ones alone.
    registries: BTreeMap<Option<String>, Registry>,
    /// What the tenants' tools were made from.
    pub definitions: Definitions,
    kits: BTreeMap<String, Kit>,
}

/// What the calls of one context share.
struct Kit {
    /// With everything that ARI makes possible.
    toolbox: Arc<Toolbox>,
    /// For calls that come by `AudioSocket()`, where nobody can be transferred.
    toolbox_without_ari: Arc<Toolbox>,
    remote_gate: Option<Arc<RemoteGate>>,
    apology: Arc<Clip>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct BuildError {
    pub place: String,
    pub message: String,
}

impl Generation {
    pub fn build(number: u64, config: Config, workshop: &Workshop) -> Result<Self, Vec<BuildError>> {
        let mut errors = Vec::new();
        let mut providers = BTreeMap::new();
        for (name, entry) in &config.providers {
            match provider::build(&entry.kind, &entry.options) {
                Ok(provider) => drop(providers.insert(name.clone(), provider)),
                Err(problems) => errors.extend(problems.into_iter().map(|problem| BuildError {
                    place: format!("providers.{name}.{}.{}", entry.kind, problem.path),
                    message: problem.message,
                })),
            }
        }
        let registries = match registries(&config, workshop) {
            Ok(registries) => registries,
            Err(broken) => {
                errors.extend(broken);
                return Err(errors);
            }
        };
        let mut kits = BTreeMap::new();
        for (name, context) in &config.contexts {
            let Some(registry) = registries.get(&context.tenant) else { continue };
            match Kit::build(registry, context) {
                Ok(kit) => {
                    errors.extend(uncarried(&kit, name, providers.get(&context.provider)));
                    kits.insert(name.clone(), kit);
                }
                Err(message) => errors.push(BuildError { place: format!("contexts.{name}"), message }),
            }
        }
        if errors.is_empty() {
            let definitions = workshop.definitions.clone();
            Ok(Self { number, config, providers, registries, definitions, kits })
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

    /// One line about the tools of each tenant.
    pub fn registries(&self) -> impl Iterator<Item = (&str, &Registry)> {
        self.registries.iter().map(|(tenant, registry)| (tenant.as_deref().unwrap_or("(built-in)"), registry))
    }

    /// A tool of this name, whoever may use it.
    pub fn knows(&self, name: &str) -> Option<&ToolSpec> {
        self.registries.values().find_map(|registry| registry.spec(name))
    }

    pub fn apology(&self, context: &str) -> Arc<Clip> {
        Arc::clone(&self.kit(context).apology)
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

/// What a context's own provider cannot be told of its tools.
fn uncarried(kit: &Kit, context: &str, provider: Option<&Arc<dyn Provider>>) -> Vec<BuildError> {
    let Some(dialect) = provider.and_then(|provider| provider.dialect()) else { return Vec::new() };
    let reasons = kit.toolbox.uncarried(dialect).into_iter();
    reasons
        .map(|(tool, reason)| BuildError {
            place: format!("contexts.{context}.tools.{tool}"),
            message: format!("{} cannot be told this tool: {}: {}", dialect.label(), reason.path, reason.reason),
        })
        .collect()
}

impl Kit {
    fn build(registry: &Registry, context: &Context) -> Result<Self, String> {
        let names = || context.tools.iter().map(String::as_str);
        let apology = match &context.apology {
            None => Clip::built_in_apology(),
            Some(path) => Clip::open(path).map_err(|error| format!("apology {}: {error}", path.display()))?,
        };
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
            apology: Arc::new(apology),
        })
    }
}
