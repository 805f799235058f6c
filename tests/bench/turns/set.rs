//! The labelled set of `tests/fixtures/turn_taking`, played to a [`TurnTaker`] in front of an agent that
//! obeys it. Compiled into `offhook-bench` and into the test that holds its bars.

use anyhow::Context as _;
use offhook::{
    audio::{FRAME, Format, g711},
    call::{AgentSound, FalseAlarm, TurnEvent, TurnRules, TurnTaker},
};
use std::{
    fmt, fs,
    path::Path,
    time::{Duration, Instant},
};

const FRAME_SAMPLES: usize = 160;
/// A ducked agent is so much quieter: 12 dB.
const DUCKED_BY: i16 = 4;
/// A reflection that follows the echo itself: rooms have more than one wall.
const REFLECTION_SAMPLES: usize = 240;
const REFLECTION: f32 = 0.5;
/// An interruption that is heard later than this after its onset was missed.
const HEARD_WITHIN: Duration = Duration::from_millis(1_500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    Interruption,
    Backchannel,
    Noise,
    Echo,
}

impl Label {
    pub const ALL: [Self; 4] = [Self::Interruption, Self::Backchannel, Self::Noise, Self::Echo];

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.to_string() == text)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Interruption => "interruption",
            Self::Backchannel => "backchannel",
            Self::Noise => "noise",
            Self::Echo => "echo",
        })
    }
}

/// One line of the manifest with its audio.
pub struct Scene {
    pub number: u32,
    pub label: Label,
    pub language: String,
    /// What is said, or the kind of noise.
    pub what: String,
    /// When the sound begins.
    pub onset: Duration,
    /// How much quieter the agent comes back, and when.
    pub echo: Option<(f32, usize)>,
    /// G.711 µ-law.
    pub caller: Vec<u8>,
    pub agent: Vec<u8>,
}

impl Scene {
    /// The thresholds were found on the others.
    pub fn judges(&self) -> bool {
        self.number % 2 == 1
    }
}

/// Reads what `generate.py` made.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Scene>> {
    let file = |name: &str| fs::read(folder.join(name)).with_context(|| format!("{}", folder.join(name).display()));
    let manifest = String::from_utf8(file("manifest.tsv")?)?;
    manifest
        .lines()
        .skip(1)
        .map(|line| {
            let [number, label, language, onset, loss, delay, what] =
                <[&str; 7]>::try_from(line.split('\t').collect::<Vec<_>>()).map_err(|_| anyhow::anyhow!("{line}"))?;
            let number: u32 = number.parse()?;
            Ok(Scene {
                number,
                label: Label::parse(label).with_context(|| line.to_owned())?,
                language: language.to_owned(),
                what: what.to_owned(),
                onset: Duration::from_millis(onset.parse()?),
                echo: match (loss, delay) {
                    ("", _) => None,
                    (loss, delay) => Some((loss.parse()?, delay.parse::<usize>()? * 8)),
                },
                caller: file(&format!("{number:03}.ul"))?,
                agent: file(&format!("agent-{language}.ul"))?,
            })
        })
        .collect()
}

/// What became of one scene.
#[derive(Debug, Default)]
pub struct Outcome {
    /// When the agent was paused, and what for.
    pub pauses: Vec<Duration>,
    pub alarms: Vec<FalseAlarm>,
    /// How long it was silent each time that it went on.
    pub gaps: Vec<Duration>,
    /// When the caller was given the turn.
    pub interrupted: Option<Duration>,
    pub half_duplex: bool,
}

impl Outcome {
    /// The answer was given up for something that was no interruption.
    pub fn false_stop(&self, scene: &Scene) -> bool {
        match scene.label {
            Label::Interruption => self.interrupted.is_some_and(|at| at < scene.onset),
            _ => self.interrupted.is_some(),
        }
    }

    pub fn missed(&self, scene: &Scene) -> bool {
        let heard = |at| (scene.onset..scene.onset + HEARD_WITHIN).contains(&at);
        scene.label == Label::Interruption && !self.interrupted.is_some_and(heard)
    }

    /// From the onset of an interruption to the pause.
    pub fn pause_after(&self, scene: &Scene) -> Option<Duration> {
        self.pauses.iter().find_map(|at| at.checked_sub(scene.onset)).filter(|_| scene.label == Label::Interruption)
    }
}

/// Plays a scene until the caller has interrupted, or to its end.
pub fn play(scene: &Scene, rules: TurnRules, start: Instant) -> Outcome {
    let mut taker = TurnTaker::new(rules, Format::ULAW);
    let mut agent = Agent::new(&scene.agent);
    let mut line = Line { echo: scene.echo, left: Vec::new() };
    let (mut outcome, mut events) = (Outcome::default(), Vec::new());
    for (index, frame) in scene.caller.chunks_exact(FRAME_SAMPLES).enumerate() {
        let at = FRAME * (index as u32 + 1);
        let now = start + at;
        let sound = agent.sound();
        let left = agent.slot();
        taker.played(&left, now);
        let heard = line.heard(frame, &left);
        taker.hear(&heard, sound, now, &mut events);
        for event in events.drain(..) {
            match event {
                TurnEvent::Ducked => agent.ducked = true,
                TurnEvent::Paused => {
                    agent.paused = true;
                    outcome.pauses.push(at);
                }
                TurnEvent::Resumed(why) => {
                    outcome.alarms.push(why);
                    outcome.gaps.extend(outcome.pauses.last().filter(|_| agent.paused).map(|&paused| at - paused));
                    (agent.ducked, agent.paused) = (false, false);
                }
                TurnEvent::Began { interrupts: true, .. } => {
                    outcome.interrupted = Some(at);
                    return outcome;
                }
                TurnEvent::Began { .. }
                | TurnEvent::WordsWanted
                | TurnEvent::MayEnd
                | TurnEvent::GoesOn
                | TurnEvent::Ended { .. } => {}
                TurnEvent::HalfDuplex(half) => outcome.half_duplex |= half,
            }
        }
    }
    outcome
}

/// Speaks, unless it is paused.
struct Agent<'a> {
    unplayed: &'a [u8],
    ducked: bool,
    paused: bool,
}

impl<'a> Agent<'a> {
    fn new(speech: &'a [u8]) -> Self {
        Self { unplayed: speech, ducked: false, paused: false }
    }

    fn sound(&self) -> AgentSound {
        if self.unplayed.is_empty() { AgentSound::Silent } else { AgentSound::Speaking }
    }

    /// What leaves in this slot.
    fn slot(&mut self) -> Vec<u8> {
        let mut frame = vec![Format::ULAW.silence(); FRAME_SAMPLES];
        if !self.paused {
            let (now, later) = self.unplayed.split_at(self.unplayed.len().min(FRAME_SAMPLES));
            frame[..now.len()].copy_from_slice(now);
            self.unplayed = later;
        }
        if self.ducked {
            let mut samples = Vec::with_capacity(FRAME_SAMPLES);
            g711::decode(g711::Law::Mu, &frame, &mut samples);
            samples.iter_mut().for_each(|sample| *sample /= DUCKED_BY);
            frame.clear();
            g711::encode(g711::Law::Mu, &samples, &mut frame);
        }
        frame
    }
}

/// Brings the agent's voice back to its own ear.
struct Line {
    echo: Option<(f32, usize)>,
    /// All that left.
    left: Vec<i16>,
}

impl Line {
    fn heard(&mut self, caller: &[u8], left: &[u8]) -> Vec<u8> {
        let Some((loss_db, delay)) = self.echo else { return caller.to_vec() };
        let begin = self.left.len();
        g711::decode(g711::Law::Mu, left, &mut self.left);
        let gain = 10_f32.powf(-loss_db / 20.0);
        let at = |index: usize, delay: usize| index.checked_sub(delay).map_or(0.0, |index| f32::from(self.left[index]));
        let mut samples = Vec::with_capacity(FRAME_SAMPLES);
        g711::decode(g711::Law::Mu, caller, &mut samples);
        for (offset, sample) in samples.iter_mut().enumerate() {
            let index = begin + offset;
            let echo = at(index, delay) + REFLECTION * at(index, delay + REFLECTION_SAMPLES);
            *sample = (f32::from(*sample) + gain * echo).clamp(-32_768.0, 32_767.0) as i16;
        }
        let mut bytes = Vec::with_capacity(FRAME_SAMPLES);
        g711::encode(g711::Law::Mu, &samples, &mut bytes);
        bytes
    }
}

/// Of all scenes with one label.
#[derive(Debug, Default, Clone)]
pub struct Row {
    pub scenes: usize,
    /// The agent was paused for a moment, and went on.
    pub only_paused: usize,
    pub interrupted: usize,
    pub false_stops: usize,
    pub missed: usize,
    pub half_duplex: usize,
}

/// The table of confusion, and how soon the agent was paused.
#[derive(Debug, Default)]
pub struct Table {
    pub rows: [Row; Label::ALL.len()],
    pub pause_after: Vec<Duration>,
    pub verdict_after: Vec<Duration>,
    /// For how long the agent fell silent, and went on.
    pub gaps: Vec<Duration>,
    /// The scenes that went wrong.
    wrong: Vec<String>,
}

impl Table {
    pub fn add(&mut self, scene: &Scene, outcome: &Outcome) {
        let row = &mut self.rows[scene.label as usize];
        row.scenes += 1;
        row.interrupted += usize::from(outcome.interrupted.is_some());
        row.only_paused += usize::from(outcome.interrupted.is_none() && !outcome.pauses.is_empty());
        row.false_stops += usize::from(outcome.false_stop(scene));
        row.missed += usize::from(outcome.missed(scene));
        row.half_duplex += usize::from(outcome.half_duplex);
        self.pause_after.extend(outcome.pause_after(scene));
        self.gaps.extend(&outcome.gaps);
        if outcome.false_stop(scene) || outcome.missed(scene) {
            self.wrong.push(format!("{} {} ({})", scene.number, scene.what, scene.language));
        }
        if scene.label == Label::Interruption {
            self.verdict_after.extend(outcome.interrupted.and_then(|at| at.checked_sub(scene.onset)));
        }
    }

    /// In percent of the scenes that are no interruptions; an interruption that came too soon counts too.
    pub fn false_stops(&self) -> f64 {
        let stops: usize = self.rows.iter().map(|row| row.false_stops).sum();
        let others: usize = self.rows.iter().skip(1).map(|row| row.scenes).sum();
        percent(stops, others)
    }

    /// How often an agent fell silent for a moment that nobody interrupted, or not yet.
    pub fn gaps_per_scene(&self) -> f64 {
        let scenes: usize = self.rows.iter().map(|row| row.scenes).sum();
        self.gaps.len() as f64 / scenes.max(1) as f64
    }

    /// In percent of the interruptions.
    pub fn missed(&self) -> f64 {
        percent(self.rows[0].missed, self.rows[0].scenes)
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64 * 100.0
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<14}{:>8}{:>13}{:>13}{:>13}{:>9}{:>13}",
            "", "scenes", "interrupted", "only paused", "false stops", "missed", "half duplex"
        )?;
        for (label, row) in Label::ALL.iter().zip(&self.rows) {
            let Row { scenes, interrupted, only_paused, false_stops, missed, half_duplex } = row;
            writeln!(
                f,
                "{label:<14}{scenes:>8}{interrupted:>13}{only_paused:>13}{false_stops:>13}{missed:>9}{half_duplex:>13}"
            )?;
        }
        writeln!(f, "wrong: {}", self.wrong.join(", "))
    }
}
