//! A caller on the line: speaks, hears, and keeps what was heard with its time.

use crate::providers::{
    kit::{
        audio::{RATE, Sound},
        caller, spoken, virtual_time,
    },
    ms,
};
use offhook::asterisk::audiosocket::Frame;
use sha2::{Digest as _, Sha256};
use std::{
    collections::VecDeque,
    fmt,
    net::SocketAddr,
    ops::Range,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::{Instant, timeout},
};
use uuid::Uuid;

/// The callers', of espeak-ng.
const VOICE: &str = "en-gb+f3";
const FRAME: Duration = Duration::from_millis(20);
const SAMPLES: usize = 160;
/// Radians by which a tone's phase may differ from frame to frame: less than one sample of the lowest pitch.
const SEAM: f64 = 0.3;
/// Things to say, and keys to press, that wait to be taken up; no test has so many.
const WORDS: usize = 16;
/// Where an agent's tone ends, its last frames can look like another sound; and a word can have its pitch for a moment.
const EDGE_FRAMES: usize = 6;
/// A sample of speech that is loud enough to be heard: -30 dB below full scale.
const AUDIBLE: u16 = 1_000;
/// Of what was heard, for the line's echo: a second.
const ECHO_SAMPLES_MAX: usize = 8_000;
/// The longest a test waits to hear something.
const PATIENCE: Duration = Duration::from_secs(45);

/// What was heard, on the caller's own clock, which begins with the call.
#[derive(Default)]
pub struct Tape {
    pub sound: Sound,
    /// Of each 20 ms: the agent's pitch, if it is one of those listened for.
    pitches: Vec<Option<u32>>,
    loud: Vec<bool>,
    /// What the caller has said, from and to.
    pub said: Vec<Range<Duration>>,
    /// Of what the caller is to say, what has been begun.
    begun: usize,
    /// Keys that have been pressed.
    pressed: usize,
    /// How far the caller's own clock has been behind the machine's at most: what the machine kept it waiting for.
    pub late: Duration,
    pub over: bool,
}

/// A line that brings back what is heard on it.
#[derive(Debug, Clone, Copy)]
pub struct Echo {
    pub after: Duration,
    pub loss_db: f64,
}

pub struct Caller {
    tape: watch::Receiver<Tape>,
    say: mpsc::Sender<Vec<i16>>,
    press: mpsc::Sender<char>,
    echo: watch::Sender<Option<Echo>>,
    to_say: AtomicUsize,
    /// Of what it said last, how long a voice was to be heard.
    voiced_ms: AtomicU64,
    task: AbortHandle,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Caller {
    /// Dials; what is listened for are these pitches.
    pub async fn dial(engine: SocketAddr, id: Uuid, pitches: Vec<f64>) -> Self {
        let line = caller::Caller::connect(engine, id).await.expect("the engine takes calls");
        let (tape, heard) = watch::channel(Tape::default());
        let (say, to_say) = mpsc::channel(WORDS);
        let (press, to_press) = mpsc::channel(WORDS);
        let echo = watch::Sender::default();
        let tape_at_end = heard.clone();
        virtual_time::notes(move || tape_at_end.borrow().digest());
        let task = tokio::spawn(live(line, tape, to_say, to_press, echo.subscribe(), pitches)).abort_handle();
        Self { tape: heard, say, press, echo, to_say: AtomicUsize::new(0), voiced_ms: AtomicU64::new(0), task }
    }

    /// From now on the line is like this.
    pub fn has_echo(&self, echo: Option<Echo>) {
        self.echo.send_replace(echo);
    }

    /// A sentence of about two seconds, by a real voice, without a pause that could pass for its end.
    pub async fn speaks(&self) {
        self.say(spoken::says("When do you open on Sunday", VOICE).await);
    }

    /// The same to its end; from when to when.
    pub async fn asks(&self) -> Range<Duration> {
        self.speaks().await;
        self.has_spoken().await
    }

    /// These words, by the same voice; they begin with their first sound.
    pub async fn says(&self, words: &str) {
        let mut rendered = spoken::says(words, VOICE).await;
        rendered.drain(..audible(&rendered).start);
        self.say(rendered);
    }

    /// Two sentences with so much silence between them, and nothing before or after them.
    pub async fn says_with_a_pause(&self, sentences: [&str; 2], pause: Duration) {
        let rendered = [spoken::says(sentences[0], VOICE).await, spoken::says(sentences[1], VOICE).await];
        let pause = vec![0; SAMPLES * frame_at(pause)];
        self.say([&rendered[0][audible(&rendered[0])], &pause, &rendered[1][audible(&rendered[1])]].concat());
    }

    pub fn say(&self, samples: Vec<i16>) {
        self.voiced_ms.store(voiced(&samples, SAMPLES).as_millis() as u64, Ordering::Relaxed);
        self.to_say.fetch_add(1, Ordering::Relaxed);
        self.say.try_send(samples).expect("the caller is on the line");
    }

    /// Presses these keys one after the other; they have left then.
    pub async fn types(&self, keys: &str) {
        let pressed = self.look(|tape| tape.pressed) + keys.len();
        for key in keys.chars() {
            self.press.try_send(key).expect("the caller is on the line");
        }
        self.until(&format!("{keys} are pressed"), |tape| tape.pressed >= pressed).await;
    }

    /// Of what it said last, how long a voice was to be heard.
    pub fn voiced(&self) -> Duration {
        ms(self.voiced_ms.load(Ordering::Relaxed))
    }

    pub fn hang_up(&self) {
        self.task.abort();
    }

    /// How long the call has lasted.
    pub fn now(&self) -> Duration {
        self.tape.borrow().now()
    }

    pub fn look<T>(&self, look: impl FnOnce(&Tape) -> T) -> T {
        look(&self.tape.borrow())
    }

    /// Waits until so much of this pitch was heard in all.
    pub async fn hears(&self, hz: f64, length: Duration) {
        self.until(&format!("{length:?} of {hz} Hz was heard"), |tape| tape.time_of(hz, ms(0)) >= length).await;
    }

    /// Waits until so much of it was heard from then on.
    pub async fn hears_from(&self, from: Duration, hz: f64, length: Duration) {
        let what = format!("{length:?} of {hz} Hz was heard from {from:?} on");
        self.until(&what, |tape| tape.time_of(hz, from) >= length).await;
    }

    /// Waits until nothing was heard for so long.
    pub async fn hears_nothing_for(&self, length: Duration) {
        self.until(&format!("nothing was heard for {length:?}"), |tape| tape.quiet_since() + length <= tape.now())
            .await;
    }

    /// Waits until everything was said, and returns when the last of it began and ended.
    pub async fn has_spoken(&self) -> Range<Duration> {
        let to_say = self.to_say.load(Ordering::Relaxed);
        let is_over = |tape: &Tape| tape.said.last().is_some_and(|said| said.end < tape.now());
        self.until("everything was said", |tape| tape.begun >= to_say && is_over(tape)).await;
        self.look(|tape| tape.said.last().expect("waited for").clone())
    }

    /// Waits until the engine has hung up.
    pub async fn is_hung_up_on(&self) {
        self.until("the engine hung up", |tape| tape.over).await;
    }

    pub async fn until(&self, what: &str, holds: impl Fn(&Tape) -> bool) {
        let mut tape = self.tape.clone();
        let waited = timeout(PATIENCE, tape.wait_for(|tape| holds(tape) || tape.over)).await;
        let held = matches!(&waited, Ok(Ok(tape)) if holds(tape));
        assert!(held, "waited in vain until {what}; {:?}", self.tape.borrow());
    }
}

impl Tape {
    /// Differs if a single sample does.
    fn digest(&self) -> String {
        let samples: Vec<u8> = self.sound.samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        format!("{:x}", Sha256::digest(samples))
    }

    pub fn now(&self) -> Duration {
        FRAME * u32::try_from(self.loud.len()).expect("a call of less than years")
    }

    /// How long this pitch was heard from then on, all in all.
    pub fn time_of(&self, hz: f64, from: Duration) -> Duration {
        let frames = self.pitches.iter().skip(frame_at(from)).filter(|pitch| **pitch == Some(hz as u32)).count();
        FRAME * u32::try_from(frames).expect("a call of less than years")
    }

    /// How long anything was heard within this time.
    pub fn loud_time(&self, within: Range<Duration>) -> Duration {
        let frames = self.loud.iter().take(frame_at(within.end)).skip(frame_at(within.start)).filter(|loud| **loud);
        FRAME * u32::try_from(frames.count()).expect("a call of less than years")
    }

    /// When this pitch was heard first from then on.
    pub fn first_of(&self, hz: f64, from: Duration) -> Option<Duration> {
        let mut later = self.pitches.iter().enumerate().skip(frame_at(from));
        let (frame, _) = later.find(|(_, pitch)| **pitch == Some(hz as u32))?;
        Some(FRAME * u32::try_from(frame).expect("a call of less than years"))
    }

    /// The root mean square of each 20 ms from then on.
    pub fn levels(&self, from: Duration) -> Vec<f64> {
        let frames = self.sound.samples.chunks_exact(SAMPLES).skip(frame_at(from));
        frames.map(|frame| Sound { samples: frame.to_vec() }.rms()).collect()
    }

    /// When anything was heard first from then on.
    pub fn first_sound(&self, from: Duration) -> Option<Duration> {
        let frame = self.loud.iter().enumerate().skip(frame_at(from)).find(|(_, loud)| **loud)?.0;
        Some(FRAME * u32::try_from(frame).expect("a call of less than years"))
    }

    /// It is silent now; not before `from`.
    pub fn is_quiet(&self, from: Duration) -> bool {
        self.now() > from && self.quiet_since() < self.now()
    }

    /// When it was heard last within this time.
    pub fn last_of(&self, hz: f64, within: Range<Duration>) -> Option<Duration> {
        let end = frame_at(within.end).min(self.pitches.len());
        let frames = self.pitches.get(frame_at(within.start)..end)?;
        let last = frames.iter().rposition(|pitch| *pitch == Some(hz as u32))?;
        Some(within.start + FRAME * u32::try_from(last + 1).expect("a call of less than years"))
    }

    /// How long all was that was heard within this time. It has to be this tone, and once the silence is cut out of it no
    /// sample may be missing or too many.
    #[track_caller]
    pub fn seamless(&self, hz: f64, within: Range<Duration>) -> Duration {
        let frames = self.sound.samples.chunks_exact(SAMPLES).zip(&self.loud);
        let (from, end) = (frame_at(within.start), frame_at(within.end).min(self.loud.len()));
        let heard: Vec<&[i16]> =
            frames.take(end).skip(from).filter(|(_, loud)| **loud).map(|(frame, _)| frame).collect();
        let turn = std::f64::consts::TAU * hz / f64::from(RATE);
        // Of the tone as if it had never paused; the first and the last frame may be filled by half.
        let phase = |(at, frame): (usize, &&[i16])| {
            let sum = |wave: fn(f64) -> f64| {
                let angle = |index: usize| turn * (at * SAMPLES + index) as f64;
                frame.iter().enumerate().map(|(index, sample)| f64::from(*sample) * wave(angle(index))).sum::<f64>()
            };
            sum(f64::cos).atan2(sum(f64::sin))
        };
        let inner = 1..heard.len().saturating_sub(1);
        let phases: Vec<f64> = heard.iter().enumerate().filter(|(at, _)| inner.contains(at)).map(phase).collect();
        let apart = |one: f64, other: f64| ((one - other).sin()).atan2((one - other).cos()).abs();
        let seam = phases.iter().position(|phase| apart(*phase, phases[0]) > SEAM);
        assert_eq!(seam, None, "frames into the tone without its pauses; {self:?}");
        FRAME * u32::try_from(heard.len()).expect("a call of less than years")
    }

    /// From when to when exactly this was heard, sample by sample, but for silence within it: a frame that came late. Its
    /// frames are [`audible_frames`].
    pub fn places_of(&self, frames: &[Sound]) -> Vec<Range<Duration>> {
        let heard =
            self.sound.samples.chunks_exact(SAMPLES).zip(&self.loud).enumerate().filter(|(_, (_, loud))| **loud);
        let heard: Vec<(u32, &[i16])> = heard.map(|(at, (frame, _))| (at as u32, frame)).collect();
        let is_here =
            |place: &&[(u32, &[i16])]| place.iter().zip(frames).all(|((_, heard), frame)| *heard == frame.samples);
        let places = heard.windows(frames.len()).filter(is_here);
        places.map(|place| FRAME * place[0].0..FRAME * (place[place.len() - 1].0 + 1)).collect()
    }

    fn quiet_since(&self) -> Duration {
        let last = self.loud.iter().rposition(|loud| *loud).map_or(0, |last| last + 1);
        FRAME * u32::try_from(last).expect("a call of less than years")
    }

    /// The longest time within which nothing at all was heard.
    pub fn longest_silence(&self, within: Range<Duration>) -> Duration {
        let end = frame_at(within.end).min(self.loud.len());
        let frames = self.loud.get(frame_at(within.start)..end).unwrap_or_default();
        let longest = frames.split(|loud| *loud).map(<[bool]>::len).max().unwrap_or(0);
        FRAME * u32::try_from(longest).expect("a call of less than years")
    }

    /// The longest silence that nothing explains: neither a sentence of the engine's own before it, such as "One moment,
    /// please", nor the caller's own turn, which is over when `within` begins. An agent's voice explains nothing.
    pub fn unexplained_silence(&self, within: Range<Duration>, agents: &[f64]) -> Duration {
        let is_agent =
            |frame: usize| self.pitches[frame].is_some_and(|pitch| agents.iter().any(|hz| *hz as u32 == pitch));
        let (begin, end) = (frame_at(within.start), frame_at(within.end).min(self.loud.len()));
        let (mut longest, mut silence, mut explained) = (0, 0, false);
        for frame in 0..end {
            if self.loud[frame] {
                let agent = (frame.saturating_sub(EDGE_FRAMES)..=frame).filter(|frame| is_agent(*frame)).count();
                (silence, explained) = (0, agent < EDGE_FRAMES / 2);
            } else if frame >= begin && !explained {
                silence += 1;
                longest = longest.max(silence);
            }
        }
        FRAME * u32::try_from(longest).expect("a call of less than years")
    }

    fn note(&mut self, heard: &[i16], speaking: bool, pitches: &[f64]) {
        let now = self.now();
        let frame = Sound { samples: heard.to_vec() };
        let is_loud = !frame.is_silent();
        // Silence has no pitch, and there is much of it.
        let pitch = pitches.iter().find(|hz| is_loud && frame.has_pitch(**hz));
        self.pitches.push(pitch.map(|hz| *hz as u32));
        self.loud.push(is_loud);
        self.sound.samples.extend_from_slice(heard);
        match self.said.last_mut() {
            Some(last) if speaking && last.end >= now => last.end = now + FRAME,
            _ if speaking => self.said.push(now..now + FRAME),
            _ => {}
        }
    }
}

/// What a failed test tells of the call.
impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {:?} of the call{}: heard", self.now(), if self.over { ", which is over" } else { "" })?;
        let mut at = 0;
        for run in self.pitches.iter().zip(&self.loud).collect::<Vec<_>>().chunk_by(|one, next| one == next) {
            let (pitch, loud) = run[0];
            let (begin, end) = (at * 20, (at + run.len()) * 20);
            match (pitch, loud) {
                (Some(hz), _) => write!(f, ", {hz} Hz {begin}–{end} ms")?,
                (None, true) => write!(f, ", a sound {begin}–{end} ms")?,
                (None, false) => {}
            }
            at += run.len();
        }
        write!(f, "; said {:?}", self.said)
    }
}

/// From the first sound to the last.
fn audible(samples: &[i16]) -> Range<usize> {
    let is_audible = |sample: &i16| sample.unsigned_abs() > AUDIBLE;
    let first = samples.iter().position(is_audible).expect("it is audible");
    first..samples.iter().rposition(is_audible).expect("it is audible") + 1
}

/// The frames of a sound that a caller hears anything in.
pub fn audible_frames(sound: &Sound) -> Vec<Sound> {
    let frames = sound.samples.chunks_exact(SAMPLES).map(|frame| Sound { samples: frame.to_vec() });
    frames.filter(|frame| !frame.is_silent()).collect()
}

fn frame_at(time: Duration) -> usize {
    (time.as_millis() / FRAME.as_millis()) as usize
}

/// How long a voice is to be heard in these samples, by frames of so many.
pub fn voiced(samples: &[i16], frame: usize) -> Duration {
    let loud = samples.chunks(frame).filter(|frame| frame.iter().any(|sample| sample.unsigned_abs() > AUDIBLE));
    FRAME * u32::try_from(loud.count()).expect("seconds")
}

async fn live(
    mut line: caller::Caller,
    tape: watch::Sender<Tape>,
    mut to_say: mpsc::Receiver<Vec<i16>>,
    mut to_press: mpsc::Receiver<char>,
    echo: watch::Receiver<Option<Echo>>,
    pitches: Vec<f64>,
) {
    let (mut begun, mut pressed, mut words, mut heard_before) = (0, 0, VecDeque::new(), VecDeque::new());
    let mut clock: Option<Instant> = None;
    loop {
        while let Ok(samples) = to_say.try_recv() {
            words.extend(samples);
            begun += 1;
        }
        while let Ok(key) = to_press.try_recv() {
            line.send(Frame::Digit(key)).await;
            pressed += 1;
        }
        let speaking = !words.is_empty();
        let echo = *echo.borrow();
        line.say(&with_echo(&mut words, &heard_before, echo));
        match line.tick().await {
            Ok(Some(heard)) => {
                heard_before.extend(heard);
                heard_before.drain(..heard_before.len().saturating_sub(ECHO_SAMPLES_MAX));
                let now = Instant::now();
                let due = clock.map_or(now, |last| last + FRAME);
                clock = Some(due);
                tape.send_modify(|tape| {
                    tape.late = tape.late.max(now.saturating_duration_since(due));
                    (tape.begun, tape.pressed) = (begun, pressed);
                    tape.note(heard, speaking, &pitches);
                });
            }
            Ok(None) | Err(_) => {
                tape.send_modify(|tape| tape.over = true);
                // The recording is still looked at.
                return tape.closed().await;
            }
        }
    }
}

/// The next frame of what is said, and beneath it what comes back of what was heard.
fn with_echo(words: &mut VecDeque<i16>, heard: &VecDeque<i16>, echo: Option<Echo>) -> Vec<i16> {
    let back = |at: usize, Echo { after, loss_db }: Echo| {
        let late = after.as_millis() as usize * RATE as usize / 1_000;
        let sample = (heard.len() + at).checked_sub(late.max(SAMPLES)).and_then(|at| heard.get(at));
        f64::from(sample.copied().unwrap_or(0)) * 10_f64.powf(-loss_db / 20.0)
    };
    let sample = |at| words.pop_front().unwrap_or(0).saturating_add(echo.map_or(0, |echo| back(at, echo) as i16));
    (0..SAMPLES).map(sample).collect()
}
