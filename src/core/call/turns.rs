//! Whose turn it is, by offhook's own ears.
//!
//! While the agent is silent, speech begins the caller's turn and silence ends it. While the agent
//! speaks, speech opens a *candidate*: the agent is lowered, then paused, and within
//! [`VERDICT_MAX`] of the onset, or 300 ms later where words are asked for, it is decided whether that was an interruption. Until then nothing is lost,
//! so that a cough costs the caller a moment of silence and no answer.
//!
//! The durations of a sound are counted in frames that were heard, not by the clock: a network that delivers in
//! bursts changes no verdict.

mod asked;
mod backchannels;
mod background;
mod candidate;
mod commands;
mod echo;
mod ending;
mod fall;
mod pace;
mod rules;

#[cfg(test)]
mod tests;

pub use backchannels::Backchannels;
pub use ending::SpokenLanguages;
pub use rules::{TurnOwner, TurnRules};

use crate::audio::{FRAME, Format, Heard, VoiceDetector, rms_dbfs};
use background::{Background, TurnState};
use candidate::{Candidate, Frame, Onset};
use echo::Echo;
use ending::Ending;
use pace::Pace;
use std::{
    fmt,
    time::{Duration, Instant},
};

/// From the onset of a sound until it is decided what it was: longer, and a caller who only coughed
/// takes the silence for the end of the answer.
pub const VERDICT_MAX: Duration = Duration::from_millis(600);
/// Silence after which the caller's turn may be over: who can prepares the answer. It is the pause between two words
/// at the least.
const MAY_END_AFTER: Duration = Duration::from_millis(200);
/// Voiced frames that begin a turn while the agent is silent: 120 ms, more than any click.
const CONFIRMED_FRAMES: u32 = 6;
/// How far the clock of the frames may lag behind the time at which they arrive.
const JITTER_MAX: Duration = Duration::from_millis(100);
/// A caller who was not let in and tries again within this time is let in sooner.
const AGAIN_WITHIN: Duration = Duration::from_secs(2);
/// Who goes on within this time was only between two words: what was said before counts.
const GOES_ON_WITHIN: Duration = Duration::from_millis(320);
/// As long as the line is not known, a shorter sound may have been an echo that was not recognised: that of the words
/// until the agent was paused. What lasted longer was hardly one.
const ECHO_USUAL_MAX: Duration = Duration::from_millis(320);
/// Who says something short so long before the end of what the agent says, or later, answers it.
const ANSWERS_WITHIN: Duration = Duration::from_millis(600);
/// Speech that lets in a caller who goes on with a turn into which the agent has come: a letter that is spelled lasts
/// hardly longer. It is more than a click, and so short that the agent says one word.
const GOES_ON_SPEECH: Duration = Duration::from_millis(160);
/// How much sooner who tries again is let in.
const AGAIN_PERCENT: u32 = 75;
/// Echo that set off the detector so often …
const ECHO_ALARMS_MAX: u32 = 3;
/// … and comes back with less than this loss cannot be told from a caller's voice.
const HALF_DUPLEX_LOSS_DB: f32 = 12.0;
/// Frames of the agent's voice without such an echo after which both may speak again: 4 s.
const CLEAN_FRAMES: u32 = 200;
/// A sound of so many frames would have opened a candidate, had it not been echo.
const ALARM_FRAMES: u32 = 4;

/// What the agent is doing towards the caller while a frame was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentSound {
    Silent,
    /// It is audible, or paused by an open candidate.
    Speaking,
    /// It is audible and must not be interrupted.
    Protected,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TurnEvent {
    /// Speech while the agent speaks: lower the agent's voice.
    Ducked,
    /// It goes on: the agent pauses, nothing is thrown away.
    Paused,
    /// The words of the sound would decide the verdict, and come only on request ([`TurnTaker::ask_words`]).
    WordsWanted,
    /// No interruption after all: go on at the exact sample.
    Resumed(FalseAlarm),
    /// The caller has the turn, from silence or by interrupting. `onset`: when the speech began.
    Began { onset: Instant, interrupts: bool },
    /// A short silence in the caller's turn: it may be over. It goes on, or [`TurnEvent::Ended`] follows.
    MayEnd,
    /// It was a pause only.
    GoesOn,
    /// The caller's turn is over. `last_voiced`: the end of the last voiced frame.
    Ended { last_voiced: Instant },
    /// The line's echo is so heavy that the caller's voice cannot be told from it: from here on the
    /// agent is not interrupted by voice (or is again).
    HalfDuplex(bool),
}

/// What a sound was that did not interrupt. A closed set: it becomes a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FalseAlarm {
    Echo,
    Backchannel,
    TooShort,
    /// Hardly speech, as far as the detector can tell.
    Noise,
}

impl FalseAlarm {
    pub const ALL: [Self; 4] = [Self::Echo, Self::Backchannel, Self::TooShort, Self::Noise];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Backchannel => "backchannel",
            Self::TooShort => "too_short",
            Self::Noise => "noise",
        }
    }
}

/// Judges each frame of a caller; tests script it.
pub trait Ears: Send {
    /// Appends a judgement for each 20 ms that `audio` completes.
    fn hear(&mut self, audio: &[u8], heard: &mut Vec<Heard>);

    /// Whether the agent is silent from here on: a soft sound may be a caller then, and interrupts nobody.
    fn agent_is_silent(&mut self, _silent: bool) {}
}

impl Ears for VoiceDetector {
    fn hear(&mut self, audio: &[u8], heard: &mut Vec<Heard>) {
        VoiceDetector::hear(self, audio, heard);
    }

    fn agent_is_silent(&mut self, silent: bool) {
        self.raise(silent);
    }
}

/// Decides whose turn it is, from what is heard of the caller and what is played to them.
pub struct TurnTaker {
    rules: TurnRules,
    format: Format,
    ears: Box<dyn Ears>,
    state: State,
    echo: Echo,
    background: Background,
    pace: Pace,
    /// When the last frame ended, by the count of samples.
    clock: Option<Instant>,
    /// When the caller was last heard to speak.
    last_voiced: Option<Instant>,
    /// Candidates of the current answer that were none.
    false_alarms: u32,
    /// The last sound, if it was found too short to interrupt.
    turned_away: Option<TurnedAway>,
    /// What was said last and was no interruption: it is an answer if the agent ends now.
    answer: Option<Answer>,
    /// Nothing that is said interrupts, as of the last frame.
    closed: bool,
    duplex: Duplex,
    /// The last frame was nothing but the agent's echo, as far as that is known.
    echoed: bool,
    /// The caller's words over the agent come only on request ([`TurnEvent::WordsWanted`]).
    asks_words: bool,
    heard: Vec<Heard>,
    samples: Vec<i16>,
}

#[derive(Debug)]
enum State {
    /// Nobody's turn, or the agent's.
    Listening(Onset),
    Undecided(Candidate),
    Caller {
        last_voiced: Instant,
        /// [`TurnEvent::MayEnd`] was told.
        may_end: bool,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Listening(Onset::default())
    }
}

/// A sound that was too short to interrupt.
#[derive(Debug, Clone, Copy)]
struct TurnedAway {
    onset: Instant,
    last_voiced: Instant,
}

/// Something short that was said while the agent spoke.
#[derive(Debug, Clone, Copy)]
struct Answer {
    onset: Instant,
    last_voiced: Instant,
    /// How long the agent has been heard since it began.
    spoken_over: Duration,
}

/// Whether both may speak at once, as far as the line's echo allows.
#[derive(Debug, Default)]
struct Duplex {
    half: bool,
    alarms: u32,
    /// Frames in a row that sounded like speech and were echo.
    echo_run: u32,
    /// Frames of the agent's voice that did not come back.
    clean: u32,
}

impl TurnTaker {
    pub fn new(rules: TurnRules, format: Format) -> Self {
        Self::with_ears(rules, format, Box::new(VoiceDetector::new(format)))
    }

    /// One whose judgement of each frame comes from elsewhere, for tests.
    pub fn with_ears(rules: TurnRules, format: Format, ears: Box<dyn Ears>) -> Self {
        Self {
            pace: Pace::new(rules.end_silence),
            rules,
            format,
            ears,
            state: State::default(),
            echo: Echo::new(),
            background: Background::default(),
            clock: None,
            last_voiced: None,
            false_alarms: 0,
            turned_away: None,
            answer: None,
            closed: false,
            duplex: Duplex::default(),
            echoed: false,
            asks_words: false,
            heard: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Another context took over. What is known of the line and of the caller stays.
    pub fn set_rules(&mut self, rules: TurnRules) {
        self.pace.set_base(rules.end_silence);
        self.rules = rules;
    }

    /// When the caller was last heard to speak, whoever owns the turns.
    pub fn last_voiced(&self) -> Option<Instant> {
        self.last_voiced
    }

    /// The caller has the turn and has been silent for so long that it may be over.
    pub fn may_end(&self) -> bool {
        matches!(self.state, State::Caller { may_end: true, .. })
    }

    /// What was heard last was nothing but the agent's echo, as far as that is known.
    pub fn hears_echo(&self) -> bool {
        self.echoed
    }

    /// One piece (as a rule 20 ms) of the caller that arrived at `now`.
    pub fn hear(&mut self, audio: &[u8], agent: AgentSound, now: Instant, out: &mut Vec<TurnEvent>) {
        let mut heard = std::mem::take(&mut self.heard);
        self.ears.agent_is_silent(agent == AgentSound::Silent);
        self.ears.hear(audio, &mut heard);
        let frames = heard.len() as u32;
        for (index, heard) in heard.drain(..).enumerate() {
            let arrived = before(now, FRAME * (frames - 1 - index as u32));
            self.hear_frame(heard, agent, arrived, out);
        }
        self.heard = heard;
    }

    /// The frame that left for the caller in this slot exactly as it left: ducked if it was, silence included. What
    /// comes back of it is measured.
    pub fn played(&mut self, frame: &[u8], now: Instant) {
        self.samples.clear();
        self.format.decode(frame, &mut self.samples);
        self.echo.played(rms_dbfs(&self.samples), now);
    }

    /// Words of the caller so far: they tell whether an undecided sound interrupts, and whether a turn sounds
    /// finished. Each text replaces the last.
    pub fn words(&mut self, text: &str, now: Instant, out: &mut Vec<TurnEvent>) {
        if matches!(self.state, State::Caller { .. }) {
            self.pace.hint(Ending::of(text, &self.rules.spoken));
        }
        let State::Undecided(candidate) = &mut self.state else { return };
        let others = self.rules.backchannels.other_words(text);
        candidate.only_backchannels = others == 0 && !text.trim().is_empty();
        candidate.words_came();
        // Of what is so short a recognizer that is asked often hears a word that nobody has said.
        let doubtful = self.asks_words && candidate.speech() < self.rules.usual_min_speech();
        if (others >= self.rules.min_words.max(1) && !doubtful) || commands::asks_for_silence(text) {
            self.commit(now, out);
        }
    }

    /// Takes the agent's last words: behind a question for letters or digits the caller has longer between them, also where their
    /// own words are not known in time.
    pub fn agent_said(&mut self, text: &str) {
        self.pace.asked(asked::for_spelling(text));
    }

    /// Whether the words of an undecided sound come only if they are asked for ([`TurnEvent::WordsWanted`]).
    pub fn ask_words(&mut self, ask: bool) {
        self.asks_words = ask;
    }

    /// Whether who transcribes the caller decides where a turn ends.
    pub fn trust(&mut self, trusted: bool) {
        self.pace.trust(trusted);
    }

    /// Who transcribes the caller believes that the turn is over, or that it is not.
    pub fn seems_over(&mut self, over: bool) {
        if matches!(self.state, State::Caller { .. }) {
            self.pace.told_over(over);
        }
    }

    /// It was settled from outside: the agent has ended, a key was pressed, the call is being left. An
    /// open candidate is taken back, a turn ends.
    pub fn reset(&mut self, out: &mut Vec<TurnEvent>) {
        self.answer = None;
        match std::mem::take(&mut self.state) {
            State::Listening(_) => {}
            State::Undecided(_) => out.push(TurnEvent::Resumed(FalseAlarm::TooShort)),
            State::Caller { last_voiced, .. } => {
                self.background.turn_ended();
                out.push(TurnEvent::Ended { last_voiced });
            }
        }
    }

    fn hear_frame(&mut self, heard: Heard, agent: AgentSound, arrived: Instant, out: &mut Vec<TurnEvent>) {
        // Frames follow each other by 20 ms, however they are delivered, and never come from the future.
        let due = self.clock.map_or(arrived, |clock| clock + FRAME);
        let end = due.max(before(arrived, JITTER_MAX)).min(arrived);
        self.clock = Some(end);
        let is_echo = self.echo.heard(heard.level_dbfs, heard.floor_dbfs, end);
        self.echoed = is_echo;
        let turn_state = match &self.state {
            State::Listening(_) if agent == AgentSound::Silent => TurnState::Silence,
            State::Listening(_) => TurnState::Agent,
            State::Undecided(_) => TurnState::Undecided,
            State::Caller { .. } => TurnState::Caller,
        };
        let mut frame = Frame::new(heard, is_echo, turn_state, self.echo.may_surprise(), end);
        frame.voiced &= is_echo || self.background.hear(frame.level, frame.sounds_voiced, turn_state);
        if frame.voiced {
            self.last_voiced = Some(end);
        }
        if self.rules.owner == TurnOwner::Provider {
            return;
        }
        self.watch_echo(&frame, out);
        match &mut self.state {
            State::Listening(_) => self.listen(&frame, agent, out),
            State::Undecided(_) => self.consider(&frame, agent, out),
            State::Caller { .. } => self.follow(&frame, out),
        }
    }

    /// The caller has the turn.
    fn follow(&mut self, frame: &Frame, out: &mut Vec<TurnEvent>) {
        let State::Caller { last_voiced, may_end } = &mut self.state else { return };
        self.pace.hear(frame.level, frame.voiced);
        if frame.voiced {
            self.pace.paused(frame.begin.saturating_duration_since(*last_voiced));
            *last_voiced = frame.end;
            if std::mem::take(may_end) {
                self.pace.goes_on();
                out.push(TurnEvent::GoesOn);
            }
            return;
        }
        let silence = frame.end.saturating_duration_since(*last_voiced);
        if silence >= MAY_END_AFTER && !std::mem::replace(may_end, true) {
            out.push(TurnEvent::MayEnd);
        }
        if silence >= self.pace.end_silence(self.background.others()) {
            let last_voiced = *last_voiced;
            self.state = State::default();
            self.pace.ended(last_voiced);
            self.background.turn_ended();
            out.push(TurnEvent::Ended { last_voiced });
        }
    }

    fn listen(&mut self, frame: &Frame, agent: AgentSound, out: &mut Vec<TurnEvent>) {
        let State::Listening(onset) = &mut self.state else { return };
        let silent = agent == AgentSound::Silent;
        if silent {
            self.false_alarms = 0;
            if let Some(answer) = self.answer.take().filter(|answer| answer.spoken_over <= ANSWERS_WITHIN) {
                return self.take_answer(answer, frame, out);
            }
        } else {
            self.pace.agent_spoke();
            if let Some(answer) = &mut self.answer {
                answer.spoken_over += FRAME;
            }
        }
        let closed = !silent && (agent == AgentSound::Protected || !self.rules.interruptible);
        let opens = std::mem::replace(&mut self.closed, closed) && !closed && !silent;
        if opens || (!silent && self.duplex.half) {
            *onset = Onset::default();
            return;
        }
        let over = onset.hear(frame);
        if closed {
            // Who speaks into the end of what cannot be interrupted is heard when it has ended.
            self.answer =
                over.filter(|over| over.voiced() >= CONFIRMED_FRAMES).and_then(|over| over.answer()).or(self.answer);
            return;
        }
        let Some((began, last_voiced)) = onset.span() else { return };
        if silent && onset.voiced() >= CONFIRMED_FRAMES {
            self.begin_turn(began, last_voiced, false, out);
        } else if !silent && frame.voiced && onset.voiced() >= candidate::duck_after(self.false_alarms) {
            self.state = State::Undecided(Candidate::new(began, onset, frame, self.false_alarms));
            out.push(TurnEvent::Ducked);
            self.judge(frame, agent, out);
        }
    }

    /// The agent has ended on what was too short to interrupt it.
    fn take_answer(&mut self, answer: Answer, frame: &Frame, out: &mut Vec<TurnEvent>) {
        if self.echo.was_echo(frame.end) {
            return;
        }
        self.begin_turn(answer.onset, answer.last_voiced, false, out);
        self.follow(frame, out);
    }

    fn consider(&mut self, frame: &Frame, agent: AgentSound, out: &mut Vec<TurnEvent>) {
        if let State::Undecided(candidate) = &mut self.state {
            candidate.hear(frame);
        }
        self.judge(frame, agent, out);
    }

    fn judge(&mut self, frame: &Frame, agent: AgentSound, out: &mut Vec<TurnEvent>) {
        let State::Undecided(candidate) = &mut self.state else { return };
        if agent == AgentSound::Protected || !self.rules.interruptible {
            return self.take_back(FalseAlarm::TooShort, out);
        }
        // The agent has come to its end meanwhile: from here on it is as if it had been silent.
        if agent == AgentSound::Silent && candidate.voiced() >= CONFIRMED_FRAMES && !candidate.is_noise() {
            let (onset, last_voiced) = (candidate.onset(), candidate.last_voiced());
            if !self.echo.was_echo(frame.end) {
                return self.begin_turn(onset, last_voiced, false, out);
            }
            return self.take_back(FalseAlarm::Echo, out);
        }
        let usual = self.rules.usual_min_speech();
        let min_speech = match self.turned_away {
            Some(away) if candidate.onset() < away.last_voiced + GOES_ON_WITHIN => {
                usual.saturating_sub(candidate.onset() - away.onset)
            }
            _ if self.pace.was_cut_off(candidate.onset()) && !self.echo.may_surprise() => GOES_ON_SPEECH.min(usual),
            Some(away) if candidate.onset() < away.last_voiced + AGAIN_WITHIN => usual * AGAIN_PERCENT / 100,
            // An echo ends soon after the agent has been paused; the longest one takes this long.
            _ if self.echo.may_surprise() => TurnRules::MIN_SPEECH_MAX,
            _ => usual,
        };
        let long_enough = candidate.speech() >= min_speech;
        if candidate.must_pause(frame) || (long_enough && !candidate.paused) {
            candidate.paused = true;
            out.push(TurnEvent::Paused);
        }
        if self.asks_words && candidate.wants_words(long_enough, frame.end) {
            candidate.ask_words(frame.end);
            out.push(TurnEvent::WordsWanted);
        }
        if candidate.awaits_words(frame.end) {
            return;
        }
        if long_enough && !candidate.only_backchannels && !candidate.is_noise() {
            self.commit(frame.end, out);
        } else if (long_enough && candidate.only_backchannels) || candidate.is_over() || candidate.last_look(frame) {
            let why = self.why_not(frame.end);
            self.take_back(why, out);
        }
    }

    fn why_not(&mut self, now: Instant) -> FalseAlarm {
        let State::Undecided(candidate) = &self.state else { return FalseAlarm::TooShort };
        if candidate.only_backchannels {
            FalseAlarm::Backchannel
        } else if self.echo.was_echo(now) {
            FalseAlarm::Echo
        } else if candidate.is_noise() {
            FalseAlarm::Noise
        } else {
            FalseAlarm::TooShort
        }
    }

    fn take_back(&mut self, why: FalseAlarm, out: &mut Vec<TurnEvent>) {
        let State::Undecided(candidate) = std::mem::take(&mut self.state) else { return };
        self.false_alarms += 1;
        if matches!(why, FalseAlarm::TooShort | FalseAlarm::Backchannel) && candidate.voiced() >= CONFIRMED_FRAMES {
            let said = candidate.answer();
            // Of a "yes, please" in two pieces the first counts, as long as it was said near the end.
            let first = self.answer.filter(|first| first.spoken_over + said.spoken_over <= ANSWERS_WITHIN);
            self.answer = Some(first.map_or(said, |first| Answer {
                onset: first.onset,
                last_voiced: said.last_voiced,
                spoken_over: first.spoken_over + said.spoken_over,
            }));
        }
        match why {
            // As long as the line's echo is not known, it may have been that.
            FalseAlarm::TooShort if self.echo.may_surprise() && candidate.speech() < ECHO_USUAL_MAX => {
                self.turned_away = None;
            }
            FalseAlarm::TooShort => self.turned_away = Some(candidate.turned_away()),
            FalseAlarm::Echo | FalseAlarm::Backchannel => self.turned_away = None,
            FalseAlarm::Noise => {}
        }
        out.push(TurnEvent::Resumed(why));
        if why == FalseAlarm::Echo {
            self.alarm(out);
        }
    }

    fn commit(&mut self, now: Instant, out: &mut Vec<TurnEvent>) {
        let State::Undecided(candidate) = &self.state else { return };
        let onset = candidate.onset();
        if !candidate.paused {
            out.push(TurnEvent::Paused);
        }
        self.begin_turn(onset, now, true, out);
    }

    fn begin_turn(&mut self, onset: Instant, last_voiced: Instant, interrupts: bool, out: &mut Vec<TurnEvent>) {
        self.state = State::Caller { last_voiced, may_end: false };
        self.false_alarms = 0;
        self.turned_away = None;
        self.answer = None;
        self.pace.began(onset);
        out.push(TurnEvent::Began { onset, interrupts });
    }

    /// Counts how often echo set off the detector, and how long there has been none.
    fn watch_echo(&mut self, frame: &Frame, out: &mut Vec<TurnEvent>) {
        self.duplex.echo_run = if frame.is_echo && frame.sounds_voiced { self.duplex.echo_run + 1 } else { 0 };
        if self.duplex.echo_run == ALARM_FRAMES {
            self.alarm(out);
        }
        if !self.duplex.half || !self.echo.may_come(frame.end) {
            return;
        }
        let came_back = frame.level > self.echo.loudest_played(frame.end) - HALF_DUPLEX_LOSS_DB;
        self.duplex.clean = if came_back { 0 } else { self.duplex.clean + 1 };
        if self.duplex.clean >= CLEAN_FRAMES {
            self.duplex = Duplex::default();
            out.push(TurnEvent::HalfDuplex(false));
        }
    }

    fn alarm(&mut self, out: &mut Vec<TurnEvent>) {
        let heavy = self.echo.measured().is_some_and(|echo| echo.loss_db < HALF_DUPLEX_LOSS_DB);
        self.duplex.alarms = if heavy { self.duplex.alarms + 1 } else { 0 };
        if self.duplex.alarms >= ECHO_ALARMS_MAX && !self.duplex.half {
            self.duplex.half = true;
            self.duplex.clean = 0;
            if matches!(self.state, State::Undecided(_)) {
                self.state = State::default();
                out.push(TurnEvent::Resumed(FalseAlarm::Echo));
            }
            out.push(TurnEvent::HalfDuplex(true));
        }
    }
}

fn before(instant: Instant, by: Duration) -> Instant {
    instant.checked_sub(by).unwrap_or(instant)
}

impl fmt::Debug for TurnTaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnTaker").field("state", &self.state).field("duplex", &self.duplex).finish_non_exhaustive()
    }
}
