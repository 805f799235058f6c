//! What is counted about requests to external services.

use crate::tool::ToolError;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

/// How one external call came out, retries included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A 2xx answer.
    Ok,
    /// The request could not be made of the values it was to be made of.
    Invalid,
    /// The host is not public and not on the operator's list.
    Blocked,
    /// 401, 403.
    Auth,
    /// 409.
    Conflict,
    /// 429, after the last attempt.
    RateLimit,
    /// 3xx: redirects are not followed.
    Redirect,
    /// Other 4xx, and certificates that cannot be verified.
    Permanent,
    /// The answer is longer than what is read.
    TooLarge,
    /// 408, 425, 5xx, no answer, no connection, no time left; after the last attempt.
    Transient,
    /// The call ended first; what the service has done is not known.
    Cancelled,
}

impl Outcome {
    pub const ALL: [Self; 11] = [
        Self::Ok,
        Self::Invalid,
        Self::Blocked,
        Self::Auth,
        Self::Conflict,
        Self::RateLimit,
        Self::Redirect,
        Self::Permanent,
        Self::TooLarge,
        Self::Transient,
        Self::Cancelled,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Invalid => "invalid",
            Self::Blocked => "blocked",
            Self::Auth => "auth",
            Self::Conflict => "conflict",
            Self::RateLimit => "rate_limit",
            Self::Redirect => "redirect",
            Self::Permanent => "permanent",
            Self::TooLarge => "too_large",
            Self::Transient => "transient",
            Self::Cancelled => "cancelled",
        }
    }

    /// D answer 24: what the model is told.
    pub const fn kind(self) -> ToolError {
        match self {
            Self::Invalid => ToolError::Validation,
            Self::Auth => ToolError::Auth,
            Self::Conflict => ToolError::Conflict,
            Self::RateLimit => ToolError::RateLimit,
            Self::Ok | Self::Blocked | Self::Redirect | Self::Permanent | Self::TooLarge => ToolError::Permanent,
            Self::Transient | Self::Cancelled => ToolError::Transient,
        }
    }
}

/// Counters of one process, registered once; every child is there from the start.
pub struct OutboundCounters {
    requests: [IntCounter; Outcome::ALL.len()],
    retries: IntCounter,
}

impl OutboundCounters {
    /// # Errors
    /// When the registry has metrics of these names already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let requests = IntCounterVec::new(
            Opts::new(
                "offhook_tool_http_requests_total",
                "Requests of tools to external services, retries included in one, by outcome",
            ),
            &["outcome"],
        )?;
        let retries = IntCounter::new(
            "offhook_tool_http_retries_total",
            "Attempts after the first of requests of tools to external services",
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(retries.clone()))?;
        Ok(Self { requests: Outcome::ALL.map(|outcome| requests.with_label_values(&[outcome.label()])), retries })
    }

    pub fn requests(&self, outcome: Outcome) -> &IntCounter {
        &self.requests[outcome as usize]
    }

    pub fn retries(&self) -> &IntCounter {
        &self.retries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_counts_under_its_own_label() {
        let registry = Registry::new();
        let counters = OutboundCounters::new(&registry).unwrap();
        for outcome in Outcome::ALL {
            counters.requests(outcome).inc();
        }
        let families = registry.gather();
        let requests = families.iter().find(|family| family.name() == "offhook_tool_http_requests_total").unwrap();
        assert_eq!(requests.get_metric().len(), Outcome::ALL.len());
        assert!(requests.get_metric().iter().all(|metric| metric.get_counter().get_value() == 1.0));
    }
}
