//! The sessions that clients have begun: from `InitSession` to the stream, and to their end.

use super::{
    actions::Actions,
    negotiation::{Agreed, Surroundings, degrade, negotiate, unavailable},
    serve::{Door, NoEntry, TOO_MANY_GUESSES, connection_of},
    servers::ActionServers,
    tool::Actioning,
    turns::Cue,
    visits::Visit,
    wire::{
        SessionEndNotice, SessionEndReason, SessionInitRequest, SessionInitResponse, SessionStatus, now,
        vani_session_service_server::VaniSessionService,
    },
};
use crate::{config::VamSessions, connections::ConnectionEntry, vam::counters::VamCounters};
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{Code, Request, Response, Status};

/// Nobody opens a stream later: what waits longer is forgotten, with the action servers that it brought.
const STREAM_MAX: Duration = Duration::from_secs(60);
/// For the action servers that a session brings; its client waits.
const VISIT_MAX: Duration = Duration::from_secs(15);
/// For all that is still to come of a call that its client has ended; the stream holds each part of it to its own limit.
const FLUSH_MAX: Duration = Duration::from_secs(12);

/// The engine, as sessions see it.
pub trait Conversations: Send + Sync {
    fn knows_context(&self, name: &str) -> bool;

    /// Begins a call; `None`: the engine takes no more.
    fn begin(&self, agreed: Agreed) -> BoxFuture<'_, Option<Ends>>;
}

/// Both directions of a call that has begun.
pub struct Ends {
    /// 20 ms of the caller each, in the call's format. When it is dropped, the caller has left.
    pub heard: mpsc::Sender<Bytes>,
    pub cues: mpsc::Receiver<Cue>,
    /// To be told when the client has ended its session, and been heard to the end.
    pub done: CancellationToken,
}

/// By their ids.
type All = HashMap<String, Session>;

/// Of one engine.
pub struct Sessions {
    config: VamSessions,
    /// Of what a client says came of an action.
    pub(super) result_bytes_max: usize,
    door: Door,
    pub(super) counters: VamCounters,
    pub(super) actions: Arc<Actions>,
    servers: Arc<ActionServers>,
    host: OnceLock<Arc<dyn Conversations>>,
    all: Mutex<All>,
}

struct Session {
    agreed: Agreed,
    until: Instant,
    /// Without a stream until then it is forgotten.
    stream_until: Option<Instant>,
    /// Forgets it then.
    waits: Option<AbortOnDropHandle<()>>,
    end: CancellationToken,
    /// Frames of the caller so far, and whether the stream is over.
    progress: watch::Sender<(u64, bool)>,
    /// The action servers that it brought.
    _visits: Vec<Visit>,
}

/// What a stream has of its session.
pub(super) struct Opened {
    pub agreed: Agreed,
    pub until: Instant,
    pub end: CancellationToken,
    pub progress: watch::Sender<(u64, bool)>,
}

impl Sessions {
    pub(super) fn new(
        config: VamSessions,
        result_bytes_max: usize,
        door: Door,
        counters: VamCounters,
        actioning: Actioning,
    ) -> Self {
        let Actioning { servers, actions } = actioning;
        Self {
            config,
            result_bytes_max,
            door,
            counters,
            actions,
            servers,
            host: OnceLock::new(),
            all: Mutex::default(),
        }
    }

    /// Calls can begin from now on.
    pub fn attach(&self, host: Arc<dyn Conversations>) {
        // It is attached once, when the engine starts.
        let _ = self.host.set(host);
    }

    pub(super) fn host(&self) -> Option<&Arc<dyn Conversations>> {
        self.host.get()
    }

    async fn begin(
        self: &Arc<Self>,
        request: SessionInitRequest,
        by: Option<&Arc<ConnectionEntry>>,
    ) -> SessionInitResponse {
        let knows = |name: &str| self.host().is_some_and(|host| host.knows_context(name));
        let session_id = request.session_id.clone();
        let standing = match self.door.admit(Some(&request.auth_token), by) {
            Ok(standing) => Some(standing),
            Err(NoEntry::Unknown) => None,
            Err(NoEntry::TooMany) => return refusal(session_id, SessionStatus::RateLimited, TOO_MANY_GUESSES),
        };
        // What is known is not kept while others are asked.
        let negotiated = {
            let around = Surroundings {
                sessions: &self.config,
                floor: self.servers.config().floor,
                standing,
                knows_context: &knows,
            };
            negotiate(request, &around)
        };
        let (agreed, mut answer) = match negotiated {
            Ok(agreed) => agreed,
            Err(refusal) => return *refusal,
        };
        // Who is not let in brings no servers along.
        if let Err((status, why)) = self.has_room_for(&session_id, &self.lock()) {
            return refusal(session_id, status, why);
        }
        let visits = self.visits(&agreed, &mut answer).await;
        let (mut all, at) = (self.lock(), Instant::now());
        // Others may have come meanwhile.
        if let Err((status, why)) = self.has_room_for(&session_id, &all) {
            return refusal(session_id, status, why);
        }
        let stream_until = at + STREAM_MAX.min(self.config.ttl);
        let session = Session {
            agreed,
            until: at + self.config.ttl,
            stream_until: Some(stream_until),
            waits: Some(self.forget_at(stream_until, session_id.clone())),
            end: CancellationToken::new(),
            progress: watch::Sender::new((0, false)),
            _visits: visits,
        };
        all.insert(session_id, session);
        self.count(&all);
        answer
    }

    /// Ends with the session, or when its stream begins.
    fn forget_at(self: &Arc<Self>, until: Instant, session_id: String) -> AbortOnDropHandle<()> {
        let sessions = Arc::downgrade(self);
        AbortOnDropHandle::new(tokio::spawn(async move {
            sleep_until(until).await;
            if let Some(sessions) = sessions.upgrade() {
                tracing::info!("a VAM session is forgotten: its client began no stream");
                sessions.counters.sessions_forgotten.inc();
                sessions.close(&session_id);
            }
        }))
    }

    fn has_room_for(&self, session_id: &str, all: &All) -> Result<(), (SessionStatus, &'static str)> {
        match () {
            () if all.contains_key(session_id) => Err((SessionStatus::Rejected, "session_id: is in use")),
            () if all.len() >= self.config.limit => {
                Err((SessionStatus::RateLimited, "as many sessions are open as this gateway takes"))
            }
            () => Ok(()),
        }
    }

    /// Asks the action servers that a session brings, all at once. Those that cannot be had are named.
    async fn visits(&self, agreed: &Agreed, answer: &mut SessionInitResponse) -> Vec<Visit> {
        let visit = |uri: &String| {
            let uri = uri.clone();
            async move {
                let visit = timeout(VISIT_MAX, self.servers.visit(agreed, &uri)).await;
                visit.unwrap_or_else(|_| Err("it did not tell its tools in time".into())).map_err(|why| (uri, why))
            }
        };
        let mut here = Vec::new();
        for visit in join_all(agreed.uris.iter().map(visit)).await {
            match visit {
                Ok(visit) => here.push(visit),
                Err((uri, why)) => {
                    tracing::info!(why, "an action server that a session brought is not used");
                    degrade(answer, unavailable(&uri));
                }
            }
        }
        here
    }

    /// For the one stream of a session.
    ///
    /// # Errors
    /// What is told to whoever opens another one, or one of no session. The stream that is there notices nothing of it.
    pub(super) fn stream_of(&self, session_id: &str) -> Result<Opened, (Code, &'static str)> {
        const UNKNOWN: (Code, &str) = (Code::FailedPrecondition, "InitSession first: there is no such session");
        let mut all = self.lock();
        let session = all.get_mut(session_id).ok_or(UNKNOWN)?;
        match session.stream_until {
            None => return Err((Code::AlreadyExists, "this session has its stream, and goes on there")),
            // It is about to be forgotten.
            Some(until) if until <= Instant::now() => return Err(UNKNOWN),
            Some(_) => {}
        }
        (session.stream_until, session.waits) = (None, None);
        let (agreed, until) = (session.agreed.clone(), session.until);
        Ok(Opened { agreed, until, end: session.end.clone(), progress: session.progress.clone() })
    }

    /// Its stream is over.
    pub(super) fn close(&self, session_id: &str) {
        let gone = {
            let mut all = self.lock();
            let gone = all.remove(session_id);
            self.count(&all);
            gone
        };
        if let Some(session) = gone {
            session.progress.send_modify(|(_, over)| *over = true);
        }
    }

    fn count(&self, all: &All) {
        self.counters.sessions.set(i64::try_from(all.len()).unwrap_or(i64::MAX));
    }

    /// Ends it; resolves when what was pending has gone out. Seconds of the caller's audio.
    async fn end(&self, session_id: &str) -> Option<f32> {
        let (waits, end, mut progress) = {
            let all = self.lock();
            let session = all.get(session_id)?;
            (session.stream_until.is_some(), session.end.clone(), session.progress.subscribe())
        };
        end.cancel();
        if waits {
            self.close(session_id);
        }
        let _ = timeout(FLUSH_MAX, progress.wait_for(|(_, over)| *over)).await;
        let frames = progress.borrow().0;
        #[allow(clippy::cast_precision_loss)] // Hours of frames are exact.
        Some(frames as f32 * 0.02)
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(session_id: String, status: SessionStatus, why: &str) -> SessionInitResponse {
    SessionInitResponse {
        session_id,
        status: status.into(),
        status_message: why.to_owned(),
        gateway_timestamp: Some(now()),
        ..Default::default()
    }
}

pub(super) struct SessionService(pub Arc<Sessions>);

#[tonic::async_trait]
impl VaniSessionService for SessionService {
    async fn init_session(
        &self,
        request: Request<SessionInitRequest>,
    ) -> Result<Response<SessionInitResponse>, Status> {
        let by = connection_of(request.extensions()).cloned();
        let answer = self.0.begin(request.into_inner(), by.as_ref()).await;
        if !matches!(answer.status(), SessionStatus::Ok | SessionStatus::Degraded) {
            tracing::info!(
                status = answer.status().as_str_name(),
                why = answer.status_message,
                "a VAM session was refused"
            );
        }
        Ok(Response::new(answer))
    }

    async fn end_session(&self, request: Request<SessionEndNotice>) -> Result<Response<SessionEndNotice>, Status> {
        let SessionEndNotice { session_id, reason, .. } = request.into_inner();
        let known = SessionEndReason::try_from(reason).unwrap_or_default();
        let Some(audio_seconds_processed) = self.0.end(&session_id).await else {
            return Err(Status::not_found("there is no session of this id"));
        };
        Ok(Response::new(SessionEndNotice {
            session_id,
            reason: if known == SessionEndReason::Unspecified { SessionEndReason::ClientHungUp } else { known }.into(),
            audio_seconds_processed,
            timestamp: Some(now()),
            ..Default::default()
        }))
    }
}
