//! One connection to a server, from its start to its end.

use super::{
    CALLS_MAX, MESSAGE_BYTES_MAX,
    client::Client,
    connection::{Connection, brief, late},
    output::Output,
    process::{self, Process},
    pump::{PumpEnd, Pumps},
    reach::Held,
    reply_ids::ReplyIds,
};
use crate::{
    config::{McpServer, McpTransport, Reach},
    remote,
    tool::mcp::Offered,
};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    RoleClient,
    model::{ErrorCode, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle},
    transport::{
        StreamableHttpClientTransport, async_rw::AsyncRwTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use secrecy::ExposeSecret as _;
use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

/// What a server names as its version of the protocol is shown as far as this.
const VERSION_CHARS_MAX: usize = 40;
/// Between the pump and the protocol; the pump waits when it is full.
const PIPE_BYTES: usize = 64 << 10;
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How soon the end of a connection without a process is seen.
const CLOSED_POLL: Duration = Duration::from_millis(250);
/// For the end of a program whose pipe is broken.
const EXIT_MAX: Duration = Duration::from_secs(1);
/// For the last line of a program that has ended.
const LAST_WORDS_MAX: Duration = Duration::from_millis(200);
/// The goodbye of the protocol; what follows is the process's own end.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// A connection as its supervisor holds it.
pub(super) struct Link {
    pub connection: Arc<Connection>,
    pub changed: Arc<Notify>,
    service: RunningService<RoleClient, Client>,
    process: Option<Process>,
    pumps: Option<Pumps>,
    gone: CancellationToken,
}

/// Starts a server, or reaches it, and agrees on a version of the protocol.
///
/// # Errors
/// Why not, as a sentence without secrets.
pub(super) async fn connect(server: &McpServer, output: &Output) -> Result<Link, String> {
    output.begin();
    // Every server in the field knows `initialize`; one that does not says so, and is asked the newer way.
    let first = attempt(server, output, ClientLifecycleMode::Initialize).await;
    let result = match first {
        Err(Failed::OnlyDiscover) => {
            let preferred_versions = vec![ProtocolVersion::LATEST];
            attempt(server, output, ClientLifecycleMode::Discover { preferred_versions }).await
        }
        other => other,
    };
    result.map_err(|failed| match failed {
        Failed::OnlyDiscover => "it knows neither initialize nor server/discover".into(),
        Failed::Other(why) => output.reason(&why),
    })
}

enum Failed {
    OnlyDiscover,
    Other(String),
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

async fn attempt(server: &McpServer, output: &Output, mode: ClientLifecycleMode) -> Result<Link, Failed> {
    let changed = Arc::new(Notify::new());
    let client = Client { changed: Arc::clone(&changed), output: output.clone() };
    let mut link = match &server.transport {
        McpTransport::Stdio { .. } => program(server, client, output, &mode).await?,
        McpTransport::Http { .. } => {
            let greeted = serve_client_with_lifecycle(
                client,
                ReplyIds::new(http(&server.transport)?, output.clone()),
                mode.clone(),
            );
            let service = timeout(server.start_max, greeted).await.map_err(|_| late(server.start_max))?;
            Link::new(service.map_err(|error| explained(Failure::Greeting(error), output, &mode))?)
        }
    };
    link.changed = changed;
    if let Some(version) = link.unknown_version() {
        link.stop().await;
        return Err(version.into());
    }
    Ok(link)
}

async fn program(
    server: &McpServer,
    client: Client,
    output: &Output,
    mode: &ClientLifecycleMode,
) -> Result<Link, Failed> {
    let (process, pipes) = process::start(&server.transport)?;
    let (messages, from_pump) = tokio::io::duplex(PIPE_BYTES);
    let mut pumps = Pumps::start(pipes.stdout, messages, pipes.stderr, output);
    let transport = AsyncRwTransport::new(from_pump, pipes.stdin).with_max_line_length(MESSAGE_BYTES_MAX + (1 << 10));
    let greeted = serve_client_with_lifecycle(client, ReplyIds::new(transport, output.clone()), mode.clone());
    match first_words(greeted, &process, server.start_max, &pumps).await {
        Ok(service) => Ok(Link { process: Some(process), pumps: Some(pumps), ..Link::new(service) }),
        Err(failed) => {
            // Its last line says why, and may still be in the pipe.
            let _ = timeout(LAST_WORDS_MAX, pumps.errors_ended()).await;
            // Not two of them at once: it has ended before the next one is started.
            process.stop().await;
            drop(pumps);
            Err(explained(failed, output, mode))
        }
    }
}

/// Why a program did not become a server.
#[expect(clippy::large_enum_variant, reason = "one is made where a start fails, and read at once")]
enum Failure {
    Greeting(ClientInitializeError),
    Exited(std::process::ExitStatus),
    Late(Duration),
    NoProtocol,
}

fn explained(failure: Failure, output: &Output, mode: &ClientLifecycleMode) -> Failed {
    let reason = match failure {
        Failure::Greeting(ClientInitializeError::JsonRpcError(error))
            if *mode == ClientLifecycleMode::Initialize
                && [ErrorCode::METHOD_NOT_FOUND, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION].contains(&error.code) =>
        {
            return Failed::OnlyDiscover;
        }
        Failure::Greeting(ClientInitializeError::JsonRpcError(error)) => {
            format!("it answered initialize with error {}: {}", error.code.0, error.message)
        }
        Failure::Greeting(ClientInitializeError::ConnectionClosed(_)) => "it closed its output".to_owned(),
        Failure::Greeting(ClientInitializeError::TransportError { error, .. }) => brief(error.error.as_ref()),
        Failure::Greeting(error) => brief(&error),
        Failure::Exited(status) => format!("it ended ({status})"),
        Failure::Late(limit) => late(limit),
        Failure::NoProtocol => "it prints no messages of the protocol".to_owned(),
    };
    Failed::Other(with_last_words(reason, output))
}

fn with_last_words(reason: String, output: &Output) -> String {
    match output.last_words() {
        Some(words) => format!("{reason}; its last line: {words}"),
        None => reason,
    }
}

/// The handshake, unless the program ends or only makes noise.
async fn first_words(
    greeted: impl Future<Output = Result<RunningService<RoleClient, Client>, ClientInitializeError>>,
    process: &Process,
    limit: Duration,
    pumps: &Pumps,
) -> Result<RunningService<RoleClient, Client>, Failure> {
    tokio::select! {
        result = timeout(limit, greeted) => match result {
            Ok(Ok(service)) => Ok(service),
            Ok(Err(error @ ClientInitializeError::JsonRpcError(_))) => Err(Failure::Greeting(error)),
            // Whoever closes its input or output is about to end; how it ended says more.
            Ok(Err(error)) => match timeout(EXIT_MAX, process.exited()).await {
                Ok(status) => Err(Failure::Exited(status)),
                Err(_) => Err(Failure::Greeting(error)),
            },
            Err(_) => Err(Failure::Late(limit)),
        },
        status = process.exited() => Err(Failure::Exited(status)),
        () = only_noise(pumps) => Err(Failure::NoProtocol),
    }
}

/// Resolves when the pump has given up; a plain end of the output shows elsewhere.
async fn only_noise(pumps: &Pumps) {
    if pumps.ended().await != PumpEnd::NoProtocol {
        std::future::pending().await
    }
}

fn http(transport: &McpTransport) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let McpTransport::Http { url, reach, headers, bearer } = transport else { return Err("it is no endpoint".into()) };
    let mut client = remote::http::builder()
        .connect_timeout(CONNECT_MAX)
        // A redirect would take the token along, and lead off the address that was checked.
        .redirect(reqwest::redirect::Policy::none());
    if !transport.sends() {
        // What is asked on this machine stays here, whatever proxy the environment names.
        client = client.no_proxy();
    }
    if *reach != Reach::Any {
        reach.check(url)?;
        // A proxy would resolve the name itself, unchecked.
        client = client.no_proxy().dns_resolver(Arc::new(Held(*reach)));
    }
    let client = client.build().map_err(|error| format!("the HTTP client cannot be set up: {error}"))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        // The default of 16 would make the seventeenth call wait for the slowest of them.
        .max_concurrent_requests(CALLS_MAX);
    config.max_sse_event_size = MESSAGE_BYTES_MAX;
    if let Some(bearer) = bearer {
        config.auth_header = Some(bearer.expose_secret().to_owned());
    }
    let header = |(name, value): (&String, &secrecy::SecretString)| {
        let mut value = HeaderValue::try_from(value.expose_secret()).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::try_from(name.as_str()).ok()?, value))
    };
    config.custom_headers = headers.iter().filter_map(header).collect::<HashMap<_, _>>();
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

impl Link {
    fn new(service: RunningService<RoleClient, Client>) -> Self {
        let gone = CancellationToken::new();
        let connection = Arc::new(Connection::new(service.peer().clone(), gone.clone()));
        let changed = Arc::default();
        Self { connection, changed, service, process: None, pumps: None, gone }
    }

    /// Resolves with the reason when the server is not there any more.
    pub async fn ended(&self) -> String {
        let exited = async {
            match &self.process {
                Some(process) => process.exited().await,
                None => std::future::pending().await,
            }
        };
        let stuck = async {
            match &self.process {
                Some(process) => process.stuck().await,
                None => std::future::pending().await,
            }
        };
        let silent = async {
            match &self.pumps {
                Some(pumps) => pumps.ended().await,
                None => std::future::pending().await,
            }
        };
        let peer = self.service.peer();
        let closed = async {
            while !peer.is_transport_closed() {
                tokio::time::sleep(CLOSED_POLL).await;
            }
        };
        let why = tokio::select! {
            // What says most comes first.
            biased;
            status = exited => format!("it ended ({status})"),
            () = stuck => "it does not read what it is told".to_owned(),
            end = silent => match end {
                PumpEnd::NoProtocol => "it prints no messages of the protocol".to_owned(),
                PumpEnd::Closed => "it closed its output".to_owned(),
            },
            () = closed => "the connection closed".to_owned(),
        };
        self.gone.cancel();
        why
    }

    /// The tools of a server that has just been greeted.
    ///
    /// # Errors
    /// It does not tell them: why, or how it ended.
    pub async fn first_tools(&self, limit: Duration, output: &Output) -> Result<(Vec<Offered>, Vec<String>), String> {
        let failed = match self.connection.tools(limit).await {
            Ok(tools) => return Ok(tools),
            Err(why) => why,
        };
        // How it ended says more, and may be known in a moment.
        let reason = timeout(LAST_WORDS_MAX, self.ended()).await.unwrap_or(failed);
        Err(output.reason(&with_last_words(reason, output)))
    }

    /// Ends the connection and the process, in bounded time.
    pub async fn stop(mut self) {
        self.gone.cancel();
        // Closes its input, too.
        let _ = self.service.close_with_timeout(CLOSE_MAX).await;
        if let Some(process) = self.process.take() {
            process.stop().await;
        }
    }

    /// What is wrong with the version of the protocol that the server named, if it is none we know.
    fn unknown_version(&self) -> Option<String> {
        let peer = self.service.peer().peer_info()?;
        let version = peer.protocol_version.as_str();
        if ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version) {
            return None;
        }
        let shown: String =
            version.chars().take(VERSION_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let known: Vec<_> = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
        Some(format!("it speaks version \"{shown}\" of the protocol; offhook knows {}", known.join(", ")))
    }
}
