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
use crate::{
    config::{VamConfig, VamTls},
    connections::{ConnectionEntry, ConnectionPermit, ConnectionTable, Full},
    http::rate::Rates,
};
use futures_util::{Stream, stream};
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use std::{
    future::Future,
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use subtle::{Choice, ConstantTimeEq as _};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, Sleep, sleep},
};
use tonic::{
    Extensions, Request, Status,
    service::{
        Interceptor,
        interceptor::{InterceptedService, InterceptorLayer},
    },
    transport::{Identity, Server, ServerTlsConfig, server::Connected},
};

/// A client that is gone without a word frees its place after this and the time it has to answer.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(30);
const KEEPALIVE_MAX: Duration = Duration::from_secs(10);
/// How long a connection without a token may stay without a request. For the first one, TLS and HTTP/2 are in between; a client that
/// asks later opens another one.
const STRANGER_IDLE_MAX: Duration = Duration::from_secs(20);
/// Wrong tokens of one network at once and after that. A client with a mistake in its settings tries again every second or so.
const GUESSES: u32 = 30;
const GUESSES_PER_SECOND: f64 = 1.0;
/// Networks that are told apart; those beyond share one bucket.
const NETWORKS_MAX: usize = 4_096;
pub(super) const TOO_MANY_GUESSES: &str = "too many wrong tokens came from this address; try again in a few seconds";
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
        let door = Door::new(&config, counters.clone());
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
        let incoming = connections(listener, config.limits.connections, counters);
        router.serve_with_incoming_shutdown(incoming, shutdown).await.map_err(|error| error.to_string())
    }
}

/// Lets in who has a token.
#[derive(Clone)]
pub(super) struct Door {
    /// Hashes, so that all comparisons take the same time whatever the lengths.
    tokens: Arc<[[u8; 32]]>,
    /// Hashes of the tokens of [`Standing::Trusted`].
    trusted: Arc<[[u8; 32]]>,
    /// Wrong tokens of each network.
    guesses: Arc<Rates<IpAddr>>,
    counters: VamCounters,
}

/// Standing of whoever shows a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Known,
    /// A client that is believed who its callers are.
    Trusted,
}

/// Why a token does not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoEntry {
    Unknown,
    /// Its network showed so many wrong ones that it is not looked at.
    TooMany,
}

impl Door {
    pub fn new(config: &VamConfig, counters: VamCounters) -> Self {
        let hash = |token: &secrecy::SecretString| Sha256::digest(token.expose_secret()).into();
        let guesses = Arc::new(Rates::new(GUESSES, GUESSES_PER_SECOND, NETWORKS_MAX));
        let (tokens, trusted) = (&config.tokens, &config.trusted_tokens);
        let hashes = |tokens: &[secrecy::SecretString]| tokens.iter().map(hash).collect();
        Self { tokens: hashes(tokens), trusted: hashes(trusted), guesses, counters }
    }

    /// Looks at the token that came on a connection, and has the connection known if it is right.
    ///
    /// # Errors
    /// It is not, or its network has guessed too often. A connection that is known is not held to what others of its network do.
    pub fn admit(&self, token: Option<&str>, connection: Option<&Arc<ConnectionEntry>>) -> Result<Standing, NoEntry> {
        let slowed = connection.filter(|connection| !connection.is_known()).map(|connection| connection.network());
        if let Some(network) = slowed
            && self.guesses.take(network, Instant::now()).is_err()
        {
            self.counters.guesses_refused.inc();
            return Err(NoEntry::TooMany);
        }
        let Some(standing) = token.and_then(|token| self.knows(token)) else {
            self.counters.unauthenticated.inc();
            return Err(NoEntry::Unknown);
        };
        if let Some(network) = slowed {
            self.guesses.give_back(network);
        }
        if let Some(connection) = connection {
            connection.know();
        }
        Ok(standing)
    }

    /// Looks at every token, so that time tells nothing about which is nearly right.
    fn knows(&self, token: &str) -> Option<Standing> {
        let hash: [u8; 32] = Sha256::digest(token).into();
        let is_among =
            |all: &[[u8; 32]]| bool::from(all.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&hash)));
        match (is_among(&self.tokens), is_among(&self.trusted)) {
            (_, true) => Some(Standing::Trusted),
            (true, false) => Some(Standing::Known),
            (false, false) => None,
        }
    }
}

impl Interceptor for Door {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let mut given = request.metadata().get_all("authorization").iter();
        let token = match (given.next().and_then(|value| value.to_str().ok()), given.next()) {
            (Some(value), None) => value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")),
            _ => None,
        };
        let token = token.map(|(_, token)| token.trim());
        match self.admit(token, connection_of(request.extensions())) {
            Ok(_) => Ok(request),
            Err(NoEntry::Unknown) => {
                Err(Status::unauthenticated("send one of vam.tokens as authorization: Bearer TOKEN"))
            }
            Err(NoEntry::TooMany) => Err(Status::resource_exhausted(TOO_MANY_GUESSES)),
        }
    }
}

/// The connection by which a request came; none where a test asks without one.
pub(super) fn connection_of(request: &Extensions) -> Option<&Arc<ConnectionEntry>> {
    request.get::<ByConnection>().map(|ByConnection(entry)| entry)
}

/// A request has come on its connection: it is not the idlest one.
#[allow(clippy::unnecessary_wraps, clippy::result_large_err)] // As interceptors are.
fn arrives(request: Request<()>) -> Result<Request<()>, Status> {
    if let Some(connection) = connection_of(request.extensions()) {
        connection.touch();
    }
    Ok(request)
}

/// Connections as they come, never more than `most` at once. A newcomer gets the place of one that has shown no token; where all
/// have, it waits.
fn connections(
    listener: TcpListener,
    most: usize,
    counters: VamCounters,
) -> impl Stream<Item = io::Result<GrpcConnection>> {
    let table = ConnectionTable::new(most);
    stream::unfold((listener, table), move |(listener, table)| {
        let counters = counters.clone();
        async move {
            let (stream, peer) = loop {
                match listener.accept().await {
                    Ok(accepted) => break accepted,
                    Err(error) => {
                        tracing::debug!(%error, "a connection by gRPC was not accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            };
            // Small messages go out at once.
            let _ = stream.set_nodelay(true);
            let is_stranger = |entry: &ConnectionEntry| !entry.is_known();
            let permit = match table.try_enter(peer.ip(), is_stranger) {
                Ok(permit) => permit,
                Err(Full) => {
                    counters.connections_waited.inc();
                    tracing::warn!(
                        most,
                        "as many clients are connected as vam.limits.connections allows; another one waits"
                    );
                    table.enter(peer.ip(), is_stranger).await
                }
            };
            let patience = Some(Box::pin(sleep(STRANGER_IDLE_MAX)));
            Some((Ok(GrpcConnection { stream, permit, patience, counters }), (listener, table)))
        }
    })
}

/// Connection of a request, in its extensions.
#[derive(Clone)]
struct ByConnection(Arc<ConnectionEntry>);

/// A connection that gives its place back when it ends. Without a token it ends when nothing is asked on it for a while, or when
/// its place is needed.
struct GrpcConnection {
    stream: TcpStream,
    permit: ConnectionPermit,
    /// Until a token was shown.
    patience: Option<Pin<Box<Sleep>>>,
    counters: VamCounters,
}

impl GrpcConnection {
    /// # Errors
    /// The time for a request is over, or another one needs the place.
    fn wait(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(patience) = &mut self.patience else { return Ok(()) };
        let entry = &self.permit.entry;
        if entry.poll_shown_out(cx).is_ready() {
            self.patience = None;
            self.counters.shown_out.inc();
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "others need the place of this connection"));
        }
        if entry.is_known() {
            self.patience = None;
            return Ok(());
        }
        while patience.as_mut().poll(cx).is_ready() {
            let until = entry.active() + STRANGER_IDLE_MAX;
            if until <= Instant::now() {
                self.patience = None;
                self.counters.unasked.inc();
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was asked on this connection"));
            }
            patience.as_mut().reset(until);
        }
        Ok(())
    }
}

impl Connected for GrpcConnection {
    type ConnectInfo = ByConnection;

    fn connect_info(&self) -> Self::ConnectInfo {
        ByConnection(Arc::clone(&self.permit.entry))
    }
}

impl AsyncRead for GrpcConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.wait(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for GrpcConnection {
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
