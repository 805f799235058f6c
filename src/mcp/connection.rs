//! What is asked of a server that is up.

use super::{CALLS_MAX, MESSAGE_BYTES_MAX, TOOLS_MAX, pump};
use crate::tool::mcp::Offered;
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, JsonObject,
        ListToolsRequest, PaginatedRequestParams, PingRequest, RequestId, ServerResult,
    },
    service::{Peer, PeerRequestOptions, ServiceError},
    transport::streamable_http_client::StreamableHttpError,
};
use serde_json::Value;
use std::time::Duration;
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;

/// Pages of a list of tools; a server whose list never ends is cut off.
const PAGES_MAX: usize = 64;
/// Entries that are read of a list, whether they can be used or not; what is beyond those is not even looked at.
const LISTED_MAX: usize = 8 * TOOLS_MAX;
/// JSON of all entries together, which is kept as long as the server is configured.
const LIST_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// A server that stands answers a ping in this time. Many do one thing after the other, and a tool may take long.
const PING_MAX: Duration = Duration::from_secs(15);
/// For the news that nobody waits any more.
const NEWS_MAX: Duration = Duration::from_secs(2);

/// What calls use of a connection.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    /// The server went away: nothing that was asked will be answered.
    gone: CancellationToken,
    places: Semaphore,
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
    /// It does not let offhook in (any more).
    Unauthorized,
    /// Too many calls are under way.
    Busy,
}

impl Connection {
    /// `gone`: the server went away.
    pub fn new(peer: Peer<RoleClient>, gone: CancellationToken) -> Self {
        Self { peer, gone, places: Semaphore::new(CALLS_MAX) }
    }

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
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
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
            let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if next.is_some() && next == cursor {
                odd.push("its list of tools gives the same page again and again; it is read once".into());
                return Ok((offered, odd));
            }
            cursor = next;
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

pub(super) fn late(limit: Duration) -> String {
    format!("it did not answer in {} ms", limit.as_millis())
}

/// Message about a server that answers 401 or 403.
pub(super) const UNAUTHORIZED: &str = "it does not let offhook in (HTTP 401 or 403): bearer_token or headers";

/// An error of the library in its own last words, without what only a reader of its code understands, and without the
/// address: it is in the configuration, and a part of it may be secret.
pub(super) fn brief(error: &dyn std::error::Error) -> String {
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
                None => match wrapped.strip_prefix(": ") {
                    Some(inner) => text = inner.to_owned(),
                    None => continue,
                },
            }
        }
        let text = text.split(", when send ").next().unwrap_or_default().trim().to_owned();
        if !text.is_empty() && !words.iter().any(|known| known.contains(&text)) {
            words.push(text);
        }
    }
    if words.iter().any(|text| text.starts_with("Auth required")) {
        return UNAUTHORIZED.into();
    }
    words.join(": ")
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
        ServiceError::TransportSend(error) if is_unauthorized(error.error.as_ref()) => CallFailure::Unauthorized,
        ServiceError::TransportSend(_) | ServiceError::TransportClosed => CallFailure::Gone,
        other => CallFailure::Refused { code: 0, message: brief(&other) },
    }
}

/// Whether the HTTP client has stopped reading an answer.
fn is_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    matches!(error, Some(StreamableHttpError::ResponseBodyTooLarge { .. }))
}

fn is_unauthorized(error: &(dyn std::error::Error + 'static)) -> bool {
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) => true,
        // A server that does not say which kind of authorization it wants.
        Some(StreamableHttpError::UnexpectedServerResponse(told)) => {
            ["HTTP 401", "HTTP 403"].iter().any(|status| told.starts_with(status))
        }
        _ => false,
    }
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
            let _ = timeout(NEWS_MAX, peer.notify_cancelled(params)).await;
        });
    }
}
