//! From an arrived caller to an open audio path: ring → media and bridge → answer, when there is something to say → caller
//! into the bridge.
//!
//! The caller joins the bridge after the answer, so nothing is heard, and paid for, before it.
//!
//! Invariant: whatever way a set-up ends but by success, no channel, bridge, port or registration
//! of it is left.

use super::{
    ari::{AriClient, AriError, MediaChannel, MediaWire},
    events::Registration,
    leg::{self, AriLeg, Ending},
    media::Coding,
};
use crate::{
    audio::Format,
    call::SetupStep,
    config::{AudioChoice, MediaConfig, Transport},
    facts::CallId,
};
use reqwest::Url;
use std::{future::Future, net::SocketAddr, time::Duration};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The media channel enters Stasis about a millisecond after it was made.
pub const MEDIA_START_MAX: Duration = Duration::from_secs(2);
/// Asterisk connects an AudioSocket while it makes the channel, and answers a WebSocket at once.
pub const MEDIA_CONNECT_MAX: Duration = Duration::from_secs(2);
/// A request that failed because the caller hung up may be answered a moment before the event that
/// says so.
const CALLER_LEAVES_MAX: Duration = Duration::from_millis(50);
/// The formats that Asterisk and a channel's far end have agreed upon, the one that is spoken first: `(opus|ulaw)`.
const NATIVE_FORMATS: &str = "CHANNEL(audionativeformat)";

/// The local ends of audio paths.
pub trait MediaPorts: 'static {
    /// An open audio path. Dropping it closes its socket.
    type Leg: Send + 'static;
    type Expected: ExpectedAudio<Leg = Self::Leg>;
    type Rtp: RtpPort<Leg = Self::Leg>;
    type WebSocket: WebSocketPort<Leg = Self::Leg>;

    /// Takes the AudioSocket connection that names itself by `id`, from now until the returned
    /// guard is dropped.
    fn expect_audiosocket(&self, id: Uuid, format: Format) -> Self::Expected;

    /// A bound local port; `None` when all are taken.
    fn bind_rtp(&self, format: Format) -> Option<Self::Rtp>;

    /// A connection to be made.
    fn websocket(&self, format: Format) -> Self::WebSocket;
}

pub trait ExpectedAudio: Send + 'static {
    type Leg;

    /// The connection, or `None` when it did not come within `within`.
    fn leg(self, within: Duration) -> impl Future<Output = Option<Self::Leg>> + Send;
}

pub trait RtpPort: Send + 'static {
    type Leg;

    fn local_port(&self) -> u16;
    /// Begins, sending to where Asterisk said it listens.
    fn open(self, peer: SocketAddr) -> Self::Leg;
}

pub trait WebSocketPort: Send + 'static {
    type Leg;

    /// The connection that carries the audio of `channel` so, or `None` when it did not come about within `within`.
    fn connect(
        self,
        url: Url,
        channel: String,
        coding: Coding,
        within: Duration,
    ) -> impl Future<Output = Option<Self::Leg>> + Send;
}

/// What a call needs to know to be set up.
#[derive(Debug, Clone)]
pub struct Plan {
    pub call: CallId,
    /// The dialplan has answered already.
    pub answered: bool,
    pub format: Format,
    pub transport: Transport,
    /// In packets of Opus, where the caller's phone speaks it.
    pub opus: bool,
    /// The address (RTP) or `host:port` (AudioSocket) that Asterisk is told; nothing for a WebSocket, which goes to Asterisk.
    pub advertise: String,
}

impl Plan {
    pub fn new(call: CallId, answered: bool, choice: AudioChoice, media: &MediaConfig) -> Self {
        let advertise = match choice.transport {
            Transport::AudioSocket => media.audiosocket.advertise.clone(),
            Transport::Rtp => media.rtp.advertise.clone(),
            Transport::WebSocket => String::new(),
        };
        let AudioChoice { transport, format, opus } = choice;
        Self { call, answered, format, transport, opus, advertise }
    }

    /// What the leg's messages are to be for this caller.
    ///
    /// Asterisk passes Opus on and does not speak it: to a caller of another codec nothing would be heard of it, either way
    /// (22.10: "No path to translate"). So it is taken only where Asterisk has agreed upon it with the phone, which is the
    /// first of the channel's formats; those after it the phone might speak, and does not.
    pub(super) async fn coding(&self, ari: &AriClient, caller: &str) -> Coding {
        if !self.opus {
            return Coding::Plain;
        }
        match ari.variable(caller, NATIVE_FORMATS).await {
            Ok(Some(formats)) if is_opus(&formats) => Coding::Opus,
            told => {
                let formats = told.ok().flatten();
                tracing::info!(call_id = %self.call, formats, "this caller's phone speaks no Opus; its audio goes as samples");
                Coding::NoOpus
            }
        }
    }
}

/// What the call wants of a set-up that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The caller hears ringing. Who was answered by the dialplan is not waited with.
    Ring,
    Answer,
    /// What becomes of the caller if the set-up is dropped now; without it they go back to the dialplan
    /// as [`leg::FAILED`].
    Part(Ending),
}

/// Why a set-up did not end in an open audio path. Its own parts have been removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The caller hung up meanwhile.
    #[error("the caller left during the set-up")]
    CallerLeft,
    /// The caller is still in Stasis and waits: decline them, or hang up.
    #[error("set-up failed at step {}", .0.label())]
    Failed(SetupStep),
}

/// Lets the caller hear ringing, answers them as soon as that is wished, and opens an audio path to
/// them. Without the ringing it takes about 10 ms beside an Asterisk on the same host.
///
/// Should this future be dropped, what was done is undone in the background and the caller is parted
/// from as the [`Wish`] says.
///
/// # Errors
/// When a step failed or the caller left; everything done has been undone by then.
pub async fn set_up<M: MediaPorts>(
    ari: &AriClient,
    media: &M,
    registration: Registration,
    plan: Plan,
    wish: watch::Receiver<Wish>,
) -> Result<(AriLeg, M::Leg), SetupError> {
    let port = Port::<M>::reserve(media, &plan).ok_or(SetupError::Failed(SetupStep::MediaSocket))?;
    // In a task of its own, as a request that was sent cannot be called back: were this future
    // dropped between sending and answer, the undoing could overtake the doing.
    let (result, receiver) = oneshot::channel();
    let given_up = CancellationToken::new();
    let setup = Setup { ari: ari.clone(), registration, plan, wish, given_up: given_up.clone() };
    ari.cleanups().spawn(setup.run(port, result));
    let _guard = given_up.drop_guard();
    receiver.await.unwrap_or(Err(SetupError::Failed(SetupStep::MediaChannel)))
}

/// A local end of an audio path, reserved and not yet connected.
pub(super) enum Port<M: MediaPorts> {
    AudioSocket(M::Expected),
    Rtp(M::Rtp),
    WebSocket(M::WebSocket),
}

impl<M: MediaPorts> Port<M> {
    /// `None`: every port is taken.
    pub(super) fn reserve(media: &M, plan: &Plan) -> Option<Self> {
        match plan.transport {
            Transport::AudioSocket => Some(Self::AudioSocket(media.expect_audiosocket(plan.call.0, plan.format))),
            Transport::Rtp => media.bind_rtp(plan.format).map(Self::Rtp),
            Transport::WebSocket => Some(Self::WebSocket(media.websocket(plan.format))),
        }
    }

    /// What Asterisk is asked for; `coding` matters to a WebSocket alone.
    pub(super) fn wire(&self, plan: &Plan, coding: Coding) -> MediaWire {
        match self {
            Self::AudioSocket(_) => MediaWire::AudioSocket { host: plan.advertise.clone(), id: plan.call.0 },
            Self::Rtp(port) => MediaWire::Rtp { host: host_and_port(&plan.advertise, port.local_port()) },
            Self::WebSocket(_) => MediaWire::WebSocket(coding),
        }
    }

    /// The open path to a channel that Asterisk has made.
    pub(super) async fn open(self, ari: &AriClient, made: MediaChannel, coding: Coding) -> Option<M::Leg> {
        match self {
            Self::AudioSocket(expected) => expected.leg(MEDIA_CONNECT_MAX).await,
            // Asterisk sends only once the caller does, so an address cannot be waited for.
            Self::Rtp(port) => made.rtp_peer.map(|peer| port.open(peer)),
            Self::WebSocket(port) => {
                let url = ari.media_endpoint(&made.connection?);
                port.connect(url, made.id, coding, MEDIA_CONNECT_MAX).await
            }
        }
    }
}

fn is_opus(formats: &str) -> bool {
    formats.trim_matches(['(', ')']).split('|').next() == Some("opus")
}

/// IPv6 addresses need brackets before a port.
fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

struct Setup {
    ari: AriClient,
    registration: Registration,
    plan: Plan,
    wish: watch::Receiver<Wish>,
    /// Nobody waits for the result any more.
    given_up: CancellationToken,
}

/// How the steps ended early.
enum Stop {
    Failed(SetupStep, Option<AriError>),
    CallerLeft,
    GivenUp,
}

type Outcome<L> = Result<(AriLeg, L), SetupError>;

impl Setup {
    async fn run<M: MediaPorts>(mut self, port: Port<M>, result: oneshot::Sender<Outcome<M::Leg>>) {
        let stop = match self.steps(port).await {
            Ok(media) => {
                let ending = self.ending();
                let leg = AriLeg::new(self.ari, self.plan.call, self.registration);
                if let Err(Ok((leg, media))) = result.send(Ok((leg, media))) {
                    leg.tear_down(ending, media).await;
                }
                return;
            }
            Err(stop) => self.truly(stop).await,
        };
        let ending = self.ending();
        let Self { ari, registration, plan, .. } = self;
        let error = match stop {
            Stop::GivenUp => {
                leg::clear(ari, plan.call, ending, registration).await;
                return;
            }
            Stop::CallerLeft => SetupError::CallerLeft,
            Stop::Failed(step, cause) => {
                let (step_label, cause) = (step.label(), cause.map(|error| error.to_string()));
                tracing::warn!(call_id = %plan.call, step = step_label, cause, "a step of the set-up failed");
                SetupError::Failed(step)
            }
        };
        let caller = registration.caller().to_owned();
        leg::clear(ari.clone(), plan.call, Ending::CallerGone, registration).await;
        if result.send(Err(error)).is_err() && matches!(error, SetupError::Failed(_)) {
            // Nobody is there to decide what becomes of the caller.
            let _ = match ending {
                Ending::HangUp => ari.hang_up(&caller, "normal").await,
                Ending::CallerGone => Ok(()),
                Ending::ReturnToDialplan { status } => leg::decline(&ari, &caller, status).await,
            };
        }
    }

    /// The steps in order. The local end is dropped before this returns an error, and with it an
    /// AudioSocket connection, so that the media channel can be deleted.
    async fn steps<M: MediaPorts>(&mut self, port: Port<M>) -> Result<M::Leg, Stop> {
        let (ari, plan) = (&self.ari, &self.plan);
        let media_id = ari.names().media_channel(plan.call);
        self.registration.expect_media(&media_id);
        let coding = plan.coding(ari, self.registration.caller()).await;
        let wire = port.wire(plan, coding);
        let rings = async {
            // Who hears no ringing is still called; a caller who is gone shows below.
            if !plan.answered && *self.wish.borrow() == Wish::Ring {
                let _ = ari.ring(self.registration.caller()).await;
            }
        };
        // These three do not need each other, and each runs to its end whatever becomes of the
        // rest: what is still under way cannot be undone.
        let ((), media, bridge) =
            tokio::join!(rings, ari.create_media(plan.call, &wire, plan.format), ari.create_bridge(plan.call));
        bridge.map_err(|error| Stop::Failed(SetupStep::Bridge, Some(error)))?;
        let media = media.map_err(|error| Stop::Failed(SetupStep::MediaChannel, Some(error)))?;

        let here = async {
            // Not before: Asterisk refuses to bridge a channel that has not entered Stasis.
            let here = timeout(MEDIA_START_MAX, self.registration.media_here()).await;
            if matches!(here, Ok(Ok(()))) { Ok(()) } else { Err(Stop::Failed(SetupStep::MediaChannel, None)) }
        };
        let connected =
            async { port.open(ari, media, coding).await.ok_or(Stop::Failed(SetupStep::MediaConnect, None)) };
        let ready = async { futures_util::future::try_join(here, connected).await.map(|((), media)| media) };
        let media = self.unless_over(ready).await?;
        if !plan.answered {
            let mut wish = self.wish.clone();
            let wished = async {
                // A call that is gone wishes nothing any more; then this was given up.
                wish.wait_for(|wish| *wish == Wish::Answer).await.map(drop).map_err(|_| Stop::GivenUp)
            };
            self.unless_over(wished).await?;
            // To its end, for the same reason.
            let answered = ari.answer(self.registration.caller()).await;
            answered.map_err(|error| Stop::Failed(SetupStep::Answer, Some(error)))?;
        }
        let parties = [self.registration.caller(), &*media_id];
        let joined = async {
            let added = ari.add_channels(plan.call, &parties).await;
            added.map_err(|error| Stop::Failed(SetupStep::Bridge, Some(error)))
        };
        self.unless_over(joined).await?;
        self.registration.bridge().stands(&media_id);
        Ok(media)
    }

    /// `step`, unless the caller leaves or nobody waits any more.
    async fn unless_over<T>(&self, step: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.given_up.cancelled() => Err(Stop::GivenUp),
            _ = self.registration.caller_gone() => Err(Stop::CallerLeft),
            done = step => done,
        }
    }

    /// What becomes of the caller of a set-up that was given up.
    fn ending(&self) -> Ending {
        match *self.wish.borrow() {
            Wish::Part(ending) => ending,
            Wish::Ring | Wish::Answer => Ending::ReturnToDialplan { status: leg::FAILED },
        }
    }

    /// A caller who hangs up makes steps fail; then the hang-up is the reason.
    async fn truly(&self, stop: Stop) -> Stop {
        match stop {
            Stop::Failed(SetupStep::Answer | SetupStep::Bridge, _) => {
                match timeout(CALLER_LEAVES_MAX, self.registration.caller_gone()).await {
                    Ok(_) => Stop::CallerLeft,
                    Err(_) => stop,
                }
            }
            Stop::Failed(..) if self.registration.caller_is_gone() => Stop::CallerLeft,
            other => other,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
