//! The gRPC server: who may come in, and what they may hold on to.

use super::{
    counters::VamCounters,
    servers::ActionServers,
    service::ActionService,
    sessions::{SessionService, Sessions},
    stream::StreamService,
    tool::Actioning,
    wire::{
        DESCRIPTORS, vani_action_service_server::VaniActionServiceServer,
        vani_session_service_server::VaniSessionServiceServer, vani_stream_service_server::VaniStreamServiceServer,
    },
};
use crate::config::{VamConfig, VamTls};
use futures_util::{Stream, stream};
use prometheus::IntCounter;
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use subtle::{Choice, ConstantTimeEq as _};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};
use tonic::{
    Request, Status,
    service::{
        Interceptor,
        interceptor::{InterceptedService, InterceptorLayer},
    },
    transport::{Identity, Server, ServerTlsConfig, server::Connected},
};

/// A client that is gone without a word frees its place after this and the time it has to answer.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(30);
const KEEPALIVE_MAX: Duration = Duration::from_secs(10);
/// From a connection to its first request, with TLS and HTTP/2 in between. Who opens one early and asks later opens another.
const FIRST_REQUEST_MAX: Duration = Duration::from_secs(20);
/// Requests of one connection at once, beside the streams of its sessions.
const REQUESTS_MAX: u32 = 64;
/// A result that is larger than it may be is an action that failed; beyond this the stream ends.
const STREAM_MESSAGE_BYTES: usize = 16 << 20;
/// A registration waits for a server to start and tell its tools, and for those of the same id before it.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// After an error of the listener: most often no file descriptor is left, and each try costs time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Reads the certificate, so that a mistake shows at the start.
///
/// # Errors
/// A file cannot be read, or is no certificate or key.
pub fn prepare(config: &VamConfig) -> Result<Prepared, String> {
    let tls = match &config.tls {
        None => None,
        Some(VamTls { certificate, key }) => {
            let read = |file: &std::path::Path| {
                std::fs::read(file).map_err(|error| format!("vam.tls: {}: {error}", file.display()))
            };
            Some(ServerTlsConfig::new().identity(Identity::from_pem(read(certificate)?, read(key)?)))
        }
    };
    // All of them may come by one connection.
    let sessions = config.sessions.as_ref().map_or(0, |sessions| u32::try_from(sessions.limit).unwrap_or(u32::MAX / 2));
    let server = Server::builder()
        .max_concurrent_streams(REQUESTS_MAX + sessions)
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_MAX))
        .timeout(ANSWER_MAX);
    let server = match tls {
        None => server,
        Some(tls) => server.tls_config(tls).map_err(|error| {
            // The library says "transport error", and the reason below it.
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            format!("vam.tls: {why}")
        })?,
    };
    Ok(Prepared { server })
}

impl Sessions {
    /// `None`: no conversations are held.
    pub fn open(config: &VamConfig, counters: VamCounters, actioning: Actioning) -> Option<Self> {
        let sessions = config.sessions.clone()?;
        let door = Door::new(config, counters.clone());
        Some(Self::new(sessions, config.limits.message_bytes, door, counters, actioning))
    }
}

/// A server that has yet to listen.
pub struct Prepared {
    server: Server,
}

impl Prepared {
    /// Serves until `shutdown` completes.
    ///
    /// # Errors
    /// The server cannot go on.
    pub async fn serve(
        self,
        listener: TcpListener,
        servers: Arc<ActionServers>,
        sessions: Option<Arc<Sessions>>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let (config, counters) = (servers.config().clone(), servers.counters().clone());
        let unasked = counters.unasked.clone();
        let door = Door::new(&config, counters);
        let actions = VaniActionServiceServer::new(ActionService(servers))
            .max_decoding_message_size(config.limits.message_bytes)
            .max_encoding_message_size(config.limits.message_bytes);
        let most = config.limits.message_bytes;
        let begins = sessions
            .clone()
            .map(|sessions| VaniSessionServiceServer::new(SessionService(sessions)).max_decoding_message_size(most));
        let streams = sessions.map(|sessions| {
            VaniStreamServiceServer::new(StreamService(sessions))
                .max_decoding_message_size(most.max(STREAM_MESSAGE_BYTES))
        });
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<VaniActionServiceServer<ActionService>>().await;
        if begins.is_some() {
            health.set_serving::<VaniSessionServiceServer<SessionService>>().await;
            health.set_serving::<VaniStreamServiceServer<StreamService>>().await;
        }
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .map_err(|error| error.to_string())?;
        let router = self
            .server
            .layer(InterceptorLayer::new(arrives))
            .add_service(health_service)
            .add_service(InterceptedService::new(reflection, door.clone()))
            .add_service(InterceptedService::new(actions, door))
            // Whoever begins a session says who they are in the message; the session's id lets a stream in.
            .add_optional_service(begins)
            .add_optional_service(streams);
        let incoming = guests(listener, config.limits.connections, unasked);
        router.serve_with_incoming_shutdown(incoming, shutdown).await.map_err(|error| error.to_string())
    }
}

/// Lets in who has a token.
#[derive(Clone)]
pub(super) struct Door {
    /// Hashes, so that all comparisons take the same time whatever the lengths.
    tokens: Arc<[[u8; 32]]>,
    counters: VamCounters,
}

impl Door {
    pub fn new(config: &VamConfig, counters: VamCounters) -> Self {
        let hash = |token: &secrecy::SecretString| Sha256::digest(token.expose_secret()).into();
        Self { tokens: config.tokens.iter().map(hash).collect(), counters }
    }

    /// Looks at every token, so that time tells nothing about which is nearly right.
    pub fn knows(&self, token: &str) -> bool {
        let hash: [u8; 32] = Sha256::digest(token).into();
        self.tokens.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&hash)).into()
    }
}

impl Interceptor for Door {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let mut given = request.metadata().get_all("authorization").iter();
        let token = match (given.next().and_then(|value| value.to_str().ok()), given.next()) {
            (Some(value), None) => value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")),
            _ => None,
        };
        if token.is_some_and(|(_, token)| self.knows(token.trim())) {
            return Ok(request);
        }
        self.counters.unauthenticated.inc();
        Err(Status::unauthenticated("send one of vam.tokens as authorization: Bearer TOKEN"))
    }
}

/// A request has come on its connection, whoever asks and for what.
#[allow(clippy::unnecessary_wraps, clippy::result_large_err)] // As interceptors are.
fn arrives(request: Request<()>) -> Result<Request<()>, Status> {
    if let Some(Asked(asked)) = request.extensions().get() {
        asked.store(true, Ordering::Relaxed);
    }
    Ok(request)
}

/// Connections as they come, never more than `most` at once: the next ones wait in the system's queue.
fn guests(listener: TcpListener, most: usize, unasked: IntCounter) -> impl Stream<Item = io::Result<Guest>> {
    let places = Arc::new(Semaphore::new(most));
    stream::unfold((listener, places), move |(listener, places)| {
        let unasked = unasked.clone();
        async move {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            let stream = loop {
                match listener.accept().await {
                    Ok((stream, _)) => break stream,
                    Err(error) => {
                        tracing::debug!(%error, "a connection by gRPC was not accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            };
            // Small messages go out at once.
            let _ = stream.set_nodelay(true);
            let patience = Some(Box::pin(sleep(FIRST_REQUEST_MAX)));
            let guest = Guest { stream, asked: Asked::default(), patience, unasked, _place: place };
            Some((Ok(guest), (listener, places)))
        }
    })
}

/// Whether something was asked on a connection; requests carry it.
#[derive(Clone, Default)]
struct Asked(Arc<AtomicBool>);

/// A connection that gives its place back when it ends, and ends when nothing is asked on it.
struct Guest {
    stream: TcpStream,
    asked: Asked,
    /// Until something was asked.
    patience: Option<Pin<Box<Sleep>>>,
    unasked: IntCounter,
    _place: OwnedSemaphorePermit,
}

impl Guest {
    /// # Errors
    /// The time for the first request is over.
    fn wait(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(patience) = &mut self.patience else { return Ok(()) };
        let is_asked = self.asked.0.load(Ordering::Relaxed);
        if !is_asked && patience.as_mut().poll(cx).is_pending() {
            return Ok(());
        }
        self.patience = None;
        if is_asked {
            return Ok(());
        }
        self.unasked.inc();
        Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was asked on this connection"))
    }
}

impl Connected for Guest {
    type ConnectInfo = Asked;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.asked.clone()
    }
}

impl AsyncRead for Guest {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.wait(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
