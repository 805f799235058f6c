//! Background voices: a television, an office, a bar. They sound like speech, and are quieter than the caller.
//!
//! The background level is the 80th percentile of recent 100 ms blocks, and a caller has to be 3 dB louder, except over steady noise
//! while the agent is silent. Blocks are learnt at the beginning of the call, before anybody could have spoken; when they are not louder
//! than the background or not speech; when they are far below a known caller while the agent speaks; and when a sound goes on for longer
//! than a caller speaks without a pause. A pause of a second behind such a sound takes that back: it was a caller, since a television
//! does not wait for the agent's answer.

use std::collections::VecDeque;

/// Frames of a block. The loudest frame of 100 ms is a vowel, not the gap behind it.
const BLOCK_FRAMES: u32 = 5;
/// Blocks whose levels are kept: 6 s.
const RECENT_BLOCKS: usize = 60;
/// Percentile of the recent blocks that is the background level. A voice pauses for a sixth of the time.
const BACKGROUND_PERCENTILE: usize = 80;
/// Margin of a caller's vowels over the background.
const MARGIN_DB: f32 = 3.0;
/// Margin that steady noise does not need while the agent is silent: it does not sound like speech, and interrupts nobody then.
const NOISE_MARGIN_DB: f32 = 3.0;
/// Frames of a block of steady noise are at most so far apart; those of voices and music rise and fall.
const STEADY_DB: f32 = 3.0;
/// Level of the first frame above which the call has a background; line noise is below it as a rule.
const AUDIBLE_DBFS: f32 = -55.0;
/// Blocks at the beginning of such a call that are background whatever their level: 300 ms.
const FIRST_BLOCKS: u32 = 3;
/// Blocks of the first second, which are background if they are not much louder than the first ones.
const BEGINNING_BLOCKS: u32 = 10;
const BEGINNING_MARGIN_DB: f32 = 6.0;
/// Quiet blocks in a row within the first two seconds that show the sound to have been a caller's "hello?".
const QUIET_BLOCKS: u32 = 3;
const HELLO_BLOCKS: u32 = 20;
/// Blocks with speech at the beginning that show others to be on the line.
const VOICE_BLOCKS: u32 = 3;
/// Level of two blocks of the first second that only a caller at the telephone has.
const NEAR_DBFS: f32 = -18.0;
const NEAR_BLOCKS: u32 = 2;
/// Distance below the caller's level at which a sound does not interrupt the agent.
const BELOW_CALLER_DB: f32 = 7.0;
/// Distance below the caller's level at which speech behind their own words keeps the turn open for 400 ms only: the next vowel of a
/// caller is louder, that of a radio is not.
const SOFT_IN_TURN_DB: f32 = 12.0;
const SOFT_IN_TURN_FRAMES: u32 = 20;
/// Frames of a pause behind which such speech does not keep the turn open at all: it begins anew, and a caller begins with a vowel.
const SOFT_PAUSE_FRAMES: u32 = 10;
/// Frames of such speech after which it may be the caller after all, who has put the telephone down: 6 s.
const SOFT_FRAMES_MAX: u32 = 300;
/// Level that is assumed for a caller who has not had a turn, when the length of a sound is judged. For interruptions it would be too
/// high, except where voices were on the line before the call: a soft caller may interrupt the greeting ([`FIRST_VOWEL_DBFS`]).
const USUAL_CALLER_DBFS: f32 = -17.0;
/// Distance below the caller's level at which a long sound is background after [`SOFT_BLOCKS_MAX`].
const SOFT_DB: f32 = 6.0;
/// Blocks without a pause that a softer sound may have: 6 s, so that its turn is over before 8 s.
const SOFT_BLOCKS_MAX: usize = 60;
/// Blocks without a pause that any sound may have: 70 s. Nobody speaks for so long without a breath.
const BLOCKS_MAX: usize = 700;
/// Blocks of a pause: a second. Pauses in a television's speech are shorter.
const PAUSE_BLOCKS: u32 = 10;
/// Percentile of the blocks of a turn that is the caller's level.
const CALLER_PERCENTILE: usize = 85;
/// Frames behind a loud vowel that count as the caller's while a sound is undecided (100 ms) and in a turn (300 ms).
const HELD_UNDECIDED: u32 = 5;
/// Level of the vowels of a soft caller, whose speech is at -36 dBFS. A television at -40 dBFS is below it.
const FIRST_VOWEL_DBFS: f32 = -32.0;
/// Frames without such a vowel after which a sound over the greeting is not the caller's: 360 ms, in which the agent pauses.
const HELD_FIRST_SOUND: u32 = 18;
/// Sounds over the greeting that came to nothing, after which no softer one pauses it.
const FIRST_SOUNDS_MAX: u32 = 2;
const HELD_IN_TURN: u32 = 15;

/// Turn state while a frame is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnState {
    /// Neither side speaks.
    Silence,
    Agent,
    /// The caller may be interrupting the agent.
    Undecided,
    Caller,
}

/// Others on the line beside the caller, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    None,
    Audible,
    /// A long sound that had the turn was taken for background.
    HoldTurn,
}

#[derive(Debug, Default)]
pub(super) struct Background {
    block: Block,
    beginning: Beginning,
    /// Blocks that are background.
    recent: VecDeque<Sound>,
    /// Level that a caller has to exceed; `None` before the first block.
    threshold: Option<f32>,
    /// Like `threshold`, while the agent is silent.
    in_silence: Option<f32>,
    /// Levels of the blocks above the threshold since the last pause.
    above: Vec<f32>,
    /// Blocks in a row that are not above it.
    pause: u32,
    demoted: Option<Demoted>,
    /// Levels of the caller's turn so far.
    turn: Vec<f32>,
    caller_dbfs: Option<f32>,
    /// Frames since the last one above the threshold.
    since_loud: u32,
    beside: Beside,
    first_sounds: FirstSounds,
}

/// The block that is being heard.
#[derive(Debug, Default)]
struct Block {
    loudest: f32,
    quietest: f32,
    frames: u32,
    has_speech: bool,
}

/// A block that is over.
#[derive(Debug, Clone, Copy)]
struct Sound {
    level: f32,
    has_speech: bool,
    is_steady: bool,
}

impl Sound {
    /// The level that a caller has to exceed by [`MARGIN_DB`] while the agent is silent.
    fn in_silence(&self) -> f32 {
        if self.has_speech || !self.is_steady { self.level } else { self.level - NOISE_MARGIN_DB }
    }
}

/// The first seconds of the call.
#[derive(Debug, Default)]
struct Beginning {
    blocks: u32,
    /// The first frame was audible, and nothing has shown it to be a caller's.
    is_background: bool,
    /// Blocks of the background with speech. One may be a mistake of the detector, which does not know the line's noise yet.
    voices: u32,
    /// The loudest of the first blocks.
    first_dbfs: f32,
    quiet: u32,
    near: u32,
}

/// Sounds over the agent before the caller has had a turn. How soft they may be shows only in time: the first ones pause the agent, and
/// the one after a television's has to have a vowel as loud as a soft caller's.
#[derive(Debug, Default)]
struct FirstSounds {
    is_undecided: bool,
    /// Frames of the sound since such a vowel.
    since_vowel: u32,
    /// Sounds that came to nothing.
    in_vain: u32,
}

impl FirstSounds {
    fn hear(&mut self, level: f32, state: TurnState) {
        let was_undecided = std::mem::replace(&mut self.is_undecided, state == TurnState::Undecided);
        self.in_vain = self.in_vain.saturating_add(u32::from(was_undecided && state == TurnState::Agent));
        let has_vowel = !self.is_undecided || level > FIRST_VOWEL_DBFS;
        self.since_vowel = if has_vowel { 0 } else { self.since_vowel.saturating_add(1) };
        if self.since_vowel > HELD_FIRST_SOUND {
            self.in_vain = FIRST_SOUNDS_MAX;
        }
    }

    fn threshold(&self) -> Option<f32> {
        (self.in_vain >= FIRST_SOUNDS_MAX).then_some(FIRST_VOWEL_DBFS)
    }
}

/// Soft speech behind a caller's own words, as of a radio.
#[derive(Debug, Default)]
struct Beside {
    /// Frames of it since the last one of the caller's usual level, as long as there was no pause.
    frames: Option<u32>,
    /// Frames in a row without speech.
    pause: u32,
}

/// A long sound that was taken for background.
#[derive(Debug)]
struct Demoted {
    /// The threshold before that.
    threshold: f32,
    /// Blocks in a row below it.
    silent: u32,
}

impl Background {
    /// Takes one frame that is not echo; tells whether the caller speaks in it rather than somebody in the background.
    pub fn hear(&mut self, level: f32, is_speech: bool, state: TurnState) -> bool {
        let agent_is_silent = matches!(state, TurnState::Silence | TurnState::Caller);
        let mut threshold = if agent_is_silent { self.in_silence } else { self.threshold }.unwrap_or(f32::MIN);
        self.first_sounds.hear(level, state);
        if let TurnState::Agent | TurnState::Undecided = state {
            let own = self.caller_dbfs.map(|caller| caller - BELOW_CALLER_DB);
            let unknown = self.beginning.threshold().or(self.first_sounds.threshold());
            threshold = threshold.max(own.or(unknown).unwrap_or(f32::MIN));
        }
        let is_beside = self.beside.hear(is_speech, self.caller_dbfs.is_none() || self.is_soft(level));
        let is_louder = level > threshold;
        self.since_loud = if is_louder { 0 } else { self.since_loud.saturating_add(1) };
        if (self.beginning.blocks, self.block.frames) == (0, 0) {
            self.beginning.is_background = level > AUDIBLE_DBFS;
        }
        if let Some(sound) = self.block.add(level, is_speech) {
            self.block_ends(sound, state);
        }
        match state {
            TurnState::Agent => is_louder,
            TurnState::Silence => is_louder && !is_beside,
            TurnState::Undecided => {
                let may_be_caller = self.caller_dbfs.is_some() || self.first_sounds.since_vowel <= HELD_FIRST_SOUND;
                self.since_loud <= HELD_UNDECIDED && may_be_caller
            }
            TurnState::Caller => self.since_loud <= HELD_IN_TURN && !is_beside,
        }
    }

    pub fn others(&self) -> Others {
        match (&self.demoted, self.threshold) {
            (Some(_), _) => Others::HoldTurn,
            (None, Some(threshold)) if threshold > AUDIBLE_DBFS + MARGIN_DB => Others::Audible,
            (None, _) => Others::None,
        }
    }

    /// Far below the caller's own level.
    fn is_soft(&self, level: f32) -> bool {
        self.caller_dbfs.is_some_and(|caller| level < caller - SOFT_IN_TURN_DB)
    }

    /// Learns the caller's level from a turn that is over. A softer turn counts by half, so that one shout is forgotten.
    pub fn turn_ended(&mut self) {
        let Some(turn) = percentile(std::mem::take(&mut self.turn), CALLER_PERCENTILE) else { return };
        self.caller_dbfs = Some(self.caller_dbfs.map_or(turn, |caller| turn.max(f32::midpoint(turn, caller))));
    }

    fn block_ends(&mut self, sound: Sound, state: TurnState) {
        let Sound { level, has_speech, .. } = sound;
        let at_beginning = match self.beginning.judge(level) {
            Verdict::Background => true,
            Verdict::Unknown => false,
            Verdict::Caller => {
                self.recent.clear();
                self.threshold = None;
                false
            }
        };
        let caller_speaks = state == TurnState::Caller && self.since_loud <= HELD_IN_TURN;
        match self.threshold {
            _ if at_beginning => {
                self.beginning.voices += u32::from(has_speech);
                self.keep(sound);
            }
            // A caller who speaks in the first block is not the background.
            None => self.keep(Sound { level: level.min(AUDIBLE_DBFS), ..sound }),
            Some(threshold) if level <= threshold && !caller_speaks => self.keep(sound),
            Some(_) if !has_speech => self.keep(sound),
            // A radio: a caller who has become softer by so much is rare, and heard when they pause.
            Some(_) if state == TurnState::Agent && self.is_soft(level) => self.keep(sound),
            Some(_) => {}
        }
        self.watch_length(level, has_speech, state);
        self.restore_after_pause(level);
        let exceeds = |levels| percentile(levels, BACKGROUND_PERCENTILE).map(|background| background + MARGIN_DB);
        self.threshold = exceeds(self.recent.iter().map(|sound| sound.level).collect());
        self.in_silence = exceeds(self.recent.iter().map(Sound::in_silence).collect());
    }

    /// Takes a sound for background that goes on for longer than a caller speaks.
    fn watch_length(&mut self, level: f32, has_speech: bool, state: TurnState) {
        let Some(threshold) = self.threshold else { return };
        if level > threshold && has_speech {
            self.pause = 0;
            self.above.push(level);
            if state == TurnState::Caller && self.turn.len() < BLOCKS_MAX {
                self.turn.push(level);
            }
        } else {
            self.pause = self.pause.saturating_add(1);
            if self.pause == PAUSE_BLOCKS {
                self.above.clear();
            }
        }
        if self.above.len() < SOFT_BLOCKS_MAX {
            return;
        }
        let usual = self.caller_dbfs.unwrap_or(USUAL_CALLER_DBFS);
        let is_soft = percentile(self.above.clone(), CALLER_PERCENTILE).is_some_and(|level| level < usual - SOFT_DB);
        if self.above.len() >= if is_soft { SOFT_BLOCKS_MAX } else { BLOCKS_MAX } {
            self.demoted = Some(Demoted { threshold, silent: 0 });
            // Its level is not the caller's.
            self.turn.clear();
            let voices = std::mem::take(&mut self.above).into_iter();
            voices.for_each(|level| self.keep(Sound { level, has_speech: true, is_steady: false }));
        }
    }

    /// Forgets the levels of a demoted sound that pauses: a soft caller is heard again.
    fn restore_after_pause(&mut self, level: f32) {
        let Some(demoted) = &mut self.demoted else { return };
        demoted.silent = if level <= demoted.threshold { demoted.silent + 1 } else { 0 };
        if demoted.silent == PAUSE_BLOCKS {
            let threshold = demoted.threshold;
            self.recent.retain(|sound| sound.level <= threshold);
            self.demoted = None;
        }
    }

    fn keep(&mut self, sound: Sound) {
        self.recent.push_back(sound);
        if self.recent.len() > RECENT_BLOCKS {
            self.recent.pop_front();
        }
    }
}

impl Beside {
    /// Whether a frame is more of it than a caller's own words could be.
    fn hear(&mut self, is_speech: bool, is_soft: bool) -> bool {
        let pause = self.pause;
        self.pause = if is_speech { 0 } else { pause.saturating_add(1) };
        self.frames = match self.frames {
            _ if is_speech && !is_soft => Some(0),
            Some(frames) if is_speech && pause >= SOFT_PAUSE_FRAMES => Some(frames.max(SOFT_IN_TURN_FRAMES + 1)),
            _ if self.pause >= PAUSE_BLOCKS * BLOCK_FRAMES => None,
            Some(frames) if frames >= SOFT_FRAMES_MAX => None,
            frames => frames.map(|frames| frames.saturating_add(u32::from(is_speech))),
        };
        self.frames.is_some_and(|frames| frames > SOFT_IN_TURN_FRAMES)
    }
}

impl Block {
    /// The whole block, with its last frame.
    fn add(&mut self, level: f32, is_speech: bool) -> Option<Sound> {
        let is_first = self.frames == 0;
        self.loudest = if is_first { level } else { self.loudest.max(level) };
        self.quietest = if is_first { level } else { self.quietest.min(level) };
        self.has_speech = is_speech || (self.has_speech && !is_first);
        self.frames = (self.frames + 1) % BLOCK_FRAMES;
        let is_steady = self.loudest - self.quietest <= STEADY_DB;
        (self.frames == 0).then_some(Sound { level: self.loudest, has_speech: self.has_speech, is_steady })
    }
}

/// Verdict on a block at the beginning of the call.
enum Verdict {
    Background,
    Unknown,
    /// All sound so far was a caller's.
    Caller,
}

impl Beginning {
    /// Level of a caller who interrupts the greeting where others were on the line before anybody could speak: these may get louder.
    fn threshold(&self) -> Option<f32> {
        (self.voices >= VOICE_BLOCKS).then_some(USUAL_CALLER_DBFS - SOFT_DB)
    }

    fn judge(&mut self, level: f32) -> Verdict {
        self.blocks = self.blocks.saturating_add(1);
        if !self.is_background || self.blocks > HELLO_BLOCKS {
            return Verdict::Unknown;
        }
        self.quiet = if level > AUDIBLE_DBFS { 0 } else { self.quiet + 1 };
        self.near += u32::from(level > NEAR_DBFS && self.blocks <= BEGINNING_BLOCKS);
        if self.quiet == QUIET_BLOCKS || self.near == NEAR_BLOCKS {
            (self.is_background, self.voices) = (false, 0);
            return Verdict::Caller;
        }
        if self.blocks <= FIRST_BLOCKS {
            self.first_dbfs = if self.blocks == 1 { level } else { self.first_dbfs.max(level) };
            return Verdict::Background;
        }
        let is_like_first = level <= self.first_dbfs + BEGINNING_MARGIN_DB;
        if self.blocks <= BEGINNING_BLOCKS && is_like_first { Verdict::Background } else { Verdict::Unknown }
    }
}

/// The level that so many percent of the blocks do not exceed.
fn percentile(mut levels: Vec<f32>, percent: usize) -> Option<f32> {
    levels.sort_unstable_by(f32::total_cmp);
    levels.get(levels.len().checked_sub(1)? * percent / 100).copied()
}
