//! The action servers that have registered: looked at, kept, started, and taken away again.
//!
//! Invariants: a registration is on the disk before it is answered; one is made after the other; what calls can have of a
//! server is what its own `tools/list` told, never what its manifest says; a tool of the India tool registry is held to its
//! schema whenever a generation is built, not only when it was registered.

use super::{
    actions::Client,
    counters::{Registered, VamCounters},
    file,
    manifest::{self, Sorted},
    registration::{Accepted, Endpoint, Registration},
    residency,
    visits::Visitor,
    wire::{ActionServerManifest, ActionServerRegistrationResponse, ToolDeclaration},
};
use crate::{
    config::{McpServer, Reach, VamConfig},
    mcp::Fleet,
};
use jiff::Timestamp;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use tokio::sync::{Semaphore, TryAcquireError};
use tracing::{info, warn};

/// Registrations that wait for the one that is being looked at; each may take as long as a server takes to start.
const WAITING_MAX: usize = 8;

/// Says whose tool an exposed name is already: of a server, by its id among the MCP servers, or of offhook itself.
pub type Owner = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// All of one engine.
pub struct ActionServers {
    config: VamConfig,
    fleet: Arc<Fleet>,
    counters: VamCounters,
    registered: Mutex<BTreeMap<String, Registration>>,
    /// By their ids among the MCP servers.
    visitors: Mutex<BTreeMap<String, Visitor>>,
    /// Who else has tools; attached when the engine is up.
    owner: OnceLock<Owner>,
    one: tokio::sync::Mutex<()>,
    places: Semaphore,
}

/// Too many registrations wait.
#[derive(Debug)]
pub(super) struct Busy;

impl ActionServers {
    /// Reads what is kept of an earlier run; nothing is started yet.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn open(config: &VamConfig, fleet: Arc<Fleet>, counters: VamCounters) -> Result<Self, String> {
        let registered = file::read(&config.registrations)?;
        for registration in registered.values() {
            if let Err(why) = registration.server(config) {
                let server = registration.server_id.as_str();
                warn!(server, why, "a registered action server is left out: the configuration does not allow it now");
            }
        }
        counters.servers.set(i64::try_from(registered.len()).unwrap_or(i64::MAX));
        Ok(Self {
            config: config.clone(),
            fleet,
            counters,
            registered: Mutex::new(registered),
            visitors: Mutex::default(),
            owner: OnceLock::new(),
            one: tokio::sync::Mutex::default(),
            places: Semaphore::new(WAITING_MAX),
        })
    }

    /// Names that are taken are known from now on.
    pub fn attach(&self, owner: Owner) {
        // It is attached once, when the engine starts.
        let _ = self.owner.set(owner);
    }

    /// Those that are to be started, as MCP servers.
    pub fn servers(&self) -> Vec<McpServer> {
        let server = |registration: &Registration| registration.server(&self.config).ok().flatten();
        let mut servers: Vec<McpServer> = self.lock().values().filter_map(server).collect();
        servers.extend(self.visitors().values().filter_map(|visitor| server(&visitor.registration)));
        servers
    }

    /// Whether what is said in a call may go to this server, named as an MCP server; `None`: it is gone. `client`: whose call it
    /// is, if it is one of VAM; servers that a session has brought are for its own calls alone.
    pub(super) fn allows(&self, id: &str, client: Option<&Client>) -> Option<bool> {
        let rule = client.map_or(self.config.residency, |client| client.residency);
        let may_go = |to: &Registration| residency::allows(rule, to.claim(), to.local);
        if let Some(visitor) = self.visitors().get(id) {
            let is_its = client.is_some_and(|client| visitor.sessions.contains_key(&client.session_id));
            return Some(is_its && may_go(&visitor.registration));
        }
        self.lock().values().find(|registration| registration.id() == id).map(may_go)
    }

    // ---- For `visits` ----

    pub(super) fn visitors(&self) -> MutexGuard<'_, BTreeMap<String, Visitor>> {
        self.visitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn one_at_a_time(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.one.lock().await
    }

    pub(super) async fn put(&self, server: McpServer) {
        self.fleet.put(server).await;
    }

    pub(super) fn owner_of(&self, exposed: &str) -> Option<String> {
        self.owner.get().and_then(|owner| owner(exposed))
    }

    /// The last session that brought it is over, unless another has come meanwhile.
    pub(super) async fn dismiss(&self, id: &str) {
        let _one = self.one.lock().await;
        if !self.visitors().contains_key(id) {
            self.fleet.remove(id).await;
        }
    }

    pub(super) fn counters(&self) -> &VamCounters {
        &self.counters
    }

    pub(super) fn config(&self) -> &VamConfig {
        &self.config
    }

    /// Looks at a server, keeps what of it can be used, and starts it. One of the same id is replaced.
    pub(super) async fn register(
        &self,
        manifest: ActionServerManifest,
    ) -> Result<ActionServerRegistrationResponse, Busy> {
        let _place = match self.places.try_acquire() {
            Ok(place) => place,
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => {
                self.counters.registered(Registered::Busy);
                return Err(Busy);
            }
        };
        let _one = self.one.lock().await;
        let server_id = manifest.server_id.clone();
        let (registration, rejected) = match self.examine(manifest).await {
            Ok(examined) => examined,
            Err(message) => {
                self.counters.registered(Registered::Refused);
                warn!(why = message, "an action server was refused");
                return Ok(refusal(server_id, message, Vec::new()));
            }
        };
        let names: Vec<String> = registration.tools.iter().map(|tool| tool.name.clone()).collect();
        if names.is_empty() && !rejected.is_empty() {
            self.counters.registered(Registered::Refused);
            warn!(server = server_id, tools = rejected.len(), "an action server was refused with all of its tools");
            let message = in_words(&rejected);
            return Ok(refusal(server_id, message, rejected.into_iter().map(|(name, _)| name).collect()));
        }
        let at = registration.registered_at;
        if let Err(why) = self.keep(registration).await {
            self.counters.registered(Registered::Refused);
            warn!(why, "a registration could not be kept");
            return Ok(refusal(server_id, "the gateway could not keep the registration".into(), Vec::new()));
        }
        self.counters.registered(if rejected.is_empty() { Registered::Accepted } else { Registered::InPart });
        info!(server = server_id, tools = names.len(), rejected = rejected.len(), "an action server has registered");
        Ok(ActionServerRegistrationResponse {
            success: true,
            server_id,
            message: in_words(&rejected),
            registered_tools: names,
            rejected_tools: rejected.into_iter().map(|(name, _)| name).collect(),
            registered_at: Some(in_messages(at)),
        })
    }

    /// What of a manifest can be used, and what cannot, with the reason.
    pub(super) async fn examine(
        &self,
        manifest: ActionServerManifest,
    ) -> Result<(Registration, Vec<(String, String)>), String> {
        manifest::check(&manifest)?;
        let fresh = self.fresh(&manifest.server_id)?;
        let endpoint = Endpoint::parse(&manifest.endpoint_uri, &self.config)?;
        let local = endpoint.reach().await? == Reach::Local;
        let mut registration = Registration {
            server_id: manifest.server_id,
            display_name: manifest.display_name,
            endpoint_uri: manifest.endpoint_uri,
            version: manifest.version,
            data_residency: manifest.data_residency,
            registered_at: Timestamp::now(),
            local,
            tools: Vec::new(),
        };
        if fresh && self.lock().len() >= self.config.limits.action_servers {
            let most = self.config.limits.action_servers;
            return Err(format!("{most} action servers are registered, as many as the gateway takes"));
        }
        let server = registration.empty_server(&self.config)?;
        let offered = self.fleet.look(server).await.map_err(|why| format!("its tools are not known: {why}"))?;
        let taken = |exposed: &str| self.taken(exposed, &registration.id());
        let Sorted { accepted, rejected } =
            manifest::sort(&manifest.tools, &offered, &registration, &self.config, taken);
        registration.tools = accepted;
        Ok((registration, rejected))
    }

    /// Whether this id is new. Two that are the same in lower snake case would share the names of their tools.
    fn fresh(&self, server_id: &str) -> Result<bool, String> {
        let registered = self.lock();
        if registered.contains_key(server_id) {
            return Ok(false);
        }
        let id = super::registration::id_of(server_id);
        if self.visitors().contains_key(&id) {
            return Err("server_id: a server that a session has brought is called so".into());
        }
        match registered.values().find(|other| other.id() == id) {
            None => Ok(true),
            Some(other) => Err(format!("server_id: too much like \"{}\", which is registered", other.server_id)),
        }
    }

    /// Whether another has a tool of this name.
    fn taken(&self, exposed: &str, id: &str) -> bool {
        let here = self.lock().values().any(|other| {
            other.id() != id
                && other.tools.iter().any(|tool| tool.exposed(&other.server_id).as_deref() == Some(exposed))
        });
        here || self.owner_of(exposed).is_some_and(|owner| owner != id)
    }

    async fn keep(&self, registration: Registration) -> Result<(), String> {
        let server = registration.server(&self.config)?;
        let mut next = self.lock().clone();
        let id = registration.id();
        next.insert(registration.server_id.clone(), registration);
        self.write(next).await?;
        match server {
            Some(server) => self.fleet.put(server).await,
            None => self.fleet.remove(&id).await,
        }
        Ok(())
    }

    async fn write(&self, next: BTreeMap<String, Registration>) -> Result<(), String> {
        let (path, text) = (self.config.registrations.clone(), file::text(&next));
        let written = tokio::task::spawn_blocking(move || file::write(&path, &text)).await;
        written.map_err(|_| "the file could not be written".to_owned())??;
        self.counters.servers.set(i64::try_from(next.len()).unwrap_or(i64::MAX));
        *self.lock() = next;
        Ok(())
    }

    /// Whether it was there; its tools are in no new call.
    pub(super) async fn deregister(&self, server_id: &str) -> Result<bool, String> {
        let _one = self.one.lock().await;
        let mut next = self.lock().clone();
        let Some(gone) = next.remove(server_id) else { return Ok(false) };
        self.write(next).await?;
        self.fleet.remove(&gone.id()).await;
        info!(server = gone.server_id, "an action server has deregistered");
        Ok(true)
    }

    /// Those with a tool of this name, or all.
    pub(super) fn list(&self, tool: &str) -> Vec<ActionServerManifest> {
        let has =
            |registration: &&Registration| tool.is_empty() || registration.tools.iter().any(|known| known.name == tool);
        self.lock().values().filter(has).map(manifest_of).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Registration>> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl ActionServers {
    /// A server that nobody has asked anything.
    pub fn know(&self, server_id: &str, local: bool) {
        let registration = Registration {
            server_id: server_id.into(),
            display_name: String::new(),
            endpoint_uri: "http://127.0.0.1:9/mcp".into(),
            version: String::new(),
            data_residency: String::new(),
            registered_at: Timestamp::now(),
            local,
            tools: Vec::new(),
        };
        self.lock().insert(server_id.into(), registration);
    }
}

fn refusal(server_id: String, message: String, rejected_tools: Vec<String>) -> ActionServerRegistrationResponse {
    ActionServerRegistrationResponse { server_id, message, rejected_tools, ..Default::default() }
}

fn in_words(rejected: &[(String, String)]) -> String {
    rejected.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("; ")
}

fn in_messages(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}

fn manifest_of(registration: &Registration) -> ActionServerManifest {
    let tool = |tool: &Accepted| ToolDeclaration {
        name: tool.name.clone(),
        description: tool.description.clone(),
        is_registry_tool: tool.registry_key.is_some(),
        registry_key: tool.registry_key.clone().unwrap_or_default(),
    };
    ActionServerManifest {
        server_id: registration.server_id.clone(),
        display_name: registration.display_name.clone(),
        endpoint_uri: registration.endpoint_uri.clone(),
        version: registration.version.clone(),
        tools: registration.tools.iter().map(tool).collect(),
        data_residency: registration.claim().label().to_owned(),
        registered_at: Some(in_messages(registration.registered_at)),
    }
}
