//! What is kept of an action server that has registered, and how it becomes a server that is asked.

use super::residency::Claim;
use crate::{
    config::{McpRestart, McpServer, McpTransport, Reach, VamConfig, vam::ID_PREFIX},
    outbound::is_listed,
    tool::{
        india::{self, Canonical, Sensitivity},
        mcp::{McpDefaults, McpToolRules, exposed, snake},
    },
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use url::Url;

/// Of a server's id in lower snake case: with the prefix it is as long as an MCP server's may be.
pub(super) const ID_BYTES_MAX: usize = 36;
/// A server's start, and the telling of its tools.
const START_MAX: Duration = Duration::from_secs(10);
/// A program that ends by itself is started again so often.
const RESTARTS_MAX: u32 = 5;
const BACKOFF: Duration = Duration::from_secs(1);
/// A scheme of ours: a program of the configuration.
const STDIO: &str = "stdio:";

/// An accepted manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Registration {
    pub server_id: String,
    pub display_name: String,
    pub endpoint_uri: String,
    pub version: String,
    /// In the manifest's words.
    pub data_residency: String,
    pub registered_at: Timestamp,
    /// A program, or an endpoint of the local network.
    pub local: bool,
    pub tools: Vec<Accepted>,
}

/// A tool that calls can have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Accepted {
    /// The server's own name of it.
    pub name: String,
    pub description: String,
    /// Of the India tool registry, for a tool of it.
    pub registry_key: Option<String>,
}

impl Registration {
    pub fn claim(&self) -> Claim {
        Claim::parse(&self.data_residency).unwrap_or(Claim::None)
    }

    /// The name by which a model calls one of its tools.
    pub fn first_exposed(&self) -> Option<String> {
        self.tools.iter().find_map(|tool| tool.exposed(&self.server_id))
    }

    /// Whether a tool of it is called so, by its server or by models.
    pub fn has(&self, name: &str, exposed: &str) -> bool {
        let called = |tool: &Accepted| tool.name == name || tool.exposed(&self.server_id).as_deref() == Some(exposed);
        self.tools.iter().any(called)
    }

    /// The id by which it is an MCP server among others.
    pub fn id(&self) -> String {
        id_of(&self.server_id)
    }

    /// What it is started or reached as, under the configuration of now. `None`: it has no tool that anybody could call.
    ///
    /// # Errors
    /// The configuration does not allow it any more.
    pub fn server(&self, config: &VamConfig) -> Result<Option<McpServer>, String> {
        let server = self.empty_server(config)?;
        let is_cleared = is_cleared(&self.server_id, config);
        let kept = self.tools.iter().filter(|tool| is_cleared || !is_high(tool));
        let tools: BTreeMap<String, McpToolRules> = kept.map(|tool| (tool.name.clone(), tool.rules())).collect();
        // To a server of the configuration, no tools would mean all.
        Ok((!tools.is_empty()).then_some(McpServer { tools, ..server }))
    }

    /// What it is started or reached as, to be asked for its tools.
    ///
    /// # Errors
    /// The configuration does not allow it.
    pub fn empty_server(&self, config: &VamConfig) -> Result<McpServer, String> {
        let reach = if self.local { Reach::Local } else { Reach::Remote };
        Ok(McpServer {
            id: self.id(),
            enabled: true,
            transport: Endpoint::parse(&self.endpoint_uri, config)?.transport(reach),
            restart: McpRestart { enabled: true, max: RESTARTS_MAX, backoff: BACKOFF },
            start_max: START_MAX,
            defaults: McpDefaults { timeout: config.action_timeout, access: None, risk_domain: None },
            announce: None,
            tools: BTreeMap::new(),
        })
    }
}

impl Accepted {
    fn canonical(&self) -> Option<&'static Canonical> {
        self.registry_key.as_deref().and_then(india::canonical)
    }

    fn rules(&self) -> McpToolRules {
        McpToolRules {
            // A tool of the registry has the registry's name with every server; others are under their server's prefix.
            expose_as: self.canonical().and(self.registry_key.clone()),
            canonical: self.canonical(),
            first_text: true,
            ..McpToolRules::default()
        }
    }

    /// The name that a model calls it by; `None`: nothing can be made of its own.
    pub fn exposed(&self, server_id: &str) -> Option<String> {
        let own = || exposed(&id_of(server_id), &self.name).map(|exposed| exposed.name);
        self.registry_key.clone().or_else(own)
    }
}

pub(super) fn id_of(server_id: &str) -> String {
    format!("{ID_PREFIX}{}", snake(server_id))
}

/// Whether the operator vouches for who runs it (V21, V answer 18).
pub(super) fn is_cleared(server_id: &str, config: &VamConfig) -> bool {
    config.action_servers.get(server_id).is_some_and(|server| server.high_sensitivity)
}

fn is_high(tool: &Accepted) -> bool {
    tool.canonical().is_some_and(|canonical| canonical.sensitivity == Sensitivity::High)
}

/// Where an action server is: what its `endpoint_uri` means.
pub(super) enum Endpoint {
    Http(Url),
    Stdio(McpTransport),
}

impl Endpoint {
    /// # Errors
    /// All for which it is not one that the operator allows. The address itself is not repeated: it may hold a secret.
    pub fn parse(uri: &str, config: &VamConfig) -> Result<Self, String> {
        // A manifest names a program of the configuration and never a command line (V answer 6).
        if let Some(id) = uri.strip_prefix(STDIO) {
            let known = config.action_servers.get(id).and_then(|server| server.command.clone());
            return known.map(Self::Stdio).ok_or_else(|| {
                "endpoint_uri: stdio: names no command of the gateway's configuration (vam.action_servers)".into()
            });
        }
        let url = Url::parse(uri).map_err(|_| "endpoint_uri: is no http://, https:// or stdio: address".to_owned())?;
        let has_host = url.host_str().is_some_and(|host| !host.is_empty());
        let rules = [
            (!matches!(url.scheme(), "http" | "https"), "is no http://, https:// or stdio: address"),
            (!has_host, "has no host"),
            (!url.username().is_empty() || url.password().is_some(), "must not have a user or a password"),
            (url.query().is_some() || url.fragment().is_some(), "must not have a query or a fragment"),
            (
                has_host && !is_listed(&url, &config.allowed_hosts),
                "its host is not one that the gateway allows (vam.allowed_hosts)",
            ),
        ];
        let wrong: Vec<_> =
            rules.iter().filter(|(is_broken, _)| *is_broken).map(|(_, why)| format!("endpoint_uri: {why}")).collect();
        if wrong.is_empty() { Ok(Self::Http(url)) } else { Err(wrong.join("; ")) }
    }

    /// Whether it is local.
    ///
    /// # Errors
    /// Its host has no address, or some here and some there.
    pub async fn reach(&self) -> Result<Reach, String> {
        match self {
            Self::Stdio(_) => Ok(Reach::Local),
            Self::Http(url) => {
                let found = Reach::of(url.host_str().unwrap_or_default()).await;
                found.map_err(|why| format!("endpoint_uri: {why}"))
            }
        }
    }

    pub fn transport(self, reach: Reach) -> McpTransport {
        match self {
            Self::Stdio(transport) => transport,
            Self::Http(url) => McpTransport::Http { url: url.into(), reach, headers: BTreeMap::new(), bearer: None },
        }
    }
}
