//! Action servers from their registration to their tools, at endpoints that are played here.

use super::{
    ActionServers, Owned, VamCounters,
    wire::{ActionServerManifest, ActionServerRegistrationResponse, ToolDeclaration},
};
use crate::{
    config::{self, VamConfig},
    mcp::{Fleet, McpCounters},
    provider,
    tool::india,
};
use axum::{Json, Router, http::StatusCode, response::IntoResponse as _, routing::post};
use prometheus::Registry;
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::Notify};

mod acting;
mod holding;
mod registering;
mod restarting;
mod strangers;
mod visiting;

/// Owner of a tool that new calls have as its server tells it.
fn owned(server: &str) -> Owned {
    Owned { server: server.to_owned(), told_at: u64::MAX }
}

/// A gateway's half of it, with what it keeps in a folder of its own.
struct Gateway {
    folder: Arc<TempDir>,
    more: String,
    registry: Registry,
    fleet: Arc<Fleet>,
    servers: ActionServers,
}

impl Gateway {
    /// `more`: keys of the section `vam`.
    fn new(more: &str) -> Self {
        Self::again(Arc::new(TempDir::new().unwrap()), more)
    }

    fn again(folder: Arc<TempDir>, more: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let registry = Registry::new();
        let fleet = Arc::new(Fleet::new(Arc::new(McpCounters::new(&registry))).unwrap());
        let config = config(&folder, more);
        let servers = ActionServers::open(&config, Arc::clone(&fleet), VamCounters::new(&registry)).unwrap();
        Self { folder, more: more.to_owned(), registry, fleet, servers }
    }

    /// The same after a restart.
    async fn restarted(self) -> Self {
        self.fleet.stop().await;
        Self::again(self.folder, &self.more)
    }

    async fn register(&self, manifest: ActionServerManifest) -> ActionServerRegistrationResponse {
        self.servers.register(manifest).await.unwrap()
    }

    /// The exposed names of what calls can have, once every server has told its tools.
    async fn tools(&self) -> Vec<String> {
        let servers = self.servers.servers();
        let config = config::McpConfig {
            enabled: true,
            servers: servers.into_iter().map(|server| (server.id.clone(), server)).collect(),
        };
        let mut changes = self.fleet.changes();
        self.fleet.start(&config);
        loop {
            let is_up = self.fleet.status(&config).values().all(|status| status.state == crate::mcp::State::Up);
            if is_up {
                // Asked for only now: one that came up since a first look would be missing.
                let offers = self.fleet.offers(&config);
                let none = std::collections::BTreeSet::new();
                let tools = offers.iter().flat_map(|offer| offer.tools(&none).0);
                let mut names: Vec<String> = tools.map(|guest| guest.tool.spec().name).collect();
                names.sort();
                return names;
            }
            changes.changed().await.unwrap();
        }
    }
}

fn config(folder: &TempDir, more: &str) -> VamConfig {
    let yaml = format!(
        "vam: {{ bind: \"127.0.0.1:0\", tokens: [a-token-of-the-tests], {more} }}\n\
         providers: {{ a: {{ scripted: {{ script: [silence] }} }} }}\ncontexts: {{ a: {{ prompt: A, provider: a }} }}\n"
    );
    let path = folder.path().join("offhook.yaml");
    std::fs::write(&path, yaml).unwrap();
    let config = config::load(&path, &|_| None, provider::catalog()).unwrap_or_else(|problems| panic!("{problems}"));
    config.vam.unwrap()
}

/// An MCP server over HTTP that has these tools.
async fn endpoint(tools: Value) -> SocketAddr {
    let answer = move |Json(message): Json<Value>| {
        let tools = tools.clone();
        async move {
            let result = match message["method"].as_str().unwrap_or_default() {
                "initialize" => json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "played", "version": "1" },
                }),
                "tools/list" => json!({ "tools": tools }),
                "tools/call" => json!({ "content": [{ "type": "text", "text": "{\"valid\": true}" }] }),
                _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
                _ => json!({}),
            };
            Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
        }
    };
    let router = Router::new().route("/mcp", post(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// An endpoint that takes what it is told and says nothing; each connection is told.
async fn silent() -> (SocketAddr, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(Notify::new()));
    let told = Arc::clone(&asked);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            held.push(connection);
            told.notify_one();
        }
    });
    (address, asked)
}

/// A tool of the registry as a server offers it that keeps to it, with words of its own around.
fn of_registry(key: &str) -> Value {
    let mut schema = india::canonical(key).unwrap().schema.clone();
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Arguments".into();
    for property in schema["properties"].as_object_mut().unwrap().values_mut() {
        property["description"] = "What it is.".into();
    }
    schema["required"].as_array_mut().unwrap().reverse();
    json!({ "name": key, "description": "Of the registry.", "inputSchema": schema })
}

fn tool(name: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    json!({ "name": name, "description": "A tool.", "inputSchema": schema })
}

fn declared(name: &str, is_registry_tool: bool) -> ToolDeclaration {
    ToolDeclaration { name: name.into(), is_registry_tool, ..Default::default() }
}

fn manifest(server_id: &str, endpoint_uri: String, tools: Vec<ToolDeclaration>) -> ActionServerManifest {
    ActionServerManifest { server_id: server_id.into(), endpoint_uri, tools, ..Default::default() }
}

fn at(address: SocketAddr) -> String {
    format!("http://{address}/mcp")
}

const LOCAL: &str = "allowed_hosts: [127.0.0.1]";
