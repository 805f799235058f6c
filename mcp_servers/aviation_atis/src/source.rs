//! Where reports come from: met.no, with a cache that never lets one call wait for another's fetch, or a folder.
//!
//! A report is fresh for the configured time (or until met.no's `Expires`); for an hour it is answered at once and
//! fetched anew behind the answer; older, or never fetched, the call waits for the fetch. One fetch per aerodrome at a
//! time. After a failure the last report is served with a warning, and the next try waits longer each time.

use crate::{
    config::{Config, Setting, is_icao},
    report,
};
use jiff::Timestamp;
use reqwest::{
    StatusCode,
    header::{EXPIRES, HeaderValue, IF_MODIFIED_SINCE, LAST_MODIFIED, RETRY_AFTER},
};
use std::{
    collections::HashMap,
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::OwnedMutexGuard, task::JoinHandle, time::Instant};

/// Less than the ten seconds that a client gives a tool by default.
const FETCH_MAX: Duration = Duration::from_secs(8);
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// A day of one aerodrome is some ten kilobytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Answered at once up to this age of the copy.
const STALE_MAX: Duration = Duration::from_secs(3600);
const RETRY_FIRST: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(300);
/// Only `allow_any` lets callers choose names; the least used copy goes first.
const COPIES_MAX: usize = 256;

/// One report as it was sent, with what to know about it.
#[derive(Debug)]
pub struct Found {
    pub raw: String,
    pub source: String,
    /// Set when it could not be fetched anew.
    pub warning: Option<String>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Missing {
    /// The source answered, and has none.
    #[error("there is no report")]
    None,
    #[error("{0}")]
    Failed(String),
}

pub struct Source {
    client: reqwest::Client,
    ttl: Duration,
    now: Option<Timestamp>,
    copies: Mutex<HashMap<(String, String), Arc<Copy>>>,
}

/// What is known of one aerodrome at one address.
struct Copy {
    url: String,
    icao: String,
    state: Mutex<State>,
    /// Held by the one who fetches.
    fetching: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct State {
    used: Option<Instant>,
    good: Option<Good>,
    failed: Option<Failure>,
}

struct Good {
    raw: Option<String>,
    checked: Instant,
    fresh_until: Instant,
    last_modified: Option<HeaderValue>,
}

struct Failure {
    why: String,
    times: u32,
    retry_at: Instant,
}

impl Source {
    /// # Errors
    /// A `User-Agent` that no header can hold.
    pub fn new(setting: &Setting) -> Result<Arc<Self>, String> {
        let mut builder = reqwest::Client::builder().connect_timeout(CONNECT_MAX).timeout(FETCH_MAX);
        if let Some(name) = &setting.user_agent {
            builder = builder.user_agent(name);
        }
        let client = builder.build().map_err(|error| format!("METNO_USER_AGENT cannot be used: {error}"))?;
        let ttl = Duration::from_secs(setting.cache_ttl_seconds.into());
        Ok(Arc::new(Self { client, ttl, now: setting.now, copies: Mutex::default() }))
    }

    pub fn now(&self) -> Timestamp {
        self.now.unwrap_or_else(Timestamp::now)
    }

    /// The newest report of an aerodrome.
    ///
    /// # Errors
    /// When there is none, or none could be had.
    pub async fn latest(self: &Arc<Self>, icao: &str, config: &Config) -> Result<Found, Missing> {
        // The name goes into a path and an address.
        if !is_icao(icao) {
            return Err(Missing::None);
        }
        match &config.offline {
            Some(folder) => self.from_folder(folder, icao),
            None => self.fetched(&self.copy(config.base_url(), icao)).await,
        }
    }

    fn from_folder(&self, folder: &Path, icao: &str) -> Result<Found, Missing> {
        let names = [format!("{icao}.metar"), format!("{icao}.txt")];
        let Some(name) = names.iter().find(|name| folder.join(name).is_file()) else { return Err(Missing::None) };
        let path = folder.join(name);
        let failed = |why: &dyn std::fmt::Display| Missing::Failed(format!("{name} cannot be read: {why}"));
        if fs::metadata(&path).map_err(|error| failed(&error))?.len() > ANSWER_BYTES_MAX as u64 {
            return Err(failed(&"it is too long"));
        }
        let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
        let raw = report::newest(&text, icao, self.now()).ok_or(Missing::None)?;
        Ok(Found { raw, source: format!("file {name}"), warning: None })
    }

    fn copy(&self, base_url: &str, icao: &str) -> Arc<Copy> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if copies.len() >= COPIES_MAX {
            let oldest = copies.iter().min_by_key(|(_, copy)| copy.state().used).map(|(key, _)| key.clone());
            oldest.and_then(|key| copies.remove(&key));
        }
        let key = (base_url.to_owned(), icao.to_owned());
        let copy = copies.entry(key).or_insert_with(|| {
            let url = format!("{base_url}/metar.txt?icao={icao}");
            Arc::new(Copy { url, icao: icao.to_owned(), state: Mutex::default(), fetching: Arc::default() })
        });
        copy.state().used = Some(Instant::now());
        copy.clone()
    }

    async fn fetched(self: &Arc<Self>, copy: &Arc<Copy>) -> Result<Found, Missing> {
        // No guard may live across a wait.
        let step = copy.state().step();
        match step {
            Step::Answer => {}
            Step::AnswerAndRefresh => {
                // Who holds the lock is fetching already.
                if let Ok(only) = copy.fetching.clone().try_lock_owned() {
                    drop(self.refresh(copy, only));
                }
            }
            Step::Fetch => {
                let only = copy.fetching.clone().lock_owned().await;
                // Whoever had the lock before may have brought it, or failed.
                let still = matches!(copy.state().step(), Step::Fetch);
                if still {
                    // A task of its own: a caller who hangs up does not lose the fetch for the others.
                    let _ = self.refresh(copy, only).await;
                }
            }
        }
        copy.state().answer(self.now())
    }

    fn refresh(self: &Arc<Self>, copy: &Arc<Copy>, only: OwnedMutexGuard<()>) -> JoinHandle<()> {
        let (source, copy) = (self.clone(), copy.clone());
        tokio::spawn(async move {
            let last_modified = copy.state().good.as_ref().and_then(|good| good.last_modified.clone());
            let result = source.fetch(&copy, last_modified).await;
            copy.state().keep(&copy.icao, result);
            drop(only);
        })
    }

    async fn fetch(&self, copy: &Copy, last_modified: Option<HeaderValue>) -> Result<Fresh, Trouble> {
        let mut request = self.client.get(&copy.url);
        if let Some(date) = last_modified {
            request = request.header(IF_MODIFIED_SINCE, date);
        }
        let mut answer = request.send().await.map_err(|error| Trouble::from(told(&error)))?;
        let now = Instant::now();
        let fresh_until = now + self.ttl.max(until_expiry(&answer)).min(STALE_MAX);
        let last_modified = answer.headers().get(LAST_MODIFIED).cloned();
        let raw = match answer.status() {
            StatusCode::NOT_MODIFIED => return Ok(Fresh::Unchanged { fresh_until }),
            StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => None,
            status if status.is_success() => {
                let mut body = Vec::new();
                while let Some(part) = answer.chunk().await.map_err(|error| Trouble::from(told(&error)))? {
                    if body.len() + part.len() > ANSWER_BYTES_MAX {
                        return Err(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes").into());
                    }
                    body.extend_from_slice(&part);
                }
                report::newest(&String::from_utf8_lossy(&body), &copy.icao, self.now())
            }
            StatusCode::FORBIDDEN => {
                return Err("403: met.no refuses METNO_USER_AGENT; it has to name the application and a contact".into());
            }
            status => {
                let wait = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                return Err(Trouble { why: format!("status {status}"), wait: wait.map(Duration::from_secs) });
            }
        };
        Ok(Fresh::New { raw, fresh_until, last_modified })
    }
}

/// The kind of a failure, without the address.
fn told(error: &reqwest::Error) -> String {
    match error {
        error if error.is_timeout() => format!("no answer within {} seconds", FETCH_MAX.as_secs()),
        error if error.is_connect() => "no connection".into(),
        _ => "the answer broke off".into(),
    }
}

/// How long met.no asks to wait before the next request.
fn until_expiry(answer: &reqwest::Response) -> Duration {
    let date = answer.headers().get(EXPIRES).and_then(|value| value.to_str().ok());
    let at = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|at| at.timestamp());
    at.and_then(|at| Duration::try_from(at.duration_since(Timestamp::now())).ok()).unwrap_or_default()
}

enum Fresh {
    Unchanged { fresh_until: Instant },
    New { raw: Option<String>, fresh_until: Instant, last_modified: Option<HeaderValue> },
}

struct Trouble {
    why: String,
    /// What the server asks for.
    wait: Option<Duration>,
}

impl<T: Into<String>> From<T> for Trouble {
    fn from(why: T) -> Self {
        Self { why: why.into(), wait: None }
    }
}

enum Step {
    Answer,
    AnswerAndRefresh,
    Fetch,
}

impl Copy {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn step(&self) -> Step {
        let now = Instant::now();
        let waits = self.failed.as_ref().is_some_and(|failure| now < failure.retry_at);
        match &self.good {
            _ if waits => Step::Answer,
            Some(good) if now < good.fresh_until => Step::Answer,
            Some(good) if now < good.checked + STALE_MAX => Step::AnswerAndRefresh,
            _ => Step::Fetch,
        }
    }

    fn keep(&mut self, icao: &str, result: Result<Fresh, Trouble>) {
        let checked = Instant::now();
        let trouble = match result {
            Ok(Fresh::New { raw, fresh_until, last_modified }) => {
                self.good = Some(Good { raw, checked, fresh_until, last_modified });
                None
            }
            Ok(Fresh::Unchanged { fresh_until }) => match &mut self.good {
                Some(good) => {
                    (good.checked, good.fresh_until) = (checked, fresh_until);
                    None
                }
                None => Some("status 304 without a condition".into()),
            },
            Err(trouble) => Some(trouble),
        };
        let Some(Trouble { why, wait }) = trouble else {
            if self.failed.take().is_some() {
                tracing::info!(icao, "reports can be fetched again");
            }
            return;
        };
        let times = self.failed.as_ref().map_or(0, |failure| failure.times);
        let backoff = RETRY_FIRST.saturating_mul(1 << times.min(10));
        let wait = wait.unwrap_or_default().max(backoff).min(RETRY_MAX);
        tracing::warn!(icao, why, retry_in_seconds = wait.as_secs(), "the report was not fetched");
        self.failed = Some(Failure { why, times: times + 1, retry_at: checked + wait });
    }

    fn answer(&self, now: Timestamp) -> Result<Found, Missing> {
        let raw = match (&self.good, &self.failed) {
            (Some(Good { raw: Some(raw), .. }), _) => raw,
            (_, Some(failure)) => return Err(Missing::Failed(failure.why.clone())),
            (..) => return Err(Missing::None),
        };
        let warning = self.failed.as_ref().map(|failure| {
            let minutes = report::age_minutes(raw, now).unwrap_or_default();
            format!("not fetched anew ({}); the report is {minutes} minutes old", failure.why)
        });
        Ok(Found { raw: raw.clone(), source: "MET Norway, api.met.no (CC BY 4.0)".into(), warning })
    }
}
