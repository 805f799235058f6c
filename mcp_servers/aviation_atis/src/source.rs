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
            Some(folder) => self.in_folder(folder, icao),
            None => self.fetched(&self.copy(config.base_url(), icao)).await,
        }
    }

    fn in_folder(&self, folder: &Path, icao: &str) -> Result<Found, Missing> {
        let names = [format!("{icao}.metar"), format!("{icao}.txt")];
        let Some(name) = names.iter().find(|name| folder.join(name).is_file()) else { return Err(Missing::None) };
        let path = folder.join(name);
        let failed = |why: &dyn std::fmt::Display| {
            tracing::warn!("{} cannot be read: {why}", path.display());
            Missing::Failed(why.to_string())
        };
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

#[cfg(test)]
#[path = "../tests/upstream/mod.rs"]
mod upstream;

#[cfg(test)]
mod tests {
    use super::{upstream::Upstream, *};

    const FIRST: &str = "ENGM 201320Z 19012KT CAVOK 08/03 Q1013";
    const SECOND: &str = "ENGM 201350Z 20014KT CAVOK 08/03 Q1012";

    struct Stage {
        upstream: Upstream,
        source: Arc<Source>,
        config: Config,
    }

    impl Stage {
        async fn new(ttl: u32) -> Self {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let upstream = Upstream::start().await;
            let text = format!("base_url: {}\naerodromes: {{ENGM: {{name: Oslo}}}}", upstream.url);
            let setting = Setting {
                user_agent: Some("atis-test/1.0 ops@example.com".into()),
                now: "2026-11-20T14:40:00Z".parse().ok(),
                cache_ttl_seconds: ttl,
                ..Setting::default()
            };
            let source = Source::new(&setting).unwrap();
            Self { upstream, source, config: Config::parse(&text).unwrap() }
        }

        async fn latest(&self) -> Result<Found, Missing> {
            self.source.latest("ENGM", &self.config).await
        }

        async fn raw(&self) -> String {
            self.latest().await.unwrap().raw
        }

        /// Returns when no fetch is under way.
        async fn idle(&self) {
            let copy = self.source.copy(self.config.base_url(), "ENGM");
            drop(copy.fetching.lock().await);
        }
    }

    /// M26: a fresh report is fetched once; met.no is told who asks.
    #[tokio::test]
    async fn callers_at_one_time_and_within_the_ttl_share_one_fetch() {
        let stage = Stage::new(300).await;
        stage.upstream.reply("200 OK", FIRST).await;
        let (a, b, c) = tokio::join!(stage.raw(), stage.raw(), stage.raw());
        assert_eq!([a, b, c, stage.raw().await], [FIRST; 4]);
        let requests = stage.upstream.requests();
        assert_eq!(requests.len(), 1);
        assert!(requests[0].starts_with("GET /metar.txt?icao=ENGM HTTP/1.1\r\n"), "{requests:?}");
        assert!(requests[0].to_lowercase().contains("user-agent: atis-test/1.0 ops@example.com\r\n"), "{requests:?}");
    }

    /// M26: background refresh. The stand-in does not answer until the stale report has been served.
    #[tokio::test]
    async fn a_stale_report_is_answered_at_once_and_fetched_anew_behind() {
        let stage = Stage::new(0).await;
        stage.upstream.reply("200 OK", FIRST).await;
        assert_eq!(stage.raw().await, FIRST);
        assert_eq!([stage.raw().await, stage.raw().await], [FIRST; 2], "the fetch behind is still without an answer");
        stage.upstream.requested(2).await;
        assert_eq!(stage.upstream.requests().len(), 2, "one fetch at a time");
        stage.upstream.reply("200 OK", SECOND).await;
        stage.idle().await;
        assert_eq!(stage.raw().await, SECOND);
    }

    /// M26: the last good report is served with its age while met.no fails, and met.no is not asked at each call.
    #[tokio::test]
    async fn after_a_failure_the_last_report_is_served_with_its_age_and_the_next_try_waits() {
        let stage = Stage::new(0).await;
        stage.upstream.reply("200 OK", FIRST).await;
        assert_eq!(stage.latest().await.unwrap().warning, None);
        stage.upstream.reply("503 Service Unavailable", "").await;
        assert_eq!(stage.raw().await, FIRST);
        stage.upstream.requested(2).await;
        stage.idle().await;
        let found = stage.latest().await.unwrap();
        assert_eq!(found.raw, FIRST);
        let warning = "not fetched anew (status 503 Service Unavailable); the report is 80 minutes old";
        assert_eq!(found.warning.as_deref(), Some(warning));
        assert_eq!(stage.upstream.requests().len(), 2);
    }

    #[tokio::test]
    async fn a_first_fetch_that_fails_is_an_error_and_is_not_tried_again_at_once() {
        let stage = Stage::new(300).await;
        stage.upstream.reply("403 Forbidden", "").await;
        for _ in 0..3 {
            let Err(Missing::Failed(why)) = stage.latest().await else { panic!("served from nothing") };
            assert!(why.contains("METNO_USER_AGENT"), "{why}");
        }
        assert_eq!(stage.upstream.requests().len(), 1);
    }

    #[tokio::test]
    async fn an_unchanged_report_is_asked_for_by_its_date_and_kept() {
        let stage = Stage::new(0).await;
        let date = "Fri, 20 Nov 2026 13:25:00 GMT";
        stage.upstream.reply(&format!("200 OK\r\nLast-Modified: {date}"), FIRST).await;
        assert_eq!(stage.raw().await, FIRST);
        stage.upstream.reply("304 Not Modified", "").await;
        assert_eq!(stage.raw().await, FIRST);
        stage.upstream.requested(2).await;
        stage.idle().await;
        assert_eq!(stage.latest().await.unwrap().warning, None);
        let asked = &stage.upstream.requests()[1];
        assert!(asked.to_lowercase().contains(&format!("if-modified-since: {}\r\n", date.to_lowercase())), "{asked}");
    }

    #[tokio::test]
    async fn the_expiry_that_met_no_gives_is_kept_when_it_is_later_than_the_ttl() {
        let stage = Stage::new(0).await;
        let later = Timestamp::now() + jiff::SignedDuration::from_mins(20);
        let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&later).unwrap();
        stage.upstream.reply(&format!("200 OK\r\nExpires: {date}"), FIRST).await;
        assert_eq!([stage.raw().await, stage.raw().await], [FIRST; 2]);
        stage.idle().await;
        assert_eq!(stage.upstream.requests().len(), 1);
    }

    #[tokio::test]
    async fn an_answer_without_a_report_or_beyond_the_limit_is_no_report() {
        let stage = Stage::new(300).await;
        stage.upstream.reply("200 OK", "ENBR 201350Z CAVOK=").await;
        assert_eq!(stage.latest().await.unwrap_err(), Missing::None);
        let stage = Stage::new(300).await;
        stage.upstream.reply("200 OK", &"x".repeat(ANSWER_BYTES_MAX + 1)).await;
        let Err(Missing::Failed(why)) = stage.latest().await else { panic!("read without a limit") };
        assert!(why.contains("longer than"), "{why}");
    }

    #[tokio::test]
    async fn only_so_many_copies_are_kept() {
        let stage = Stage::new(300).await;
        let names = ('A'..='Z').flat_map(|a| ('A'..='Z').map(move |b| format!("EN{a}{b}")));
        for name in names {
            stage.source.copy("http://127.0.0.1", &name);
        }
        assert_eq!(stage.source.copies.lock().unwrap().len(), COPIES_MAX);
    }
}
