//! The task that owns one call. It carries the core's decisions to the adapters and the adapters'
//! reports to the core; it decides nothing.
//!
//! Limits: commands to the provider are never waited for (`try_send`), so no cycle of full queues
//! can stand still; reports from the sides wait in bounded queues, which slows their senders down.

use super::{
    Shared,
    agent::{Briefing, Casting, Session, Told},
    bill::{self, Bill},
    ears::Ears,
    generation::Generation,
    line::Line,
    live::Entered,
    outside::Outside,
    post::Post,
    story::Story,
    succession::{self, Succession},
};
use crate::{
    audio::{Clip, FRAME, Format},
    call::{
        AgentCommand, AgentEvent, AgentLoss, CallMachine, EndReason, Input, LegCommand, LegEvent, Measure, Note,
        Output, TransferTarget,
    },
    config::Config,
    facts::{CallFacts, CallId},
    gate::Route,
    mcp::CallEnd,
    outbound::RemoteGate,
    records::{Diary, Recorder},
    redact::Redacted,
    telemetry::{FrameDrop, Stranded, ToolCallEnd},
    tool::{Approved, Audit, ToolCallId, ToolError, ToolOutcome, Toolbox, policy::RemoteQuestion},
};
use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashMap},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};
use tokio::{
    task::{AbortHandle, Id, JoinSet},
    time::Instant,
};
use tracing::{Span, debug, info, warn};

/// A note with the call it belongs to, for those who watch calls live.
#[derive(Debug, Clone)]
pub struct CallNote {
    pub call: CallId,
    /// Since the call began.
    pub at: Duration,
    pub note: Note,
}

pub(super) struct CallTask<'a> {
    pub facts: CallFacts,
    pub machine: CallMachine,
    pub toolbox: Arc<Toolbox>,
    pub session: Session,
    /// Of the configuration with which the call began.
    pub generation: &'a Generation,
    pub format: Format,
    /// Of the caller's channel, as the call began.
    pub variables: Redacted<BTreeMap<String, String>>,
    /// The channel is under ARI control.
    pub transfers: bool,
    /// Who carries the call on when the session ends.
    pub succession: Succession,
    pub outside: Outside,
    pub entered: &'a Entered,
    pub post: &'a mut Post,
    /// Where records are kept.
    pub diary: &'a mut Option<Diary>,
    /// Keeps what both sides sound like, as far as the core lets it.
    pub recorder: &'a mut Option<Recorder>,
    pub ears: Ears,
    /// What is told of the call to those who carry it on.
    pub story: Story,
    pub bill: &'a mut Bill,
    pub shared: &'a Shared,
    pub began: Instant,
    /// The agent that has the call now was heard; false when the call begins.
    pub agent_heard: bool,
}

/// What the task carries between two turns of its loop.
#[derive(Default)]
struct Running {
    tools: JoinSet<ToolOutcome>,
    ids: HashMap<Id, ToolCallId>,
    handles: HashMap<ToolCallId, AbortHandle>,
    sentences: JoinSet<(Redacted<String>, Option<Arc<Clip>>)>,
    end: Option<EndReason>,
}

impl CallTask<'_> {
    /// From the first ring to the end reason. The line is left to its owner, who clears it away.
    pub async fn run(&mut self, line: &mut Line) -> EndReason {
        let mut running = Running::default();
        let mut out = Vec::new();
        let wake = tokio::time::sleep_until(self.began);
        tokio::pin!(wake);
        loop {
            let deadline = self.machine.deadline();
            if let Some((at, _)) = deadline {
                let at = Instant::from_std(at);
                if wake.deadline() != at {
                    wake.as_mut().reset(at);
                }
            }
            tokio::select! {
                biased;
                input = self.outside.next() => self.step(input, &mut out),
                () = &mut wake, if deadline.is_some() => self.machine.on_deadline(now(), &mut out),
                Some(finished) = running.tools.join_next_with_id() => {
                    if let Some(input) = running.tool_finished(finished) {
                        self.step(input, &mut out);
                    }
                }
                Some(Ok((sentence, clip))) = running.sentences.join_next() => {
                    self.step(Input::Spoken { sentence, clip }, &mut out);
                }
                event = line.event() => {
                    if let LegEvent::Audio(audio) = &event {
                        self.recorder.iter_mut().for_each(|recorder| recorder.hears(audio));
                        self.ears.hears(audio, || self.machine.is_confidential(now()));
                    }
                    self.step(Input::Leg(event), &mut out);
                }
                event = self.session.event() => {
                    self.note_agent(&event);
                    self.step(Input::Agent(event), &mut out);
                }
                event = self.succession.event() => {
                    let next = self.note_next(event);
                    self.step(Input::Next(next), &mut out);
                }
            }
            self.carry_out(&mut out, line, &mut running);
            if let Some(reason) = running.end {
                return reason;
            }
        }
    }

    fn step(&mut self, input: Input, out: &mut Vec<Output>) {
        self.machine.step(input, now(), out);
    }

    fn carry_out(&mut self, out: &mut Vec<Output>, line: &mut Line, running: &mut Running) {
        // Carrying one thing out may make the core say another (a full queue, say).
        let mut again = Vec::new();
        while !out.is_empty() {
            for output in out.drain(..) {
                match output {
                    Output::ToLeg(LegCommand::Play(frame)) => {
                        let left = line.play(frame.clone());
                        if !left {
                            let without = line.is_without_path();
                            self.dropped(if without { FrameDrop::PathBroken } else { FrameDrop::LegFull }, 1);
                        }
                        if let Some(recorder) = self.recorder {
                            recorder.plays(left.then_some(&frame[..]), self.began.elapsed());
                        }
                        let slow = self.ears.plays(left.then_some(&frame[..]), || self.machine.is_confidential(now()));
                        self.shared.metrics.listeners_dropped(slow);
                    }
                    Output::ToLeg(command) => line.command(command),
                    Output::ToAgent(command) => {
                        if let Some(lost) = self.tell_agent(command) {
                            self.machine.step(lost, now(), &mut again);
                        }
                    }
                    Output::RunTool(call) => self.run_tool(call, running),
                    Output::Speak(sentence) => self.speak(sentence, running),
                    Output::CancelTool { id } => {
                        if let Some(handle) = running.handles.remove(&id) {
                            handle.abort();
                        }
                    }
                    Output::HandOff { target, message, known } => {
                        let input = self.hand_off(&target, message.as_deref(), &known);
                        self.machine.step(input, now(), &mut again);
                    }
                    Output::Dial(why) => {
                        let next = self.dial_next(why);
                        self.machine.step(Input::Next(next), now(), &mut again);
                    }
                    Output::TakeOver => self.take_over(),
                    Output::HangUpNext => self.hang_up_next(),
                    Output::Deliver(delivery) => {
                        let context = self.generation.config.contexts.get(&self.facts.context);
                        self.post.add(delivery, &self.facts, context.map(AsRef::as_ref));
                    }
                    Output::Note(note) => {
                        line.note(&note);
                        self.on_note(note);
                    }
                    Output::Measure(measure) => self.on_measure(measure),
                    Output::End(reason) => running.end = Some(reason),
                }
            }
            std::mem::swap(out, &mut again);
        }
    }

    /// What the core has to know of it: that the session does not read any more.
    fn tell_agent(&mut self, command: AgentCommand) -> Option<Input> {
        let audio = matches!(command, AgentCommand::Audio(_));
        let told = self.session.tell(command);
        if audio && told != Told::Taken {
            self.dropped(FrameDrop::AgentFull, 1);
        }
        if told != Told::Stalled {
            return None;
        }
        let lost = AgentEvent::Lost(AgentLoss::Stalled);
        self.note_agent(&lost);
        Some(Input::Agent(lost))
    }

    /// Dials the agent of another context and retires the old one's session.
    fn hand_off(&mut self, target: &str, message: Option<&str>, known: &Map<String, Value>) -> Input {
        let lost = Input::Agent(AgentEvent::Lost(AgentLoss::Protocol));
        let Some(context) = self.generation.config.contexts.get(target) else {
            warn!("a handoff to a context that this call's configuration does not have");
            return lost;
        };
        let order = succession::order(&context.provider, context);
        let Some((first, _)) = succession::first(self.shared, &order) else { return lost };
        let first = first.to_owned();
        let residency = self.facts.residency;
        let Some(casting) = Casting::of(self.generation, target, &first, self.transfers, residency) else {
            return lost;
        };
        // What becomes of the call from here on is the next provider's doing.
        self.part_ended(EndReason::Transferred);
        self.hang_up_next();
        self.agent_heard = false;
        self.facts.context.clone_from(&casting.context.name);
        self.facts.provider.clone_from(&first);
        Span::current().record("context", &*self.facts.context).record("provider", &*self.facts.provider);
        self.entered.handed_off(&self.facts);
        let handover = casting.handover(self.generation, &self.facts, self.variables.reveal());
        self.succession = Succession::new(order, &first, handover.rules.greeting.clone(), &handover.clips);
        let story = self.story.for_the_next(self.post.transcript(), message, known);
        let briefing = Briefing {
            story: Some(&story),
            resume: None,
            opens: self.succession.opens(),
            heard: self.succession.heard(),
            policy: succession::first_policy(&casting.context, self.succession.has_other()),
        };
        let session = casting.dial(self.shared, &self.facts, self.format, briefing, &Span::current());
        self.bill.session(&first, &session);
        // Told at once that nothing more is sent to it.
        std::mem::replace(&mut self.session, session).retire(&self.shared.calls);
        self.toolbox = Arc::clone(&casting.toolbox);
        Input::HandedOff(Box::new(handover))
    }

    fn speak(&self, sentence: Redacted<String>, running: &mut Running) {
        let repertoire = self.generation.repertoire(&self.facts.context).clone();
        let studio = Arc::clone(&self.shared.studio);
        running.sentences.spawn(async move {
            // The call waits for an answer, whatever becomes of a voice.
            let speaks = AssertUnwindSafe(repertoire.speak(sentence.reveal(), &studio)).catch_unwind();
            let clip = speaks.await.ok().flatten();
            (sentence, clip)
        });
    }

    fn run_tool(&mut self, call: Approved, running: &mut Running) {
        #[cfg(test)]
        assert!(!self.shared.breaks_on_tools.load(std::sync::atomic::Ordering::Relaxed), "the test breaks this call");
        let Some(tool) = self.toolbox.tool(&call) else { return };
        let id = call.id();
        let question = call.remote_question().cloned();
        let gate = question.map(|question| (self.generation.remote_gate(&self.facts.context), question));
        let (facts, latencies) = (self.facts.clone(), Arc::clone(&self.shared.latencies));
        let handle = running.tools.spawn(async move {
            let began = Instant::now();
            if let Some((gate, question)) = gate
                && let Err(refusal) = permitted(gate.as_deref(), &question).await
            {
                return refusal;
            }
            let name = call.name().to_owned();
            let outcome = tool.run(call, &facts).await;
            // A run that was given up says nothing of how long the tool takes.
            if !matches!(&outcome, ToolOutcome::Failed(failure) if failure.kind == ToolError::Timeout) {
                latencies.ran(&name, began.elapsed());
            }
            outcome
        });
        running.ids.insert(handle.id(), id);
        running.handles.insert(id, handle);
    }

    pub(super) fn on_note(&mut self, note: Note) {
        let note = without_strange_names(note, &self.generation.config);
        match &note {
            Note::Answered => info!("answered"),
            Note::AgentReady => debug!("agent ready"),
            Note::AgentSpeaks => {
                self.agent_heard = true;
                self.succession.greeted();
                self.shared.health.spoke(&self.facts.provider);
            }
            Note::AgentAnswered => self.agent_answered(),
            Note::BargeIn { heard } => debug!(heard_ms = heard.as_millis() as u64, "the caller interrupted"),
            Note::ToolAnswered { tool, error } => {
                // What was not even well formed is nobody's refusal.
                if let Some(tool) = tool
                    && error.is_some_and(|error| error.before_running() && error != ToolError::Validation)
                {
                    self.rejected(tool);
                }
                let tool = tool.as_deref().unwrap_or("unknown");
                info!(tool, outcome = error.map_or("OK", ToolError::label), "tool call answered");
                self.shared.metrics.tool_call(tool, error.map_or(ToolCallEnd::Done, ToolCallEnd::Failed));
            }
            Note::Failing(reason) => {
                warn!(reason = reason.label(), "{}; the caller hears the apology", reason.describe());
            }
            Note::ToolCancelled { tool } => {
                info!(tool = tool.as_str(), "a tool was still running and was cancelled");
                self.shared.metrics.tool_call(tool, ToolCallEnd::Cancelled);
            }
            Note::UnknownTool { name } => {
                tell_unknown(self.generation, name.reveal());
                self.rejected(name.reveal());
            }
            Note::Announced { tool } => info!(tool = tool.as_str(), "the agent is asked to announce a tool"),
            Note::Audit(line) => {
                audit(line);
                let context = self.generation.config.contexts.get(&self.facts.context);
                self.shared.audits.keep(context.and_then(|context| context.tenant.as_deref()), line);
            }
            Note::HandedOff { context } => info!(context = context.as_str(), "the call was handed to another context"),
            Note::Spoke { purpose } => self.shared.metrics.sentence(purpose),
            Note::FalseAlarm { why } => {
                debug!(why, "the caller was heard over the agent, and it was no interruption");
                self.shared.metrics.false_alarm(why);
            }
            Note::HalfDuplex(true) => {
                info!("the line's echo is too heavy for interruptions by voice");
                self.shared.metrics.half_duplex();
            }
            Note::HalfDuplex(false) => info!("the line's echo is gone; the agent can be interrupted by voice again"),
            Note::PartyChanged(party) => {
                info!("another party has the caller's place; the agent is told");
                self.facts.set_caller(party);
                // A PIN, and what the dialplan said of the caller, are the former party's.
                self.variables = Redacted::default();
                self.facts.variables = Redacted::default();
            }
            Note::PartyKnown(party) => self.facts.set_caller(party),
            Note::Held(true) => info!("the caller has the call on hold; the agent waits"),
            Note::Held(false) => info!("the caller has taken the call up again"),
            Note::Confirmed(verdict) => debug!(?verdict, "the caller answered a question"),
            Note::ActionRefused(what) => warn!("{what}"),
            Note::Transferring { to, by } => {
                let (TransferTarget::Destination(name) | TransferTarget::Mailbox(name)) = to;
                info!(to = name.as_str(), by = by.label(), "the caller is sent away");
            }
            Note::Transferred => info!("the caller was handed over"),
            Note::TransferFailed(why) => {
                self.shared.metrics.transfer_failed(*why, Stranded::Back);
                warn!(reason = why.label(), "{}; the caller stays with the agent", why.describe());
            }
            Note::Recording(state) => self.recorder.iter_mut().for_each(|recorder| recorder.set(*state)),
            _ => {}
        }
        // For mail, and for an agent that takes the call over.
        self.post.note(self.began.elapsed(), &note);
        if let Some(diary) = self.diary {
            diary.note(self.began.elapsed(), &note);
        }
        if matches!(note, Note::Said { .. }) {
            self.sum_up();
        }
        self.entered.observe(self.machine.phase(), &note);
        // Nobody watching is normal.
        let _ = self.shared.watchers.send(CallNote { call: self.facts.id, at: self.began.elapsed(), note });
    }

    /// A call that was not made, where it would have gone to an MCP server.
    fn rejected(&self, tool: &str) {
        if let Some((server, tool)) = self.generation.mcp_tool(tool) {
            self.shared.mcp.fleet.counters().call(server, tool, CallEnd::Rejected, None);
        }
    }

    fn on_measure(&mut self, measure: Measure) {
        let frames = |bytes: usize| bytes.div_ceil(self.machine.frame_bytes()) as u64;
        match measure {
            Measure::SetUp(took) => self.shared.metrics.setup(took),
            Measure::FirstAudio(took) => self.shared.metrics.first_audio(took),
            Measure::Turn(times) => {
                self.shared.metrics.turn(&self.facts.provider, &times);
                bill::tell_turn(&self.facts.provider, &times);
                if let Some(diary) = self.diary {
                    diary.turn(self.began.elapsed(), &self.facts.provider, &times);
                }
            }
            Measure::BargeInStop(took) => self.shared.metrics.barge_in_stop(took),
            Measure::SlotLate(late) => self.shared.metrics.tick(late),
            Measure::SlotsMissed(slots) => {
                self.shared.metrics.slots_missed(u64::from(slots));
                self.entered.missed(u64::from(slots));
                self.recorder.iter_mut().for_each(|recorder| recorder.misses(slots));
                self.ears.misses(slots);
            }
            Measure::StaleAudio(bytes) => self.shared.metrics.frames_dropped(FrameDrop::StaleResponse, frames(bytes)),
            Measure::Interrupted(bytes) => self.shared.metrics.frames_dropped(FrameDrop::Interrupted, frames(bytes)),
            Measure::TurnForgotten(bytes) => {
                self.shared.metrics.frames_dropped(FrameDrop::TurnForgotten, frames(bytes))
            }
            Measure::PathBroken(lost) => {
                self.dropped(FrameDrop::PathBroken, lost.div_duration_f64(FRAME).ceil() as u64)
            }
            Measure::OddId => self.shared.metrics.sessions().odd_id(&self.facts.provider),
            Measure::AskedAgain(lapse) => self.shared.metrics.sessions().asked_again(&self.facts.provider, lapse),
            Measure::CallerGap => self.shared.metrics.caller_gap(),
            Measure::PlayoutOverflow(bytes) => self.dropped(FrameDrop::PlayoutOverflow, frames(bytes)),
            Measure::Usage(usage) => {
                let (turn, prices) = (self.machine.turn(), &self.generation.config.prices);
                let used = self.bill.reported(&self.facts.provider, &usage, turn, prices, &self.shared.metrics);
                if let Some(diary) = self.diary {
                    used.into_iter().for_each(|used| diary.used(used));
                }
            }
        }
    }

    fn dropped(&self, cause: FrameDrop, frames: u64) {
        self.shared.metrics.frames_dropped(cause, frames);
        self.entered.dropped(frames);
    }
}

/// Only places of the configuration are named: a tool can ask for one that there is not, and call it by anything.
pub(super) fn without_strange_names(note: Note, config: &Config) -> Note {
    let Note::Transferring { to, by } = note else { return note };
    let unknown = || "unknown".to_owned();
    let to = match to {
        TransferTarget::Destination(name) if !config.destinations.contains_key(&name) => {
            TransferTarget::Destination(unknown())
        }
        TransferTarget::Mailbox(name) if !config.voicemail.mailboxes.contains_key(&name) => {
            TransferTarget::Mailbox(unknown())
        }
        known => known,
    };
    Note::Transferring { to, by }
}

impl Running {
    /// What a finished tool task says; nothing when it was cancelled.
    fn tool_finished(&mut self, finished: Result<(Id, ToolOutcome), tokio::task::JoinError>) -> Option<Input> {
        let task = match &finished {
            Ok((task, _)) => *task,
            Err(error) => error.id(),
        };
        let id = self.ids.remove(&task)?;
        self.handles.remove(&id);
        let outcome = match finished {
            Ok((_, outcome)) => outcome,
            Err(error) if error.is_cancelled() => return None,
            Err(_) => ToolOutcome::failed(ToolError::Internal, "The tool failed."),
        };
        Some(Input::ToolFinished { id, outcome })
    }
}

/// The other gate's word; what is not a yes is the outcome in place of a run.
async fn permitted(gate: Option<&RemoteGate>, question: &RemoteQuestion) -> Result<(), ToolOutcome> {
    let Some(gate) = gate else {
        return Err(ToolOutcome::failed(ToolError::Refused, "There is no gate that could be asked."));
    };
    let decision = gate.decide(&question.event).await;
    let kind = match decision.route() {
        Route::Accept if decision.executes() => return Ok(()),
        Route::Ask if !question.confirmed => ToolError::ConfirmationRequired,
        Route::Ask | Route::Defer => ToolError::Deferred,
        Route::Accept | Route::Refuse => ToolError::Refused,
    };
    Err(ToolOutcome::failed(kind, "Another gate stopped this call."))
}

/// The agent is told the same of every name that its context does not list; the log tells them apart. A
/// name that exists is the configuration's own word; any other is the model's, and may hold anything.
fn tell_unknown(generation: &Generation, name: &str) {
    match generation.knows(name) {
        Some(spec) => warn!(tool = spec.name.as_str(), "the agent called a tool that its context does not list"),
        None => info!("the agent called a tool that does not exist"),
    }
}

/// One line of JSON per tool call, under a target of its own so that it can be kept apart.
fn audit(line: &Audit) {
    let json = serde_json::to_string(line).unwrap_or_default();
    info!(target: "offhook::audit", audit = %json, "tool call");
    if line.over_latency_budget {
        let (tool, duration_ms) = (line.tool_id.as_str(), line.duration);
        warn!(tool, duration_ms, "a tool took longer than its latency budget");
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config, engine::workshop::Workshop, provider, telemetry::LogCapture, tool::Mode};
    use std::time::Duration;

    /// M answer 7: the log says whether a refused name is a tool's, of whatever tenant, and never a name that
    /// somebody made up.
    #[test]
    fn the_log_tells_a_tool_that_is_not_listed_from_one_that_does_not_exist() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let yaml = "providers: { a: { scripted: { script: [silence] } } }\n\
                    contexts: { a: { prompt: A, provider: a, tools: [hangup_call] } }\n";
        let config = config::load_str("test.yaml", yaml, &|_| None, provider::catalog()).unwrap();
        let generation =
            Generation::build(1, config, &Workshop::closed()).unwrap_or_else(|errors| panic!("{errors:?}"));
        let line = |name: &str| {
            let capture = LogCapture::new();
            let _guard = capture.start();
            tell_unknown(&generation, name);
            let lines = capture.lines();
            assert_eq!(lines.len(), 1, "{lines:?}");
            lines.join("")
        };
        let listed_elsewhere = line("send_dtmf");
        assert!(
            listed_elsewhere.contains("WARN") && listed_elsewhere.contains(r#"tool="send_dtmf""#),
            "{listed_elsewhere}"
        );
        assert!(listed_elsewhere.contains("does not list"), "{listed_elsewhere}");
        let made_up = line("send_47110815");
        assert!(
            made_up.contains("INFO") && made_up.contains("does not exist") && !made_up.contains("47110815"),
            "{made_up}"
        );
    }

    /// P18, P19: one line of JSON per call; a slow one is warned of besides, and that is all.
    #[test]
    fn a_slow_tool_is_warned_of() {
        let lines = |took: Duration| {
            let capture = LogCapture::new();
            let _guard = capture.start();
            let mut line = Audit::new("c1".into(), "s1", Mode::Voice, "1.0.00000000", 1);
            line.took(took, Duration::from_millis(800));
            audit(&line);
            capture.lines()
        };
        let in_time = lines(Duration::from_millis(800));
        assert_eq!(in_time.len(), 1, "{in_time:?}");
        assert!(in_time[0].contains("offhook::audit") && in_time[0].contains("tool_execution"), "{in_time:?}");
        let late = lines(Duration::from_millis(801));
        assert_eq!(late.len(), 2, "{late:?}");
        assert!(late[1].contains("WARN") && late[1].contains("duration_ms=801"), "{late:?}");
    }
}
