//! Nova, `/v1/listen`.
//!
//! Quirks: an utterance is the concatenation of all `is_final` texts, the last alone loses words; empty results are
//! normal. `Finalize` has the server write down at once what it has heard, and `from_finalize` marks that; where there was
//! nothing left to write no answer comes, until it has heard some more. Every result says which stretch of the audio it
//! is about, so that words are allotted to turns by when they were said and not by when they came. 10 s without a message
//! close the connection.

use super::{AudioClock, SILENCE, refused, seconds};
use crate::{
    remote::{
        Fault, Wire,
        json::{self, Malformed},
    },
    stt::{
        Hear, Heard, LEAD,
        session::{Codec, Misread, Talk},
        text::{append, joined},
    },
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// A result that ends so much before a place in the audio may be all there is until there: the server counts in its own
/// frames.
const SLACK: Duration = Duration::from_millis(100);
/// A turn whose last words are final has them all if nothing more has come for so long.
const SETTLED: Duration = Duration::from_secs(1);
/// Results outside of turns within [`LEAD`]; one comes about every second.
const LOOSE_MAX: usize = 32;

#[derive(Deserialize)]
struct Results {
    start: Option<f64>,
    duration: Option<f64>,
    #[serde(default)]
    is_final: bool,
    #[serde(default)]
    speech_final: bool,
    #[serde(default)]
    from_finalize: bool,
    channel: Channel,
}

#[derive(Deserialize)]
struct Channel {
    #[serde(default)]
    alternatives: Vec<Alternative>,
}

#[derive(Deserialize, Default)]
struct Alternative {
    #[serde(default)]
    transcript: String,
    #[serde(default)]
    words: Vec<Word>,
}

#[derive(Deserialize)]
struct Word {
    #[serde(default)]
    word: String,
    punctuated_word: Option<String>,
    start: Option<f64>,
    end: Option<f64>,
}

/// What was said in one stretch of the audio.
struct Piece {
    start: Duration,
    end: Duration,
    said: Alternative,
}

impl Piece {
    /// What of it was said in this stretch. A word is where its middle is, so that no two stretches have it.
    fn within(&self, from: Duration, until: Duration) -> String {
        if self.end <= from || self.start >= until {
            return String::new();
        }
        if (self.start >= from && self.end <= until) || !self.says_when() {
            return self.said.transcript.clone();
        }
        let mut text = String::new();
        let inside = self.said.words.iter().filter(|word| word.middle().is_some_and(|at| from < at && at <= until));
        inside.for_each(|word| append(&mut text, word.punctuated_word.as_deref().unwrap_or(&word.word)));
        text
    }

    /// Each of its words has a place.
    fn says_when(&self) -> bool {
        !self.said.words.is_empty() && self.said.words.iter().all(|word| word.middle().is_some())
    }
}

impl Word {
    fn middle(&self) -> Option<Duration> {
        let end = seconds(self.end)?;
        Some((seconds(self.start).unwrap_or(end) + end) / 2)
    }
}

struct Turn {
    /// What was said before is not of this turn.
    from: Duration,
    /// Will not change any more.
    finals: String,
    /// May change.
    interim: String,
    /// The vendor takes it for complete.
    is_over: bool,
    /// The place of the last `Finalize`, if nothing was said since.
    finalized: Option<Duration>,
    /// It was told that these are all words until there.
    is_stable: bool,
    ended: Option<Ended>,
}

struct Ended {
    /// Where in the audio, with the silence that was sent after it.
    at: Duration,
    since: Instant,
    /// When to look whether its words are complete though the server has not said so.
    look: Instant,
}

impl Turn {
    fn words(&self) -> String {
        joined(&self.finals, &self.interim)
    }

    fn until(&self) -> Duration {
        self.ended.as_ref().map_or(Duration::MAX, |ended| ended.at)
    }
}

pub(in crate::stt) struct Nova {
    clock: AudioClock,
    /// From the end of a turn to its words.
    turn_max: Duration,
    turns: VecDeque<Turn>,
    /// Final words outside of turns.
    loose: VecDeque<Piece>,
    /// Places in the audio of each `Finalize` without an answer.
    finalizes: VecDeque<Duration>,
    /// Nothing before it can belong to another turn.
    floor: Duration,
    /// The end of the audio of which something has come.
    heard_to: Duration,
    read_at: Option<Instant>,
}

impl Nova {
    pub(in crate::stt) fn new(format: crate::audio::Format, turn_max: Duration) -> Self {
        Self {
            clock: AudioClock::new(format),
            turn_max,
            turns: VecDeque::new(),
            loose: VecDeque::new(),
            finalizes: VecDeque::new(),
            floor: Duration::ZERO,
            heard_to: Duration::ZERO,
            read_at: None,
        }
    }

    fn open_turn(&mut self) -> Option<&mut Turn> {
        self.turns.back_mut().filter(|turn| turn.ended.is_none())
    }

    fn begin(&mut self, talk: &mut Talk) {
        if self.open_turn().is_some() {
            return;
        }
        let from = self.clock.now().saturating_sub(LEAD).max(self.floor);
        let mut finals = String::new();
        self.loose.drain(..).for_each(|piece| append(&mut finals, &piece.within(from, Duration::MAX)));
        if !finals.is_empty() {
            talk.tell(Heard::Partial { text: finals.clone(), stable: false });
        }
        let interim = String::new();
        self.turns.push_back(Turn {
            from,
            finals,
            interim,
            is_over: false,
            finalized: None,
            is_stable: false,
            ended: None,
        });
    }

    /// Has the server write down what it has heard.
    fn finalize(&mut self, talk: &mut Talk) {
        let now = self.clock.now();
        if let Some(turn) = self.open_turn()
            && turn.finalized.is_none()
        {
            (turn.finalized, turn.is_stable) = (Some(now), false);
            self.ask(talk);
        }
    }

    fn ask(&mut self, talk: &mut Talk) {
        self.finalizes.push_back(self.clock.now());
        talk.send(&json!({ "type": "Finalize" }));
    }

    /// The words of the turn until its last `Finalize` are not known.
    fn waits(&self, turn: &Turn) -> bool {
        turn.finalized.is_some_and(|place| self.finalizes.contains(&place))
    }

    fn end(&mut self, now: Instant, talk: &mut Talk) {
        if self.open_turn().is_none() {
            self.begin(talk);
        }
        talk.words.extend(self.clock.meter());
        self.finalize(talk);
        if self.turns.back().is_some_and(|turn| self.waits(turn)) {
            // The first is answered at once if there are words to write, the second in any case.
            self.clock.be_silent(talk);
            self.ask(talk);
        }
        let at = self.clock.now();
        self.floor = at;
        if let Some(turn) = self.open_turn() {
            turn.ended = Some(Ended { at, since: now, look: now + SETTLED });
        }
        self.answer(talk);
    }

    /// What was said in a turn that was none is no part of the next one.
    fn dropped(&mut self) {
        if self.open_turn().is_some() {
            self.turns.pop_back();
            self.loose.clear();
            self.floor = self.clock.now();
        }
    }

    fn keep(&mut self, piece: Piece) {
        let now = self.clock.now();
        self.loose.push_back(piece);
        self.loose.retain(|piece| piece.end + LEAD >= now);
        while self.loose.len() > LOOSE_MAX {
            self.loose.pop_front();
        }
    }

    /// Tells every turn whose words are complete, in order.
    fn answer(&mut self, talk: &mut Talk) {
        while let Some(turn) = self.turns.front()
            && turn.ended.is_some()
            && !self.waits(turn)
        {
            talk.tell(Heard::Turn { text: turn.words() });
            self.turns.pop_front();
        }
    }

    fn results(&mut self, results: Results, talk: &mut Talk) {
        let now = self.clock.now();
        let start = seconds(results.start).unwrap_or(now);
        let end = seconds(results.duration).map_or(now, |duration| start.saturating_add(duration));
        let said = results.channel.alternatives.into_iter().next().unwrap_or_default();
        let piece = Piece { start, end, said };
        self.acknowledge(end, results.is_final, results.from_finalize);
        self.heard_to = self.heard_to.max(end);
        let is_over = results.speech_final && !results.from_finalize;
        let mut until = None;
        for turn in self.turns.iter_mut().filter(|turn| start < turn.until()) {
            // A piece may reach into the next turn, if its words say when.
            if until.is_some() && (end <= turn.from || !piece.says_when()) {
                break;
            }
            until = Some(turn.until());
            let text = piece.within(turn.from, turn.until());
            let spoke = !text.is_empty();
            if spoke && turn.ended.is_none() && turn.finalized.is_some_and(|place| end > place + SLACK) {
                turn.finalized = None;
            }
            if results.is_final {
                append(&mut turn.finals, &text);
                turn.interim.clear();
            } else {
                turn.interim = text;
            }
            if turn.ended.is_none() {
                let is_final = turn.finalized.is_some_and(|place| !self.finalizes.contains(&place));
                Self::tell(turn, spoke, is_final && turn.interim.is_empty(), is_over, talk);
            }
        }
        // The rest of it may be of a turn that has not begun yet.
        let is_left = until.is_none_or(|until| end > until && piece.says_when());
        if results.is_final && is_left && !piece.said.transcript.is_empty() {
            self.keep(piece);
        }
        self.answer(talk);
    }

    /// The server has passed every place before `end`. `Finalize` is answered even where it left nothing to write.
    fn acknowledge(&mut self, end: Duration, is_final: bool, from_finalize: bool) {
        let before = self.finalizes.len();
        self.finalizes.retain(|place| end <= *place + SLACK && !(is_final && end + SLACK >= *place));
        if from_finalize && before == self.finalizes.len() {
            self.finalizes.pop_front();
        }
    }

    fn tell(turn: &mut Turn, spoke: bool, stable: bool, is_over: bool, talk: &mut Talk) {
        let text = turn.words();
        if text.is_empty() {
            return;
        }
        if spoke && turn.is_over {
            turn.is_over = false;
            talk.tell(Heard::Complete(false));
        }
        if spoke || (stable && !turn.is_stable) {
            turn.is_stable = stable;
            talk.tell(Heard::Partial { text, stable });
        }
        if is_over && !turn.is_over {
            turn.is_over = true;
            talk.tell(Heard::Complete(true));
        }
    }

    /// By the gap between words, where noise hides the pause.
    fn utterance_end(&mut self, talk: &mut Talk) {
        if let Some(turn) = self.open_turn() {
            Self::tell(turn, false, false, true, talk);
        }
    }
}

impl Codec for Nova {
    const KEEP_ALIVE: Option<(Duration, &'static str)> = Some((Duration::from_secs(4), r#"{"type":"KeepAlive"}"#));

    /// The server acknowledges nothing: the upgrade is all it says.
    fn open(&mut self, talk: &mut Talk) {
        talk.tell(Heard::Ready);
    }

    fn hear(&mut self, hear: Hear, now: Instant, talk: &mut Talk) {
        match hear {
            // An empty message would end the stream.
            Hear::Audio(audio) if audio.is_empty() => {}
            Hear::Audio(audio) => {
                talk.words.extend(self.clock.sent(audio.len()));
                talk.wires.push_back(Wire::Binary(audio));
            }
            Hear::TurnBegan => self.begin(talk),
            Hear::TurnMayEnd => self.finalize(talk),
            Hear::TurnGoesOn => {
                if let Some(turn) = self.open_turn() {
                    turn.finalized = None;
                }
            }
            Hear::TurnEnded => self.end(now, talk),
            Hear::TurnDropped => self.dropped(),
        }
    }

    fn read(&mut self, wire: &Wire, now: Instant, talk: &mut Talk) -> Result<(), Misread> {
        let message: Value = json::parse(wire.bytes())?;
        self.read_at = Some(now);
        match message["type"].as_str() {
            Some("Results") => {
                self.results(serde_json::from_value(message).map_err(Malformed::from)?, talk);
            }
            Some("UtteranceEnd") => self.utterance_end(talk),
            Some("Error") => return Err(refused(&message).into()),
            _ => {}
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.turns.front()?.ended.as_ref().map(|ended| ended.look)
    }

    fn late(&mut self, now: Instant, talk: &mut Talk) -> Result<(), Fault> {
        let Some(turn) = self.turns.front_mut() else { return Ok(()) };
        let Some(ended) = &mut turn.ended else { return Ok(()) };
        let lives = self.read_at.is_some_and(|at| at > ended.since);
        let limit = ended.since + self.turn_max;
        let settled = turn.interim.is_empty() && self.heard_to + SETTLED + SILENCE >= ended.at;
        if lives && (settled || now >= limit) {
            let place = ended.at;
            self.finalizes.retain(|open| *open > place);
            self.answer(talk);
        } else if now >= limit {
            return Err(Fault::Slow(self.turn_max));
        } else {
            ended.look = (now + SETTLED).min(limit);
        }
        Ok(())
    }

    fn close(&mut self, talk: &mut Talk) {
        talk.send(&json!({ "type": "CloseStream" }));
        talk.words.extend(self.clock.meter());
    }
}
