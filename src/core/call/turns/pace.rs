//! How long a caller's silence has to be to end their turn.

use super::{background::Others, ending::Ending, fall::Fall};
use crate::audio::FRAME;
use std::time::{Duration, Instant};

/// A caller who goes on within this time was only pausing.
const PAUSE_MAX: Duration = Duration::from_millis(1500);
/// The same for somebody who spells: they look for the next letter, and are confused by an agent who talks into it.
const SPELLED_PAUSE_MAX: Duration = Duration::from_secs(4);
/// The same for somebody who was asked to spell, and of whom no words are known.
const ASKED_PAUSE_MAX: Duration = Duration::from_millis(2_500);
/// An agent that has been heard for less than this has said nothing yet that its caller could react to: people take
/// longer to plan a reply.
const CUT_OFF_WITHIN: Duration = Duration::from_millis(500);
/// How much longer than the longest usual pause is waited.
const LONGER_PERCENT: u32 = 140;
/// The most that a caller's pace may stretch what is configured.
const STRETCH_MAX: u32 = 2;
/// What is waited of it after words that may be a sentence …
const WHOLE_PERCENT: u32 = 90;
/// … after words that are clearly finished …
const FINISHED_PERCENT: u32 = 75;
/// … but never less than this: the pause between two words …
const FINISHED_MIN: Duration = Duration::from_millis(200);
/// … and after words that something has to follow.
const OPEN_PERCENT: u32 = 160;
/// Percentage of the usual pause that ends a turn in which the voice is up, behind words that may be a sentence.
const UP_PERCENT: u32 = 130;
/// The same where no words are known. It is less, since such an agent answers a moment after the end of a turn and is still silent when
/// the caller goes on.
const UP_UNKNOWN_PERCENT: u32 = 115;
/// What is waited at the least behind a letter or digit. Callers who spell slowly pause for 1.2 s, and some have to look
/// for the next one.
const SPELLED_PAUSE: Duration = Duration::from_millis(1_600);
/// What is left of a long pause after each turn: one pause for thought does not slow down a whole call.
const KEPT_PERCENT: u32 = 80;

/// The pauses of one caller.
#[derive(Debug)]
pub(super) struct Pace {
    base: Duration,
    longest: Duration,
    /// As the words of this turn tell.
    ending: Ending,
    /// Who transcribes the caller decides …
    trusts: bool,
    /// … and has said that the turn is over.
    told_over: bool,
    /// The caller has gone on behind words that were taken for finished.
    doubts: bool,
    /// How the last turn ended, until the next one begins.
    ended: Option<Ended>,
    /// The agent has asked for letters or digits.
    asked: bool,
    fall: Fall,
}

/// A turn that is over.
#[derive(Debug, Clone, Copy)]
struct Ended {
    last_voiced: Instant,
    ending: Ending,
    /// How far the voice had fallen.
    fall: Option<f32>,
    /// Frames in which the agent has been heard since.
    answered: u32,
}

impl Pace {
    pub fn new(base: Duration) -> Self {
        Self {
            base,
            longest: Duration::ZERO,
            ending: Ending::Unknown,
            trusts: false,
            told_over: false,
            doubts: false,
            ended: None,
            asked: false,
            fall: Fall::default(),
        }
    }

    pub fn set_base(&mut self, base: Duration) {
        self.base = base;
    }

    pub fn end_silence(&self, others: Others) -> Duration {
        if self.trusts {
            return if self.told_over { FINISHED_MIN.min(self.base) } else { self.base * STRETCH_MAX };
        }
        let longest = self.base * STRETCH_MAX;
        let usual = match others {
            // A television goes on for ever, and has pauses of every length.
            Others::HoldTurn => self.base,
            _ => (self.longest * LONGER_PERCENT / 100).clamp(self.base, longest),
        };
        let percent = |percent: u32| (usual * percent / 100).min(longest);
        // Others behind the caller fill the end of their words.
        let is_up = others == Others::None && self.fall.is_up();
        match (self.ending, is_up) {
            (Ending::Spelled | Ending::Asked, _) => usual.max(SPELLED_PAUSE),
            (Ending::Open, _) => percent(OPEN_PERCENT),
            (Ending::Finished, _) if !self.doubts => percent(FINISHED_PERCENT).max(FINISHED_MIN.min(usual)),
            (Ending::Whole, true) => percent(UP_PERCENT),
            (Ending::Unknown, true) => percent(UP_UNKNOWN_PERCENT),
            (Ending::Unknown, false) => usual,
            (Ending::Whole | Ending::Finished, _) => percent(WHOLE_PERCENT),
        }
    }

    /// Whether letters or digits were asked for.
    pub fn asked(&mut self, for_spelling: bool) {
        self.asked = for_spelling;
    }

    /// Letters or digits are being said, as far as is known.
    fn spells(&self) -> bool {
        matches!(self.ending, Ending::Spelled | Ending::Asked)
    }

    /// What the last words of the turn say.
    pub fn hint(&mut self, ending: Ending) {
        self.ending = ending;
    }

    pub fn trust(&mut self, trusts: bool) {
        self.trusts = trusts;
    }

    /// Takes one frame of the turn.
    pub fn hear(&mut self, level: f32, is_speech: bool) {
        self.fall.hear(level, is_speech);
    }

    /// What who transcribes the caller believes. It counts like the words; but a letter is a whole turn to most of them.
    pub fn told_over(&mut self, over: bool) {
        self.told_over = over;
        if self.ending != Ending::Spelled {
            self.ending = if over { Ending::Finished } else { Ending::Open };
        }
    }

    /// The caller has paused in their turn. Pauses of somebody who spells say nothing about those between their sentences.
    pub fn paused(&mut self, pause: Duration) {
        if !self.spells() {
            self.longest = self.longest.max(pause);
        }
    }

    /// The words were about what was said before the pause. Who spells goes on spelling until other words are known.
    pub fn goes_on(&mut self) {
        if !self.spells() {
            self.ending = Ending::Unknown;
        }
        self.told_over = false;
    }

    pub fn ended(&mut self, last_voiced: Instant) {
        self.longest = self.longest * KEPT_PERCENT / 100;
        self.ended = Some(Ended { last_voiced, ending: self.ending, fall: self.fall.measured(), answered: 0 });
        self.ending = Ending::Unknown;
        self.told_over = false;
    }

    /// The agent was heard for a frame.
    pub fn agent_spoke(&mut self) {
        if let Some(ended) = &mut self.ended {
            ended.answered = ended.answered.saturating_add(1);
        }
    }

    /// Whether who speaks since `onset` only goes on with a turn into which the agent has come.
    pub fn was_cut_off(&self, onset: Instant) -> bool {
        self.ended.is_some_and(|ended| ended.answered > 0 && ended.goes_on(onset))
    }

    /// A turn begins: if the last one has only just ended, it was cut off too soon, also by an agent that had begun to
    /// answer it.
    pub fn began(&mut self, onset: Instant) {
        self.fall.begin();
        let (goes_on, over) = match self.ended.take() {
            Some(ended) if ended.goes_on(onset) => (Some(ended), None),
            over => (None, over),
        };
        if let Some(fall) = over.and_then(|over| over.fall) {
            self.fall.learn(fall);
        }
        if let Some(ended) = goes_on {
            if ended.ending == Ending::Spelled {
                self.ending = Ending::Spelled;
            } else {
                self.doubts |= ended.ending == Ending::Finished;
                self.paused(onset.saturating_duration_since(ended.last_voiced));
            }
        }
        if self.asked && self.ending == Ending::Unknown {
            self.ending = Ending::Asked;
        }
    }
}

impl Ended {
    fn goes_on(&self, onset: Instant) -> bool {
        let pause = onset.saturating_duration_since(self.last_voiced);
        match self.ending {
            Ending::Spelled => pause < SPELLED_PAUSE_MAX,
            Ending::Asked => pause < ASKED_PAUSE_MAX && FRAME * self.answered <= CUT_OFF_WITHIN,
            _ => pause < PAUSE_MAX && FRAME * self.answered <= CUT_OFF_WITHIN,
        }
    }
}
