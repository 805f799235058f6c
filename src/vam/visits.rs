//! Action servers that a session brings: asked for their tools while the session is set up, for that session alone, and gone
//! with the last one that brought them (V15, V answer 5).

use super::{
    manifest::{self, TAKEN},
    negotiation::Agreed,
    registration::{Endpoint, ID_BYTES_MAX, Registration, id_of},
    residency::{self, Claim},
    servers::{ActionServers, Looked},
    wire::ActionServerManifest,
};
use crate::{config::Reach, tool::mcp::snake};
use std::{collections::BTreeMap, sync::Arc};
use tokio::runtime::Handle;
use url::Url;

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
    /// Looks at a server of a session, and gives its tools to new calls. Others that bring it wait for it; nobody else does.
    ///
    /// # Errors
    /// It is not one that the operator allows, or does not tell its tools.
    pub(super) async fn visit(self: &Arc<Self>, agreed: &Agreed, uri: &str) -> Result<Visit, String> {
        // A command would be run at the word of a peer.
        let url = Url::parse(uri).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let server_id = url.as_ref().and_then(server_id).ok_or("is not an http:// or https:// address of a host")?;
        let _lane = self.lane(&id_of(&server_id)).await;
        let joined = {
            let _one = self.one_at_a_time().await;
            self.join(agreed, &id_of(&server_id), uri)?
        };
        match joined {
            Some(visit) => Ok(visit),
            None => self.bring(agreed, server_id, uri).await,
        }
    }

    /// One that another session has brought.
    fn join(self: &Arc<Self>, agreed: &Agreed, id: &str, uri: &str) -> Result<Option<Visit>, String> {
        let mut visitors = self.visitors();
        let Some(visitor) = visitors.get(id) else { return Ok(None) };
        if visitor.registration.endpoint_uri != uri {
            return Err("another address of this host is here".into());
        }
        may_go(agreed, visitor.registration.local)?;
        let own = visitors
            .iter()
            .filter(|(other, visitor)| other.as_str() != id && visitor.sessions.contains_key(&agreed.session_id));
        let shared =
            |other: &Visitor| visitor.registration.tools.iter().any(|tool| other.registration.has(&tool.name, ""));
        if own.map(|(_, other)| other).any(shared) {
            return Err(TAKEN.into());
        }
        if let Some(visitor) = visitors.get_mut(id) {
            *visitor.sessions.entry(agreed.session_id.clone()).or_default() += 1;
        }
        Ok(Some(self.visit_of(id, agreed)))
    }

    fn visit_of(self: &Arc<Self>, id: &str, agreed: &Agreed) -> Visit {
        Visit { servers: Arc::clone(self), id: id.to_owned(), session_id: agreed.session_id.clone() }
    }

    async fn bring(self: &Arc<Self>, agreed: &Agreed, server_id: String, uri: &str) -> Result<Visit, String> {
        self.may_visit(&server_id)?;
        let manifest = ActionServerManifest { server_id, endpoint_uri: uri.to_owned(), ..Default::default() };
        if let Some(why) = manifest::problems(&manifest).into_iter().next() {
            return Err(why);
        }
        // Decided before anything is asked of it, and once: what its name means later is connected to only if it is there, too.
        let reach = Endpoint::parse(uri, self.config())?.reach().await?;
        may_go(agreed, reach == Reach::Local)?;
        let looked = {
            let _place = self.place().await;
            self.look(manifest, reach).await?
        };
        let (visit, exposed, before) = self.welcome(agreed, looked).await?;
        match exposed {
            Some(exposed) if !self.comes(&exposed, before).await => Err("its tools are not there".to_owned()),
            _ => Ok(visit),
        }
    }

    /// Starts one that has been looked at; with the name of one of its tools, and the version of all tools before.
    async fn welcome(
        self: &Arc<Self>,
        agreed: &Agreed,
        looked: Looked,
    ) -> Result<(Visit, Option<String>, u64), String> {
        let _one = self.one_at_a_time().await;
        let (registration, _) = self.sort(looked, Some(&agreed.session_id));
        // Others may have come meanwhile.
        self.may_visit(&registration.server_id)?;
        let server = registration.server(self.config())?.ok_or("it has no tool that can be used")?;
        let exposed = registration.first_exposed();
        let (id, sessions) = (registration.id(), BTreeMap::from([(agreed.session_id.clone(), 1)]));
        self.visitors().insert(id.clone(), Visitor { registration, sessions });
        let visit = self.visit_of(&id, agreed);
        let before = self.put(server).await;
        Ok((visit, exposed, before))
    }

    fn may_visit(&self, server_id: &str) -> Result<(), String> {
        let id = id_of(server_id);
        if self.is_registered(&id) {
            return Err("a registered server is called so".into());
        }
        if self.visitors().len() >= self.config().limits.action_servers {
            return Err("as many servers are here as the gateway takes".into());
        }
        Ok(())
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
