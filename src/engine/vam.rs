//! VAM/1.0 as a part of the engine: bound with it, ended with it, its tools given to new calls like those of MCP servers.

use super::{Shared, calls};
use crate::{
    config::VamConfig,
    mcp::Fleet,
    vam::{
        ActionServers, Actioning, Actions, Agreed, Conversations, Ends, Owned, Prepared, Sessions, VamCounters, prepare,
    },
};
use anyhow::Context as _;
use futures_util::{FutureExt as _, future::BoxFuture};
use prometheus::Registry;
use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// A gRPC server that is bound and has yet to be started.
pub(super) struct Gateway {
    actioning: Actioning,
    sessions: Option<Arc<Sessions>>,
    prepared: Prepared,
    listener: TcpListener,
    address: SocketAddr,
}

impl Gateway {
    /// `None` where nothing is configured; the metrics are there all the same.
    pub async fn open(
        config: Option<&VamConfig>,
        fleet: &Arc<Fleet>,
        registry: &Registry,
    ) -> anyhow::Result<Option<Self>> {
        let counters = VamCounters::new(registry);
        let Some(config) = config else { return Ok(None) };
        let prepared = prepare(config).map_err(anyhow::Error::msg)?;
        let (actions, session_counters) = (Arc::new(Actions::new(counters.clone())), counters.clone());
        let servers = ActionServers::open(config, Arc::clone(fleet), counters);
        let servers = servers.map_err(|why| anyhow::Error::msg(format!("vam.registrations: {why}")))?;
        let listener = TcpListener::bind(config.bind).await.with_context(|| format!("vam.bind {}", config.bind))?;
        let address = listener.local_addr()?;
        let actioning = Actioning { servers: Arc::new(servers), actions };
        let sessions = Sessions::open(config, session_counters, actioning.clone()).map(Arc::new);
        Ok(Some(Self { actioning, sessions, prepared, listener, address }))
    }

    pub fn actioning(&self) -> Actioning {
        self.actioning.clone()
    }

    /// Begins to serve, until the engine stops.
    pub fn start(self, shared: &Arc<Shared>, services: &mut JoinSet<()>, stop: CancellationToken) -> SocketAddr {
        let Self { actioning, sessions, prepared, listener, address } = self;
        let servers = actioning.servers;
        let engine = Arc::downgrade(shared);
        servers.attach(Arc::new(move |exposed| {
            let generation = engine.upgrade()?.generation.load_full();
            let server = generation.knows(exposed)?.executor.server().unwrap_or("offhook");
            Some(Owned { server: server.to_owned(), told_at: generation.told_at(server) })
        }));
        if let Some(sessions) = &sessions {
            sessions.attach(Arc::new(Calls(Arc::downgrade(shared))));
        }
        services.spawn(async move {
            if let Err(error) = prepared.serve(listener, servers, sessions, stop.cancelled_owned()).await {
                warn!(%error, "VAM is not served any more");
            }
        });
        info!(grpc = %address, "VAM is served");
        address
    }
}

/// The engine as sessions see it.
struct Calls(Weak<Shared>);

impl Conversations for Calls {
    fn knows_context(&self, name: &str) -> bool {
        self.0.upgrade().is_some_and(|shared| shared.generation.load().config.contexts.contains_key(name))
    }

    fn begin(&self, agreed: Agreed) -> BoxFuture<'_, Option<Ends>> {
        async move { calls::stream(self.0.upgrade()?, agreed).await }.boxed()
    }
}
