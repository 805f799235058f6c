//! An action as a tool like every other: behind the one policy gate, within the same budgets, on the same audit lines.

use super::{
    actions::{Action, Actions, Runner},
    servers::ActionServers,
};
use crate::{
    facts::CallFacts,
    mcp::Guest,
    tool::{Approved, Executor, Tool, ToolError, ToolOutcome, ToolSpec, india::PRIVATE_ARGUMENTS},
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;

/// What actions run with.
#[derive(Clone)]
pub struct Actioning {
    pub servers: Arc<ActionServers>,
    pub actions: Arc<Actions>,
}

/// A tool of an action server. A client that runs actions itself is asked to; for every other call it runs by MCP. What must
/// not go to the server goes nowhere.
pub struct ActionTool {
    inner: Arc<dyn Tool>,
    /// As its server calls it.
    name: Arc<str>,
    /// Among the MCP servers.
    server: String,
    servers: Arc<ActionServers>,
    actions: Arc<Actions>,
}

impl ActionTool {
    pub fn new(guest: Guest, gateway: &Actioning) -> Self {
        let Guest { server, name, tool } = guest;
        let Actioning { servers, actions } = gateway.clone();
        Self { inner: tool, name: name.into(), server, servers, actions }
    }
}

impl Tool for ActionTool {
    fn spec(&self) -> ToolSpec {
        let mut spec = self.inner.spec();
        let properties = spec.parameters.get("properties").and_then(Value::as_object);
        let has = |name: &&&str| properties.is_some_and(|known| known.contains_key(**name));
        let private = PRIVATE_ARGUMENTS.iter().filter(has).map(|name| (*name).to_owned());
        // Beside those that the tool itself has secret.
        let private: Vec<String> = private.filter(|name| !spec.secret_args.contains(name)).collect();
        spec.secret_args.extend(private);
        spec.executor = Executor::Vam(self.server.clone());
        // The action itself has all of its time (V9).
        spec.timeout += spec.executor.margin();
        spec
    }

    fn run(&self, call: Approved, facts: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let client = self.actions.client(facts.id);
        match self.servers.allows(&self.server, client.as_ref()) {
            Some(true) => {
                let by = match &client {
                    Some(client) if client.executes => Runner::Client(client.clone(), Arc::clone(&self.name)),
                    _ => {
                        let (inner, call, facts) = (Arc::clone(&self.inner), call.clone(), facts.clone());
                        Runner::Engine(Box::new(move || inner.run(call, &facts)))
                    }
                };
                let action = Action { client, by };
                return Box::pin(Arc::clone(&self.actions).act(action, call));
            }
            Some(false) => {}
            None => {
                let message = "The server of this action has gone.";
                return Box::pin(std::future::ready(ToolOutcome::failed(ToolError::NotFound, message)));
            }
        }
        self.servers.counters().denied.inc();
        tracing::warn!(
            server = self.server.as_str(),
            "an action was denied: vam.residency or the session's data_residency keeps callers' words from there"
        );
        let message = "The action was denied: its server is not where this call's data may go.";
        Box::pin(std::future::ready(ToolOutcome::failed(ToolError::Refused, message)))
    }
}
