//! Action servers that a session brings: asked for their tools while the session is set up, for that session alone, and gone
//! with the last one that brought them (V15, V answer 5).

use super::{
    negotiation::Agreed,
    registration::{Endpoint, ID_BYTES_MAX, Registration, id_of},
    residency::{self, Claim},
    servers::ActionServers,
    wire::ActionServerManifest,
};
use crate::{config::Reach, tool::mcp::snake};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};
use url::Url;

/// Until new calls have the tools: a server is connected to once more, and tools are taken over together.
const THERE_MAX: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A server that sessions have brought.
pub(super) struct Visitor {
    pub registration: Registration,
    /// Whose calls may use it, and how often each brought it: two that ask for one id do, until one of them is refused.
    pub sessions: BTreeMap<String, usize>,
}

/// A server is there for a session until this is dropped.
pub(super) struct Visit {
    servers: Arc<ActionServers>,
    id: String,
    session_id: String,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let is_last = {
            let mut visitors = self.servers.visitors();
            let Some(visitor) = visitors.get_mut(&self.id) else { return };
            let brought = visitor.sessions.entry(self.session_id.clone()).or_default();
            *brought = brought.saturating_sub(1);
            visitor.sessions.retain(|_, brought| *brought > 0);
            let is_last = visitor.sessions.is_empty();
            if is_last {
                visitors.remove(&self.id);
            }
            is_last
        };
        // Outside of a runtime there is no fleet left to take it from.
        if let (true, Ok(runtime)) = (is_last, Handle::try_current()) {
            let (servers, id) = (Arc::clone(&self.servers), self.id.clone());
            runtime.spawn(async move { servers.dismiss(&id).await });
        }
    }
}

impl ActionServers {
    /// Looks at a server of a session, and gives its tools to new calls.
    ///
    /// # Errors
    /// It is not one that the operator allows, or does not tell its tools.
    pub(super) async fn visit(self: &Arc<Self>, agreed: &Agreed, uri: &str) -> Result<Visit, String> {
        let session_id = agreed.session_id.as_str();
        // A command would be run at the word of a peer.
        let url = Url::parse(uri).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let server_id = url.as_ref().and_then(server_id).ok_or("is no http:// or https:// address of a host")?;
        let id = id_of(&server_id);
        let visit = || Visit { servers: Arc::clone(self), id: id.clone(), session_id: session_id.to_owned() };
        let _one = self.one_at_a_time().await;
        if let Some(visitor) = self.visitors().get_mut(&id) {
            if visitor.registration.endpoint_uri != uri {
                return Err("another address of this host is here".into());
            }
            may_go(agreed, visitor.registration.local)?;
            *visitor.sessions.entry(session_id.to_owned()).or_default() += 1;
            return Ok(visit());
        }
        if self.servers().iter().any(|server| server.id == id) {
            return Err("a registered server is called so".into());
        }
        if self.visitors().len() >= self.config().limits.action_servers {
            return Err("as many servers are here as the gateway takes".into());
        }
        let manifest = ActionServerManifest { server_id, endpoint_uri: uri.to_owned(), ..Default::default() };
        // Before anything is asked of it.
        let endpoint = Endpoint::parse(uri, self.config())?;
        may_go(agreed, endpoint.reach().await? == Reach::Local)?;
        let (registration, _) = self.examine(manifest).await?;
        let server = registration.server(self.config())?.ok_or("it has no tool that can be used")?;
        let exposed = registration.tools.iter().find_map(|tool| tool.exposed(&registration.server_id));
        let sessions = BTreeMap::from([(session_id.to_owned(), 1)]);
        self.visitors().insert(id.clone(), Visitor { registration, sessions });
        let visit = visit();
        self.put(server).await;
        let there = async {
            while exposed.as_deref().is_some_and(|exposed| self.owner_of(exposed).is_none()) {
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(THERE_MAX, there).await.map_err(|_| "its tools are not there".to_owned())?;
        Ok(visit)
    }
}

/// Who brings a server claims nothing of it, so where it is decides alone.
fn may_go(agreed: &Agreed, local: bool) -> Result<(), String> {
    if residency::allows(agreed.residency, Claim::None, local) {
        return Ok(());
    }
    Err("what is said in this session may not go there".into())
}

/// The host and its port, as the names of its tools begin.
fn server_id(url: &Url) -> Option<String> {
    let port = url.port().map_or(String::new(), |port| format!("_{port}"));
    let id = snake(&format!("{}{port}", url.host_str()?));
    (!id.is_empty() && id.len() <= ID_BYTES_MAX).then_some(id)
}
