//! One loaded configuration and everything made from it once: providers, toolboxes, apology clips.
//! Immutable; a call keeps the generation it began with.

use crate::{
    asterisk::{ari::AriClient, extension_status::ExtensionStatus},
    audio::Clip,
    config::{Config, Context},
    provider::{self, Provider},
    tool::{
        CHECK_EXTENSION_STATUS, LEAVE_VOICEMAIL, NEEDS_ARI, REQUEST_TRANSCRIPT, TAKE_MESSAGE, Tool, Toolbox, built_in,
        leave_voicemail, request_transcript, take_message,
    },
};
use std::{collections::BTreeMap, sync::Arc};

pub struct Generation {
    /// Counts up with each reload.
    pub number: u64,
    pub config: Config,
    pub providers: BTreeMap<String, Arc<dyn Provider>>,
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
    /// `ari`: for the tools that ask Asterisk something.
    pub fn build(number: u64, config: Config, ari: Option<&AriClient>) -> Result<Self, Vec<BuildError>> {
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
        let mut kits = BTreeMap::new();
        for (name, context) in &config.contexts {
            match Kit::build(&config, context, ari) {
                Ok(kit) => drop(kits.insert(name.clone(), kit)),
                Err(message) => errors.push(BuildError { place: format!("contexts.{name}"), message }),
            }
        }
        if errors.is_empty() { Ok(Self { number, config, providers, kits }) } else { Err(errors) }
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
    pub fn with_tool(&self, context: &str, tool: Arc<dyn Tool>) -> Self {
        let mut next =
            Self::build(self.number, self.config.clone(), None).unwrap_or_else(|_| panic!("it was built before"));
        let toolbox = Arc::new(Toolbox::new([tool]).expect("a usable schema"));
        let kit = next.kits.get_mut(context).expect("a known context");
        (kit.toolbox, kit.toolbox_without_ari) = (Arc::clone(&toolbox), toolbox);
        next
    }

    fn kit(&self, context: &str) -> &Kit {
        self.kits.get(context).expect("`build` makes a kit for every context of the same configuration")
    }
}

impl Kit {
    fn build(config: &Config, context: &Context, ari: Option<&AriClient>) -> Result<Self, String> {
        let destinations: BTreeMap<String, String> =
            config.destinations.iter().map(|(name, place)| (name.clone(), place.description.clone())).collect();
        let mailboxes = &config.voicemail.mailboxes;
        let mailboxes: BTreeMap<String, String> =
            mailboxes.iter().map(|(name, mailbox)| (name.clone(), mailbox.description.clone())).collect();
        let addresses = || config.mail.iter().flat_map(|mail| mail.mailboxes.keys().cloned()).collect::<Vec<_>>();
        let tools = context.tools.iter().filter_map(|name| match &**name {
            TAKE_MESSAGE => Some(take_message(addresses())),
            REQUEST_TRANSCRIPT => Some(request_transcript(addresses())),
            LEAVE_VOICEMAIL => Some(leave_voicemail(mailboxes.clone())),
            CHECK_EXTENSION_STATUS => {
                let status = ExtensionStatus::new(ari?.clone(), config.extensions.clone());
                Some(Arc::new(status) as Arc<dyn Tool>)
            }
            name => built_in(name, &destinations),
        });
        let tools: Vec<Arc<dyn Tool>> = tools.collect();
        let without_ari = tools.iter().filter(|tool| !NEEDS_ARI.contains(&&*tool.spec().name)).cloned();
        let toolbox = |tools: Vec<Arc<dyn Tool>>| Toolbox::new(tools).map(Arc::new).map_err(|error| error.to_string());
        let apology = match &context.apology {
            None => Clip::built_in_apology(),
            Some(path) => Clip::open(path).map_err(|error| format!("apology {}: {error}", path.display()))?,
        };
        Ok(Self {
            toolbox_without_ari: toolbox(without_ari.collect())?,
            toolbox: toolbox(tools)?,
            apology: Arc::new(apology),
        })
    }
}
