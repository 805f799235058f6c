//! Who may ask, and what every answer carries.
//!
//! There is no log-in yet: what protects the engine is that it listens on loopback, and a token for what changes it. A
//! browser on the same machine reaches loopback too, on behalf of any page it shows, so requests are refused that a
//! foreign page could have caused.

use super::problem;
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use std::{net::IpAddr, time::Duration};
use subtle::ConstantTimeEq as _;

/// The longest an answer may take; all but a reload come from memory.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// A test starts a program and waits for it.
const TEST_MAX: Duration = Duration::from_secs(60);

/// The page has a style of its own and nothing else; nothing may frame it or be loaded by it.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Answers of the last resort, and the headers that all answers carry.
pub(super) async fn every_answer(request: Request, next: Next) -> Response {
    let limit = if request.uri().path().starts_with("/mcp/test/") { TEST_MAX } else { ANSWER_MAX };
    let answer = tokio::time::timeout(limit, next.run(request)).await;
    let mut answer =
        answer.unwrap_or_else(|_| problem(StatusCode::GATEWAY_TIMEOUT, "the engine did not answer in time"));
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    answer
}

/// Refuses names that are not this machine's for sure: a foreign name that was made to resolve to
/// 127.0.0.1 (DNS rebinding) would otherwise make its page "same origin" with ours.
pub(super) async fn known_host(request: Request, next: Next) -> Response {
    match host(request.headers()) {
        Some(host) if is_literal(host) => next.run(request).await,
        _ => problem(
            StatusCode::FORBIDDEN,
            "the Host header must be \"localhost\" or an IP address: use one of them in the address",
        ),
    }
}

/// Refuses what a page of another site made the operator's browser send. Programs (`curl`) send
/// neither of the two headers; every browser sends `Origin` with a POST.
pub(super) async fn same_site(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    let from_here = matches!(site, None | Some(b"same-origin" | b"none"));
    let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or("null"));
    let own_origin = origin.is_none_or(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some() && authority == headers.get(header::HOST).and_then(|host| host.to_str().ok())
    });
    if from_here && own_origin {
        next.run(request).await
    } else {
        problem(StatusCode::FORBIDDEN, "requests on behalf of another site are refused")
    }
}

/// The operator's token, if one is configured; without one everybody who can reach the pages is an operator.
#[derive(Clone)]
pub(super) struct Admin(Option<[u8; 32]>);

impl Admin {
    pub fn new(token: Option<&SecretString>) -> Self {
        Self(token.map(|token| Sha256::digest(token.expose_secret().as_bytes()).into()))
    }

    /// Hashes are compared, so that time tells nothing of the token or its length.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(wanted) = &self.0 else { return true };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let token = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let given: [u8; 32] = Sha256::digest(token.map_or("", |(_, token)| token.trim()).as_bytes()).into();
        bool::from(wanted.ct_eq(&given))
    }
}

pub(super) async fn admin(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    if admin.admits(request.headers()) {
        return next.run(request).await;
    }
    let mut refusal = problem(StatusCode::UNAUTHORIZED, "this needs the token of http.admin_token as a bearer token");
    refusal.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refusal
}

/// The `Host` header without its port.
fn host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
    let host = host.to_str().ok()?;
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map(|(address, _)| address);
    }
    Some(host.split_once(':').map_or(host, |(name, _)| name))
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
        host(&headers).is_some_and(is_literal)
    }

    #[test]
    fn addresses_and_localhost_are_known_with_and_without_a_port() {
        for value in
            ["127.0.0.1:15000", "127.0.0.1", "localhost:15000", "LOCALHOST", "[::1]:15000", "[::1]", "10.0.0.5:80"]
        {
            assert!(host_is_known(value), "{value}");
        }
    }

    #[test]
    fn names_are_not_known_however_they_look() {
        for value in
            ["evil.example", "localhost.evil.example:15000", "127.0.0.1.evil.example", "", "[::1", "::1", "[evil]"]
        {
            assert!(!host_is_known(value), "{value}");
        }
    }
}
