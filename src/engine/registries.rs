//! All tools of a configuration: the built-in ones and each tenant's own, under the operator's rules.

use super::{generation::BuildError, workshop::Workshop};
use crate::{
    asterisk::extension_status::ExtensionStatus,
    config::{Config, McpTransport, Tenant, vam::ID_PREFIX},
    mcp::{Guest, LeftOut},
    tool::{
        BUILT_IN, CHECK_EXTENSION_STATUS, Executor, LEAVE_VOICEMAIL, REQUEST_TRANSCRIPT, Registry, TAKE_MESSAGE, Tool,
        ToolSpec, built_in,
        declarative::{DeclarativeTool, Definition},
        leave_voicemail,
        mcp::classify,
        request_transcript, take_message,
    },
    vam::ActionTool,
    wall_clock,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All tools there are.
pub(super) struct Tools {
    /// By the tenant whose they are; `None` has the built-in ones and those of MCP servers alone.
    pub registries: BTreeMap<Option<String>, Registry>,
    /// Tools of MCP servers by their exposed names: server, and the server's own name of it.
    pub guests: BTreeMap<String, (String, String)>,
    /// Tools of MCP servers that cannot be used.
    pub left_out: Vec<LeftOut>,
}

/// # Errors
/// Every definition and every schema that cannot be used. What MCP servers bring is no error: it is left out.
pub(super) fn registries(config: &Config, workshop: &Workshop) -> Result<Tools, Vec<BuildError>> {
    let amend = |spec: &mut ToolSpec| {
        if let Executor::Mcp(server) = &spec.executor {
            let transport = config.mcp.servers.get(server).map(|server| &server.transport);
            spec.sends = transport.is_none_or(McpTransport::sends);
        }
        if let Some(rules) = config.tool_rules.get(&spec.name) {
            // An MCP server says nothing that counts of what its tool touches: kind and effects follow the operator's word.
            if let (Executor::Mcp(_) | Executor::Vam(_), Some(access)) = (&spec.executor, rules.access) {
                classify(spec, access);
            }
            rules.apply(spec);
        }
    };
    let (guests, mut left_out) = guests(config, workshop);
    let mut errors = Vec::new();
    let mut registries = BTreeMap::new();
    let mut names = BTreeMap::new();
    let tenants = config.tenants.iter().map(|(name, tenant)| (Some(name), Some(tenant)));
    for (name, tenant) in tenants.chain([(None, None)]) {
        let own = match (name, tenant) {
            (Some(name), Some(tenant)) => declarative(name, tenant, workshop, &mut errors),
            _ => Vec::new(),
        };
        let tools: Vec<_> = built_ins(config, workshop).into_iter().chain(own).collect();
        for error in tools.iter().flat_map(|tool| questions(config, &tool.spec())) {
            // A built-in tool is each tenant's.
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        match Registry::with_guests(tools, guests.iter().map(|guest| Arc::clone(&guest.tool)), amend) {
            Ok((registry, refused)) => {
                for (index, reason) in &refused {
                    let Guest { server, name, .. } = &guests[*index];
                    let refused = LeftOut { server: server.clone(), tool: name.clone(), reason: reason.clone() };
                    if !left_out.contains(&refused) {
                        left_out.push(refused);
                    }
                }
                let taken = guests.iter().enumerate().filter(|(index, _)| !refused.iter().any(|(out, _)| out == index));
                names.extend(
                    taken.map(|(_, guest)| (guest.tool.spec().name, (guest.server.clone(), guest.name.clone()))),
                );
                registries.insert(name.cloned(), registry);
            }
            Err(broken) => errors.extend(
                broken
                    .into_iter()
                    .map(|tool| BuildError { place: format!("tools.{}", tool.name), message: tool.message }),
            ),
        }
    }
    if errors.is_empty() { Ok(Tools { registries, guests: names, left_out }) } else { Err(errors) }
}

/// What MCP servers offer. Those whose names the operator has written down come first, then those that had theirs before:
/// no server takes a name away from another by offering it later. The rest is in the order of the servers' ids.
fn guests(config: &Config, workshop: &Workshop) -> (Vec<Guest>, Vec<LeftOut>) {
    let listed: BTreeSet<&str> =
        config.contexts.values().flat_map(|context| &context.tools).map(String::as_str).collect();
    let (mut guests, mut left_out) = (Vec::new(), Vec::new());
    for offer in &workshop.mcp {
        let (tools, not) = offer.tools(&listed);
        left_out.extend(not);
        for guest in tools {
            let guest = as_action(guest, workshop);
            match questions(config, &guest.tool.spec()).into_iter().next() {
                None => guests.push(guest),
                Some(error) => {
                    left_out.push(LeftOut { server: guest.server, tool: guest.name, reason: error.to_string() });
                }
            }
        }
    }
    guests.sort_by_cached_key(|guest: &Guest| {
        let server = config.mcp.servers.get(&guest.server);
        let is_written = server.is_some_and(|server| server.tools.contains_key(&guest.name));
        let holder = workshop.incumbents.get(&guest.tool.spec().name);
        let is_holder = holder.is_some_and(|(server, name)| *server == guest.server && *name == guest.name);
        (!is_written, !is_holder)
    });
    (guests, left_out)
}

/// A tool of a server that has registered by VAM is an action; others stay as they are.
fn as_action(guest: Guest, workshop: &Workshop) -> Guest {
    match &workshop.actions {
        Some(actions) if guest.server.starts_with(ID_PREFIX) => {
            let (server, name) = (guest.server.clone(), guest.name.clone());
            Guest { server, name, tool: Arc::new(ActionTool::new(guest, actions)) }
        }
        _ => guest,
    }
}

/// What is wrong with the operator's question before a tool runs: it reads out arguments, and no secret one.
fn questions(config: &Config, spec: &ToolSpec) -> Vec<BuildError> {
    let Some(rules) = config.tool_rules.get(&spec.name) else { return Vec::new() };
    let secret = rules.secrets(spec);
    let parameters = spec.parameters.get("properties");
    let pieces = rules.confirm.as_deref().unwrap_or_default().split('{').skip(1);
    let names = pieces.map(|piece| piece.split('}').next().unwrap_or_default());
    let wrong = |name: &str| {
        if parameters.and_then(|all| all.get(name)).is_none() {
            Some(format!("the tool has no parameter \"{name}\""))
        } else {
            secret.iter().any(|secret| secret == name).then(|| format!("{name} is secret: it is not read out"))
        }
    };
    let place = || format!("tools.{}.confirm", spec.name);
    names.filter_map(wrong).map(|message| BuildError { place: place(), message }).collect()
}

/// A tenant's own tools.
fn declarative(name: &str, tenant: &Tenant, workshop: &Workshop, errors: &mut Vec<BuildError>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for value in workshop.definitions.get(name).into_iter().flatten() {
        match Definition::read(value, &tenant.surroundings) {
            Ok(definition) => tools.push(Arc::new(DeclarativeTool::new(
                Arc::new(definition),
                Arc::clone(&workshop.fetch),
                wall_clock::now,
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

#[cfg(test)]
mod tests {
    use super::super::generation::Generation;
    use super::*;
    use crate::{config, provider};

    const TOOL: &str = r#"{"name":"book_visit","description":"Books a visit.","parameters":[],"actions":[]}"#;

    /// A clinic with one tool and two contexts, and a hotel with one context that lists `of_hotel`.
    fn load(of_hotel: &str) -> Result<Config, config::Problems> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("clinic")).unwrap();
        std::fs::write(folder.path().join("clinic/book_visit.json"), TOOL).unwrap();
        let yaml = format!(
            "tenants: {{ clinic: {{ tools: clinic }}, hotel: {{ tools: hotel }} }}\n\
             providers: {{ a: {{ scripted: {{ script: [silence] }} }} }}\n\
             contexts:\n  front: {{ prompt: A, provider: a, tenant: clinic, tools: [book_visit, hangup_call] }}\n  \
             back: {{ prompt: B, provider: a, tenant: clinic, tools: [book_visit] }}\n  \
             lobby: {{ prompt: C, provider: a, tenant: hotel, tools: [{of_hotel}] }}\n"
        );
        let path = folder.path().join("offhook.yaml");
        std::fs::write(&path, yaml).unwrap();
        config::load(&path, &|_| None, provider::catalog())
    }

    /// With this as the clinic's only tool.
    fn generation(tool: &str) -> Generation {
        let config = load("hangup_call").unwrap_or_else(|problems| panic!("{problems:?}"));
        let definitions = [("clinic".to_owned(), vec![serde_json::from_str(tool).unwrap()])].into();
        let workshop = Workshop { definitions, ..Workshop::closed() };
        Generation::build(1, config, &workshop).unwrap_or_else(|_| panic!("it can be built"))
    }

    /// D4: a tool of a tenant serves each of its contexts that lists it, and no context of another tenant.
    #[test]
    fn a_tool_serves_all_contexts_of_its_tenant() {
        let generation = generation(TOOL);
        let has = |context: &str| generation.toolbox(context, true).has("book_visit");
        assert_eq!(["front", "back", "lobby"].map(has), [true, true, false]);
        assert!(load("book_visit").is_err(), "another tenant's tool is none");
    }

    /// D18: a call is handed to contexts of the same tenant only, which have the same settings and secrets.
    #[test]
    fn a_call_stays_with_its_tenant() {
        let errors = |target: &str| {
            let config = load("hangup_call").unwrap();
            let actions = serde_json::json!([{ "type": "handoff", "target": target }]);
            let tool = serde_json::json!({ "name": "book_visit", "description": "Hands over.", "actions": actions });
            let workshop = Workshop { definitions: [("clinic".to_owned(), vec![tool])].into(), ..Workshop::closed() };
            let built = Generation::build(1, config, &workshop);
            built.err().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(errors("back"), Vec::<String>::new());
        assert_eq!(
            errors("lobby"),
            ["tenants.clinic: book_visit: actions[0].target: the tenant has no context \"lobby\" (known: back, front)"]
        );
    }

    /// P answer 3: what the operator has read out is made of arguments the tool has.
    #[test]
    fn a_question_names_arguments_of_its_tool() {
        let errors = |rules: &str| {
            let yaml = format!(
                "providers: {{ a: {{ scripted: {{ script: [silence] }} }} }}\n\
                 contexts: {{ a: {{ prompt: A, provider: a }} }}\ntools: {{ send_dtmf: {rules} }}\n"
            );
            let config = config::load_str("test.yaml", &yaml, &|_| None, provider::catalog()).unwrap();
            let built = Generation::build(1, config, &Workshop::closed());
            built.err().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(errors("{ confirm: 'Press {digits}?' }"), Vec::<String>::new());
        assert_eq!(
            errors("{ confirm: 'Press {digit}?' }"),
            ["tools.send_dtmf.confirm: the tool has no parameter \"digit\""]
        );
        assert_eq!(
            errors("{ confirm: 'Press {digits}?', secret_args: [digits] }"),
            ["tools.send_dtmf.confirm: digits is secret: it is not read out"]
        );
    }

    /// P1, P answer 11: a changed tool is another version of the registry; who holds the old one keeps it as it was.
    #[test]
    fn a_registry_is_fixed_for_who_holds_it() {
        let told = |generation: &Generation| {
            let toolbox = generation.toolbox("back", true);
            (toolbox.version().to_owned(), toolbox.specs()[0].description.clone())
        };
        let before = generation(TOOL);
        let (held, seen) = (before.toolbox("back", true), told(&before));
        let after = generation(&TOOL.replace("Books a visit.", "Books two visits."));
        drop(before);
        assert_ne!(told(&after).0, seen.0);
        assert_eq!((held.version(), held.specs()[0].description.as_str()), (seen.0.as_str(), "Books a visit."));
        assert_eq!(seen.0, told(&generation(TOOL)).0, "the same tools have the same version");
    }
}
