//! VAM/1.0 as a part of the engine: bound with it, ended with it, its tools given to new calls like those of MCP servers.

use super::Shared;
use crate::{
    config::VamConfig,
    mcp::Fleet,
    vam::{ActionServers, Prepared, VamCounters, prepare},
};
use anyhow::Context as _;
use prometheus::Registry;
use std::{net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// A gRPC server that is bound and has yet to be started.
pub(super) struct Gateway {
    servers: Arc<ActionServers>,
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
        let servers = ActionServers::open(config, Arc::clone(fleet), counters);
        let servers = servers.map_err(|why| anyhow::Error::msg(format!("vam.registrations: {why}")))?;
        let listener = TcpListener::bind(config.bind).await.with_context(|| format!("vam.bind {}", config.bind))?;
        let address = listener.local_addr()?;
        Ok(Some(Self { servers: Arc::new(servers), prepared, listener, address }))
    }

    pub fn servers(&self) -> Arc<ActionServers> {
        Arc::clone(&self.servers)
    }

    /// Begins to serve, until the engine stops.
    pub fn start(self, shared: &Arc<Shared>, services: &mut JoinSet<()>, stop: CancellationToken) -> SocketAddr {
        let Self { servers, prepared, listener, address } = self;
        let engine = Arc::downgrade(shared);
        servers.attach(Arc::new(move |exposed| {
            let generation = engine.upgrade()?.generation.load_full();
            let known = generation.knows(exposed)?;
            Some(known.executor.server().unwrap_or("offhook").to_owned())
        }));
        services.spawn(async move {
            if let Err(error) = prepared.serve(listener, servers, stop.cancelled_owned()).await {
                warn!(%error, "VAM is not served any more");
            }
        });
        info!(grpc = %address, "VAM is served");
        address
    }
}
