//! The agent's half of [`CallMachine`]: what it says, when it is interrupted, what it asks of tools,
//! and what becomes of the call when it is lost.

use super::{Agent, CallMachine, Departure, Phase, tools::Manners};
use crate::{
    call::{
        agent::{AgentCommand, AgentEvent, AgentTraits, ItemId, Reply, ResponseId, ResponseStatus, Speaker},
        end::EndReason,
        playout::{Interrupted, Queued},
        record::{Lapse, Measure, Note},
        timers::Timer,
        track::{ClipHeard, Floor, Purpose},
        words::Output,
    },
    sentences::Sentence,
};
use bytes::Bytes;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Frames are 20 ms.
const FRAMES_A_SECOND: usize = 50;
/// Nobody speaks for so long without a breath: the provider has lost the end of the caller's turn.
const CALLER_TURN_MAX: Duration = Duration::from_secs(4 * 60);
/// A turn that the provider has begun and that our own ears do not hear, or hear no more. OpenAI's `semantic_vad` waits for
/// another word for at most 8 s; who is configured to wait longer has that in [`AgentTraits::end_found_max`]. One that has said
/// nothing by now has lost the end of the turn.
const UNHEARD_TURN_MAX: Duration = Duration::from_secs(15);
/// An agent that was asked for a last word has begun it by now, or it is not waited for; and in it no gap is longer. So it is
/// also where the agent itself may take longer ([`AgentTraits::answer_max`]), as a pipeline does whose services fail one after
/// the other: nobody asks a caller to wait for a goodbye, and after so long a silence it says no more than the end of the call.
pub(super) const FAREWELL_BEGINS_MAX: Duration = Duration::from_secs(3);
/// So much that nobody can hear is kept at the beginning of an answer: voices begin within a few hundred milliseconds.
const QUIET_MAX: Duration = Duration::from_millis(1_500);

#[derive(Debug)]
pub(super) struct Response {
    pub(super) id: ResponseId,
    /// Something of it can be heard.
    pub(super) spoke: bool,
    /// Until then, bytes that cannot.
    pub(super) quiet: usize,
    /// Whether the response began in an open turn whose words the agent has told: it has found an end that it was not told.
    pub(super) finds_end: bool,
}

impl Response {
    const fn new(id: ResponseId, spoke: bool) -> Self {
        Self { id, spoke, quiet: 0, finds_end: false }
    }
}

/// Answers to this turn of the caller that were none, or not all.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// The agent was asked again for an answer that did not come.
    pub(super) asked_again: bool,
    /// The last response ended before its end: the next one owes the caller the rest.
    pub(super) broke_off: bool,
    /// The agent was asked for the rest.
    pub(super) asked_for_rest: bool,
}

impl CallMachine {
    pub(super) fn on_agent(&mut self, event: AgentEvent, now: Instant, out: &mut Vec<Output>) {
        if let AgentEvent::Usage(usage) = event {
            // Paid for, whatever became of the agent.
            out.push(Output::Measure(Measure::Usage(usage)));
            return;
        }
        if matches!(self.agent, Agent::Gone | Agent::Lost) {
            // Given up for its silence; what it still says is dropped, but not unseen.
            if let AgentEvent::Audio { audio, .. } = event {
                out.push(Output::Measure(Measure::StaleAudio(audio.len())));
            }
            return;
        }
        // Nobody speaks there: it is what was written, told back, or a sound in silence.
        if self.plan.written && event.is_of_caller() {
            return;
        }
        match event {
            AgentEvent::Ready => {
                self.agent = Agent::Ready;
                self.timers.clear(Timer::AgentReady);
                out.push(Output::Note(Note::AgentReady));
                // Also while the caller still hears ringing: what is said is there when they are answered.
                if matches!(self.phase, Phase::Talking | Phase::Connecting) {
                    self.greet(now, out);
                }
                if self.owes_answer() {
                    self.expect_speech(now);
                }
            }
            AgentEvent::ResponseStarted { response } => {
                self.waiting.response_begins(now);
                self.clock.response_began(now);
                if self.is_for_nobody() {
                    self.track.cut_off(response.clone());
                    self.cancel_unheard(Some(response.clone()), out);
                }
                let finds_end = self.ears.is_answerable();
                self.response = Some(Response { finds_end, ..Response::new(response, false) });
                if std::mem::take(&mut self.unfinished.broke_off) {
                    self.expect_speech(now);
                }
            }
            AgentEvent::Audio { response, item, audio } => self.on_agent_audio(response, item, audio, now, out),
            AgentEvent::ResponseDone { response, status } => self.on_response_done(&response, status, now, out),
            AgentEvent::CallerSpeechStarted { utterance } => self.on_speech_started(utterance, now, out),
            AgentEvent::CallerSpeechStopped => self.on_speech_stopped(now, out),
            AgentEvent::PartialTranscript { text, .. } => self.on_partial_words(&text, now, out),
            AgentEvent::Transcript { speaker, text, utterance } => {
                self.succession.somebody_speaks();
                self.on_words(speaker, text, utterance.as_deref(), now, out);
            }
            AgentEvent::CallerSeemsDone(done) => self.on_caller_seems_done(done),
            AgentEvent::NoTranscript { utterance } => self.on_no_words(utterance.as_deref(), now, out),
            AgentEvent::ToolCall(call) => self.on_tool_call(call, now, out),
            AgentEvent::ToolCallCancelled { call_id } => self.on_tool_call_cancelled(&call_id, now, out),
            AgentEvent::Expiring { .. } => self.expires(),
            // The engine keeps it for the session that may come, or has told it.
            AgentEvent::Resumable { .. } | AgentEvent::Summary { .. } | AgentEvent::Refused { .. } => {}
            AgentEvent::Stumbled(stumble) => out.push(Output::Note(Note::Stumbled(stumble))),
            // Counted already, or where it was heard.
            AgentEvent::Usage(_) | AgentEvent::Noise(_) => {}
            AgentEvent::Lost(loss) => self.on_agent_lost(EndReason::AgentLost(loss), now, out),
        }
    }

    fn on_agent_audio(
        &mut self,
        response: ResponseId,
        item: ItemId,
        audio: Bytes,
        now: Instant,
        out: &mut Vec<Output>,
    ) {
        let bytes = audio.len();
        if self.manners.audio_held || self.speaks_into_question(&response) {
            // It has answered; that nobody hears it is meant.
            self.timers.clear(Timer::AgentSilence);
            self.timers.clear(Timer::Stalled);
            out.push(Output::Measure(Measure::StaleAudio(bytes)));
            return;
        }
        if self.finds_end(&response) {
            self.end_turn(now, out);
        }
        if self.ears.is_told_a_turn() && !self.track.is_cut_off(&response) {
            // It was on its way when the turn began, or the caller has gone on.
            self.track.cut_off(response.clone());
            self.to_agent(AgentCommand::Interrupt { response, item, heard: Duration::ZERO, cancel: true }, out);
            out.push(Output::Measure(Measure::StaleAudio(bytes)));
            return;
        }
        let begins_quietly = self.plan.format.quiet_end(&audio) == bytes && !self.has_spoken_of(&response);
        if begins_quietly && self.keeps_quiet(&response, bytes) {
            return;
        }
        match self.track.push(response.clone(), item, audio) {
            Queued::Kept if begins_quietly => {}
            Queued::Kept => {
                self.on_answer(now, out);
                self.timers.clear(Timer::AgentSilence);
                self.timers.clear(Timer::Stalled);
                self.clock.audio_came(now);
                self.waiting.agent_speaks();
                self.ears.answered();
                self.succession.somebody_speaks();
                self.unfinished.asked_again = false;
                (self.has_spoken, self.takes_over) = (true, false);
                self.farewell_begun |= bytes > 0;
                match &mut self.response {
                    Some(active) if active.id == response => active.spoke = true,
                    // Some providers send audio without announcing its response, and some after its end.
                    active if self.last_response.as_ref() != Some(&response) => {
                        *active = Some(Response::new(response, true));
                    }
                    _ => {}
                }
                self.answer(out);
            }
            Queued::Stale => out.push(Output::Measure(Measure::StaleAudio(bytes))),
            Queued::Overflow => out.push(Output::Measure(Measure::PlayoutOverflow(bytes))),
        }
    }

    fn on_response_done(&mut self, response: &ResponseId, status: ResponseStatus, now: Instant, out: &mut Vec<Output>) {
        let ended = self.response.take_if(|active| active.id == *response);
        if ended.is_none() {
            out.push(Output::Measure(Measure::OddId));
        }
        let spoke = ended.as_ref().is_some_and(|response| response.spoke);
        if spoke {
            self.succession.has_answered();
        }
        if spoke && matches!(status, ResponseStatus::Completed | ResponseStatus::Cancelled) {
            self.succession.has_healed();
            self.policy.agent_answered();
            out.push(Output::Note(Note::AgentAnswered));
        }
        let broke_off = spoke && matches!(status, ResponseStatus::Incomplete | ResponseStatus::Failed);
        self.unfinished.broke_off = spoke && status == ResponseStatus::Incomplete;
        self.last_response = Some(response.clone());
        self.actions.response_completed();
        let called_tools = !self.actions.is_empty();
        if ended.as_ref().is_some_and(|response| !response.spoke) {
            self.clock.response_was_silent(called_tools);
        }
        if !called_tools {
            self.turn_over(now, out);
        }
        self.answer_tools(now, out);
        // Speech is owed, and this response brought neither that nor a tool call.
        let empty = ended.filter(|response| !response.spoke && !called_tools);
        let owed = self.timers.is_set(Timer::AgentSilence) && self.track.floor() != Floor::Caller;
        if let Some(response) = empty.filter(|_| owed && status != ResponseStatus::Cancelled) {
            let lapse = if response.quiet > 0 { Lapse::Soundless } else { Lapse::Empty };
            out.push(Output::Measure(Measure::AskedAgain(lapse)));
            self.ask_again(now, out);
        } else if broke_off && !called_tools {
            self.ask_for_rest(now, out);
        }
    }

    /// Half an answer is gone on with, once: whoever hears it break off waits for the rest.
    fn ask_for_rest(&mut self, now: Instant, out: &mut Vec<Output>) {
        let waits = matches!(self.phase, Phase::Talking) && self.track.floor() != Floor::Caller;
        if !waits || self.plan.agent.finishes_answers || std::mem::replace(&mut self.unfinished.asked_for_rest, true) {
            return;
        }
        out.push(Output::Measure(Measure::AskedAgain(Lapse::BrokeOff)));
        self.tell("Your last answer broke off before its end. Go on where it stopped.", now, out);
    }

    /// Whether this response shows that the open turn is over: the agent knows the words of the turn, and the caller is silent.
    fn finds_end(&self, response: &ResponseId) -> bool {
        let active = self.response.as_ref().filter(|active| active.id == *response);
        let may_end = self.ears.is_told_a_turn() && self.ears.may_end();
        may_end && !self.track.is_cut_off(response) && active.is_some_and(|active| active.finds_end)
    }

    fn has_spoken_of(&self, response: &ResponseId) -> bool {
        let active = self.response.as_ref().filter(|active| active.id == *response);
        active.is_some_and(|active| active.spoke) || self.last_response.as_ref() == Some(response)
    }

    /// Audio that nobody can hear is no answer yet. A voice may begin after a breath, which is kept; what goes on without a
    /// sound is not, so that who waits hears the voice soon after it begins. Returns whether it is left out.
    fn keeps_quiet(&mut self, response: &ResponseId, bytes: usize) -> bool {
        let active = self.response.take_if(|active| active.id == *response);
        let quiet = active.map_or(0, |active| active.quiet) + bytes;
        self.response = Some(Response { quiet, ..Response::new(response.clone(), false) });
        self.plan.format.duration_of(quiet) > QUIET_MAX
    }

    /// What has not come of a farewell is not waited for, and neither is the agent's word that this was all.
    pub(super) fn farewell_is_over(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.response = None;
        self.actions.response_completed();
        self.answer_tools(now, out);
    }

    /// A failed or empty answer is not waited out in silence: once more, then the agent is given up.
    fn ask_again(&mut self, now: Instant, out: &mut Vec<Output>) {
        if std::mem::replace(&mut self.unfinished.asked_again, true) {
            // In `Leaving` the words that were asked for do not come: `settle` lets the call go.
            self.timers.clear(Timer::AgentSilence);
            if matches!(self.phase, Phase::Talking) {
                self.on_agent_lost(EndReason::AgentSilent, now, out);
            }
        } else if self.track.never_spoken() || self.takes_over {
            self.greet(now, out);
        } else {
            self.tell("Your last answer was not heard. Give it again.", now, out);
        }
    }

    /// A turn in writing, complete when it comes. Who writes reads too: the agent's words are known before they are heard.
    pub(super) fn on_written(&mut self, text: &str, now: Instant, out: &mut Vec<Output>) {
        if !matches!(self.phase, Phase::Talking | Phase::Leaving(_)) || self.takes_entry(text, now, out) {
            return;
        }
        self.policy.caller_spoke(None, now);
        // No voice reaches the agent, so it stops nothing by itself.
        let unheard = self.caller_takes_floor(false, now, out);
        if !self.track.is_protected() {
            self.cancel_unheard(unheard, out);
        }
        self.track.caller_stopped();
        self.waiting.caller_stopped(now);
        self.policy.caller_stopped(now);
        self.clock.turn_ended(self.policy.turn(), now, now);
        self.on_words(Speaker::Caller, text.to_owned(), None, now, out);
        self.succession_keeps(&format!("The caller has written: {text}"));
        self.to_agent(AgentCommand::Written { text: text.to_owned() }, out);
        self.expect_speech(now);
        out.push(Output::Note(Note::CallerFinished));
    }

    /// The caller speaks: if the agent was speaking or about to, it stops within the next slot.
    pub(super) fn on_caller_speech(&mut self, now: Instant, out: &mut Vec<Output>) {
        let cancels = self.plan.agent.cancels_on_speech && !self.ears.tells_turns();
        self.caller_takes_floor(cancels, now, out);
    }

    /// `cancels`: the agent stops generating by itself. Returns what is being made and was not heard at all.
    fn caller_takes_floor(&mut self, cancels: bool, now: Instant, out: &mut Vec<Output>) -> Option<ResponseId> {
        self.has_spoken = false;
        self.unfinished = Unfinished::default();
        self.prompts_used = 0;
        self.manners = Manners::default();
        self.actions.forget_announcements();
        self.waiting.caller_speaks();
        self.clock.caller_speaks();
        self.succession.somebody_speaks();
        self.timers.clear(Timer::NoInput);
        self.await_the_turns_end(now);
        out.push(Output::Note(Note::CallerSpeaks));
        let active = self.response.as_ref().map(|response| &response.id);
        let (interrupted, clips) = self.track.caller_speaks(active, now, out);
        let cut = !interrupted.cuts.is_empty();
        let unheard = self.unheard(&interrupted);
        // The last second of a question can be missed; more is a question that was not heard.
        if cut && (self.response.is_some() || interrupted.dropped > FRAMES_A_SECOND * self.plan.format.frame_bytes()) {
            self.policy.question_was_cut();
        }
        self.tell_interrupted(interrupted, !cancels, out);
        self.tell_clips_were_cut(clips, out);
        // Somebody who talks into a goodbye, or before it, is not hung up on.
        if (cut || !self.farewell_begun)
            && self.agent != Agent::Gone
            && let Phase::Leaving(
                Departure::HangUp(EndReason::AgentHungUp | EndReason::NoInput)
                | Departure::Transfer { reason: EndReason::Transferred, .. },
            ) = self.phase
        {
            self.stay();
        }
        unheard
    }

    /// What is being made, unless it is among what was interrupted.
    pub(super) fn unheard(&self, interrupted: &Interrupted) -> Option<ResponseId> {
        let active = self.response.as_ref().map(|response| response.id.clone());
        active.filter(|id| !interrupted.cuts.iter().any(|cut| cut.response == *id))
    }

    /// What was begun and not heard at all is not wanted either.
    pub(super) fn cancel_unheard(&mut self, unheard: Option<ResponseId>, out: &mut Vec<Output>) {
        if let Some(response) = unheard {
            let (item, heard) = (response.clone(), Duration::ZERO);
            self.to_agent(AgentCommand::Interrupt { response, item, heard, cancel: true }, out);
        }
    }

    /// Somebody will find the end of the caller's turn.
    pub(super) fn await_the_turns_end(&mut self, now: Instant) {
        if self.agent == Agent::Ready {
            let unheard_max = UNHEARD_TURN_MAX.max(self.silence_max());
            let max = if self.ears.hears_voice() { CALLER_TURN_MAX } else { unheard_max };
            self.timers.set(Timer::AgentSilence, now + max);
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

    /// The agent learns how much was heard of sentences of ours.
    pub(super) fn tell_clips_were_cut(&mut self, clips: Vec<ClipHeard>, out: &mut Vec<Output>) {
        if clips.iter().any(|clip| !clip.heard.is_zero()) {
            out.push(Output::Note(Note::SentenceCut));
        }
        for clip in clips {
            match clip.purpose {
                Purpose::Question => self.question_was_cut(&clip, out),
                Purpose::Greeting { .. } if self.agent == Agent::Ready => {
                    let (seconds, text) = (clip.heard.as_secs_f32(), clip.text);
                    let text =
                        format!("The caller interrupted the greeting after {seconds:.1} seconds. It was: \"{text}\"");
                    self.to_agent(AgentCommand::Tell { text, reply: Reply::NotNow }, out);
                }
                _ => {}
            }
        }
    }

    // ---- What it is told ----

    pub(super) fn to_agent(&self, command: AgentCommand, out: &mut Vec<Output>) {
        if self.hears_caller() {
            out.push(Output::ToAgent(command));
        }
    }

    /// There is an agent, or one is being connected, that will hear what it is told.
    pub(super) fn hears_caller(&self) -> bool {
        matches!(self.agent, Agent::Ready | Agent::Dialling)
    }

    /// Somebody finds the caller's turns: offhook or the agent.
    pub(super) fn hears_turns(&self) -> bool {
        self.plan.agent.detects_speech || self.ears.own_turns()
    }

    /// The caller is greeted: by a clip when they are there, else by the agent.
    pub(super) fn greet(&mut self, now: Instant, out: &mut Vec<Output>) {
        let text = self.plan.rules.greeting.clone();
        if self.takes_over && text.is_none() {
            // The caller has been in conversation already, so nobody is greeted.
            let language = self.plan.rules.sentences.language_name().map(|language| format!(", in {language},"));
            let language = language.unwrap_or_default();
            let text = format!(
                "You have just taken over this call. Say in one sentence{language} that you take over, and go on."
            );
            return self.tell(&text, now, out);
        }
        if !self.takes_over && self.plan.clips.greeting.is_some() {
            return;
        }
        (self.greeted, self.greeting_underway) = (true, true);
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

    /// Has the agent say a sentence of the engine's.
    pub(super) fn say_own(&mut self, sentence: Sentence, now: Instant, out: &mut Vec<Output>) {
        let sentences = Arc::clone(&self.plan.rules.sentences);
        self.say(sentences.get(sentence), now, out);
    }

    /// Also into what the caller is saying.
    pub(super) fn say_now(&mut self, text: &str, now: Instant, out: &mut Vec<Output>) {
        self.policy.agent_is_to_say(text);
        self.succession_keeps(text);
        if self.agent == Agent::Ready {
            self.expect_speech(now);
            self.to_agent(AgentCommand::Say { text: text.to_owned() }, out);
        }
    }

    /// The agent learns of something that it may have to act upon.
    pub(super) fn tell(&mut self, text: &str, now: Instant, out: &mut Vec<Output>) {
        self.succession_keeps(text);
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
        self.hears_turns() && self.track.floor() == Floor::Caller
    }

    /// How long the agent may leave a caller without a word who waits for one.
    pub(super) fn silence_max(&self) -> Duration {
        let AgentTraits { answer_max, end_found_max, .. } = self.plan.agent;
        let finds_the_end = if self.ears.tells_turns() { Duration::ZERO } else { end_found_max };
        self.plan.rules.agent_silence_max.unwrap_or(answer_max + finds_the_end)
    }

    /// From now on the agent owes the caller speech.
    pub(super) fn expect_speech(&mut self, now: Instant) {
        self.manners.asks = false;
        if self.agent == Agent::Ready && !matches!(self.phase, Phase::Connecting) {
            let mut limit = self.silence_max();
            if matches!(self.phase, Phase::Leaving(_)) {
                limit = limit.min(FAREWELL_BEGINS_MAX);
            }
            self.timers.set(Timer::AgentSilence, now + limit);
        }
    }
}
