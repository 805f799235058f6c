//! ARI's REST side: requests that steer channels and bridges.
//!
//! Invariants: the password travels in a header and nowhere else; every request ends within
//! [`REQUEST_MAX`]; an error says whether something may have happened.
//!
//! Source: <https://docs.asterisk.org/Latest_API/API_Documentation/Asterisk_REST_Interface/>.

mod counters;
mod error;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod identities;
mod names;
mod operations;

pub use counters::AriCounters;
pub(crate) use counters::{Orphan, Queue};
pub(crate) use error::not_opened;
pub use error::{AriError, Fault, Operation};
#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz;
pub use identities::Identities;
pub use names::{DialledLeg, Names};
pub use operations::{
    About, Application, BridgeInfo, ChannelInfo, MediaChannel, MediaWire, Originate, PRESENTATION, RtpPackets,
};

use crate::{config::AsteriskConfig, remote::http};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use reqwest::{
    Method, StatusCode, Url,
    header::{AUTHORIZATION, DATE, HeaderMap, HeaderValue},
};
use secrecy::ExposeSecret;
use serde_json::Value;
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

/// A TCP (and TLS) connection on a local network takes milliseconds; two seconds allow one lost
/// SYN.
pub const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Asterisk answers in about a millisecond. A request that waits for seconds waits for a channel
/// whose lock is held, and no caller should wait for that.
pub const REQUEST_MAX: Duration = Duration::from_secs(5);
/// Asterisk closes idle connections after 15 s; ours must go first, or requests race with the
/// close.
const POOL_IDLE: Duration = Duration::from_secs(10);
/// Each connection counts against `sessionlimit` in `http.conf`, 100 by default, which the events
/// socket and everybody else share.
const REQUESTS_AT_ONCE: usize = 40;
/// A list of a thousand channels is about 700 kB.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Of Asterisk's own words about a refusal, as much as fits a log line.
const MESSAGE_CHARS_MAX: usize = 200;

/// Speaks to one Asterisk for one Stasis application. Clones share connections and limits.
#[derive(Clone)]
pub struct AriClient {
    inner: Arc<Inner>,
}

struct Inner {
    http: reqwest::Client,
    base: Url,
    authorization: HeaderValue,
    names: Names,
    counters: AriCounters,
    permits: Semaphore,
    /// Clean-ups that outlive the future that began them.
    cleanups: TaskTracker,
    /// Something that was to go may still be there.
    untidy: Notify,
}

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AriConfigError {
    #[error("asterisk.url is not an http:// or https:// address")]
    Url,
    #[error("asterisk.username or asterisk.password cannot be written as a header")]
    Credentials,
    #[error("no HTTP client: {0}")]
    Client(String),
}

impl fmt::Debug for AriClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AriClient").field("names", &self.inner.names).finish_non_exhaustive()
    }
}

impl AriClient {
    /// No connection is made yet.
    ///
    /// # Errors
    /// When the address or the credentials cannot be used at all.
    pub fn new(config: &AsteriskConfig, counters: AriCounters) -> Result<Self, AriConfigError> {
        let mut base = Url::parse(&config.url).map_err(|_| AriConfigError::Url)?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(AriConfigError::Url);
        }
        // Credentials in the address would show up wherever the address does.
        base.set_username("").and_then(|()| base.set_password(None)).map_err(|()| AriConfigError::Url)?;
        base.set_query(None);
        base.set_fragment(None);

        let login = format!("{}:{}", config.username, config.password.expose_secret());
        let basic = format!("Basic {}", BASE64_STANDARD.encode(login));
        let mut authorization = HeaderValue::from_str(&basic).map_err(|_| AriConfigError::Credentials)?;
        authorization.set_sensitive(true);

        let client = http::builder()
            .connect_timeout(CONNECT_MAX)
            .timeout(REQUEST_MAX)
            .pool_idle_timeout(POOL_IDLE)
            .redirect(reqwest::redirect::Policy::none())
            // Asterisk stands beside us; a proxy set for the rest of the machine is not for it.
            .no_proxy()
            .build()
            .map_err(|error| AriConfigError::Client(cause(error)))?;
        let inner = Inner {
            http: client,
            base,
            authorization,
            names: Names::new(&config.app),
            counters,
            permits: Semaphore::new(REQUESTS_AT_ONCE),
            cleanups: TaskTracker::new(),
            untidy: Notify::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub fn names(&self) -> &Names {
        &self.inner.names
    }

    pub fn counters(&self) -> &AriCounters {
        &self.inner.counters
    }

    /// Waits for clean-ups that run on after the future that began them was dropped: `false` when
    /// some still ran at the end of `within`. For the engine's own end.
    pub async fn settled(&self, within: Duration) -> bool {
        self.inner.cleanups.close();
        tokio::time::timeout(within, self.inner.cleanups.wait()).await.is_ok()
    }

    /// Comes when something could not be removed, or nobody knows whether it was.
    pub(super) async fn untidied(&self) {
        self.inner.untidy.notified().await;
    }

    pub(super) fn untidy(&self) {
        self.inner.untidy.notify_one();
    }

    pub(super) fn cleanups(&self) -> &TaskTracker {
        &self.inner.cleanups
    }

    /// The address of the events socket and the header that opens it.
    pub(super) fn events_endpoint(&self) -> (Url, HeaderValue) {
        let mut url = self.socket(&["ari", "events"]);
        url.query_pairs_mut().append_pair("app", self.inner.names.app()).append_pair("subscribeAll", "false");
        (url, self.inner.authorization.clone())
    }

    /// Where the audio of a media channel by WebSocket is, by the id that Asterisk gave the connection: beside `/ari`, at the
    /// same server. The id is all that opens it.
    pub(super) fn media_endpoint(&self, connection: &str) -> Url {
        self.socket(&["media", connection])
    }

    fn socket(&self, path: &[&str]) -> Url {
        let mut url = self.at(path);
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        url.set_scheme(scheme).expect("http and ws are both special schemes, so either may become the other");
        url
    }

    fn url(&self, path: &[&str]) -> Url {
        let channel;
        let mut path = [&["ari"][..], path].concat();
        if let ["ari", "channels", id, ..] = &mut path[..] {
            channel = self.names().identities().channel_of(id);
            *id = &channel;
        }
        self.at(&path)
    }

    fn at(&self, path: &[&str]) -> Url {
        let mut url = self.inner.base.clone();
        // `push` encodes: an id cannot leave its place in the path.
        url.path_segments_mut().expect("`new` refuses addresses that cannot be a base").pop_if_empty().extend(path);
        url
    }

    /// Sends one request and returns the body of its 2xx answer.
    async fn request(&self, operation: Operation, request: Request<'_>) -> Result<Bytes, AriError> {
        self.answer_to(operation, request).await.map(|answer| answer.body)
    }

    async fn answer_to(&self, operation: Operation, request: Request<'_>) -> Result<Answer, AriError> {
        self.inner.counters.requests.with_label_values(&[operation.label()]).inc();
        let answer = self.attempt_twice(operation, request).await;
        if let Err(fault) = &answer
            && !(operation.expects_missing() && *fault == Fault::NotFound)
        {
            self.inner.counters.requests_failed.with_label_values(&[operation.label()]).inc();
        }
        answer.map_err(|fault| AriError { operation, fault })
    }

    async fn attempt_twice(&self, operation: Operation, request: Request<'_>) -> Result<Answer, Fault> {
        let permit = self.inner.permits.acquire().await;
        let _permit = permit.expect("the semaphore is never closed");
        match self.attempt(&request).await {
            // Most likely a pooled connection that Asterisk was closing as we wrote.
            Err(Attempt::BrokenOff(_)) if operation.repeatable() => {}
            first => return first.map_err(Fault::from),
        }
        match self.attempt(&request).await.map_err(Fault::from) {
            // Made by the first attempt, whose answer was lost.
            Err(Fault::Conflict { status: 409, .. }) if operation == Operation::CreateBridge => Ok(Answer::default()),
            second => second,
        }
    }

    /// Body of a request, with the current channel in place of each id that it names.
    fn about_channels_of(&self, mut body: Value) -> Value {
        let channel_of = |id: &mut Value| {
            if let Some(channel) = id.as_str().map(|id| self.names().identities().channel_of(id).into_owned()) {
                *id = channel.into();
            }
        };
        body.get_mut("channel").and_then(Value::as_array_mut).into_iter().flatten().for_each(channel_of);
        body.get_mut("originator").into_iter().for_each(channel_of);
        body
    }

    async fn attempt(&self, request: &Request<'_>) -> Result<Answer, Attempt> {
        let inner = &*self.inner;
        let mut builder = inner
            .http
            .request(request.method.clone(), self.url(request.path))
            .header(AUTHORIZATION, inner.authorization.clone());
        if !request.query.is_empty() {
            builder = builder.query(request.query);
        }
        if let Some(body) = &request.body {
            builder = builder.json(&self.about_channels_of(body.clone()));
        }
        let mut response = builder.send().await.map_err(Attempt::of)?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(Attempt::of)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Attempt::Failed(Fault::Unreadable("longer than 8 MiB".into())));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            Ok(Answer { headers, body: body.freeze() })
        } else {
            Err(Attempt::Failed(refusal(status, &body)))
        }
    }
}

/// A 2xx answer.
#[derive(Default)]
struct Answer {
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    /// When Asterisk says that it was sent.
    fn date(&self) -> Option<Timestamp> {
        let date = self.headers.get(DATE)?.to_str().ok()?;
        jiff::fmt::rfc2822::parse(date).ok().map(|date| date.timestamp())
    }
}

struct Request<'a> {
    method: Method,
    path: &'a [&'a str],
    query: &'a [(&'a str, &'a str)],
    body: Option<Value>,
}

impl<'a> Request<'a> {
    fn new(method: Method, path: &'a [&'a str]) -> Self {
        Self { method, path, query: &[], body: None }
    }

    fn get(path: &'a [&'a str]) -> Self {
        Self::new(Method::GET, path)
    }

    fn post(path: &'a [&'a str]) -> Self {
        Self::new(Method::POST, path)
    }

    fn delete(path: &'a [&'a str]) -> Self {
        Self::new(Method::DELETE, path)
    }

    fn query(mut self, query: &'a [(&'a str, &'a str)]) -> Self {
        self.query = query;
        self
    }

    fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}

/// How one attempt ended when not with a 2xx answer.
enum Attempt {
    /// The connection ended under the request; trying again may help.
    BrokenOff(String),
    Failed(Fault),
}

impl Attempt {
    fn of(error: reqwest::Error) -> Self {
        if is_untrusted(&error) {
            Self::Failed(Fault::Untrusted(cause(error)))
        } else if error.is_connect() || error.is_builder() {
            Self::Failed(Fault::Unreachable(cause(error)))
        } else if error.is_timeout() {
            Self::Failed(Fault::OutcomeUnknown("timed out".into()))
        } else {
            Self::BrokenOff(format!("{}: {}", cause(error), error::SESSION_LIMIT))
        }
    }
}

impl From<Attempt> for Fault {
    fn from(attempt: Attempt) -> Self {
        match attempt {
            Attempt::BrokenOff(cause) => Self::OutcomeUnknown(cause),
            Attempt::Failed(fault) => fault,
        }
    }
}

fn refusal(status: StatusCode, body: &[u8]) -> Fault {
    let message = || {
        let said = serde_json::from_slice::<Value>(body).ok();
        let said = said.as_ref().and_then(|body| body.get("message").or_else(|| body.get("error"))?.as_str());
        said.unwrap_or("no reason given").chars().take(MESSAGE_CHARS_MAX).collect()
    };
    match status.as_u16() {
        401 | 403 => Fault::Unauthorized,
        404 => Fault::NotFound,
        status @ (409 | 422) => Fault::Conflict { status, message: message() },
        status => Fault::Refused { status, message: message() },
    }
}

/// Whether this came of a certificate that could not be verified. An I/O error hides what it wraps
/// from `source`.
pub(super) fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
        return true;
    }
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let wrapped = wrapped.map(|error| error as &(dyn std::error::Error + 'static));
    wrapped.or_else(|| error.source()).is_some_and(is_untrusted)
}

/// The innermost reason, without the address: that is known, and may hold ids of callers.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
