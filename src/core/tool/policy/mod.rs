//! The one decision point of the tool path. Pure: time is an argument.
//!
//! ```text
//! decode → replay → lookup → mode → arguments → budget, loop → gate → Approved ─ run ─▶ settle → answer
//!    └────────┴────────┴───────┴────────┴───────────┴───────────┴──▶ answered at once, nothing ran
//! ```
//!
//! One [`CallPolicy`] belongs to one call. [`CallPolicy::admit`] alone makes an [`Approved`], and a
//! [`Tool`](super::Tool) takes nothing else, so no tool can be reached around the policy.

mod approved;
mod asking;
mod audit;
mod authority;
mod confirm;
mod earlier;
mod envelope;
mod judge;
mod key;
mod party;
mod read_back;
mod residency;
mod rules;
mod secrets;
mod settle;
#[cfg(test)]
mod tests;
mod turns;
mod whole;

pub use approved::{Approved, RemoteQuestion, ToolCallId};
pub use asking::ReadOut;
pub use audit::Audit;
pub use authority::Source;
pub use confirm::Verdict;
pub use judge::Words;
pub use rules::{AnswerLimits, Asker, ConfirmRules, ErrorTypes, OnDefer, PolicyRules, RemoteUse, ResultShape};
pub use settle::Settled;

use super::{
    CallAction, Failure, Memory, Mode, ToolCall, ToolError, ToolKind, ToolSpec, UnknownArgs,
    budget::{Exceeded, Spending},
    canonical,
    loops::LoopGuard,
    replay::{Arrival, Replay, replayed},
    toolbox::{Entry, Toolbox},
};
use crate::{
    facts::Residency,
    gate::{AuthState, Decision, Gate, Route},
    redact::Redacted,
};
use approved::Ticket;
use authority::{Approval, Authority};
use confirm::{Confirmations, Token};
use earlier::Earlier;
use envelope::Meta;
use jiff::Timestamp;
use key::Key;
use secrets::Secrets;
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use turns::Turns;

/// Arguments longer than this are a model gone wrong, not a request.
const ARGUMENT_BYTES_MAX: usize = 64 * 1024;
/// The reserved argument that carries the token of a confirmation. It never reaches a tool.
pub const CONFIRMATION_TOKEN: &str = "confirmationToken";
/// How long a call with a token waits for the transcript of the caller's answer: transcribers take
/// about a second, and the caller is waiting.
const WORDS_MAX: Duration = Duration::from_millis(2500);
/// What is kept of a name that a model made up.
pub const NAME_CHARS_MAX: usize = 64;

/// What a call brings along when it begins.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// Names the call in audit lines and keys.
    pub session: String,
    pub mode: Mode,
    /// The network gave a number.
    pub caller_known: bool,
    /// What a trusted dialplan context says of the caller.
    pub authorization: Option<AuthState>,
    /// What the caller's PIN is compared with.
    pub pin: Option<Redacted<String>>,
    pub memory: Memory,
    /// Of the provider.
    pub answers: AnswerLimits,
    /// Where what is said may go.
    pub residency: Residency,
}

pub struct CallPolicy {
    rules: Arc<PolicyRules>,
    gate: Gate,
    toolbox: Arc<Toolbox>,
    opening: Opening,
    began: (Instant, Timestamp),
    turns: Turns,
    spending: Spending,
    loops: LoopGuard,
    replay: Replay<ToolCallId>,
    earlier: Earlier,
    confirmations: Confirmations,
    authority: Authority,
    memory: Arc<Memory>,
    running: HashMap<ToolCallId, Ticket>,
    secrets: Secrets,
    read_out: ReadOut,
}

impl fmt::Debug for CallPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallPolicy")
            .field("turns", &self.turns)
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}

/// What becomes of a call.
#[derive(Debug)]
pub enum Admission {
    /// It may run. `dispatched` is the answer where the model does not wait for the outcome.
    Run { call: Box<Approved>, dispatched: Option<String> },
    /// The same call is running: it is answered when that one is.
    Attached,
    /// The caller's answer was not transcribed yet: to be admitted again when it is, at the latest
    /// `until` then.
    Wait { until: Instant },
    /// Nothing runs.
    Answered(Box<Answer>),
}

/// One answer to the model, with its line for the audit log.
#[derive(Debug)]
pub struct Answer {
    pub id: ToolCallId,
    pub output: String,
    /// `None`: no tool of this context.
    pub tool: Option<String>,
    /// `None`: it worked.
    pub error: Option<ToolError>,
    /// What the refusal asks of the call.
    pub actions: Vec<CallAction>,
    pub audit: Audit,
}

/// A call whose arguments were read, on its way through the steps.
struct Candidate<'a> {
    call: &'a ToolCall,
    entry: Arc<Entry>,
    arguments: Map<String, Value>,
    token: Option<String>,
    audit: Audit,
    now: Timestamp,
}

/// A stop on the way: the failure, and what is asked of the call.
type Stop = (Box<Failure>, Vec<CallAction>);

impl CallPolicy {
    /// `began` is the same moment on both clocks.
    pub fn new(
        toolbox: Arc<Toolbox>,
        rules: Arc<PolicyRules>,
        mut opening: Opening,
        began: (Instant, Timestamp),
    ) -> Self {
        let mut authority = Authority::default();
        if opening.caller_known {
            authority.prove(Source::CallerId, AuthState::UserClaimed, began.1);
        }
        if let Some(state) = opening.authorization {
            authority.prove(Source::Dialplan, state, began.1);
        }
        Self {
            gate: Gate::new(rules.gate.clone()),
            spending: Spending::new(rules.budgets),
            memory: Arc::new(std::mem::take(&mut opening.memory)),
            rules,
            toolbox,
            opening,
            began,
            turns: Turns::default(),
            loops: LoopGuard::default(),
            replay: Replay::default(),
            earlier: Earlier::default(),
            confirmations: Confirmations::default(),
            authority,
            running: HashMap::new(),
            secrets: Secrets::default(),
            read_out: ReadOut::default(),
        }
    }

    /// Decides whether a call may run: steps 1 to 7.
    pub fn admit(&mut self, id: ToolCallId, call: &ToolCall, now: Instant) -> Admission {
        let wall = self.wall(now);
        let mut audit = self.audit(id);
        if let Some(entry) = self.toolbox.entry(&call.name) {
            audit.tool(&entry.spec);
        }
        let turn = self.turns.id();
        let arguments = match decode(call) {
            Ok(arguments) => arguments,
            Err(failure) => {
                self.spending.arrives(&turn);
                return self.stop(id, call, audit, (self.within_budget(&turn, failure), Vec::new()));
            }
        };
        let key = self.key(call, &arguments);
        // A hash over few possible arguments can be undone by trying them, so only ids are told.
        if key.text.starts_with("provider:") {
            audit.idempotency_key.clone_from(&key.text);
        }
        match self.replay.arrive(&key.text, id) {
            Arrival::First(_) => {}
            Arrival::Attached => return Admission::Attached,
            Arrival::Stored(_, envelope) => {
                let envelope = replayed(envelope);
                return Admission::Answered(Box::new(self.answer_again(id, call, envelope, audit)));
            }
            Arrival::Crowded(_) => {
                let failure = Failure::new(ToolError::SessionInactive, "This call is running already.");
                return self.stop(id, call, audit, (failure.into(), Vec::new()));
            }
        }
        self.spending.arrives(&turn);
        let candidate = match self.check(call, arguments, &mut audit, wall) {
            Ok(candidate) => candidate,
            Err(failure) => return self.stop(id, call, audit, (self.within_budget(&turn, failure), Vec::new())),
        };
        self.decide(id, candidate, key, now)
    }

    /// A call that comes when nothing new may begin.
    pub fn refuse(&mut self, id: ToolCallId, call: &ToolCall, message: &str) -> Answer {
        let mut audit = self.audit(id);
        if let Some(entry) = self.toolbox.entry(&call.name) {
            audit.tool(&entry.spec);
        }
        self.answer(id, call, audit, (Failure::new(ToolError::SessionInactive, message).into(), Vec::new()))
    }

    // ---- What the caller does ----

    pub fn caller_spoke(&mut self, utterance: Option<Arc<str>>, now: Instant) {
        self.turns.began(utterance);
        self.prove(Source::CallerTurn, AuthState::UserClaimed, now);
    }

    /// The provider has a name for the turn that began last; its transcript carries it too.
    pub fn utterance_named(&mut self, utterance: Option<Arc<str>>) {
        if let Some(name) = utterance {
            self.turns.named(name);
        }
    }

    pub fn caller_stopped(&mut self, now: Instant) {
        self.turns.stopped(now);
    }

    /// The caller's words, as their own channel was transcribed.
    pub fn caller_said(&mut self, utterance: Option<&str>, text: &str, now: Instant) -> Option<Verdict> {
        let turn = self.turns.transcribed(utterance, now)?;
        let wall = self.wall(now);
        self.confirmations.caller_said(text, turn, wall, &self.rules.confirm)
    }

    pub fn caller_pressed(&mut self, key: char, now: Instant) -> Option<Verdict> {
        self.turns.pressed();
        self.prove(Source::CallerTurn, AuthState::UserClaimed, now);
        let (turn, wall) = (self.turns.number(), self.wall(now));
        self.confirmations.caller_pressed(key, turn, wall, &self.rules.confirm)
    }

    /// The caller has typed what a tool asked for: a turn of theirs, and an answer to no question.
    pub fn caller_typed(&mut self) {
        self.turns.pressed();
    }

    pub fn agent_said(&mut self, text: &str) {
        self.confirmations.agent_said(text, self.turns.number());
    }

    /// The agent is told to say something else than the open question.
    pub fn agent_is_to_say(&mut self, text: &str) {
        self.confirmations.agent_is_to_say(text, self.turns.number());
    }

    /// The engine puts the open question now; `false` if it has, and the caller has said nothing since.
    pub fn puts_question(&mut self) -> bool {
        self.confirmations.is_put()
    }

    /// The caller has heard this question as a clip.
    pub fn question_was_heard(&mut self, question: &str) {
        self.confirmations.was_heard(question);
    }

    /// They have not; the agent puts it.
    pub fn question_was_not_heard(&mut self) {
        self.confirmations.was_not_heard();
    }

    /// The caller interrupted what the agent was saying before they had heard it.
    pub fn question_was_cut(&mut self) {
        self.confirmations.was_cut();
    }

    /// Transcripts that were waited for are given up.
    pub fn words_do_not_come(&mut self) {
        self.turns.give_up();
    }

    /// Another context goes on with the call: other tools and rules, the same caller.
    pub fn change_hands(&mut self, toolbox: Arc<Toolbox>, rules: Arc<PolicyRules>, answers: AnswerLimits) {
        self.gate = Gate::new(rules.gate.clone());
        self.spending = Spending::new(rules.budgets);
        // A yes was given to the other agent's question.
        self.confirmations = Confirmations::default();
        // Another agent counts its calls and its utterances anew: an id of its own that looks like
        // one of the former agent's is not the same call, and may be of a tool it does not have.
        self.replay = Replay::default();
        self.earlier.forget();
        self.turns.forget_all();
        self.opening.answers = answers;
        (self.toolbox, self.rules) = (toolbox, rules);
    }

    /// The context that has the call now may keep another PIN of the same caller. Wrong ones count on.
    pub fn expect_pin(&mut self, pin: Option<Redacted<String>>) {
        self.opening.pin = pin;
    }

    /// Raises the caller's authorization.
    pub fn prove(&mut self, source: Source, state: AuthState, now: Instant) {
        let wall = self.wall(now);
        self.authority.prove(source, state, wall);
    }

    pub fn authorization(&self) -> AuthState {
        self.authority.state()
    }

    /// The caller's turn: counts up with everything they say, press or type.
    pub const fn turn(&self) -> u64 {
        self.turns.number()
    }

    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub fn toolbox(&self) -> &Arc<Toolbox> {
        &self.toolbox
    }

    // ---- The steps ----

    /// Steps 3 to 6: lookup, mode, arguments, budget and loop.
    fn check<'a>(
        &self,
        call: &'a ToolCall,
        mut arguments: Map<String, Value>,
        audit: &mut Audit,
        now: Timestamp,
    ) -> Result<Candidate<'a>, Box<Failure>> {
        let Some(entry) = self.toolbox.entry(&call.name) else {
            let name: String = call.name.chars().take(NAME_CHARS_MAX).collect();
            return Err(Failure::new(ToolError::NotFound, format!("Unknown tool: {name}")).into());
        };
        let spec = &entry.spec;
        if !spec.modes.allow(self.opening.mode) {
            let mode = self.opening.mode.label();
            let message = format!("Tool {} not available in {mode} mode", spec.name);
            return Err(Failure::new(ToolError::ModeRestricted, message).into());
        }
        let token = match arguments.shift_remove(CONFIRMATION_TOKEN) {
            Some(Value::String(token)) => Some(token),
            _ => None,
        };
        self.secrets.fill(spec, &mut arguments);
        let checked = entry.arguments.check(arguments).map_err(|unfit| {
            let mut failure = Failure::new(ToolError::Validation, unfit.message());
            failure.details = json!({ "errors": unfit.problems });
            Box::new(failure)
        })?;
        audit.keys(&checked.arguments, &spec.parameters);
        audit.dropped_arguments = checked.dropped.paths;
        if spec.unknown_args == UnknownArgs::Reject && !audit.dropped_arguments.is_empty() {
            let names = audit.dropped_arguments.join(", ");
            let message = format!("Invalid parameters: {names} is not known");
            return Err(Failure::new(ToolError::Validation, message).into());
        }
        let turn = self.turns.id();
        self.spending.check(&turn, spec.kind == ToolKind::Retrieval).map_err(beyond)?;
        if let Some(found) = self.loops.check(&turn, &spec.name, &checked.arguments) {
            let mut failure = Failure::new(ToolError::LoopDetected, found.message(&spec.name));
            failure.details = json!({ "loopType": found.kind.label(), "count": found.count });
            return Err(failure.into());
        }
        Ok(Candidate { call, entry: Arc::clone(entry), arguments: checked.arguments, token, audit: audit.clone(), now })
    }

    /// Step 7: the gate, and what its answer means for a telephone.
    fn decide(&mut self, id: ToolCallId, mut candidate: Candidate<'_>, key: Key, now: Instant) -> Admission {
        let spec = &candidate.entry.spec;
        if let Some(failure) = self.kept(spec) {
            candidate.audit.kept();
            self.loops.count(&self.turns.id(), &spec.name, &candidate.arguments);
            let Candidate { call, audit, .. } = candidate;
            return self.stop(id, call, audit, (failure, Vec::new()));
        }
        if let Some(failure) = self.may_be_repeated(spec) {
            self.loops.count(&self.turns.id(), &spec.name, &candidate.arguments);
            let Candidate { call, audit, .. } = candidate;
            return self.stop(id, call, audit, (failure.into(), Vec::new()));
        }
        let digest = canonical::arguments_digest(&candidate.arguments);
        let token =
            candidate.token.as_deref().map(|token| self.confirmations.spend(token, &spec.name, digest, candidate.now));
        if token == Some(Token::Open)
            && self.rules.confirm.by_voice
            && let Some(asked_in) = self.confirmations.asked_in()
            && self.turns.awaits_words_after(asked_in, now)
        {
            self.spending.waits(&self.turns.id());
            return Admission::Wait { until: now + WORDS_MAX };
        }
        let approval = match token {
            Some(Token::Granted) => Some(Approval::Caller),
            _ if spec.standing_approval && !spec.requires_confirmation => Some(Approval::Standing),
            _ => None,
        };
        let decision = self.ask_gate(&candidate, approval);
        candidate.audit.route = Some(decision.route().label());
        candidate.audit.gate_decision = Some(if decision.executes() { "pass" } else { "fail" });
        candidate.audit.hard_blockers = decision.hard_blockers().iter().map(ToString::to_string).collect();
        let identified = self.authority.state() >= spec.requires_authorization;
        // A gate that decides alone is asked before the tool runs.
        let unasked = spec.requires_confirmation && approval != Some(Approval::Caller);
        let left_to_another = self.rules.remote_gate == RemoteUse::Alone && !unasked;
        if identified && (decision.executes() || left_to_another) {
            return self.approve(id, candidate, approval, key, now);
        }
        // Also a call that is asked about again and again is a loop.
        self.loops.count(&self.turns.id(), &spec.name, &candidate.arguments);
        let helps = || self.ask_gate(&candidate, Some(Approval::Caller)).executes();
        let stop = match decision.route() {
            Route::Refuse => (Failure::new(ToolError::Refused, asking::refusal(&decision)).into(), Vec::new()),
            Route::Ask if identified && approval != Some(Approval::Caller) && helps() => {
                let (failure, actions) = self.question(spec, &candidate.arguments, digest, candidate.now);
                (failure.into(), actions)
            }
            // The gate may let pass what the operator wants a better proof for.
            Route::Accept => self.deferred(spec, Route::Defer, &[]),
            route => self.deferred(spec, route, decision.hard_blockers()),
        };
        let Candidate { call, audit, .. } = candidate;
        self.stop(id, call, audit, stop)
    }

    fn ask_gate(&self, candidate: &Candidate<'_>, approval: Option<Approval>) -> Decision {
        self.gate.decide(&self.event(candidate, approval), candidate.now)
    }

    /// Step 8: what was admitted is counted, and gets its pass.
    fn approve(
        &mut self,
        id: ToolCallId,
        candidate: Candidate<'_>,
        approval: Option<Approval>,
        Key { text: key, content }: Key,
        now: Instant,
    ) -> Admission {
        let remote = (self.rules.remote_gate != RemoteUse::None).then(|| {
            let event = self.event(&candidate, approval);
            Box::new(RemoteQuestion { event, confirmed: approval == Some(Approval::Caller) })
        });
        let Candidate { call, entry, arguments, audit, .. } = candidate;
        if self.replay.begin(&key, content).is_err() {
            let failure = Failure::new(ToolError::SessionInactive, "Too many tools are running.");
            return self.stop(id, call, audit, (failure.into(), Vec::new()));
        }
        let (turn, spec) = (self.turns.id(), &entry.spec);
        if spec.kind == ToolKind::Retrieval {
            self.spending.looks_up(&turn);
        }
        self.loops.count(&turn, &spec.name, &arguments);
        self.earlier.has_run(&spec.name, canonical::arguments_digest(&arguments), &key);
        let dispatched = (!spec.wait && remote.is_none()).then(|| {
            let done = super::Done { data: json!({ "status": "dispatched" }), ..Default::default() };
            self.text(envelope::success(&done, self.meta(spec, Duration::ZERO)))
        });
        // Keys are told apart within a call only; services see all calls.
        let keys = (key.clone(), canonical::digest_of(&format!("{}:{key}", self.opening.session)));
        let approved = Approved::new(id, spec, arguments.clone(), keys, Arc::clone(&self.memory), remote, now)
            .at_most(self.rules.tool_time_max);
        let detached = dispatched.is_some();
        self.running.insert(id, Ticket { entry, key, turn, audit, arguments, began: now, detached });
        Admission::Run { call: Box::new(approved), dispatched }
    }

    // ---- Small steps ----

    /// Why a call is refused, unless it is one too many of this turn anyway.
    fn within_budget(&self, turn: &str, failure: Box<Failure>) -> Box<Failure> {
        self.spending.check(turn, false).map_or_else(beyond, |()| failure)
    }

    fn wall(&self, now: Instant) -> Timestamp {
        let since = now.saturating_duration_since(self.began.0);
        self.began.1.checked_add(since).unwrap_or(self.began.1)
    }

    fn audit(&self, id: ToolCallId) -> Audit {
        Audit::new(
            id.to_string(),
            &self.opening.session,
            self.opening.mode,
            self.toolbox.version(),
            self.turns.number(),
        )
    }

    fn meta<'a>(&'a self, spec: &'a ToolSpec, duration: Duration) -> Meta<'a> {
        Meta { tool: &spec.name, spec: Some(spec), registry_version: self.toolbox.version(), duration }
    }

    fn text(&self, envelope: Value) -> String {
        envelope::text(envelope, self.rules.result, self.opening.answers.under(&self.rules))
    }

    fn stop(&self, id: ToolCallId, call: &ToolCall, audit: Audit, stop: Stop) -> Admission {
        Admission::Answered(Box::new(self.answer(id, call, audit, stop)))
    }

    fn answer(&self, id: ToolCallId, call: &ToolCall, audit: Audit, (failure, actions): Stop) -> Answer {
        let entry = self.toolbox.entry(&call.name);
        let name: String = call.name.chars().take(NAME_CHARS_MAX).collect();
        let meta = Meta {
            tool: &name,
            spec: entry.map(|entry| &entry.spec),
            registry_version: self.toolbox.version(),
            duration: Duration::ZERO,
        };
        let output = self.text(envelope::failure(&failure, meta, self.rules.error_types));
        let tool = entry.map(|entry| entry.spec.name.clone());
        Answer { id, output, tool, error: Some(failure.kind), actions, audit: audit.failed(&failure) }
    }

    fn answer_again(&self, id: ToolCallId, call: &ToolCall, envelope: Value, mut audit: Audit) -> Answer {
        audit.replayed = true;
        audit.ok = envelope["ok"] == true;
        let error = envelope["error"]["type"].as_str().and_then(ToolError::parse);
        audit.error_type = error.map(ToolError::label);
        let tool = self.toolbox.entry(&call.name).map(|entry| entry.spec.name.clone());
        Answer { id, output: self.text(envelope), tool, error, actions: Vec::new(), audit }
    }
}

/// The caller waits while a model goes in circles, so it is told what to do instead.
fn beyond(exceeded: Exceeded) -> Box<Failure> {
    let mut failure = Failure::new(ToolError::BudgetExceeded, exceeded.to_string());
    failure.details = json!({ "next": "Call no tool before the caller has answered; tell them what you know." });
    failure.into()
}

/// Step 1: from the model's text to an object.
fn decode(call: &ToolCall) -> Result<Map<String, Value>, Box<Failure>> {
    let invalid = |message: &str| Err(Failure::new(ToolError::Validation, message).into());
    if call.name.is_empty() {
        return invalid("The call names no tool.");
    }
    if call.arguments.len() > ARGUMENT_BYTES_MAX {
        return invalid("The arguments are too long.");
    }
    // Models leave the arguments of a tool without parameters empty.
    if call.arguments.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(_)) if whole::is_rounded(&call.arguments) => invalid(whole::TOO_LONG),
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => invalid("The arguments have to be a JSON object."),
        Err(_) => invalid("The arguments are not valid JSON."),
    }
}
