//! Voices beside the caller's: a television, an office, a bar. They sound like speech, and are quieter than who holds
//! the telephone.
//!
//! What the line sounds like when the caller does not speak is kept for some seconds, and who speaks has to be louder.
//! It is learnt from what is there when the call begins, before anybody could have said something, from what is not
//! louder than it or no speech, and from what goes on for longer than a caller speaks without a pause. If the latter then
//! falls silent for a second, it was a caller, since a television does not wait for the agent's answer.

use std::collections::VecDeque;

/// Frames of a block: the loudest of 100 ms is a vowel, not the gap behind it.
const BLOCK: u32 = 5;
/// Blocks that are kept: 6 s. A television pauses for less, as a rule.
const KEPT: usize = 60;
/// So many of 100 blocks are not louder than what is usual there: a voice is silent for a sixth of the time.
const USUAL_PERCENT: usize = 80;
/// Who speaks is so much louder than that, in a vowel now and then.
const ABOVE_DB: f32 = 3.0;
/// What is louder than this in the very first frame was there before somebody who has just been connected could speak; a
/// line's own noise is of no interest here.
const SOUNDS_DBFS: f32 = -55.0;
/// So many blocks belong to it then, and those of the first second that are at most so much louder …
const FIRST_BLOCKS: u32 = 3;
const BEGINNING_BLOCKS: u32 = 10;
const LOUDER_DB: f32 = 6.0;
/// … unless so many in a row are quiet in the first two seconds: that was somebody's "hello?" …
const HELLO_BLOCKS: u32 = 20;
const QUIET_BLOCKS: u32 = 3;
/// … or two are as loud as only who holds the telephone is.
const NEAR_DBFS: f32 = -18.0;
const NEAR_BLOCKS: u32 = 2;
/// What is so much quieter than the caller has been does not interrupt the agent.
const BELOW_CALLER_DB: f32 = 7.0;
/// Until a caller has had a turn they are taken to be as loud as this where it is asked for how long others may sound, but not
/// where the agent is to be stopped: a soft caller may interrupt the greeting.
const USUAL_CALLER_DBFS: f32 = -17.0;
/// A sound this much quieter than the caller …
const QUIETER_DB: f32 = 6.0;
/// … is not the caller after so many blocks without a pause: 6 s, so that its turn is over before 8 s …
const QUIETER_BLOCKS_MAX: usize = 60;
/// … and any other is not after 70 s: nobody speaks for so long without a breath.
const BLOCKS_MAX: usize = 700;
/// Blocks of a pause: a second. One of a television's is shorter.
const PAUSE_BLOCKS: u32 = 10;
/// A caller is as loud as the block that so many of a hundred in a turn do not exceed.
const LOUD_PERCENT: usize = 85;
/// Frames after a loud vowel that belong to who speaks: 100 ms if the sound may be an interruption, 300 ms in a turn.
const HELD_UNDECIDED: u32 = 5;
const HELD_IN_TURN: u32 = 15;

/// Whose turn it is while a frame is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum During {
    Silence,
    /// The agent is heard.
    Agent,
    Undecided,
    Turn,
}

#[derive(Debug, Default)]
pub(super) struct Background {
    /// The loudest frame of the block so far, and how many it has.
    loudest: f32,
    frames: u32,
    blocks: u32,
    /// What sounds was there when the call began, and how loud its first blocks are.
    from_the_start: bool,
    first: f32,
    quiet: u32,
    near: u32,
    kept: VecDeque<f32>,
    /// Blocks of a sound above it, since the last pause, and those of the caller's turn.
    above: Vec<f32>,
    turn: Vec<f32>,
    pause: u32,
    /// A sound was taken for background that was louder than this, since it went on and on; blocks in a row that are not.
    demoted: Option<f32>,
    silent: u32,
    /// The block has speech in it, as the detector hears it.
    speech: bool,
    /// Who speaks is louder than this.
    gate: Option<f32>,
    /// How loud the caller is.
    caller: Option<f32>,
    /// Frames since the last that was louder.
    since: u32,
}

impl Background {
    /// One frame that is no echo, and whether it sounds like speech; whether it is of somebody who speaks into the telephone.
    pub fn hear(&mut self, level: f32, speech: bool, during: During) -> bool {
        let mut gate = self.gate.unwrap_or(f32::MIN);
        if let (During::Agent | During::Undecided, Some(caller)) = (during, self.caller) {
            gate = gate.max(caller - BELOW_CALLER_DB);
        }
        let is_louder = level > gate;
        self.since = if is_louder { 0 } else { self.since.saturating_add(1) };
        self.from_the_start |= (self.blocks, self.frames) == (0, 0) && level > SOUNDS_DBFS;
        let first = self.frames == 0;
        self.loudest = if first { level } else { self.loudest.max(level) };
        self.speech = speech || (self.speech && !first);
        self.frames += 1;
        if self.frames == BLOCK {
            self.frames = 0;
            self.block(self.loudest, during);
        }
        match during {
            During::Silence | During::Agent => is_louder,
            During::Undecided => self.since <= HELD_UNDECIDED,
            During::Turn => self.since <= HELD_IN_TURN,
        }
    }

    /// A turn of the caller is over: as loud as in its vowels they speak. Who gets softer is followed by half, so that one
    /// shout is forgotten.
    pub fn turn_ended(&mut self) {
        let Some(loud) = share(std::mem::take(&mut self.turn), LOUD_PERCENT) else { return };
        self.caller = Some(self.caller.map_or(loud, |caller| loud.max(f32::midpoint(loud, caller))));
    }

    fn block(&mut self, level: f32, during: During) {
        self.blocks = self.blocks.saturating_add(1);
        let belongs = self.belongs_to_the_line(level);
        let speaks = during == During::Turn && self.since <= HELD_IN_TURN;
        match self.gate {
            _ if belongs => self.keep(level),
            // Who speaks a moment after the call has begun does not belong to the line.
            None => self.keep(level.min(SOUNDS_DBFS)),
            Some(gate) if level <= gate && !speaks => self.keep(level),
            Some(_) if !self.speech => self.keep(level),
            Some(_) => {}
        }
        self.follow(level, during);
        self.forgive(level);
        self.gate = share(self.kept.iter().copied().collect(), USUAL_PERCENT).map(|usual| usual + ABOVE_DB);
    }

    /// Whether it was there before somebody could speak.
    fn belongs_to_the_line(&mut self, level: f32) -> bool {
        if !self.from_the_start || self.blocks > HELLO_BLOCKS {
            return false;
        }
        self.quiet = if level > SOUNDS_DBFS { 0 } else { self.quiet + 1 };
        self.near += u32::from(level > NEAR_DBFS && self.blocks <= BEGINNING_BLOCKS);
        if self.quiet == QUIET_BLOCKS || self.near == NEAR_BLOCKS {
            self.from_the_start = false;
            self.kept.clear();
            self.gate = None;
            return false;
        }
        let is_first = self.blocks <= FIRST_BLOCKS;
        self.first = if self.blocks == 1 {
            level
        } else if is_first {
            self.first.max(level)
        } else {
            self.first
        };
        is_first || (self.blocks <= BEGINNING_BLOCKS && level <= self.first + LOUDER_DB)
    }

    /// What goes on for longer than a caller would is the background from here on.
    fn follow(&mut self, level: f32, during: During) {
        let Some(gate) = self.gate else { return };
        if level > gate && self.speech {
            self.pause = 0;
            self.above.push(level);
            if during == During::Turn && self.turn.len() < BLOCKS_MAX {
                self.turn.push(level);
            }
        } else {
            self.pause = self.pause.saturating_add(1);
            if self.pause == PAUSE_BLOCKS {
                self.above.clear();
            }
        }
        if self.above.len() < QUIETER_BLOCKS_MAX {
            return;
        }
        let usual = self.caller.unwrap_or(USUAL_CALLER_DBFS);
        let quieter = share(self.above.clone(), LOUD_PERCENT).is_some_and(|loud| loud < usual - QUIETER_DB);
        if self.above.len() >= if quieter { QUIETER_BLOCKS_MAX } else { BLOCKS_MAX } {
            (self.demoted, self.silent) = (Some(gate), 0);
            // It says nothing of how loud the caller is.
            self.turn.clear();
            std::mem::take(&mut self.above).into_iter().for_each(|level| self.keep(level));
        }
    }

    /// Who falls silent was a caller.
    fn forgive(&mut self, level: f32) {
        let Some(gate) = self.demoted else { return };
        self.silent = if level <= gate { self.silent + 1 } else { 0 };
        if self.silent == PAUSE_BLOCKS {
            self.demoted = None;
            self.kept.retain(|kept| *kept <= gate);
        }
    }

    fn keep(&mut self, level: f32) {
        self.kept.push_back(level);
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }
}

/// The level that so many of a hundred blocks do not exceed.
fn share(mut levels: Vec<f32>, percent: usize) -> Option<f32> {
    levels.sort_unstable_by(f32::total_cmp);
    levels.get(levels.len().checked_sub(1)? * percent / 100).copied()
}
