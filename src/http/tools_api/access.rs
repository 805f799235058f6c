//! Who asks, and how often they may.

use super::{ToolsApi, problem};
use crate::http::rate::Rates;
use arc_swap::ArcSwap;
use axum::{
    extract::FromRequestParts,
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::Response,
};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};
use tokio::time::Instant;

/// Shorter tokens can be guessed, given time.
const TOKEN_BYTES_MIN: usize = 16;
/// An import script's burst, and what a person or a script keeps up after it. Every request reads the
/// tenant's folder.
const BURST: u32 = 100;
const PER_SECOND: f64 = 10.0;

/// Tenants that have a bucket of their own. Only who has a right token gets one.
const RATES_MAX: usize = 1_024;

/// The tokens of all tenants. There is no default token: without any, every answer is 401. Clones are the same tokens, also
/// once a reload has replaced them.
#[derive(Clone)]
pub struct Tokens(Arc<ArcSwap<Known>>);

#[derive(Default)]
struct Known {
    tenants: Vec<String>,
    /// Hashes, so that all comparisons take the same time whatever the lengths; and the tenant's index.
    tokens: Vec<([u8; 32], u32)>,
}

/// What is wrong with the configured tokens; names tenants, never tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token of tenant \"{0}\" is shorter than {TOKEN_BYTES_MIN} characters")]
    Short(String),
    #[error("the tenants \"{0}\" and \"{1}\" have the same token")]
    Shared(String, String),
}

impl Tokens {
    /// Pairs of tenant and token; a tenant may have several, to change one without a gap.
    ///
    /// # Errors
    /// When a token is too short, or names two tenants.
    pub fn new(pairs: impl IntoIterator<Item = (String, SecretString)>) -> Result<Self, TokenError> {
        let mut all = Known::default();
        for (tenant, token) in pairs {
            let token = token.expose_secret().as_bytes();
            if token.len() < TOKEN_BYTES_MIN {
                return Err(TokenError::Short(tenant));
            }
            let token: [u8; 32] = Sha256::digest(token).into();
            if let Some(other) = all.tenant_of(&token).filter(|other| *other != tenant) {
                return Err(TokenError::Shared(other.to_owned(), tenant));
            }
            let known = all.tenants.iter().position(|known| *known == tenant);
            let index = known.unwrap_or_else(|| {
                all.tenants.push(tenant);
                all.tenants.len() - 1
            });
            all.tokens.push((token, u32::try_from(index).unwrap_or(u32::MAX)));
        }
        Ok(Self(Arc::new(ArcSwap::from_pointee(all))))
    }

    /// These are the tokens from now on, for all clones.
    pub fn replace(&self, next: &Self) {
        self.0.store(next.0.load_full());
    }

    fn tenant_of(&self, hash: &[u8; 32]) -> Option<String> {
        self.0.load().tenant_of(hash).map(str::to_owned)
    }

    /// A bucket for each tenant.
    pub(super) fn rates() -> Rates<String> {
        Rates::new(BURST, PER_SECOND, RATES_MAX)
    }
}

impl Known {
    /// Looks at every token, so that time tells nothing about which is nearly right.
    fn tenant_of(&self, hash: &[u8; 32]) -> Option<&str> {
        let (mut found, mut tenant) = (Choice::from(0), u32::MAX);
        for (token, index) in &self.tokens {
            let same = token.ct_eq(hash);
            tenant.conditional_assign(index, same);
            found |= same;
        }
        bool::from(found).then(|| self.tenants.get(tenant as usize).map(String::as_str)).flatten()
    }
}

/// The tenant that a request's token names. Taking it is the only door to the store.
pub(super) struct Tenant(pub String);

impl FromRequestParts<ToolsApi> for Tenant {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, api: &ToolsApi) -> Result<Self, Response> {
        let mut given = parts.headers.get_all(header::AUTHORIZATION).iter();
        let token = match (given.next(), given.next()) {
            (Some(given), None) => bearer(given.as_bytes()),
            _ => None,
        };
        let hash = token.map(|token| Sha256::digest(token).into());
        let Some(tenant) = hash.and_then(|hash| api.inner.tokens.tenant_of(&hash)) else {
            let mut answer = problem(StatusCode::UNAUTHORIZED, "a valid bearer token is needed");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Err(answer);
        };
        if api.inner.rates.take(tenant.clone(), Instant::now()).is_err() {
            tracing::warn!(tenant, "too many requests to the tools API");
            let mut answer = problem(StatusCode::TOO_MANY_REQUESTS, "too many requests; try again in a second");
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return Err(answer);
        }
        Ok(Self(tenant))
    }
}

/// The scheme's name is not case-sensitive (RFC 9110, 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(pairs: &[(&str, &str)]) -> Result<Tokens, TokenError> {
        Tokens::new(pairs.iter().map(|(tenant, token)| ((*tenant).to_owned(), (*token).into())))
    }

    fn tenant(tokens: &Tokens, token: &str) -> Option<String> {
        tokens.tenant_of(&Sha256::digest(token).into())
    }

    /// D answer 29: the token names the tenant.
    #[test]
    fn a_token_names_its_tenant_and_no_other_does() {
        let tokens =
            tokens(&[("a", "0123456789abcdef"), ("b", "fedcba9876543210"), ("a", "a second token of a")]).unwrap();
        assert_eq!(tenant(&tokens, "0123456789abcdef"), Some("a".into()));
        assert_eq!(tenant(&tokens, "fedcba9876543210"), Some("b".into()));
        assert_eq!(tenant(&tokens, "a second token of a"), Some("a".into()));
        for wrong in ["", "0123456789abcde", "0123456789abcdefg", "0123456789ABCDEF"] {
            assert_eq!(tenant(&tokens, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_a_reload_brings_holds_for_every_clone() {
        let tokens = tokens(&[("a", "0123456789abcdef")]).unwrap();
        let clone = tokens.clone();
        tokens.replace(&self::tokens(&[("b", "fedcba9876543210")]).unwrap());
        assert_eq!(tenant(&clone, "fedcba9876543210"), Some("b".into()));
        assert_eq!(tenant(&clone, "0123456789abcdef"), None, "a token that is taken out opens nothing any more");
    }

    #[test]
    fn tokens_that_cannot_protect_are_refused_by_their_tenants_name() {
        assert_eq!(tokens(&[("a", "short")]).err(), Some(TokenError::Short("a".into())));
        let same = tokens(&[("a", "0123456789abcdef"), ("b", "0123456789abcdef")]);
        assert_eq!(same.err(), Some(TokenError::Shared("a".into(), "b".into())));
        assert!(tokens(&[]).is_ok_and(|none| tenant(&none, "").is_none()));
    }

    #[test]
    fn a_bearer_is_read_in_every_spelling_of_its_scheme() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bearer  abc"), Some(&b"abc"[..]));
        for wrong in [&b"Basic abc"[..], b"Bearer", b"Bearer ", b"", b"Bearerabc"] {
            assert_eq!(bearer(wrong), None);
        }
    }
}
