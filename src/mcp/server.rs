//! One server and the task that watches it.

use super::{
    counters::McpCounters,
    link::{self, Connection, Link},
    output::Output,
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
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

/// Up for so long, a server has shown its health: the next trouble is a new one.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// The longest wait before another start.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
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
    pub config: Arc<McpServer>,
    /// `None`: it cannot be asked at the moment.
    pub connection: ArcSwapOption<Connection>,
    /// As it last told them; kept while it is away.
    pub tools: ArcSwap<Vec<Offered>>,
    state: Mutex<(State, Option<String>)>,
    restarts: AtomicU64,
    orders: mpsc::Sender<Order>,
}

enum Order {
    /// It seems not to answer: look.
    Check,
    /// Start now, whatever was given up.
    Retry,
    Stop(oneshot::Sender<()>),
}

impl Server {
    /// Begins to start it; does not wait for it. `known`: its tools as an instance before it told them.
    pub fn start(
        config: Arc<McpServer>,
        known: Arc<Vec<Offered>>,
        counters: Arc<McpCounters>,
        changed: watch::Sender<u64>,
    ) -> Arc<Self> {
        let (orders, inbox) = mpsc::channel(16);
        let server = Arc::new(Self {
            config,
            connection: ArcSwapOption::empty(),
            tools: ArcSwap::new(known),
            state: Mutex::new((State::Starting, None)),
            restarts: AtomicU64::new(0),
            orders,
        });
        counters.know_server(&server.config.id);
        let keeper = Keeper { output: output(&server.config), server: Arc::clone(&server), counters, changed, inbox };
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

    /// One that was given up is started again.
    pub fn retry(&self) {
        let _ = self.orders.try_send(Order::Retry);
    }

    /// Ends it; resolves when it has ended.
    pub async fn stop(&self) {
        let (done, ended) = oneshot::channel();
        if self.orders.send(Order::Stop(done)).await.is_ok() {
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
    let secrets: Vec<SecretString> = match &config.transport {
        McpTransport::Stdio { env, .. } => env.values().cloned().collect(),
        McpTransport::Http { headers, bearer, .. } => headers.values().chain(bearer).cloned().collect(),
    };
    Output::new(&config.id, secrets)
}

/// Why the task of a server goes on.
enum Next {
    Stop(oneshot::Sender<()>),
    /// Start anew, not by itself.
    Retry,
    Ended(String),
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
        let id = self.server.config.id.clone();
        let server = id.as_str();
        let mut failures = 0_u32;
        loop {
            self.server.set(State::Starting, None);
            let began = Instant::now();
            let next = match self.begin().await {
                Ok(link) => {
                    info!(server, tools = self.server.tools.load().len(), "MCP server is up");
                    let up = Instant::now();
                    let next = self.watch(link).await;
                    if up.elapsed() >= HEALTHY_AFTER {
                        failures = 0;
                    }
                    next
                }
                Err(next) => next,
            };
            let why = match next {
                Next::Stop(done) => {
                    self.server.set(State::Down, None);
                    let _ = done.send(());
                    return;
                }
                Next::Retry => {
                    failures = 0;
                    continue;
                }
                Next::Ended(why) => why,
            };
            failures = failures.saturating_add(1);
            let lasted_ms = began.elapsed().as_millis();
            if self.is_given_up(failures) {
                warn!(server, reason = why, lasted_ms, "MCP server is down and stays so until a reload or a test");
                self.server.set(State::Down, Some(why));
                match self.order(None).await {
                    Some(Next::Stop(done)) => {
                        let _ = done.send(());
                        return;
                    }
                    _ => failures = 0,
                }
                continue;
            }
            let wait = backoff(self.server.config.restart.backoff, failures);
            warn!(server, reason = why, lasted_ms, wait_ms = wait.as_millis(), "MCP server ended; it is started again");
            self.server.set(State::Starting, Some(why));
            match self.order(Some(Instant::now() + wait)).await {
                Some(Next::Stop(done)) => {
                    let _ = done.send(());
                    return;
                }
                Some(_) => failures = 0,
                None => {}
            }
            self.server.restarts.fetch_add(1, Relaxed);
            self.counters.restarted(server);
        }
    }

    /// An endpoint somewhere else costs nothing to try on; a program that cannot live would be started for ever.
    fn is_given_up(&self, failures: u32) -> bool {
        let restart = self.server.config.restart;
        let is_program = matches!(self.server.config.transport, McpTransport::Stdio { .. });
        !restart.enabled || (is_program && failures > restart.max)
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
                    Some(Order::Stop(done)) => return Some(Next::Stop(done)),
                    // The inbox lives as long as the server, which this task holds.
                    None => return Some(Next::Ended("nobody holds it any more".into())),
                },
            }
        }
    }

    /// Connects and learns the tools.
    async fn begin(&mut self) -> Result<Link, Next> {
        let (config, output) = (Arc::clone(&self.server.config), self.output.clone());
        let limit = config.start_max;
        let begun = async move {
            let link = link::connect(&config, &output).await?;
            match link.connection.tools(limit).await {
                Ok(tools) => Ok((link, tools)),
                Err(why) => {
                    link.stop().await;
                    Err(output.masked(&why))
                }
            }
        };
        tokio::pin!(begun);
        let (link, (tools, odd)) = loop {
            tokio::select! {
                result = &mut begun => break result.map_err(Next::Ended)?,
                order = self.order(None) => match order {
                    Some(Next::Retry) | None => {}
                    Some(next) => return Err(next),
                },
            }
        };
        self.learn(tools, &odd);
        self.server.connection.store(Some(Arc::clone(&link.connection)));
        self.server.set(State::Up, None);
        self.counters.up(&self.server.config.id, true);
        self.tell();
        Ok(link)
    }

    fn learn(&self, tools: Vec<Offered>, odd: &[String]) {
        let server = self.server.config.id.as_str();
        for why in odd.iter().take(8) {
            let why = self.output.masked(why);
            warn!(server, why, "a tool of the MCP server is left out");
        }
        if odd.len() > 8 {
            warn!(server, tools = odd.len() - 8, "more tools of the MCP server are left out");
        }
        self.server.tools.store(Arc::new(tools));
    }

    fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// From the moment it is up until it is not.
    async fn watch(&mut self, mut link: Link) -> Next {
        let mut refresh_at: Option<Instant> = None;
        let mut refreshed = Instant::now();
        let changed = Arc::clone(&link.changed);
        let next = loop {
            let due = async {
                match refresh_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                why = link.ended() => break Next::Ended(why),
                () = changed.notified() => refresh_at = Some(refreshed + REFRESH_GAP),
                () = due => {
                    (refresh_at, refreshed) = (None, Instant::now());
                    let connection = Arc::clone(&link.connection);
                    tokio::select! {
                        why = link.ended() => break Next::Ended(why),
                        () = self.refresh(&connection) => {}
                    }
                }
                order = self.inbox.recv() => match order {
                    Some(Order::Check) => {
                        let connection = Arc::clone(&link.connection);
                        tokio::select! {
                            why = link.ended() => break Next::Ended(why),
                            answers = connection.answers() => if !answers {
                                break Next::Ended("it does not answer".into());
                            },
                        }
                    }
                    Some(Order::Retry) => {}
                    Some(Order::Stop(done)) => break Next::Stop(done),
                    None => break Next::Ended("nobody holds it any more".into()),
                },
            }
        };
        self.server.connection.store(None);
        self.counters.up(&self.server.config.id, false);
        if matches!(next, Next::Ended(_)) {
            self.server.set(State::Starting, None);
        }
        link.stop().await;
        next
    }

    async fn refresh(&self, connection: &Connection) {
        let server = self.server.config.id.as_str();
        match connection.tools(self.server.config.start_max).await {
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

/// Before the `failures`-th start again.
fn backoff(first: Duration, failures: u32) -> Duration {
    let times = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(times).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M37, M answer 11: twice as long each time, up to half a minute.
    #[test]
    fn the_wait_before_a_start_doubles_up_to_half_a_minute() {
        let waits =
            |first: u64| (1..=7).map(move |failures| backoff(Duration::from_millis(first), failures).as_millis());
        assert_eq!(waits(1000).collect::<Vec<_>>(), [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(backoff(Duration::from_millis(1000), u32::MAX), BACKOFF_MAX);
        assert_eq!(waits(10).next(), Some(10));
    }
}
