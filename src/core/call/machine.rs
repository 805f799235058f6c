//! Every decision in the life of one call. The file to read to know what happens in a call: its
//! phases, the caller's side and the clock are here, the agent's side is in `machine/conversation.rs`.
//!
//! ```text
//!              Leg Up                     last words + tail
//! Connecting ─────────▶ Talking ─────────▶ Leaving ─────────▶ (Transferring ─▶) Ended
//!      │                │  │ ▲                │                    │
//!      │ left, failed   │  │ ├────────────────┘ talked into        │
//!      │                │  │ └──── transfer failed ────────────────┘
//!      └────▶ Ended ◀───┘  └──▶ MediaGone ──▶ Ended
//!                      left     path broke
//! ```
//!
//! Invariants: nothing that the caller says to interrupt or to answer is kept from the agent, and silence
//! stands where the caller's phone sends nothing, has the call on hold, or is on the way to somebody else. From `Up`
//! until the end, or until the audio path breaks, one frame leaves per 20 ms slot, speech or silence. A tool
//! call is answered once, unless its agent is gone. After `End` nothing comes out.

use super::{
    actions::Actions,
    agent::ResponseId,
    end::EndReason,
    leg::{LegCommand, LegEvent, TransferFault},
    record::{Initiator, Measure, Note, TransferTarget},
    rules::OnFailure,
    timers::{Timer, Timers},
    track::{Floor, Track},
    turns::Ears,
    words::{CallPlan, Input, Output},
};
use crate::{
    sentences::Sentence,
    tool::{CallPolicy, ToolCall, ToolError, ToolOutcome},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// After the last frame left, the caller's phone still plays what its jitter buffer holds.
const TAIL: Duration = Duration::from_millis(300);
/// When media breaks, Asterisk's word that the caller hung up is usually a millisecond away.
const MEDIA_LOST_GRACE: Duration = Duration::from_secs(1);
/// Who writes thinks, looks something up, and changes the configuration; whoever is gone after so long has left it open.
const WRITING_MAX: Duration = Duration::from_secs(10 * 60);
/// The longest Asterisk may take to start a transfer.
const TRANSFER_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct CallMachine {
    plan: CallPlan,
    began: Instant,
    /// The moment being handled.
    at: Instant,
    phase: Phase,
    agent: Agent,
    track: Track,
    actions: Actions,
    policy: CallPolicy,
    manners: Manners,
    waiting: Waiting,
    succession: Succession,
    ears: Hearing,
    clock: TurnClock,
    /// Tool calls from before the answer.
    early_calls: Vec<ToolCall>,
    /// Words of the agent from before the answer; noted behind it, since they are heard then. Where nobody answers, nobody hears them.
    early_words: Vec<Note>,
    /// Is put to the caller with the answers that are due.
    question: Option<Question>,
    /// Open when no agent can be had.
    menu: Option<Menu>,
    capture: Option<Capture>,
    /// Keys until then belong to an entry that only tools may see.
    private_until: Option<Instant>,
    keeping: Keeping,
    handoff: Option<Handoff>,
    /// How often the call was handed on.
    handoffs: u32,
    timers: Timers,
    /// The response being generated.
    response: Option<Response>,
    /// The last one that ended; what still comes of it is kept, but it is over.
    last_response: Option<ResponseId>,
    /// The agent has spoken since the caller last did.
    has_spoken: bool,
    /// The agent was asked to greet, or a clip did.
    greeted: bool,
    /// Its greeting is not over.
    greeting_underway: bool,
    /// The command to answer the caller was given.
    answered: bool,
    /// The call is being left, and the agent has begun its farewell.
    farewell_begun: bool,
    unfinished: Unfinished,
    gap: Gap,
    /// The caller has the call on hold.
    hold: Option<Hold>,
    /// The agent is not the one who took the call, and has not spoken to the caller yet.
    takes_over: bool,
    /// The agent was lost while the caller could not be told: before the answer, or in a transfer.
    lost_untold: Option<EndReason>,
    prompts_used: u32,
    /// Nothing was being said, and nothing owed, when that was last looked at.
    was_quiet: bool,
    finishing: Finishing,
    /// The same, and nothing was owed by an agent that is to come either.
    was_over: bool,
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
    Transfer { to: TransferTarget, by: Initiator, reason: EndReason },
    ToDialplan(EndReason),
}

impl Departure {
    /// A transfer of a call that went as it should.
    const fn to(to: TransferTarget, by: Initiator) -> Self {
        Self::Transfer { to, by, reason: EndReason::Transferred }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    Dialling,
    Ready,
    /// Another session is being begun.
    Lost,
    Gone,
}

mod clock;
mod conversation;
mod digits;
mod ears;
mod finishing;
mod gap;
mod hold;
mod last_resort;
mod opening;
mod party;
mod question;
mod recording;
mod succession;
mod tools;
mod waiting;

use clock::TurnClock;
use conversation::{Response, Unfinished};
use digits::Capture;
use ears::Hearing;
use finishing::Finishing;
use gap::Gap;
use hold::Hold;
use last_resort::Menu;
use question::Question;
use recording::Keeping;
use succession::Succession;
use tools::{Handoff, Manners};
use waiting::Waiting;

impl CallMachine {
    pub fn new(plan: CallPlan, now: Instant) -> Self {
        Self::listening_by(plan, None, now)
    }

    /// With other ears than the built-in ones.
    pub fn with_ears(plan: CallPlan, ears: Box<dyn Ears>, now: Instant) -> Self {
        Self::listening_by(plan, Some(ears), now)
    }

    fn listening_by(plan: CallPlan, ears: Option<Box<dyn Ears>>, now: Instant) -> Self {
        let mut timers = Timers::default();
        timers.set(Timer::CallMax, now + plan.rules.call_max);
        timers.set(Timer::AgentReady, now + plan.rules.agent_ready_max);
        // With a sentence of ours there is no reason to let the caller wait.
        let at_once = plan.clips.notice.is_some() || plan.clips.greeting.is_some();
        timers.set(Timer::Answer, if at_once { now } else { now + plan.rules.answer_max });
        let (toolbox, rules) = (Arc::clone(&plan.toolbox), Arc::clone(&plan.policy));
        let mut policy = CallPolicy::new(toolbox, rules, plan.opening.clone(), (now, plan.wall));
        if !plan.written {
            policy.reads_out(plan.clips.read_out());
        }
        Self {
            track: Track::new(plan.format, plan.beat, now),
            began: now,
            at: now,
            phase: Phase::Connecting,
            agent: Agent::Dialling,
            actions: Actions::default(),
            policy,
            manners: Manners::default(),
            waiting: Waiting::default(),
            succession: Succession::default(),
            ears: Hearing::new(&plan.rules, &plan.agent, plan.format, ears),
            clock: TurnClock::default(),
            early_calls: Vec::new(),
            early_words: Vec::new(),
            question: None,
            menu: None,
            capture: None,
            private_until: None,
            keeping: Keeping::default(),
            handoff: None,
            handoffs: 0,
            timers,
            response: None,
            last_response: None,
            has_spoken: false,
            greeted: false,
            greeting_underway: false,
            answered: false,
            farewell_begun: false,
            unfinished: Unfinished::default(),
            gap: Gap::new(now),
            hold: None,
            takes_over: false,
            lost_untold: None,
            prompts_used: 0,
            was_quiet: true,
            finishing: Finishing::default(),
            was_over: true,
            plan,
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

    /// The caller's turn, counted as the tools' budgets count it.
    pub fn turn(&self) -> u64 {
        self.policy.turn()
    }

    /// One word for a page of live calls.
    pub fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Connecting => "connecting",
            Phase::Talking if self.hold.is_some() => "on_hold",
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
        self.at = now;
        match input {
            Input::Leg(event) => self.on_leg(event, now, out),
            Input::Agent(event) => self.on_agent(event, now, out),
            Input::ToolFinished { id, outcome } => self.on_tool_finished(id, outcome, now, out),
            Input::HandedOff(handover) => self.on_handed_off(*handover, now, out),
            Input::Next(next) => self.on_next(next, now, out),
            Input::Written(text) => self.on_written(text.reveal(), now, out),
            Input::Say(words) if matches!(self.phase, Phase::Talking) => self.say(&words, now, out),
            Input::Say(_) => {}
            Input::Spoken { sentence, clip } => self.on_spoken(sentence.reveal(), clip, now, out),
            Input::EndNow { reason, account } => {
                out.extend(account.map(|account| Output::Note(Note::HungUp { account })));
                self.depart(Departure::HangUp(reason), now, out);
            }
            Input::Transfer { destination, account } if matches!(self.phase, Phase::Talking) => {
                self.leave(Departure::to(TransferTarget::Destination(destination), Initiator::Operator(account)), now);
            }
            Input::Transfer { .. } => {}
        }
        self.settle(now, out);
    }

    /// Handles every deadline that is due at `now`.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.at = now;
        while let Some((due, timer)) = self.timers.take_due(now) {
            self.on_timer(timer, due, now, out);
            if matches!(self.phase, Phase::Ended) {
                return;
            }
            self.settle(now, out);
        }
    }

    // ---- Asterisk's side ----

    fn on_leg(&mut self, event: LegEvent, now: Instant, out: &mut Vec<Output>) {
        match event {
            LegEvent::Up => self.on_up(now, out),
            LegEvent::Audio(audio) => {
                self.gap.audio_came(now);
                // The agent hears silence during a transfer (the caller speaks to the ringing tone), on hold (music, or
                // somebody else), and while keys are typed in secret, whose tones can be heard.
                let away = matches!(self.phase, Phase::Transferring(_)) || self.hold.is_some() || self.is_private(now);
                let audio = if away { self.track.silence() } else { audio };
                self.hear_caller(audio, now, out);
            }
            LegEvent::Waits(length) => drop(self.track.waits(length)),
            LegEvent::ThrownAway(length) => self.track.thrown_away(length),
            LegEvent::Digit(key) if self.menu.is_some() && !self.is_private(now) => {
                self.on_choice(key, now, out);
            }
            LegEvent::Digit(digit) => self.on_digit(digit, now, out),
            LegEvent::Held(held) => self.on_held(held, now, out),
            LegEvent::PartyChanged(party) => self.on_party_changed(party, now, out),
            LegEvent::PartyKnown(party) => self.on_party_known(party, now, out),
            LegEvent::CallerLeft => self.end(self.reason_of_leaving(EndReason::CallerHungUp), out),
            LegEvent::TimedOut => self.end(self.reason_of_leaving(EndReason::DialplanTimeout), out),
            LegEvent::CallerDone => self.on_caller_done(now, out),
            LegEvent::CallerVanished => self.end(EndReason::ChannelGone, out),
            LegEvent::MediaLost => {
                self.timers.clear(Timer::Slot);
                // On a transfer the path goes anyway, and the transfer's own deadline stands.
                if !matches!(self.phase, Phase::Transferring(_)) {
                    self.phase = Phase::MediaGone;
                    self.timers.set(Timer::LegAnswer, now + MEDIA_LOST_GRACE);
                }
            }
            LegEvent::PathReplaced { why } => {
                let lost = self.track.waits(Duration::ZERO);
                if !lost.is_zero() {
                    out.push(Output::Measure(Measure::PathBroken(lost)));
                }
                out.push(Output::Note(Note::PathReplaced { why }));
            }
            LegEvent::Transferred => {
                let reason = if let Phase::Transferring(reason) = self.phase { reason } else { EndReason::Transferred };
                out.push(Output::Note(Note::Transferred));
                self.end(reason, out);
            }
            LegEvent::Dialling { limit } => {
                if matches!(self.phase, Phase::Transferring(_)) {
                    self.timers.set(Timer::LegAnswer, now + limit + TRANSFER_MAX);
                }
            }
            LegEvent::Ringing => {
                if matches!(self.phase, Phase::Transferring(_)) {
                    self.track.ring(self.plan.rules.ring_tone, self.plan.clips.ring_music.as_deref());
                }
            }
            LegEvent::TransferFailed(fault) => self.on_transfer_failed(fault, now, out),
            LegEvent::SetupFailed(step) => {
                out.push(Output::ToLeg(LegCommand::ReturnToDialplan { status: "SETUPFAILED" }));
                self.end(EndReason::SetupFailed(step), out);
            }
        }
    }

    /// Reason for a caller who is gone, where Asterisk tells `told` of the channel.
    fn reason_of_leaving(&self, told: EndReason) -> EndReason {
        match &self.phase {
            Phase::Connecting if told == EndReason::CallerHungUp => EndReason::CallerAbandoned,
            // The call was over: whoever lets go first, what ended it stands.
            Phase::Leaving(Departure::HangUp(reason) | Departure::ToDialplan(reason))
            | Phase::Leaving(Departure::Transfer { reason, .. })
            | Phase::Transferring(reason)
                if *reason != EndReason::Transferred =>
            {
                *reason
            }
            _ => told,
        }
    }

    fn on_transfer_failed(&mut self, fault: TransferFault, now: Instant, out: &mut Vec<Output>) {
        let Phase::Transferring(reason) = self.phase else { return };
        self.timers.clear(Timer::LegAnswer);
        out.push(Output::Note(Note::TransferFailed(fault)));
        // Whatever was left to be said was meant for somebody who is on the way out.
        self.track.stop_ringing();
        let (interrupted, _) = self.track.cut(self.response.as_ref().map(|response| &response.id), now, out);
        self.tell_interrupted(interrupted, true, out);
        let lost = self.lost_untold.take();
        // Without slots there is no path any more on which anybody could be heard.
        let stranded = !self.timers.is_set(Timer::Slot);
        if reason != EndReason::Transferred {
            // The apology was heard already, and the place it promised is not there.
            self.depart(Departure::ToDialplan(reason), now, out);
        } else if stranded {
            self.depart(Departure::ToDialplan(lost.unwrap_or(EndReason::MediaLost)), now, out);
        } else {
            self.stay();
            self.tell_late(now, out);
            match lost {
                Some(reason) => self.fail(reason, now, out),
                None => {
                    self.tell_end_of_turn(out);
                    self.say_own(fault.sentence(), now, out);
                }
            }
        }
    }

    /// The call goes on after all.
    fn stay(&mut self) {
        self.phase = Phase::Talking;
        self.timers.clear(Timer::LastWords);
        self.timers.clear(Timer::Tail);
        self.timers.set(Timer::CallMax, self.began + self.plan.rules.call_max);
    }

    // ---- Time ----

    fn on_timer(&mut self, timer: Timer, due: Instant, now: Instant, out: &mut Vec<Output>) {
        match timer {
            Timer::Slot => {
                let played = self.track.slot(due, now, self.response.is_some(), out);
                self.timers.set(Timer::Slot, played.next);
                self.ears.played(&played.frame, now);
                if let Some(question) = self.track.asked() {
                    self.policy.question_was_heard(&question);
                }
                if played.agent_begins
                    && let Some(times) = self.clock.heard(now)
                {
                    out.push(Output::Measure(Measure::Turn(times)));
                }
                for _ in 0..self.gap.missing(due, now) {
                    if self.agent != Agent::Gone {
                        self.hear_caller(self.track.silence(), now, out);
                        out.push(Output::Measure(Measure::CallerGap));
                    }
                }
            }
            Timer::CallMax => {
                let (interrupted, _) = self.track.cut(self.response.as_ref().map(|response| &response.id), now, out);
                self.tell_interrupted(interrupted, true, out);
                self.leave(Departure::HangUp(EndReason::CallTooLong), now);
                // Nobody may keep the call alive by talking on.
                let sentences = Arc::clone(&self.plan.rules.sentences);
                self.say_now(sentences.get(Sentence::CallTooLong), now, out);
            }
            Timer::AgentReady => {
                self.on_agent_lost(EndReason::AgentLost(super::agent::AgentLoss::Unreachable), now, out);
            }
            Timer::NoInput => self.on_no_input(now, out),
            Timer::Tool => {
                for id in self.actions.overdue(now) {
                    out.push(Output::CancelTool { id });
                    let late = ToolOutcome::failed(ToolError::Timeout, "The tool took too long.");
                    self.on_tool_finished(id, late, now, out);
                }
                self.on_waited(now, out);
            }
            Timer::Filler => self.fill(out),
            Timer::Answer => self.answer(out),
            Timer::Recovery => self.no_agent_is_left(now, out),
            Timer::Menu => self.on_no_choice(now, out),
            // It does not answer, or began to and does not go on. A farewell is not waited for: `settle` lets the call go.
            Timer::AgentSilence | Timer::Stalled => match self.phase {
                Phase::Talking => self.on_agent_lost(EndReason::AgentSilent, now, out),
                _ => self.farewell_is_over(now, out),
            },
            Timer::Digits => self.on_digits_late(now, out),
            Timer::LastWords | Timer::Tail => {
                if let Phase::Leaving(departure) = &self.phase {
                    self.depart(departure.clone(), now, out);
                }
            }
            Timer::LegAnswer => match self.phase {
                Phase::Transferring(_) => self.on_transfer_failed(TransferFault::Unreachable, now, out),
                // Without a path for the apology, the caller is better off in the dialplan.
                _ if self.plan.rules.on_failure == OnFailure::HangUp => {
                    self.depart(Departure::HangUp(EndReason::MediaLost), now, out);
                }
                _ => self.depart(Departure::ToDialplan(EndReason::MediaLost), now, out),
            },
        }
    }

    // ---- Small steps ----

    fn leave(&mut self, departure: Departure, now: Instant) {
        // What the agent says before it asks to leave is its farewell, unless another one is to come.
        let asked_by_agent = !matches!(departure, Departure::HangUp(EndReason::NoInput));
        self.farewell_begun = asked_by_agent && self.has_spoken && self.manners.closing.is_none();
        self.phase = Phase::Leaving(departure);
        self.stop_deciding(now);
        for timer in [Timer::CallMax, Timer::NoInput, Timer::AgentSilence] {
            self.timers.clear(timer);
        }
        self.await_last_words(now);
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
            Departure::Transfer { to, by, reason } => {
                out.push(Output::Note(Note::Transferring { to: to.clone(), by }));
                self.hand_on(to.into(), reason, now, out);
            }
        }
    }

    fn hand_on(&mut self, command: LegCommand, reason: EndReason, now: Instant, out: &mut Vec<Output>) {
        for timer in [Timer::LastWords, Timer::CallMax] {
            self.timers.clear(timer);
        }
        self.timers.set(Timer::LegAnswer, now + TRANSFER_MAX);
        self.phase = Phase::Transferring(reason);
        out.push(Output::ToLeg(command));
    }

    fn end(&mut self, reason: EndReason, out: &mut Vec<Output>) {
        self.abandon_tools(out);
        self.timers.clear_all();
        self.phase = Phase::Ended;
        out.push(Output::End(reason));
    }

    /// Nothing is being said and nothing is owed.
    fn is_quiet(&self) -> bool {
        let owed = self.timers.is_set(Timer::AgentSilence) || !self.actions.is_empty() || self.question_is_due();
        self.track.is_empty() && self.response.is_none() && !owed
    }

    /// Whoever is told of the call's turns learns when one is over, and when it is only silent: an agent that is lost owes
    /// nothing itself, and the next one what it owed.
    fn tell_quiet(&mut self, quiet: bool, out: &mut Vec<Output>) {
        let over = quiet && !(self.agent == Agent::Lost && self.succession.owes());
        let falls_quiet = !std::mem::replace(&mut self.was_quiet, quiet) && quiet;
        let is_over = !std::mem::replace(&mut self.was_over, over) && over;
        match self.phase {
            Phase::Ended => {}
            _ if is_over => out.push(Output::Note(Note::Quiet)),
            _ if falls_quiet => out.push(Output::Note(Note::Lull)),
            _ => {}
        }
    }

    /// Arms or clears the timers that follow from the state as a whole.
    fn settle(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.await_digits(now);
        self.hand_off_when_quiet(out);
        self.await_filler(now);
        self.await_choice(now);
        self.await_rest_of_answer(now);
        self.roll_over_when_quiet(now, out);
        self.settle_recording(now, out);
        if self.greeting_underway && self.has_spoken && self.response.is_none() && !self.track.agent_waits() {
            self.greeting_underway = false;
        }
        let quiet = self.is_quiet();
        self.tell_quiet(quiet, out);
        match self.phase {
            Phase::Talking => {
                let there = self.track.floor() != Floor::Caller && self.hold.is_none();
                let waiting = quiet && there && self.agent == Agent::Ready;
                if waiting && self.hears_turns() {
                    let after = if self.plan.written { WRITING_MAX } else { self.plan.rules.no_input_after };
                    self.timers.set_if_idle(Timer::NoInput, now + after);
                } else {
                    self.timers.clear(Timer::NoInput);
                }
            }
            Phase::Leaving(_) if self.finishing.begun => self.finish(now, out),
            Phase::Leaving(_) if quiet && self.track.floor() != Floor::Caller => {
                self.timers.set_if_idle(Timer::Tail, now + TAIL)
            }
            Phase::Leaving(_) => self.timers.clear(Timer::Tail),
            _ => {}
        }
    }
}
