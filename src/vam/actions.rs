//! Actions under way: which calls have a client that runs them, and who waits for which answer (V4, V22, V23).
//!
//! Limits: `PENDING_MAX` actions at once; an answer that nobody waits for is dropped and counted, wherever it comes from.

use super::{
    counters::VamCounters,
    negotiation::Agreed,
    turns::Cue,
    wire::{
        ActionRequestEnvelope, ActionResultEnvelope, ActionSource, ActionStatus, McpContent, McpToolCall,
        StreamErrorCode, now, to_struct,
    },
};
use crate::{
    config::Residency,
    facts::CallId,
    tool::{
        ACTION_MARGIN, Approved, Failure, ToolError, ToolOutcome,
        mcp::{self, Speech},
    },
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// Some for each call that an engine takes.
const PENDING_MAX: usize = 4_096;
/// What a client says of its own error.
const MESSAGE_CHARS_MAX: usize = 300;

/// Of one engine.
pub struct Actions {
    counters: VamCounters,
    clients: Mutex<HashMap<CallId, Client>>,
    pending: Mutex<HashMap<String, Pending>>,
}

/// Whose call it is.
#[derive(Clone)]
pub(super) struct Client {
    pub session_id: String,
    /// What it asked for.
    pub residency: Residency,
    /// It runs actions itself.
    pub executes: bool,
    cues: mpsc::Sender<Cue>,
}

struct Pending {
    /// The session whose client runs it; `None`: it runs here.
    by: Option<String>,
    /// The session whose agent waits for it.
    of: Option<String>,
    answer: oneshot::Sender<Answer>,
}

/// What came of an action: of a client in its envelope, of a server as the tool path has it.
enum Answer {
    Envelope(Box<ActionResultEnvelope>),
    Outcome(ToolOutcome),
}

/// What is to be done.
pub(super) struct Action {
    /// Whose call it is, if it is one of VAM.
    pub client: Option<Client>,
    pub by: Runner,
}

pub(super) enum Runner {
    /// The client itself, by this name of the tool: its server's.
    Client(Client, Arc<str>),
    /// The engine, so; it is begun when there is a place for it.
    Engine(Box<dyn FnOnce() -> BoxFuture<'static, ToolOutcome> + Send>),
}

/// A call is known as a client's until this is dropped.
pub struct Known {
    actions: Arc<Actions>,
    call: CallId,
}

impl Drop for Known {
    fn drop(&mut self) {
        locked(&self.actions.clients).remove(&self.call);
    }
}

impl Actions {
    pub fn new(counters: VamCounters) -> Self {
        Self { counters, clients: Mutex::default(), pending: Mutex::default() }
    }

    /// This call is a client's, which is told by `cues`.
    #[must_use]
    pub fn know(self: &Arc<Self>, call: CallId, agreed: &Agreed, cues: mpsc::Sender<Cue>) -> Known {
        let client = Client {
            session_id: agreed.session_id.clone(),
            residency: agreed.residency,
            executes: agreed.executes,
            cues,
        };
        locked(&self.clients).insert(call, client);
        Known { actions: Arc::clone(self), call }
    }

    pub(super) fn client(&self, call: CallId) -> Option<Client> {
        locked(&self.clients).get(&call).cloned()
    }

    /// Has this done, by a client or here, and waits for what comes of it. What a client is to do has left when this is first
    /// polled.
    pub(super) async fn act(self: Arc<Self>, action: Action, call: Approved) -> ToolOutcome {
        let Action { client, by } = action;
        let limit = limit(&call);
        let (call_id, (answer, answered)) = (Uuid::new_v4().to_string(), oneshot::channel());
        {
            let mut pending = locked(&self.pending);
            if pending.len() >= PENDING_MAX {
                self.counters.too_many.inc();
                return failed(ToolError::Transient, "Too many actions are under way.", &call);
            }
            let session = match &by {
                Runner::Client(client, _) => Some(client.session_id.clone()),
                Runner::Engine(_) => None,
            };
            let of = client.as_ref().filter(|_| call.is_waited_for()).map(|client| client.session_id.clone());
            pending.insert(call_id.clone(), Pending { by: session, of, answer });
        }
        let waits = Waiting { actions: &self, call_id: call_id.clone() };
        let runs = match by {
            Runner::Client(client, tool) => {
                let envelope = Box::new(envelope(&client, call_id, &tool, limit, &call));
                if client.cues.try_send(Cue::Action { envelope, since: call.since() }).is_err() {
                    return failed(ToolError::Transient, "The client does not take the action.", &call);
                }
                None
            }
            Runner::Engine(begin) => {
                let (actions, run) = (Arc::clone(&self), begin());
                Some(AbortOnDropHandle::new(tokio::spawn(async move {
                    let outcome = run.await;
                    actions.settle(&call_id, None, Answer::Outcome(outcome));
                })))
            }
        };
        let mut open = Open { actions: &self, client: client.as_ref(), call: &call, limit, is_over: false };
        let answered = timeout(limit, answered).await;
        open.is_over = answered.is_ok();
        drop((open, waits, runs));
        match answered {
            Ok(Ok(Answer::Envelope(result))) => outcome(*result, &call),
            Ok(Ok(Answer::Outcome(outcome))) => {
                if outcome.error() == Some(ToolError::Timeout) {
                    self.timed_out(client.as_ref(), &call);
                }
                outcome
            }
            Ok(Err(_)) => failed(ToolError::Transient, "Who runs the action went away before it answered.", &call),
            Err(_) => failed(ToolError::Timeout, "The action timed out: its server did not answer in time.", &call),
        }
    }

    /// V10, V11: the client is told by its stream, an operator by the log of the call.
    fn timed_out(&self, client: Option<&Client>, call: &Approved) {
        self.counters.timed_out.inc();
        // Nobody waits for what was only sent off.
        if call.is_waited_for() {
            let (code, tool) = (StreamErrorCode::LlmBackendError.as_str_name(), call.name());
            tracing::warn!(code, stage = "action", is_fatal = false, tool, "an action timed out");
            if let Some(client) = client {
                // A client that reads nothing is cut off elsewhere.
                let _ = client.cues.try_send(Cue::ActionTimedOut);
            }
        }
    }

    /// The agent of this session waits for one.
    pub(super) fn is_pending(&self, session_id: &str) -> bool {
        locked(&self.pending).values().any(|pending| pending.of.as_deref() == Some(session_id))
    }

    /// An answer of a client of this session. What does not settle anything is dropped and counted; that it is still under
    /// way changes nothing (V answer 9).
    pub(super) fn answered(&self, session_id: &str, result: ActionResultEnvelope) {
        if result.status() == ActionStatus::Pending {
            return;
        }
        if result.session_id != session_id {
            self.counters.results_dropped.inc();
            return;
        }
        let call_id = result.call_id.clone();
        self.settle(&call_id, Some(session_id), Answer::Envelope(Box::new(result)));
    }

    /// The first answer of who runs it counts.
    fn settle(&self, call_id: &str, by: Option<&str>, answer: Answer) {
        let mut pending = locked(&self.pending);
        let is_its = pending.get(call_id).is_some_and(|known| known.by.as_deref() == by);
        let found = if is_its { pending.remove(call_id) } else { None };
        drop(pending);
        let taken = found.is_some_and(|found| found.answer.send(answer).is_ok());
        if !taken {
            self.counters.results_dropped.inc();
        }
    }
}

#[cfg(test)]
impl Actions {
    pub fn under_way(&self) -> usize {
        locked(&self.pending).len()
    }

    pub fn dropped(&self) -> u64 {
        self.counters.results_dropped.get()
    }

    pub fn too_many(&self) -> u64 {
        self.counters.too_many.get()
    }

    /// As many are under way as there may be.
    pub fn fill(&self) {
        let place = || Pending { by: None, of: None, answer: oneshot::channel().0 };
        locked(&self.pending).extend((0..PENDING_MAX).map(|n| (n.to_string(), place())));
    }
}

/// Takes an action out of the table, however it ends.
struct Waiting<'a> {
    actions: &'a Actions,
    call_id: String,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        locked(&self.actions.pending).remove(&self.call_id);
    }
}

fn envelope(client: &Client, call_id: String, tool: &str, limit: Duration, call: &Approved) -> ActionRequestEnvelope {
    ActionRequestEnvelope {
        session_id: client.session_id.clone(),
        call_id,
        // The stream knows which turn it is.
        turn_id: String::new(),
        source: ActionSource::Llm.into(),
        tool_call: Some(McpToolCall { tool_name: tool.to_owned(), arguments: Some(to_struct(call.arguments())) }),
        timeout_ms: u32::try_from(limit.as_millis()).unwrap_or(u32::MAX),
        fire_and_forget: !call.is_waited_for(),
        dispatched_at: Some(now()),
    }
}

/// An action that is not answered yet. On a busy machine it begins so late that the call gives it up before its own limit.
struct Open<'a> {
    actions: &'a Actions,
    client: Option<&'a Client>,
    call: &'a Approved,
    limit: Duration,
    is_over: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let age = Instant::now().into_std().saturating_duration_since(self.call.since());
        if !self.is_over && age >= self.limit {
            self.actions.timed_out(self.client, self.call);
        }
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long an action may take.
fn limit(call: &Approved) -> Duration {
    call.time_left().saturating_sub(ACTION_MARGIN).max(call.time_left() / 2)
}

fn failed(kind: ToolError, message: &str, call: &Approved) -> ToolOutcome {
    let passes = matches!(kind, ToolError::Timeout | ToolError::Transient);
    ToolOutcome::Failed(Failure {
        retryable: passes && call.is_repeatable(),
        partial_side_effects: call.writes() && kind != ToolError::NotFound,
        ..Failure::new(kind, message)
    })
}

/// What a model is told of an answer (V24, V answer 10): never nothing.
fn outcome(result: ActionResultEnvelope, call: &Approved) -> ToolOutcome {
    match result.status() {
        ActionStatus::Success => {
            let result = result.result.unwrap_or_default();
            let parts: Vec<Value> = result.content.into_iter().map(part).collect();
            let told = mcp::first_text(json!({ "content": parts, "isError": result.is_error }));
            let mut outcome = mcp::outcome(&told, &Speech::default(), false);
            if let ToolOutcome::Failed(failure) = &mut outcome {
                failure.partial_side_effects = call.writes();
            }
            outcome
        }
        ActionStatus::Unsupported => failed(ToolError::NotFound, "The client does not know this tool.", call),
        ActionStatus::PolicyDeny => failed(ToolError::Refused, "The action was denied by the client's rules.", call),
        ActionStatus::Error | ActionStatus::Unspecified | ActionStatus::Pending => {
            let clean = result.error_message.chars().map(|c| if c.is_control() { ' ' } else { c });
            let clean: String = clean.take(MESSAGE_CHARS_MAX).collect();
            failed(ToolError::Permanent, format!("The action failed. {}", clean.trim()).trim(), call)
        }
    }
}

/// As MCP has it in JSON.
fn part(part: McpContent) -> Value {
    match part.r#type.as_str() {
        "image" => json!({ "type": "image", "data": part.data, "mimeType": part.mime_type }),
        "resource" => json!({ "type": "resource", "resource": {
            "uri": part.resource_uri, "mimeType": part.mime_type, "text": part.text,
        } }),
        _ => json!({ "type": "text", "text": part.text }),
    }
}
