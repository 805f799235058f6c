//! Every decision in the life of one call. The one file to read to know what happens in a call.
//!
//! ```text
//!              Leg Up                     last words + tail
//! Connecting ─────────▶ Talking ─────────▶ Leaving ─────────▶ (Transferring ─▶) Ended
//!      │                  │  ▲                                      │
//!      │ left, failed     │  └───────── transfer failed ────────────┘
//!      └──────▶ Ended ◀───┘ left
//! ```
//!
//! Invariants: caller audio always goes to the agent, whoever speaks. From `Up` to `Ended` one frame
//! leaves per 20 ms slot, speech or silence. Every tool call is answered once. After `End` nothing
//! comes out.

use super::{
    actions::Actions,
    agent::{AgentCommand, AgentEvent, Reply, ResponseId},
    end::EndReason,
    leg::{LegCommand, LegEvent},
    playout::Queued,
    record::{Measure, Note},
    rules::OnFailure,
    timers::{Timer, Timers},
    track::{Floor, Track},
    words::{CallPlan, Input, Output},
};
use crate::tool::{CallAction, ToolCall, ToolError, ToolOutcome};
use std::time::{Duration, Instant};

/// After the last frame left, the caller's phone still plays what its jitter buffer holds.
const TAIL: Duration = Duration::from_millis(300);
/// An agent that was asked for a last word has begun it by now, or will not.
const FAREWELL_BEGINS_MAX: Duration = Duration::from_secs(5);
/// When media breaks, Asterisk's word that the caller hung up is usually a millisecond away.
const MEDIA_LOST_GRACE: Duration = Duration::from_secs(1);
/// The longest Asterisk may take to start a transfer.
const TRANSFER_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct CallMachine {
    plan: CallPlan,
    began: Instant,
    phase: Phase,
    agent: Agent,
    track: Track,
    actions: Actions,
    timers: Timers,
    /// The response being generated.
    response: Option<ResponseId>,
    /// The agent has spoken since the caller last did.
    has_spoken: bool,
    prompts_used: u32,
}

#[derive(Debug)]
enum Phase {
    Connecting,
    Talking,
    /// What is left to say is said, then `departure`.
    Leaving(Departure),
    /// The audio path broke; is the caller still there?
    MediaGone,
    Transferring(EndReason),
    Ended,
}

#[derive(Debug, Clone, PartialEq)]
enum Departure {
    HangUp(EndReason),
    Transfer { destination: String, reason: EndReason },
    ToDialplan(EndReason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    Dialling,
    Ready,
    Gone,
}

impl CallMachine {
    pub fn new(plan: CallPlan, now: Instant) -> Self {
        let mut timers = Timers::default();
        timers.set(Timer::CallMax, now + plan.rules.call_max);
        timers.set(Timer::AgentReady, now + plan.rules.agent_ready_max);
        Self {
            track: Track::new(plan.format, now),
            plan,
            began: now,
            phase: Phase::Connecting,
            agent: Agent::Dialling,
            actions: Actions::default(),
            timers,
            response: None,
            has_spoken: false,
            prompts_used: 0,
        }
    }

    /// When to call [`on_deadline`](Self::on_deadline), and why. `None` once the call has ended.
    pub fn deadline(&self) -> Option<(Instant, Timer)> {
        self.timers.next()
    }

    /// Bytes of one frame of this call's audio.
    pub fn frame_bytes(&self) -> usize {
        self.plan.format.frame_bytes()
    }

    /// One word for a page of live calls.
    pub fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Connecting => "connecting",
            Phase::Talking => "talking",
            Phase::Leaving(_) => "leaving",
            Phase::MediaGone => "media_gone",
            Phase::Transferring(_) => "transferring",
            Phase::Ended => "ended",
        }
    }

    pub fn step(&mut self, input: Input, now: Instant, out: &mut Vec<Output>) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        match input {
            Input::Leg(event) => self.on_leg(event, now, out),
            Input::Agent(event) => self.on_agent(event, now, out),
            Input::ToolFinished { id, outcome } => self.on_tool_finished(&id, outcome, now, out),
            Input::EndNow(reason) => self.depart(Departure::HangUp(reason), now, out),
        }
        self.settle(now);
    }

    /// Handles every deadline that is due at `now`.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Vec<Output>) {
        while let Some((due, timer)) = self.timers.take_due(now) {
            self.on_timer(timer, due, now, out);
            if matches!(self.phase, Phase::Ended) {
                return;
            }
            self.settle(now);
        }
    }

    // ---- Asterisk's side ----

    fn on_leg(&mut self, event: LegEvent, now: Instant, out: &mut Vec<Output>) {
        match event {
            LegEvent::Up => self.on_up(now, out),
            LegEvent::Audio(audio) => self.to_agent(AgentCommand::Audio(audio), out),
            LegEvent::Digit(digit) => {
                self.prompts_used = 0;
                self.timers.clear(Timer::NoInput);
                out.push(Output::Note(Note::Digit(digit.into())));
            }
            LegEvent::CallerLeft => match &self.phase {
                Phase::Connecting => self.end(EndReason::CallerAbandoned, out),
                // The agent had said its goodbye: whoever lets go first, the agent ended the call.
                Phase::Leaving(Departure::HangUp(EndReason::AgentHungUp)) => self.end(EndReason::AgentHungUp, out),
                _ => self.end(EndReason::CallerHungUp, out),
            },
            LegEvent::CallerVanished => self.end(EndReason::ChannelGone, out),
            LegEvent::MediaLost => {
                self.phase = Phase::MediaGone;
                self.timers.clear(Timer::Slot);
                self.timers.set(Timer::LegAnswer, now + MEDIA_LOST_GRACE);
            }
            LegEvent::Transferred => match self.phase {
                Phase::Transferring(reason) => self.end(reason, out),
                _ => self.end(EndReason::Transferred, out),
            },
            LegEvent::TransferFailed => self.on_transfer_failed(now, out),
            LegEvent::SetupFailed(step) => {
                out.push(Output::ToLeg(LegCommand::ReturnToDialplan { status: "SETUPFAILED" }));
                self.end(EndReason::SetupFailed(step), out);
            }
        }
    }

    fn on_up(&mut self, now: Instant, out: &mut Vec<Output>) {
        if !matches!(self.phase, Phase::Connecting) {
            return;
        }
        self.phase = Phase::Talking;
        self.timers.set(Timer::Slot, now);
        out.push(Output::Note(Note::Answered));
        out.push(Output::Measure(Measure::SetUp(now - self.began)));
        if self.agent == Agent::Ready {
            self.greet(now, out);
        }
    }

    fn on_transfer_failed(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.timers.clear(Timer::LegAnswer);
        let Phase::Transferring(reason) = self.phase else { return };
        out.push(Output::Note(Note::TransferFailed));
        if self.agent != Agent::Ready {
            return self.depart(Departure::ToDialplan(reason), now, out);
        }
        self.phase = Phase::Talking;
        self.say("Tell the caller that the transfer did not work, and offer other help.", now, out);
    }

    // ---- The agent's side ----

    fn on_agent(&mut self, event: AgentEvent, now: Instant, out: &mut Vec<Output>) {
        if self.agent == Agent::Gone {
            // Given up for its silence; what it still says is dropped, but not unseen.
            if let AgentEvent::Audio { audio, .. } = event {
                out.push(Output::Measure(Measure::StaleAudio(audio.len())));
            }
            return;
        }
        match event {
            AgentEvent::Ready => {
                self.agent = Agent::Ready;
                self.timers.clear(Timer::AgentReady);
                out.push(Output::Note(Note::AgentReady));
                if matches!(self.phase, Phase::Talking) {
                    self.greet(now, out);
                }
            }
            AgentEvent::ResponseStarted { response } => self.response = Some(response),
            AgentEvent::Audio { response, item, audio } => self.on_agent_audio(response, item, audio, out),
            AgentEvent::ResponseDone { response, .. } => self.on_response_done(&response, now, out),
            AgentEvent::CallerSpeechStarted => self.on_caller_speech(now, out),
            AgentEvent::CallerSpeechStopped => {
                self.track.caller_stopped(now);
                self.expect_speech(now);
                out.push(Output::Note(Note::CallerFinished));
            }
            AgentEvent::Transcript { speaker, text } => {
                out.push(Output::Note(Note::Said { speaker, text: text.into() }));
            }
            AgentEvent::ToolCall(call) => self.on_tool_call(call, now, out),
            AgentEvent::Usage(usage) => out.push(Output::Measure(Measure::Usage(usage))),
            // Counted where it was heard.
            AgentEvent::Noise(_) => {}
            AgentEvent::Lost(loss) => self.on_agent_lost(EndReason::AgentLost(loss), now, out),
        }
    }

    fn on_agent_audio(
        &mut self,
        response: ResponseId,
        item: super::agent::ItemId,
        audio: bytes::Bytes,
        out: &mut Vec<Output>,
    ) {
        let bytes = audio.len();
        match self.track.push(response.clone(), item, audio) {
            Queued::Kept => {
                self.timers.clear(Timer::AgentSilence);
                self.has_spoken = true;
                // Some providers send audio without announcing its response.
                self.response = Some(response);
            }
            Queued::Stale => out.push(Output::Measure(Measure::StaleAudio(bytes))),
            Queued::Overflow => out.push(Output::Measure(Measure::PlayoutOverflow(bytes))),
        }
    }

    fn on_response_done(&mut self, response: &ResponseId, now: Instant, out: &mut Vec<Output>) {
        self.response.take_if(|active| active == response);
        self.actions.response_completed();
        self.answer_tools(now, out);
    }

    /// The caller speaks: if the agent was speaking or about to, it stops within the next slot.
    fn on_caller_speech(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.has_spoken = false;
        self.prompts_used = 0;
        self.timers.clear(Timer::NoInput);
        self.timers.clear(Timer::AgentSilence);
        out.push(Output::Note(Note::CallerSpeaks));
        let cut = self.track.caller_speaks(self.response.as_ref(), now);
        let Some(cut) = cut else { return };
        out.push(Output::Note(Note::BargeIn { heard: cut.heard }));
        let cancel = !self.plan.agent.cancels_on_speech;
        let (response, item, heard) = (cut.response, cut.item, cut.heard);
        self.to_agent(AgentCommand::Interrupt { response, item, heard, cancel }, out);
    }

    fn on_agent_lost(&mut self, reason: EndReason, now: Instant, out: &mut Vec<Output>) {
        self.agent = Agent::Gone;
        self.response = None;
        for timer in [Timer::AgentReady, Timer::AgentSilence, Timer::NoInput] {
            self.timers.clear(timer);
        }
        out.extend(self.actions.abandon().into_iter().map(|id| Output::CancelTool { id }));
        match self.phase {
            // The caller is on the way out already; nothing more was expected of the agent.
            Phase::Leaving(_) | Phase::MediaGone | Phase::Transferring(_) | Phase::Ended => {}
            Phase::Connecting => {
                out.push(Output::Note(Note::Failing(reason)));
                self.depart(Departure::ToDialplan(reason), now, out);
            }
            Phase::Talking => {
                out.push(Output::Note(Note::Failing(reason)));
                let apology = self.plan.apology.render(self.plan.format);
                self.track.push("offhook".into(), "apology".into(), apology);
                let departure = match &self.plan.rules.on_failure {
                    OnFailure::HangUp => Departure::HangUp(reason),
                    OnFailure::Dialplan => Departure::ToDialplan(reason),
                    OnFailure::Transfer(to) => Departure::Transfer { destination: to.clone(), reason },
                };
                self.leave(departure, now);
            }
        }
    }

    // ---- Tools ----

    fn on_tool_call(&mut self, call: ToolCall, now: Instant, out: &mut Vec<Output>) {
        let id = call.id.clone();
        let known = self.plan.toolbox.has(&call.name);
        let decision = if !matches!(self.phase, Phase::Talking) {
            Err(ToolOutcome::failed(ToolError::SessionInactive, "The call is ending."))
        } else if self.actions.is_full() {
            Err(ToolOutcome::failed(ToolError::SessionInactive, "Too many tools are running."))
        } else {
            self.plan.toolbox.admit(call.clone())
        };
        self.timers.clear(Timer::AgentSilence);
        self.actions.begin(&id, if known { &call.name } else { "" }, now, self.plan.rules.tool_max);
        match decision {
            Ok(approved) => {
                out.push(Output::RunTool(approved));
                self.arm_tool_timer();
            }
            Err(refusal) => self.on_tool_finished(&id, refusal, now, out),
        }
    }

    fn on_tool_finished(&mut self, id: &str, outcome: ToolOutcome, now: Instant, out: &mut Vec<Output>) {
        let Some(name) = self.actions.finish(id, outcome.envelope().to_string()) else { return };
        self.arm_tool_timer();
        let tool = (!name.is_empty()).then_some(name);
        out.push(Output::Note(Note::ToolAnswered { tool, error: outcome.error() }));
        if let ToolOutcome::Done { action: Some(action), .. } = outcome
            && matches!(self.phase, Phase::Talking)
        {
            let departure = match action {
                CallAction::EndCall => Departure::HangUp(EndReason::AgentHungUp),
                CallAction::Transfer { destination } => {
                    Departure::Transfer { destination, reason: EndReason::Transferred }
                }
            };
            self.leave(departure, now);
        }
        if self.response.is_none() {
            self.answer_tools(now, out);
        }
    }

    fn answer_tools(&mut self, now: Instant, out: &mut Vec<Output>) {
        // A farewell that was spoken before the tool was called needs no second one.
        let speak = !(matches!(self.phase, Phase::Leaving(_)) && self.has_spoken);
        for answer in self.actions.take_answers(speak) {
            if answer.reply == Reply::Wanted {
                self.expect_speech(now);
            }
            let (call_id, output, reply) = (answer.call_id, answer.output, answer.reply);
            self.to_agent(AgentCommand::ToolResult { call_id, output, reply }, out);
        }
    }

    fn arm_tool_timer(&mut self) {
        match self.actions.deadline() {
            Some(at) => self.timers.set(Timer::Tool, at),
            None => self.timers.clear(Timer::Tool),
        }
    }

    // ---- Time ----

    fn on_timer(&mut self, timer: Timer, due: Instant, now: Instant, out: &mut Vec<Output>) {
        match timer {
            Timer::Slot => {
                let next = self.track.slot(due, now, self.response.is_some(), out);
                self.timers.set(Timer::Slot, next);
            }
            Timer::CallMax => {
                self.leave(Departure::HangUp(EndReason::CallTooLong), now);
                self.say("The call has reached its longest time. Say goodbye in one short sentence.", now, out);
            }
            Timer::AgentReady => {
                self.on_agent_lost(EndReason::AgentLost(super::agent::AgentLoss::Unreachable), now, out);
            }
            // In `Leaving` the words that were asked for do not come: `settle` lets the call go.
            Timer::AgentSilence => {
                if matches!(self.phase, Phase::Talking) {
                    self.on_agent_lost(EndReason::AgentSilent, now, out);
                }
            }
            Timer::NoInput => self.on_no_input(now, out),
            Timer::Tool => {
                for id in self.actions.overdue(now) {
                    out.push(Output::CancelTool { id: id.clone() });
                    let late = ToolOutcome::failed(ToolError::Timeout, "The tool took too long.");
                    self.on_tool_finished(&id, late, now, out);
                }
            }
            Timer::LastWords | Timer::Tail => {
                if let Phase::Leaving(departure) = &self.phase {
                    self.depart(departure.clone(), now, out);
                }
            }
            Timer::LegAnswer => match self.phase {
                Phase::Transferring(_) => self.on_transfer_failed(now, out),
                // Without a path for the apology, the caller is better off in the dialplan.
                _ if self.plan.rules.on_failure == OnFailure::HangUp => {
                    self.depart(Departure::HangUp(EndReason::MediaLost), now, out);
                }
                _ => self.depart(Departure::ToDialplan(EndReason::MediaLost), now, out),
            },
        }
    }

    fn on_no_input(&mut self, now: Instant, out: &mut Vec<Output>) {
        out.push(Output::Note(Note::NoInputPrompt));
        if self.prompts_used < self.plan.rules.no_input_prompts {
            self.prompts_used += 1;
            let prompt = self.plan.rules.no_input_prompt.clone();
            self.say(&prompt, now, out);
        } else {
            self.leave(Departure::HangUp(EndReason::NoInput), now);
            self.say("Nobody answers. Say goodbye in one short sentence.", now, out);
        }
    }

    // ---- Small steps ----

    fn to_agent(&self, command: AgentCommand, out: &mut Vec<Output>) {
        if self.agent != Agent::Gone {
            out.push(Output::ToAgent(command));
        }
    }

    fn greet(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.expect_speech(now);
        self.to_agent(AgentCommand::Greet { text: self.plan.rules.greeting.clone() }, out);
    }

    fn say(&mut self, text: &str, now: Instant, out: &mut Vec<Output>) {
        if self.agent == Agent::Ready {
            self.expect_speech(now);
            self.to_agent(AgentCommand::Say { text: text.to_owned() }, out);
        }
    }

    /// From now on the agent owes the caller speech.
    fn expect_speech(&mut self, now: Instant) {
        if self.agent == Agent::Ready {
            let mut limit = self.plan.rules.agent_silence_max;
            if matches!(self.phase, Phase::Leaving(_)) {
                limit = limit.min(FAREWELL_BEGINS_MAX);
            }
            self.timers.set(Timer::AgentSilence, now + limit);
        }
    }

    fn leave(&mut self, departure: Departure, now: Instant) {
        self.phase = Phase::Leaving(departure);
        for timer in [Timer::CallMax, Timer::NoInput, Timer::AgentSilence] {
            self.timers.clear(timer);
        }
        let limit = self.track.queued() + self.plan.rules.farewell_max;
        self.timers.set(Timer::LastWords, now + limit);
    }

    fn depart(&mut self, departure: Departure, now: Instant, out: &mut Vec<Output>) {
        match departure {
            Departure::HangUp(reason) => {
                out.push(Output::ToLeg(LegCommand::HangUp));
                self.end(reason, out);
            }
            Departure::ToDialplan(reason) => {
                out.push(Output::ToLeg(LegCommand::ReturnToDialplan { status: "AGENTFAILED" }));
                self.end(reason, out);
            }
            Departure::Transfer { destination, reason } => {
                self.timers.clear(Timer::LastWords);
                self.timers.set(Timer::LegAnswer, now + TRANSFER_MAX);
                self.phase = Phase::Transferring(reason);
                out.push(Output::ToLeg(LegCommand::Transfer { destination }));
            }
        }
    }

    fn end(&mut self, reason: EndReason, out: &mut Vec<Output>) {
        out.extend(self.actions.abandon().into_iter().map(|id| Output::CancelTool { id }));
        self.timers.clear_all();
        self.phase = Phase::Ended;
        out.push(Output::End(reason));
    }

    /// Nothing is being said and nothing is owed.
    fn is_quiet(&self) -> bool {
        let owed = self.timers.is_set(Timer::AgentSilence) || !self.actions.is_empty();
        self.track.is_empty() && self.response.is_none() && !owed
    }

    /// Arms or clears the timers that follow from the state as a whole.
    fn settle(&mut self, now: Instant) {
        let quiet = self.is_quiet();
        match self.phase {
            Phase::Talking => {
                let waiting = quiet && self.track.floor() != Floor::Caller && self.agent == Agent::Ready;
                if waiting && self.plan.agent.detects_speech {
                    self.timers.set_if_idle(Timer::NoInput, now + self.plan.rules.no_input_after);
                } else {
                    self.timers.clear(Timer::NoInput);
                }
            }
            Phase::Leaving(_) if quiet => self.timers.set_if_idle(Timer::Tail, now + TAIL),
            Phase::Leaving(_) => self.timers.clear(Timer::Tail),
            _ => {}
        }
    }
}
