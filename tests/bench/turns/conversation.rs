//! One call through a [`CallMachine`] with the ears that every call has, without I/O and on a clock of its own: recordings on
//! the caller's line, a stand-in for the agent, and what each of them heard of the other.

use super::{
    lines::{Echo, FRAME_SAMPLES, Line},
    recordings::Sound,
    stand_in::{Asked, Kind, StandIn},
};
use bytes::Bytes;
use offhook::{
    audio::{AUDIBLE_DBFS, FRAME, Format, rms_dbfs},
    call::{
        AgentCommand, CallMachine, CallPlan, CallRules, CallerTurn, Clips, Input, LegCommand, LegEvent, Next, Output,
    },
    tool::{Latencies, Opening, PolicyRules, Toolbox},
};
use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

const FRAME_MS: i64 = 20;
/// A packet of the caller's arrives between two frames for them.
const PHASE: Duration = Duration::from_millis(7);
/// Voices of agents end with silence.
const TAIL_SAMPLES: usize = 2_400;

/// The call ends when a recording has been waited for this long (20 s): the agent it follows on never spoke.
const WAITED_FRAMES_MAX: i64 = 1_000;

/// When a recording begins, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub enum When {
    /// Counted from the beginning of the call.
    At(i64),
    /// Counted from the audible end of what the agent says for the n-th time, its greeting first; negative: before it.
    AgentsEnd(usize, i64),
    /// Counted from the end of the recording before it.
    Pause(i64),
}

/// A sound on the caller's line beside what they say; it is repeated when it ends.
#[derive(Clone, Copy)]
pub struct Background<'a> {
    pub sound: &'a Sound,
    /// Samples of the sound that are left out at its beginning.
    pub skipped: usize,
    pub gain_db: f32,
    /// Milliseconds of the call.
    pub from: i64,
    pub until: i64,
}

#[derive(Clone)]
pub struct Script<'a> {
    pub kind: Kind,
    /// The agent's greeting, and all that it says later.
    pub agent: [&'a Sound; 2],
    /// The words of what the agent says, as it tells them.
    pub question: &'static str,
    pub said: Vec<(When, &'a Sound)>,
    pub background: Option<Background<'a>>,
    pub line: Line,
    /// The recogniser ends what it writes with a full stop.
    pub full_stops: bool,
    /// How long the call goes on after the last recording, or altogether where there is none.
    pub lasts: Duration,
}

/// The outcome of a call. Times count from its beginning.
#[derive(Debug, Default)]
pub struct Conversation {
    /// From the first to the last audible sample of each recording, in the order of the script.
    pub said: Vec<Range<Duration>>,
    /// Frames in which the caller heard the agent.
    pub audible: Vec<Duration>,
    pub asked: Vec<Asked>,
    /// The turns of the caller, as the agent was told them.
    pub turns: Vec<Range<Duration>>,
    /// When an answer was given up because the caller spoke.
    pub interrupts: Vec<Duration>,
}

impl Conversation {
    /// The agent was heard in this time.
    pub fn agent_speaks(&self, during: Range<Duration>) -> bool {
        self.audible.iter().any(|at| during.contains(at))
    }

    /// When the first answer to this recording was heard.
    pub fn answer_to(&self, clip: usize) -> Option<Duration> {
        let mut answers = self.asked.iter().filter(|asked| asked.clips.contains(&clip));
        answers.find_map(|asked| {
            let came = asked.answered?;
            // One that is heard begins with the next frames.
            self.audible.iter().find(|at| (came..came + 10 * FRAME).contains(at)).copied()
        })
    }

    /// From the end of a recording to the answer.
    pub fn gap(&self, clip: usize) -> Option<Duration> {
        Some(self.answer_to(clip)?.saturating_sub(self.said.get(clip)?.end))
    }
}

/// Plays a script to its end.
pub fn play(script: &Script, start: Instant) -> Conversation {
    let mut call = Call::new(script, start);
    call.input(Input::Leg(LegEvent::Up));
    while !call.ended && call.frame < call.until() {
        call.caller_frame();
    }
    let open = call.turn_began.take().map(|began| began..call.now);
    let mut record = call.record;
    record.turns.extend(open);
    record.asked = call.agent.into_asked();
    record
}

struct Call<'a> {
    script: &'a Script<'a>,
    machine: CallMachine,
    agent: StandIn,
    start: Instant,
    now: Duration,
    /// Frames of the caller that have come.
    frame: i64,
    /// Where each recording begins, as far as that is known, in frames.
    begins: Vec<i64>,
    /// When the agent began to be heard, each time.
    utterances: Vec<Duration>,
    echo: Echo,
    turn_began: Option<Duration>,
    ended: bool,
    record: Conversation,
}

impl<'a> Call<'a> {
    fn new(script: &'a Script<'a>, start: Instant) -> Self {
        let voices = script.agent.map(|sound| {
            let mut bytes = Vec::new();
            Format::ULAW.encode(&sound.samples, &mut bytes);
            bytes.resize(bytes.len() + TAIL_SAMPLES, Format::ULAW.silence());
            Bytes::from(bytes)
        });
        let mut agent = StandIn::new(script.kind, script.full_stops, script.question, voices);
        for (clip, (_, sound)) in script.said.iter().enumerate() {
            agent.knows(clip, &sound.text, sound.ms());
        }
        let plan = CallPlan {
            rules: CallRules { greeting: Some("Hello".into()), ..CallRules::default() },
            toolbox: Arc::new(Toolbox::new([]).expect("nothing is wrong with no tools")),
            policy: Arc::new(PolicyRules::default()),
            opening: Opening::default(),
            wall: jiff::Timestamp::UNIX_EPOCH,
            agent: script.kind.traits(),
            format: Format::ULAW,
            clips: Arc::new(Clips::default()),
            latencies: Arc::new(Latencies::default()),
            written: false,
            beat: start,
        };
        Self {
            script,
            machine: CallMachine::new(plan, start),
            agent,
            start,
            now: Duration::ZERO,
            frame: 0,
            begins: Vec::new(),
            utterances: Vec::new(),
            echo: Echo::default(),
            turn_began: None,
            ended: false,
            record: Conversation::default(),
        }
    }

    /// The frame behind the last one.
    fn until(&self) -> i64 {
        let lasts = self.script.lasts.as_millis() as i64 / FRAME_MS;
        let said = self.record.said.last().map_or(0, |said| said.end.as_millis() as i64 / FRAME_MS);
        let is_whole = self.begins.len() == self.script.said.len();
        said + if is_whole { lasts } else { WAITED_FRAMES_MAX }
    }

    fn caller_frame(&mut self) {
        self.place();
        let mut mixed = [0.0_f32; FRAME_SAMPLES];
        self.add_background(&mut mixed);
        let mut audible = None;
        for (clip, begin) in self.begins.iter().enumerate() {
            let Some(at) = usize::try_from(self.frame - begin).ok().map(|frames| frames * FRAME_SAMPLES) else {
                continue;
            };
            let samples = &self.script.said[clip].1.samples;
            let piece = samples.get(at..(at + FRAME_SAMPLES).min(samples.len())).unwrap_or_default();
            mixed.iter_mut().zip(piece).for_each(|(mixed, sample)| *mixed += f32::from(*sample));
            if rms_dbfs(piece) > AUDIBLE_DBFS {
                audible = Some(clip);
            }
        }
        let arrives = self.script.line.carries(self.frame as u64, &mut mixed, &self.echo);
        let samples = mixed.map(|sample| sample.clamp(-32_768.0, 32_767.0) as i16);
        let mut bytes = Vec::with_capacity(FRAME_SAMPLES);
        Format::ULAW.encode(&samples, &mut bytes);
        if let Some(clip) = audible {
            self.agent.knows_frame(&bytes, clip);
        }
        self.frame += 1;
        self.advance(self.arrival(self.frame));
        if arrives {
            self.input(Input::Leg(LegEvent::Audio(bytes.into())));
        }
    }

    /// When the sound of a frame begins. Its packet arrives 20 ms later, when it is whole.
    fn arrival(&self, frame: i64) -> Duration {
        PHASE + FRAME * u32::try_from(frame).unwrap_or_default()
    }

    /// The recordings whose begin is known by now.
    fn place(&mut self) {
        while let Some((when, sound)) = self.script.said.get(self.begins.len()) {
            let in_frames = |ms: i64| (ms + FRAME_MS - 1).div_euclid(FRAME_MS);
            let begin = match *when {
                When::At(ms) => in_frames(ms),
                When::Pause(ms) => {
                    let before = self.record.said.last().map_or(Duration::ZERO, |said| said.end);
                    in_frames((before - PHASE.min(before)).as_millis() as i64 + ms)
                }
                When::AgentsEnd(time, ms) => {
                    let Some(began) = self.utterances.get(time) else { return };
                    let said = self.script.agent[time.min(1)].ms() as i64;
                    in_frames((*began - PHASE.min(*began)).as_millis() as i64 + said + ms)
                }
            };
            let begin = begin.max(self.frame);
            let from = self.arrival(begin);
            self.begins.push(begin);
            self.record.said.push(from..from + Duration::from_millis(sound.ms() as u64));
        }
    }

    fn add_background(&self, mixed: &mut [f32; FRAME_SAMPLES]) {
        let Some(background) = self.script.background else { return };
        let samples = &background.sound.samples;
        if !(background.from..background.until).contains(&(self.frame * FRAME_MS)) || samples.is_empty() {
            return;
        }
        let gain = 10_f32.powf(background.gain_db / 20.0);
        let first = background.skipped + (self.frame - background.from / FRAME_MS) as usize * FRAME_SAMPLES;
        for (offset, mixed) in mixed.iter_mut().enumerate() {
            *mixed += gain * f32::from(samples[(first + offset) % samples.len()]);
        }
    }

    /// Lets time pass, deadline by deadline.
    fn advance(&mut self, until: Duration) {
        loop {
            let deadline = self.machine.deadline().map(|(at, _)| at.saturating_duration_since(self.start));
            let [deadline, agent] = [deadline, self.agent.next()].map(|at| at.filter(|at| *at <= until));
            match (deadline, agent) {
                (_, Some(at)) if deadline.is_none_or(|deadline| at <= deadline) => {
                    self.now = self.now.max(at);
                    for event in self.agent.take(self.now) {
                        self.input(Input::Agent(event));
                    }
                }
                (Some(at), _) => {
                    self.now = self.now.max(at);
                    let mut out = Vec::new();
                    self.machine.on_deadline(self.start + self.now, &mut out);
                    self.carry(out);
                }
                _ => break,
            }
        }
        self.now = until;
    }

    fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        self.machine.step(input, self.start + self.now, &mut out);
        self.carry(out);
    }

    fn carry(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::ToLeg(LegCommand::Play(frame)) => self.play_frame(&frame),
                Output::ToAgent(command) => {
                    self.note(&command);
                    self.agent.command(&command, self.now);
                }
                Output::Dial(_) => self.input(Input::Next(Next::Nobody)),
                Output::End(_) => self.ended = true,
                _ => {}
            }
        }
    }

    fn play_frame(&mut self, frame: &[u8]) {
        let mut samples = Vec::with_capacity(FRAME_SAMPLES);
        Format::ULAW.decode(frame, &mut samples);
        self.echo.played(&samples);
        if rms_dbfs(&samples) <= AUDIBLE_DBFS {
            return;
        }
        self.record.audible.push(self.now);
        if self.agent.was_heard() {
            self.utterances.push(self.now);
        }
    }

    fn note(&mut self, command: &AgentCommand) {
        match command {
            AgentCommand::Turn(CallerTurn::Began) => {
                self.turn_began.get_or_insert(self.now);
            }
            AgentCommand::Turn(CallerTurn::Ended) => {
                let began = self.turn_began.take();
                self.record.turns.extend(began.map(|began| began..self.now));
            }
            AgentCommand::Interrupt { .. } => self.record.interrupts.push(self.now),
            _ => {}
        }
    }
}
