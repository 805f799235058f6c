//! From a definition's words to a request that may be sent. Nothing here touches the network.

use crate::tool::FetchRequest;
use bytes::Bytes;
use reqwest::{
    Method,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use url::{Host, Url};

use super::{address, resolve::Rule};

/// Longer addresses are refused by most servers.
const URL_BYTES_MAX: usize = 8 * 1024;
/// What a definition may send along, and what most servers accept in a request's head.
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// As much as is read of an answer.
const BODY_BYTES_MAX: usize = super::BODY_BYTES_MAX;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Of one connection, or made from the URL and the body: a definition that sets them would
/// contradict what is sent, or smuggle a second request into the first.
const NOT_FORWARDED: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request that may be sent.
pub(super) struct Prepared {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
    /// The host is on the operator's list: its addresses are not checked.
    pub listed: bool,
    /// Sending it twice does no harm (D answer 21).
    pub repeatable: bool,
}

impl Prepared {
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or("-")
    }
}

/// Why a request cannot be sent; the text is for the model and names no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unfit {
    Invalid(&'static str),
    /// An address that is written out and not public.
    Blocked {
        host: String,
    },
}

impl From<&'static str> for Unfit {
    fn from(why: &'static str) -> Self {
        Self::Invalid(why)
    }
}

/// `rule` is for hosts that are addresses; names are checked when they are resolved.
pub(super) fn prepare(request: &FetchRequest, rule: Rule) -> Result<Prepared, Unfit> {
    let method = method(&request.method)?;
    let url = url(&request.url)?;
    let listed = address::is_listed(&url, &request.allowed_hosts);
    let literal = match url.host() {
        Some(Host::Ipv4(address)) => Some(address.into()),
        Some(Host::Ipv6(address)) => Some(address.into()),
        Some(Host::Domain(_)) | None => None,
    };
    if !listed && literal.is_some_and(|address| !rule(address)) {
        return Err(Unfit::Blocked { host: url.host_str().unwrap_or_default().to_owned() });
    }
    let reads = matches!(method, Method::GET | Method::HEAD);
    let mut headers = headers(&request.headers)?;
    let key = request.idempotency_key.as_deref().filter(|_| !reads);
    if let Some(key) = key {
        headers.insert(IDEMPOTENCY_KEY, value(key)?);
    }
    let body = request.body.as_ref().filter(|_| !reads).map(serde_json::to_vec).transpose();
    let body = body.map_err(|_| "The body cannot be written as JSON.")?.map(Bytes::from);
    if body.as_ref().is_some_and(|body| body.len() > BODY_BYTES_MAX) {
        return Err("The body is too long.".into());
    }
    if body.is_some() && !headers.contains_key(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Ok(Prepared { method, url, headers, body, listed, repeatable: reads || key.is_some() })
}

fn method(name: &str) -> Result<Method, Unfit> {
    let known = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    known.into_iter().find(|method| method.as_str() == name).ok_or(Unfit::Invalid("The HTTP method is not supported."))
}

fn url(text: &str) -> Result<Url, Unfit> {
    if text.len() > URL_BYTES_MAX {
        return Err("The URL is too long.".into());
    }
    // The parser would drop line breaks and tabs in silence; nobody means them.
    if text.chars().any(|letter| letter.is_ascii_control()) {
        return Err("The URL holds control characters.".into());
    }
    let mut url = Url::parse(text).map_err(|_| "The URL is not valid.")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("Only http and https URLs are supported.".into());
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("The URL names no host.".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("A URL with a user name or password is refused; use a header.".into());
    }
    url.set_fragment(None);
    Ok(url)
}

fn headers(written: &[(String, String)]) -> Result<HeaderMap, Unfit> {
    let bytes: usize = written.iter().map(|(name, value)| name.len() + value.len()).sum();
    if written.len() > HEADERS_MAX || bytes > HEADER_BYTES_MAX {
        return Err("The headers are too long.".into());
    }
    let mut headers = HeaderMap::new();
    for (name, text) in written {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "A header has a name that is not valid.")?;
        let value = value(text)?;
        if !NOT_FORWARDED.contains(&name.as_str()) {
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

/// Tabs are control characters here as well: no token or name has one.
fn value(text: &str) -> Result<HeaderValue, Unfit> {
    if text.chars().any(char::is_control) {
        return Err("A header holds control characters.".into());
    }
    // Bytes, because names may be in any script.
    let mut value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| "A header has a value that is not valid.")?;
    value.set_sensitive(true);
    Ok(value)
}
