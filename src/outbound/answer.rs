//! What came back: the body within its limit, or why there is none and whether to try again.

use super::{counters::Outcome, resolve::Blocked};
use jiff::{Timestamp, fmt::rfc2822};
use reqwest::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER, SET_COOKIE},
};
use serde_json::Value;
use std::{error::Error, time::Duration};

/// What of an answer's headers is kept for the tool; longer ones are left out whole.
const HEADER_BYTES_MAX: usize = 8 * 1024;

/// An attempt that brought no usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub outcome: Outcome,
    /// For the model and the log: no address, no path, nothing of what the service said.
    pub message: &'static str,
    pub status: Option<u16>,
    pub again: Again,
}

/// Whether the same request may work later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    No,
    Backoff,
    /// The service said when.
    After(Duration),
}

impl Failure {
    pub(super) fn of(outcome: Outcome, message: &'static str) -> Self {
        let again = if outcome == Outcome::Transient { Again::Backoff } else { Again::No };
        Self { outcome, message, status: None, again }
    }

    pub(super) fn timeout() -> Self {
        Self::of(Outcome::Transient, "The service did not answer in time.")
    }

    pub(super) fn blocked() -> Self {
        Self::of(Outcome::Blocked, "The service's address may not be reached from here.")
    }

    /// No answer at all, or one that broke off.
    pub(super) fn connection(error: &reqwest::Error) -> Self {
        if holds(error, &|error| error.is::<Blocked>()) {
            return Self::blocked();
        }
        if holds(error, &|error| matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))) {
            return Self::of(Outcome::Permanent, "The service's certificate cannot be verified.");
        }
        Self::of(Outcome::Transient, "The service could not be reached, or broke the connection off.")
    }

    /// D answers 20, 22 and 24: what a status that is not 2xx means.
    pub(super) fn status(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Self {
        let (outcome, message) = match status.as_u16() {
            300..=399 => (Outcome::Redirect, "The service answered with a redirect; redirects are not followed."),
            401 | 403 => (Outcome::Auth, "The service did not accept the credentials."),
            404 | 410 => (Outcome::Permanent, "The service does not know what was asked for."),
            408 | 425 => (Outcome::Transient, "The service asks to try again later."),
            409 => (Outcome::Conflict, "The service reported a conflict."),
            429 => (Outcome::RateLimit, "The service had too many requests."),
            400..=499 => (Outcome::Permanent, "The service refused the request."),
            _ => (Outcome::Transient, "The service failed."),
        };
        let mut failure = Self { status: Some(status.as_u16()), ..Self::of(outcome, message) };
        if outcome == Outcome::RateLimit {
            failure.again = retry_after(headers, now).map_or(Again::Backoff, Again::After);
        }
        failure
    }
}

/// Seconds, or a date (RFC 9110, 10.2.3).
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// Whether this error or one it came of is what is looked for. An I/O error hides what it wraps from
/// `source`.
fn holds(error: &(dyn Error + 'static), wanted: &dyn Fn(&(dyn Error + 'static)) -> bool) -> bool {
    if wanted(error) {
        return true;
    }
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let wrapped = wrapped.map(|error| error as &(dyn Error + 'static));
    wrapped.or_else(|| error.source()).is_some_and(|error| holds(error, wanted))
}

/// Reads a body of at most `max` bytes.
pub(super) async fn body(answer: &mut Response, max: usize) -> Result<Vec<u8>, Failure> {
    let too_large = || Failure {
        status: Some(answer.status().as_u16()),
        ..Failure::of(Outcome::TooLarge, "The service's answer is too long.")
    };
    if answer.content_length().is_some_and(|announced| announced > max as u64) {
        return Err(too_large());
    }
    let too_large = too_large();
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| Failure::connection(&error))? {
        if body.len() + piece.len() > max {
            return Err(too_large);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// JSON when the content type says so. A body that says so and is none is given as text: the request
/// has worked, and to tell the caller otherwise would have it made twice.
pub(super) fn value(headers: &HeaderMap, body: &[u8]) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind == "application/json" || kind == "text/json" || kind.ends_with("+json") {
        match serde_json::from_slice(body) {
            Ok(value) => return value,
            Err(_) => tracing::warn!("a service says that its answer is JSON, and it is not; it is taken as text"),
        }
    }
    Value::String(String::from_utf8_lossy(body).into_owned())
}

/// Names in lower case, of repeated ones the last. Cookies are credentials of the service's and stay out.
pub(super) fn kept(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut room = HEADER_BYTES_MAX;
    let mut kept = Vec::new();
    for name in headers.keys().filter(|name| **name != SET_COOKIE) {
        let Some(value) = headers.get_all(name).iter().next_back() else { continue };
        let size = name.as_str().len() + value.len();
        if size > room {
            tracing::debug!("an answer's headers are too long; some are left out");
            continue;
        }
        room -= size;
        kept.push((name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    }
    kept
}

/// Any answer: the first line stands for `Retry-After`, the second for the content type, the rest is the body.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let mut headers = HeaderMap::new();
    for name in [RETRY_AFTER, CONTENT_TYPE] {
        if let Ok(value) = reqwest::header::HeaderValue::from_bytes(parts.next().unwrap_or_default()) {
            headers.append(name, value);
        }
    }
    let body = parts.next().unwrap_or_default();
    let failure = Failure::status(StatusCode::TOO_MANY_REQUESTS, &headers, Timestamp::UNIX_EPOCH);
    let pause = super::delay(failure.again, Duration::from_millis(500), 30);
    assert!(pause.is_some_and(|pause| pause <= super::DELAY_MAX), "{pause:?}");
    let kept = kept(&headers);
    assert!(kept.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= 3 * HEADER_BYTES_MAX);
    if let Value::String(text) = value(&headers, body) {
        assert!(text.len() <= 3 * body.len(), "{} bytes of {}", text.len(), body.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::ToolError;

    fn failure(status: u16, headers: &[(&'static str, &str)]) -> Failure {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let now = "2026-11-20T08:00:00Z".parse().unwrap();
        Failure::status(StatusCode::from_u16(status).unwrap(), &headers.collect(), now)
    }

    /// D answer 24: each status has its error type. D answer 20: which of them are tried again.
    #[test]
    fn each_status_has_its_error_type_and_its_answer_to_trying_again() {
        for (status, kind, again) in [
            (301, ToolError::Permanent, false),
            (304, ToolError::Permanent, false),
            (400, ToolError::Permanent, false),
            (401, ToolError::Auth, false),
            (403, ToolError::Auth, false),
            (404, ToolError::Permanent, false),
            (408, ToolError::Transient, true),
            (409, ToolError::Conflict, false),
            (410, ToolError::Permanent, false),
            (422, ToolError::Permanent, false),
            (425, ToolError::Transient, true),
            (429, ToolError::RateLimit, true),
            (500, ToolError::Transient, true),
            (503, ToolError::Transient, true),
            (599, ToolError::Transient, true),
        ] {
            let failure = failure(status, &[]);
            assert_eq!(failure.outcome.kind(), kind, "{status}");
            assert_eq!(failure.again != Again::No, again, "{status}");
            assert_eq!(failure.status, Some(status));
        }
    }

    /// D answer 20: `Retry-After` of a 429, in both notations.
    #[test]
    fn retry_after_is_read_in_seconds_and_as_a_date() {
        let again = |value| failure(429, &[("retry-after", value)]).again;
        assert_eq!(again("3"), Again::After(Duration::from_secs(3)));
        assert_eq!(again("Fri, 20 Nov 2026 08:00:05 GMT"), Again::After(Duration::from_secs(5)));
        assert_eq!(again("Fri, 20 Nov 2026 07:00:00 GMT"), Again::After(Duration::ZERO));
        for nonsense in ["", "-1", "soon", "99999999999999999999999"] {
            assert_eq!(again(nonsense), Again::Backoff, "{nonsense}");
        }
    }

    /// D answer 22: JSON by content type, else text.
    #[test]
    fn a_body_is_json_when_the_content_type_says_so() {
        let value = |kind: &str, body: &str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind.parse().unwrap())]);
            super::value(&headers, body.as_bytes())
        };
        assert_eq!(value("application/json", r#"{"a":1}"#)["a"], 1);
        assert_eq!(value("Application/Problem+JSON; charset=utf-8", "[1]")[0], 1);
        assert_eq!(value("text/plain", r#"{"a":1}"#), r#"{"a":1}"#);
        assert_eq!(value("", "hello"), "hello");
        assert_eq!(value("application/json", "{oops"), "{oops");
        assert_eq!(value("application/json", ""), Value::Null);
        assert_eq!(value("application/json", &"[".repeat(100_000)), "[".repeat(100_000).as_str());
    }

    #[test]
    fn kept_headers_are_bounded_and_hold_no_cookies() {
        let mut headers = HeaderMap::new();
        headers.insert(SET_COOKIE, "session=4711".parse().unwrap());
        headers.insert("x-long", "l".repeat(HEADER_BYTES_MAX).parse().unwrap());
        headers.insert("x-a", "1".parse().unwrap());
        headers.append("x-a", "2".parse().unwrap());
        assert_eq!(kept(&headers), [("x-a".to_owned(), "2".to_owned())]);
    }
}
