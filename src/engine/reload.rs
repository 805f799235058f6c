//! From a file to a generation: at the start, by SIGHUP and by `POST /reload`.

use super::{
    Shared,
    generation::{BuildError, Generation},
    workshop::{self, Definitions, Workshop},
};
use crate::{
    config::{self, Config, Lines, MailConfig, McpServer, McpTransport, Problem, ProviderConfig},
    http::{ReloadFailure, ReloadReport},
    mcp, provider,
    remote::{tls, wards::place},
    telemetry::Reload,
    tool::ToolSpec,
};
use secrecy::ExposeSecret as _;
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{
        PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};
use tracing::{info, warn};

/// A local disk takes milliseconds; changes of tools and other reloads wait meanwhile.
const READ_MAX: Duration = Duration::from_secs(10);
/// Threads that may hang in a read: each holds some memory for as long as the mount does not answer.
const HANGING_MAX: usize = 4;

/// Where the configuration comes from.
#[derive(Debug, Clone)]
pub enum Source {
    File(PathBuf),
    /// Made in memory (tests, the bench); it cannot be loaded again.
    Memory,
}

/// Builds what a configuration describes; the message names every part that could not be built.
pub(super) fn build(number: u64, config: Config, workshop: &Workshop) -> Result<Generation, String> {
    let lines = config.lines.clone();
    let generation =
        Generation::build(number, config, workshop).map_err(|errors| in_words(&told(&lines, &errors)).join("\n"))?;
    tell_tools(&generation);
    Ok(generation)
}

fn in_words(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Errors with file and line, as those of a configuration that could not be read.
fn told(lines: &Lines, errors: &[BuildError]) -> Vec<Problem> {
    errors.iter().map(|error| lines.problem(&error.place, &error.message)).collect()
}

/// What is right and probably not meant.
fn warnings(generation: &Generation) -> Vec<String> {
    let mut found: Vec<String> = generation
        .registries()
        .flat_map(|(_, registry)| registry.taken_for_private())
        .map(|tool| {
            format!(
                "tool \"{tool}\": it is declared public_read, but the contract gate takes it for one about a person, \
                 because of its name or its arguments; it runs for identified callers only (another name helps, or \
                 access: private_read with policy.identify)"
            )
        })
        .collect();
    let listed =
        |spec: &&ToolSpec| generation.config.contexts.values().any(|context| context.tools.contains(&spec.name));
    let specs =
        generation.registries().flat_map(|(_, registry)| registry.names().filter_map(|name| registry.spec(name)));
    found.extend(specs.filter(listed).filter_map(hard_to_ask));
    found.sort();
    found.dedup();
    found
}

/// Tells of a tool whose question to callers would be made of what nobody reads out.
fn hard_to_ask(spec: &ToolSpec) -> Option<String> {
    let (name, arguments) = (&spec.name, spec.unsayable_arguments().join(", "));
    let told = match spec.confirm_template {
        None => format!(
            "tool \"{name}\": callers are asked before it runs, and lists and objects in its arguments ({arguments}) are not read \
             out; write the question: tools: {{ {name}: {{ confirm: … }} }}"
        ),
        Some(_) => format!(
            "tool \"{name}\": its question to callers names arguments that are objects or hold some ({arguments}), which are read \
             out as JSON; leave them out of confirm"
        ),
    };
    (!arguments.is_empty()).then_some(told)
}

/// P2: which tools there are, and of which program.
pub(super) fn tell_tools(generation: &Generation) {
    for (tenant, registry) in generation.registries() {
        let (tools, commit) = (registry.len(), env!("OFFHOOK_COMMIT"));
        let tenant = tenant.unwrap_or("(built-in)");
        info!(tenant, registry = registry.version(), tools, commit, "the tools are loaded");
    }
    for warning in warnings(generation) {
        warn!("{warning}");
    }
}

/// What is known only once a configuration is built: tools that a provider cannot be told, say.
///
/// What is right and probably not meant comes back.
///
/// # Errors
/// Every part that could not be built.
pub fn check(config: Config) -> Result<Vec<Problem>, Vec<Problem>> {
    let lines = config.lines.clone();
    let tokens = workshop::tokens(&config).err();
    let tokens = tokens.map(|error| lines.problem("tenants", error.to_string()));
    let definitions = match workshop::read(&config) {
        Ok(definitions) => definitions,
        Err(problems) => {
            let of_files = problems.into_iter().map(|problem| lines.problem("", problem));
            return Err(tokens.into_iter().chain(of_files).collect());
        }
    };
    let workshop = Workshop { definitions, ..Workshop::closed() };
    let missing = nobody_can_call(&config)
        .into_iter()
        .chain(missing_programs(&config, std::env::var_os("PATH").as_deref()))
        .collect::<Vec<_>>();
    match (Generation::build(0, config, &workshop), tokens) {
        (Ok(generation), None) => {
            let of_tools = warnings(&generation).into_iter().map(|warning| lines.problem("", warning));
            Ok(of_tools.chain(missing).collect())
        }
        (built, tokens) => {
            Err(tokens.into_iter().chain(built.err().iter().flat_map(|errors| told(&lines, errors))).collect())
        }
    }
}

/// Without ARI, calls come by `AudioSocket()`, whose UUID names the context, and by clients of VAM.
fn nobody_can_call(config: &Config) -> Option<Problem> {
    let by_vam = config.vam.as_ref().is_some_and(|vam| vam.sessions.is_some());
    let by_socket = config.contexts.values().any(|context| context.audiosocket_id.is_some());
    let unreachable = config.asterisk.is_none() && !by_socket && !by_vam;
    unreachable.then(|| {
        let message = "no call can reach any of them; add the section asterisk, or give a context an audiosocket_id \
                       for AudioSocket() in the dialplan";
        config.lines.problem("contexts", message)
    })
}

/// Programs of MCP servers that are not on this machine. A warning, since a file may be checked elsewhere than it is used.
fn missing_programs(config: &Config, path: Option<&OsStr>) -> Vec<Problem> {
    let missing = |server: &McpServer| {
        let McpTransport::Stdio { program, env, .. } = &server.transport else { return None };
        let own = env.get("PATH").map(|path| OsString::from(path.expose_secret()));
        let found =
            mcp::find_program(program, own.as_deref().or(path).unwrap_or_default()).is_some_and(|file| file.is_file());
        let place = if program.contains('/') { "not there" } else { "in no folder of PATH" };
        (!found).then(|| {
            let message = format!("the program \"{program}\" is {place}; install it, or write its whole path");
            config.lines.problem(&format!("mcp.servers.{}.command", server.id), message)
        })
    };
    config.mcp.servers.values().filter(|server| server.enabled).filter_map(missing).collect()
}

/// The configuration and the tools of its tenants, read on a thread that may hang with the disk.
///
/// # Errors
/// Every problem; or that the files could not be read in time.
fn read_within(limit: Duration, path: &Path) -> Result<(Config, Definitions), Vec<String>> {
    static HANGING: AtomicUsize = AtomicUsize::new(0);
    let file = path.display();
    if HANGING.load(Relaxed) >= HANGING_MAX {
        let text =
            format!("{file}: {HANGING_MAX} earlier attempts to read it still hang; mend the mount and restart offhook");
        return Err(vec![text]);
    }
    // Without a buffer, a result is either taken or known to be too late.
    let (done, result) = mpsc::sync_channel(0);
    let file_to_read = path.to_owned();
    tokio::task::spawn_blocking(move || {
        let config = config::load(&file_to_read, &environment, provider::catalog())
            .map_err(|problems| problems.iter().map(ToString::to_string).collect());
        let read = config.and_then(|config| {
            let definitions = workshop::read(&config)?;
            Ok((config, definitions))
        });
        if done.send(read).is_err() {
            HANGING.fetch_sub(1, Relaxed);
        }
    });
    result.recv_timeout(limit).unwrap_or_else(|_| {
        HANGING.fetch_add(1, Relaxed);
        Err(vec![format!(
            "{file}: it, or a file that it names, could not be read within {limit:?}; is it on a mount that does not answer?"
        )])
    })
}

/// The environment of the process, for `${VARIABLES}`.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Shared {
    /// Loads the file again. New calls use it; running calls keep theirs. A broken file changes
    /// nothing.
    pub(super) fn reload(&self) -> Result<ReloadReport, ReloadFailure> {
        self.reload_within(READ_MAX)
    }

    pub(super) fn reload_within(&self, limit: Duration) -> Result<ReloadReport, ReloadFailure> {
        let result = self.load_next(limit);
        match &result {
            Ok(report) => {
                self.metrics.reload(Reload::Loaded);
                info!(generation = report.generation, changed = ?report.changed, "configuration loaded");
                for part in &report.needs_restart {
                    warn!(part, "this change takes effect after a restart");
                }
            }
            Err(failure) => {
                self.metrics.reload(Reload::Refused);
                warn!(problems = failure.problems.len(), "the configuration was refused; the one before stays");
                for problem in &failure.problems {
                    warn!("{problem}");
                }
            }
        }
        result
    }

    fn load_next(&self, limit: Duration) -> Result<ReloadReport, ReloadFailure> {
        let refused = |problems: Vec<String>| ReloadFailure { problems };
        // A change of a tool takes this lock first as well, then the next.
        let doors = self.doors.get();
        let hold = doors.map(|doors| doors.store.hold());
        // SIGHUP and POST at once: one after the other.
        let _one = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let Source::File(path) = &self.source else {
            return Err(refused(vec!["this engine was not started from a file".into()]));
        };
        // Both locks are held for no longer than this: a change or a reload that began later must not be undone by an older one.
        let (config, definitions) = read_within(limit, path).map_err(refused)?;
        tls::read_authorities_anew();
        let before = self.generation.load();
        let mut workshop = self.workshop(&config);
        workshop.definitions = definitions;
        let lines = config.lines.clone();
        let of_tenants =
            |error: &dyn std::fmt::Display| refused(in_words(&[lines.problem("tenants", error.to_string())]));
        let tokens = workshop::tokens(&config).map_err(|error| of_tenants(&error))?;
        let next = Generation::build(before.number + 1, config, &workshop)
            .map_err(|errors| refused(in_words(&told(&lines, &errors))))?;
        if let (Some(doors), Some(hold)) = (doors, &hold) {
            // The last that can fail.
            hold.move_to(workshop::folders(&next.config)).map_err(|error| of_tenants(&error))?;
            doors.tokens.replace(&tokens);
        }
        let changed = changed(&before.config, &next.config);
        let needs_restart = needs_restart(&self.bound, &next.config);
        let generation = next.number;
        tell_tools(&next);
        for name in configured_anew(&before.config, &next.config) {
            self.health.forget(&name);
        }
        self.take_over(next);
        Ok(ReloadReport { generation, changed, needs_restart, reload_pending: false })
    }

    /// Tells the metrics which names may be labels.
    pub(super) fn know_names(&self) {
        let generation = self.generation.load();
        // Those that an agent may call; a server may bring hundreds that none may.
        let tools = generation.config.contexts.values().flat_map(|context| &context.tools).map(String::as_str);
        for (server, tool) in tools.clone().filter_map(|tool| generation.mcp_tool(tool)) {
            self.mcp.fleet.counters().know_tool(server, tool);
        }
        self.metrics.know(tools, generation.config.providers.keys().map(String::as_str));
        for (provider, currency) in generation.config.prices.currencies() {
            self.metrics.know_price(provider, currency);
        }
    }
}

fn differs(a: &dyn std::fmt::Debug, b: &dyn std::fmt::Debug) -> bool {
    format!("{a:?}") != format!("{b:?}")
}

fn mailboxes(config: &Config) -> Option<&BTreeMap<String, String>> {
    config.mail.as_ref().map(|mail| &mail.mailboxes)
}

/// The mail server without its mailboxes, which each call looks up anew.
fn server(config: &Config) -> Option<MailConfig> {
    config.mail.clone().map(|mail| MailConfig { mailboxes: BTreeMap::new(), ..mail })
}

fn names_of(pairs: &[(&str, bool)]) -> Vec<String> {
    pairs.iter().filter(|(_, differs)| *differs).map(|(name, _)| (*name).to_owned()).collect()
}

/// Services and providers that are not what they were, as their breakers name them; a pipeline is what its services are.
fn configured_anew(before: &Config, after: &Config) -> Vec<String> {
    let changed = |before: &BTreeMap<String, ProviderConfig>, after: &BTreeMap<String, ProviderConfig>| {
        let differs = |(name, entry): &(&String, &ProviderConfig)| before.get(*name).is_some_and(|old| old != *entry);
        after.iter().filter(differs).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let (old, new) = (&before.services, &after.services);
    let sections = [("stt", &old.stt, &new.stt), ("llm", &old.llm, &new.llm), ("voices", &old.voices, &new.voices)];
    let places =
        |(section, old, new)| changed(old, new).into_iter().map(move |name| place(section, &name)).collect::<Vec<_>>();
    let services: Vec<String> = sections.into_iter().flat_map(places).collect();
    let is_of_them = |(_, entry): &(&String, &ProviderConfig)| {
        let mut named = provider::names(&entry.kind, &entry.options).into_iter();
        named.any(|named| services.contains(&place(named.section, &named.name)))
    };
    let pipelines = after.providers.iter().filter(is_of_them).map(|(name, _)| name.clone());
    let providers = changed(&before.providers, &after.providers).into_iter().chain(pipelines);
    providers.chain(services.clone()).collect()
}

/// What is new for the next call.
fn changed(before: &Config, after: &Config) -> Vec<String> {
    names_of(&[
        ("providers", before.providers != after.providers),
        ("stt", before.services.stt != after.services.stt),
        ("llm", before.services.llm != after.services.llm),
        ("voices", before.services.voices != after.services.voices),
        ("contexts", differs(&before.contexts, &after.contexts)),
        ("tools", differs(&before.tool_rules, &after.tool_rules)),
        ("tenants", differs(&before.tenants, &after.tenants)),
        ("destinations", before.destinations != after.destinations),
        ("voicemail", before.voicemail != after.voicemail),
        ("extensions", before.extensions != after.extensions),
        ("mcp", differs(&before.mcp, &after.mcp) || mcp_secrets(before) != mcp_secrets(after)),
        ("mail.mailboxes", mailboxes(before) != mailboxes(after)),
        ("default_context", before.default_context != after.default_context),
        ("prices", before.prices != after.prices),
        ("limits", differs(&before.limits, &after.limits)),
        ("media.default", before.media.default != after.media.default),
    ])
}

/// What is not as the engine began with it, and stays so until a restart.
fn needs_restart(bound: &Config, after: &Config) -> Vec<String> {
    names_of(&[
        ("asterisk", differs(&bound.asterisk, &after.asterisk)),
        ("media.audiosocket", differs(&bound.media.audiosocket, &after.media.audiosocket)),
        ("media.rtp", differs(&bound.media.rtp, &after.media.rtp)),
        ("http", differs(&bound.http, &after.http) || admin(bound) != admin(after)),
        ("mail", differs(&server(bound), &server(after))),
        ("records", bound.records != after.records),
        ("vam", !vam_is_same(bound, after)),
    ])
}

fn vam_is_same(bound: &Config, after: &Config) -> bool {
    match (&bound.vam, &after.vam) {
        (Some(bound), Some(after)) => bound.is_as(after),
        (bound, after) => bound.is_none() && after.is_none(),
    }
}

/// Secrets do not show in `Debug`, and a changed one is a change.
fn admin(config: &Config) -> Option<&str> {
    config.http.admin_token.as_ref().map(|token| token.expose_secret())
}

fn mcp_secrets(config: &Config) -> Vec<&str> {
    config.mcp.servers.values().flat_map(McpServer::secrets).map(|secret| secret.expose_secret()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::LogCapture;

    /// Told when a file is checked, not by the first call or by its not coming.
    #[test]
    fn programs_that_are_not_there_and_contexts_that_nobody_reaches_are_told() {
        let yaml = "mcp:\n  servers:\n    there: { command: [sh] }\n    gone: { command: [no-such-program] }\n    \
                    near: { command: [./no-such-program] }\n    off: { enabled: false, command: [no-such-program] }\n    \
                    elsewhere: { command: [sh], env: { PATH: /nowhere } }\n    far: { transport: http, url: \"http://127.0.0.1:1/mcp\" }\n\
                    providers: { a: { scripted: { script: [silence] } } }\ncontexts: { a: { prompt: Test, provider: a } }\n";
        let config = config::load_str("test.yaml", yaml, &|_| None, provider::catalog())
            .unwrap_or_else(|problems| panic!("{problems}"));
        assert!(nobody_can_call(&config).is_some_and(|told| told.message.contains("add the section asterisk")));
        let missing = in_words(&missing_programs(&config, Some(OsStr::new("/usr/bin:/bin"))));
        let places: Vec<String> = missing.iter().map(|warning| warning.splitn(4, ':').take(3).collect()).collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let expected = [("elsewhere", 7), ("gone", 4), ("near", 5)]
            .map(|(server, line)| format!("test.yaml{line} mcp.servers.{server}.command"));
        assert_eq!(places, expected, "{missing:?}");
    }

    /// Without a question of the operator's, callers hear how many parts something has.
    #[test]
    fn a_question_that_cannot_be_said_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let definition = serde_json::json!({
            "name": "save_address", "description": "Saves it.", "actions": [{ "type": "respond", "message": "Saved." }],
            "parameters": [{ "name": "address", "type": "object" }, { "name": "to", "type": "string" }],
            "policy": { "access": "write", "requires_confirmation": true },
        });
        std::fs::create_dir(folder.path().join("shop")).unwrap();
        std::fs::write(folder.path().join("shop/save_address.json"), definition.to_string()).unwrap();
        let told = |tools: &str, rules: &str| -> Vec<String> {
            let file = folder.path().join("offhook.yaml");
            let yaml = format!(
                "tenants: {{ shop: {{ tools: shop }} }}\nproviders: {{ a: {{ scripted: {{ script: [silence] }} }} }}\n\
                 contexts: {{ a: {{ prompt: Test, provider: a, tools: [{tools}] }} }}\n{rules}"
            );
            std::fs::write(&file, yaml).unwrap();
            let config = config::load(&file, &|_| None, provider::catalog()).unwrap_or_else(|wrong| panic!("{wrong}"));
            let found = in_words(&check(config).unwrap_or_else(|wrong| panic!("{wrong:?}")));
            found.into_iter().filter(|told| told.contains("save_address")).collect()
        };
        let asked = told("save_address", "");
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert!(
            asked[0]
                .contains("(address) are not read out; write the question: tools: { save_address: { confirm: … } }")
        );
        let rules = |confirm: &str| format!("tools: {{ save_address: {{ confirm: \"{confirm}\" }} }}\n");
        assert_eq!(told("save_address", &rules("Save the address for {to}?")), [""; 0]);
        let json = told("save_address", &rules("Save {address}?"));
        assert!(json[0].contains("(address), which are read out as JSON; leave them out of confirm"), "{json:?}");
        assert_eq!(told("", ""), [""; 0], "no context has it");
    }

    #[test]
    fn what_shows_only_when_it_is_built_is_told_with_its_line_too() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let yaml = "stt: { ears: { wyoming_transcribe: { address: \"127.0.0.1:1\" } } }\n\
                    llm: { house: { openai_chat: { model: m } } }\n\
                    voices: { piper: { wyoming_speech: { address: \"127.0.0.1:2\" } } }\n\
                    providers:\n  one: { pipeline: { stt: ears, llm: house, tts: piper } }\n\
                    contexts:\n  a:\n    prompt: Test\n    provider: one\n    turns:\n      owner: provider\n  \
                    b:\n    prompt: Test\n    provider: one\n    audiosocket_id: \"00000001\"\nturns: { owner: provider }\n";
        let config = config::load_str("test.yaml", yaml, &|_| None, provider::catalog())
            .unwrap_or_else(|problems| panic!("{problems}"));
        let told = in_words(&check(config).expect_err("a pipeline hears no turns by itself"));
        assert!(told[0].starts_with("test.yaml:11: contexts.a.turns.owner: "), "{told:?}");
        // What the context has from elsewhere is told at the context.
        assert!(told[1].starts_with("test.yaml:12: contexts.b.turns.owner: "), "{told:?}");
        assert_eq!(told.len(), 2, "{told:?}");
    }

    /// What was known of one that is configured anew was known of another; all others keep their breakers.
    #[test]
    fn only_what_is_configured_anew_begins_anew() {
        let load = |word: &str, model: &str| {
            let yaml = format!(
                "stt: {{ ears: {{ wyoming_transcribe: {{ address: \"127.0.0.1:1\" }} }} }}\n\
                 llm: {{ house: {{ openai_chat: {{ model: {model} }} }}, other: {{ openai_chat: {{ model: m }} }} }}\n\
                 voices: {{ piper: {{ wyoming_speech: {{ address: \"127.0.0.1:2\" }} }} }}\n\
                 providers:\n  one: {{ pipeline: {{ stt: ears, llm: house, tts: piper }} }}\n  \
                 two: {{ pipeline: {{ stt: ears, llm: other, tts: piper }} }}\n  \
                 three: {{ scripted: {{ script: [{{ say: {word} }}] }} }}\n\
                 contexts: {{ a: {{ prompt: Test, provider: one }} }}\n"
            );
            config::load_str("test.yaml", &yaml, &|_| None, provider::catalog())
                .unwrap_or_else(|problems| panic!("{problems:?}"))
        };
        let before = load("hello", "m");
        let anew = |word, model| configured_anew(&before, &load(word, model));
        assert!(anew("hello", "m").is_empty());
        assert_eq!(anew("hello", "other"), ["one", "llm.house"]);
        assert_eq!(anew("bye", "m"), ["three"]);
    }

    /// P2, P1: loading tells the version of the registry, how many tools it has and the commit of the program.
    #[test]
    fn loading_tells_version_number_of_tools_and_commit() {
        let yaml = "providers: { a: { scripted: { script: [silence] } } }\n\
                    contexts: { a: { prompt: Test, provider: a, tools: [hangup_call] } }\n";
        let config = config::load_str("test.yaml", yaml, &|_| None, provider::catalog()).unwrap();
        let capture = LogCapture::new();
        let _guard = capture.start();
        let generation = build(1, config, &Workshop::closed()).unwrap();
        let (_, registry) = generation.registries().next().unwrap();
        let lines = capture.lines();
        let line = lines.iter().find(|line| line.contains("the tools are loaded")).unwrap();
        assert!(line.contains(registry.version()) && registry.version().starts_with("1.0."), "{line}");
        assert!(line.contains(&format!("tools={}", registry.len())) && !registry.is_empty(), "{line}");
        assert!(line.contains(&format!("commit=\"{}\"", env!("OFFHOOK_COMMIT"))), "{line}");
    }
}
