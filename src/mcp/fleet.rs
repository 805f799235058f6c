//! All servers of an engine.

use super::{
    TOOLS_MAX,
    counters::McpCounters,
    link,
    server::{self, Server, State},
    tool::McpTool,
};
use crate::{
    config::{McpConfig, McpServer, McpTransport},
    tool::{
        Tool, ToolSpec,
        mcp::{Offered, exposed},
    },
};
use futures_util::future::join_all;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Acquire},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Somebody waits for the answer.
const TEST_MAX: Duration = Duration::from_secs(45);
/// For tests that are given up when the engine stops.
const TEST_END_MAX: Duration = Duration::from_secs(1);

/// The servers of a generation are started and stopped here; calls reach them through their tools.
pub struct Fleet {
    /// An own thread for what servers say: parsing a long answer must not make a frame late.
    _runtime: Option<OwnRuntime>,
    handle: Handle,
    counters: Arc<McpCounters>,
    changed: watch::Sender<u64>,
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
    /// Held while servers are exchanged, which takes as long as the slowest of them takes to end.
    exchange: tokio::sync::Mutex<()>,
    /// Nothing is started any more.
    stopping: CancellationToken,
    /// One test of a server at a time.
    testing: watch::Sender<BTreeSet<String>>,
}

/// What a server offers to a generation of the configuration.
#[derive(Clone)]
pub struct Offer {
    /// As the configuration of that generation has it.
    config: Arc<McpServer>,
    server: Arc<Server>,
    /// Version of the fleet's tools with which the server told these.
    told_at: u64,
    tools: Arc<Vec<Offered>>,
    counters: Arc<McpCounters>,
    handle: Handle,
}

/// A tool of a server, ready for a registry.
pub struct Guest {
    pub server: String,
    /// As the server calls it.
    pub name: String,
    pub tool: Arc<dyn Tool>,
}

/// A tool that a server has and that nobody can use, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub server: String,
    pub tool: String,
    pub reason: String,
}

impl LeftOut {
    /// Reason for a tool whose name another one before it in the server's list has.
    pub const REPEATED: &str = "the server's list has this name twice; the first tool has it";
}

/// What `GET /mcp/status` tells of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    pub transport: &'static str,
    pub state: State,
    pub restarts: u64,
    pub last_error: Option<String>,
    pub tools: Vec<ToolStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolStatus {
    /// As the server calls it.
    pub name: String,
    /// `None`: nothing can be made of its name.
    pub exposed_name: Option<String>,
    /// A tool before it in the server's list has its name, and is the one that a call by that name is for.
    pub repeated: bool,
}

/// What came of a throwaway instance.
#[derive(Debug, Clone, PartialEq)]
pub struct TestReport {
    pub took: Duration,
    pub result: Result<Vec<Tested>, String>,
}

/// A tool as a model would be told of it, so that somebody can read it before.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    pub status: ToolStatus,
    /// Or why it cannot be used.
    pub spec: Result<ToolSpec, String>,
}

impl Fleet {
    /// With a thread of its own for all servers.
    pub fn new(counters: Arc<McpCounters>) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("mcp").enable_all().build()?;
        let handle = runtime.handle().clone();
        Ok(Self { _runtime: Some(OwnRuntime(Some(runtime))), ..Self::on(handle, counters) })
    }

    /// On a runtime that is there already.
    pub fn on(handle: Handle, counters: Arc<McpCounters>) -> Self {
        Self {
            _runtime: None,
            handle,
            counters,
            changed: watch::Sender::new(0),
            servers: Mutex::default(),
            exchange: tokio::sync::Mutex::default(),
            stopping: CancellationToken::new(),
            testing: watch::Sender::default(),
        }
    }

    /// Counts up whenever the tools of a server have become known or have changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Version of the tools of all servers. Those that a server tells from now on have a later one ([`Offer::told_at`]).
    pub fn version(&self) -> u64 {
        *self.changed.borrow()
    }

    pub fn counters(&self) -> &McpCounters {
        &self.counters
    }

    /// Begins to start the servers that are not there yet; waits for none of them.
    pub fn start(&self, config: &McpConfig) {
        let mut servers = self.lock();
        for server in wanted(config).filter(|_| !self.stopping.is_cancelled()) {
            servers.entry(server.id.clone()).or_insert_with(|| {
                let _inside = self.handle.enter();
                Server::start(server.clone(), Arc::clone(&self.counters), self.changed.clone())
            });
        }
    }

    /// Ends all servers and starts those of this configuration. What they offered before is offered until they tell
    /// their tools anew, and calls that have their tools reach the new ones.
    pub async fn replace(&self, config: &McpConfig) {
        let _one = self.exchange.lock().await;
        let wanted: BTreeMap<&str, &McpServer> = wanted(config).map(|server| (server.id.as_str(), server)).collect();
        let old = self.lock().clone();
        let exchange = |server: Arc<Server>| {
            let config = wanted.get(server.id.as_str()).map(|config| (*config).clone());
            async move {
                match config {
                    Some(config) => server.renew(config).await,
                    None => server.stop().await,
                }
            }
        };
        join_all(old.into_values().map(exchange)).await;
        self.lock().retain(|id, _| wanted.contains_key(id.as_str()));
        self.start(config);
        self.changed.send_modify(|version| *version += 1);
    }

    /// Whether there is one at all.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Ends all servers and tests, in bounded time. Nothing is started afterwards.
    pub async fn stop(&self) {
        self.stopping.cancel();
        let _one = self.exchange.lock().await;
        let all: BTreeMap<_, _> = std::mem::take(&mut *self.lock());
        join_all(all.values().map(|server| server.stop())).await;
        // A test that was given up kills what it has started when it is dropped, on its own thread.
        let mut testing = self.testing.subscribe();
        let _ = timeout(TEST_END_MAX, testing.wait_for(BTreeSet::is_empty)).await;
    }

    /// What the servers of a configuration offer at this moment.
    pub fn offers(&self, config: &McpConfig) -> Vec<Offer> {
        let servers = self.lock();
        let offer = |wanted: &McpServer| {
            let server = Arc::clone(servers.get(&wanted.id)?);
            let (counters, handle) = (Arc::clone(&self.counters), self.handle.clone());
            let told_at = server.told_at.load(Acquire);
            let (config, tools) = (Arc::new(wanted.clone()), server.tools.load_full());
            Some(Offer { config, server, told_at, tools, counters, handle })
        };
        wanted(config).filter_map(offer).collect()
    }

    /// All servers of a configuration, those that are not started too.
    pub fn status(&self, config: &McpConfig) -> BTreeMap<String, ServerStatus> {
        let servers = self.lock();
        let status = |(id, wanted): (&String, &McpServer)| {
            let transport = transport(wanted);
            let status = match servers.get(id) {
                Some(server) if config.enabled && wanted.enabled => {
                    let (state, last_error) = server.state();
                    let tools = tools_of(wanted, &server.tools.load());
                    ServerStatus { transport, state, restarts: server.restarts(), last_error, tools }
                }
                _ => {
                    let is_on = config.enabled && wanted.enabled;
                    let state = if is_on { State::Starting } else { State::Disabled };
                    ServerStatus { transport, state, restarts: 0, last_error: None, tools: Vec::new() }
                }
            };
            (id.clone(), status)
        };
        config.servers.iter().map(status).collect()
    }

    /// Starts an instance of a server, asks for its tools, and ends it. One that was given up is started again if that
    /// worked. `None`: it is being tested already.
    pub async fn test(&self, config: &McpServer) -> Option<TestReport> {
        let mine = Testing::begin(&self.testing, &config.id)?;
        let began = Instant::now();
        let own = config.clone();
        let stopping = self.stopping.clone();
        let tried = async move { look(&own).await.map(|offered| tested(&own, &offered)) };
        let tried = self.handle.spawn(async move {
            let _mine = mine;
            tokio::select! {
                result = timeout(TEST_MAX, tried) => {
                    result.unwrap_or_else(|_| Err(too_late()))
                }
                () = stopping.cancelled() => Err("the engine stops".into()),
            }
        });
        let result = tried.await.unwrap_or_else(|_| Err("the test itself failed; see the log".into()));
        if result.is_ok()
            && let Some(server) = self.lock().get(&config.id)
            && server.state().0 != State::Up
        {
            server.retry();
        }
        Some(TestReport { took: began.elapsed(), result })
    }

    /// The tools of a server that is not of the fleet: one connection, for this question alone.
    ///
    /// # Errors
    /// Why they are not known.
    pub async fn look(&self, config: McpServer) -> Result<Vec<Offered>, String> {
        let stopping = self.stopping.clone();
        let asked = self.handle.spawn(async move {
            tokio::select! {
                result = timeout(TEST_MAX, look(&config)) => result.unwrap_or_else(|_| Err(too_late())),
                () = stopping.cancelled() => Err("the engine stops".into()),
            }
        });
        asked.await.unwrap_or_else(|_| Err("the look itself failed; see the log".into()))
    }

    /// Starts this server, or ends it and begins anew as it is now.
    pub async fn put(&self, config: McpServer) {
        let _one = self.exchange.lock().await;
        let old = self.lock().get(&config.id).map(Arc::clone);
        match old {
            Some(server) => server.renew(config).await,
            None if self.stopping.is_cancelled() => {}
            None => {
                let _inside = self.handle.enter();
                let server = Server::start(config.clone(), Arc::clone(&self.counters), self.changed.clone());
                self.lock().insert(config.id, server);
            }
        }
    }

    /// Ends this server, and takes its tools from new calls.
    pub async fn remove(&self, id: &str) {
        let _one = self.exchange.lock().await;
        let server = self.lock().remove(id);
        if let Some(server) = server {
            self.changed.send_modify(|version| *version += 1);
            server.stop().await;
            self.counters.forget_server(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Server>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts an instance, asks for its tools, and ends it.
async fn look(config: &McpServer) -> Result<Vec<Offered>, String> {
    let output = server::output(config);
    let link = link::connect(config, &output).await?;
    let tools = link.first_tools(config.start_max, &output).await;
    link.stop().await;
    tools.map(|(offered, _)| offered)
}

fn too_late() -> String {
    format!("it did not tell its tools in {} s", TEST_MAX.as_secs())
}

/// A runtime must not be waited for where others run.
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A server's name among those that are tested; gives it back when dropped.
struct Testing {
    all: watch::Sender<BTreeSet<String>>,
    id: String,
}

impl Testing {
    fn begin(all: &watch::Sender<BTreeSet<String>>, id: &str) -> Option<Self> {
        let new = all.send_if_modified(|testing| testing.insert(id.to_owned()));
        new.then(|| Self { all: all.clone(), id: id.to_owned() })
    }
}

impl Drop for Testing {
    fn drop(&mut self) {
        self.all.send_if_modified(|testing| testing.remove(&self.id));
    }
}

fn wanted(config: &McpConfig) -> impl Iterator<Item = &McpServer> {
    config.servers.values().filter(|server| config.enabled && server.enabled)
}

const fn transport(server: &McpServer) -> &'static str {
    match server.transport {
        McpTransport::Stdio { .. } => "stdio",
        McpTransport::Http { .. } => "http",
    }
}

fn tested(config: &McpServer, offered: &[Offered]) -> Vec<Tested> {
    let spec = |tool: &Offered| tool.spec(&config.id, config.tools.get(&tool.name), &config.defaults);
    let specs = offered.iter().map(spec);
    let tested = |(status, spec): (ToolStatus, _)| {
        let spec = if status.repeated { Err(LeftOut::REPEATED.to_owned()) } else { spec };
        Tested { status, spec }
    };
    tools_of(config, offered).into_iter().zip(specs).map(tested).collect()
}

fn tools_of(config: &McpServer, offered: &[Offered]) -> Vec<ToolStatus> {
    let mut known = BTreeSet::new();
    let status = |tool: &Offered| {
        let repeated = !known.insert(tool.name.clone());
        ToolStatus { name: tool.name.clone(), exposed_name: config.exposed(&tool.name), repeated }
    };
    offered.iter().map(status).collect()
}

impl Offer {
    pub fn server(&self) -> &str {
        &self.config.id
    }

    /// Version of the fleet's tools with which the server told these; 0 where it has told none yet.
    pub const fn told_at(&self) -> u64 {
        self.told_at
    }

    /// The server's tools that this configuration wants, in the server's order; those that `listed` names come first when
    /// there are too many. And what is left out.
    pub fn tools(&self, listed: &BTreeSet<&str>) -> (Vec<Guest>, Vec<LeftOut>) {
        let config = &self.config;
        let mut left_out = Vec::new();
        let mut leave = |tool: &str, reason: String| {
            left_out.push(LeftOut { server: config.id.clone(), tool: tool.to_owned(), reason });
        };
        let is_wanted = |tool: &&Offered| config.tools.is_empty() || config.tools.contains_key(&tool.name);
        let is_listed =
            |tool: &&Offered| config.exposed(&tool.name).is_some_and(|exposed| listed.contains(exposed.as_str()));
        let (first, rest): (Vec<_>, Vec<_>) = self.tools.iter().filter(is_wanted).partition(is_listed);
        let (mut made, mut known) = (Vec::new(), BTreeSet::new());
        for (index, tool) in first.into_iter().chain(rest).enumerate() {
            if index >= TOOLS_MAX {
                leave(&tool.name, format!("the server has more than {TOOLS_MAX} tools"));
                continue;
            }
            if !known.insert(&tool.name) {
                leave(&tool.name, LeftOut::REPEATED.into());
                continue;
            }
            match self.tool(tool) {
                Ok(made_of) => {
                    let (server, name) = (config.id.clone(), tool.name.clone());
                    made.push(Guest { server, name, tool: Arc::new(made_of) });
                }
                Err(reason) => leave(&tool.name, reason),
            }
        }
        for name in config.tools.keys().filter(|name| !self.tools.iter().any(|tool| tool.name == **name)) {
            if self.server.state().0 == State::Up {
                leave(name, "the server has no tool of this name".into());
            }
        }
        (made, left_out)
    }

    fn tool(&self, offered: &Offered) -> Result<McpTool, String> {
        let rules = self.config.tools.get(&offered.name);
        let mut spec = offered.spec(&self.config.id, rules, &self.config.defaults)?;
        spec.announce.clone_from(&self.config.announce);
        let own_name = rules.is_some_and(|rules| rules.expose_as.is_some());
        if !own_name && exposed(&self.config.id, &offered.name).is_some_and(|exposed| exposed.shortened) {
            warn!(server = self.config.id.as_str(), exposed_name = spec.name, "the name of an MCP tool was shortened");
        }
        Ok(McpTool {
            spec,
            tool: offered.name.as_str().into(),
            rules: rules.cloned().unwrap_or_default(),
            server: Arc::clone(&self.server),
            counters: Arc::clone(&self.counters),
            runtime: self.handle.clone(),
        })
    }
}
