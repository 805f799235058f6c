//! One loaded configuration and everything made from it once: providers, toolboxes, apology clips.
//! Immutable; a call keeps the generation it began with.

use crate::{
    audio::Clip,
    config::{Config, Context},
    provider::{self, Provider},
    tool::{BUILT_IN, BrokenTool, Registry, TRANSFER, Toolbox, built_in},
};
use std::{collections::BTreeMap, sync::Arc};

pub struct Generation {
    /// Counts up with each reload.
    pub number: u64,
    pub config: Config,
    pub providers: BTreeMap<String, Arc<dyn Provider>>,
    /// Every tool there is.
    pub registry: Registry,
    kits: BTreeMap<String, Kit>,
}

/// What the calls of one context share.
struct Kit {
    /// With everything that ARI makes possible.
    toolbox: Arc<Toolbox>,
    /// For calls that come by `AudioSocket()`, where nobody can be transferred.
    toolbox_without_ari: Arc<Toolbox>,
    apology: Arc<Clip>,
}

#[derive(Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct BuildError {
    pub place: String,
    pub message: String,
}

impl Generation {
    pub fn build(number: u64, config: Config) -> Result<Self, Vec<BuildError>> {
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
        let registry = match registry(&config) {
            Ok(registry) => registry,
            Err(broken) => {
                errors.extend(
                    broken
                        .into_iter()
                        .map(|tool| BuildError { place: format!("tools.{}", tool.name), message: tool.message }),
                );
                return Err(errors);
            }
        };
        let mut kits = BTreeMap::new();
        for (name, context) in &config.contexts {
            match Kit::build(&registry, context) {
                Ok(kit) => {
                    errors.extend(uncarried(&kit, name, providers.get(&context.provider)));
                    kits.insert(name.clone(), kit);
                }
                Err(message) => errors.push(BuildError { place: format!("contexts.{name}"), message }),
            }
        }
        if errors.is_empty() { Ok(Self { number, config, providers, registry, kits }) } else { Err(errors) }
    }

    /// The tools of a context; `ari` says whether the call's channel is under ARI control.
    pub fn toolbox(&self, context: &str, ari: bool) -> Arc<Toolbox> {
        let kit = self.kit(context);
        Arc::clone(if ari { &kit.toolbox } else { &kit.toolbox_without_ari })
    }

    pub fn apology(&self, context: &str) -> Arc<Clip> {
        Arc::clone(&self.kit(context).apology)
    }

    /// The same with another tool instead of a context's own ones.
    #[cfg(test)]
    pub fn with_tool(&self, context: &str, tool: Arc<dyn crate::tool::Tool>) -> Self {
        let mut next = Self::build(self.number, self.config.clone()).unwrap_or_else(|_| panic!("it was built before"));
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

fn registry(config: &Config) -> Result<Registry, Vec<BrokenTool>> {
    let destinations: BTreeMap<String, String> =
        config.destinations.iter().map(|(name, place)| (name.clone(), place.description.clone())).collect();
    let tools = BUILT_IN.iter().filter_map(|name| built_in(name, &destinations));
    Registry::with(tools, |spec| {
        if let Some(rules) = config.tool_rules.get(&spec.name) {
            rules.apply(spec);
        }
    })
}

impl Kit {
    fn build(registry: &Registry, context: &Context) -> Result<Self, String> {
        let names = || context.tools.iter().map(String::as_str);
        let apology = match &context.apology {
            None => Clip::built_in_apology(),
            Some(path) => Clip::open(path).map_err(|error| format!("apology {}: {error}", path.display()))?,
        };
        Ok(Self {
            toolbox: Arc::new(registry.toolbox(names())),
            toolbox_without_ari: Arc::new(registry.toolbox(names().filter(|name| *name != TRANSFER))),
            apology: Arc::new(apology),
        })
    }
}
