//! The action servers that have registered: looked at, kept, started, and taken away again.
//!
//! Invariants: a registration is on the disk before it is answered; one is kept after the other, and servers are looked at
//! meanwhile, so a slow one holds up nobody else; a server is connected to where it was found to be, and nowhere else; what
//! calls can have of a server is what its own `tools/list` told, never what its manifest says; a tool of the India tool
//! registry is held to its schema whenever a generation is built, not only when it was registered.

use super::{
    actions::Client,
    counters::{Registered, VamCounters},
    file,
    lanes::Lanes,
    manifest::{self, Sorted, TAKEN},
    registration::{Accepted, Endpoint, Registration, id_of},
    residency,
    visits::Visitor,
    wire::{ActionServerManifest, ActionServerRegistrationResponse, ToolDeclaration},
};
use crate::{
    config::{McpServer, Reach, VamConfig},
    mcp::Fleet,
    tool::mcp::Offered,
    wall_clock,
};
use jiff::Timestamp;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{OwnedMutexGuard, Semaphore, SemaphorePermit, TryAcquireError},
    time::{sleep, timeout},
};
use tracing::{info, warn};

/// Registrations at once; each may take as long as a server takes to start.
const LOOKS_MAX: usize = 8;
/// Servers of sessions that are asked at once; the next ones wait as long as their clients do.
const VISITS_MAX: usize = 16;
/// Until new calls have the tools of a server: it is connected to once more, and tools are taken over together.
const THERE_MAX: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Of what is wrong with a manifest, so much is told.
const PROBLEMS_MAX: usize = 16;

/// Says whose tool an exposed name is already in new calls.
pub type Owner = Arc<dyn Fn(&str) -> Option<Owned> + Send + Sync>;

/// Owner of a tool's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// Id among the MCP servers, or `offhook` itself.
    pub server: String,
    /// Version of the fleet's tools with which the server told this one.
    pub told_at: u64,
}

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
    /// Held while what is registered changes, and never while a server is asked.
    one: tokio::sync::Mutex<()>,
    /// Who is looked at.
    lanes: Lanes,
    places: Semaphore,
    visits: Semaphore,
}

/// A server that has been asked for its tools.
pub(super) struct Looked {
    registration: Registration,
    declared: Vec<ToolDeclaration>,
    offered: Vec<Offered>,
}

/// Too many registrations are under way.
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
            lanes: Lanes::default(),
            places: Semaphore::new(LOOKS_MAX),
            visits: Semaphore::new(VISITS_MAX),
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

    /// By its id among the MCP servers.
    pub(super) fn is_registered(&self, id: &str) -> bool {
        self.lock().values().any(|registration| registration.id() == id)
    }

    pub(super) async fn one_at_a_time(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.one.lock().await
    }

    pub(super) async fn lane(&self, id: &str) -> OwnedMutexGuard<()> {
        self.lanes.enter(id).await
    }

    /// To ask a server of a session; `None` never comes, as nobody closes it.
    pub(super) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.visits.acquire().await.ok()
    }

    /// Starts a server; with the version of the fleet's tools before that.
    pub(super) async fn put(&self, server: McpServer) -> u64 {
        let before = self.fleet.version();
        self.fleet.put(server).await;
        before
    }

    /// Whether new calls have the tool of this name as its server told it after this version, which takes a moment. Until then
    /// they can have the tool of an instance that has ended, whose calls nobody answers.
    pub(super) async fn comes(&self, exposed: &str, version: u64) -> bool {
        let there = async {
            while self.owner_of(exposed).is_none_or(|owned| owned.told_at <= version) {
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(THERE_MAX, there).await.is_ok()
    }

    fn owner_of(&self, exposed: &str) -> Option<Owned> {
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
        let server_id = manifest.server_id.clone();
        let _lane = self.lanes.enter(&id_of(&server_id)).await;
        let looked = match self.found(manifest).await {
            Ok(looked) => looked,
            Err(message) => {
                self.counters.registered(Registered::Refused);
                warn!(why = message, "an action server was refused");
                return Ok(refusal(server_id, message, Vec::new()));
            }
        };
        let before = self.fleet.version();
        let answer = self.take(looked).await;
        // Whoever has registered may begin a session at once. Nobody takes calls before the engine is attached.
        let exposed = self.lock().get(&server_id).and_then(Registration::first_exposed);
        if let Some(exposed) = exposed.filter(|_| answer.success && self.owner.get().is_some())
            && !self.comes(&exposed, before).await
        {
            warn!(server = server_id, "an action server has registered, and its tools are not there yet");
        }
        Ok(answer)
    }

    /// What a server has, held against its manifest. Nobody else waits for it.
    async fn found(&self, manifest: ActionServerManifest) -> Result<Looked, String> {
        let endpoint = self.acceptable(&manifest)?;
        let reach = endpoint.reach().await?;
        self.look(manifest, reach).await
    }

    /// Where a server is to be asked, unless something is wrong with its manifest: all of it is told at once.
    fn acceptable(&self, manifest: &ActionServerManifest) -> Result<Endpoint, String> {
        let mut problems = manifest::problems(manifest);
        if problems.is_empty() {
            problems.extend(self.room_for(&manifest.server_id).err());
        }
        match Endpoint::parse(&manifest.endpoint_uri, &self.config) {
            Ok(endpoint) if problems.is_empty() => return Ok(endpoint),
            Ok(_) => {}
            Err(why) => problems.push(why),
        }
        let more = problems.len().saturating_sub(PROBLEMS_MAX);
        problems.truncate(PROBLEMS_MAX);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        Err(problems.join("; ") + &more)
    }

    /// Asks a server for its tools, at no other place than where it was found to be: whatever its name means by now.
    pub(super) async fn look(&self, manifest: ActionServerManifest, reach: Reach) -> Result<Looked, String> {
        let registration = Registration {
            server_id: manifest.server_id,
            display_name: manifest.display_name,
            endpoint_uri: manifest.endpoint_uri,
            version: manifest.version,
            data_residency: manifest.data_residency,
            registered_at: wall_clock::now(),
            local: reach == Reach::Local,
            tools: Vec::new(),
        };
        let server = registration.empty_server(&self.config)?;
        let offered = self.fleet.look(server).await.map_err(|why| format!("its tools are not known: {why}"))?;
        Ok(Looked { registration, declared: manifest.tools, offered })
    }

    /// What of a server can be used, and what cannot, with the reason. `session`: it is for this one alone.
    pub(super) fn sort(&self, looked: Looked, session: Option<&str>) -> (Registration, Vec<(String, String)>) {
        let Looked { mut registration, declared, offered } = looked;
        let id = registration.id();
        let taken = |name: &str, exposed: &str| self.taken(name, exposed, &id, session);
        let Sorted { accepted, rejected } = manifest::sort(&declared, &offered, &registration, &self.config, taken);
        registration.tools = accepted;
        (registration, rejected)
    }

    /// Keeps a server that has been looked at, unless nothing of it can be used or others were faster.
    async fn take(&self, looked: Looked) -> ActionServerRegistrationResponse {
        let _one = self.one.lock().await;
        let server_id = looked.registration.server_id.clone();
        if let Err(message) = self.room_for(&server_id) {
            self.counters.registered(Registered::Refused);
            warn!(why = message, "an action server was refused");
            return refusal(server_id, message, Vec::new());
        }
        let (registration, rejected) = self.sort(looked, None);
        let names: Vec<String> = registration.tools.iter().map(|tool| tool.name.clone()).collect();
        if names.is_empty() && !rejected.is_empty() {
            self.counters.registered(Registered::Refused);
            warn!(server = server_id, tools = rejected.len(), "an action server was refused with all of its tools");
            let message = in_words(&rejected);
            return refusal(server_id, message, rejected.into_iter().map(|(name, _)| name).collect());
        }
        let at = registration.registered_at;
        if let Err(why) = self.keep(registration).await {
            self.counters.registered(Registered::Refused);
            warn!(why, "a registration could not be kept");
            return refusal(server_id, "the gateway could not keep the registration".into(), Vec::new());
        }
        self.counters.registered(if rejected.is_empty() { Registered::Accepted } else { Registered::InPart });
        info!(server = server_id, tools = names.len(), rejected = rejected.len(), "an action server has registered");
        ActionServerRegistrationResponse {
            success: true,
            server_id,
            message: in_words(&rejected),
            registered_tools: names,
            rejected_tools: rejected.into_iter().map(|(name, _)| name).collect(),
            registered_at: Some(in_messages(at)),
        }
    }

    /// Whether one of this id can be registered: there is room, and it is not too much like another.
    fn room_for(&self, server_id: &str) -> Result<(), String> {
        let most = self.config.limits.action_servers;
        if self.fresh(server_id)? && self.lock().len() >= most {
            return Err(format!("{most} action servers are registered, as many as the gateway takes"));
        }
        Ok(())
    }

    /// Whether this id is new. Two that are the same in lower snake case would share the names of their tools.
    fn fresh(&self, server_id: &str) -> Result<bool, String> {
        let registered = self.lock();
        if registered.contains_key(server_id) {
            return Ok(false);
        }
        let id = id_of(server_id);
        if self.visitors().contains_key(&id) {
            return Err("server_id: a server that a session has brought is called so".into());
        }
        match registered.values().find(|other| other.id() == id) {
            None => Ok(true),
            Some(other) => Err(format!("server_id: too much like \"{}\", which is registered", other.server_id)),
        }
    }

    /// Why a tool cannot have this name: another has it, as a model calls it, or as its server does. The second is all that a
    /// client learns that runs actions itself, and has to say whom it has to ask (V answer 8). Of the servers that sessions
    /// have brought, those of other sessions than `session` do not count.
    fn taken(&self, name: &str, exposed: &str, id: &str, session: Option<&str>) -> Option<String> {
        let has = |other: &Registration| other.id() != id && other.has(name, exposed);
        if let Some(other) = self.lock().values().find(|other| has(other)) {
            return Some(format!("{TAKEN}: one of \"{}\"", other.server_id));
        }
        let counts = |visitor: &Visitor| session.is_none_or(|session| visitor.sessions.contains_key(session));
        if self.visitors().values().any(|visitor| counts(visitor) && has(&visitor.registration)) {
            return Some(format!("{TAKEN}: one of a server that a session has brought"));
        }
        self.owner_of(exposed).filter(|owned| owned.server != id).map(|_| TAKEN.to_owned())
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
            registered_at: wall_clock::now(),
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
