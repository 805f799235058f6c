//! What a caller hears who waits: a slow tool is announced, silence that nobody explains is filled, and no silence is long.
//!
//! Silence is what is spoken into, so its own clock has to have run besides the tool's: a caller who is
//! hearing somebody, live or from what is queued, knows that somebody is there. One announcement or "One moment, please" a
//! turn is enough for any number of slow tools, and it ends its word when the answer comes. Whoever has to wait
//! longer hears now and then that they are not forgotten, in another sentence: whether it is a tool, the agent or the next
//! agent that they wait for.

use super::{Agent, CallMachine, Departure, Phase, Timer};
use crate::{
    call::{
        actions::Slow,
        agent::{AgentCommand, Reply},
        clips::Spoken,
        end::EndReason,
        record::Note,
        track::Purpose,
        words::Output,
    },
    sentences::Sentence,
};
use std::time::{Duration, Instant};

/// A tool that has run for its usual time is about to answer; for so long more it is waited for.
const ABOUT_TO_ANSWER: Duration = Duration::from_millis(400);
/// A tool that is known to take this much longer than its threshold is announced at once.
const KNOWN_TO_BE_SLOW: Duration = Duration::from_millis(1_500);
/// A response that has begun is about to be heard.
const ABOUT_TO_SPEAK: Duration = Duration::from_millis(500);
/// For so long beyond the usual silence it is waited for: nobody hears nothing for more than 1.5 s, and the rest of that
/// is for a frame to leave.
const HELD_BACK_MAX: Duration = Duration::from_millis(150);
/// Nobody hears nothing for longer, but by a threshold that was configured.
const UNEXPLAINED_MAX: Duration = Duration::from_millis(1_500);
/// After a sentence that asked the caller to wait, until the next one. With [`ABOUT_TO_SPEAK`], and the 400 ms of silence at
/// the end of a recording, nobody hears nothing for more than 4 s, when people ask whether somebody is there.
const PATIENCE_EVERY: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Since when the caller has heard nothing and said nothing.
    silent_since: Option<Instant>,
    /// The caller's turn in which a sentence was heard.
    filled_turn: Option<u64>,
    /// Also where the agent talks over them, and so has the floor.
    caller_speaks: bool,
    /// When the response under way began.
    response_since: Option<Instant>,
    /// Since when the agent owes the caller words.
    owed_since: Option<Instant>,
    /// It follows a sentence that asked the caller to wait.
    explained: bool,
    /// The agent's last words were a question, and it is the caller's turn to speak.
    asked: bool,
    /// The agent is to speak to a caller who says nothing: they wait for nobody.
    prompts: bool,
}

enum Filler {
    Announcement(Slow),
    Moment,
    Patience,
}

impl Waiting {
    pub fn caller_speaks(&mut self) {
        (self.caller_speaks, self.explained, self.asked) = (true, false, false);
        self.prompts = false;
    }

    /// The silence began when the caller was last heard, not when that was found to be the end.
    pub fn caller_stopped(&mut self, last_voiced: Instant) {
        self.caller_speaks = false;
        self.silent_since = Some(last_voiced);
    }

    /// Who hears the agent break off does not know why.
    pub fn agent_speaks(&mut self) {
        (self.explained, self.prompts) = (false, false);
    }

    /// A caller who says nothing is to be spoken to.
    pub fn prompts(&mut self) {
        self.prompts = true;
    }

    pub fn response_begins(&mut self, now: Instant) {
        (self.response_since, self.asked) = (Some(now), false);
    }

    /// Words of the agent; those about a turn that the caller has broken off come while they speak.
    pub fn agent_said(&mut self, text: &str) {
        let asks =
            text.trim_end_matches(|c: char| c.is_whitespace() || "\"”»*)".contains(c)).ends_with(['?', '？', '؟']);
        self.asked = asks && !self.caller_speaks;
    }

    /// The old one's word that the caller stopped will not come.
    pub fn new_agent(&mut self) {
        (self.caller_speaks, self.response_since, self.asked) = (false, None, false);
        self.prompts = false;
    }

    /// The caller has heard such a sentence in this turn.
    fn has_filled(&self, turn: u64) -> bool {
        self.filled_turn == Some(turn)
    }
}

impl CallMachine {
    /// Keeps the clock of the silence, and arms the timer while a sentence would be right.
    pub(super) fn await_filler(&mut self, now: Instant) {
        // While it rings, the caller hears that.
        let rings = matches!(self.phase, Phase::Transferring(_));
        if self.track.is_empty() && !self.waiting.caller_speaks && !rings {
            self.waiting.silent_since.get_or_insert(now);
        } else {
            self.waiting.silent_since = None;
        }
        if self.timers.is_set(Timer::AgentSilence) {
            self.waiting.owed_since.get_or_insert(now);
        } else {
            self.waiting.owed_since = None;
        }
        match self.next_sentence().map(|(due, _)| due) {
            Some(due) => self.timers.set(Timer::Filler, due),
            None => self.timers.clear(Timer::Filler),
        }
    }

    /// A caller who says nothing is asked whether they are there, and at last told goodbye.
    pub(super) fn on_no_input(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.plan.written {
            return self.depart(Departure::HangUp(EndReason::NoInput), now, out);
        }
        out.push(Output::Note(Note::NoInputPrompt));
        if self.prompts_used < self.plan.rules.no_input_prompts {
            self.prompts_used += 1;
            self.waiting.prompts();
            self.say_own(Sentence::AreYouThere, now, out);
        } else {
            self.leave(Departure::HangUp(EndReason::NoInput), now);
            self.say_own(Sentence::NotHeard, now, out);
        }
    }

    fn next_sentence(&self) -> Option<(Instant, Filler)> {
        let silent_since = self.waiting.silent_since?;
        let talks = matches!(self.phase, Phase::Talking) && self.hold.is_none();
        let stays = talks && self.handoff.is_none() && self.menu.is_none();
        // The caller is typing, or is asked and thinks; or the agent would not be heard.
        if !stays || self.capture.is_some() || self.waiting.prompts || self.manners.asks || self.manners.audio_held {
            return None;
        }
        let (due, slow) = match self.agent {
            Agent::Gone => return None,
            Agent::Dialling | Agent::Lost => (self.usual(silent_since), None),
            Agent::Ready => {
                let (due, slow) = self.awaited(silent_since)?;
                // Who was asked something thinks, and waits for nobody: until nobody would think for so long.
                let thinks = self.waiting.asked.then(|| silent_since + self.plan.rules.no_input_after);
                (thinks.map_or(due, |until| due.max(until)), slow)
            }
        };
        let first = !self.waiting.explained && !self.waiting.has_filled(self.policy.turn());
        let sentence = match slow.filter(|slow| !slow.told) {
            Some(slow) if first => Filler::Announcement(slow.clone()),
            _ if first => Filler::Moment,
            _ => Filler::Patience,
        };
        Some((due, sentence))
    }

    /// When the silence of an agent that is there has lasted too long, and for which tool; `None`: nobody waits for it.
    fn awaited(&self, silent_since: Instant) -> Option<(Instant, Option<&Slow>)> {
        let owed = self.timers.is_set(Timer::AgentSilence);
        let usual = self.usual(silent_since);
        match &self.response {
            // What it began it does not go on with.
            Some(response) if response.spoke => Some((usual, None)),
            Some(_) if owed => Some((self.not_at_once(self.held_back(usual), usual, silent_since), None)),
            None if owed => Some((self.not_at_once(usual, usual, silent_since), None)),
            // Of a response that has called a tool something may be about to be heard, or another call.
            response => {
                let slow = self.actions.slow().map(|slow| (self.due(slow, silent_since), slow));
                let (due, slow) = match slow.min_by_key(|(due, _)| *due) {
                    Some((due, slow)) => (if self.waiting.explained { usual } else { due }, Some(slow)),
                    None if response.is_some() && !self.actions.is_empty() => (usual, None),
                    None => return None,
                };
                Some((if response.is_some() { self.held_back(due) } else { due }, slow))
            }
        }
    }

    /// `due`, or somewhat later where a response has just begun, and with it what the caller waits for.
    fn held_back(&self, due: Instant) -> Instant {
        let Some(began) = self.waiting.response_since else { return due };
        let held_back_max = if self.waiting.explained { ABOUT_TO_SPEAK } else { HELD_BACK_MAX };
        due.max((began + ABOUT_TO_SPEAK).min(due + held_back_max))
    }

    /// When silence has lasted long enough, whatever it is that the caller waits for.
    fn usual(&self, silent_since: Instant) -> Instant {
        let quiet = self.plan.rules.quiet_max;
        silent_since + if self.waiting.explained { PATIENCE_EVERY.max(quiet) } else { quiet }
    }

    /// `due`, unless the silence was longer than anybody's when the agent came to owe words: a tool that may be slow by its own
    /// threshold, or was announced, has ended, and the answer is about to come.
    fn not_at_once(&self, due: Instant, usual: Instant, silent_since: Instant) -> Instant {
        let owed = self.waiting.owed_since.filter(|since| *since > silent_since + UNEXPLAINED_MAX);
        match owed {
            Some(since) if self.waiting.explained => due.max((since + ABOUT_TO_SPEAK).min(usual + ABOUT_TO_SPEAK)),
            Some(since) => due.max(since + ABOUT_TO_SPEAK),
            None => due,
        }
    }

    /// When the caller should be told of a tool, by what it was configured to and what it usually takes. Where nothing was
    /// configured the silence counts, whenever in it the tool began.
    fn due(&self, slow: &Slow, silent_since: Instant) -> Instant {
        let announce = slow.announce.as_ref().filter(|_| !slow.told);
        let (since, after) = match announce {
            Some(announce) => (slow.began.max(silent_since), announce.after),
            None => (silent_since, self.plan.rules.quiet_max),
        };
        let due = since + after;
        let Some(usual) = self.plan.latencies.usual(&slow.tool) else { return due };
        let usually_over = slow.began + usual.mostly + ABOUT_TO_ANSWER;
        if usual.median >= after + KNOWN_TO_BE_SLOW {
            since + after.min(ABOUT_TO_ANSWER)
        } else if due < usually_over && usually_over < due + ABOUT_TO_ANSWER * 2 {
            // An announcement comes later than any other sentence, by its own threshold.
            match announce {
                Some(_) => usually_over,
                None => usually_over.min(due + HELD_BACK_MAX),
            }
        } else {
            due
        }
    }

    pub(super) fn fill(&mut self, out: &mut Vec<Output>) {
        let Some((_, sentence)) = self.next_sentence().filter(|(due, _)| *due <= self.at) else { return };
        let clips = &self.plan.clips;
        let (spoken, purpose) = match &sentence {
            Filler::Announcement(slow) => {
                let line = slow.announce.as_ref().and_then(|announce| clips.line(&announce.text));
                (line.unwrap_or_else(|| clips.moment.clone()), Purpose::Announcement)
            }
            Filler::Moment => (clips.moment.clone(), Purpose::Filler),
            Filler::Patience => (clips.patience.clone(), Purpose::Patience),
        };
        if let Filler::Announcement(slow) = sentence {
            // A caller who presses a key meanwhile is not told of the same tools again.
            self.actions.forget_announcements();
            out.push(Output::Note(Note::Announced { tool: slow.tool }));
        }
        (self.waiting.filled_turn, self.waiting.explained) = (Some(self.policy.turn()), true);
        self.clock.filled();
        self.say_verbatim(&spoken, purpose, out);
    }

    /// The caller hears a sentence of ours, and the agent is told so.
    pub(super) fn say_verbatim(&mut self, spoken: &Spoken, purpose: Purpose, out: &mut Vec<Output>) {
        self.track.say(spoken, purpose);
        if matches!(purpose, Purpose::Greeting { .. }) {
            self.ears.agent_said(&spoken.text);
        }
        out.push(Output::Note(Note::Spoke { purpose: purpose.label() }));
        if self.agent == Agent::Ready {
            let text = format!("The caller has just been told, word for word: \"{}\" Do not repeat it.", spoken.text);
            self.to_agent(AgentCommand::Tell { text, reply: Reply::NotNow }, out);
        }
    }
}
