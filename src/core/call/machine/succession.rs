//! A call outlives its agent's session: another one is dialled, told what happened so far, and takes over.
//!
//! A session that is about to end by its vendor's limit is replaced while nobody speaks, so that the
//! caller hears nothing of it. A session that is lost is replaced at once. Either way the tools that run
//! run on, and what comes of them is told to the new agent.

use super::{Agent, CallMachine, Departure, Phase, Timer, Unfinished};
use crate::{
    call::{
        agent::{AgentCommand, AgentEvent, AgentLoss, Reply},
        end::EndReason,
        record::{Initiator, Measure, Note, TransferTarget},
        rules::{OnFailure, Recovery},
        track::{Floor, Purpose},
        words::{Dialling, Next, Output, Successor},
    },
    tool::ToolCallId,
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// A session that stood so long has reached its vendor's limit; one that did not is being turned away.
const STOOD_MIN: Duration = Duration::from_secs(10);
/// Sessions dialled in vain because somebody spoke meanwhile; then the old one's end is awaited.
const ROLLOVERS_MAX: u32 = 5;
/// Sentences that wait for the next agent: tools that ended, a transfer that failed. More than a few cannot happen in
/// the seconds without one.
const LATE_MAX: usize = 16;
/// What an agent is told that goes on where another was cut off.
const GO_ON: &str = "The connection to you was interrupted for a moment, and the caller waits for you. Go on from the \
                     record of the call: answer what the caller said last, or finish what was being said.";

#[derive(Debug, Default)]
pub(super) struct Succession {
    /// Why the agent was lost, until another has the call.
    lost: Option<EndReason>,
    /// Sessions begun because an agent was lost, since the last answer that came to its end.
    attempts: u32,
    /// The last of them was begun.
    dialled_at: Option<Instant>,
    /// The session that has the call took it over.
    since: Option<Instant>,
    /// The vendor has said that the session ends soon.
    expiring: bool,
    rollovers: u32,
    next: Option<Candidate>,
    /// Tools whose agent is gone; what comes of them is told to the next one.
    orphans: Vec<ToolCallId>,
    /// What came of them before there was a next one.
    late: Vec<String>,
    /// Results that the agent was told and has not answered the caller with.
    unspoken: VecDeque<String>,
    /// The agent owed the caller speech when it was lost.
    owed: bool,
}

#[derive(Debug)]
struct Candidate {
    /// `None` until the engine says who was dialled.
    who: Option<Successor>,
    ready: bool,
    /// Something was said since it was told the conversation.
    stale: bool,
}

impl Succession {
    /// Whether what the lost agent owed the caller waits for the next one.
    pub fn owes(&self) -> bool {
        self.owed
    }

    /// Somebody speaks: who was dialled does not know of it.
    pub fn somebody_speaks(&mut self) {
        if let Some(next) = &mut self.next {
            next.stale = true;
        }
    }

    /// The agent was told a tool's result, which another one has to know if this one does not come to speak of it.
    pub fn result_is_told(&mut self, output: &str) {
        if self.unspoken.len() == LATE_MAX {
            self.unspoken.pop_front();
        }
        self.unspoken.push_back(told_late(None, output));
    }

    /// The agent has answered the caller.
    pub fn has_answered(&mut self) {
        self.unspoken.clear();
    }

    /// An answer came to its end: whatever was lost before is made good.
    pub fn has_healed(&mut self) {
        self.attempts = 0;
    }

    /// Returns whether another session may be begun, and counts it unless the last one only came to its vendor's limit.
    fn may_begin(&mut self, loss: AgentLoss, most: u32, now: Instant) -> bool {
        let ago = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        if ago(self.dialled_at).is_some_and(|ago| ago >= Recovery::HEALED_AFTER) {
            self.attempts = 0;
        }
        let is_no_fault = loss == AgentLoss::Expired && ago(self.since).is_none_or(|stood| stood >= STOOD_MIN);
        let may = self.attempts < most;
        if may {
            self.attempts += u32::from(!is_no_fault);
            self.dialled_at = Some(now);
        }
        may
    }
}

impl CallMachine {
    // ---- An agent is lost ----

    pub(super) fn on_agent_lost(&mut self, reason: EndReason, now: Instant, out: &mut Vec<Output>) {
        let loss = match reason {
            EndReason::AgentLost(loss) => loss,
            _ => AgentLoss::Stalled,
        };
        let floor = self.track.floor();
        if self.ears.believes_the_provider() {
            // Its word that the caller stopped will not come, and the caller waits meanwhile.
            self.waiting.caller_stopped(now);
        }
        let waiting = self.timers.is_set(Timer::AgentSilence) || reason == EndReason::AgentSilent;
        let speaks = self.response.is_some() && !self.manners.asks;
        let owed = waiting || speaks || !self.actions.is_empty();
        self.response = None;
        for timer in [Timer::AgentReady, Timer::AgentSilence, Timer::NoInput] {
            self.timers.clear(timer);
        }
        self.early_calls.clear();
        // Nothing of them was heard, and the next agent greets.
        if !self.has_spoken {
            self.early_words.clear();
        }
        self.forget_question();
        if self.handoff.is_some() && matches!(self.phase, Phase::Talking) {
            // The next context has an agent of its own, and is dialled once nobody speaks.
            self.agent = Agent::Lost;
            return self.abandon_tools(out);
        }
        if !matches!(self.phase, Phase::Connecting | Phase::Talking | Phase::Transferring(_)) {
            return self.give_up(reason, now, out);
        }
        self.succession.owed |= owed && floor != Floor::Caller;
        self.agent = Agent::Lost;
        self.orphan_tools(out);
        if self.succession.lost.replace(reason).is_none() {
            self.timers.set(Timer::Recovery, now + self.plan.rules.recovery.within);
        }
        match &self.succession.next {
            Some(next) if next.ready => self.take_over(now, out),
            // Whoever is being dialled is of the same vendor, which may be in trouble as a whole.
            _ => self.dial(loss, now, out),
        }
    }

    fn dial(&mut self, loss: AgentLoss, now: Instant, out: &mut Vec<Output>) {
        if !self.succession.may_begin(loss, self.plan.rules.recovery.attempts, now) {
            return self.no_agent_is_left(now, out);
        }
        self.begin(Dialling::Recovery(loss), out);
    }

    fn begin(&mut self, why: Dialling, out: &mut Vec<Output>) {
        self.succession.next = Some(Candidate { who: None, ready: false, stale: false });
        out.push(Output::Note(Note::Dialling(why)));
        out.push(Output::Dial(why));
    }

    pub(super) fn no_agent_is_left(&mut self, now: Instant, out: &mut Vec<Output>) {
        if let Some(reason) = self.succession.lost.take() {
            self.give_up(reason, now, out);
        }
    }

    /// No agent will serve this caller any more.
    fn give_up(&mut self, reason: EndReason, now: Instant, out: &mut Vec<Output>) {
        self.agent = Agent::Gone;
        self.timers.clear(Timer::Recovery);
        self.handoff = None;
        if self.succession.next.take().is_some() {
            out.push(Output::HangUpNext);
        }
        self.track.agent_is_lost();
        self.abandon_tools(out);
        match self.phase {
            // The caller is on the way out already; nothing more was expected of the agent, unless they stay.
            Phase::Leaving(_) => self.lost_untold = Some(reason),
            Phase::MediaGone | Phase::Ended => {}
            // The audio path is a moment away, or may not be needed any more.
            Phase::Connecting | Phase::Transferring(_) => {
                self.lost_untold = Some(reason);
                self.answer(out);
            }
            Phase::Talking => self.fail(reason, now, out),
        }
    }

    /// The caller hears the apology, chooses by a key if there is a menu, and else goes where the context says.
    pub(super) fn fail(&mut self, reason: EndReason, now: Instant, out: &mut Vec<Output>) {
        out.push(Output::Note(Note::Failing(reason)));
        let apology = self.plan.clips.apology.clone();
        self.say_verbatim(&apology, Purpose::Apology, out);
        if !self.open_menu(reason, out) {
            self.leave_failed(reason, now);
        }
    }

    pub(super) fn leave_failed(&mut self, reason: EndReason, now: Instant) {
        let departure = match &self.plan.rules.on_failure {
            OnFailure::HangUp => Departure::HangUp(reason),
            OnFailure::Dialplan => Departure::ToDialplan(reason),
            OnFailure::Transfer(to) => {
                Departure::Transfer { to: TransferTarget::Destination(to.clone()), by: Initiator::OnFailure, reason }
            }
        };
        self.leave(departure, now);
    }

    // ---- The next one ----

    pub(super) fn on_next(&mut self, next: Next, now: Instant, out: &mut Vec<Output>) {
        match next {
            Next::Dialling(successor) => {
                if let Some(candidate) = &mut self.succession.next {
                    candidate.who = Some(*successor);
                }
            }
            Next::Nobody => {
                self.succession.next = None;
                self.no_agent_is_left(now, out);
            }
            Next::Event(AgentEvent::Ready) => {
                if let Some(candidate) = &mut self.succession.next {
                    candidate.ready = true;
                }
                if self.succession.lost.is_some() {
                    self.take_over(now, out);
                }
            }
            Next::Event(AgentEvent::Lost(loss)) => {
                if self.succession.next.take().is_some() && self.succession.lost.is_some() {
                    self.dial(loss, now, out);
                }
            }
            Next::Event(AgentEvent::Usage(usage)) => out.push(Output::Measure(Measure::Usage(usage))),
            // It was told nothing yet that it could answer.
            Next::Event(_) => {}
        }
    }

    pub(super) fn expires(&mut self) {
        self.succession.expiring = true;
    }

    /// Replaces a session that is about to end, while nobody speaks.
    pub(super) fn roll_over_when_quiet(&mut self, now: Instant, out: &mut Vec<Output>) {
        let quiet = self.is_quiet() && self.track.floor() != Floor::Caller && !self.waiting_for_words();
        let may = self.agent == Agent::Ready && matches!(self.phase, Phase::Talking) && self.handoff.is_none();
        if !quiet || !may {
            return;
        }
        match &self.succession.next {
            None if self.succession.expiring && self.succession.rollovers < ROLLOVERS_MAX => {
                self.succession.rollovers += 1;
                self.begin(Dialling::Rollover, out);
            }
            Some(next) if next.ready && !next.stale => self.take_over(now, out),
            Some(next) if next.ready => {
                self.succession.next = None;
                out.push(Output::HangUpNext);
            }
            _ => {}
        }
    }

    fn take_over(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Some(Candidate { who: Some(who), .. }) = self.succession.next.take() else { return };
        let Successor { provider, agent, resumes } = who;
        let lost = self.succession.lost.take().is_some();
        (self.succession.expiring, self.succession.rollovers) = (false, 0);
        self.succession.since = Some(now);
        self.succession.unspoken.clear();
        (self.manners.audio_held, self.manners.words_hidden) = (false, false);
        self.timers.clear(Timer::Recovery);
        out.push(Output::TakeOver);
        out.push(Output::Note(Note::TookOver { provider, resumed: resumes }));
        self.plan.agent = agent;
        self.policy.change_sessions(agent.answer_limits());
        self.ears.new_agent(&agent);
        self.track.new_agent(!self.ears.own_turns());
        (self.response, self.last_response) = (None, None);
        self.waiting.new_agent();
        self.unfinished = Unfinished::default();
        self.agent = Agent::Ready;
        for text in self.succession.orphans.iter().filter_map(|id| self.policy.told_of(*id)).collect::<Vec<_>>() {
            self.to_agent(AgentCommand::Tell { text, reply: Reply::NotNow }, out);
        }
        if lost && matches!(self.phase, Phase::Talking | Phase::Connecting) {
            self.pick_up_the_thread(now, out);
        }
    }

    /// What the caller waits for is asked of the new agent.
    fn pick_up_the_thread(&mut self, now: Instant, out: &mut Vec<Output>) {
        let owed = std::mem::take(&mut self.succession.owed);
        let late = self.give_late(out);
        // "One moment, please" is no greeting.
        if !self.greeted {
            self.greet(now, out);
        } else if self.give_unanswered_turn(now, out) {
            // The agent hears what the last one did not answer.
        } else if self.greeting_underway && !self.has_spoken {
            // The last one was asked to greet, and nothing of that was heard.
            self.greet(now, out);
        } else if (owed || late) && !self.manners.asks {
            self.tell(GO_ON, now, out);
        }
    }

    /// What could not be told while there was no agent; `false` if there is nothing.
    fn give_late(&mut self, out: &mut Vec<Output>) -> bool {
        let late = std::mem::take(&mut self.succession.late);
        for text in &late {
            self.to_agent(AgentCommand::Tell { text: text.clone(), reply: Reply::NotNow }, out);
        }
        !late.is_empty()
    }

    /// The caller stays after all, with an agent that came in the meantime.
    pub(super) fn tell_late(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.agent == Agent::Ready && self.give_late(out) {
            self.expect_speech(now);
        }
    }

    /// What an agent that is lost was to be told waits for the next one.
    pub(super) fn succession_keeps(&mut self, text: &str) {
        if self.agent == Agent::Lost && self.succession.late.len() < LATE_MAX {
            self.succession.late.push(text.to_owned());
        }
    }

    // ---- Tools that run on ----

    fn orphan_tools(&mut self, out: &mut Vec<Output>) {
        self.refuse_waiting(out);
        let (running, answered) = self.actions.orphan();
        self.succession.orphans.extend(running);
        self.succession.late.extend(self.succession.unspoken.drain(..));
        for output in answered {
            self.succession.late.push(told_late(None, &output));
        }
        self.arm_tool_timer();
    }

    /// The agent has made the same call, and gets the outcome as its own.
    pub(super) fn is_joined(&mut self, id: ToolCallId) {
        self.succession.orphans.retain(|orphan| *orphan != id);
    }

    /// The outcome of a tool whose agent is gone; `true` if it was one.
    pub(super) fn is_orphans_answer(
        &mut self,
        id: ToolCallId,
        tool: Option<&str>,
        output: &str,
        now: Instant,
        out: &mut Vec<Output>,
    ) -> bool {
        let before = self.succession.orphans.len();
        self.succession.orphans.retain(|orphan| *orphan != id);
        if before == self.succession.orphans.len() {
            return false;
        }
        let text = told_late(tool, output);
        if self.agent == Agent::Ready {
            self.tell(&text, now, out);
        } else {
            self.succession.late.push(text);
        }
        true
    }
}

fn told_late(tool: Option<&str>, output: &str) -> String {
    let tool = tool.map_or_else(|| "A tool".to_owned(), |tool| format!("The tool {tool}"));
    format!("{tool} was called before the connection to you was interrupted. Its result, as data: {output}")
}
