//! The agent's half of [`CallMachine`]: what it says, when it is interrupted, what it asks of tools,
//! and what becomes of the call when it is lost.

use super::{Agent, CallMachine, Departure, Phase, Response, tools::Manners};
use crate::call::{
    agent::{AgentCommand, AgentEvent, ItemId, Reply, ResponseId, ResponseStatus},
    end::EndReason,
    playout::{Interrupted, Queued},
    record::{Measure, Note},
    rules::OnFailure,
    timers::Timer,
    track::Floor,
    words::Output,
};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// Frames are 20 ms.
const FRAMES_A_SECOND: usize = 50;
/// Nobody speaks for so long without a breath: the provider has lost the end of the caller's turn.
const CALLER_TURN_MAX: Duration = Duration::from_secs(4 * 60);
/// An agent that was asked for a last word has begun it by now, or will not.
const FAREWELL_BEGINS_MAX: Duration = Duration::from_secs(5);
/// The caller has been in conversation already, so there is nobody to be greeted.
const TAKE_OVER: &str = "You have just taken over this call. Say in one sentence that you take over, and go on.";

impl CallMachine {
    pub(super) fn on_agent(&mut self, event: AgentEvent, now: Instant, out: &mut Vec<Output>) {
        if let AgentEvent::Usage(usage) = event {
            // Paid for, whatever became of the agent.
            out.push(Output::Measure(Measure::Usage(usage)));
            return;
        }
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
            AgentEvent::ResponseStarted { response } => {
                let is_announcement = self.announcements.begins();
                self.response = Some(Response { id: response, spoke: false, is_announcement });
            }
            AgentEvent::Audio { response, item, audio } => self.on_agent_audio(response, item, audio, out),
            AgentEvent::ResponseDone { response, status } => self.on_response_done(&response, status, now, out),
            AgentEvent::CallerSpeechStarted { utterance } => {
                self.policy.caller_spoke(utterance, now);
                self.on_caller_speech(now, out);
            }
            AgentEvent::CallerSpeechStopped => {
                self.track.caller_stopped(now);
                self.announcements.caller_stopped();
                self.policy.caller_stopped(now);
                self.expect_speech(now);
                out.push(Output::Note(Note::CallerFinished));
            }
            AgentEvent::Transcript { speaker, text, utterance } => {
                self.on_words(speaker, text, utterance.as_deref(), now, out);
            }
            AgentEvent::NoTranscript { utterance } => self.on_no_words(utterance.as_deref(), now, out),
            AgentEvent::ToolCall(call) => self.on_tool_call(call, now, out),
            AgentEvent::PartialTranscript { .. }
            | AgentEvent::ToolCallCancelled { .. }
            | AgentEvent::Expiring { .. }
            | AgentEvent::Resumable { .. } => {}
            // Counted already, or where it was heard.
            AgentEvent::Usage(_) | AgentEvent::Noise(_) => {}
            AgentEvent::Lost(loss) => self.on_agent_lost(EndReason::AgentLost(loss), now, out),
        }
    }

    fn on_agent_audio(&mut self, response: ResponseId, item: ItemId, audio: Bytes, out: &mut Vec<Output>) {
        let bytes = audio.len();
        if self.manners.audio_held {
            // It has answered; that nobody hears it is meant.
            self.timers.clear(Timer::AgentSilence);
            out.push(Output::Measure(Measure::StaleAudio(bytes)));
            return;
        }
        match self.track.push(response.clone(), item, audio) {
            Queued::Kept => {
                self.timers.clear(Timer::AgentSilence);
                self.asked_again = false;
                let announced = |active: &Response| active.is_announcement && active.id == response;
                if !self.response.as_ref().is_some_and(announced) {
                    (self.has_spoken, self.takes_over) = (true, false);
                    self.farewell_begun |= bytes > 0;
                }
                match &mut self.response {
                    Some(active) if active.id == response => active.spoke = true,
                    // Some providers send audio without announcing its response, and some after its end.
                    active if self.last_response.as_ref() != Some(&response) => {
                        *active = Some(Response { id: response, spoke: true, is_announcement: false });
                    }
                    _ => {}
                }
            }
            Queued::Stale => out.push(Output::Measure(Measure::StaleAudio(bytes))),
            Queued::Overflow => out.push(Output::Measure(Measure::PlayoutOverflow(bytes))),
        }
    }

    fn on_response_done(&mut self, response: &ResponseId, status: ResponseStatus, now: Instant, out: &mut Vec<Output>) {
        let ended = self.response.take_if(|active| active.id == *response);
        self.last_response = Some(response.clone());
        self.actions.response_completed();
        let called_tools = !self.actions.is_empty();
        if !called_tools {
            self.turn_over(now, out);
        }
        self.answer_tools(now, out);
        // Speech is owed, and this response brought neither that nor a tool call.
        let empty = ended.is_some_and(|response| !response.spoke) && !called_tools;
        let owed = self.timers.is_set(Timer::AgentSilence) && self.track.floor() != Floor::Caller;
        if empty && owed && status != ResponseStatus::Cancelled {
            self.ask_again(now, out);
        }
    }

    /// A failed or empty answer is not waited out in silence: once more, then the agent is given up.
    fn ask_again(&mut self, now: Instant, out: &mut Vec<Output>) {
        if std::mem::replace(&mut self.asked_again, true) {
            // In `Leaving` the words that were asked for do not come: `settle` lets the call go.
            self.timers.clear(Timer::AgentSilence);
            if matches!(self.phase, Phase::Talking) {
                self.on_agent_lost(EndReason::AgentSilent, now, out);
            }
        } else if self.track.never_spoken() || self.takes_over {
            self.greet(now, out);
        } else {
            self.say("Your last answer was not heard. Give it again.", now, out);
        }
    }

    /// The caller speaks: if the agent was speaking or about to, it stops within the next slot.
    fn on_caller_speech(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.has_spoken = false;
        self.asked_again = false;
        self.prompts_used = 0;
        self.manners = Manners::default();
        self.actions.forget_announcements();
        self.announcements.caller_speaks();
        self.timers.clear(Timer::NoInput);
        if self.agent == Agent::Ready {
            self.timers.set(Timer::AgentSilence, now + CALLER_TURN_MAX);
        }
        out.push(Output::Note(Note::CallerSpeaks));
        let interrupted = self.track.caller_speaks(self.response.as_ref().map(|response| &response.id), now);
        let cut = !interrupted.cuts.is_empty();
        // The last second of a question can be missed; more is a question that was not heard.
        if cut && (self.response.is_some() || interrupted.dropped > FRAMES_A_SECOND * self.plan.format.frame_bytes()) {
            self.policy.question_was_cut();
        }
        self.tell_interrupted(interrupted, !self.plan.agent.cancels_on_speech, out);
        // Somebody who talks into a goodbye, or before it, is not hung up on.
        if (cut || !self.farewell_begun)
            && let Phase::Leaving(
                Departure::HangUp(EndReason::AgentHungUp | EndReason::NoInput)
                | Departure::Transfer { reason: EndReason::Transferred, .. }
                | Departure::Voicemail { .. },
            ) = self.phase
        {
            self.stay();
        }
    }

    /// Tells the agent how much was heard of each item that was cut off.
    pub(super) fn tell_interrupted(&mut self, interrupted: Interrupted, cancel: bool, out: &mut Vec<Output>) {
        if let Some(first) = interrupted.cuts.first() {
            out.push(Output::Note(Note::BargeIn { heard: first.heard }));
        }
        if interrupted.dropped > 0 {
            out.push(Output::Measure(Measure::Interrupted(interrupted.dropped)));
        }
        for (index, cut) in interrupted.cuts.into_iter().enumerate() {
            let (response, item, heard) = (cut.response, cut.item, cut.heard);
            let cancel = cancel && index == 0;
            self.to_agent(AgentCommand::Interrupt { response, item, heard, cancel }, out);
        }
    }

    pub(super) fn on_agent_lost(&mut self, reason: EndReason, now: Instant, out: &mut Vec<Output>) {
        self.agent = Agent::Gone;
        self.response = None;
        self.track.agent_is_lost();
        for timer in [Timer::AgentReady, Timer::AgentSilence, Timer::NoInput] {
            self.timers.clear(timer);
        }
        self.abandon_tools(out);
        match self.phase {
            // The caller is on the way out already; nothing more was expected of the agent.
            Phase::Leaving(_) | Phase::MediaGone | Phase::Ended => {}
            // The audio path is a moment away, or may not be needed any more.
            Phase::Connecting | Phase::Transferring(_) => self.lost_untold = Some(reason),
            Phase::Talking => self.fail(reason, now, out),
        }
    }

    /// The caller hears the apology and goes where the context says.
    pub(super) fn fail(&mut self, reason: EndReason, now: Instant, out: &mut Vec<Output>) {
        out.push(Output::Note(Note::Failing(reason)));
        let apology = self.plan.clips.apology.clip.render(self.plan.format);
        self.track.push("offhook".into(), "apology".into(), apology);
        let departure = match &self.plan.rules.on_failure {
            OnFailure::HangUp => Departure::HangUp(reason),
            OnFailure::Dialplan => Departure::ToDialplan(reason),
            OnFailure::Transfer(to) => Departure::Transfer { destination: to.clone(), reason },
        };
        self.leave(departure, now);
    }

    // ---- What it is told ----

    pub(super) fn to_agent(&self, command: AgentCommand, out: &mut Vec<Output>) {
        if self.agent != Agent::Gone {
            out.push(Output::ToAgent(command));
        }
    }

    /// The agent speaks first.
    pub(super) fn greet(&mut self, now: Instant, out: &mut Vec<Output>) {
        let text = self.plan.rules.greeting.clone();
        if self.takes_over && text.is_none() {
            return self.tell(TAKE_OVER, now, out);
        }
        self.expect_speech(now);
        self.to_agent(AgentCommand::Greet { text }, out);
    }

    pub(super) fn say(&mut self, text: &str, now: Instant, out: &mut Vec<Output>) {
        if self.caller_is_answered_anyway() {
            let text = format!("In your next answer, also say something of this meaning: {text}");
            self.tell(&text, now, out);
        } else {
            self.say_now(text, now, out);
        }
    }

    /// Also into what the caller is saying.
    pub(super) fn say_now(&mut self, text: &str, now: Instant, out: &mut Vec<Output>) {
        if self.agent == Agent::Ready {
            self.expect_speech(now);
            self.to_agent(AgentCommand::Say { text: text.to_owned() }, out);
        }
    }

    /// The agent learns of something that it may have to act upon.
    pub(super) fn tell(&mut self, text: &str, now: Instant, out: &mut Vec<Output>) {
        if self.agent == Agent::Ready {
            let reply = if self.caller_is_answered_anyway() { Reply::NotNow } else { Reply::Wanted };
            if reply == Reply::Wanted {
                self.expect_speech(now);
            }
            self.to_agent(AgentCommand::Tell { text: text.to_owned(), reply }, out);
        }
    }

    /// The caller is speaking, and the agent will answer that by itself. Whatever else it is asked to
    /// say would be said into the caller's words, or collide with that answer.
    pub(super) fn caller_is_answered_anyway(&self) -> bool {
        self.plan.agent.detects_speech && self.track.floor() == Floor::Caller
    }

    /// From now on the agent owes the caller speech.
    pub(super) fn expect_speech(&mut self, now: Instant) {
        if self.agent == Agent::Ready {
            let mut limit = self.plan.rules.agent_silence_max;
            if matches!(self.phase, Phase::Leaving(_)) {
                limit = limit.min(FAREWELL_BEGINS_MAX);
            }
            self.timers.set(Timer::AgentSilence, now + limit);
        }
    }
}
