//! Where the tools of a generation come from: the built-in ones and each tenant's own.

use super::{
    Shared,
    generation::{BuildError, Generation},
    live::LiveCalls,
};
use crate::{
    asterisk::ari::AriClient,
    config::{Config, Tenant},
    facts::CallFacts,
    http::{Answer, Problem, TokenError, Tokens, Trial},
    mcp::Offer,
    remote::wards::Wards,
    speech::Studio,
    store::{FileToolStore, ToolRegistry, Tools},
    tool::{
        Fetch, FetchError, FetchRequest, FetchResponse, Memory, ToolError,
        declarative::{CallView, Definition, Level, Listener, Note, RunInput, Services, Surroundings},
    },
    vam::Actioning,
    wall_clock,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, OnceLock, PoisonError, Weak},
    time::Duration,
};
use tracing::{debug, error, info, warn};
use uuid::Uuid;

/// The definitions of each tenant's tools.
pub(super) type Definitions = BTreeMap<String, Vec<Value>>;

/// A dry run that is not over by then hangs on a service.
const TRIAL_MAX: Duration = Duration::from_secs(10);

/// What generations are built with.
#[derive(Clone)]
pub(super) struct Workshop {
    pub definitions: Definitions,
    pub fetch: Arc<dyn Fetch>,
    /// Hears what runs of declarative tools have to tell.
    pub listener: Arc<dyn Listener>,
    /// For the tools that ask Asterisk something.
    pub ari: Option<AriClient>,
    /// Watches over the services of pipelines.
    pub wards: Arc<Wards>,
    /// Has what is needed spoken.
    pub studio: Arc<Studio>,
    /// What MCP servers offer at this moment.
    pub mcp: Vec<Offer>,
    /// Those of them that have registered.
    pub actions: Option<Actioning>,
    /// Who has which exposed name in the generation before; it keeps it.
    pub incumbents: BTreeMap<String, (String, String)>,
}

impl Workshop {
    /// Without tools of tenants and without a network: for checks and tests.
    pub fn closed() -> Self {
        Self {
            definitions: Definitions::new(),
            fetch: Arc::new(NoFetch),
            listener: Arc::new(()),
            ari: None,
            wards: Arc::default(),
            studio: Arc::default(),
            mcp: Vec::new(),
            actions: None,
            incumbents: BTreeMap::new(),
        }
    }
}

/// Reads the tenants' tools from their folders, and changes nothing there.
///
/// # Errors
/// Every folder and file that cannot be read.
pub(super) fn read(config: &Config) -> Result<Definitions, Vec<String>> {
    let store = FileToolStore::look(folders(config), Arc::new(EngineTools::default()));
    read_from(&store.map_err(|error| vec![format!("tenants: {error}")])?, config)
}

pub(super) fn folders(config: &Config) -> BTreeMap<String, PathBuf> {
    config.tenants.iter().map(|(name, tenant)| (name.clone(), tenant.folder.clone())).collect()
}

/// The tools of tenants as they are changed over HTTP, and who may: of the configuration that was loaded last.
pub(super) struct Doors {
    pub store: FileToolStore,
    pub tokens: Tokens,
}

impl Doors {
    /// For an engine that starts: folders are made, and what a crash has left is cleared away.
    pub fn open(shared: &Arc<Shared>) -> Result<Self, String> {
        let registry = Arc::new(EngineTools::default());
        registry.attach(shared);
        let store =
            FileToolStore::open(folders(&shared.bound), registry).map_err(|error| format!("tenants: {error}"))?;
        Ok(Self { store, tokens: tokens(&shared.bound).map_err(|error| format!("tenants: {error}"))? })
    }
}

/// # Errors
/// Every tenant whose token protects nothing.
pub(super) fn tokens(config: &Config) -> Result<Tokens, TokenError> {
    let pairs = |(name, tenant): (&String, &Tenant)| -> Vec<_> {
        tenant.tokens.iter().map(|token| (name.clone(), token.clone())).collect()
    };
    Tokens::new(config.tenants.iter().flat_map(pairs))
}

pub(super) fn read_from(store: &FileToolStore, config: &Config) -> Result<Definitions, Vec<String>> {
    let mut problems = Vec::new();
    let mut definitions = Definitions::new();
    for tenant in config.tenants.keys() {
        match store.tools(tenant) {
            Ok(Tools { definitions: found, unreadable }) => {
                problems.extend(unreadable.iter().map(|(file, why)| format!("tenants.{tenant}: {file}: {why}")));
                definitions.insert(tenant.clone(), found);
            }
            Err(error) => problems.push(format!("tenants.{tenant}: {error:?}")),
        }
    }
    if problems.is_empty() { Ok(definitions) } else { Err(problems) }
}

/// Whether a context of the tenant has this tool, or the operator has rules for it.
fn is_listed(config: &Config, tenant: &str, tool: &str) -> bool {
    let of_tenant = config.contexts.values().filter(|context| context.tenant.as_deref() == Some(tenant));
    config.tool_rules.contains_key(tool) || of_tenant.flat_map(|context| &context.tools).any(|listed| listed == tool)
}

/// Builds what would be published with this definition: what calls cannot have is not kept.
fn attempt(
    generation: &Generation,
    mut workshop: Workshop,
    tenant: &str,
    definition: &Value,
) -> Result<(), Vec<Problem>> {
    workshop.definitions = generation.definitions.clone();
    let own = workshop.definitions.entry(tenant.to_owned()).or_default();
    own.retain(|other| other["name"] != definition["name"]);
    own.push(definition.clone());
    let told = |errors: Vec<BuildError>| errors.iter().map(|error| Problem::new("", error.to_string())).collect();
    generation.renewed(&workshop).map(drop).map_err(told)
}

/// The engine as the store of tools sees it.
#[derive(Default)]
pub(super) struct EngineTools {
    shared: OnceLock<Weak<Shared>>,
}

impl EngineTools {
    pub fn attach(&self, shared: &Arc<Shared>) {
        // It is attached once, when the engine starts.
        let _ = self.shared.set(Arc::downgrade(shared));
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.get().and_then(Weak::upgrade)
    }

    fn tenant(&self, name: &str) -> Option<(Arc<Shared>, Tenant)> {
        let shared = self.shared()?;
        let tenant = shared.generation.load().config.tenants.get(name).cloned()?;
        Some((shared, tenant))
    }
}

const GONE: &str = "the engine has no such tenant";

impl ToolRegistry for EngineTools {
    fn check(&self, tenant: &str, definition: &Value) -> Result<(), Vec<Problem>> {
        let Some((shared, found)) = self.tenant(tenant) else { return Err(vec![Problem::new("", GONE)]) };
        Definition::read(definition, &found.surroundings).map(drop).map_err(|problems| {
            let told = |problem: crate::tool::declarative::DefinitionProblem| Problem {
                path: problem.path,
                message: problem.message,
                hint: problem.hint,
            };
            problems.into_iter().map(told).collect::<Vec<_>>()
        })?;
        let generation = shared.generation.load_full();
        attempt(&generation, shared.workshop(&generation.config), tenant, definition)
    }

    fn dry_run(&self, tenant: &str, definition: Value, trial: Trial) -> Answer<Value> {
        let found = self.tenant(tenant);
        async move {
            let Some((shared, tenant)) = found else { return Ok(json!({ "error": GONE })) };
            let Ok(definition) = Definition::read(&definition, &tenant.surroundings) else {
                return Ok(json!({ "error": "the definition is not valid" }));
            };
            let memory = Memory { user: trial.user, tenant: tenant.memory, ..Memory::default() };
            let input = RunInput {
                arguments: trial.params,
                memory: Arc::new(memory),
                call: CallView {
                    id: Uuid::nil().to_string(),
                    caller_number: None,
                    caller_name: None,
                    context_name: "dry-run".into(),
                    direction: "inbound".into(),
                },
                idempotency_key: format!("dry-run:{}", Uuid::new_v4()),
                time_left: TRIAL_MAX,
            };
            let fetch = trial.live.then(|| Arc::new(shared.outbound.clone()) as Arc<dyn Fetch>);
            let now = wall_clock::now;
            let services = Services { fetch: fetch.as_deref(), now: &now, on_immediate: &|_| {} };
            let report = definition.dry_run(input, services).await;
            let outcome = match &report.outcome {
                crate::tool::ToolOutcome::Done(done) => json!({
                    "ok": true, "message": done.message, "data": done.data,
                    "intents": done.actions.iter().map(|action| action.intent()).collect::<Vec<_>>(),
                }),
                crate::tool::ToolOutcome::Failed(failure) => json!({
                    "ok": false,
                    "error": { "type": failure.kind.label(), "message": failure.message, "details": failure.details },
                }),
                crate::tool::ToolOutcome::Collect(_) => Value::Null,
            };
            let missing = report.notes.iter().filter_map(|note| match note {
                Note::Missing { path } => Some(path.as_str()),
                _ => None,
            });
            let missing: BTreeSet<&str> = missing.collect();
            Ok(json!({ "live": trial.live, "outcome": outcome, "trace": report.trace, "missing": missing }))
        }
        .boxed()
    }

    fn publish(&self, tenant: &str, tools: Tools) {
        let Some(shared) = self.shared() else { return };
        let _one = shared.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = shared.generation.load();
        let mut workshop = shared.workshop(&before.config);
        workshop.definitions = before.definitions.clone();
        let former = workshop.definitions.remove(tenant).unwrap_or_default();
        let surroundings = before.config.tenants.get(tenant).map(|tenant| Arc::clone(&tenant.surroundings));
        let definitions = usable(tenant, tools, &former, &surroundings.unwrap_or_default());
        workshop.definitions.insert(tenant.to_owned(), definitions);
        match before.renewed(&workshop) {
            Ok(next) => {
                info!(tenant, generation = next.number, "the tools have changed; new calls have them");
                shared.take_over(next);
            }
            Err(errors) => {
                for error in errors {
                    warn!(tenant, "the changed tools are not used: {error}");
                }
            }
        }
    }

    fn is_locked(&self, tenant: &str) -> bool {
        self.tenant(tenant).is_none_or(|(_, tenant)| tenant.locked)
    }

    fn is_used(&self, tenant: &str, name: &str) -> bool {
        let Some(shared) = self.shared() else { return false };
        is_listed(&shared.generation.load().config, tenant, name)
    }

    fn is_reserved(&self, _: &str) -> bool {
        false
    }
}

/// What of a tenant's folder can be used. A file that somebody broke by hand keeps nobody from changing
/// another tool: its tool stays as calls have it.
fn usable(tenant: &str, tools: Tools, former: &[Value], surroundings: &Arc<Surroundings>) -> Vec<Value> {
    let name = |definition: &Value| definition.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let broken = |tool: &str, why: &str| warn!(tenant, tool, why, "the tool's file is broken; calls have it as it was");
    let is_good = |definition: &Value| Definition::read(definition, surroundings).is_ok();
    let (mut usable, bad): (Vec<Value>, Vec<Value>) = tools.definitions.into_iter().partition(is_good);
    let mut stay: Vec<String> =
        bad.iter().map(name).inspect(|tool| broken(tool, "the definition is not valid")).collect();
    for (file, why) in &tools.unreadable {
        broken(file, why);
        stay.extend(file.rsplit_once('.').map(|(stem, _)| stem.to_owned()));
    }
    usable.extend(former.iter().filter(|definition| stay.contains(&name(definition))).cloned());
    usable
}

/// Carries what a tool says while it runs into its call, and its notes into the log.
#[derive(Clone)]
pub(super) struct Ear {
    pub live: Arc<LiveCalls>,
}

impl Listener for Ear {
    fn speak_now(&self, facts: &CallFacts, words: &str) {
        if !self.live.say(facts.id, words) {
            debug!("a tool's sentence came too late or too fast to be said at once");
        }
    }

    /// Never a value: what a template was filled with may be a caller's.
    fn note(&self, facts: &CallFacts, tool: &str, note: &Note) {
        let call_id = facts.id.to_string();
        let call_id = call_id.as_str();
        match note {
            Note::Missing { path } => info!(call_id, tool, path = path.as_str(), "a template names what is not there"),
            Note::Capped { cap } => {
                warn!(call_id, tool, cap_ms = cap.as_millis() as u64, "requests were ended by request_time")
            }
            Note::WentOn { action, kind } => {
                info!(
                    call_id,
                    tool,
                    action = action.as_str(),
                    error = kind.label(),
                    "a request failed; the tool goes on"
                );
            }
            Note::EndingFailed { action, kind } => {
                warn!(
                    call_id,
                    tool,
                    action = action.as_str(),
                    error = kind.label(),
                    "an action after the outcome failed"
                );
            }
            Note::DataTooLarge { bytes } => warn!(call_id, tool, bytes, "the tool's data was too large for the model"),
            Note::Log { level: Level::Debug, template, .. } => {
                debug!(call_id, tool, template = template.as_str(), "log")
            }
            Note::Log { level: Level::Info, template, .. } => info!(call_id, tool, template = template.as_str(), "log"),
            Note::Log { level: Level::Warn, template, .. } => warn!(call_id, tool, template = template.as_str(), "log"),
            Note::Log { level: Level::Error, template, .. } => {
                error!(call_id, tool, template = template.as_str(), "log")
            }
        }
    }
}

struct NoFetch;

impl Fetch for NoFetch {
    fn fetch(&self, _: FetchRequest) -> BoxFuture<'static, Result<FetchResponse, FetchError>> {
        let message = "There is no network here.".to_owned();
        std::future::ready(Err(FetchError { kind: ToolError::Permanent, message, status: None, attempts: 0 })).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config, provider};

    /// D2, P10: a definition is kept only if the contexts that list it can have it.
    #[test]
    fn what_cannot_be_built_is_a_problem_of_the_definition() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tools")).unwrap();
        std::fs::write(folder.path().join("tools/greet.json"), "{}").unwrap();
        let yaml = "tenants: { acme: { tools: tools } }\nproviders: { a: { openai_realtime: { api_key: k } } }\n\
                    contexts: { front: { prompt: A, provider: a, tools: [greet] } }\n";
        let path = folder.path().join("offhook.yaml");
        std::fs::write(&path, yaml).unwrap();
        let config = config::load(&path, &|_| None, provider::catalog()).unwrap();
        let tool = |name: &str, items: &str| {
            let rows = json!([{ "name": "rows", "type": "array", "items": items }]);
            json!({ "name": name, "description": "Greets.", "parameters": rows, "actions": [] })
        };
        let definitions = [("acme".to_owned(), vec![tool("greet", "string")])].into();
        let workshop = Workshop { definitions, ..Workshop::closed() };
        let generation = Generation::build(1, config, &workshop).unwrap_or_else(|_| panic!("it can be built"));

        let attempt = |definition| attempt(&generation, Workshop::closed(), "acme", &definition);
        assert_eq!(attempt(tool("greet", "object")), Ok(()));
        let problems = attempt(tool("greet", "array")).unwrap_err();
        assert!(problems[0].message.starts_with("contexts.front.tools.greet: "), "{problems:?}");
        assert_eq!(attempt(tool("other", "array")), Ok(()), "no context lists it");

        assert!(is_listed(&generation.config, "acme", "greet"));
        assert!(!is_listed(&generation.config, "acme", "other") && !is_listed(&generation.config, "zoo", "greet"));
    }

    #[test]
    fn a_file_that_somebody_broke_keeps_nobody_from_changing_another_tool() {
        let tool = |name: &str, description: &str| json!({ "name": name, "description": description, "actions": [] });
        let former = [tool("one", "Old."), tool("two", "Old."), tool("three", "Old.")];
        let tools = Tools {
            definitions: vec![tool("one", "New."), json!({ "name": "two", "actions": "broken" })],
            unreadable: vec![("three.yaml".into(), "it is no YAML")],
        };
        let usable = usable("shop", tools, &former, &Arc::default());
        assert_eq!(usable, [tool("one", "New."), tool("two", "Old."), tool("three", "Old.")]);
    }
}
