//! What every answer carries, and which requests nobody may have meant.
//!
//! A browser on the operator's machine reaches whatever the operator reaches, on behalf of any page it shows: requests are
//! refused that a foreign page could have caused.

use super::problem;
use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use std::{net::IpAddr, time::Duration};
use subtle::ConstantTimeEq as _;

/// The longest an answer may take to begin; most come from memory or one query.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// A publication waits for the one before it, is checked, has what scripted agents say rendered, and ends MCP servers, each
/// of which may take ten seconds. It is brought to its end in any case: whoever gave up sooner would not know how it ended.
const PUBLISH_MAX: Duration = Duration::from_secs(60);
/// A test starts a program and waits for it, an examination places calls.
const TEST_MAX: Duration = Duration::from_secs(90);

/// Where a configuration is published or loaded anew: method and address.
pub(super) const PUBLICATIONS: [(&str, &str); 10] = [
    ("POST", "/contexts"),
    ("POST", "/contexts/versions/{kept}"),
    ("POST", "/mcp/editor"),
    ("POST", "/reload"),
    ("POST", "/system"),
    ("POST", "/api/v1/reload"),
    ("PUT", "/api/v1/configuration"),
    ("POST", "/api/v1/configuration/versions/{kept}/publish"),
    ("PUT", "/api/v1/mcp/servers/{server}"),
    ("DELETE", "/api/v1/mcp/servers/{server}"),
];
/// Where a server is tested or the installation examined.
pub(super) const TESTS: [(&str, &str); 7] = [
    ("POST", "/mcp"),
    ("POST", "/mcp/test/{id}"),
    ("POST", "/system/examine"),
    ("POST", "/system/media-test"),
    ("POST", "/api/v1/mcp/{server}/test"),
    ("POST", "/api/v1/system/examine"),
    ("POST", "/api/v1/system/media-test"),
];

/// Everything on a page is ours, and nothing may frame it or be loaded by it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// Answers of the last resort, and the headers that all answers carry.
pub(super) async fn every_answer(request: Request, next: Next) -> Response {
    let limit = answer_max(&request);
    let answer = tokio::time::timeout(limit, next.run(request)).await;
    let mut answer = answer.unwrap_or_else(|_| {
        problem(StatusCode::GATEWAY_TIMEOUT, "the engine did not answer in time; a change that it has begun goes on")
    });
    let headers = answer.headers_mut();
    // Only what has its own hash in its name says otherwise.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // With less than this, browsers would not say that our own forms come from us.
    headers.insert(header::REFERRER_POLICY, SAME_ORIGIN);
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert("cross-origin-opener-policy", SAME_ORIGIN);
    headers.insert("cross-origin-resource-policy", SAME_ORIGIN);
    answer
}

fn answer_max(request: &Request) -> Duration {
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let address = (request.method().as_str(), path);
    if PUBLICATIONS.contains(&address) {
        PUBLISH_MAX
    } else if TESTS.contains(&address) {
        TEST_MAX
    } else {
        ANSWER_MAX
    }
}

/// Refuses names that are not this machine's for sure: a foreign name that was made to resolve to
/// 127.0.0.1 (DNS rebinding) would otherwise make its page "same origin" with ours.
pub(super) fn known_host(headers: &HeaderMap, public_url: Option<&str>) -> Result<(), &'static str> {
    let is_public = |given: &str| public_url.is_some_and(|url| authority(url).eq_ignore_ascii_case(given));
    let known = sole(headers, &header::HOST).is_some_and(|given| is_public(given) || is_literal(host(given)));
    if known {
        return Ok(());
    }
    Err(
        "the Host header must be \"localhost\", an IP address or the host of http.public_url: use one of them in the address",
    )
}

/// Whether the name that was asked for is this machine's for its own programs.
pub(super) fn is_loopback(headers: &HeaderMap) -> bool {
    let given = sole(headers, &header::HOST).map(host);
    given.is_some_and(|given| {
        let address = given.parse::<IpAddr>();
        given.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.to_canonical().is_loopback())
    })
}

/// Refuses what a page of another site made the operator's browser send. Programs (`curl`) send
/// neither of the two headers; every browser sends `Origin` with a POST.
pub(super) fn same_site(headers: &HeaderMap, public_url: Option<&str>) -> Result<(), &'static str> {
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    let from_here = matches!(site, None | Some(b"same-origin" | b"none"));
    let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or("null"));
    let own_origin = origin.is_none_or(|origin| {
        let here = sole(headers, &header::HOST);
        public_url == Some(origin) || (origin.contains("://") && Some(authority(origin)) == here)
    });
    if from_here && own_origin {
        return Ok(());
    }
    Err("requests on behalf of another site are refused")
}

/// The token of `http.admin_token`, if one is configured.
#[derive(Clone)]
pub(super) struct Bearer(Option<[u8; 32]>);

impl Bearer {
    pub fn new(token: Option<&SecretString>) -> Self {
        Self(token.map(|token| Sha256::digest(token.expose_secret().as_bytes()).into()))
    }

    pub fn is_configured(&self) -> bool {
        self.0.is_some()
    }

    /// Whether this token is the one. Hashes are compared, so that time tells nothing of the token or its length.
    pub fn is(&self, given: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        self.0.is_some_and(|wanted| bool::from(wanted.ct_eq(&given)))
    }
}

/// The token that a request shows; empty where it shows something else.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or_default();
    let token = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    Some(token.map_or("", |(_, token)| token.trim()))
}

/// A header that is there once.
fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return None };
    value.to_str().ok()
}

/// Of an origin: what stands in the `Host` header.
fn authority(origin: &str) -> &str {
    origin.split_once("://").map_or("", |(_, authority)| authority)
}

/// The `Host` header without its port.
fn host(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or("", |(address, _)| address);
    }
    host.split_once(':').map_or(host, |(name, _)| name)
}

/// A name that no name server is asked for.
fn is_literal(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_is_known(value: &str) -> bool {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(value).unwrap())]);
        known_host(&headers, Some("https://voice.example.com")).is_ok()
    }

    #[test]
    fn addresses_and_localhost_are_known_with_and_without_a_port_and_so_is_the_public_name() {
        for value in [
            "127.0.0.1:15000",
            "127.0.0.1",
            "localhost:15000",
            "LOCALHOST",
            "[::1]:15000",
            "[::1]",
            "10.0.0.5:80",
            "voice.example.com",
            "Voice.Example.com",
        ] {
            assert!(host_is_known(value), "{value}");
        }
    }

    #[test]
    fn other_names_are_not_known_however_they_look() {
        for value in [
            "evil.example",
            "localhost.evil.example:15000",
            "127.0.0.1.evil.example",
            "",
            "[::1",
            "::1",
            "[evil]",
            "voice.example.com:8443",
            "voice.example.com.evil.example",
        ] {
            assert!(!host_is_known(value), "{value}");
        }
    }
}
