//! What the environment says about the service.

use crate::redact::Redacted;
use std::collections::BTreeSet;

const TOKEN: &str = "AANA_BRIDGE_TOKEN";
const SCOPES: &str = "AANA_BRIDGE_TOKEN_SCOPES";
const REQUEST_BYTES: &str = "AANA_MAX_REQUEST_BYTES";
const RATE: &str = "AANA_RATE_LIMIT_PER_MINUTE";

/// An event with a dozen references has 5 KB.
const REQUEST_BYTES_MAX: usize = 65_536;
/// What is read of a body where the limit was switched off or set higher: memory has one anyway.
const REQUEST_BYTES_CEILING: usize = 16 * 1024 * 1024;
const REQUESTS_PER_MINUTE: u32 = 60;
/// More than this per client is no limit any more, only memory.
const REQUESTS_PER_MINUTE_CEILING: u32 = 1_000_000;

/// Token, scopes and limits.
#[derive(Debug, Clone)]
pub struct Options {
    token: Option<Redacted<String>>,
    pub scopes: BTreeSet<String>,
    /// None where the limit is switched off.
    pub request_bytes_max: Option<usize>,
    pub requests_per_minute: Option<u32>,
}

/// A variable that is set to something it cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{name} must be a whole number, 0 for no limit")]
pub struct OptionsError {
    name: &'static str,
}

impl Options {
    /// Reads the four variables.
    pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, OptionsError> {
        let scopes: BTreeSet<String> = variable(SCOPES)
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|scope| !scope.is_empty())
            .map(str::to_owned)
            .collect();
        let scopes =
            if scopes.is_empty() { [super::CHECK, super::VALIDATION].map(str::to_owned).into() } else { scopes };
        let number = |name: &'static str, default: usize, ceiling: usize| match variable(name) {
            None => Ok(Some(default)),
            Some(text) => match text.trim().parse() {
                Ok(0) => Ok(None),
                Ok(number) => Ok(Some(ceiling.min(number))),
                Err(_) => Err(OptionsError { name }),
            },
        };
        let rate = number(RATE, REQUESTS_PER_MINUTE as usize, REQUESTS_PER_MINUTE_CEILING as usize)?;
        Ok(Self {
            token: variable(TOKEN).filter(|token| !token.trim().is_empty()).map(Redacted::new),
            scopes,
            request_bytes_max: number(REQUEST_BYTES, REQUEST_BYTES_MAX, REQUEST_BYTES_CEILING)?,
            requests_per_minute: rate.and_then(|rate| u32::try_from(rate).ok()),
        })
    }

    /// Whether the service can let nobody in.
    pub fn has_no_token(&self) -> bool {
        self.token.is_none()
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.reveal().trim())
    }

    /// The longest body that is read, in bytes.
    pub(super) fn body_max(&self) -> usize {
        self.request_bytes_max.unwrap_or(REQUEST_BYTES_CEILING)
    }
}
