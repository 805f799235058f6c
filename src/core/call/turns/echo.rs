//! How much of what is played to the caller comes back, and how late: measured on the levels of 20 ms
//! frames, which is coarse, cheap, and indifferent to what codecs and telephones do to the waveform.

use crate::audio::FRAME;
use std::time::Instant;

/// Frames of both directions that are remembered: over five seconds.
const REMEMBERED: usize = 256;
/// The latest an echo may come back: half a second.
const LAG_MAX: usize = 25;
/// Frames that are compared: two seconds.
const COMPARED: usize = 100;
/// Frames of the agent's voice that a measurement needs at least, and after a sound that ended with it.
const ACTIVE_MIN: usize = 25;
const ACTIVE_MIN_AFTER_ALARM: usize = 4;
/// From here on it is echo. A caller who happens to speak in the same moments explains far less.
const EXPLAINED_MIN: f32 = 0.5;
/// The same after a sound that ended: hardly more than one word of each is compared, and that a caller began and
/// stopped about as the agent did is no more than chance.
const EXPLAINED_MIN_AFTER_ALARM: f32 = 0.8;
/// The variance of levels, in dB², without which nothing was heard.
const VARIED_MIN: f32 = 4.0;
/// The agent's voice, as against its pauses.
const ACTIVE_DBFS: f32 = -45.0;
/// Below this a level says nothing.
const QUIET_DBFS: f32 = -60.0;
/// How far an echo may rise above what its measurement predicts.
const MARGIN_DB: f32 = 6.0;
/// How far below the prediction a frame has to be to speak against there being an echo.
const ABSENT_DB: f32 = 12.0;
/// So many such frames and it is gone: 300 ms of the agent's voice.
const ABSENT_FRAMES: u32 = 15;
/// Frames of the agent's voice after which a line without a measured echo has none: two seconds.
const KNOWN_AFTER: u32 = 100;
/// How often it is measured while the agent is heard.
const MEASURE_EVERY: u32 = 10;

/// An echo as it was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// Frames between what leaves and what comes back.
    lag: usize,
    /// How much quieter it comes back.
    pub loss_db: f32,
}

#[derive(Debug)]
pub(super) struct Echo {
    epoch: Option<Instant>,
    played: Levels,
    heard: Levels,
    /// The newest slot in which the agent's voice left.
    last_active: Option<usize>,
    measured: Option<Measured>,
    /// Frames in a row that should have had an echo and had none.
    absent: u32,
    until_measured: u32,
    /// Frames heard in which an echo could have been, up to [`KNOWN_AFTER`].
    listened: u32,
}

impl Echo {
    pub fn new() -> Self {
        let (played, heard) = (Levels::new(), Levels::new());
        Self {
            epoch: None,
            played,
            heard,
            last_active: None,
            measured: None,
            absent: 0,
            until_measured: MEASURE_EVERY,
            listened: 0,
        }
    }

    pub fn measured(&self) -> Option<Measured> {
        self.measured
    }

    fn slot(&mut self, at: Instant) -> usize {
        let since = at.saturating_duration_since(*self.epoch.get_or_insert(at));
        // The nearest one: what is played comes a little before or after a whole number of frames since the first.
        ((since + FRAME / 2).as_millis() / FRAME.as_millis()) as usize
    }

    pub fn played(&mut self, level: f32, at: Instant) {
        let slot = self.slot(at);
        self.played.set(slot, level);
        if level > ACTIVE_DBFS {
            self.last_active = Some(slot);
        }
    }

    /// A frame of the caller. True if echo explains it.
    pub fn heard(&mut self, level: f32, floor: f32, at: Instant) -> bool {
        let slot = self.slot(at);
        self.heard.set(slot, level);
        let predicted = self.predicted(slot);
        if predicted > floor.max(QUIET_DBFS) + ABSENT_DB {
            self.absent = if level < predicted - ABSENT_DB { self.absent + 1 } else { 0 };
            if self.absent >= ABSENT_FRAMES {
                self.measured = None;
            }
        }
        if self.is_audible(slot) {
            self.listened = KNOWN_AFTER.min(self.listened + 1);
            self.until_measured -= 1;
            if self.until_measured == 0 {
                self.until_measured = MEASURE_EVERY;
                self.measure(slot, ACTIVE_MIN, EXPLAINED_MIN);
            }
        }
        level <= predicted + MARGIN_DB
    }

    /// A sound has ended that might have been echo: was it?
    pub fn was_echo(&mut self, at: Instant) -> bool {
        let slot = self.slot(at);
        self.measure(slot, ACTIVE_MIN_AFTER_ALARM, EXPLAINED_MIN_AFTER_ALARM)
    }

    /// Whether the agent's voice left so recently that its echo may still come.
    pub fn may_come(&mut self, at: Instant) -> bool {
        let slot = self.slot(at);
        self.is_audible(slot)
    }

    /// Whether what is heard now may be an echo that nothing is known of yet.
    pub fn may_surprise(&self) -> bool {
        self.measured.is_none() && self.listened < KNOWN_AFTER && self.is_audible(self.heard.newest)
    }

    /// The loudest that left in the last half second.
    pub fn loudest_played(&mut self, at: Instant) -> f32 {
        let slot = self.slot(at);
        (0..=LAG_MAX).map(|lag| self.played.before(slot, lag)).fold(f32::NEG_INFINITY, f32::max)
    }

    fn is_audible(&self, slot: usize) -> bool {
        self.last_active.is_some_and(|last| last + LAG_MAX >= slot)
    }

    /// What echo alone would sound like now. Frames of both sides are never quite aligned, and rooms
    /// linger, so that the neighbours count too.
    fn predicted(&self, slot: usize) -> f32 {
        let Some(Measured { lag, loss_db }) = self.measured else { return f32::NEG_INFINITY };
        let near = lag.saturating_sub(1)..=lag + 3;
        near.map(|lag| self.played.before(slot, lag)).fold(f32::NEG_INFINITY, f32::max) - loss_db
    }

    /// Looks for the lag at which the agent's voice explains best what is heard; true if it does.
    fn measure(&mut self, slot: usize, active_min: usize, explained_min: f32) -> bool {
        let Some(compared) = Compared::new(&self.played, &self.heard, slot) else { return false };
        let at = |lag| compared.explained(lag, active_min, explained_min);
        let Some((explained, found)) = (0..=LAG_MAX).filter_map(at).max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return false;
        };
        if explained < explained_min {
            return false;
        }
        self.absent = 0;
        self.measured = Some(match self.measured {
            // The same echo again: the figure becomes steadier.
            Some(old) if old.lag.abs_diff(found.lag) <= 1 => {
                Measured { loss_db: 0.7 * old.loss_db + 0.3 * found.loss_db, ..found }
            }
            _ => found,
        });
        true
    }
}

/// What a measurement looks at, the newest first: it is held against each lag.
struct Compared {
    /// How many frames there are of what was heard.
    count: usize,
    /// Level and power of what was heard.
    heard: [(f32, f32); COMPARED],
    /// The power of what had left. An echo that comes back between two frames is in both of them.
    left: [f32; COMPARED + LAG_MAX],
    /// What was heard is by so much not always the same: the sum of squares, in dB².
    around_mean: f32,
}

impl Compared {
    /// `None` where hardly anything was heard: there is nothing to explain.
    fn new(played: &Levels, heard: &Levels, slot: usize) -> Option<Self> {
        let count = COMPARED.min(slot);
        let heard = std::array::from_fn(|back| {
            let (level, power) = heard.at(slot, back);
            (level.max(QUIET_DBFS), power)
        });
        let levels = || heard[..count].iter().map(|(level, _)| level);
        let mean = levels().sum::<f32>() / count as f32;
        let around_mean = levels().map(|level| (level - mean).powi(2)).sum();
        let left = |back| 0.5 * (played.power(slot, back) + played.power(slot, back + 1));
        (around_mean > VARIED_MIN * count as f32).then(|| Self {
            count,
            heard,
            left: std::array::from_fn(left),
            around_mean,
        })
    }

    /// How much of what is heard rises and falls as an echo with this lag would, over the noise of the line: 1 is all
    /// of it (the coefficient of determination, of levels in dB). With the loss of that echo; `None` where there is too
    /// little to compare, or less is explained than asked for.
    fn explained(&self, lag: usize, active_min: usize, explained_min: f32) -> Option<(f32, Measured)> {
        let active_power = power(ACTIVE_DBFS);
        let frames = || self.heard[..self.count].iter().zip(&self.left[lag..]);
        let (mut active, mut all_left, mut all_came, mut all_rest) = (0, 0.0, 0.0, 0.0);
        for ((level, came), left) in frames() {
            if *left > active_power {
                active += 1;
                all_left += left;
                all_came += came;
            } else {
                all_rest += level;
            }
        }
        // Where the agent is not in it.
        let noise = power(if active < self.count { all_rest / (self.count - active) as f32 } else { QUIET_DBFS });
        all_came -= noise * active as f32;
        if active < active_min || all_came <= 0.0 {
            return None;
        }
        let (gain, unexplained_max) = (all_came / all_left, (1.0 - explained_min) * self.around_mean);
        let mut around_echo = 0.0;
        for ((level, _), left) in frames() {
            around_echo += (level - 10.0 * (left * gain + noise).log10()).powi(2);
            // What explains too little needs no further logarithms.
            if around_echo > unexplained_max {
                return None;
            }
        }
        Some((1.0 - around_echo / self.around_mean, Measured { lag, loss_db: -10.0 * gain.log10() }))
    }
}

fn power(level_dbfs: f32) -> f32 {
    10_f32.powf(level_dbfs / 10.0)
}

/// The level of each of the last [`REMEMBERED`] slots of 20 ms.
#[derive(Debug)]
struct Levels {
    /// In dBFS, and as a power: a measurement needs thousands of them.
    ring: Box<[(f32, f32); REMEMBERED]>,
    /// The newest slot that was set.
    newest: usize,
}

impl Levels {
    const SILENCE: (f32, f32) = (-96.0, 0.0);

    fn new() -> Self {
        Self { ring: Box::new([Self::SILENCE; REMEMBERED]), newest: 0 }
    }

    fn set(&mut self, slot: usize, level: f32) {
        if slot > self.newest {
            // What nothing came in was silent.
            let skipped = (slot - self.newest).min(REMEMBERED);
            (0..skipped).for_each(|back| self.ring[(slot - back) % REMEMBERED] = Self::SILENCE);
            self.newest = slot;
        }
        let entry = &mut self.ring[slot % REMEMBERED];
        // Two frames in one slot: the louder one counts.
        if self.newest - slot < REMEMBERED && level > entry.0 {
            *entry = (level, power(level));
        }
    }

    fn at(&self, slot: usize, back: usize) -> (f32, f32) {
        match slot.checked_sub(back) {
            Some(slot) if slot <= self.newest && self.newest - slot < REMEMBERED => self.ring[slot % REMEMBERED],
            _ => Self::SILENCE,
        }
    }

    fn before(&self, slot: usize, back: usize) -> f32 {
        self.at(slot, back).0
    }

    fn power(&self, slot: usize, back: usize) -> f32 {
        self.at(slot, back).1
    }
}
