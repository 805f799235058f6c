//! Calls of our own through Asterisk: does sound pass, both ways, and how soon?
//!
//! The caller is a media channel too, whose other end is here. The call is set up and cleared away as every call is, so what
//! works here works for a real one, and nothing of the dialplan is needed. It runs in an application of its own name, beside
//! an engine that takes calls.
//!
//! Invariant: however a call ends, its channels and its bridge are removed, the sockets first.

mod tone;

pub use tone::{Way, sent_level};

use super::{
    ari::{AriClient, AriConfigError, AriCounters, AriError, CONNECT_MAX},
    counters::MediaCounters,
    events::{AriState, Arrival, EventSocket, Loss, Timing},
    hub::MediaHub,
    leg::Ending,
    media::{Coding, MediaLeg},
    setup::{MEDIA_CONNECT_MAX, MEDIA_START_MAX, Plan, Port, SetupError, Wish, set_up},
};
use crate::{
    call::SetupStep,
    config::{AsteriskConfig, AudioChoice, MediaConfig},
    facts::CallId,
};
use prometheus::Registry;
use std::{future::Future, io, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

/// The events socket, and what it asks before it flows.
const EVENTS_MAX: Duration = Duration::from_secs(8);
/// A channel that was deleted goes within milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Asterisk rings at once, and the first packet of it travels.
const RINGING_MAX: Duration = Duration::from_millis(600);
/// What was dropped in the middle is cleared away within this.
const CLEAR_AWAY_MAX: Duration = Duration::from_secs(6);

/// Why no call could be placed, or no sound was heard.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error(transparent)]
    Config(#[from] AriConfigError),
    #[error("the counters of a probe have one name twice")]
    Counters(#[from] prometheus::Error),
    /// The local ends of audio paths cannot be opened.
    #[error("{0}")]
    Media(#[from] io::Error),
    #[error("{}", .0.describe())]
    Events(Loss),
    #[error("ARI's events do not come")]
    NoEvents,
    /// A step of the set-up, and what Asterisk said of it where it said something.
    #[error("step {}", .0.label())]
    Step(SetupStep, Option<AriError>),
}

/// What a call has shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sound {
    /// Caller → our end.
    pub heard: Way,
    /// Our end → caller.
    pub spoken: Way,
    /// Nothing of the call arrives here, but what Asterisk plays by itself does: it is our sound that does not arrive there.
    pub asterisk_alone: bool,
}

/// A connection to Asterisk for test calls, one after the other.
pub struct Probe {
    ari: AriClient,
    hub: MediaHub,
    media: MediaConfig,
    arrivals: mpsc::Receiver<Arrival>,
    events: JoinHandle<()>,
    stop: DropGuard,
    own_port: bool,
}

/// A call that stands; whoever drops it leaves the clearing away to [`Probe::close`].
pub struct Standing<'probe> {
    probe: &'probe Probe,
    phone: MediaLeg,
    leg: MediaLeg,
    call: super::leg::AriLeg,
    caller: Caller,
}

/// The caller's channel, which goes when this is dropped.
struct Caller {
    ari: AriClient,
    channel: String,
}

impl Drop for Caller {
    fn drop(&mut self) {
        let (ari, channel) = (self.ari.clone(), std::mem::take(&mut self.channel));
        self.ari.cleanups().spawn(async move { ari.hang_up(&channel, "normal").await });
    }
}

impl Probe {
    /// Connects as an application of a random name that begins with `name`. Where the AudioSocket address is taken, by an
    /// engine that runs, another port of the same address serves.
    ///
    /// # Errors
    /// When the local addresses cannot be bound, or ARI's events do not come.
    pub async fn connect(name: &str, asterisk: &AsteriskConfig, media: &MediaConfig) -> Result<Self, ProbeError> {
        let registry = Registry::new();
        let app = format!("{name}-{}", &Uuid::new_v4().simple().to_string()[..8]);
        let ari = AriClient::new(&AsteriskConfig { app, ..asterisk.clone() }, AriCounters::new(&registry)?)?;
        let (hub, media, own_port) = open(media, &registry).await?;
        // Nobody else has this name, and a variable for it would stay in Asterisk.
        let timing = Timing { beat_every: Duration::MAX, ..Timing::default() };
        let (socket, arrivals, mut state) = EventSocket::new(ari.clone(), timing);
        let stop = CancellationToken::new();
        let events = tokio::spawn(socket.run(stop.clone()));
        let probe = Self { ari, hub, media, arrivals, events, stop: stop.drop_guard(), own_port };
        let settled = timeout(EVENTS_MAX, state.wait_for(|state| *state != AriState::Starting)).await;
        match settled.map(|state| state.map(|state| *state)) {
            Ok(Ok(AriState::Up)) => Ok(probe),
            Ok(Ok(AriState::Down(loss))) => Err(ProbeError::Events(loss)),
            _ => Err(ProbeError::NoEvents),
        }
    }

    /// The AudioSocket listener has a port of its own, since the configured one is in use.
    pub fn own_port(&self) -> bool {
        self.own_port
    }

    pub fn audiosocket(&self) -> &str {
        &self.media.audiosocket.advertise
    }

    /// Places one call over this transport.
    ///
    /// # Errors
    /// The step that failed; what it had made is removed.
    pub async fn call(&mut self, choice: AudioChoice) -> Result<Standing<'_>, ProbeError> {
        let failed = |step| move || ProbeError::Step(step, None);
        let plan = Plan::new(CallId::random(), true, choice, &self.media);
        let far = Plan { call: CallId::random(), ..plan.clone() };
        let port = Port::<MediaHub>::reserve(&self.hub, &far).ok_or_else(failed(SetupStep::MediaSocket))?;
        let channel = format!("{}-caller-{}", self.ari.names().app(), far.call);
        let caller = Caller { ari: self.ari.clone(), channel: channel.clone() };
        // The caller's end is ours: it speaks what is to be tried.
        let coding = if choice.opus { Coding::Opus } else { Coding::Plain };
        let made = self.ari.external_media(channel.clone(), &port.wire(&far, coding), choice.format).await;
        let made = made.map_err(|error| ProbeError::Step(SetupStep::MediaChannel, Some(error)))?;
        let arrival = within(MEDIA_START_MAX, async {
            loop {
                let arrival = self.arrivals.recv().await?;
                if arrival.registration.caller() == channel {
                    return Some(arrival);
                }
            }
        });
        let connecting = within(MEDIA_CONNECT_MAX + CONNECT_MAX, Box::pin(port.open(&self.ari, made, coding)));
        // Side by side: a channel of a WebSocket arrives when somebody is connected to it.
        let (arrival, phone) = tokio::join!(arrival, connecting);
        let arrival = arrival.ok_or_else(failed(SetupStep::MediaChannel))?;
        let phone = phone.ok_or_else(failed(SetupStep::MediaConnect))?;
        let (_wish, wish) = watch::channel(Wish::Answer);
        match Box::pin(set_up(&self.ari, &self.hub, arrival.registration, plan, wish)).await {
            Ok((call, leg)) => Ok(Standing { probe: self, phone, leg, call, caller }),
            Err(SetupError::Failed(step)) => Err(ProbeError::Step(step, None)),
            // Its own end is here and stands: Asterisk has let go of the channel.
            Err(SetupError::CallerLeft) => Err(ProbeError::Step(SetupStep::MediaChannel, None)),
        }
    }

    /// Ends the connection when everything is cleared away, since Asterisk keeps an application that still has channels when
    /// its socket goes: `false` when Asterisk did not do that in time.
    pub async fn close(self) -> bool {
        let settled = self.ari.settled(CLEAR_AWAY_MAX).await;
        let gone = timeout(CLEAR_AWAY_MAX, async {
            while self.left().await > 0 {
                sleep(LOOK_EVERY).await;
            }
        });
        let gone = gone.await.is_ok();
        drop(self.stop);
        let _ = timeout(CONNECT_MAX, self.events).await;
        settled && gone
    }

    /// Channels and bridges of ours, also those that are gone and whose end the application has not been told yet. An Asterisk
    /// that cannot be asked is not accused.
    async fn left(&self) -> usize {
        let ari = &self.ari;
        let Ok((channels, bridges, application)) =
            futures_util::try_join!(ari.list_channels(), ari.list_bridges(), ari.application())
        else {
            return 0;
        };
        let own = format!("{}-", ari.names().app());
        let ids = channels.into_iter().map(|channel| channel.id).chain(bridges.into_iter().map(|bridge| bridge.id));
        let untold = application.map_or(0, |known| known.channel_ids.len() + known.bridge_ids.len());
        ids.filter(|id| id.contains(&own)).count() + untold
    }
}

impl Standing<'_> {
    /// A second of tone from each end to the other. Both ends are ours, so when neither hears anything Asterisk is asked to
    /// ring: it sends only what it is sent, unless the sound is its own.
    pub async fn listen(&mut self) -> Sound {
        let (heard, spoken) = tone::exchange(&mut self.phone, &mut self.leg).await;
        let asterisk_alone = !heard.arrived && !spoken.arrived && self.hears_ringing().await;
        Sound { heard, spoken, asterisk_alone }
    }

    /// Takes the caller out of the bridge for it, so nothing is heard after this.
    async fn hears_ringing(&mut self) -> bool {
        let (ari, channel) = (&self.probe.ari, &self.caller.channel);
        let rings = async {
            ari.remove_channel(self.call.call(), channel).await?;
            ari.ring(channel).await
        };
        rings.await.is_ok() && tone::anything(&mut self.phone, RINGING_MAX).await
    }

    /// Whether the dialplan knows this place; `None` when Asterisk cannot say.
    pub async fn place_exists(&self, context: &str, extension: &str, priority: u32) -> Option<bool> {
        self.probe.ari.place_exists(&self.caller.channel, context, extension, priority).await
    }

    /// Clears the call away.
    pub async fn end(self) {
        self.call.tear_down(Ending::HangUp, (self.leg, self.phone)).await;
    }
}

/// The local ends, on the configured port or on another one.
async fn open(media: &MediaConfig, registry: &Registry) -> Result<(MediaHub, MediaConfig, bool), ProbeError> {
    let counters = std::sync::Arc::new(MediaCounters::new(registry)?);
    match MediaHub::start(media, std::sync::Arc::clone(&counters)).await {
        Ok((hub, _)) => Ok((hub, media.clone(), false)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let mut media = media.clone();
            media.audiosocket.bind.set_port(0);
            let (hub, _) = MediaHub::start(&media, counters).await?;
            let host = media.audiosocket.advertise.rsplit_once(':').map_or("", |(host, _)| host).to_owned();
            media.audiosocket.advertise = format!("{host}:{}", hub.local_addr().port());
            Ok((hub, media, true))
        }
        Err(error) => Err(error.into()),
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Option<T>>) -> Option<T> {
    timeout(limit, work).await.ok().flatten()
}
