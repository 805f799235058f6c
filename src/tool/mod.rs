//! What a tool is and whether it may run. No I/O.
//!
//! Invariant: a tool runs only on an [`Approved`], and only [`Toolbox::admit`] can make one, so
//! there is no way to a tool around a context's allowlist.

mod error;
mod fetch;
mod memory;
mod messages;
mod outcome;
mod spec;
mod telephony;
mod toolbox;

pub use error::ToolError;
pub use fetch::{Fetch, FetchError, FetchRequest, FetchResponse};
pub use memory::{Change, Memory};
pub use messages::{REQUEST_TRANSCRIPT, TAKE_MESSAGE, request_transcript, take_message};
pub use outcome::{After, CallAction, DigitPlan, DigitPurpose, Done, Failure, Message, ToolOutcome};
pub use spec::{
    Access, AuthState, Executor, Mode, Modes, RiskDomain, SideEffects, ToolCall, ToolKind, ToolSpec, UnknownArgs,
};
pub use telephony::{
    BUILT_IN, CHECK_EXTENSION_STATUS, HANGUP_CALL, LEAVE_VOICEMAIL, NEEDS_ARI, SEND_DTMF, TRANSFER, built_in,
    leave_voicemail,
};
pub use toolbox::{Approved, Toolbox};

use crate::facts::CallFacts;
use futures_util::future::BoxFuture;
use serde_json::Value;

/// Does one thing. It sees the facts of a call, never the call; dropping the future cancels it.
pub trait Tool: Send + Sync {
    fn spec(&self) -> ToolSpec;
    fn run(&self, call: Approved, facts: &CallFacts) -> BoxFuture<'static, ToolOutcome>;
}

impl ToolOutcome {
    /// The envelope the model reads.
    pub fn envelope(&self) -> Value {
        match self {
            Self::Done(done) => serde_json::json!({ "ok": true, "message": done.message, "data": done.data }),
            Self::Failed(failure) => {
                serde_json::json!({ "ok": false, "error": { "type": failure.kind.label(), "message": failure.message } })
            }
            Self::Collect(_) => Value::Null,
        }
    }
}
