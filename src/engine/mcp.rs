//! The engine's MCP servers: started with it, restarted by a reload, their tools given to new calls.

use super::{Shared, workshop::Workshop};
use crate::{
    config::McpConfig,
    http::{McpServerView, McpStatus, McpTest, McpToolView, ReloadFailure, ReloadReport},
    mcp::{Fleet, McpCounters},
};
use prometheus::Registry;
use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tracing::{error, info, warn};

/// Servers that start together tell their tools together.
const SETTLE: Duration = Duration::from_millis(50);

pub(super) struct Servers {
    pub fleet: Fleet,
    /// A reload waits for the last call to end.
    pending: AtomicBool,
}

impl Servers {
    pub fn new(registry: &Registry) -> std::io::Result<Self> {
        let fleet = Fleet::new(Arc::new(McpCounters::new(registry)))?;
        Ok(Self { fleet, pending: AtomicBool::new(false) })
    }
}

/// Gives new calls the tools of MCP servers as they become known and change.
pub(super) async fn keep_tools_fresh(shared: Arc<Shared>) {
    let mut changes = shared.mcp.fleet.changes();
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
        let generation = self.generation.load();
        self.mcp.fleet.start(&generation.config.mcp);
    }

    fn renew_tools(&self) {
        let _one = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.generation.load();
        let mcp = self.mcp.fleet.offers(&before.config.mcp);
        let workshop = Workshop { definitions: before.definitions.clone(), mcp, ..self.workshop() };
        match before.renewed(&workshop) {
            Ok(next) => {
                info!(generation = next.number, "the tools of MCP servers have changed; new calls have them");
                for out in next.left_out().iter().filter(|out| !before.left_out().contains(out)) {
                    let (server, tool, reason) = (out.server.as_str(), shown(&out.tool), out.reason.as_str());
                    warn!(server, tool, reason, "a tool of an MCP server is left out");
                }
                self.generation.store(Arc::new(next));
                self.know_names();
            }
            Err(errors) => {
                for error in errors {
                    error!("the tools of MCP servers are not taken over: {error}");
                }
            }
        }
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
                self.live.none_left().await;
                self.replace_servers().await;
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
        self.generation.load().config.mcp.clone()
    }

    pub(super) fn mcp_status(&self) -> McpStatus {
        let generation = self.generation.load();
        let config = &generation.config.mcp;
        let view = |id: &str, name: String, exposed_name: Option<String>| {
            let own = Some((id, name.as_str()));
            let registered = exposed_name.as_deref().is_some_and(|exposed| generation.mcp_tool(exposed) == own);
            let left_out = generation.left_out().iter().find(|out| out.server == id && out.tool == name);
            let reason = left_out.map(|out| out.reason.clone());
            McpToolView { name, exposed_name, registered, reason }
        };
        let servers = self.mcp.fleet.status(config).into_iter().map(|(id, status)| {
            let tools = status.tools.into_iter().map(|tool| view(&id, tool.name, tool.exposed_name)).collect();
            let server = McpServerView {
                transport: status.transport,
                state: status.state.label(),
                restarts: status.restarts,
                last_error: status.last_error,
                tools,
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
                result: report.result.map(|tools| {
                    let names = tools.into_iter().map(|tool| (tool.name, tool.exposed_name));
                    names.collect()
                }),
            },
        }
    }
}

/// A server's own name of a tool, for the log.
fn shown(name: &str) -> String {
    let clean = name.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(64).collect()
}
