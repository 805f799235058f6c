//! What holds between sections: each of them may be right by itself and still not fit the others.

use super::{
    Config, Context, McpTransport, Transport,
    catalog::{Catalog, Named, ServiceKind},
    effects, price,
    problem::{Path, Problem, Report, Step, nearest, suggest_tool},
    prompt, sentences, slips,
    tree::{Kind, Node},
};
use crate::{
    call::OnFailure,
    tool::{NEEDS_ARI, india::canonical, mcp::snake},
    wall_clock,
};
use serde_json::Value;
use std::{net::SocketAddr, sync::Arc};

/// Reports what can never work. Places of which something was said already are left alone.
pub(super) fn check(config: &Config, root: &Node, catalog: &Catalog, report: &mut Report) {
    let mut check = Check { config, root, report };
    check.addresses();
    if check.has_no_asterisk() {
        check.what_needs_ari();
    }
    check.recordings_have_a_place();
    check.variables_of_prompts();
    check.tools_of_scripts(catalog);
}

/// What may be meant, and more likely is a slip.
pub(super) fn warnings(config: &Config, root: &Node, catalog: &Catalog, file: &str) -> Vec<Problem> {
    let mut report = Report::new(file);
    for name in config.contexts.keys() {
        for key in ["prompt", "greeting"] {
            let path = Path::default().key("contexts").key(name).key(key);
            let Some(Node { line, kind: Kind::Scalar { value, from_env: false, .. } }) = root.at(&path) else {
                continue;
            };
            for (placeholder, meant) in value.as_str().map(slips).unwrap_or_default() {
                let message = format!("{{{placeholder}}} is not a placeholder and stays as it is written");
                report.add(*line, &path, message, Some(format!("did you mean {{{meant}}}?")));
            }
        }
    }
    commands(config, root, &mut report);
    tools_of_servers(config, root, &mut report);
    effects::warnings(config, root, &mut report);
    recordings(config, root, &mut report);
    sentences::warnings(config, root, catalog, &mut report);
    slips::warnings(root, catalog, &mut report);
    price::warnings(&config.prices, root, wall_clock::now().to_zoned(jiff::tz::TimeZone::system()).date(), &mut report);
    if report.is_empty() { Vec::new() } else { report.into_problems().into_iter().collect() }
}

/// Callers who are recorded and not told so.
fn recordings(config: &Config, root: &Node, report: &mut Report) {
    let silent = |context: &&Arc<Context>| context.rules.recording && context.speech.notice.is_none();
    for context in config.contexts.values().filter(silent) {
        let place = Path::default().key("contexts").key(&context.name).key("recording");
        let hint = "write what they hear first, such as notice: This call is recorded.";
        report.add(root.line_of(&place), &place, "callers are recorded and not told so", Some(hint.into()));
    }
}

/// Programs of MCP servers that are written for a shell, which is not there.
fn commands(config: &Config, root: &Node, report: &mut Report) {
    let servers = Path::default().key("mcp").key("servers");
    let Some(Node { kind: Kind::Map(entries), .. }) = root.at(&servers) else { return };
    for entry in entries {
        let place = servers.key(&entry.key).key("command").index(0);
        let Some(Node { line, kind: Kind::Scalar { value, .. } }) = root.at(&place) else { continue };
        let Some(written) = value.as_str() else { continue };
        // As it would be started.
        let program = match config.mcp.servers.get(&snake(&entry.key)).map(|server| &server.transport) {
            Some(McpTransport::Stdio { program, .. }) => program,
            _ => continue,
        };
        let blank = written.trim().contains(char::is_whitespace);
        let (message, hint) = match () {
            () if written.starts_with('~') => {
                ("~ is not expanded: no shell reads this", "write the whole path, or ${HOME}/…")
            }
            () if written.starts_with('$') => ("no shell reads this", "write a variable as ${NAME}"),
            () if blank && !std::path::Path::new(program).is_file() => (
                "the program has blanks in it, and no shell splits it",
                "each argument is its own entry: [program, argument, argument]",
            ),
            () => continue,
        };
        report.add(*line, &place, message, Some(hint.into()));
    }
}

/// Tools of MCP servers that contexts list and that will not be there, or of which nobody has said what they touch: the
/// contract gate stops each of their calls.
fn tools_of_servers(config: &Config, root: &Node, report: &mut Report) {
    for (name, context) in &config.contexts {
        let tools = Path::default().key("contexts").key(name).key("tools");
        for tool in &context.tools {
            let owner = config.mcp.owner(tool);
            let is_custom = config.is_action(tool) && canonical(tool).is_none();
            if owner.is_none() && !is_custom {
                continue;
            }
            let place = place_of_tool(root, tool, &tools).unwrap_or_else(|| tools.clone());
            let line = root.line_of(&place);
            if let Some((server, key)) = owner.and_then(|server| Some((server, config.mcp.switch_of(server)?))) {
                let message = format!("\"{tool}\" is a tool of mcp.servers.{}, which is switched off", server.id);
                report.add(line, &place, message, Some(format!("take it out of the list, or set {key}: true")));
                continue;
            }
            let ruled = config.tool_rules.get(tool).is_some_and(|rules| rules.access.is_some());
            if !ruled && owner.is_none_or(|server| server.defaults.access.is_none()) {
                let message = format!("\"{tool}\" is not classified and will never run");
                let hint = format!("say what it touches, such as tools: {{ {tool}: {{ access: public_read }} }}");
                report.add(line, &place, message, Some(hint));
            }
        }
    }
}

fn place_of_tool(root: &Node, tool: &str, path: &Path) -> Option<Path> {
    let Kind::List(items) = &root.at(path)?.kind else { return None };
    let is_it = |item: &Node| matches!(&item.kind, Kind::Scalar { value, .. } if value == tool);
    Some(path.index(items.iter().position(is_it)?))
}

/// What stands in braces in `text` and is nearly the name of a placeholder, with that name.
fn slips(text: &str) -> Vec<(&str, &'static str)> {
    let known = prompt::VARIABLES.map(|variable| variable.name);
    let word = |text: &str| text.chars().all(|c| c.is_alphanumeric() || " _-".contains(c));
    let inside = || text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    let strange = inside().filter(|inside| word(inside) && !known.contains(inside));
    let of_facts = strange.filter_map(|inside| Some((inside, nearest(&inside.trim().to_lowercase(), &known)?)));
    let is_channels =
        |inside: &&str| inside.trim().to_lowercase().starts_with("channel.") && !prompt::is_placeholder(inside);
    of_facts.chain(inside().filter(is_channels).map(|inside| (inside, "channel.NAME"))).collect()
}

/// Channel variables with secrets, besides PINs.
const PRIVATE_VARIABLES: [&str; 2] = ["AI_USER", "AI_AUTHORIZATION"];

struct Check<'a> {
    config: &'a Config,
    root: &'a Node,
    report: &'a mut Report,
}

impl Check<'_> {
    fn problem(&mut self, path: &Path, message: impl Into<String>, hint: &str) {
        if !self.report.mentions(path) {
            self.report.add(self.root.line_of(path), path, message, Some(hint.to_owned()));
        }
    }

    fn has_no_asterisk(&self) -> bool {
        self.root.child(&Step::Key("asterisk".into())).is_none()
            && !self.report.mentions(&Path::default().key("asterisk"))
    }

    fn recordings_have_a_place(&mut self) {
        let config = self.config;
        if config.records.is_some() || self.report.mentions(&Path::default().key("records")) {
            return;
        }
        for context in config.contexts.values().filter(|context| context.rules.recording) {
            let path = Path::default().key("contexts").key(&context.name).key("recording");
            self.problem(&path, "there is no place for recordings", "add the section records: { directory: records }");
        }
    }

    fn variables_of_prompts(&mut self) {
        let config = self.config;
        let contexts = config.contexts.values();
        let pins = contexts.clone().filter_map(|context| context.policy.identify.pin_variable.as_deref());
        let private: Vec<&str> = pins.chain(PRIVATE_VARIABLES).collect();
        for context in contexts {
            for (key, text) in [("prompt", Some(&*context.prompt)), ("greeting", context.greeting.as_deref())] {
                let path = Path::default().key("contexts").key(&context.name).key(key);
                if let Some(name) =
                    text.into_iter().flat_map(prompt::channel_variables).find(|name| private.contains(name))
                {
                    let message = format!("{{channel.{name}}} is for tools and the policy, and no model may know it");
                    self.problem(&path, message, "take it out; the tool verify_pin compares a PIN");
                }
            }
        }
        let count = config.prompt_variables().len();
        if count > prompt::CHANNEL_VARIABLES_MAX {
            let message = format!(
                "prompts and greetings name {count} channel variables; {} at most",
                prompt::CHANNEL_VARIABLES_MAX
            );
            self.problem(&Path::default().key("contexts"), message, "let the dialplan put several into one");
        }
    }

    /// Two listeners cannot have one port.
    fn addresses(&mut self) {
        let (http, media) = (self.config.http.bind, self.config.media.audiosocket.bind);
        let overlap = |a: SocketAddr, b: SocketAddr| a.ip() == b.ip() || a.ip().is_unspecified();
        if http.port() == 0 || http.port() != media.port() || !(overlap(http, media) || overlap(media, http)) {
            return;
        }
        let places =
            [Path::default().key("http").key("bind"), Path::default().key("media").key("audiosocket").key("bind")];
        let written = places.iter().find(|path| self.root.at(path).is_some());
        let path = written.unwrap_or(&places[0]);
        self.problem(path, "http.bind and media.audiosocket.bind have the same port", "each needs one of its own");
    }

    fn what_needs_ari(&mut self) {
        const HINT: &str = "add the section asterisk";

        let config = self.config;
        // AudioSocket alone is a door of its own.
        if config.media.default.transport != Transport::AudioSocket {
            let path = Path::default().key("media").key("default");
            self.problem(&path, format!("{} needs ARI", config.media.default), HINT);
        }
        for (name, context) in &config.contexts {
            let path = Path::default().key("contexts").key(name);
            if let Some(audio) = context.audio.filter(|audio| audio.transport != Transport::AudioSocket) {
                self.problem(&path.key("audio"), format!("{audio} needs ARI"), HINT);
            }
            for tool in NEEDS_ARI {
                if let Some(place) = place_of_tool(self.root, tool, &path.key("tools")) {
                    self.problem(&place, format!("\"{tool}\" needs ARI"), HINT);
                }
            }
            if context.rules.last_resort.is_some() {
                self.problem(&path.key("on_failure").key("menu"), "a menu needs ARI", HINT);
            }
            if let OnFailure::Transfer(_) = context.rules.on_failure {
                self.problem(&path.key("on_failure").key("then").key("transfer"), "a transfer needs ARI", HINT);
            }
        }
    }

    /// A script or a list does what it says; a context that does not list the tool would refuse it each time.
    fn tools_of_scripts(&mut self, catalog: &Catalog) {
        let config = self.config;
        let speakers = config
            .contexts
            .iter()
            .flat_map(|(name, context)| context.providers().map(move |provider| (name, context, provider)));
        for (name, context, entry) in speakers {
            for (who, mut missing) in calls_of(config, entry, catalog) {
                missing.retain(|tool| !context.tools.contains(tool));
                missing.dedup();
                // A name that is none of a tool's is wrong where it stands, and nothing that a context could list.
                missing.retain(|tool| self.is_tool(tool, &who, catalog));
                if let Some(tool) = missing.first() {
                    let path = Path::default().key("contexts").key(name).key("tools");
                    let message = format!("{who} calls \"{tool}\", which this context does not list");
                    let hint = format!("add it: tools: [{}]", [context.tools.as_slice(), &missing].concat().join(", "));
                    self.problem(&path, message, &hint);
                }
            }
        }
    }

    fn is_tool(&mut self, tool: &str, who: &Path, catalog: &Catalog) -> bool {
        let config = self.config;
        let (made, named) = (config.tenants.values().flat_map(|tenant| &tenant.names), config.mcp.named());
        let known = catalog.tools.iter().copied().chain(made.chain(&named).map(String::as_str));
        let known: Vec<&str> = known.collect();
        let unreadable = tool.starts_with("mcp_") && self.report.mentions(&Path::default().key("mcp"));
        if known.contains(&tool) || config.mcp.owner(tool).is_some() || config.is_action(tool) || unreadable {
            return true;
        }
        let place = self.root.at(who).and_then(|node| place_of_call(node, tool, who)).unwrap_or_else(|| who.clone());
        self.problem(&place, format!("unknown tool \"{tool}\""), &suggest_tool(tool, &known));
        false
    }
}

/// The first place below `path`, and there below a `call`, where just this is written.
fn place_of_call(node: &Node, tool: &str, path: &Path) -> Option<Path> {
    match &node.kind {
        Kind::Scalar { value, .. } => {
            let called = path.steps().iter().any(|step| matches!(step, Step::Key(key) if key == "call"));
            (called && value == tool).then(|| path.clone())
        }
        Kind::Map(entries) => entries.iter().find_map(|entry| place_of_call(&entry.node, tool, &path.key(&entry.key))),
        Kind::List(items) => {
            items.iter().enumerate().find_map(|(index, item)| place_of_call(item, tool, &path.index(index)))
        }
        Kind::Broken => None,
    }
}

/// The tools that a provider calls by name, and those that the services do which it names: each with the place that says so.
fn calls_of(config: &Config, entry: &str, catalog: &Catalog) -> Vec<(Path, Vec<String>)> {
    let own = config.providers.get(entry).and_then(|provider| {
        let calls = (catalog.provider(&provider.kind)?.calls)(&provider.options);
        Some((Path::default().key("providers").key(entry), calls))
    });
    let services = services_of(config, entry, catalog).into_iter();
    own.into_iter().chain(services.map(|(place, kind, options)| (place, (kind.calls)(options)))).collect()
}

/// The services that a provider names: the place, the kind and the options of each.
pub(super) fn services_of<'a>(
    config: &'a Config,
    entry: &str,
    catalog: &'a Catalog,
) -> Vec<(Path, &'a ServiceKind, &'a Value)> {
    let Some(provider) = config.providers.get(entry) else { return Vec::new() };
    let Some(kind) = catalog.provider(&provider.kind) else { return Vec::new() };
    let service = |Named { section, name, .. }: Named| {
        let service = config.services.section(section)?.get(&name)?;
        let place = Path::default().key(section).key(&name);
        Some((place, catalog.service(section, &service.kind)?, &service.options))
    };
    (kind.names)(&provider.options).into_iter().filter_map(service).collect()
}
