//! A fleet of servers and a way to call their tools as a conversation does.

use jiff::Timestamp;
use offhook::{
    config::{self, Config},
    facts::{CallFacts, CallId},
    mcp::{Fleet, LeftOut, McpCounters, ServerStatus, State},
    provider,
    tool::{
        Admission, CallPolicy, Executor, Failure, Opening, PolicyRules, Registry, ToolCall, ToolCallId, ToolOutcome,
        ToolSpec, Toolbox,
    },
};
use serde_json::Value;
use std::{path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// For what takes a machine under load a moment.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// One engine's servers, without an engine.
pub struct Desk {
    pub fleet: Arc<Fleet>,
    pub config: Config,
    pub folder: TempDir,
    pub metrics: prometheus::Registry,
}

/// The entry of a server that misbehaves so; `more` are further keys.
pub fn faulty(mode: &str, more: &str) -> String {
    let script = support("faulty.py");
    format!("{{ command: [python3, {script:?}, {mode}], env: {{ FAULTY_LOG: faulty.log }}{more} }}")
}

/// A file beside the tests.
pub fn support(name: &str) -> String {
    offhook_kit::project().join("tests/kit/mcp").join(name).display().to_string()
}

impl Desk {
    /// Loads these servers and begins to start them. Their tools are classified as public reads.
    pub fn open(servers: &[(&str, String)]) -> Self {
        Self::open_with(servers, |counters| Fleet::new(counters).unwrap())
    }

    /// The same on the thread of the test, whose log can be captured.
    pub fn open_here(servers: &[(&str, String)]) -> Self {
        Self::open_with(servers, |counters| Fleet::on(Handle::current(), counters))
    }

    fn open_with(servers: &[(&str, String)], fleet: impl FnOnce(Arc<McpCounters>) -> Fleet) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let config = Self::read(servers, folder.path());
        Self::with(config, folder, fleet)
    }

    /// With this configuration of the file in this folder.
    pub fn of(config: Config, folder: TempDir) -> Self {
        Self::with(config, folder, |counters| Fleet::new(counters).unwrap())
    }

    fn with(config: Config, folder: TempDir, fleet: impl FnOnce(Arc<McpCounters>) -> Fleet) -> Self {
        let metrics = prometheus::Registry::new();
        let fleet = fleet(Arc::new(McpCounters::new(&metrics)));
        fleet.start(&config.mcp);
        Self { fleet: Arc::new(fleet), config, folder, metrics }
    }

    pub fn read(servers: &[(&str, String)], folder: &Path) -> Config {
        let servers: String = servers.iter().map(|(id, entry)| format!("    {id}: {entry}\n")).collect();
        let yaml = format!(
            "providers: {{ a: {{ scripted: {{ script: [silence] }} }} }}\n\
             contexts: {{ a: {{ prompt: Test, provider: a }} }}\nmcp:\n  servers:\n{servers}"
        );
        let path = folder.join("offhook.yaml");
        std::fs::write(&path, yaml).unwrap();
        config::load(&path, &|_| None, provider::catalog()).unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    /// Sets the limit of a server's calls, for the toolboxes that are made from then on.
    pub fn limit(&mut self, server: &str, limit: Duration) {
        self.config.mcp.servers.get_mut(server).unwrap().defaults.timeout = limit;
    }

    pub fn status(&self, server: &str) -> ServerStatus {
        self.fleet.status(&self.config.mcp)[server].clone()
    }

    /// Waits until a server is in this state.
    pub async fn until(&self, server: &str, state: State) -> ServerStatus {
        self.when(server, &format!("{state:?}"), |status| status.state == state).await
    }

    /// Waits until a server's status is so.
    pub async fn when(&self, server: &str, what: &str, is_so: impl Fn(&ServerStatus) -> bool) -> ServerStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.status(server);
            if is_so(&status) {
                return status;
            }
            assert!(Instant::now() < until, "{server} is not {what}: {status:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// All tools that the servers offer at this moment, and what is left out.
    pub fn registry(&self) -> (Registry, Vec<LeftOut>) {
        self.registry_for(&[])
    }

    /// The same for contexts that list these.
    pub fn registry_for(&self, listed: &[&str]) -> (Registry, Vec<LeftOut>) {
        let listed = listed.iter().copied().collect();
        let (mut guests, mut left_out) = (Vec::new(), Vec::new());
        for offer in self.fleet.offers(&self.config.mcp) {
            let (tools, not) = offer.tools(&listed);
            left_out.extend(not);
            guests.extend(tools);
        }
        let classify = |spec: &mut ToolSpec| {
            if matches!(spec.executor, Executor::Mcp(_)) && spec.access == offhook::gate::Category::Unknown {
                offhook::tool::mcp::classify(spec, offhook::gate::Category::PublicRead);
            }
        };
        let tools = guests.iter().map(|guest| Arc::clone(&guest.tool));
        let (registry, refused) = Registry::with_guests([], tools, classify).unwrap();
        left_out.extend(refused.into_iter().map(|(index, reason)| LeftOut {
            server: guests[index].server.clone(),
            tool: guests[index].name.clone(),
            reason,
        }));
        (registry, left_out)
    }

    pub fn toolbox(&self) -> Arc<Toolbox> {
        let (registry, _) = self.registry();
        Arc::new(registry.toolbox(registry.names()))
    }

    /// One call by a model, as it would come out of a telephone call.
    pub async fn call(&self, tool: &str, arguments: Value) -> ToolOutcome {
        call(&self.toolbox(), tool, arguments).await
    }

    /// What the server that misbehaves has written down.
    pub fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("faulty.log")).unwrap_or_default();
        offhook_kit::json_lines(&text)
    }

    pub fn events(&self, event: &str) -> Vec<Value> {
        self.log().into_iter().filter(|line| line["event"] == event).collect()
    }

    /// Waits until the server has written down so many of these.
    pub async fn until_events(&self, event: &str, count: usize) -> Vec<Value> {
        let until = Instant::now() + PATIENCE;
        loop {
            let events = self.events(event);
            if events.len() >= count {
                return events;
            }
            assert!(Instant::now() < until, "{event} is not there {count} times: {:?}\n{}", self.log(), self.metrics());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn metrics(&self) -> String {
        prometheus::TextEncoder::new().encode_to_string(&self.metrics.gather()).unwrap()
    }
}

/// One call of this selection of tools.
pub async fn call(toolbox: &Arc<Toolbox>, tool: &str, arguments: Value) -> ToolOutcome {
    let opening = Opening { session: "desk".into(), ..Opening::default() };
    let began = (Instant::now().into_std(), Timestamp::now());
    let mut policy = CallPolicy::new(Arc::clone(toolbox), Arc::<PolicyRules>::default(), opening, began);
    let call = ToolCall { id: "call_1".into(), name: tool.into(), arguments: arguments.to_string() };
    match policy.admit(ToolCallId::random(), &call, Instant::now().into_std()) {
        Admission::Run { call, .. } => {
            let tool = toolbox.tool(&call).unwrap();
            tool.run(*call, &facts()).await
        }
        other => panic!("{tool} is not admitted: {other:?}"),
    }
}

pub fn facts() -> CallFacts {
    CallFacts::new(CallId::random(), "front", "main")
}

/// Why a tool failed.
pub fn failed(outcome: ToolOutcome) -> Failure {
    match outcome {
        ToolOutcome::Failed(failure) => failure,
        other => panic!("it did not fail: {other:?}"),
    }
}

/// The process that wrote this event of `faulty.py`.
pub fn pid(event: &Value) -> u32 {
    process_in(event, "pid")
}

/// The process id under this key of an event of `faulty.py`.
pub fn process_in(event: &Value, key: &str) -> u32 {
    event[key].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process id")
}

/// What a tool that worked said, and its data.
pub fn done(outcome: ToolOutcome) -> (String, Value) {
    match outcome {
        ToolOutcome::Done(done) => (done.message.unwrap_or_default(), done.data),
        other => panic!("it did not work: {other:?}"),
    }
}

/// Twenty calls of `slow`, which never answers, and 180 others: those are all answered meanwhile. Twenty, so that a client
/// with a queue of places for a few would be full of them.
pub async fn none_waits_for_the_slowest(
    toolbox: &Arc<Toolbox>,
    slow: &'static str,
    other: impl Fn(usize) -> (&'static str, Value),
) {
    let of = |tool: &'static str, arguments: Value| {
        let toolbox = Arc::clone(toolbox);
        tokio::spawn(async move { done(call(&toolbox, tool, arguments).await) })
    };
    let slowest: Vec<_> = (0..20).map(|_| of(slow, serde_json::json!({}))).collect();
    let others: Vec<_> = (0..180).map(other).map(|(tool, arguments)| of(tool, arguments)).collect();
    for other in others {
        other.await.unwrap();
    }
    assert!(slowest.iter().all(|slow| !slow.is_finished()), "the others are answered before the slowest");
    slowest.iter().for_each(tokio::task::JoinHandle::abort);
}
