//! An action as a tool like every other: behind the one policy gate, within the same budgets, on the same audit lines.

use super::servers::ActionServers;
use crate::{
    facts::CallFacts,
    tool::{Approved, Executor, Tool, ToolError, ToolOutcome, ToolSpec, india::PRIVATE_ARGUMENTS},
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;

/// A tool of an action server. It runs by MCP, unless what callers say must not go there.
pub struct ActionTool {
    inner: Arc<dyn Tool>,
    /// Among the MCP servers.
    server: String,
    servers: Arc<ActionServers>,
}

impl ActionTool {
    pub fn new(inner: Arc<dyn Tool>, server: String, servers: Arc<ActionServers>) -> Self {
        Self { inner, server, servers }
    }
}

impl Tool for ActionTool {
    fn spec(&self) -> ToolSpec {
        let mut spec = self.inner.spec();
        let properties = spec.parameters.get("properties").and_then(Value::as_object);
        let has = |name: &&&str| properties.is_some_and(|known| known.contains_key(**name));
        spec.secret_args = PRIVATE_ARGUMENTS.iter().filter(has).map(|name| (*name).to_owned()).collect();
        spec.executor = Executor::Vam(self.server.clone());
        spec
    }

    fn run(&self, call: Approved, facts: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        if self.servers.allows_calls_to(&self.server) {
            return self.inner.run(call, facts);
        }
        self.servers.counters().denied.inc();
        tracing::warn!(
            server = self.server.as_str(),
            "an action was denied: vam.residency keeps callers' words from there"
        );
        let message = "The action was denied: its server is not where this call's data may go.";
        Box::pin(std::future::ready(ToolOutcome::failed(ToolError::Refused, message)))
    }
}
