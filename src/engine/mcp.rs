//! The engine's MCP servers: started with it, restarted by a reload, their tools given to new calls.

use super::{Shared, generation::Generation, reload, workshop::Workshop};
use crate::{
    config::{Context, McpConfig},
    http::{McpServerView, McpStatus, McpTest, McpTestedTool, McpToolView, ReloadFailure, ReloadReport},
    mcp::{Fleet, LeftOut, McpCounters, ServerStatus, State, Tested, ToolStatus},
};
use prometheus::Registry;
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::watch,
};
use tracing::{error, info, warn};

/// Servers that start together tell their tools together.
const SETTLE: Duration = Duration::from_millis(50);

/// Lines about tools that are left out, at once. A server can have thousands.
const LEFT_OUT_TOLD_MAX: usize = 20;

pub(super) struct Servers {
    pub fleet: Arc<Fleet>,
    /// A reload waits for the last call to end.
    pending: AtomicBool,
    /// Contexts and tools of which it was said that they are not there.
    told_missing: Mutex<BTreeSet<(String, String)>>,
}

impl Servers {
    pub fn new(registry: &Registry) -> std::io::Result<Self> {
        let (runtime, counters) = (Handle::current(), Arc::new(McpCounters::new(registry)));
        // An engine in a runtime of one thread keeps to that thread: who embeds it so has one clock for all of it.
        let fleet = match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => Fleet::on(runtime, counters),
            _ => Fleet::new(counters)?,
        };
        let fleet = Arc::new(fleet);
        Ok(Self { fleet, pending: AtomicBool::new(false), told_missing: Mutex::default() })
    }
}

/// Gives new calls the tools of MCP servers as they become known and change.
pub(super) async fn keep_tools_fresh(shared: Arc<Shared>, mut changes: watch::Receiver<u64>) {
    while changes.changed().await.is_ok() {
        tokio::time::sleep(SETTLE).await;
        changes.mark_unchanged();
        let shared = Arc::clone(&shared);
        // Hundreds of schemas are compiled; the calls must not wait for it.
        if tokio::task::spawn_blocking(move || shared.renew_tools()).await.is_err() {
            error!("the tools of MCP servers could not be taken over");
        }
    }
}

impl Shared {
    pub(super) fn start_servers(&self) {
        self.mcp.fleet.start(&self.mcp_config());
    }

    fn renew_tools(&self) {
        let _one = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.generation.load();
        let workshop = Workshop { definitions: before.definitions.clone(), ..self.workshop(&before.config) };
        match before.renewed(&workshop) {
            Ok(next) => {
                let versions = |generation: &Generation| -> Vec<String> {
                    generation.registries().map(|(_, registry)| registry.version().to_owned()).collect()
                };
                if versions(&next) != versions(&before) {
                    info!(generation = next.number, "the tools of MCP servers have changed; new calls have them");
                    reload::tell_tools(&next);
                }
                self.take_over(next);
            }
            Err(errors) => {
                for error in errors {
                    error!("the tools of MCP servers are not taken over: {error}");
                }
            }
        }
    }

    /// New calls have this from now on. What of it cannot be used is told, once.
    pub(super) fn take_over(&self, next: Generation) {
        let before = self.generation.load();
        let news: Vec<_> = next.left_out().iter().filter(|out| !before.left_out().contains(out)).collect();
        for out in news.iter().take(LEFT_OUT_TOLD_MAX) {
            let (server, tool, reason) = (out.server.as_str(), shown(&out.tool), out.reason.as_str());
            warn!(server, tool, reason, "a tool of an MCP server is left out");
        }
        if news.len() > LEFT_OUT_TOLD_MAX {
            let tools = news.len() - LEFT_OUT_TOLD_MAX;
            warn!(tools, "more tools of MCP servers are left out; /mcp/status tells which");
        }
        self.tell_missing(&next);
        self.generation.store(Arc::new(next));
        self.know_names();
    }

    /// Tools that contexts list and that a server, which is up, has not: the agent misses them.
    fn tell_missing(&self, next: &Generation) {
        let status = self.mcp.fleet.status(&next.config.mcp);
        let missing: BTreeSet<(String, String)> =
            status.iter().flat_map(|(id, status)| missing(next, id, status)).collect();
        let mut told = self.mcp.told_missing.lock().unwrap_or_else(PoisonError::into_inner);
        for (context, tool) in missing.difference(&told) {
            let (context, tool) = (context.as_str(), tool.as_str());
            warn!(context, tool, "a context lists this tool, and its MCP server has none of that name");
        }
        *told = missing;
    }

    /// Loads the file again, then restarts the servers: at once, or when the last call has ended.
    pub(super) async fn reload_all(self: Arc<Self>) -> Result<ReloadReport, ReloadFailure> {
        let shared = Arc::clone(&self);
        // Rendering a scripted agent's voice takes seconds; the call tasks must not wait for it.
        let loaded = tokio::task::spawn_blocking(move || shared.reload()).await;
        let mut report = loaded.unwrap_or_else(|_| {
            Err(ReloadFailure { problems: vec!["the reload failed; the log of the engine says why".into()] })
        })?;
        let config = self.mcp_config();
        if self.mcp.fleet.is_empty() && config.servers.is_empty() {
            return Ok(report);
        }
        if self.live.count() == 0 {
            self.replace_servers().await;
            return Ok(report);
        }
        // Servers that are new are in nobody's way.
        self.mcp.fleet.start(&config);
        report.reload_pending = true;
        if !self.mcp.pending.swap(true, SeqCst) {
            info!(calls = self.live.count(), "MCP servers are reloaded when the last call has ended");
            tokio::spawn(async move {
                let mut draining = self.draining.subscribe();
                loop {
                    self.live.none_left().await;
                    // An engine that ends needs no new servers; one that rests gets them when it takes calls again.
                    if !*draining.borrow_and_update() {
                        return self.replace_servers().await;
                    }
                    if draining.changed().await.is_err() {
                        return;
                    }
                }
            });
        }
        Ok(report)
    }

    async fn replace_servers(&self) {
        self.mcp.pending.store(false, SeqCst);
        self.mcp.fleet.replace(&self.mcp_config()).await;
        info!("MCP servers are reloaded");
    }

    fn mcp_config(&self) -> McpConfig {
        self.with_registered(&self.generation.load().config.mcp)
    }

    /// The configured servers, and the action servers that have registered.
    pub(super) fn with_registered(&self, config: &McpConfig) -> McpConfig {
        let mut config = config.clone();
        let registered = self.vam.iter().flat_map(|vam| vam.servers.servers());
        config.servers.extend(registered.map(|server| (server.id.clone(), server)));
        config
    }

    pub(super) fn mcp_status(&self) -> McpStatus {
        let generation = self.generation.load();
        let config = &self.with_registered(&generation.config.mcp);
        let servers = self.mcp.fleet.status(config).into_iter().map(|(id, status)| {
            let missing: BTreeSet<String> = missing(&generation, &id, &status).map(|(_, tool)| tool).collect();
            let known: BTreeSet<String> = status.tools.iter().map(|tool| tool.name.clone()).collect();
            let view = |tool| tool_view(&generation, &id, tool);
            let mut tools: Vec<_> = status.tools.into_iter().map(view).collect();
            // Named in the file, and not the server's.
            let wanted = generation.left_out().iter().filter(|out| out.server == id && !known.contains(&out.tool));
            let exposed = |tool: &str| config.servers.get(&id).and_then(|server| server.exposed(tool));
            let named = |name: &str| ToolStatus { name: name.to_owned(), exposed_name: exposed(name), repeated: false };
            tools.extend(wanted.map(|out| view(named(&out.tool))));
            let server = McpServerView {
                transport: status.transport,
                state: status.state.label(),
                restarts: status.restarts,
                last_error: status.last_error,
                tools,
                missing: missing.into_iter().collect(),
            };
            (id, server)
        });
        McpStatus { enabled: config.enabled, reload_pending: self.mcp.pending.load(SeqCst), servers: servers.collect() }
    }

    pub(super) async fn mcp_test(&self, id: &str) -> McpTest {
        let config = self.mcp_config();
        let Some(server) = config.servers.get(id) else { return McpTest::Unknown };
        match self.mcp.fleet.test(server).await {
            None => McpTest::Busy,
            Some(report) => McpTest::Done {
                took: report.took,
                result: report.result.map(|tools| tools.into_iter().map(tested).collect()),
            },
        }
    }
}

/// A tool of a server as the status page shows it.
fn tool_view(generation: &Generation, server: &str, tool: ToolStatus) -> McpToolView {
    let ToolStatus { name, exposed_name, repeated } = tool;
    let own = Some((server, name.as_str()));
    let has_name = exposed_name.as_deref().is_some_and(|exposed| generation.mcp_tool(exposed) == own);
    // Of two tools with one name, this reason is the second one's alone.
    let is_its =
        |out: &&LeftOut| out.server == server && out.tool == name && (out.reason == LeftOut::REPEATED) == repeated;
    let reason = generation.left_out().iter().find(is_its).map(|out| out.reason.clone());
    McpToolView { name, exposed_name, registered: has_name && !repeated, reason }
}

fn tested(tool: Tested) -> McpTestedTool {
    let Tested { status, spec } = tool;
    let (spec, reason) = match spec {
        Ok(spec) => (Some(spec), None),
        Err(reason) => (None, Some(reason)),
    };
    let properties = spec.as_ref().and_then(|spec| spec.parameters.get("properties")?.as_object());
    McpTestedTool {
        name: status.name,
        exposed_name: status.exposed_name,
        arguments: properties.into_iter().flat_map(|all| all.keys().cloned()).collect(),
        access: spec.as_ref().map(|spec| spec.access.label()),
        description: spec.map(|spec| spec.description),
        reason,
    }
}

/// Contexts with the tools that they list and that this server, which is up, has not.
fn missing(generation: &Generation, id: &str, status: &ServerStatus) -> impl Iterator<Item = (String, String)> {
    let is_up = status.state == State::Up;
    // A tool in the server's own list is in the next generation, or is left out of it with a reason.
    let is_told = |tool: &str| status.tools.iter().any(|told| told.exposed_name.as_deref() == Some(tool));
    let is_missing = |tool: &str| {
        let owner = generation.config.mcp.owner(tool);
        is_up && generation.knows(tool).is_none() && owner.is_some_and(|server| server.id == id) && !is_told(tool)
    };
    let of_context = |(name, context): (&String, &Arc<Context>)| {
        let missing = context.tools.iter().filter(|tool| is_missing(tool));
        missing.map(|tool| (name.clone(), tool.clone())).collect::<Vec<_>>()
    };
    generation.config.contexts.iter().flat_map(of_context).collect::<Vec<_>>().into_iter()
}

/// A server's own name of a tool, for the log.
fn shown(name: &str) -> String {
    let clean = name.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config, provider,
        tool::{SideEffects, ToolKind},
    };

    /// Generation built on what a server that misbehaves so offers, with `tools` in the one context.
    async fn generation(mode: &str, tools: &str, more: &str) -> (Generation, Fleet) {
        let folder = tempfile::tempdir().unwrap();
        let script = crate::project("tests/kit/mcp/faulty.py");
        let yaml = format!(
            "mcp: {{ servers: {{ odd: {{ command: [python3, {script:?}, {mode}], defaults: {{ access: public_read }} }} }} }}\n\
             providers: {{ a: {{ openai_realtime: {{ api_key: k }} }} }}\n\
             contexts: {{ front: {{ prompt: A, provider: a, tools: [{tools}] }} }}\n{more}"
        );
        let path = folder.path().join("offhook.yaml");
        std::fs::write(&path, yaml).unwrap();
        let config =
            config::load(&path, &|_| None, provider::catalog()).unwrap_or_else(|problems| panic!("{problems:?}"));
        let fleet = Fleet::new(Arc::new(McpCounters::new(&Registry::new()))).unwrap();
        let mut changes = fleet.changes();
        fleet.start(&config.mcp);
        changes.changed().await.unwrap();
        let workshop = Workshop { mcp: fleet.offers(&config.mcp), ..Workshop::closed() };
        let generation = Generation::build(1, config, &workshop).unwrap_or_else(|errors| panic!("{errors:?}"));
        (generation, fleet)
    }

    /// M2, M answer 17: a schema that the context's provider cannot carry costs that context that tool, and nothing else.
    #[tokio::test]
    async fn a_tool_that_a_provider_cannot_be_told_is_missing_there_and_nothing_else_is() {
        let tools = "mcp_odd_echo, mcp_odd_array_without_items, hangup_call";
        let (generation, fleet) = generation("schemas", tools, "").await;
        let toolbox = generation.toolbox("front", true);
        let has = ["mcp_odd_echo", "mcp_odd_array_without_items", "hangup_call"].map(|tool| toolbox.has(tool));
        assert_eq!(has, [true, false, true]);
        let reason = |tool: &str| {
            let out = generation.left_out().iter().find(|out| out.server == "odd" && out.tool == tool);
            out.map(|out| out.reason.clone()).unwrap_or_default()
        };
        let carried = reason("array-without-items");
        assert!(carried.starts_with("contexts.front: ") && carried.contains("array without items"), "{carried}");
        assert!(reason("remote-ref").contains("leads outside"), "{}", reason("remote-ref"));
        assert_eq!(reason("echo"), "");
        fleet.stop().await;
    }

    /// M16, M answers 3, 20: built-in tools come first, then a tenant's, then those of servers; of two that would have one
    /// name the later is left out, both are named, and nothing is replaced.
    #[tokio::test]
    async fn a_tool_of_a_server_takes_no_name_that_is_taken() {
        let (generation, fleet) = generation("hostile", "hangup_call", "").await;
        let collided: Vec<_> = generation.left_out().iter().filter(|out| out.reason.contains("another tool")).collect();
        assert!(!collided.is_empty(), "{:?}", generation.left_out());
        assert!(collided.iter().all(|out| out.reason.contains("of the server \"odd\" has the name \"mcp_odd_")));
        assert_eq!(generation.knows("transfer").map(|spec| spec.executor.label()), Some("builtin"));
        fleet.stop().await;
    }

    /// M25: what the operator says of one holds, also of what it touches.
    #[tokio::test]
    async fn the_operators_word_about_a_tool_of_a_server_holds() {
        let rules = "tools: { mcp_odd_echo: { access: write, standing_approval: true, timeout: 3s } }\n";
        let (generation, fleet) = generation("plain", "mcp_odd_echo, mcp_odd_sum", rules).await;
        let spec = |name: &str| generation.knows(name).cloned().unwrap();
        let (echo, sum) = (spec("mcp_odd_echo"), spec("mcp_odd_sum"));
        assert_eq!((echo.side_effects, echo.kind), (SideEffects::Writes, ToolKind::Action));
        assert_eq!((echo.standing_approval, echo.timeout), (true, Duration::from_secs(3)));
        assert_eq!((sum.side_effects, sum.kind), (SideEffects::ReadOnly, ToolKind::Retrieval));
        assert_eq!(sum.timeout, Duration::from_secs(10), "as the document has it");
        assert_eq!(generation.mcp_tool("mcp_odd_echo"), Some(("odd", "echo")));
        fleet.stop().await;
    }

    /// A server may list two tools with one name: the one that is registered is told apart from the other.
    #[tokio::test]
    async fn of_two_tools_of_one_name_only_the_registered_one_is_marked() {
        let (generation, fleet) = generation("twice", "mcp_odd_echo, mcp_odd_sum", "").await;
        let status = fleet.status(&generation.config.mcp).remove("odd").unwrap();
        let views: Vec<_> = status.tools.into_iter().map(|tool| tool_view(&generation, "odd", tool)).collect();
        let told: Vec<_> =
            views.iter().map(|tool| (tool.name.as_str(), tool.registered, tool.reason.as_deref())).collect();
        assert_eq!(told, [("echo", true, None), ("echo", false, Some(LeftOut::REPEATED)), ("sum", true, None)]);
        assert_eq!(generation.left_out().len(), 1, "{:?}", generation.left_out());
        fleet.stop().await;
    }

    /// A server can list its tools after a generation was built, and before it is looked at.
    #[tokio::test]
    async fn a_tool_that_a_server_has_told_of_only_just_now_is_not_missing() {
        let (after, fleet) = generation("plain", "mcp_odd_echo, mcp_odd_nosuch", "").await;
        let before = Generation::build(1, after.config.clone(), &Workshop::closed()).unwrap();
        let status = fleet.status(&after.config.mcp);
        let missing: Vec<_> = status.iter().flat_map(|(id, status)| missing(&before, id, status)).collect();
        assert_eq!(missing, [("front".to_owned(), "mcp_odd_nosuch".to_owned())]);
        fleet.stop().await;
    }
}
