//! The task that owns the events socket.

use super::{
    AriState, Arrival, Loss, Timing,
    backoff::{Backoff, jittered},
    event::{Event, Malformed},
    owner::{LastWord, Owner, Standing},
    reconcile,
    replaced::NewParty,
    router::{Chore, EventRouter},
};
use crate::{
    asterisk::{
        ari::{AriClient, AriError, Fault, Orphan, Queue, is_untrusted, not_opened},
        leg,
    },
    remote::tls,
};
use bytes::Bytes;
use futures_util::{FutureExt, SinkExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use std::time::Duration;
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        http::{HeaderValue, StatusCode, header::AUTHORIZATION},
        protocol::WebSocketConfig,
    },
};
use tokio_util::sync::CancellationToken;

/// One event is a few kilobytes; only a channel with very many variables comes near this.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Events are small and come a few at a time.
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// Answers to pings that Asterisk does not read; nothing else is sent. More than the 128 KiB that the library collects.
const WRITE_BUFFER_BYTES: usize = 256 * 1024;
/// Removals and refusals under way at once. What does not fit is found by the next reconcile.
const CHORES_MAX: usize = 256;

/// Waits of [`Timing::replaced_wait`] in which another engine's calls are spared. What looks like its calls may be
/// the remains of one that crashed, and without events nobody is answered here.
const STAND_BYS_MAX: usize = 10;

/// What could not be removed so soon after a look is most likely what that look has found.
const TIDY_AGAIN: Duration = Duration::from_secs(15);

type Look<'a> = BoxFuture<'a, Result<Vec<Chore>, AriError>>;
type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Chores = FuturesUnordered<BoxFuture<'static, ()>>;

/// Keeps the events socket open until it is told to stop.
pub struct EventSocket {
    ari: AriClient,
    router: EventRouter,
    timing: Timing,
    state: watch::Sender<AriState>,
    owner: Owner,
}

impl EventSocket {
    /// The socket, still closed; the calls that will arrive on it (`ARRIVALS` wait at most, further
    /// ones go back to the dialplan); and the state of the connection.
    pub fn new(ari: AriClient, timing: Timing) -> (Self, mpsc::Receiver<Arrival>, watch::Receiver<AriState>) {
        let (router, arrivals) = EventRouter::new(ari.names().clone(), ari.counters().clone());
        let (state, state_receiver) = watch::channel(AriState::Starting);
        (Self { ari, router, timing, state, owner: Owner::new() }, arrivals, state_receiver)
    }

    pub fn router(&self) -> EventRouter {
        self.router.clone()
    }

    /// Connects and reconnects until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut backoff = Backoff::new();
        loop {
            let began = Instant::now();
            let Err(End { loss, cause }) = self.connection(&stop).await else { return };
            let wait = match loss {
                Loss::Replaced => jittered(self.timing.owner_gone_after),
                _ => backoff.after(began.elapsed(), &self.timing),
            };
            self.lost(loss, &cause, wait);
            // Counted after the state has changed: a loss that the metric tells of is on `/ready` too.
            self.ari.counters().reconnects.with_label_values(&[loss.label()]).inc();
            let waited = async {
                match loss {
                    Loss::Replaced => self.stand_by().await,
                    _ => sleep(wait).await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = waited => {}
            }
        }
    }

    /// Another engine has our application, and keeps it while it lives. One that does not tell whether it lives keeps it while it
    /// has calls, which would end if we took it back, up to [`STAND_BYS_MAX`] times [`Timing::replaced_wait`]. Of our own calls no
    /// event tells any more: they are asked for.
    async fn stand_by(&self) {
        let (mut last, mut asked, mut spared) = (LastWord::default(), Instant::now(), 0);
        let (mut quiet_since, quiet_max) = (Instant::now(), jittered(self.timing.replaced_wait));
        loop {
            sleep(self.timing.look_every).await;
            if asked.elapsed() >= self.timing.ping_every {
                asked = Instant::now();
                if let Err(error) = reconcile::notice_lost(&self.ari, &self.router).await {
                    tracing::debug!(%error, "what became of the calls could not be asked");
                }
            }
            match self.owner.look(&self.ari, &mut last, &self.timing).await {
                Ok(Standing::Free | Standing::Silent) => return,
                Ok(Standing::Lives) => (quiet_since, spared) = (Instant::now(), 0),
                Ok(Standing::Unknown) | Err(_) => {}
            }
            if quiet_since.elapsed() >= quiet_max {
                (quiet_since, spared) = (Instant::now(), spared + 1);
                let has_calls = matches!(reconcile::others_have_calls(&self.ari, &self.router).await, Ok(true));
                if !has_calls || spared >= STAND_BYS_MAX {
                    return;
                }
            }
        }
    }

    /// Once per change: an Asterisk that stays away for a night must not fill the disk.
    fn lost(&self, loss: Loss, cause: &str, wait: Duration) {
        let (reason, wait_ms) = (loss.label(), wait.as_millis());
        if self.state.send_replace(AriState::Down(loss)) == AriState::Down(loss) {
            tracing::debug!(reason, cause, wait_ms, "still no ARI events");
            return;
        }
        match loss {
            Loss::Unauthorized => tracing::error!(reason, "Asterisk refuses the ARI user name or password"),
            Loss::Replaced => tracing::error!(
                reason,
                app = self.ari.names().app(),
                "another engine has connected to Asterisk with this application's name"
            ),
            _ => tracing::warn!(reason, cause, wait_ms, "no ARI events; new calls are refused until they are back"),
        }
    }

    /// One connection from its first request to its end. `Ok` is the end that was asked for.
    async fn connection(&self, stop: &CancellationToken) -> Result<(), End> {
        let (mut socket, before) = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            opened = self.open() => opened?,
        };
        let mut look = Some(reconcile::reconcile(&self.ari, &self.router, before).boxed());
        let (mut caught_up, mut looked_at, mut tidy_wait) = (false, Instant::now(), self.timing.tidy_first);
        let mut chores = Chores::new();
        let mut ping = interval(self.timing.ping_every);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        let mut beats = Box::pin(self.owner.beat(&self.ari, &self.timing));
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    let _ = timeout(self.timing.write_max, socket.close(None)).await;
                    return Ok(());
                }
                message = socket.next() => {
                    heard = Instant::now();
                    if let Some(chore) = self.hear(message)? {
                        self.take_on(chore, &mut chores);
                    }
                }
                found = looked(&mut look) => {
                    look = None;
                    looked_at = Instant::now();
                    match found {
                        Ok(found) => found.into_iter().for_each(|chore| self.take_on(chore, &mut chores)),
                        Err(error) if caught_up => self.look_again_after(&error),
                        Err(error) => return Err(error.into()),
                    }
                    if !std::mem::replace(&mut caught_up, true) {
                        self.state.send_replace(AriState::Up);
                        tracing::info!(app = self.ari.names().app(), "ARI events flow");
                    }
                }
                () = self.ari.untidied(), if look.is_none() => {
                    let again = looked_at.elapsed() < TIDY_AGAIN;
                    tidy_wait = if again { self.timing.tidy_max.min(tidy_wait * 2) } else { self.timing.tidy_first };
                    look = Some(self.tidy(tidy_wait).boxed());
                }
                Some(()) = chores.next() => {}
                () = &mut beats => {}
                _ = ping.tick() => {
                    if heard.elapsed() > self.timing.dead_after {
                        return Err(Loss::TimedOut.into());
                    }
                    let sent = timeout(self.timing.write_max, socket.send(Message::Ping(Bytes::new()))).await;
                    sent.map_err(|_| Loss::TimedOut)?.map_err(End::in_flight)?;
                }
            }
        }
    }

    /// Looks for what a clean-up has left. Whoever comes in while this waits is known when it looks.
    async fn tidy(&self, wait: Duration) -> Result<Vec<Chore>, AriError> {
        let before = reconcile::in_application(&self.ari).await;
        sleep(wait).await;
        reconcile::reconcile(&self.ari, &self.router, before?).await
    }

    /// Events flow, so this is no reason to give up the socket.
    fn look_again_after(&self, error: &AriError) {
        tracing::debug!(%error, "what a clean-up has left could not be looked for");
        self.ari.untidy();
    }

    async fn open(&self) -> Result<(Socket, Vec<String>), End> {
        let before = reconcile::in_application(&self.ari).await?;
        let (url, authorization) = self.ari.events_endpoint();
        let mut request = url.as_str().into_client_request().map_err(|_| Loss::Refused)?;
        let authorization = HeaderValue::from_bytes(authorization.as_bytes()).map_err(|_| Loss::Refused)?;
        request.headers_mut().insert(AUTHORIZATION, authorization);
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .max_write_buffer_size(WRITE_BUFFER_BYTES)
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let connecting = connect_async_tls_with_config(request, Some(config), true, Some(tls::connector()));
        match timeout(self.timing.connect_max, connecting).await {
            Ok(Ok((socket, _))) => Ok((socket, before)),
            Ok(Err(error)) => Err(End::of_attempt(&error)),
            Err(_) => Err(Loss::Unreachable.into()),
        }
    }

    /// One thing read from the socket; `Err` is its end.
    fn hear(&self, message: Option<Result<Message, Error>>) -> Result<Option<Chore>, End> {
        match message {
            None | Some(Ok(Message::Close(_))) => Err(Loss::Closed.into()),
            Some(Err(error)) => Err(End::in_flight(error)),
            Some(Ok(Message::Text(text))) => match Event::read(&text) {
                Ok(event) => {
                    if let Some(kind) = event.kind() {
                        self.ari.counters().events.with_label_values(&[kind]).inc();
                    }
                    match event {
                        Event::ApplicationReplaced => Err(Loss::Replaced.into()),
                        event => Ok(self.router.dispatch(event)),
                    }
                }
                Err(Malformed) => {
                    self.ari.counters().events_malformed.inc();
                    tracing::debug!(bytes = text.len(), "an ARI event that cannot be read");
                    Ok(None)
                }
            },
            Some(Ok(Message::Binary(_))) => {
                self.ari.counters().events_malformed.inc();
                Ok(None)
            }
            // The library answers pings.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        }
    }

    fn take_on(&self, chore: Chore, chores: &mut Chores) {
        // A party left alone in a bridge, or taken for somebody else, is worse than a request too many; both have limits of their own.
        let counted = matches!(chore, Chore::EndPair { .. } | Chore::AskParty(_));
        if chores.len() >= CHORES_MAX && !counted {
            self.ari.counters().overflowed(Queue::Chores);
            return;
        }
        let (ari, router) = (self.ari.clone(), self.router.clone());
        chores.push(
            async move {
                let done = match &chore {
                    Chore::RemoveChannel(channel) => {
                        ari.hang_up(channel, "normal").await.map(|()| ari.counters().orphan_removed(Orphan::Channel))
                    }
                    Chore::RemoveBridge(bridge) => {
                        ari.delete_bridge(bridge).await.map(|()| ari.counters().orphan_removed(Orphan::Bridge))
                    }
                    Chore::EndPair { call, other } => {
                        let hung_up = ari.hang_up(other, "normal").await;
                        hung_up.and(ari.delete_bridge(&ari.names().pair_bridge(*call)).await)
                    }
                    Chore::Decline { channel, status } => leg::decline(&ari, channel, status).await,
                    Chore::AskParty(id) => {
                        if let Some(ordinal) = router.party_ordinal(id) {
                            let (party, presentation) = ari.party(id).await;
                            router.is_party(id, NewParty { ordinal, party, presentation });
                        }
                        Ok(())
                    }
                };
                if let Err(error) = done {
                    tracing::warn!(%error, "a channel or bridge without a call could not be cleared away");
                }
            }
            .boxed(),
        );
    }
}

/// What was found; never, when nobody looks.
async fn looked(look: &mut Option<Look<'_>>) -> Result<Vec<Chore>, AriError> {
    match look {
        Some(look) => look.await,
        None => std::future::pending().await,
    }
}

/// How a connection ended.
struct End {
    loss: Loss,
    /// The words of the failing layer, for the log.
    cause: String,
}

impl End {
    /// The WebSocket did not come about.
    fn of_attempt(error: &Error) -> Self {
        let loss = match error {
            error if is_untrusted(error) => Loss::Untrusted,
            Error::Http(answer) => match answer.status() {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Loss::Unauthorized,
                _ => Loss::Refused,
            },
            Error::Io(_) | Error::Tls(_) | Error::Url(_) => Loss::Unreachable,
            _ => Loss::Refused,
        };
        Self { loss, cause: not_opened(error) }
    }

    /// The WebSocket stood.
    fn in_flight(error: Error) -> Self {
        let loss = match error {
            Error::ConnectionClosed | Error::AlreadyClosed => Loss::Closed,
            _ => Loss::Dropped,
        };
        Self { loss, cause: error.to_string() }
    }
}

impl From<Loss> for End {
    fn from(loss: Loss) -> Self {
        Self { loss, cause: String::new() }
    }
}

impl From<AriError> for End {
    fn from(error: AriError) -> Self {
        let loss = match error.fault {
            Fault::Unauthorized => Loss::Unauthorized,
            Fault::Unreachable(_) => Loss::Unreachable,
            Fault::Untrusted(_) => Loss::Untrusted,
            Fault::OutcomeUnknown(_) => Loss::Dropped,
            Fault::NotFound | Fault::Conflict { .. } | Fault::Refused { .. } | Fault::Unreadable(_) => Loss::Refused,
        };
        Self { loss, cause: error.to_string() }
    }
}
