//! The caller's side of the conversation: who has the turn, and what the agent hears of the caller.
//!
//! There is one owner of turns in a call. If it is offhook, its own ears find where the caller begins and
//! ends; over a speaking agent they decide whether that is an interruption, and until then nothing is
//! lost on either side: the agent's unheard audio is kept, and so is the caller's. An agent that would act
//! on what it hears hears silence meanwhile. If it is the provider, its word counts, and the ears only
//! tell when the caller was last heard.

use super::{CallMachine, Phase};
use crate::audio::Format;
use crate::call::{
    agent::{AgentCommand, AgentTraits, CallerTurn, ItemId, TURN_KEPT},
    record::{Measure, Note},
    rules::CallRules,
    track::{Floor, Loudness},
    turns::{AgentSound, Ears, TurnEvent, TurnOwner, TurnRules, TurnTaker},
    words::Output,
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Audio from before the speech was noticed that the agent hears too: the first consonant is soft.
const LEAD: Duration = Duration::from_millis(300);
/// What is kept outside of a turn: the lead, as long as an interruption can be undecided, and as long as an agent may go on after
/// it was answered.
const KEPT_QUIET: Duration = Duration::from_millis(1_800);

#[derive(Debug)]
pub(super) struct Hearing {
    taker: TurnTaker,
    owner: TurnOwner,
    /// The agent is told the caller's turns.
    told: bool,
    /// A sound over the agent's voice is not decided yet.
    undecided: bool,
    /// It was not told that the last one is over: the call was being left.
    end_untold: bool,
    /// The agent may hear what is undecided.
    overhears: bool,
    kept: VecDeque<Kept>,
    turn: Turn,
    /// The provider has told the caller's words of the turn that is open.
    has_words: bool,
    /// The caller's words since the agent last spoke, turns that are over.
    unanswered: Vec<u8>,
    /// Bytes of all that is not answered which are not kept any more.
    forgotten: usize,
    /// When the caller's last turn was over.
    ended: Option<Instant>,
    /// Our own ears hear the caller, whoever owns the turns.
    voice: bool,
}

#[derive(Debug)]
struct Kept {
    at: Instant,
    audio: Bytes,
    /// It is the agent's own voice that comes back.
    echo: bool,
    fate: Fate,
}

/// What has become of the caller's audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Waits,
    /// The agent has heard it.
    Given,
    /// The agent does not hear it, unless it becomes part of a turn.
    Skipped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Nobody has spoken since the agent did.
    None,
    /// The caller has the turn, by our own ears or by the provider's word.
    Open { ours: bool },
    /// It is over, and the agent has not spoken since.
    Unanswered,
}

/// The ears are open in every call: also where the provider's word counts, they know when the caller was last heard.
fn listening(rules: &CallRules) -> TurnRules {
    TurnRules { owner: TurnOwner::Offhook, ..rules.turns.clone() }
}

impl Hearing {
    pub fn new(rules: &CallRules, agent: &AgentTraits, format: Format, ears: Option<Box<dyn Ears>>) -> Self {
        let taker = match ears {
            Some(ears) => TurnTaker::with_ears(listening(rules), format, ears),
            None => TurnTaker::new(listening(rules), format),
        };
        let mut hearing = Self {
            taker,
            owner: rules.turns.owner,
            told: false,
            undecided: false,
            end_untold: false,
            overhears: false,
            kept: VecDeque::new(),
            turn: Turn::None,
            has_words: false,
            unanswered: Vec::new(),
            forgotten: 0,
            ended: None,
            voice: false,
        };
        hearing.new_agent(agent);
        hearing
    }

    pub fn new_agent(&mut self, agent: &AgentTraits) {
        self.told = self.own_turns() && agent.takes_turns;
        (self.end_untold, self.has_words) = (false, false);
        self.taker.agent_said("");
        self.overhears = agent.overhears;
        self.taker.trust(self.told && agent.ends_turns);
        self.taker.ask_words(self.told && agent.overhears && agent.words_on_request);
    }

    pub fn new_rules(&mut self, rules: &CallRules) {
        self.owner = rules.turns.owner;
        self.taker.set_rules(listening(rules));
    }

    /// offhook owns the turns.
    pub fn own_turns(&self) -> bool {
        self.owner == TurnOwner::Offhook
    }

    /// The agent finds neither beginning nor end of the caller's turns by itself.
    pub fn tells_turns(&self) -> bool {
        self.told
    }

    /// The caller has a turn that we found, and the agent was told so.
    pub fn is_told_a_turn(&self) -> bool {
        self.told && self.turn == (Turn::Open { ours: true })
    }

    /// The provider has told words of the turn that is open.
    pub fn words_came(&mut self) {
        self.has_words = true;
    }

    /// Whether the agent knows words of the turn that it was told of: what it begins now is an answer to them.
    pub fn is_answerable(&self) -> bool {
        self.is_told_a_turn() && self.has_words
    }

    /// Whether the caller has been silent for 200 ms in their turn.
    pub fn may_end(&self) -> bool {
        self.taker.may_end()
    }

    /// The caller has the turn, whoever found it.
    pub fn is_in_a_turn(&self) -> bool {
        matches!(self.turn, Turn::Open { .. })
    }

    /// The caller has the turn by our own ears, whoever owns the turns.
    pub fn hears_voice(&self) -> bool {
        self.voice
    }

    /// The caller has the turn by the provider's word alone.
    pub fn believes_the_provider(&self) -> bool {
        self.turn == (Turn::Open { ours: false }) && !self.voice
    }

    /// What left for the caller: their line may bring it back.
    pub fn played(&mut self, frame: &[u8], now: Instant) {
        self.taker.played(frame, now);
    }

    /// The agent's words: the question that the caller answers next.
    pub fn agent_said(&mut self, text: &str) {
        self.taker.agent_said(text);
    }

    /// The agent has answered.
    pub fn answered(&mut self) {
        if self.turn == Turn::Unanswered {
            self.turn = Turn::None;
        }
        self.unanswered.clear();
        self.forgotten = 0;
    }

    fn keep(&mut self, audio: Bytes, now: Instant) {
        let open = matches!(self.turn, Turn::Open { .. });
        let limit = if open { TURN_KEPT } else { KEPT_QUIET };
        self.kept.push_back(Kept { at: now, audio, echo: self.taker.hears_echo(), fate: Fate::Waits });
        while self.kept.front().is_some_and(|kept| now.saturating_duration_since(kept.at) > limit) {
            let gone = self.kept.pop_front().filter(|_| open);
            self.forgotten += gone.map_or(0, |gone| gone.audio.len());
        }
    }

    /// Until it is answered, the turn that is over can be told to another agent.
    fn keep_turn(&mut self, format: Format) {
        self.kept.iter().for_each(|kept| self.unanswered.extend_from_slice(&kept.audio));
        let surplus = surplus(&self.unanswered, format);
        self.unanswered.drain(..surplus);
        self.forgotten += surplus;
    }

    /// All that the caller has said and no agent answered, and how many bytes of it are not kept any more.
    fn all_unanswered(&mut self, format: Format) -> (Vec<u8>, usize) {
        let mut all = self.unanswered.clone();
        if matches!(self.turn, Turn::Open { .. }) {
            self.kept.iter().for_each(|kept| all.extend_from_slice(&kept.audio));
        }
        self.kept.iter_mut().for_each(|kept| kept.fate = Fate::Given);
        let surplus = surplus(&all, format);
        all.drain(..surplus);
        (all, self.forgotten + surplus)
    }

    fn forget_before(&mut self, onset: Instant) {
        while self.kept.front().is_some_and(|kept| kept.at + LEAD < onset) {
            self.kept.pop_front();
        }
    }

    /// It was no interruption. An agent that overheard it was told so, and remembers nothing of it.
    fn skip_undecided(&mut self) {
        let told = self.told;
        let undecided = self.kept.iter_mut().rev().take_while(|kept| told || kept.fate == Fate::Waits);
        undecided.for_each(|kept| kept.fate = Fate::Skipped);
    }

    /// What was taken for no interruption, and has become a turn, is heard after all.
    fn hear_again(&mut self) {
        let again = self.kept.iter_mut().filter(|kept| kept.fate == Fate::Skipped);
        again.for_each(|kept| kept.fate = Fate::Waits);
    }

    /// What was said into the agent's words and was no interruption is not heard afterwards; but a caller may begin
    /// as the agent ends.
    fn forget_unheard_before(&mut self, now: Instant) {
        let old = self.waiting().take_while(|kept| now.saturating_duration_since(kept.at) > LEAD);
        old.for_each(|kept| kept.fate = Fate::Skipped);
    }

    /// What waits is always the newer part. The other is one frame or two, but while the agent is spared.
    fn waiting(&mut self) -> impl Iterator<Item = &mut Kept> {
        let count = self.kept.iter().rev().take_while(|kept| kept.fate == Fate::Waits).count();
        self.kept.range_mut(self.kept.len() - count..)
    }

    /// What the agent has not heard of the caller. Where it finds the turns itself it would answer its own echo, which comes
    /// when it has ended: that is silence to it.
    fn unheard(&mut self, silence: &Bytes) -> Vec<Bytes> {
        let answers_echo = self.own_turns() && !self.told && !matches!(self.turn, Turn::Open { .. });
        self.waiting()
            .map(|kept| {
                kept.fate = Fate::Given;
                if answers_echo && kept.echo { silence.clone() } else { kept.audio.clone() }
            })
            .collect()
    }
}

/// Bytes beyond what is kept of a turn.
fn surplus(audio: &[u8], format: Format) -> usize {
    let most = TURN_KEPT.as_millis() as usize / 20 * format.frame_bytes();
    audio.len().saturating_sub(most)
}

impl CallMachine {
    /// One packet of the caller, or silence in its place.
    pub(super) fn hear_caller(&mut self, audio: Bytes, now: Instant, out: &mut Vec<Output>) {
        let sound = self.agent_sound();
        let mut events = Vec::new();
        self.ears.taker.hear(&audio, sound, now, &mut events);
        self.ears.keep(audio, now);
        for event in events {
            self.on_turn_event(event, now, out);
        }
        if !self.withholds() {
            if !matches!(self.ears.turn, Turn::Open { .. }) {
                self.ears.forget_unheard_before(now);
            }
            self.give_unheard(out);
        } else if !self.ears.told {
            self.to_agent(AgentCommand::Audio(self.track.silence()), out);
        }
    }

    /// The agent must not act on what the caller says now; it is kept until it is decided.
    fn withholds(&self) -> bool {
        let ears = &self.ears;
        if !ears.own_turns() || matches!(ears.turn, Turn::Open { .. }) {
            return false;
        }
        match ears.told {
            true => !(ears.overhears && ears.undecided),
            false => !ears.overhears && (ears.undecided || self.track.is_speaking()),
        }
    }

    fn give_unheard(&mut self, out: &mut Vec<Output>) {
        // What nobody hears now is kept for the next agent.
        if !self.hears_caller() {
            return;
        }
        for audio in self.ears.unheard(&self.track.silence()) {
            self.to_agent(AgentCommand::Audio(audio), out);
        }
    }

    fn agent_sound(&self) -> AgentSound {
        if !self.ears.own_turns() || !self.track.is_speaking() {
            AgentSound::Silent
        } else if self.track.is_protected() || (self.greeting_underway && self.plan.rules.turns.protect_greeting) {
            AgentSound::Protected
        } else {
            AgentSound::Speaking
        }
    }

    fn on_turn_event(&mut self, event: TurnEvent, now: Instant, out: &mut Vec<Output>) {
        match event {
            TurnEvent::Began { .. } => self.ears.voice = true,
            TurnEvent::Ended { .. } => self.ears.voice = false,
            _ => {}
        }
        // The provider may miss the end of what it has heard the beginning of.
        let heard = matches!(event, TurnEvent::Began { .. } | TurnEvent::Ended { .. });
        if heard && self.ears.turn == (Turn::Open { ours: false }) && self.track.floor() == Floor::Caller {
            self.await_the_turns_end(now);
        }
        if !self.ears.own_turns() {
            return;
        }
        match event {
            TurnEvent::Ducked => {
                self.track.set_loudness(Loudness::Ducked);
                self.undecided(true, now, out);
            }
            TurnEvent::Paused => self.track.set_loudness(Loudness::Paused),
            TurnEvent::WordsWanted => self.to_agent(AgentCommand::Turn(CallerTurn::WordsWanted), out),
            TurnEvent::Resumed(why) => {
                self.track.set_loudness(Loudness::Full);
                self.undecided(false, now, out);
                self.ears.skip_undecided();
                out.push(Output::Note(Note::FalseAlarm { why: why.label() }));
            }
            TurnEvent::Began { onset, .. } => self.on_turn_began(onset, now, out),
            TurnEvent::MayEnd => self.tell_turn(CallerTurn::MayEnd, out),
            TurnEvent::GoesOn => self.tell_turn(CallerTurn::GoesOn, out),
            TurnEvent::Ended { last_voiced } => {
                if self.ears.turn == (Turn::Open { ours: true }) {
                    self.on_turn_ended(last_voiced, now, out);
                }
            }
            TurnEvent::HalfDuplex(half) => out.push(Output::Note(Note::HalfDuplex(half))),
        }
    }

    /// An agent that may hear an undecided sound hears it from a little before its beginning.
    fn undecided(&mut self, undecided: bool, now: Instant, out: &mut Vec<Output>) {
        self.ears.undecided = undecided;
        if self.ears.told && self.ears.overhears {
            if undecided {
                self.ears.forget_before(now);
            }
            // Audio of a sound that did not interrupt is kept: it is an answer if the agent ends shortly.
            let turn = if undecided { CallerTurn::MayBegin } else { CallerTurn::WasNone };
            self.to_agent(AgentCommand::Turn(turn), out);
        }
    }

    /// How a turn of the caller goes on.
    fn tell_turn(&mut self, turn: CallerTurn, out: &mut Vec<Output>) {
        if self.ears.is_told_a_turn() {
            self.to_agent(AgentCommand::Turn(turn), out);
        }
    }

    fn on_turn_began(&mut self, onset: Instant, now: Instant, out: &mut Vec<Output>) {
        let begun = matches!(self.ears.turn, Turn::Open { .. });
        self.ears.turn = Turn::Open { ours: true };
        self.ears.undecided = false;
        if begun {
            return;
        }
        self.ears.has_words = false;
        self.ears.forget_before(onset);
        self.ears.hear_again();
        self.finishing.turn_began();
        self.policy.caller_spoke(None, now);
        self.on_caller_speech(now, out);
        if self.ears.told {
            self.ears.end_untold = false;
            self.to_agent(AgentCommand::Turn(CallerTurn::Began), out);
        }
    }

    /// The caller's turn is over, whoever found it.
    fn on_turn_ended(&mut self, last_voiced: Instant, now: Instant, out: &mut Vec<Output>) {
        self.ears.turn = Turn::Unanswered;
        self.ears.ended = Some(now);
        self.ears.keep_turn(self.plan.format);
        self.track.caller_stopped();
        self.waiting.caller_stopped(last_voiced);
        self.policy.caller_stopped(now);
        self.clock.turn_ended(self.policy.turn(), last_voiced, now);
        self.finishing.turn_ended(self.ears.told, &self.plan.agent);
        if self.ears.told {
            self.give_unheard(out);
            self.to_agent(AgentCommand::Turn(CallerTurn::Ended), out);
        }
        self.expect_speech(now);
        out.push(Output::Note(Note::CallerFinished));
    }

    /// An agent that finds the caller's turns itself can be sooner with its answer than our ears with the end of the turn.
    /// The turn is over then; whoever still speaks is heard over the agent, and may interrupt it.
    pub(super) fn on_answer(&mut self, now: Instant, out: &mut Vec<Output>) {
        if !self.ears.told {
            self.end_turn(now, out);
        }
    }

    /// The caller's turn that we found is over, whatever the ears still wait for.
    pub(super) fn end_turn(&mut self, now: Instant, out: &mut Vec<Output>) {
        if self.ears.turn == (Turn::Open { ours: true }) {
            let mut events = Vec::new();
            self.ears.taker.reset(&mut events);
            for event in events {
                self.on_turn_event(event, now, out);
            }
        }
    }

    // ---- The provider's word ----

    pub(super) fn on_speech_started(&mut self, utterance: Option<ItemId>, now: Instant, out: &mut Vec<Output>) {
        let open = matches!(self.ears.turn, Turn::Open { .. });
        // What an agent is told, has heard already, or cannot have heard, it only has a name for.
        let known = open || self.ears.turn == Turn::Unanswered || self.ears.told || self.track.is_speaking();
        let named = self.ears.own_turns() && known;
        if named {
            return self.policy.utterance_named(utterance);
        }
        self.ears.turn = Turn::Open { ours: false };
        self.ears.forget_before(now);
        self.finishing.turn_began();
        self.policy.caller_spoke(utterance, now);
        self.on_caller_speech(now, out);
    }

    pub(super) fn on_speech_stopped(&mut self, now: Instant, out: &mut Vec<Output>) {
        if !self.ears.own_turns() || self.ears.turn == (Turn::Open { ours: false }) {
            // The provider can be sooner than our ears: what they heard last may belong to the turn before.
            let of_this_turn = |at: &Instant| self.ears.ended.is_none_or(|ended| *at > ended);
            let last_voiced = self.ears.taker.last_voiced().filter(of_this_turn).unwrap_or(now);
            self.on_turn_ended(last_voiced, now, out);
        }
    }

    /// The caller's words so far may decide whether they interrupt.
    pub(super) fn on_partial_words(&mut self, text: &str, now: Instant, out: &mut Vec<Output>) {
        let mut events = Vec::new();
        self.ears.taker.words(text, now, &mut events);
        for event in events {
            self.on_turn_event(event, now, out);
        }
    }

    pub(super) fn on_caller_seems_done(&mut self, done: bool) {
        self.ears.taker.seems_over(done);
    }

    // ---- An agent that takes over ----

    /// Lets the new agent hear the turn that the old one did not answer; `false` if there is none.
    pub(super) fn give_unanswered_turn(&mut self, now: Instant, out: &mut Vec<Output>) -> bool {
        if self.ears.turn == Turn::None || !matches!(self.phase, Phase::Talking) {
            return false;
        }
        if self.ears.told {
            self.to_agent(AgentCommand::Turn(CallerTurn::Began), out);
        }
        // In few pieces: the queue towards an agent is measured in frames of 20 ms.
        let second = 50 * self.plan.format.frame_bytes();
        let (unanswered, forgotten) = self.ears.all_unanswered(self.plan.format);
        if forgotten > 0 {
            out.push(Output::Measure(Measure::TurnForgotten(forgotten)));
        }
        for piece in unanswered.chunks(second) {
            self.to_agent(AgentCommand::Audio(Bytes::copy_from_slice(piece)), out);
        }
        if self.ears.turn == Turn::Unanswered {
            if self.ears.told {
                self.to_agent(AgentCommand::Turn(CallerTurn::Ended), out);
            }
            self.expect_speech(now);
        }
        true
    }

    /// What is undecided stays so: the call is being left. Who goes on speaking begins a turn.
    pub(super) fn stop_deciding(&mut self, now: Instant) {
        let mut events = Vec::new();
        self.ears.taker.reset(&mut events);
        self.ears.undecided = false;
        self.track.set_loudness(Loudness::Full);
        let nobody_will_say = self.ears.own_turns() || !self.hears_caller();
        if nobody_will_say && matches!(self.ears.turn, Turn::Open { .. }) {
            self.ears.end_untold = self.ears.told;
            self.ears.turn = Turn::Unanswered;
            self.track.caller_stopped();
            self.waiting.caller_stopped(now);
            self.policy.caller_stopped(now);
        }
    }

    /// The call was not left after all: an agent that believes the caller to be speaking would wait.
    pub(super) fn tell_end_of_turn(&mut self, out: &mut Vec<Output>) {
        if std::mem::take(&mut self.ears.end_untold) {
            self.to_agent(AgentCommand::Turn(CallerTurn::Ended), out);
        }
    }

    /// The caller has said something that the agent who is ready now still has to answer.
    pub(super) fn owes_answer(&self) -> bool {
        self.ears.turn == Turn::Unanswered
    }
}
