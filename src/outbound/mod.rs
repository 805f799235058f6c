//! What offhook sends to others than Asterisk and the providers: requests of declarative tools, mail
//! after the call ([`mail`]), questions to another gate ([`RemoteGate`]).
//!
//! Invariants of requests: no address is connected to that was not checked, unless the operator listed its host;
//! no redirect is followed; no answer takes more memory than 256 KiB and no call more time
//! than it was given, whatever the other side does; each call leaves one line in the journal, which
//! names the host and never a path, a query, a header or a body.

mod address;
mod answer;
mod counters;
mod journal;
pub mod mail;
mod remote_gate;
mod request;
mod resolve;

pub use address::is_listed;
#[cfg(any(test, fuzzing))]
pub use answer::fuzz;
pub use counters::{OutboundCounters, Outcome};
pub use remote_gate::RemoteGate;
#[cfg(any(test, fuzzing))]
pub use remote_gate::fuzz as fuzz_gate;

use crate::{
    remote::http,
    tool::{Fetch, FetchError, FetchRequest, FetchResponse},
    wall_clock,
};
use answer::{Again, Failure};
use futures_util::future::BoxFuture;
use journal::Entry;
use request::{Prepared, Unfit};
use reqwest::{Client, redirect, retry};
use resolve::{Lookup, PUBLIC_ONLY, Resolver, Rule, System};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};

/// An answer is read to be spoken about; D answer 22.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// Requests under way in the whole process; more wait, in the time they were given. A few per call
/// of a full engine, and far below the limit of file descriptors.
const REQUESTS_AT_ONCE: usize = 128;
/// Open connections kept for the next request to the same host.
const IDLE_PER_HOST: usize = 4;
const POOL_IDLE: Duration = Duration::from_secs(60);
/// A host that does not take a connection in this time is down; the attempt's own limit may be lower.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Lines in the head of an answer.
const ANSWER_HEADERS_MAX: usize = 100;
/// D answer 20.
const DELAY_MAX: Duration = Duration::from_secs(8);
/// Attempts after the first, whatever a definition says: with more, the last comes minutes later.
const RETRIES_MAX: u32 = 10;
/// No tool runs longer, whatever a definition says; also keeps sums of times in range.
const TIME_MAX: Duration = Duration::from_secs(300);

/// The client of all tools. Clones share connections.
#[derive(Clone)]
pub struct Outbound {
    inner: Arc<Inner>,
}

struct Inner {
    /// Connects only to public addresses.
    public: Client,
    /// For hosts on the operator's list. A client of its own, so that no connection that was made
    /// for a listed host is ever used for one that is not.
    listed: Client,
    rule: Rule,
    permits: Semaphore,
    counters: OutboundCounters,
}

/// The client cannot be made: no root certificates, as a rule.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client for tools cannot be set up: {0}")]
pub struct OutboundError(#[from] reqwest::Error);

/// A 2xx answer, read to its end.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: serde_json::Value,
    bytes: usize,
}

impl Outbound {
    /// No connection is made yet.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(counters: OutboundCounters) -> Result<Self, OutboundError> {
        Self::with(counters, Arc::new(System::new()), PUBLIC_ONLY)
    }

    fn with(counters: OutboundCounters, lookup: Arc<dyn Lookup>, rule: Rule) -> Result<Self, OutboundError> {
        let inner = Inner {
            public: client(Resolver::new(Arc::clone(&lookup), Some(rule)))?,
            listed: client(Resolver::new(lookup, None))?,
            rule,
            permits: Semaphore::new(REQUESTS_AT_ONCE),
            counters,
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

fn client(resolver: Resolver) -> Result<Client, OutboundError> {
    let client = http::builder()
        .dns_resolver(Arc::new(resolver))
        .redirect(redirect::Policy::none())
        // A proxy would resolve names itself, unchecked.
        .no_proxy()
        // Attempts are counted here.
        .retry(retry::never())
        .referer(false)
        .user_agent(concat!("offhook/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_MAX)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .pool_idle_timeout(POOL_IDLE)
        .http1_max_headers(ANSWER_HEADERS_MAX)
        .build()?;
    Ok(client)
}

impl Fetch for Outbound {
    fn fetch(&self, request: FetchRequest) -> BoxFuture<'static, Result<FetchResponse, FetchError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let mut entry = Entry::new(&inner.counters, &request);
            let result = match request::prepare(&request, inner.rule) {
                Ok(prepared) => {
                    entry.host = prepared.host().to_owned();
                    inner.attempts(&request, &prepared, &mut entry.attempts).await
                }
                Err(Unfit::Invalid(why)) => Err(Failure::of(Outcome::Invalid, why)),
                Err(Unfit::Blocked { host }) => {
                    entry.host = host;
                    Err(Failure::blocked())
                }
            };
            let attempts = entry.attempts;
            match &result {
                Ok(answer) => {
                    entry.outcome = Outcome::Ok;
                    entry.status = Some(answer.status);
                    entry.bytes = answer.bytes;
                }
                Err(failure) => {
                    entry.outcome = failure.outcome;
                    entry.status = failure.status;
                }
            }
            drop(entry);
            match result {
                Ok(Answer { status, headers, body, .. }) => Ok(FetchResponse { status, headers, body, attempts }),
                Err(Failure { outcome, message, status, .. }) => {
                    Err(FetchError { kind: outcome.kind(), message: message.into(), status, attempts })
                }
            }
        })
    }
}

impl Inner {
    /// D answers 20 and 21: the first attempt and those after it, until one is final.
    async fn attempts(
        &self,
        request: &FetchRequest,
        prepared: &Prepared,
        attempts: &mut u32,
    ) -> Result<Answer, Failure> {
        let end = Instant::now() + request.time_left.min(TIME_MAX);
        let retries = if prepared.repeatable { request.retries.min(RETRIES_MAX) } else { 0 };
        let Ok(Ok(_permit)) = timeout_at(end, self.permits.acquire()).await else {
            tracing::warn!(limit = REQUESTS_AT_ONCE, "too many requests of tools at once; one ran out of time waiting");
            return Err(Failure::of(Outcome::Transient, "Too many requests are under way."));
        };
        loop {
            *attempts += 1;
            let limit = end.min(Instant::now() + request.timeout.min(TIME_MAX));
            let failure = match timeout_at(limit, self.attempt(prepared)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::timeout(),
            };
            let tried = *attempts - 1;
            let Some(delay) = delay(failure.again, request.retry_delay, tried) else { return Err(failure) };
            // Waiting for an attempt that has no time left would only keep the caller waiting.
            if tried >= retries || Instant::now() + delay >= end {
                return Err(failure);
            }
            sleep(delay).await;
        }
    }

    async fn attempt(&self, prepared: &Prepared) -> Result<Answer, Failure> {
        let client = if prepared.listed { &self.listed } else { &self.public };
        let mut request =
            client.request(prepared.method.clone(), prepared.url.clone()).headers(prepared.headers.clone());
        if let Some(body) = &prepared.body {
            request = request.body(body.clone());
        }
        let mut answer = request.send().await.map_err(|error| Failure::connection(&error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(Failure::status(status, answer.headers(), wall_clock::now()));
        }
        let body = answer::body(&mut answer, BODY_BYTES_MAX).await?;
        let headers = answer.headers();
        Ok(Answer {
            status: status.as_u16(),
            headers: answer::kept(headers),
            body: answer::value(headers, &body),
            bytes: body.len(),
        })
    }
}

/// D answer 20: how long to wait before the next attempt; `None` when there is none.
fn delay(again: Again, first: Duration, tried: u32) -> Option<Duration> {
    let delay = match again {
        Again::No => return None,
        Again::Backoff => first.saturating_mul(2_u32.saturating_pow(tried)),
        Again::After(delay) => delay,
    };
    Some(delay.min(DELAY_MAX))
}

#[cfg(test)]
mod tests;
