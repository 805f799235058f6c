//! Fate of a transferred caller when their call is over: the place that they were sent to may hang up on them.

use super::Shared;
use crate::{
    asterisk::events::Transferee,
    call::{EndReason, TransferFault},
    facts::CallId,
    records::{Amendment, Ending},
    telemetry::Stranded,
};
use tokio::time::Instant;
use tracing::warn;

/// Call that has ended, with its caller at a place of the dialplan.
pub(super) struct SentAway {
    pub call: CallId,
    pub began: Instant,
    pub reason: EndReason,
    pub transferee: Transferee,
}

impl SentAway {
    /// Waits until the place counts as one that took the caller, or the engine stops. Where the place hangs up on them, the
    /// record, the page, the metrics and the log say so.
    pub async fn followed(self, shared: &Shared) {
        let failure = tokio::select! {
            biased;
            () = shared.stopping.cancelled() => None,
            failure = self.transferee.failure() => failure,
        };
        let Some(cause) = failure else { return };
        let why = TransferFault::of_cause(cause);
        warn!(
            cause,
            reason = why.label(),
            "the transfer failed: the place of the dialplan hung up on the caller; {}",
            why.describe()
        );
        shared.metrics.transfer_failed(why, Stranded::Lost);
        if self.reason == EndReason::Transferred {
            shared.live.ended_otherwise(self.call, Ending::transfer_failed());
        }
        if let Some(records) = &shared.records {
            let at_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            records.amend(Amendment { id: self.call, at_ms, reason: why.label().into(), cause });
        }
    }
}
