//! The pass without which no tool runs.

use super::{Audit, Entry};
use crate::{
    gate::Event,
    tool::{Announce, Memory, SideEffects, ToolSpec},
};
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// Names one tool call inside the engine. The provider's own id is kept beside it for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolCallId(Uuid);

impl ToolCallId {
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for ToolCallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

/// A call that may run. [`CallPolicy::admit`](super::CallPolicy::admit) alone makes one.
#[derive(Clone, PartialEq)]
pub struct Approved {
    id: ToolCallId,
    name: String,
    arguments: Map<String, Value>,
    idempotency_key: String,
    service_key: String,
    time_left: Duration,
    since: Instant,
    announce: Option<Announce>,
    memory: Arc<Memory>,
    remote: Option<Box<RemoteQuestion>>,
    repeatable: bool,
    writes: bool,
    waited_for: bool,
}

/// What another gate is to be asked before the tool runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteQuestion {
    pub event: Event,
    /// The caller has said yes already: a gate that still asks wants a person.
    pub confirmed: bool,
}

impl Approved {
    pub(super) fn new(
        id: ToolCallId,
        spec: &ToolSpec,
        arguments: Map<String, Value>,
        (idempotency_key, service_key): (String, String),
        memory: Arc<Memory>,
        remote: Option<Box<RemoteQuestion>>,
        since: Instant,
    ) -> Self {
        Self {
            id,
            name: spec.name.clone(),
            arguments,
            idempotency_key,
            service_key,
            time_left: spec.timeout,
            since,
            // Who does not wait for a tool hears the agent go on.
            announce: spec.announce.clone().filter(|_| spec.wait),
            memory,
            remote,
            repeatable: spec.idempotent || spec.side_effects != SideEffects::Writes,
            writes: spec.side_effects == SideEffects::Writes,
            waited_for: spec.wait,
        }
    }

    /// Whatever the tool has, the call waits no longer than this.
    pub(super) fn at_most(mut self, limit: Option<Duration>) -> Self {
        self.time_left = limit.map_or(self.time_left, |limit| limit.min(self.time_left));
        self
    }

    pub const fn id(&self) -> ToolCallId {
        self.id
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checked, defaults filled in, without anything that the schema does not know.
    pub const fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }

    /// P29, P30: the same for a call that is sent again, within one telephone call.
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// The same for a call that is sent again, and for no other of any telephone call: for services.
    pub fn service_key(&self) -> &str {
        &self.service_key
    }

    /// When the agent wanted the run, or the caller said yes to it.
    pub const fn since(&self) -> Instant {
        self.since
    }

    /// After this the call is answered with `TIMEOUT`.
    pub const fn time_left(&self) -> Duration {
        self.time_left
    }

    /// What the caller hears while the agent waits for a slow run.
    pub const fn announce(&self) -> Option<&Announce> {
        self.announce.as_ref()
    }

    /// It may have changed something elsewhere, whatever becomes of it.
    pub const fn writes(&self) -> bool {
        self.writes
    }

    /// The model waits for what comes of it; else it was answered at once.
    pub const fn is_waited_for(&self) -> bool {
        self.waited_for
    }

    /// Making it twice does what making it once does.
    pub const fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// Where another gate has its say, what it is to be asked.
    pub fn remote_question(&self) -> Option<&RemoteQuestion> {
        self.remote.as_deref()
    }

    /// What the call's tools remembered when this one began.
    pub const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

/// Arguments are the caller's.
impl fmt::Debug for Approved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approved").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// What is known of a call while it runs.
pub(super) struct Ticket {
    pub entry: Arc<Entry>,
    pub key: String,
    pub turn: String,
    pub audit: Audit,
    /// Checked, as they run.
    pub arguments: Map<String, Value>,
    pub began: Instant,
    /// The model was answered already.
    pub detached: bool,
}
