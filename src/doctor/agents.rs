//! Every provider that a context uses: does a session come about? Nothing is said in it.

use super::Finding;
use crate::{
    audio::Format,
    call::{AgentEvent, AgentLoss},
    config::{Config, ProviderConfig},
    facts::CallId,
    provider::{self, Agent, AgentSetup, Among, Dial, Opens, Provider, ProviderCounters, SessionPolicy},
    remote::wards::Wards,
};
use futures_util::{StreamExt as _, stream};
use prometheus::Registry;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

const AREA: &str = "provider";
/// Sessions at once: vendors limit how many an account may have.
const AT_ONCE: usize = 4;
/// A session says nothing before it stands but a few words of its set-up.
const QUEUE: usize = 64;
/// Longer than a call would wait; then the answer is clear.
const SET_UP_MAX: Duration = Duration::from_secs(10);

pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    let used: BTreeSet<&str> = config.contexts.values().flat_map(|context| context.providers()).collect();
    let used = used.into_iter().filter_map(|name| Some((name, config.providers.get(name)?)));
    let asked = stream::iter(used).map(|(name, entry)| one(config, name, entry)).buffered(AT_ONCE);
    asked.collect().await
}

async fn one(config: &Config, name: &str, entry: &ProviderConfig) -> Finding {
    let wards = Wards::default();
    let among = Among { services: &config.services, wards: &wards };
    let provider = match provider::build_among(&entry.kind, &entry.options, &among) {
        Ok(provider) => provider,
        Err(problems) => {
            let why: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
            let says = format!("providers.{name} cannot be built: {}", why.join("; "));
            return Finding::problem(AREA, says, "`offhook check` tells the place of each");
        }
    };
    let (began, setup) = (Instant::now(), setup(config));
    let address = address(&*provider, &setup);
    match set_up(provider, setup).await {
        Ok(()) => {
            let took = began.elapsed().as_millis();
            Finding::ok(AREA, format!("providers.{name} ({}): a session was set up in {took} ms", entry.kind))
        }
        Err(Lost { loss, status }) => {
            let (why, remedy) = meaning(loss);
            let at = address.filter(|_| loss == AgentLoss::NotFound).map(|address| format!(" at {address}"));
            let status = status.map(|status| format!(" (HTTP status {status})"));
            let more = [at, status].map(Option::unwrap_or_default).concat();
            Finding::problem(AREA, format!("providers.{name} ({}): {why}{more}", entry.kind), remedy)
        }
    }
}

/// Address of the session, whose path can be wrong. It holds no secret: these travel in headers.
fn address(provider: &dyn Provider, setup: &AgentSetup) -> Option<String> {
    let Agent::Remote(remote) = provider.agent() else { return None };
    if let Dial::WebSocket(dial) = remote.dial(setup) { Some(dial.url) } else { None }
}

fn setup(config: &Config) -> AgentSetup {
    let format = match config.media.default.format {
        format @ (Format::ULAW | Format::ALAW) => format,
        _ => Format::SLIN8,
    };
    AgentSetup {
        instructions: "This is a test of the connection. Say nothing.".into(),
        opens: Opens::Waits,
        ..AgentSetup::new(CallId::random(), format)
    }
}

/// Reason for which no session came about.
struct Lost {
    loss: AgentLoss,
    /// HTTP status of a refusal.
    status: Option<u16>,
}

impl From<AgentLoss> for Lost {
    fn from(loss: AgentLoss) -> Self {
        Self { loss, status: None }
    }
}

async fn set_up(provider: Arc<dyn Provider>, setup: AgentSetup) -> Result<(), Lost> {
    let counters = Arc::new(ProviderCounters::new(&Registry::new()).map_err(|_| AgentLoss::Handshake)?);
    // A provider that is slow or throttled once is told as it is; nobody waits for this session.
    let policy = SessionPolicy { attempts: 1, setup_max: SET_UP_MAX, ..SessionPolicy::default() };
    let (_commands, to_session) = mpsc::channel(QUEUE);
    let (from_session, mut events) = mpsc::channel(QUEUE);
    let session = provider::session::run(provider, setup, to_session, from_session, policy, counters);
    let stands = async {
        let mut refused = None;
        loop {
            match events.recv().await {
                Some(AgentEvent::Ready) => return Ok(()),
                Some(AgentEvent::Refused { status }) => refused = Some(status),
                Some(AgentEvent::Lost(loss)) => return Err(Lost { loss, status: refused }),
                Some(_) => {}
                None => return Err(AgentLoss::Protocol.into()),
            }
        }
    };
    let told = async {
        tokio::select! {
            biased;
            told = stands => told,
            // Its last words are in the queue, and read first.
            () = async { session.await; std::future::pending().await } => Err(AgentLoss::Protocol.into()),
        }
    };
    // Dropping the session ends it.
    timeout(SET_UP_MAX + Duration::from_secs(1), told).await.unwrap_or(Err(AgentLoss::Unreachable.into()))
}

const fn meaning(loss: AgentLoss) -> (&'static str, &'static str) {
    match loss {
        AgentLoss::Unauthorized => {
            ("the key is refused", "make a new one at the vendor, or look whether the environment has an older one")
        }
        AgentLoss::NotFound => (
            "a server answers and has no such path",
            "is the path of base_url the one that docs/providers.md names for this kind? Some kinds add the vendor's path, others want it whole",
        ),
        AgentLoss::Quota => {
            ("the account has no credit left, or its limit is reached", "see the vendor's page of billing")
        }
        AgentLoss::Throttled => (
            "too many sessions or requests at this moment, or the vendor is overloaded",
            "try again; ask the vendor for a higher limit",
        ),
        AgentLoss::Unreachable | AgentLoss::Stalled => (
            "nobody can be reached",
            "does this machine reach the internet (DNS, a firewall, a proxy that does not pass WebSockets on), and is the address right?",
        ),
        AgentLoss::Handshake => (
            "the session was refused or not set up as asked",
            "do the model, the voice and the agent of these options exist? docs/providers.md tells what each vendor wants",
        ),
        AgentLoss::Closed | AgentLoss::Expired | AgentLoss::Protocol => {
            ("the session was closed before it stood", "do the model, the voice and the agent of these options exist?")
        }
    }
}
