//! Flux, `/v2/listen`: made for turns of conversations.
//!
//! Quirks: the transcript covers the whole of the server's turn, and a turn of offhook's may be several of the
//! server's, or end before the server's does. `ForceEndTurn` ends it at once, is passed over where no turn of the server's
//! is open, and servers of one's own do not know it: silence after a turn has the server tell that it has passed its end.
//! The last message of a turn may have no words though those before it had.
//! Messages of about 80 ms are asked for; there is no `KeepAlive`, pings keep the connection.

use super::{AudioClock, refused, seconds};
use crate::{
    audio::Format,
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
use bytes::BytesMut;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// In frames of 20 ms.
const FRAMES_PER_MESSAGE: usize = 4;
/// A server that has heard so much after the end of a turn has passed it.
const PASSED: Duration = Duration::from_millis(500);
/// A turn without words of which nothing has come for so long has none.
const SETTLED: Duration = Duration::from_secs(1);
/// Turns of the server outside of offhook's within [`LEAD`].
const LOOSE_MAX: usize = 8;

#[derive(Deserialize)]
struct TurnInfo {
    event: String,
    #[serde(default)]
    turn_index: u64,
    #[serde(default)]
    transcript: String,
    audio_window_end: Option<f64>,
}

/// Offhook's turn, of which the server has ended these parts.
struct Turn {
    text: String,
    is_over: bool,
    /// As it was told last.
    told: String,
}

struct Ended {
    text: String,
    /// Nothing before it is of this turn.
    from: Duration,
    /// Where in the audio.
    at: Duration,
    since: Instant,
    /// When to look whether its words are complete though the server has not said so.
    look: Instant,
}

pub(in crate::stt) struct Flux {
    clock: AudioClock,
    /// From the end of a turn to its words.
    turn_max: Duration,
    audio: BytesMut,
    /// The server's turn in progress: its number, its words, and how many of them are told already.
    index: u64,
    current: String,
    told_words: usize,
    /// Ended by the server outside of offhook's turns.
    loose: VecDeque<(Duration, String)>,
    turn: Option<Turn>,
    ended: VecDeque<Ended>,
    /// Nothing before it can belong to another turn.
    floor: Duration,
    read_at: Option<Instant>,
}

impl Flux {
    pub(in crate::stt) fn new(format: Format, turn_max: Duration) -> Self {
        Self {
            clock: AudioClock::new(format),
            turn_max,
            audio: BytesMut::new(),
            index: 0,
            current: String::new(),
            told_words: 0,
            loose: VecDeque::new(),
            turn: None,
            ended: VecDeque::new(),
            floor: Duration::ZERO,
            read_at: None,
        }
    }

    fn send_audio(&mut self, talk: &mut Talk) {
        if !self.audio.is_empty() {
            talk.words.extend(self.clock.sent(self.audio.len()));
            talk.wires.push_back(Wire::Binary(self.audio.split().freeze()));
        }
    }

    fn begin(&mut self, talk: &mut Talk) {
        if self.turn.is_some() {
            return;
        }
        let from = self.clock.now().saturating_sub(LEAD).max(self.floor);
        let mut text = String::new();
        self.loose.drain(..).filter(|(end, _)| *end > from).for_each(|(_, words)| append(&mut text, &words));
        self.turn = Some(Turn { text, is_over: false, told: String::new() });
        self.tell(false, talk);
    }

    fn end(&mut self, now: Instant, talk: &mut Talk) {
        self.send_audio(talk);
        talk.words.extend(self.clock.meter());
        let at = self.clock.now();
        let from = std::mem::replace(&mut self.floor, at);
        let text = self.turn.take().map_or(String::new(), |turn| turn.text);
        if self.ended.is_empty() && self.current.is_empty() && !text.is_empty() {
            // The server has ended it, too, and heard nothing since.
            talk.tell(Heard::Turn { text });
            return;
        }
        talk.send(&json!({ "type": "ForceEndTurn" }));
        self.clock.be_silent(talk);
        self.floor = self.clock.now();
        self.ended.push_back(Ended { text, from, at, since: now, look: now + SETTLED });
    }

    /// What was said in a turn that was none is no part of the next one, so the server's turn must not go on either.
    fn dropped(&mut self, talk: &mut Talk) {
        if self.turn.take().is_none() {
            return;
        }
        self.send_audio(talk);
        // The server has then heard all of it before the end.
        self.clock.be_silent(talk);
        talk.send(&json!({ "type": "ForceEndTurn" }));
        self.loose.clear();
        self.floor = self.clock.now();
        if self.ended.is_empty() {
            self.take_current();
        }
    }

    fn keep(&mut self, end: Duration, text: String) {
        let now = self.clock.now();
        self.loose.push_back((end, text));
        self.loose.retain(|(end, text)| !text.is_empty() && *end + LEAD >= now);
        while self.loose.len() > LOOSE_MAX {
            self.loose.pop_front();
        }
    }

    /// What the turn has so far, if that is new.
    fn tell(&mut self, stable: bool, talk: &mut Talk) {
        let Some(turn) = self.turn.as_mut().filter(|_| self.ended.is_empty()) else { return };
        let text = joined(&turn.text, &self.current);
        if text.is_empty() || (text == turn.told && !stable) {
            return;
        }
        turn.told.clone_from(&text);
        talk.tell(Heard::Partial { text, stable });
    }

    fn believe(&mut self, is_over: bool, talk: &mut Talk) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| self.ended.is_empty() && turn.is_over != is_over) {
            turn.is_over = is_over;
            talk.tell(Heard::Complete(is_over));
        }
    }

    fn turn_info(&mut self, info: &TurnInfo, talk: &mut Talk) {
        let heard_to = seconds(info.audio_window_end).unwrap_or_else(|| self.clock.now());
        if info.turn_index != self.index {
            // Its end was not told.
            if !self.current.is_empty() {
                self.server_ended(heard_to, talk);
            }
            (self.index, self.told_words) = (info.turn_index, 0);
        }
        // An end without words ends the words that were told before it.
        if info.event != "EndOfTurn" || !info.transcript.trim().is_empty() {
            self.current = info.transcript.split_whitespace().skip(self.told_words).collect::<Vec<_>>().join(" ");
        }
        if heard_to <= self.ended.front().map_or(self.floor, |ended| ended.from) {
            // Of a turn that was answered already, or was none.
            self.take_current();
            return;
        }
        match &*info.event {
            "EndOfTurn" => {
                let spoke = !self.current.is_empty();
                self.server_ended(heard_to, talk);
                if spoke {
                    self.tell(true, talk);
                    self.believe(true, talk);
                }
            }
            "EagerEndOfTurn" => self.tell(true, talk),
            "TurnResumed" => {
                if let Some(turn) = &mut self.turn {
                    turn.told.clear();
                    turn.is_over = true;
                }
                self.believe(false, talk);
                self.tell(false, talk);
            }
            _ => {
                if !self.current.is_empty() {
                    self.believe(false, talk);
                }
                self.tell(false, talk);
            }
        }
        if self.ended.front().is_some_and(|ended| heard_to > ended.at + PASSED) {
            self.answer(talk);
        }
    }

    /// The words of the server's turn go to whom they belong.
    fn server_ended(&mut self, at: Duration, talk: &mut Talk) {
        if !self.ended.is_empty() {
            self.answer(talk);
            return;
        }
        let words = self.take_current();
        match &mut self.turn {
            Some(turn) => append(&mut turn.text, &words),
            None => self.keep(at, words),
        }
    }

    /// The words of the server's turn that belong to nobody yet; it may go on.
    fn take_current(&mut self) -> String {
        self.told_words += self.current.split_whitespace().count();
        std::mem::take(&mut self.current)
    }

    /// The oldest turn that waits has all its words.
    fn answer(&mut self, talk: &mut Talk) {
        if let Some(mut ended) = self.ended.pop_front() {
            let words = self.take_current();
            append(&mut ended.text, &words);
            talk.tell(Heard::Turn { text: ended.text });
        }
    }
}

impl Codec for Flux {
    fn open(&mut self, _talk: &mut Talk) {}

    fn hear(&mut self, hear: Hear, now: Instant, talk: &mut Talk) {
        match hear {
            Hear::Audio(audio) => {
                self.audio.extend_from_slice(&audio);
                if self.audio.len() >= FRAMES_PER_MESSAGE * self.clock.format.frame_bytes() {
                    self.send_audio(talk);
                }
            }
            Hear::TurnBegan => self.begin(talk),
            Hear::TurnMayEnd => self.send_audio(talk),
            Hear::TurnGoesOn => {}
            Hear::TurnEnded => self.end(now, talk),
            Hear::TurnDropped => self.dropped(talk),
        }
    }

    fn read(&mut self, wire: &Wire, now: Instant, talk: &mut Talk) -> Result<(), Misread> {
        let message: Value = json::parse(wire.bytes())?;
        self.read_at = Some(now);
        match message["type"].as_str() {
            Some("Connected") => talk.tell(Heard::Ready),
            Some("TurnInfo") => {
                self.turn_info(&serde_json::from_value(message).map_err(Malformed::from)?, talk);
            }
            Some("Error") => return Err(refused(&message).into()),
            _ => {}
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.ended.front().map(|ended| ended.look)
    }

    fn late(&mut self, now: Instant, talk: &mut Talk) -> Result<(), Fault> {
        let Some(ended) = self.ended.front_mut() else { return Ok(()) };
        let lives = self.read_at.is_some_and(|at| at > ended.since);
        let limit = ended.since + self.turn_max;
        if lives && (self.current.is_empty() || now >= limit) {
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
