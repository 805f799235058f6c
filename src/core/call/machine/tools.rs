//! The tools' part of [`CallMachine`]: calls come in, are decided about by the policy, run outside,
//! and are answered; what they ask of the call is carried out.

use super::{Agent, CallMachine, Departure, Phase, Timer, Unfinished, question::Asking, succession::Succession};
use crate::{
    call::{
        actions::Slow,
        agent::{AgentCommand, AgentLoss, Reply, Speaker},
        end::EndReason,
        leg::LegCommand,
        record::{Initiator, Measure, Note, TransferTarget},
        track::Floor,
        words::{Delivery, Handover, Output},
    },
    tool::{
        Admission, After, Answer, CallAction, ToolCall, ToolCallId, ToolError, ToolOutcome, Verdict,
        policy::NAME_CHARS_MAX,
    },
};
use std::time::Instant;

/// Calls answered without a run in one turn of the caller after which an agent that still calls tools counts as silent:
/// each is answered at once, so a model that goes in circles would never let the silence timer run.
const REFUSALS_MAX: u32 = 8;

/// Answers after that, none of which made the agent speak: a fast model asks hundreds of times while the silence timer runs.
const ROUNDS_MAX: u32 = 8;

/// Calls that an agent makes before its caller is answered. One is a model that looks something up for its greeting.
const EARLY_CALLS_MAX: usize = 16;

/// Pieces of an agent's greeting that are kept until its caller is answered.
const EARLY_WORDS_MAX: usize = 16;

/// Handoffs of one call. A caller is served by two or three agents; more are agents that send the call in circles, and
/// each costs a session.
const HANDOFFS_MAX: u32 = 8;

/// What tools asked of the agent's behaviour until its turn ends.
#[derive(Debug, Default)]
pub(super) struct Manners {
    /// Its audio is not heard.
    pub audio_held: bool,
    /// Its words are not kept.
    pub words_hidden: bool,
    /// The caller is being asked by a clip: the agent waits with them.
    pub asks: bool,
    /// What it is told to say when it is done.
    pub next: Option<String>,
    /// What it says last of all.
    pub closing: Option<String>,
    /// Calls that were refused, or answered with an old result, since the caller last spoke.
    pub refusals: u32,
    /// Answers to such calls that were to make it speak.
    pub rounds: u32,
}

/// Another context is to take over once the agent's words were heard.
#[derive(Debug)]
pub(super) struct Handoff {
    target: String,
    message: Option<String>,
    context_passed: Vec<String>,
}

impl CallMachine {
    pub(super) fn on_tool_call(&mut self, call: ToolCall, now: Instant, out: &mut Vec<Output>) {
        // Without name and id there is nobody to answer (P11).
        if call.name.is_empty() && call.id.is_empty() {
            out.push(Output::Note(Note::ActionRefused("a tool call without name and id")));
            return;
        }
        if matches!(self.phase, Phase::Connecting) {
            return self.keep_for_later(call, out);
        }
        if self.actions.is_flooded() {
            return self.on_agent_lost(EndReason::AgentLost(AgentLoss::Protocol), now, out);
        }
        let id = ToolCallId::random();
        let full = self.actions.is_full();
        self.actions.begin(id, &call.id);
        // While the caller speaks, the timer is about them.
        if self.manners.refusals <= REFUSALS_MAX && !self.caller_is_answered_anyway() {
            self.timers.clear(Timer::AgentSilence);
        }
        if full {
            let answer = self.policy.refuse(id, &call, "Too many tools are running.");
            self.answered(answer, now, out);
        } else {
            self.admit(id, call, now, out);
        }
        self.arm_tool_timer();
        self.answer_if_free(now, out);
    }

    /// The agent acts before it speaks, while the caller still hears ringing: they are answered, and it is decided
    /// about then.
    fn keep_for_later(&mut self, call: ToolCall, out: &mut Vec<Output>) {
        self.answer(out);
        if self.early_calls.len() < EARLY_CALLS_MAX {
            self.early_calls.push(call);
        } else {
            out.push(Output::Note(Note::ActionRefused("more tool calls before the answer than a call may have")));
        }
    }

    pub(super) fn take_early_calls(&mut self, now: Instant, out: &mut Vec<Output>) {
        for call in std::mem::take(&mut self.early_calls) {
            self.on_tool_call(call, now, out);
        }
        // Their response may be over by now.
        if self.response.is_none() {
            self.actions.response_completed();
            self.answer_tools(now, out);
        }
    }

    fn admit(&mut self, id: ToolCallId, call: ToolCall, now: Instant, out: &mut Vec<Output>) {
        if !matches!(self.phase, Phase::Talking) || self.handoff.is_some() {
            let answer = self.policy.refuse(id, &call, "The call is ending.");
            return self.answered(answer, now, out);
        }
        if self.agent != Agent::Ready {
            // Its session is not set up, so it cannot know which tools it has (P7).
            let answer = self.policy.refuse(id, &call, "The session is not ready.");
            return self.answered(answer, now, out);
        }
        match self.policy.admit(id, &call, now) {
            Admission::Run { call, dispatched } => {
                let deadline = now + call.time_left().min(self.plan.rules.tool_max);
                match dispatched {
                    Some(output) => self.actions.dispatch(id, output, deadline),
                    None => {
                        let (tool, announce) = (call.name().into(), call.announce().cloned());
                        self.actions.run(id, deadline, Slow { tool, announce, began: now, told: false });
                    }
                }
                out.push(Output::RunTool(*call));
            }
            Admission::Attached => {}
            Admission::Wait { until } => self.actions.wait(id, call, until),
            Admission::Answered(answer) => {
                if answer.tool.is_none() && answer.error == Some(ToolError::NotFound) {
                    let name: String = call.name.chars().take(NAME_CHARS_MAX).collect();
                    out.push(Output::Note(Note::UnknownTool { name: name.into() }));
                }
                self.answered(*answer, now, out);
            }
        }
    }

    /// The policy's own answer, or the outcome of a run.
    fn answered(&mut self, answer: Answer, now: Instant, out: &mut Vec<Output>) {
        let Answer { id, output, tool, error, actions, audit } = answer;
        if !self.is_orphans_answer(id, tool.as_deref(), &output, now, out) {
            self.actions.finish(id, output);
        }
        let idle = audit.replayed || error.is_some_and(|error| error.before_running());
        self.manners.refusals = self.manners.refusals.saturating_add(idle.into());
        out.push(Output::Note(Note::ToolAnswered { tool, error }));
        out.push(Output::Note(Note::Audit(Box::new(audit))));
        self.carry_out(actions, now, out);
    }

    pub(super) fn on_tool_finished(
        &mut self,
        id: ToolCallId,
        outcome: ToolOutcome,
        now: Instant,
        out: &mut Vec<Output>,
    ) {
        if let ToolOutcome::Collect(plan) = outcome {
            if self.policy.runs(id) {
                self.collect(id, plan, now, out);
            }
            return;
        }
        self.forget_capture(id);
        self.actions.dispatched_finished(id);
        let Some(settled) = self.policy.settle(id, outcome, now) else { return };
        if let Some(audit) = settled.audit {
            out.push(Output::Note(Note::ToolAnswered { tool: Some(audit.tool_id.clone()), error: audit.error() }));
            out.push(Output::Note(Note::Audit(Box::new(audit))));
        }
        if settled.answers.iter().skip(1).any(|answer| self.actions.is_open(answer.id)) {
            self.is_joined(id);
        }
        for answer in settled.answers {
            self.answered(answer, now, out);
        }
        self.carry_out(settled.actions, now, out);
        self.arm_tool_timer();
        self.answer_if_free(now, out);
    }

    /// Does what a tool asked of the call.
    pub(super) fn carry_out(&mut self, actions: Vec<CallAction>, now: Instant, out: &mut Vec<Output>) {
        for action in actions {
            // A tool that outlived the conversation asks in vain.
            if !matches!(self.phase, Phase::Talking) {
                return;
            }
            match action {
                CallAction::EndCall { after: After::CurrentTurn, closing, .. } => {
                    self.manners.closing = closing;
                    self.leave(Departure::HangUp(EndReason::AgentHungUp), now);
                }
                CallAction::EndCall { after: After::Immediate, .. } => {
                    self.depart(Departure::HangUp(EndReason::AgentHungUp), now, out);
                }
                CallAction::Transfer { destination } => {
                    self.leave(Departure::to(TransferTarget::Destination(destination), Initiator::Agent), now);
                }
                CallAction::HoldAudio(held) => self.manners.audio_held = held,
                CallAction::HideTranscript(hidden) => self.manners.words_hidden = hidden,
                CallAction::SayNextTurn { message } => self.manners.next = Some(message),
                CallAction::Handoff { .. } if self.handoffs >= HANDOFFS_MAX => {
                    out.push(Output::Note(Note::ActionRefused("a handoff more than a call may have; it stays here")));
                    let text = "The call could not be handed on: it was handed on too often. It stays with you; help the \
                                caller yourself, or say that you cannot.";
                    self.tell(text, now, out);
                }
                CallAction::Handoff { target, message, context_passed } => {
                    self.handoff = Some(Handoff { target, message, context_passed });
                }
                CallAction::TakeMessage(message) => out.push(Output::Deliver(Delivery::Message(message))),
                CallAction::SendTranscript { to } => out.push(Output::Deliver(Delivery::Transcript { to })),
                CallAction::Ask { question } => self.prepare_question(question, out),
                CallAction::StopRecording => self.refuse_recording(),
                // The memory has it already.
                CallAction::Flag { .. } => {}
                CallAction::SendDigits { digits } => out.push(Output::ToLeg(LegCommand::SendDigits { digits })),
                CallAction::Voicemail { mailbox } => {
                    self.leave(Departure::to(TransferTarget::Mailbox(mailbox), Initiator::Agent), now);
                }
            }
        }
    }

    /// The agent's turn is over, no answer of a tool is owed in it: what tools asked of its behaviour ends with it.
    pub(super) fn turn_over(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Manners { next, closing, refusals, rounds, asks, .. } = std::mem::take(&mut self.manners);
        (self.manners.closing, self.manners.asks) = (closing, asks);
        (self.manners.refusals, self.manners.rounds) = (refusals, rounds);
        if let Some(message) = next
            && matches!(self.phase, Phase::Talking)
        {
            self.say(&message, now, out);
        }
    }

    // ---- What was said ----

    pub(super) fn on_words(
        &mut self,
        speaker: Speaker,
        text: String,
        utterance: Option<&str>,
        now: Instant,
        out: &mut Vec<Output>,
    ) {
        self.finishing.words_came(speaker);
        let unheard = speaker == Speaker::Agent && self.manners.asks;
        let hidden = unheard || speaker == Speaker::Agent && self.manners.words_hidden;
        let verdict = match speaker {
            Speaker::Caller => {
                let verdict = self.policy.caller_said(utterance, &text, now);
                if self.policy.words_are_of_this_turn() {
                    self.ears.words_came();
                }
                verdict
            }
            Speaker::Agent if unheard => None,
            Speaker::Agent => {
                self.policy.agent_said(&text);
                self.waiting.agent_said(&text);
                self.ears.agent_said(&text);
                None
            }
        };
        if !hidden {
            let said = Note::Said { speaker, text: text.into() };
            let is_early = speaker == Speaker::Agent && matches!(self.phase, Phase::Connecting);
            match is_early {
                true if self.early_words.len() < EARLY_WORDS_MAX => self.early_words.push(said),
                true => out.push(Output::Note(Note::ActionRefused("more words before the answer than are kept"))),
                false => out.push(Output::Note(said)),
            }
        }
        // The agent heard the words itself.
        out.extend(verdict.map(|verdict| Output::Note(Note::Confirmed(verdict))));
        if speaker == Speaker::Caller {
            self.decide_again(now, out);
        }
    }

    /// What waits for these words waits in vain: no words are no answer.
    pub(super) fn on_no_words(&mut self, utterance: Option<&str>, now: Instant, out: &mut Vec<Output>) {
        self.finishing.words_came(Speaker::Caller);
        self.policy.caller_said(utterance, "", now);
        self.decide_again(now, out);
    }

    /// The agent did not hear the key.
    pub(super) fn on_verdict_by_key(&mut self, verdict: Verdict, now: Instant, out: &mut Vec<Output>) {
        out.push(Output::Note(Note::Confirmed(verdict)));
        // A call that waits for the caller's answer has it now, and its own answer tells the agent.
        let waited = self.actions.is_waiting();
        self.decide_again(now, out);
        if !waited && matches!(self.phase, Phase::Talking) {
            let text = match verdict {
                Verdict::Granted => {
                    "The caller said yes by pressing a key. Call the tool again with the same arguments and the \
                     confirmationToken."
                }
                Verdict::Declined => "The caller said no by pressing a key. Do not call the tool; ask what else to do.",
                Verdict::Unheard => {
                    "The caller pressed the key for yes before the question was read out. Read it out, word for word, \
                     and ask again."
                }
            };
            self.tell(text, now, out);
        }
    }

    /// Calls that waited for the caller's words are decided about again.
    fn decide_again(&mut self, now: Instant, out: &mut Vec<Output>) {
        for (id, call) in self.actions.take_waiting() {
            self.admit(id, call, now, out);
        }
        self.arm_tool_timer();
        self.answer_if_free(now, out);
    }

    pub(super) fn on_waited(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.actions.waited_too_long(now) {
            self.policy.words_do_not_come();
            self.decide_again(now, out);
        }
        self.arm_tool_timer();
    }

    // ---- Answers ----

    pub(super) fn answer_if_free(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.response.is_none() {
            self.answer_tools(now, out);
        }
    }

    pub(super) fn answer_tools(&mut self, now: Instant, out: &mut Vec<Output>) {
        // A farewell that was spoken before the tool was called needs no second one.
        let leaving = matches!(self.phase, Phase::Leaving(_));
        let farewell = leaving && (self.has_spoken || self.manners.closing.is_some());
        let anyway = self.caller_is_answered_anyway();
        let asking = self.ask(anyway, out);
        let speak = !farewell && self.handoff.is_none() && !anyway && matches!(asking, Asking::Nothing);
        let answers = self.actions.take_answers(speak);
        let answered = !answers.is_empty();
        for answer in answers {
            let in_circles = self.manners.refusals > REFUSALS_MAX && self.timers.is_set(Timer::AgentSilence);
            if answer.reply == Reply::Wanted {
                match in_circles {
                    true => self.manners.rounds += 1,
                    false => self.expect_speech(now),
                }
            }
            let (call_id, output, reply) = (answer.call_id, answer.output, answer.reply);
            self.succession.result_is_told(&output);
            self.to_agent(AgentCommand::ToolResult { call_id, output, reply }, out);
        }
        // After the answers, which say that the caller is asked.
        if let Asking::ByAgent(question) = asking {
            self.leave_question_to_agent(&question, now, out);
        }
        if self.manners.rounds > ROUNDS_MAX {
            self.manners.rounds = 0;
            return self.on_agent_lost(EndReason::AgentSilent, now, out);
        }
        if answered
            && leaving
            && let Some(closing) = self.manners.closing.take()
        {
            self.manners.audio_held = false;
            self.say(&closing, now, out);
        }
    }

    /// Calls that wait for the caller's words have nobody left who asked for them. Every call has its line in
    /// the audit log, also one that nobody is left to answer.
    pub(super) fn refuse_waiting(&mut self, out: &mut Vec<Output>) {
        for (id, call) in self.actions.take_waiting() {
            let audit = self.policy.refuse(id, &call, "The call is ending.").audit;
            out.push(Output::Note(Note::Audit(Box::new(audit))));
        }
    }

    /// The provider wants no answer of this call any more: it is stopped, and never answered.
    pub(super) fn on_tool_call_cancelled(&mut self, call_id: &str, now: Instant, out: &mut Vec<Output>) {
        if !self.actions.knows(call_id) {
            out.push(Output::Measure(Measure::OddId));
        }
        if let Some(id) = self.actions.withdraw(call_id) {
            self.cancel_tool(id, out);
            self.forget_capture(id);
            // It was called in the place of an answer, which is owed again.
            let idle = self.response.is_none() && self.actions.is_empty() && matches!(self.phase, Phase::Talking);
            if idle && self.track.floor() != Floor::Caller && !self.caller_is_answered_anyway() {
                self.expect_speech(now);
            }
        }
        self.arm_tool_timer();
        self.answer_if_free(now, out);
    }

    fn cancel_tool(&mut self, id: ToolCallId, out: &mut Vec<Output>) {
        if let Some((tool, lines)) = self.policy.cancel(id, self.at) {
            out.push(Output::CancelTool { id });
            out.push(Output::Note(Note::ToolCancelled { tool }));
            out.extend(lines.into_iter().map(|audit| Output::Note(Note::Audit(Box::new(audit)))));
        }
    }

    pub(super) fn waiting_for_words(&self) -> bool {
        self.actions.is_waiting()
    }

    pub(super) fn abandon_tools(&mut self, out: &mut Vec<Output>) {
        self.refuse_waiting(out);
        for id in self.actions.abandon() {
            self.cancel_tool(id, out);
        }
        self.drop_capture();
        self.timers.clear(Timer::Tool);
    }

    pub(super) fn arm_tool_timer(&mut self) {
        match self.actions.deadline() {
            Some(at) => self.timers.set(Timer::Tool, at),
            None => self.timers.clear(Timer::Tool),
        }
    }

    // ---- Another context ----

    /// Begins the handoff once the agent's words were heard.
    pub(super) fn hand_off_when_quiet(&mut self, out: &mut Vec<Output>) {
        let quiet = self.track.is_empty() && self.response.is_none() && self.actions.is_empty();
        if quiet
            && matches!(self.phase, Phase::Talking)
            && let Some(Handoff { target, message, context_passed }) = self.handoff.take()
        {
            self.handoffs += 1;
            self.timers.clear(Timer::AgentSilence);
            // Nothing of the old agent is heard or told from here on; the new one is dialled.
            self.agent = Agent::Dialling;
            self.timers.set(Timer::AgentReady, self.at + self.plan.rules.agent_ready_max);
            let workflow = &self.policy.memory().workflow;
            let known =
                context_passed.into_iter().filter_map(|key| workflow.get(&key).cloned().map(|value| (key, value)));
            out.push(Output::HandOff { target, message, known: known.collect() });
        }
    }

    pub(super) fn on_handed_off(&mut self, handover: Handover, now: Instant, out: &mut Vec<Output>) {
        let Handover { context, rules, toolbox, policy, agent, clips, pin } = handover;
        self.abandon_tools(out);
        self.policy.change_hands(toolbox, policy, agent.answer_limits());
        self.policy.expect_pin(pin);
        self.ears.new_rules(&rules);
        self.ears.new_agent(&agent);
        self.track.new_agent(!self.ears.own_turns());
        (self.response, self.last_response) = (None, None);
        (self.has_spoken, self.prompts_used) = (false, 0);
        self.unfinished = Unfinished::default();
        self.manners = Manners::default();
        self.waiting.new_agent();
        self.succession = Succession::default();
        self.takes_over = true;
        let recorded = std::mem::replace(&mut self.plan.rules, rules).recording;
        (self.plan.agent, self.plan.clips) = (agent, clips);
        self.policy.reads_out(self.plan.clips.read_out());
        self.drop_question();
        self.agent = Agent::Dialling;
        self.timers.set(Timer::AgentReady, now + self.plan.rules.agent_ready_max);
        out.push(Output::Note(Note::HandedOff { context }));
        self.announce_recording(recorded, out);
    }
}
