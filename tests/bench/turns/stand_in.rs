//! An agent for [`Conversation`](super::conversation::Conversation)s: it is told the caller's turns, writes down those
//! recordings whose sound is in the audio that it was sent, and answers with a recording.
//!
//! As a pipeline it has a recogniser 50 ms away, which writes while the caller speaks and is asked for all words in a pause, as
//! offhook's listeners ask; what it wrote then is not written again when the turn is over. The model is 150 ms away, and is asked
//! for a guess as soon as the caller is silent. As a realtime provider it answers 150 ms after it was told that the
//! turn is over, and knows no words before.

use bytes::Bytes;
use offhook::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentTraits, CallerTurn, Reply, ResponseId, ResponseStatus, Speaker},
};
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

const RECOGNISER: Duration = Duration::from_millis(50);
const MODEL: Duration = Duration::from_millis(150);
/// The share of a recording's frames that the agent has to be sent before it understands the words.
const UNDERSTOOD_PERCENT: usize = 80;
/// What is written where nobody wrote down the words of a recording: one word for each 350 ms.
const NO_WORDS: [&str; 5] = ["lorem", "dolor", "amet", "elit", "tempor"];
const WORD_MS: usize = 350;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Pipeline,
    Realtime,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Pipeline, Self::Realtime];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Pipeline => "pipeline",
            Self::Realtime => "realtime",
        }
    }

    pub const fn traits(self) -> AgentTraits {
        let told = AgentTraits { truncates: true, takes_turns: true, transcribes: true, ..AgentTraits::PLAIN };
        match self {
            Self::Pipeline => AgentTraits { overhears: true, finishes_answers: true, ..told },
            Self::Realtime => AgentTraits { detects_speech: true, cancels_on_speech: true, ..told },
        }
    }
}

/// What the model was asked to answer: the recordings, by their number in the script, that no answer which was heard followed.
#[derive(Debug, Clone)]
pub struct Asked {
    pub clips: BTreeSet<usize>,
    /// When the sound of the answer came.
    pub answered: Option<Duration>,
}

/// One recording of the script, as far as it was heard in a turn.
struct Clip {
    words: Vec<String>,
    /// Audible frames of it.
    frames: usize,
}

pub struct StandIn {
    kind: Kind,
    full_stops: bool,
    question: &'static str,
    greeting: Bytes,
    answer: Bytes,
    clips: Vec<Clip>,
    /// Frames of the caller's line, by their bytes: which recording they are of, and which frame of it.
    frames: HashMap<Vec<u8>, (usize, usize)>,
    turn: Turn,
    /// What happens later, in the order of time.
    due: Vec<(Duration, Deed)>,
    /// The answer that is being made, and the request it belongs to.
    response: Option<(ResponseId, Option<usize>)>,
    responses: usize,
    memory: Memory,
}

/// What was heard of the caller.
#[derive(Default)]
struct Turn {
    open: bool,
    heard: BTreeSet<(usize, usize)>,
    written: String,
    /// What the model is answering although the turn may go on, and when its answer is there.
    guess: Option<(BTreeSet<usize>, Duration)>,
}

#[derive(Default)]
struct Memory {
    asked: Vec<Asked>,
    unanswered: BTreeSet<usize>,
    /// The request whose answer is on its way to the caller.
    untold: Option<usize>,
    /// Nothing was heard yet of what was said last.
    begins: bool,
}

enum Deed {
    Tell(AgentEvent),
    /// The words of a turn are there.
    Words(BTreeSet<usize>),
    Speak {
        response: ResponseId,
        greeting: bool,
    },
}

impl StandIn {
    pub fn new(kind: Kind, full_stops: bool, question: &'static str, [greeting, answer]: [Bytes; 2]) -> Self {
        Self {
            kind,
            full_stops,
            question,
            greeting,
            answer,
            clips: Vec::new(),
            frames: HashMap::new(),
            turn: Turn::default(),
            due: vec![(Duration::ZERO, Deed::Tell(AgentEvent::Ready))],
            response: None,
            responses: 0,
            memory: Memory::default(),
        }
    }

    /// The recording with this number of the script will be on the line.
    pub fn knows(&mut self, clip: usize, text: &str, ms: usize) {
        assert_eq!(clip, self.clips.len());
        let own: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let made = || NO_WORDS.iter().cycle().take(ms.div_ceil(WORD_MS)).map(|word| (*word).to_owned()).collect();
        self.clips.push(Clip { words: if own.is_empty() { made() } else { own }, frames: 0 });
    }

    /// A frame of the line in which a recording is audible.
    pub fn knows_frame(&mut self, frame: &[u8], clip: usize) {
        let clips = &mut self.clips[clip];
        self.frames.insert(frame.to_vec(), (clip, clips.frames));
        clips.frames += 1;
    }

    pub fn into_asked(self) -> Vec<Asked> {
        self.memory.asked
    }

    pub fn next(&self) -> Option<Duration> {
        self.due.iter().map(|(at, _)| *at).min()
    }

    /// What is due at `now`.
    pub fn take(&mut self, now: Duration) -> Vec<AgentEvent> {
        let mut told = Vec::new();
        while let Some(first) = self.next().filter(|at| *at <= now) {
            let index = self.due.iter().position(|(at, _)| *at == first).unwrap_or_default();
            match self.due.remove(index).1 {
                Deed::Tell(event) => told.push(event),
                Deed::Words(clips) => self.on_words(&clips, now, &mut told),
                Deed::Speak { response, greeting } => self.speak(response, greeting, now, &mut told),
            }
        }
        told
    }

    /// The caller has heard the agent; `true` where these are the first sounds of an answer or of the greeting.
    pub fn was_heard(&mut self) -> bool {
        if let Some(asked) = self.memory.untold.take() {
            let told = &self.memory.asked[asked].clips;
            self.memory.unanswered.retain(|clip| !told.contains(clip));
        }
        std::mem::take(&mut self.memory.begins)
    }

    pub fn command(&mut self, command: &AgentCommand, now: Duration) {
        match command {
            AgentCommand::Audio(audio) => self.hear(audio, now),
            AgentCommand::Greet { .. } => self.begin(true, None, now, now),
            AgentCommand::Say { .. } | AgentCommand::Tell { reply: Reply::Wanted, .. } => {
                self.stop(now);
                self.begin(false, None, now, now + MODEL);
            }
            AgentCommand::Turn(turn) => self.on_turn(*turn, now),
            AgentCommand::Interrupt { .. } => self.stop(now),
            _ => {}
        }
    }

    fn hear(&mut self, audio: &[u8], now: Duration) {
        for frame in audio.chunks(Format::ULAW.frame_bytes()) {
            self.turn.heard.extend(self.frames.get(frame));
        }
        let text = self.text(false);
        if self.kind == Kind::Pipeline && text != self.turn.written {
            self.turn.written.clone_from(&text);
            let event = AgentEvent::PartialTranscript { text, utterance: None };
            self.due.push((now + RECOGNISER, Deed::Tell(event)));
        }
    }

    /// The share of each recording's words that the share of its frames stands for.
    fn text(&self, over: bool) -> String {
        let mut words = Vec::new();
        for (clip, Clip { words: all, frames }) in self.clips.iter().enumerate() {
            let heard = self.turn.heard.range((clip, 0)..(clip + 1, 0)).count();
            let known = if self.understood(clip) { all.len() } else { all.len() * heard / (*frames).max(1) };
            words.extend(all.iter().take(known).map(String::as_str));
        }
        let mut text = words.join(" ");
        if over && self.full_stops && !text.is_empty() {
            text.push('.');
        }
        text
    }

    fn understood(&self, clip: usize) -> bool {
        let heard = self.turn.heard.range((clip, 0)..(clip + 1, 0)).count();
        heard > 0 && heard * 100 >= self.clips[clip].frames * UNDERSTOOD_PERCENT
    }

    fn understood_clips(&self) -> BTreeSet<usize> {
        (0..self.clips.len()).filter(|clip| self.understood(*clip)).collect()
    }

    fn on_turn(&mut self, turn: CallerTurn, now: Duration) {
        match turn {
            CallerTurn::MayBegin | CallerTurn::WasNone => self.turn = Turn::default(),
            CallerTurn::Began => {
                self.stop(now);
                // Of what was undecided the audio was sent already, to whom overhears.
                let heard = if self.turn.open { BTreeSet::new() } else { std::mem::take(&mut self.turn.heard) };
                self.turn = Turn { open: true, heard, ..Turn::default() };
            }
            CallerTurn::MayEnd if self.kind == Kind::Pipeline => {
                let event = AgentEvent::PartialTranscript { text: self.text(true), utterance: None };
                self.due.push((now + RECOGNISER, Deed::Tell(event)));
                self.turn.guess = Some((self.understood_clips(), now + RECOGNISER + MODEL));
            }
            CallerTurn::MayEnd | CallerTurn::WordsWanted => {}
            CallerTurn::GoesOn => self.turn.guess = None,
            CallerTurn::Ended => {
                self.turn.open = false;
                let clips = self.understood_clips();
                let known = self.turn.guess.as_ref().filter(|(guessed, _)| *guessed == clips);
                let there = match (self.kind, known) {
                    (Kind::Realtime, _) => now,
                    (Kind::Pipeline, Some((_, answered))) => now.max(answered.saturating_sub(MODEL)),
                    (Kind::Pipeline, None) => now + RECOGNISER,
                };
                self.due.push((there, Deed::Words(clips)));
            }
        }
    }

    fn on_words(&mut self, clips: &BTreeSet<usize>, now: Duration, told: &mut Vec<AgentEvent>) {
        let text: Vec<String> = clips.iter().map(|clip| self.clips[*clip].words.join(" ")).collect();
        told.push(match text.is_empty() {
            true => AgentEvent::NoTranscript { utterance: None },
            false => AgentEvent::Transcript { speaker: Speaker::Caller, text: text.join(" "), utterance: None },
        });
        self.memory.unanswered.extend(clips);
        // A further turn has begun: one answer to all of it.
        if self.turn.open {
            return;
        }
        let guess = std::mem::take(&mut self.turn).guess.filter(|(guessed, _)| guessed == clips);
        let there = guess.map_or(now + MODEL, |(_, at)| at.max(now));
        self.memory.asked.push(Asked { clips: self.memory.unanswered.clone(), answered: None });
        self.begin(false, Some(self.memory.asked.len() - 1), now, there);
    }

    // ---- Answers ----

    fn begin(&mut self, greeting: bool, asked: Option<usize>, now: Duration, there: Duration) {
        self.responses += 1;
        let response: ResponseId = format!("answer-{}", self.responses).into();
        self.response = Some((response.clone(), asked));
        self.due.push((now, Deed::Tell(AgentEvent::ResponseStarted { response: response.clone() })));
        self.due.push((there, Deed::Speak { response, greeting }));
    }

    fn speak(&mut self, response: ResponseId, greeting: bool, now: Duration, told: &mut Vec<AgentEvent>) {
        let Some((_, asked)) = self.response.take_if(|(current, _)| *current == response) else { return };
        if let Some(asked) = asked {
            self.memory.asked[asked].answered = Some(now);
            self.memory.untold = Some(asked);
        }
        self.memory.begins = true;
        let audio = if greeting { self.greeting.clone() } else { self.answer.clone() };
        told.push(AgentEvent::Audio { response: response.clone(), item: response.clone(), audio });
        if !self.question.is_empty() {
            let text = self.question.to_owned();
            told.push(AgentEvent::Transcript { speaker: Speaker::Agent, text, utterance: None });
        }
        told.push(AgentEvent::ResponseDone { response, status: ResponseStatus::Completed });
    }

    /// Gives up the answer that is being made.
    fn stop(&mut self, now: Duration) {
        (self.memory.untold, self.memory.begins) = (None, false);
        if let Some((response, _)) = self.response.take() {
            let status = ResponseStatus::Cancelled;
            self.due.push((now, Deed::Tell(AgentEvent::ResponseDone { response, status })));
        }
    }
}
