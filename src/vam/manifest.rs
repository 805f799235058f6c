//! What an action server says of itself, held against what it really offers (V17, V answers 7, 8, 18).

use super::{
    registration::{Accepted, ID_BYTES_MAX, Registration, is_cleared},
    residency::Claim,
    wire::{ActionServerManifest, ToolDeclaration},
};
use crate::{
    config::VamConfig,
    mcp::TOOLS_MAX,
    tool::{
        india::{self, Sensitivity},
        mcp::{Offered, conforms, snake},
    },
};
use std::collections::BTreeSet;

/// Of an id as it is written.
const ID_CHARS_MAX: usize = 64;
/// Of a name or a version that people read.
const TEXT_CHARS_MAX: usize = 200;
/// Of an address.
const URI_BYTES_MAX: usize = 2_048;
/// Of the name of a tool: what MCP recommends as the longest.
const NAME_CHARS_MAX: usize = 128;
/// Of what a tool is said to do.
const DESCRIPTION_CHARS_MAX: usize = 2_048;

pub(super) const TAKEN: &str = "another tool has this name already";

/// Which tools calls can have, and which not.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub accepted: Vec<Accepted>,
    /// With the reason.
    pub rejected: Vec<(String, String)>,
}

/// All that is wrong with a manifest before anybody is asked, each with its field.
pub(super) fn problems(manifest: &ActionServerManifest) -> Vec<String> {
    let mut found: Vec<String> = wrong_id(&manifest.server_id).into_iter().collect();
    let texts = [
        ("display_name", &manifest.display_name, TEXT_CHARS_MAX),
        ("version", &manifest.version, TEXT_CHARS_MAX),
        ("endpoint_uri", &manifest.endpoint_uri, URI_BYTES_MAX),
    ];
    for (field, text, most) in texts {
        if text.chars().count() > most || text.chars().any(char::is_control) {
            found.push(format!("{field}: has to be at most {most} characters that can be seen"));
        }
    }
    if Claim::parse(&manifest.data_residency).is_none() {
        found.push("data_residency: has to be IN_ONLY, ANY, ON_PREM or empty".into());
    }
    if manifest.tools.len() > TOOLS_MAX {
        found.push(format!("tools: more than {TOOLS_MAX}"));
    }
    let mut names = BTreeSet::new();
    for (index, tool) in manifest.tools.iter().enumerate().take(TOOLS_MAX) {
        let seen = |text: &str, most: usize| text.chars().count() <= most && !text.chars().any(char::is_control);
        if tool.name.is_empty() || !seen(&tool.name, NAME_CHARS_MAX) {
            found.push(format!("tools[{index}].name: has to be 1 to {NAME_CHARS_MAX} characters that can be seen"));
        }
        if tool.description.chars().count() > DESCRIPTION_CHARS_MAX || !seen(&tool.registry_key, NAME_CHARS_MAX) {
            found.push(format!("tools[{index}]: description or registry_key is too long"));
        }
        if !names.insert(&tool.name) {
            found.push(format!("tools[{index}].name: is in the list already"));
        }
    }
    found
}

fn wrong_id(id: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if id.is_empty() || id.len() > ID_CHARS_MAX || !id.chars().all(plain) {
        return Some(format!("server_id: has to be 1 to {ID_CHARS_MAX} letters, digits and _ - ."));
    }
    let short = snake(id);
    let is_wrong = short.is_empty() || short.len() > ID_BYTES_MAX;
    is_wrong.then(|| format!("server_id: has to have a letter or a digit, and {ID_BYTES_MAX} characters at most"))
}

/// Each declared tool, or without a declaration each that the server has, against what the server offers. `taken`: why its own
/// name and the one that a model calls it by cannot be had.
pub(super) fn sort(
    declared: &[ToolDeclaration],
    offered: &[Offered],
    registration: &Registration,
    config: &VamConfig,
    taken: impl Fn(&str, &str) -> Option<String>,
) -> Sorted {
    let own = |tool: &Offered| ToolDeclaration { name: tool.name.clone(), ..ToolDeclaration::default() };
    let all: Vec<ToolDeclaration> = match declared {
        [] => offered.iter().take(TOOLS_MAX).map(own).collect(),
        declared => declared.to_vec(),
    };
    let mut sorted = Sorted::default();
    let mut names = BTreeSet::new();
    for tool in all {
        let found = offered.iter().find(|offered| offered.name == tool.name);
        let judged = found.ok_or_else(|| "the server has no tool of this name".to_owned()).and_then(|offered| {
            let accepted = judge(&tool, offered, registration, config)?;
            let exposed = accepted.exposed(&registration.server_id);
            let exposed = exposed.ok_or("name: has no letters or digits to make a name of")?;
            if let Some(why) = taken(&accepted.name, &exposed) {
                return Err(why);
            }
            if !names.insert(exposed) {
                return Err(TAKEN.to_owned());
            }
            Ok(accepted)
        });
        match judged {
            Ok(accepted) => sorted.accepted.push(accepted),
            Err(why) => sorted.rejected.push((tool.name, why)),
        }
    }
    sorted
}

fn judge(
    tool: &ToolDeclaration,
    offered: &Offered,
    registration: &Registration,
    config: &VamConfig,
) -> Result<Accepted, String> {
    let description = if tool.description.is_empty() { offered.description.clone() } else { None };
    let description = description.unwrap_or_else(|| tool.description.clone());
    let description = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    if !tool.is_registry_tool {
        return Ok(Accepted { name: tool.name.clone(), description, registry_key: None });
    }
    let key = if tool.registry_key.is_empty() { &tool.name } else { &tool.registry_key };
    let canonical = india::canonical(key).ok_or("the registry has no tool of this key")?;
    if !conforms(&canonical.schema, &offered.schema) {
        return Err("its inputSchema differs from that of the registry".into());
    }
    if canonical.sensitivity == Sensitivity::High && !is_cleared(&registration.server_id, config) {
        let place = format!("vam.action_servers.{}.high_sensitivity", registration.server_id);
        return Err(format!("it is of high sensitivity, and the gateway's operator has not set {place}"));
    }
    let in_india = registration.local || matches!(registration.claim(), Claim::IndiaOnly | Claim::OnPrem);
    if canonical.in_india && !in_india {
        return Err("only servers in India may have it: data_residency has to be IN_ONLY".into());
    }
    Ok(Accepted { name: tool.name.clone(), description, registry_key: Some(key.clone()) })
}
