//! One connection to a server, from its start to its end.
#![expect(deprecated, reason = "servers in the field use what the newest revision of the protocol deprecates")]

use super::{
    CALLS_MAX, MESSAGE_BYTES_MAX, TOOLS_MAX,
    output::Output,
    process::{self, Process},
    pump::{self, PumpEnd, Pumps},
};
use crate::{
    config::{McpServer, McpTransport},
    tool::mcp::Offered,
};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientCapabilities, ClientConfig,
        ClientRequest, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ErrorCode,
        ErrorData, Implementation, JsonObject, ListRootsResult, ListToolsRequest, LoggingMessageNotificationParam,
        PaginatedRequestParams, PingRequest, ProtocolVersion, RequestId, ServerResult,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, PeerRequestOptions, RequestContext,
        RunningService, ServiceError, serve_client_with_lifecycle,
    },
    transport::{
        StreamableHttpClientTransport,
        async_rw::AsyncRwTransport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Pages of a list of tools; a server whose list never ends is cut off.
const PAGES_MAX: usize = 64;
/// Entries that are read of a list, whether they can be used or not; what is beyond those is not even looked at.
const LISTED_MAX: usize = 8 * TOOLS_MAX;
/// JSON of all entries together, which is kept as long as the server is configured.
const LIST_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// What a server names as its version of the protocol is shown as far as this.
const VERSION_CHARS_MAX: usize = 40;
/// Between the pump and the protocol; the pump waits when it is full.
const PIPE_BYTES: usize = 64 << 10;
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A server that stands answers a ping in this time. Many do one thing after the other, and a tool may take long.
const PING_MAX: Duration = Duration::from_secs(15);
/// How soon the end of a connection without a process is seen.
const CLOSED_POLL: Duration = Duration::from_millis(250);
/// For the end of a program whose pipe is broken.
const EXIT_MAX: Duration = Duration::from_secs(1);
/// For the last line of a program that has ended.
const LAST_WORDS_MAX: Duration = Duration::from_millis(200);
/// The goodbye of the protocol; what follows is the process's own end.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// What calls use of a connection.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    /// The server went away: nothing that was asked will be answered.
    gone: CancellationToken,
    places: Semaphore,
}

/// A connection as its supervisor holds it.
pub(super) struct Link {
    pub connection: Arc<Connection>,
    pub changed: Arc<Notify>,
    service: RunningService<RoleClient, Client>,
    process: Option<Process>,
    pumps: Option<Pumps>,
    gone: CancellationToken,
}

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The server answered with an error of the protocol.
    Refused {
        code: i32,
        message: String,
    },
    Timeout,
    /// It was there and went away.
    Gone,
    /// Too many calls are under way.
    Busy,
}

/// The client's half of the protocol: offhook has neither a model nor files nor a person to offer to a server.
struct Client {
    changed: Arc<Notify>,
    output: Output,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("offhook", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let text = params.data.as_str().map_or_else(|| params.data.to_string(), str::to_owned);
        self.output.line("message", text.as_bytes());
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(unknown("sampling/createMessage"))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(unknown("roots/list"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(unknown("elicitation/create"))
    }
}

fn unknown(method: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)
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
            let greeted = serve_client_with_lifecycle(client, http(&server.transport)?, mode.clone());
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
    let greeted = serve_client_with_lifecycle(client, transport, mode.clone());
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

fn late(limit: Duration) -> String {
    format!("it did not answer in {} ms", limit.as_millis())
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

/// An error of the library in its own last words, without what only a reader of its code understands, and without the
/// address: it is in the configuration, and a part of it may be secret.
fn brief(error: &dyn std::error::Error) -> String {
    const WRAPPERS: [&str; 4] = ["Send message error", "Transport [", "Transport send error", "Client error"];

    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut words: Vec<String> = Vec::new();
    for mut text in chain.map(ToString::to_string) {
        while let Some(at) = text.find(" for url (") {
            let end = text[at..].find(')').map_or(text.len(), |end| at + end + 1);
            text.replace_range(at..end, "");
        }
        // A wrapper repeats what it wraps, behind words of its own.
        if let Some(wrapped) = WRAPPERS.iter().find_map(|wrapper| text.strip_prefix(wrapper)) {
            match wrapped.split_once("rror: ") {
                Some((_, inner)) => text = inner.trim_start_matches("Client error: ").to_owned(),
                None => continue,
            }
        }
        let text = text.split(", when send ").next().unwrap_or_default().trim().to_owned();
        if !text.is_empty() && !words.iter().any(|known| known.contains(&text)) {
            words.push(text);
        }
    }
    if words.iter().any(|text| text.starts_with("Auth required")) {
        return "it does not let offhook in (HTTP 401): bearer_token or headers".into();
    }
    words.join(": ")
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
    let McpTransport::Http { url, headers, bearer } = transport else { return Err("it is no endpoint".into()) };
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_MAX)
        // A redirect would take the token along.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| format!("the HTTP client cannot be set up: {error}"))?;
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
        let connection =
            Connection { peer: service.peer().clone(), gone: gone.clone(), places: Semaphore::new(CALLS_MAX) };
        let (connection, changed) = (Arc::new(connection), Arc::default());
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
        let peer = &self.connection.peer;
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
        let peer = self.connection.peer.peer_info()?;
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

impl Connection {
    /// All tools of the server, as far as they are understood; for the others, why not.
    ///
    /// # Errors
    /// It does not tell them.
    pub async fn tools(&self, limit: Duration) -> Result<(Vec<Offered>, Vec<String>), String> {
        timeout(limit, self.all_pages()).await.map_err(|_| late(limit))?
    }

    async fn all_pages(&self) -> Result<(Vec<Offered>, Vec<String>), String> {
        let (mut offered, mut odd) = (Vec::new(), Vec::new());
        let (mut cursor, mut bytes) = (None, 0);
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let page = self.peer.send_request(request).await;
            // As JSON: one entry that is not as it should be spoils no other.
            let page = raw(page.map_err(|error| format!("its tools are not known: {}", brief(&error)))?);
            let tools = page.get("tools").and_then(Value::as_array);
            for tool in tools.ok_or("its answer to tools/list has no list of tools")? {
                if offered.len() + odd.len() >= LISTED_MAX {
                    odd.push(format!("it has more than {LISTED_MAX} tools; the rest is left out"));
                    return Ok((offered, odd));
                }
                bytes += tool.to_string().len();
                if bytes > LIST_BYTES_MAX {
                    odd.push(format!("its tools are more than {LIST_BYTES_MAX} bytes of JSON; the rest is left out"));
                    return Ok((offered, odd));
                }
                match Offered::read(tool) {
                    Ok(tool) => offered.push(tool),
                    Err(why) => odd.push(why),
                }
            }
            cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() {
                return Ok((offered, odd));
            }
        }
        odd.push(format!("its list of tools has more than {PAGES_MAX} pages; the rest is left out"));
        Ok((offered, odd))
    }

    /// Whether it still answers.
    pub async fn answers(&self) -> bool {
        let ping = ClientRequest::PingRequest(PingRequest::default());
        let answer = timeout(PING_MAX, self.peer.send_request(ping)).await;
        // An error is an answer: some servers do not know the method.
        matches!(answer, Ok(Ok(_) | Err(ServiceError::McpError(_))))
    }

    /// Calls a tool; dropping the future tells the server that nobody waits any more. The JSON of its result.
    pub async fn call(&self, tool: &str, arguments: JsonObject, limit: Duration) -> Result<Value, CallFailure> {
        let Ok(_place) = self.places.try_acquire() else { return Err(CallFailure::Busy) };
        let asked = async {
            let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            let options = PeerRequestOptions::with_timeout(limit);
            let handle = self.peer.send_cancellable_request(request, options).await?;
            let mut forgotten = Forgotten { peer: self.peer.clone(), id: Some(handle.id.clone()) };
            let answer = handle.await_response().await;
            forgotten.id = None;
            answer
        };
        // The library's own limit begins once the request is on its way.
        let margin = limit + Duration::from_millis(25);
        tokio::select! {
            answer = timeout(margin, asked) => match answer {
                Ok(Ok(answer)) => whole(raw(answer)),
                Ok(Err(error)) => Err(failure(error)),
                Err(_) => Err(CallFailure::Timeout),
            },
            () = self.gone.cancelled() => Err(CallFailure::Gone),
        }
    }
}

/// The JSON of an answer; one of the wrong shape is for who reads results to refuse.
fn raw(answer: ServerResult) -> Value {
    serde_json::to_value(&answer).unwrap_or_default()
}

/// An answer that is not too long. The pump has seen to that already; the HTTP client takes more.
fn whole(answer: Value) -> Result<Value, CallFailure> {
    struct Bytes(usize);

    impl std::io::Write for Bytes {
        fn write(&mut self, written: &[u8]) -> std::io::Result<usize> {
            self.0 += written.len();
            Ok(written.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut bytes = Bytes(0);
    match serde_json::to_writer(&mut bytes, &answer) {
        Ok(()) if bytes.0 <= MESSAGE_BYTES_MAX => Ok(answer),
        _ => Err(CallFailure::Refused { code: pump::TOO_LONG, message: String::new() }),
    }
}

fn failure(error: ServiceError) -> CallFailure {
    match error {
        ServiceError::McpError(error) => {
            CallFailure::Refused { code: error.code.0, message: error.message.into_owned() }
        }
        ServiceError::Timeout { .. } => CallFailure::Timeout,
        ServiceError::TransportSend(error) if is_too_long(error.error.as_ref()) => {
            CallFailure::Refused { code: pump::TOO_LONG, message: String::new() }
        }
        ServiceError::TransportSend(_) | ServiceError::TransportClosed => CallFailure::Gone,
        other => CallFailure::Refused { code: 0, message: brief(&other) },
    }
}

/// Whether the HTTP client has stopped reading an answer.
fn is_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    matches!(error, Some(StreamableHttpError::ResponseBodyTooLarge { .. }))
}

/// Tells the server, when dropped, that nobody waits for the answer any more.
struct Forgotten {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Forgotten {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        tokio::spawn(async move {
            let why = "the telephone call went on without it".to_owned();
            let params = CancelledNotificationParam::new(Some(id), Some(why));
            // A server that is gone needs no news.
            let _ = timeout(CLOSE_MAX, peer.notify_cancelled(params)).await;
        });
    }
}
