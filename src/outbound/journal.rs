//! One line per external call, whatever becomes of it.

use super::counters::{OutboundCounters, Outcome};
use crate::tool::FetchRequest;
use tokio::time::Instant;

/// Written and counted when it is dropped, so a call that is cut off (the caller has hung up) leaves
/// its line as well: the service may have done what it was asked to.
pub(super) struct Entry<'a> {
    counters: &'a OutboundCounters,
    tool: String,
    call: String,
    method: String,
    began: Instant,
    /// Never the path or the query: both are made of what callers say.
    pub host: String,
    pub status: Option<u16>,
    pub attempts: u32,
    /// Of the body that was read.
    pub bytes: usize,
    pub outcome: Outcome,
}

impl<'a> Entry<'a> {
    pub(super) fn new(counters: &'a OutboundCounters, request: &FetchRequest) -> Self {
        Self {
            counters,
            tool: request.tool.clone(),
            call: request.call.clone(),
            method: request.method.clone(),
            began: Instant::now(),
            host: "-".into(),
            status: None,
            attempts: 0,
            bytes: 0,
            outcome: Outcome::Cancelled,
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.counters.requests(self.outcome).inc();
        self.counters.retries().inc_by(u64::from(self.attempts.saturating_sub(1)));
        tracing::info!(
            target: "journal",
            tool = self.tool,
            call = self.call,
            method = self.method,
            host = self.host,
            status = self.status,
            attempts = self.attempts,
            duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            bytes = self.bytes,
            outcome = self.outcome.label(),
            "external call"
        );
    }
}
