//! What a tool is and whether it may run. No I/O.
//!
//! Invariant: a tool runs only on an [`Approved`], and only [`CallPolicy::admit`] can make one, so
//! there is no way to a tool around the policy.

pub mod budget;
mod caller;
pub mod canonical;
pub mod declarative;
mod error;
mod fetch;
pub mod india;
mod latency;
pub mod loops;
pub mod manifest;
pub mod mcp;
pub mod memory;
mod messages;
mod outcome;
pub mod policy;
pub mod prune;
pub mod replay;
pub mod schemas;
mod spec;
mod telephony;
mod toolbox;

pub use caller::{COLLECT_DIGITS, VERIFY_PIN, asks_the_caller};
pub use error::ToolError;
pub use fetch::{Fetch, FetchError, FetchRequest, FetchResponse};
pub use latency::{Latencies, Usual};
pub use memory::{Change, Memory};
pub use messages::{REQUEST_TRANSCRIPT, TAKE_MESSAGE, request_transcript, take_message};
pub use outcome::{After, CallAction, DigitPlan, DigitPurpose, Done, Failure, Message, ToolOutcome};
pub use policy::{Admission, Answer, Approved, Audit, CallPolicy, Opening, PolicyRules, Settled, ToolCallId, Verdict};
pub use spec::{
    ACTION_MARGIN, Announce, Executor, Mode, Modes, SideEffects, ToolCall, ToolKind, ToolSpec, UnknownArgs, stays,
};
pub use telephony::{
    BUILT_IN, CHECK_EXTENSION_STATUS, HANGUP_CALL, LEAVE_VOICEMAIL, NEEDS_ARI, SEND_DTMF, STOP_RECORDING, TRANSFER,
    built_in, leave_voicemail,
};
pub use toolbox::{BrokenTool, Registry, Toolbox};

use crate::facts::CallFacts;
use futures_util::future::BoxFuture;

/// Does one thing. It sees the facts of a call, never the call; dropping the future cancels it.
pub trait Tool: Send + Sync {
    fn spec(&self) -> ToolSpec;
    fn run(&self, call: Approved, facts: &CallFacts) -> BoxFuture<'static, ToolOutcome>;
}
