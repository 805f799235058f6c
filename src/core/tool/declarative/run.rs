//! One run of a declarative tool.
//!
//! parameters bound → actions in order → `on_success`, or `on_failure` from the first action that did
//! not work → outcome. Everything is read and written in a working copy of the call's memory; what is
//! kept of it comes back as changes.

use super::{
    definition::{Action, Definition, Handoff, Level, Words},
    fault::Fault,
    scene::{Opening, Scene},
};
use crate::{
    redact::Redacted,
    tool::{CallAction, Change, Done, Failure, Fetch, Memory, ToolError, ToolOutcome, memory::weight},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// Of what the model is given to read: more drowns what was asked for, and costs at every turn.
const DATA_BYTES_MAX: usize = 16 * 1024;
/// Messages of a run whose definition says nothing.
pub const SUCCESS: &str = "Done.";
pub const FAILURE: &str = "That did not work.";

/// What a run begins with.
#[derive(Clone, Default)]
pub struct RunInput {
    pub arguments: Map<String, Value>,
    pub memory: Arc<Memory>,
    pub call: CallView,
    /// Of the tool call; requests derive their own from it.
    pub idempotency_key: String,
    /// Until the tool call is answered without this run.
    pub time_left: Duration,
}

/// What templates see as `call`.
#[derive(Clone, Default)]
pub struct CallView {
    pub id: String,
    pub caller_number: Option<String>,
    pub caller_name: Option<String>,
    /// Also the one whose `agents.…` may be written.
    pub context_name: String,
    pub direction: String,
}

/// What a run uses of the world.
#[derive(Clone, Copy)]
pub struct Services<'a> {
    /// `None`: nothing is sent; a request counts as answered with 200 and no body.
    pub fetch: Option<&'a dyn Fetch>,
    pub now: &'a (dyn Fn() -> Timestamp + Send + Sync),
    /// Words to be spoken at once; the outcome's message does not have them.
    pub on_immediate: &'a (dyn Fn(&str) + Send + Sync),
}

#[derive(Debug)]
pub struct Report {
    pub outcome: ToolOutcome,
    /// One entry per action that ran; empty unless asked for.
    pub trace: Vec<TraceStep>,
    pub notes: Vec<Note>,
}

/// What one action did, secrets masked.
#[derive(Clone, PartialEq, Serialize)]
pub struct TraceStep {
    /// `actions[2].then[0]`
    pub action: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub success: bool,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spoken: Option<String>,
}

/// Things an operator may want to know of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A template named something that was not there.
    Missing { path: String },
    /// Requests were ended by the bound for live calls, not by their own.
    Capped { cap: Duration },
    /// A request failed, and the tool went on (`on_error: continue`).
    WentOn { action: String, kind: ToolError },
    /// An action of `on_success` or `on_failure` failed; the outcome stands.
    EndingFailed { action: String, kind: ToolError },
    /// The outcome's data was left out.
    DataTooLarge { bytes: usize },
    /// `log`. `template` is what the definition says; the message filled in may hold a caller's words.
    Log { level: Level, template: String, message: Redacted<String> },
}

impl Definition {
    /// Runs the tool. Dropping the future cancels it.
    pub async fn run(&self, input: RunInput, services: Services<'_>) -> Report {
        self.run_traced(input, services, false).await
    }

    /// Runs the tool and tells what each action did. Without [`Services::fetch`] nothing is sent.
    pub async fn dry_run(&self, input: RunInput, services: Services<'_>) -> Report {
        self.run_traced(input, services, true).await
    }

    async fn run_traced(&self, input: RunInput, services: Services<'_>, traced: bool) -> Report {
        let params = match self.bind(input.arguments) {
            Ok(params) => params,
            Err(fault) => {
                let outcome = ToolOutcome::failed(fault.kind, fault.message);
                return Report { outcome, trace: Vec::new(), notes: Vec::new() };
            }
        };
        let started = (services.now)();
        let scene = Scene::new(Opening {
            memory: (*input.memory).clone(),
            params,
            call: input.call.to_map(),
            now: started.to_string(),
            agent: input.call.context_name.clone(),
            user_writable: self.surroundings.user_writable,
            secrets: &self.secrets,
        });
        let mut runner = Runner {
            definition: self,
            services,
            scene,
            started,
            time_left: input.time_left,
            call_id: input.call.id,
            idempotency_key: input.idempotency_key,
            trace: traced.then(Vec::new),
            notes: Vec::new(),
            spoken: Vec::new(),
            intents: Vec::new(),
            data: Value::Null,
            wrote_outside: false,
            kept: 0,
            handed_over: false,
        };
        let outcome = runner.whole(&input.memory).await;
        let missing = runner.scene.take_missing().into_iter().map(|path| Note::Missing { path });
        runner.notes.extend(missing);
        Report { outcome, trace: runner.trace.unwrap_or_default(), notes: runner.notes }
    }
}

impl CallView {
    fn to_map(&self) -> Map<String, Value> {
        let entries: [(&str, Value); 5] = [
            ("id", self.id.as_str().into()),
            ("caller_number", self.caller_number.clone().into()),
            ("caller_name", self.caller_name.clone().into()),
            ("context_name", self.context_name.as_str().into()),
            ("direction", self.direction.as_str().into()),
        ];
        entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

pub(super) struct Runner<'a> {
    pub(super) definition: &'a Definition,
    pub(super) services: Services<'a>,
    pub(super) scene: Scene,
    pub(super) started: Timestamp,
    pub(super) time_left: Duration,
    pub(super) call_id: String,
    pub(super) idempotency_key: String,
    pub(super) notes: Vec<Note>,
    /// A request that may have changed something was sent.
    pub(super) wrote_outside: bool,
    /// Changes that stay although the run fails later.
    pub(super) kept: usize,
    trace: Option<Vec<TraceStep>>,
    spoken: Vec<String>,
    intents: Vec<CallAction>,
    /// Of the last action that had some.
    data: Value,
    handed_over: bool,
}

/// What an action that worked leaves behind.
#[derive(Default)]
pub(super) struct Effect {
    /// For the model, the trace and `result`.
    pub(super) data: Value,
    /// `result`, where it is more than `data`.
    pub(super) result: Option<Value>,
    pub(super) spoken: Option<String>,
    /// `spoken` was delivered at once.
    pub(super) said: bool,
    /// For the trace, where that is something else again.
    pub(super) shown: Option<Value>,
    /// It did not work, and the run goes on.
    pub(super) error: Option<Fault>,
}

impl Effect {
    fn of(data: Value) -> Self {
        Self { data, ..Self::default() }
    }

    fn shown(&self) -> Value {
        self.shown.as_ref().or(self.result.as_ref()).unwrap_or(&self.data).clone()
    }
}

impl Runner<'_> {
    async fn whole(&mut self, before: &Memory) -> ToolOutcome {
        let definition = self.definition;
        match self.list(&definition.actions, "actions").await {
            Ok(()) => {
                // What was done is done: a failure here is no reason to say that it was not.
                if let Err((action, fault)) = self.list(&definition.on_success, "on_success").await {
                    self.notes.push(Note::EndingFailed { action, kind: fault.kind });
                }
                self.done(self.scene.changes.clone(), SUCCESS)
            }
            Err((action, fault)) => self.failed(before, action, fault).await,
        }
    }

    async fn failed(&mut self, before: &Memory, action: String, fault: Fault) -> ToolOutcome {
        let definition = self.definition;
        // What was to be said of a success is not said.
        self.spoken.clear();
        self.intents.clear();
        self.handed_over = false;
        self.data = Value::Null;
        self.scene.result = json!({ "error": self.shown(&fault) });
        let own = self.scene.changes.len();
        if let Err((action, fault)) = self.list(&definition.on_failure, "on_failure").await {
            self.notes.push(Note::EndingFailed { action, kind: fault.kind });
        }
        let changes = self.changes_of_failure(before, own);
        let mut details = json!({ "action": action, "reason": fault.reason });
        if let Some(status) = fault.status {
            details["status"] = status.into();
        }
        if let Some(attempts) = fault.attempts {
            details["attempts"] = attempts.into();
        }
        // Only a success can ask something of the call, so a failure that hands over is one.
        if !self.intents.is_empty() && self.handed_over {
            self.data = json!({ "error": self.shown(&fault) });
            return self.done(changes, FAILURE);
        }
        let message = match self.words() {
            Some(words) => words,
            None if fault.message.is_empty() => FAILURE.to_owned(),
            None => self.scene.secrets.mask_text(&fault.message),
        };
        let passing = matches!(fault.kind, ToolError::Transient | ToolError::RateLimit | ToolError::Timeout);
        ToolOutcome::Failed(Failure {
            retryable: passing && definition.is_idempotent(),
            partial_side_effects: self.wrote_outside,
            details: self.scene.secrets.mask(details),
            changes,
            ..Failure::new(fault.kind, message)
        })
    }

    /// What a failed run keeps: what was written before an error it went on from, and what
    /// `on_failure` wrote, as far as that can be written without the rest.
    fn changes_of_failure(&self, before: &Memory, own: usize) -> Vec<Change> {
        let (run, ending) = self.scene.changes.split_at(own);
        let kept = run.iter().take(self.kept).chain(ending);
        let mut memory = before.clone();
        kept.filter(|change| memory.write(change).is_ok()).cloned().collect()
    }

    fn done(&mut self, changes: Vec<Change>, default: &str) -> ToolOutcome {
        let definition = self.definition;
        let silent = definition.on_success.is_empty() && definition.on_failure.is_empty();
        let message = self.words().or_else(|| silent.then(|| default.to_owned()));
        let mut data = std::mem::take(&mut self.data);
        let bytes = weight(&data);
        if bytes > DATA_BYTES_MAX {
            self.notes.push(Note::DataTooLarge { bytes });
            data = json!({ "truncated": true });
        }
        ToolOutcome::Done(Done { message, data, actions: std::mem::take(&mut self.intents), changes })
    }

    fn words(&self) -> Option<String> {
        let words: Vec<&str> = self.spoken.iter().map(|words| words.trim()).filter(|words| !words.is_empty()).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// Runs the actions until one fails or hands the call over. The error names the action.
    fn list<'s>(&'s mut self, actions: &'s [Action], at: &'s str) -> BoxFuture<'s, Result<(), (String, Fault)>> {
        async move {
            let handed_over = self.handed_over;
            for (index, action) in actions.iter().enumerate() {
                let at = format!("{at}[{index}]");
                if let Action::Conditional { condition, then, otherwise } = action {
                    let held = condition.holds(&self.scene.revealing());
                    let held = held.map(|held| (held, Effect::of(held.into())));
                    self.note_step(&at, action, held.as_ref().map(|(_, effect)| effect));
                    let (held, _) = held.map_err(|fault| (at.clone(), fault))?;
                    let (name, branch) = if held { ("then", then) } else { ("else", otherwise) };
                    self.list(branch, &format!("{at}.{name}")).await?;
                } else {
                    let done = match action {
                        Action::ApiCall(call) => self.api_call(call).await,
                        other => self.step(other),
                    };
                    self.note_step(&at, action, done.as_ref());
                    self.take_effect(&at, done.map_err(|fault| (at.clone(), fault))?);
                }
                if self.handed_over && !handed_over {
                    break;
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn take_effect(&mut self, at: &str, effect: Effect) {
        if let Some(fault) = effect.error {
            self.scene.result = json!({ "error": self.shown(&fault) });
            self.kept = self.scene.changes.len();
            self.notes.push(Note::WentOn { action: at.to_owned(), kind: fault.kind });
            return;
        }
        // What the caller has heard already is not said again.
        self.spoken.extend(effect.spoken.filter(|_| !effect.said));
        if let Some(result) = effect.result.or_else(|| (!effect.data.is_null()).then(|| effect.data.clone())) {
            self.scene.result = result;
        }
        if !effect.data.is_null() {
            self.data = effect.data;
        }
    }

    /// One action that waits for nothing.
    fn step(&mut self, action: &Action) -> Result<Effect, Fault> {
        match action {
            Action::ContextSet(entries) => {
                for (target, value) in entries {
                    let value = value.fill(&self.scene.reading())?;
                    self.scene.set(target, value)?;
                }
            }
            Action::ContextGet { paths, into } => {
                let reading = self.scene.reading();
                let value = match paths.as_slice() {
                    [one] => reading.value_or_null(one)?,
                    many => {
                        let entry = |path: &_| Ok((ToString::to_string(path), reading.value_or_null(path)?));
                        Value::Object(many.iter().map(entry).collect::<Result<_, Fault>>()?)
                    }
                };
                if let Some(target) = into {
                    self.scene.set(target, value.clone())?;
                }
                return Ok(Effect::of(value));
            }
            Action::ContextDelete(targets) => targets.iter().try_for_each(|target| self.scene.delete(target))?,
            Action::Handoff(handoff) => self.hand_over(handoff)?,
            Action::Respond { words, immediate } => {
                let spoken = self.respond(words)?;
                if *immediate {
                    (self.services.on_immediate)(&spoken);
                }
                return Ok(Effect { spoken: Some(spoken), said: *immediate, ..Effect::default() });
            }
            Action::FlagSet { flag, value } => {
                let value = value.fill(&self.scene.reading())?;
                self.scene.set(flag, value.clone())?;
                self.flag(&flag.path.to_string(), value == Value::Bool(true));
            }
            Action::FlagClear { flag } => {
                self.scene.delete(flag)?;
                self.flag(&flag.path.to_string(), false);
            }
            Action::Validate(rules) => {
                let (reading, public) = (self.scene.revealing(), self.scene.reading());
                rules.iter().try_for_each(|rule| rule.check(&reading, &public))?;
            }
            Action::Transform(transform) => {
                let value = transform.apply(&self.scene.reading())?;
                if let Some(target) = &transform.target {
                    self.scene.set(target, value.clone())?;
                }
                return Ok(Effect::of(value));
            }
            Action::Log { level, message } => {
                let template = message.source();
                let message = message.fill(&self.scene.reading())?.into();
                self.notes.push(Note::Log { level: *level, template, message });
            }
            Action::ApiCall(_) | Action::Conditional { .. } => {}
        }
        Ok(Effect::default())
    }

    fn flag(&mut self, path: &str, value: bool) {
        let name = path.trim_start_matches("flags.").to_owned();
        self.intents.push(CallAction::Flag { name, value });
    }

    fn respond(&self, words: &Words) -> Result<String, Fault> {
        let reading = self.scene.reading();
        match words {
            Words::Message(message) => message.fill(&reading),
            Words::Key { texts, .. } => {
                let callers = self.scene.memory.user.get("language").and_then(Value::as_str);
                let languages = callers.into_iter().chain([self.definition.surroundings.language.as_str()]);
                let found = |language: &str| {
                    let primary = language.split(['-', '_']).next().unwrap_or_default();
                    texts.get(language).or_else(|| texts.get(primary))
                };
                let text = languages.into_iter().find_map(found).or_else(|| texts.values().next());
                text.map_or(Ok(String::new()), |text| text.fill(&reading))
            }
        }
    }

    fn hand_over(&mut self, handoff: &Handoff) -> Result<(), Fault> {
        if self.handed_over {
            return Err(Fault::permanent("handed_over", "The call is handed over already."));
        }
        let surroundings = &self.definition.surroundings;
        let reading = self.scene.reading();
        let target = handoff.target.fill(&reading)?;
        if !surroundings.contexts.contains(&target) {
            return Err(Fault::permanent("unknown_context", "There is nobody of that name to hand the call to."));
        }
        let message = handoff.message.as_ref().map(|message| message.fill(&reading)).transpose()?;
        let context_passed = handoff.context_passed.as_ref().unwrap_or(&surroundings.shared_context).clone();
        self.intents.push(CallAction::Handoff { target, message, context_passed });
        self.handed_over = true;
        Ok(())
    }

    /// An error as templates, the model and the trace see it.
    fn shown(&self, fault: &Fault) -> Value {
        let error = json!({
            "type": fault.kind.label(),
            "reason": fault.reason,
            "message": fault.message,
            "status": fault.status,
            "attempts": fault.attempts,
        });
        self.scene.secrets.mask(error)
    }

    fn note_step(&mut self, at: &str, action: &Action, done: Result<&Effect, &Fault>) {
        if self.trace.is_none() {
            return;
        }
        let (effect, fault) = (done.ok(), done.err().or_else(|| done.ok().and_then(|effect| effect.error.as_ref())));
        let step = TraceStep {
            action: at.to_owned(),
            kind: action.label(),
            success: fault.is_none(),
            data: effect.map(Effect::shown).unwrap_or_default(),
            error: fault.map(|fault| self.shown(fault)),
            spoken: effect.and_then(|effect| effect.spoken.clone()),
        };
        self.trace.iter_mut().for_each(|trace| trace.push(step.clone()));
    }
}

/// Holds what callers said.
impl std::fmt::Debug for TraceStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceStep")
            .field("action", &self.action)
            .field("type", &self.kind)
            .field("success", &self.success)
            .finish_non_exhaustive()
    }
}
