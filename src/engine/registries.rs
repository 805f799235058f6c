//! All tools of a configuration: the built-in ones and each tenant's own, under the operator's rules.

use super::{generation::BuildError, workshop::Workshop};
use crate::{
    asterisk::extension_status::ExtensionStatus,
    config::{Config, Tenant},
    tool::{
        BUILT_IN, CHECK_EXTENSION_STATUS, LEAVE_VOICEMAIL, REQUEST_TRANSCRIPT, Registry, TAKE_MESSAGE, Tool, ToolSpec,
        built_in,
        declarative::{DeclarativeTool, Definition},
        leave_voicemail, request_transcript, take_message,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// By the tenant whose they are; `None` has the built-in ones alone.
///
/// # Errors
/// Every definition and every schema that cannot be used.
pub(super) fn registries(
    config: &Config,
    workshop: &Workshop,
) -> Result<BTreeMap<Option<String>, Registry>, Vec<BuildError>> {
    let amend = |spec: &mut ToolSpec| {
        if let Some(rules) = config.tool_rules.get(&spec.name) {
            rules.apply(spec);
        }
    };
    let mut errors = Vec::new();
    let mut registries = BTreeMap::new();
    let tenants = config.tenants.iter().map(|(name, tenant)| (Some(name), Some(tenant)));
    for (name, tenant) in tenants.chain([(None, None)]) {
        let own = match (name, tenant) {
            (Some(name), Some(tenant)) => declarative(name, tenant, workshop, &mut errors),
            _ => Vec::new(),
        };
        match Registry::with(built_ins(config, workshop).into_iter().chain(own), amend) {
            Ok(registry) => drop(registries.insert(name.cloned(), registry)),
            Err(broken) => errors.extend(
                broken
                    .into_iter()
                    .map(|tool| BuildError { place: format!("tools.{}", tool.name), message: tool.message }),
            ),
        }
    }
    if errors.is_empty() { Ok(registries) } else { Err(errors) }
}

/// A tenant's own tools.
fn declarative(name: &str, tenant: &Tenant, workshop: &Workshop, errors: &mut Vec<BuildError>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for value in workshop.definitions.get(name).into_iter().flatten() {
        match Definition::read(value, &tenant.surroundings) {
            Ok(definition) => tools.push(Arc::new(DeclarativeTool::new(
                Arc::new(definition),
                Arc::clone(&workshop.fetch),
                jiff::Timestamp::now,
                Arc::clone(&workshop.listener),
            ))),
            Err(problems) => {
                let tool = value.get("name").and_then(serde_json::Value::as_str).unwrap_or("(no name)");
                errors.extend(problems.into_iter().map(|problem| BuildError {
                    place: format!("tenants.{name}: {tool}: {}", problem.path),
                    message: match problem.hint {
                        Some(hint) => format!("{} ({hint})", problem.message),
                        None => problem.message,
                    },
                }));
            }
        }
    }
    tools
}

/// The built-in tools that this configuration has what it takes for.
fn built_ins(config: &Config, workshop: &Workshop) -> Vec<Arc<dyn Tool>> {
    let destinations: BTreeMap<String, String> =
        config.destinations.iter().map(|(name, place)| (name.clone(), place.description.clone())).collect();
    let mailboxes: BTreeMap<String, String> =
        config.voicemail.mailboxes.iter().map(|(name, mailbox)| (name.clone(), mailbox.description.clone())).collect();
    let addresses = || config.mail.iter().flat_map(|mail| mail.mailboxes.keys().cloned()).collect::<Vec<_>>();
    let tool = |name: &&str| match *name {
        TAKE_MESSAGE => Some(take_message(addresses())),
        REQUEST_TRANSCRIPT => Some(request_transcript(addresses())),
        LEAVE_VOICEMAIL => Some(leave_voicemail(mailboxes.clone())),
        CHECK_EXTENSION_STATUS => {
            let status = ExtensionStatus::new(workshop.ari.clone()?, config.extensions.clone());
            Some(Arc::new(status) as Arc<dyn Tool>)
        }
        name => built_in(name, &destinations),
    };
    BUILT_IN.iter().filter_map(tool).collect()
}
