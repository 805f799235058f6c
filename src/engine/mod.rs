//! The engine: loads configurations, lets calls in, gives each a task, and lets them out again.
//!
//! - `generation`: one loaded configuration and what is made from it
//! - `admission`: which agent takes a call
//! - `clips`: what callers hear without an agent
//! - `line`: the Asterisk side of one call
//! - `call_task`: the task that owns one call
//! - `succession`: who carries a call on when its session ends
//! - `health`: which providers are left alone for a while
//! - `transferred`: whether the place that a caller was sent to hangs up on them
//! - `bill`: what a call used, and what that costs
//! - `post`: what a call leaves to be sent
//! - `publishing`: the configuration file as the page changes it
//! - `vam`: tools that others register
//! - `live`: who is on the line, and how the last calls ended

mod admission;
mod agent;
mod audits;
mod bill;
mod call_task;
mod caller;
mod calls;
mod clips;
mod ears;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod generation;
mod inventory;
mod line;
mod live;
mod mcp;
mod opening;
mod outside;
mod post;
mod publishing;
mod registries;
mod reload;
mod story;
mod succession;
#[cfg(test)]
mod tests;
mod transferred;
mod vam;
mod view;
mod workshop;

pub use call_task::CallNote;
#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz;
pub use generation::BuildError;
pub use live::LiveCalls;
pub use reload::{Source, check, environment};

use crate::{
    asterisk::{
        ari::{AriClient, AriCounters},
        counters::MediaCounters,
        events::{AriState, Arrival, EventSocket, Timing},
        hub::{MediaHub, WalkIn},
    },
    call::EndReason,
    config::Config,
    http,
    outbound::{
        Outbound, OutboundCounters,
        mail::{MailCounters, Mailer},
    },
    provider::ProviderCounters,
    records::{Reader, RecordCounters, Records},
    remote::{health::Health, wards::Wards},
    speech::{SpeechCounters, Studio},
    telemetry::Metrics,
    tool::Latencies,
    vam::Actioning,
    wall_clock,
};
use anyhow::Context as _;
use arc_swap::ArcSwap;
use generation::Generation;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{broadcast, mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};
use workshop::Workshop;

/// Between two looks at whether the tools of MCP servers are there.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Notes that a slow watcher may be behind; it loses older ones, calls never wait for it.
const WATCHED_NOTES_MAX: usize = 1024;
/// After calls were told to end at once, how long their clearing away may take.
const CLEAR_AWAY_MAX: Duration = Duration::from_secs(8);

/// What the mail server gets to take the mails that wait, when the engine stops.
const MAIL_MAX: Duration = Duration::from_secs(8);

/// What records get to reach the disk and the archive, when the engine stops: both answer at once where nothing is wrong, and
/// what is in the spool is safe.
const RECORDS_MAX: Duration = Duration::from_secs(8);

/// What MCP servers get to end, when the engine stops: each is asked, told, and killed.
const SERVERS_MAX: Duration = Duration::from_secs(12);

/// A running engine. [`Engine::stop`] ends it in order; dropping it cuts everything off.
pub struct Engine {
    shared: Arc<Shared>,
    http: SocketAddr,
    grpc: Option<SocketAddr>,
    services: JoinSet<()>,
    stop: CancellationToken,
}

/// Orders to a running engine, as signals give them to its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Load the configuration again.
    Reload,
    /// Let running calls end and stop; given again, end them at once.
    Stop,
}

/// What all calls and pages of one engine share.
pub(crate) struct Shared {
    generation: ArcSwap<Generation>,
    source: Source,
    reloading: Mutex<()>,
    /// There as soon as the page is.
    doors: OnceLock<workshop::Doors>,
    /// Reaches the operator's services for the tools.
    outbound: Outbound,
    /// The configuration whose addresses are bound.
    bound: Config,
    live: Arc<LiveCalls>,
    /// When the engine began, which is what the slots of its calls are counted from.
    beat: std::time::Instant,
    metrics: Metrics,
    provider_counters: Arc<ProviderCounters>,
    health: Arc<Health>,
    wards: Arc<Wards>,
    latencies: Arc<Latencies>,
    audits: audits::LastAudits,
    studio: Arc<Studio>,
    media: Arc<MediaHub>,
    ari: Option<Ari>,
    mailer: Option<Mailer>,
    records: Option<Records>,
    mcp: mcp::Servers,
    /// Action servers that have registered; `None`: nothing is served by gRPC.
    vam: Option<Actioning>,
    draining: watch::Sender<bool>,
    watchers: broadcast::Sender<CallNote>,
    calls: TaskTracker,
    /// Calls are told to end at once, and nothing is waited for any more.
    stopping: CancellationToken,
    started: jiff::Timestamp,
    /// A fault for the tests: a call's task panics when a tool is to run.
    #[cfg(test)]
    breaks_on_tools: std::sync::atomic::AtomicBool,
}

/// The control side, when it is configured.
#[derive(Clone)]
pub(crate) struct Ari {
    pub client: AriClient,
    pub state: watch::Receiver<AriState>,
}

/// The page with its API, and the API of the tenants' tools.
fn page_and_apis(shared: &Arc<Shared>, port: u16) -> anyhow::Result<axum::Router> {
    let config = &shared.bound;
    let doors = workshop::Doors::open(shared).map_err(anyhow::Error::msg)?;
    let store = Arc::new(doors.store.clone());
    let of_tenants = http::tools_router(store.clone(), doors.tokens.clone());
    // There is one page.
    let _ = shared.doors.set(doors);
    let site = http::Site {
        view: Arc::new(view::View(Arc::clone(shared))),
        tools: store,
        configuration: Arc::new(publishing::configuration(shared)),
        history: config.records.as_ref().map(|records| Reader::new(&records.directory)),
        accounts: Arc::new(http::Accounts::new(&config.http.accounts)),
        admin_token: config.http.admin_token.clone(),
        public_url: config.http.public_url.clone(),
        port,
        counters: http::HttpCounters::new(shared.metrics.registry()),
    };
    Ok(http::router(site).merge(of_tenants))
}

impl Shared {
    /// What the next generation of this configuration is built with, its definitions still to be read.
    fn workshop(&self, config: &Config) -> Workshop {
        Workshop {
            definitions: BTreeMap::new(),
            fetch: Arc::new(self.outbound.clone()),
            listener: Arc::new(workshop::Ear { live: Arc::clone(&self.live) }),
            ari: self.ari.as_ref().map(|ari| ari.client.clone()),
            wards: Arc::clone(&self.wards),
            studio: Arc::clone(&self.studio),
            mcp: self.mcp.fleet.offers(&self.with_registered(&config.mcp)),
            actions: self.vam.clone(),
            incumbents: self.generation.load().mcp_tools().clone(),
        }
    }
}

impl Engine {
    /// Binds everything and begins to take calls. Asterisk need not be there yet.
    pub async fn start(source: Source, config: Config, metrics: Metrics) -> anyhow::Result<Self> {
        let registry = metrics.registry();
        let outbound = Outbound::new(OutboundCounters::new(registry)?)?;
        let client = match &config.asterisk {
            Some(asterisk) => Some(AriClient::new(asterisk, AriCounters::new(registry)?)?),
            None => None,
        };
        let definitions = workshop::read(&config).map_err(|problems| anyhow::Error::msg(problems.join("\n")))?;
        let live: Arc<LiveCalls> = Arc::default();
        let listener = Arc::new(workshop::Ear { live: Arc::clone(&live) });
        let fetch = Arc::new(outbound.clone());
        let studio = Arc::new(Studio::new(SpeechCounters::new(registry)?));
        let health: Arc<Health> = Arc::default();
        let wards = Arc::new(Wards::new(Arc::clone(&health), registry));
        let workshop = Workshop {
            definitions,
            fetch,
            listener,
            ari: client.clone(),
            wards: Arc::clone(&wards),
            studio: Arc::clone(&studio),
            ..Workshop::closed()
        };
        let generation = reload::build(1, config, &workshop).map_err(anyhow::Error::msg)?;
        let config = &generation.config;
        let media_counters = Arc::new(MediaCounters::new(registry)?);
        let (media, walk_ins) = MediaHub::start(&config.media, media_counters)
            .await
            .with_context(|| format!("media.audiosocket.bind {}", config.media.audiosocket.bind))?;
        let pages =
            TcpListener::bind(config.http.bind).await.with_context(|| format!("http.bind {}", config.http.bind))?;
        let http = pages.local_addr()?;
        let stop = CancellationToken::new();
        let mut services = JoinSet::new();
        let (ari, arrivals) = match client {
            None => (None, None),
            Some(client) => {
                let (socket, arrivals, state) = EventSocket::new(client.clone(), Timing::default());
                services.spawn(socket.run(stop.clone()));
                (Some(Ari { client, state }), Some(arrivals))
            }
        };
        let mail_counters = MailCounters::new(registry)?;
        let mailer = config.mail.as_ref().map(|mail| Mailer::start(mail, mail_counters)).transpose()?;
        let record_counters = RecordCounters::new(registry);
        let records = config.records.as_ref().map(|config| Records::start(config, record_counters)).transpose()?;
        let servers = mcp::Servers::new(registry).context("the threads of MCP servers")?;
        let gateway = vam::Gateway::open(config.vam.as_ref(), &servers.fleet, registry).await?;
        let shared = Arc::new(Shared {
            source,
            reloading: Mutex::default(),
            doors: OnceLock::new(),
            outbound,
            bound: generation.config.clone(),
            live,
            beat: tokio::time::Instant::now().into_std(),
            provider_counters: Arc::new(ProviderCounters::new(registry)?),
            health,
            wards,
            latencies: Arc::default(),
            audits: audits::LastAudits::default(),
            studio,
            media: Arc::new(media),
            ari,
            mailer,
            records,
            mcp: servers,
            vam: gateway.as_ref().map(vam::Gateway::actioning),
            draining: watch::Sender::new(false),
            watchers: broadcast::Sender::new(WATCHED_NOTES_MAX),
            calls: TaskTracker::new(),
            stopping: CancellationToken::new(),
            started: wall_clock::now(),
            #[cfg(test)]
            breaks_on_tools: false.into(),
            metrics,
            generation: ArcSwap::from_pointee(generation),
        });
        shared.know_names();
        services.spawn(accept(Arc::clone(&shared), arrivals, walk_ins));
        let router = page_and_apis(&shared, http.port())?;
        services.spawn(mcp::keep_tools_fresh(Arc::clone(&shared), shared.mcp.fleet.changes()));
        shared.start_servers();
        let grpc = gateway.map(|gateway| gateway.start(&shared, &mut services, stop.clone()));
        let until = stop.clone().cancelled_owned();
        services.spawn(async move {
            if let Err(error) = http::serve(pages, router, until).await {
                warn!(%error, "the pages are gone");
            }
        });
        info!(%http, audiosocket = %shared.media.local_addr(), "offhook is up");
        Ok(Self { shared, http, grpc, services, stop })
    }

    pub fn http_addr(&self) -> SocketAddr {
        self.http
    }

    /// Where VAM is served, if it is.
    pub fn grpc_addr(&self) -> Option<SocketAddr> {
        self.grpc
    }

    pub fn audiosocket_addr(&self) -> SocketAddr {
        self.shared.media.local_addr()
    }

    pub fn calls(&self) -> &LiveCalls {
        &self.shared.live
    }

    /// Waits until all tools of a context are there, but no longer than `limit`: MCP servers take a moment to start, and
    /// calls that begin before do without them.
    pub async fn tools_there(&self, context: &str, limit: Duration) {
        let are_there = || {
            let generation = self.shared.generation.load();
            let tools = generation.config.contexts.get(context).map_or(&[][..], |context| &context.tools);
            tools.iter().all(|tool| generation.knows(tool).is_some())
        };
        let _ = timeout(limit, async {
            while !are_there() {
                sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Everything that happens in calls from now on.
    pub fn watch_calls(&self) -> broadcast::Receiver<CallNote> {
        self.shared.watchers.subscribe()
    }

    /// Loads the configuration again, in the background; the log and the metrics say how it went.
    pub fn reload(&self) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move { drop(shared.reload_all().await) });
    }

    /// Declines new calls and waits until running ones have ended, `limits.drain` at most; then
    /// those that are left are ended.
    pub async fn drain(&self) {
        self.shared.draining.send_replace(true);
        let limit = self.shared.generation.load().config.limits.drain;
        let live = &self.shared.live;
        info!(calls = live.count(), limit_seconds = limit.as_secs(), "draining");
        if timeout(limit, live.none_left()).await.is_err() {
            warn!(calls = live.count(), "the drain limit has passed; ending the calls that are left");
            live.end_all(EndReason::OperatorEnded);
        }
    }

    /// Takes calls until it is ordered to stop. Where nobody is left who could give an order, it stops as well.
    pub async fn serve(self, mut orders: mpsc::Receiver<Order>) {
        while let Some(Order::Reload) = orders.recv().await {
            self.reload();
        }
        let at_once = async { while let Some(Order::Reload) = orders.recv().await {} };
        tokio::select! {
            () = self.drain() => {}
            () = at_once => {}
        }
        self.stop().await;
    }

    /// Ends every call at once, clears them away in bounded time, and stops.
    pub async fn stop(mut self) {
        self.shared.draining.send_replace(true);
        self.shared.live.end_all(EndReason::Shutdown);
        self.shared.stopping.cancel();
        self.shared.calls.close();
        if timeout(CLEAR_AWAY_MAX, self.shared.calls.wait()).await.is_err() {
            warn!(calls = self.shared.calls.len(), "some calls could not be cleared away in time");
        }
        if let Some(ari) = &self.shared.ari {
            ari.client.settled(CLEAR_AWAY_MAX).await;
        }
        if timeout(SERVERS_MAX, self.shared.mcp.fleet.stop()).await.is_err() {
            warn!("some MCP servers could not be ended in time");
        }
        if let Some(mailer) = &self.shared.mailer {
            mailer.finish(MAIL_MAX).await;
        }
        if let Some(records) = &self.shared.records {
            records.finish(RECORDS_MAX).await;
        }
        self.stop.cancel();
        self.services.shutdown().await;
        info!("offhook has stopped");
    }
}

/// Lets calls in, from both doors, until the engine stops.
async fn accept(
    shared: Arc<Shared>,
    mut arrivals: Option<mpsc::Receiver<Arrival>>,
    mut walk_ins: mpsc::Receiver<WalkIn>,
) {
    loop {
        tokio::select! {
            Some(arrival) = async { arrivals.as_mut()?.recv().await } => calls::arrive(&shared, arrival),
            Some(walk_in) = walk_ins.recv() => calls::walk_in(&shared, walk_in),
            else => return,
        }
    }
}
