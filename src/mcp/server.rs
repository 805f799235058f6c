//! One server and the task that watches it.

use super::{
    connection::{Connection, UNAUTHORIZED},
    counters::McpCounters,
    link::{self, Link},
    output::Output,
    patience::Patience,
};
use crate::{
    config::{McpServer, McpTransport},
    tool::mcp::Offered,
};
use arc_swap::{ArcSwap, ArcSwapOption};
use secrecy::SecretString;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, Release},
        },
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, error, info, warn};

/// How often an idle server is asked whether it still stands: before a caller finds out.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// For the end of a start that is given up.
const NEARLY_MAX: Duration = Duration::from_secs(2);
/// Between two looks at a list that a server says has changed; one that says so all the time is not believed more often.
const REFRESH_GAP: Duration = Duration::from_secs(2);

/// Where a server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Up,
    /// Being started, or waiting for the next start.
    Starting,
    /// Given up, until a reload or a test.
    Down,
    Disabled,
}

impl State {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Starting => "starting",
            Self::Down => "down",
            Self::Disabled => "disabled",
        }
    }
}

/// What is seen of a server from outside.
pub(super) struct Server {
    pub id: String,
    /// As it was last started.
    pub config: ArcSwap<McpServer>,
    /// `None`: it cannot be asked at the moment.
    pub connection: ArcSwapOption<Connection>,
    /// As it last told them; kept while it is away.
    pub tools: ArcSwap<Vec<Offered>>,
    /// Version of the fleet's tools with which it last told its own; 0 before the first time.
    pub told_at: AtomicU64,
    state: Mutex<(State, Option<String>)>,
    restarts: AtomicU64,
    orders: mpsc::Sender<Order>,
}

enum Order {
    /// It seems not to answer: look.
    Check,
    /// Start now, whatever was given up.
    Retry,
    /// End, and begin anew as this configuration has it.
    Renew(Arc<McpServer>, oneshot::Sender<()>),
    Stop(oneshot::Sender<()>),
}

impl Server {
    /// Begins to start it; does not wait for it.
    pub fn start(config: McpServer, counters: Arc<McpCounters>, changed: watch::Sender<u64>) -> Arc<Self> {
        let (orders, inbox) = mpsc::channel(16);
        let server = Arc::new(Self {
            id: config.id.clone(),
            config: ArcSwap::from_pointee(config),
            connection: ArcSwapOption::empty(),
            tools: ArcSwap::default(),
            told_at: AtomicU64::new(0),
            state: Mutex::new((State::Starting, None)),
            restarts: AtomicU64::new(0),
            orders,
        });
        counters.know_server(&server.id);
        let output = output(&server.config.load());
        let keeper = Keeper { output, server: Arc::clone(&server), counters, changed, inbox };
        tokio::spawn(keeper.run());
        server
    }

    pub fn state(&self) -> (State, Option<String>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn restarts(&self) -> u64 {
        self.restarts.load(Relaxed)
    }

    /// It did not answer as it should: somebody looks whether it still stands.
    pub fn suspect(&self) {
        // A full queue means that somebody is about to look.
        let _ = self.orders.try_send(Order::Check);
    }

    /// Whether it lets calls in, as the last one found; it may do so while it stands.
    pub fn lets_in(&self, does: bool) {
        let mut place = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told = place.1.as_deref() == Some(UNAUTHORIZED);
        if does == is_told {
            place.1 = (!does).then(|| UNAUTHORIZED.to_owned());
            match does {
                true => info!(server = self.id, "the MCP server lets offhook in again"),
                false => warn!(server = self.id, "the MCP server answers no call: {UNAUTHORIZED}"),
            }
        }
    }

    /// One that was given up is started again.
    pub fn retry(&self) {
        let _ = self.orders.try_send(Order::Retry);
    }

    /// Ends it; resolves when it has ended.
    pub async fn stop(&self) {
        self.order(Order::Stop).await;
    }

    /// Ends it and begins to start it anew; resolves when it has ended. Who holds it reaches the new instance, and until
    /// that tells its tools, those of the old one stay.
    pub async fn renew(&self, config: McpServer) {
        self.order(|done| Order::Renew(Arc::new(config), done)).await;
    }

    async fn order(&self, order: impl FnOnce(oneshot::Sender<()>) -> Order) {
        let (done, ended) = oneshot::channel();
        if self.orders.send(order(done)).await.is_ok() {
            // Without an answer its task has ended already.
            let _ = ended.await;
        }
    }

    fn set(&self, state: State, error: Option<String>) {
        let mut place = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // What went wrong last stays readable while it is tried again.
        let error = if state == State::Up { None } else { error.or_else(|| place.1.take()) };
        *place = (state, error);
    }
}

/// A printer that knows what of this server must not be printed.
pub(super) fn output(config: &McpServer) -> Output {
    let mut secrets: Vec<SecretString> = config.secrets().into_iter().cloned().collect();
    if let McpTransport::Http { url, .. } = &config.transport {
        // Errors of the HTTP client name the address, and a path can be as good as a password.
        secrets.push(url.as_str().into());
    }
    Output::new(&config.id, secrets)
}

/// Why the task of a server goes on.
enum Next {
    Stop(oneshot::Sender<()>),
    /// Start anew, not by itself.
    Retry,
    Renew(Arc<McpServer>, oneshot::Sender<()>),
    /// It ended by itself, or never began.
    Ended(String),
    /// It stands and says nothing.
    Silent,
}

struct Keeper {
    server: Arc<Server>,
    output: Output,
    counters: Arc<McpCounters>,
    changed: watch::Sender<u64>,
    inbox: mpsc::Receiver<Order>,
}

impl Keeper {
    async fn run(mut self) {
        let mut patience = Patience::new(&self.server.config.load());
        loop {
            self.server.set(State::Starting, None);
            let mut up_for = None;
            let next = match self.begin().await {
                Ok(link) => {
                    info!(server = self.server.id, tools = self.server.tools.load().len(), "MCP server is up");
                    let up = Instant::now();
                    let next = self.watch(link).await;
                    patience.was_up(up.elapsed());
                    up_for = Some(up.elapsed());
                    next
                }
                Err(next) => next,
            };
            let next = match next {
                Next::Ended(why) => {
                    let wait = patience.failed();
                    self.tell_trouble(&why, wait, up_for, patience.failures);
                    self.rest(why, wait).await
                }
                Next::Silent => {
                    let (why, wait) = ("it does not answer".to_owned(), patience.was_silent());
                    self.tell_trouble(&why, wait, up_for, 1);
                    self.rest(why, wait).await
                }
                next => Some(next),
            };
            match next {
                Some(Next::Stop(done)) => {
                    self.server.set(State::Down, None);
                    let _ = done.send(());
                    return;
                }
                Some(Next::Renew(config, done)) => {
                    self.output = output(&config);
                    patience = Patience::new(&config);
                    self.server.config.store(config);
                    // Whoever hears that the old one has ended is not told that it is up.
                    self.server.set(State::Starting, None);
                    let _ = done.send(());
                }
                Some(_) => patience.failures = 0,
                None => {
                    self.server.restarts.fetch_add(1, Relaxed);
                    self.counters.restarted(&self.server.id);
                }
            }
        }
    }

    /// Waits until it is to be started again (`None`), or somebody wants something else of it; without a `wait` it stays
    /// down until then.
    async fn rest(&mut self, why: String, wait: Option<Duration>) -> Option<Next> {
        self.server.set(if wait.is_some() { State::Starting } else { State::Down }, Some(why));
        self.order(wait.map(|wait| Instant::now() + wait)).await
    }

    /// One line for each trouble, and ever fewer for one that lasts.
    fn tell_trouble(&self, reason: &str, wait: Option<Duration>, up_for: Option<Duration>, failures: u32) {
        let server = self.server.id.as_str();
        let wait_ms = wait.map(|wait| wait.as_millis() as u64);
        match (wait_ms, up_for.map(|time| time.as_secs())) {
            (None, _) => error!(server, reason, failures, "MCP server is down until a reload or a successful test"),
            (Some(wait_ms), Some(up_seconds)) => {
                warn!(server, reason, up_seconds, wait_ms, "MCP server has gone; it is started again");
            }
            (Some(wait_ms), None) if failures <= 3 || failures.is_power_of_two() => {
                warn!(
                    server,
                    reason, failures, wait_ms, "MCP server could not be started or reached; it is tried again"
                );
            }
            (Some(_), None) => debug!(server, reason, failures, "MCP server is still not there"),
        }
    }

    /// The next order that matters where there is no connection; `None` at `until`.
    async fn order(&mut self, until: Option<Instant>) -> Option<Next> {
        let passed = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(passed);
        loop {
            tokio::select! {
                () = &mut passed => return None,
                order = self.inbox.recv() => match order {
                    Some(Order::Check) => {}
                    Some(Order::Retry) => return Some(Next::Retry),
                    Some(Order::Renew(config, done)) => return Some(Next::Renew(config, done)),
                    Some(Order::Stop(done)) => return Some(Next::Stop(done)),
                    // The inbox lives as long as the server, which this task holds.
                    None => return Some(Next::Ended("nobody holds it any more".into())),
                },
            }
        }
    }

    /// Connects and learns the tools.
    async fn begin(&mut self) -> Result<Link, Next> {
        let (config, output) = (self.server.config.load_full(), self.output.clone());
        let until = Instant::now() + config.start_max;
        let begun = async move {
            let link = link::connect(&config, &output).await?;
            match link.first_tools(until.saturating_duration_since(Instant::now()), &output).await {
                Ok(tools) => Ok((link, tools)),
                Err(why) => {
                    link.stop().await;
                    Err(why)
                }
            }
        };
        tokio::pin!(begun);
        let (link, (tools, odd)) = match self.meanwhile(None, &mut begun).await {
            Ok(begun) => begun.map_err(Next::Ended)?,
            Err(next) => {
                // One that is nearly there can be told to go; the others are killed, as what holds them is dropped.
                if let Ok(Ok((link, _))) = timeout(NEARLY_MAX, begun).await {
                    link.stop().await;
                }
                return Err(next);
            }
        };
        self.learn(tools, &odd);
        self.server.connection.store(Some(Arc::clone(&link.connection)));
        self.server.set(State::Up, None);
        self.counters.up(&self.server.id, true);
        self.tell();
        Ok(link)
    }

    fn learn(&self, tools: Vec<Offered>, odd: &[String]) {
        let server = self.server.id.as_str();
        for why in odd.iter().take(8) {
            let why = self.output.masked(why);
            warn!(server, why, "a tool of the MCP server is left out");
        }
        if odd.len() > 8 {
            warn!(server, tools = odd.len() - 8, "more tools of the MCP server are left out");
        }
        self.server.tools.store(Arc::new(tools));
        // Stored behind the tools: a reader that loads it first never takes old tools for new ones.
        self.server.told_at.store(*self.changed.borrow() + 1, Release);
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// From the moment it is up until it is not.
    async fn watch(&mut self, link: Link) -> Next {
        let mut refresh_at: Option<Instant> = None;
        let mut refreshed = Instant::now();
        let mut look_at = Instant::now() + LOOK_EVERY;
        let changed = Arc::clone(&link.changed);
        let next = loop {
            let due = async {
                match refresh_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let look = tokio::select! {
                why = link.ended() => break Next::Ended(why),
                () = changed.notified() => {
                    refresh_at = Some(refreshed + REFRESH_GAP);
                    false
                }
                () = due => {
                    (refresh_at, refreshed) = (None, Instant::now());
                    let asked = link.connection.tools(self.server.config.load().start_max);
                    match self.meanwhile(Some(&link), asked).await {
                        Ok(answer) => self.refresh(answer),
                        Err(next) => break next,
                    }
                    false
                }
                () = sleep_until(look_at) => true,
                order = self.inbox.recv() => match order {
                    Some(Order::Check) => true,
                    Some(Order::Retry) => false,
                    Some(Order::Renew(config, done)) => break Next::Renew(config, done),
                    Some(Order::Stop(done)) => break Next::Stop(done),
                    None => break Next::Ended("nobody holds it any more".into()),
                },
            };
            if look {
                match self.meanwhile(Some(&link), link.connection.answers()).await {
                    Ok(true) => look_at = Instant::now() + LOOK_EVERY,
                    Ok(false) => break Next::Silent,
                    Err(next) => break next,
                }
            }
        };
        self.server.connection.store(None);
        self.counters.up(&self.server.id, false);
        if matches!(next, Next::Ended(_) | Next::Silent) {
            self.server.set(State::Starting, None);
        }
        link.stop().await;
        next
    }

    /// Does this, unless the connection ends or somebody wants an end: nobody waits for a server that does not answer.
    async fn meanwhile<T>(&mut self, link: Option<&Link>, work: impl Future<Output = T>) -> Result<T, Next> {
        let ended = async {
            match link {
                Some(link) => link.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(work, ended);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                why = &mut ended => return Err(Next::Ended(why)),
                order = self.order(None) => match order {
                    Some(Next::Retry) | None => {}
                    Some(next) => return Err(next),
                },
            }
        }
    }

    fn refresh(&self, answer: Result<(Vec<Offered>, Vec<String>), String>) {
        let server = self.server.id.as_str();
        match answer {
            Ok((tools, odd)) => {
                if tools != **self.server.tools.load() {
                    info!(server, tools = tools.len(), "the tools of the MCP server have changed; new calls have them");
                    self.learn(tools, &odd);
                    self.tell();
                }
            }
            Err(why) => {
                let why = self.output.masked(&why);
                warn!(server, why, "the changed tools of the MCP server could not be read; those before stay");
            }
        }
    }
}
