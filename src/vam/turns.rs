//! What a call does, as a VAM client is told of it: turn signals in the order of the specification, chunks of what is said,
//! transcripts. Pure: a cue of the call in, messages out.
//!
//! ```text
//! IDLE ─▶ LISTENING ─▶ THINKING ─▶ SPEAKING ─▶ (is_final) END_OF_TURN ─▶ LISTENING …   the next turn
//!              ▲                      │
//!              └────── INTERRUPTED ◀──┘
//! ```

use super::wire::{
    ActionRequestEnvelope, AudioCodec, StreamError, StreamErrorCode, SynthesisChunk, TranscriptEvent, TranscriptType,
    TurnEvent, TurnSignal, gateway_stream_message::Payload, now as stamp,
};
use crate::{
    audio::{Format, opus},
    call::{Part, Stumble},
    redact::Redacted,
};
use bytes::Bytes;
use prost::Message as _;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// One slot of the call's clock.
pub(super) const FRAME_MS: u64 = 20;
/// The call decides by then whether a client's word that its user speaks was an interruption; until then what is said is kept
/// for the client, fifty frames of it.
const UNDECIDED_MAX: Duration = Duration::from_secs(1);

/// What a call tells of itself.
#[derive(Debug, Clone)]
pub enum Cue {
    /// Audio flows both ways.
    Up,
    CallerSpeaks,
    CallerFinished,
    /// The caller interrupted.
    BargeIn,
    /// The caller was heard over the agent, and it was no interruption.
    FalseAlarm,
    /// The agent, or a sentence of the engine's own, has been heard to its end.
    SaidOut,
    /// Nothing is being said, and nothing is owed to the caller any more.
    Quiet,
    /// A part of the agent failed, and the call goes on.
    Stumbled(Stumble),
    /// The agent is lost, and another one is dialled.
    Lost {
        is_slow: bool,
    },
    /// The call cannot go on as it should.
    Failing,
    /// What left in one slot, in the call's format.
    Frame(Bytes),
    /// The client is to run this, which the agent wanted then.
    Action {
        envelope: Box<ActionRequestEnvelope>,
        since: Instant,
    },
    /// It was not answered in time.
    ActionTimedOut,
    /// The caller did, in these words.
    Said {
        text: Redacted<String>,
    },
    /// The call has ended by itself; nothing more comes.
    Over,
}

/// Of one stream.
pub(super) struct Turns {
    session_id: String,
    format: Format,
    codec: AudioCodec,
    /// Where what leaves is packets of Opus.
    opus: Option<opus::Writer>,
    state: TurnEvent,
    turn_id: String,
    turn_began: Instant,
    state_began: Instant,
    stream_began: Instant,
    request_id: String,
    chunk: u64,
    /// What was said is over, and something is still owed in this turn: an answer after a filler, or after a tool.
    between: bool,
    /// The client's own ears heard its user over the agent.
    hint: Option<Hint>,
    /// The last such word was none; until the client takes it back it says nothing new.
    was_false: bool,
    caller_from: Option<Instant>,
    /// The part that failed last in this turn, as it was told.
    stumbled: Option<Stumble>,
}

/// A client's word that its user speaks, until the call has decided about it.
struct Hint {
    until: Instant,
    /// What is said meanwhile: it goes on from there if nobody interrupts.
    kept: Vec<Cue>,
    /// The call hears the caller too.
    is_confirmed: bool,
}

impl Turns {
    pub fn new(
        session_id: String,
        format: Format,
        (codec, opus): (AudioCodec, Option<opus::Writer>),
        now: Instant,
    ) -> Self {
        Self {
            session_id,
            format,
            codec,
            opus,
            state: TurnEvent::Unspecified,
            turn_id: Uuid::new_v4().to_string(),
            turn_began: now,
            state_began: now,
            stream_began: now,
            request_id: String::new(),
            chunk: 0,
            between: false,
            hint: None,
            was_false: false,
            caller_from: None,
            stumbled: None,
        }
    }

    pub fn cue(&mut self, cue: Cue, now: Instant, out: &mut Vec<Payload>) {
        match cue {
            Cue::Up => {
                if self.state == TurnEvent::Unspecified {
                    self.go(TurnEvent::Idle, now, out);
                    self.go(TurnEvent::Listening, now, out);
                }
            }
            Cue::CallerSpeaks => self.caller_speaks(now, out),
            Cue::CallerFinished => self.think(now, out),
            Cue::BargeIn => {
                self.hint = None;
                self.interrupt(now, out);
            }
            Cue::FalseAlarm => self.go_on(now, out),
            Cue::Frame(_) | Cue::SaidOut | Cue::Quiet if self.keeps(&cue, now, out) => {}
            Cue::Frame(frame) => self.frame(frame, now, out),
            Cue::SaidOut => self.said_out(out),
            Cue::Quiet => {
                self.said_out(out);
                // A turn that was answered with nothing is over as well: nobody waits for the agent then.
                if matches!(self.state, TurnEvent::Speaking | TurnEvent::Thinking) {
                    self.next_turn(now, out);
                }
            }
            Cue::Stumbled(stumble) => {
                self.stumbled = Some(stumble);
                self.stumble(stumble, now, out);
            }
            // Which of its parts has failed was told; an agent that is no pipeline is one service, by whatever name.
            Cue::Lost { .. } if self.stumbled.is_some() => {}
            Cue::Lost { is_slow } => self.stumble(Stumble { part: Part::Model, is_slow }, now, out),
            Cue::Failing => {
                self.said_out(out);
                let failed = self.stumbled.unwrap_or(Stumble { part: Part::Model, is_slow: false });
                let (code, stage) = named(failed);
                out.push(self.error(code, stage, "the agent is lost, and the call ends", true));
                self.go(TurnEvent::Error, now, out);
            }
            Cue::Action { mut envelope, .. } => {
                // An action happens inside THINKING, also one that no words of the caller led to.
                self.think(now, out);
                envelope.turn_id.clone_from(&self.turn_id);
                out.push(Payload::ActionRequestPayload(envelope.encode_to_vec().into()));
            }
            // The code that the specification prescribes, although there is one for timeouts (V10, V answer 11).
            Cue::ActionTimedOut => {
                out.push(self.error(StreamErrorCode::LlmBackendError, "action", "an action timed out", false));
            }
            // The stream ends.
            Cue::Over => {}
            Cue::Said { text } => out.push(self.transcript(text.reveal(), now)),
        }
    }

    /// Whether the client's own ears hear its user; over the agent that interrupts at once, and the call decides whether for good.
    pub fn voiced(&mut self, is_voiced: bool, now: Instant, out: &mut Vec<Payload>) {
        if !is_voiced {
            self.was_false = false;
        } else if self.state == TurnEvent::Speaking && !self.was_false {
            self.interrupt(now, out);
            self.hint = Some(Hint { until: now + UNDECIDED_MAX, kept: Vec::new(), is_confirmed: false });
        }
    }

    /// The call is over.
    pub fn end(&mut self, now: Instant, out: &mut Vec<Payload>) {
        self.go_on(now, out);
        self.said_out(out);
        self.go(TurnEvent::EndOfTurn, now, out);
    }

    fn caller_speaks(&mut self, now: Instant, out: &mut Vec<Payload>) {
        self.caller_from.get_or_insert(now);
        if let Some(hint) = &mut self.hint {
            hint.is_confirmed = true;
        }
        match self.state {
            // Before the answer was heard, the caller goes on.
            TurnEvent::Thinking => self.next_turn(now, out),
            TurnEvent::Idle | TurnEvent::Unspecified | TurnEvent::Error => self.go(TurnEvent::Listening, now, out),
            // Nothing was being said that could be cut off.
            TurnEvent::Speaking if self.between => self.interrupt(now, out),
            _ => {}
        }
    }

    /// While a hint of the client is undecided, what is said is kept. When it was wrong, or nobody decides, it goes on from where
    /// the client heard it last: late, and whole.
    fn keeps(&mut self, cue: &Cue, now: Instant, out: &mut Vec<Payload>) -> bool {
        let Some(hint) = &mut self.hint else { return false };
        let is_confirmed = hint.is_confirmed;
        if !is_confirmed && now < hint.until {
            hint.kept.push(cue.clone());
            return true;
        }
        // The caller has the floor: what goes on into their words must be heard, and the agent's last word was talked over.
        let is_over = match cue {
            Cue::Frame(frame) => self.is_silent(frame),
            _ => true,
        };
        if is_confirmed && is_over {
            self.hint = None;
        } else {
            self.go_on(now, out);
        }
        false
    }

    fn go_on(&mut self, now: Instant, out: &mut Vec<Payload>) {
        let Some(hint) = self.hint.take() else { return };
        self.was_false = true;
        for cue in hint.kept {
            self.cue(cue, now, out);
        }
    }

    fn frame(&mut self, frame: Bytes, now: Instant, out: &mut Vec<Payload>) {
        if !self.is_silent(&frame) {
            self.between = false;
            self.speak(now, out);
        }
        if self.state == TurnEvent::Speaking && !self.between {
            out.push(self.chunk(frame, false));
        }
    }

    fn is_silent(&self, frame: &[u8]) -> bool {
        frame.iter().all(|byte| *byte == self.format.silence())
    }

    /// What is said next in this turn is a request of its own (V answer 15).
    fn said_out(&mut self, out: &mut Vec<Payload>) {
        if self.state == TurnEvent::Speaking && !std::mem::replace(&mut self.between, true) {
            out.push(self.chunk(Bytes::new(), true));
            (self.request_id, self.chunk) = (Uuid::new_v4().to_string(), 0);
        }
    }

    fn stumble(&mut self, stumble: Stumble, now: Instant, out: &mut Vec<Payload>) {
        let (code, stage) = named(stumble);
        let message = match stumble.is_slow {
            true => "a service did not answer in time, and is asked again or replaced",
            false => "a service failed, and is asked again or replaced",
        };
        out.push(self.error(code, stage, message, false));
        // Of what the agent is saying nothing is lost with its listener, and before the first turn there is none to fail.
        let has_turn = !matches!(self.state, TurnEvent::Speaking | TurnEvent::Unspecified);
        if stumble.part == Part::Listener && has_turn {
            self.go(TurnEvent::Error, now, out);
        }
    }

    /// Whatever the order of the call's own words, the client is told the way that leads there.
    fn speak(&mut self, now: Instant, out: &mut Vec<Payload>) {
        if self.state == TurnEvent::Speaking {
            return;
        }
        self.think(now, out);
        (self.request_id, self.chunk) = (Uuid::new_v4().to_string(), 0);
        self.go(TurnEvent::Speaking, now, out);
    }

    fn think(&mut self, now: Instant, out: &mut Vec<Payload>) {
        if matches!(self.state, TurnEvent::Speaking | TurnEvent::Thinking) {
            return;
        }
        if matches!(self.state, TurnEvent::Unspecified | TurnEvent::Idle | TurnEvent::Error) {
            self.go(TurnEvent::Listening, now, out);
        }
        self.go(TurnEvent::Thinking, now, out);
    }

    fn interrupt(&mut self, now: Instant, out: &mut Vec<Payload>) {
        if self.state == TurnEvent::Speaking {
            self.go(TurnEvent::Interrupted, now, out);
            self.go(TurnEvent::Listening, now, out);
            self.between = false;
        }
    }

    fn next_turn(&mut self, now: Instant, out: &mut Vec<Payload>) {
        self.go(TurnEvent::EndOfTurn, now, out);
        (self.turn_id, self.turn_began) = (Uuid::new_v4().to_string(), now);
        (self.between, self.stumbled) = (false, None);
        self.go(TurnEvent::Listening, now, out);
    }

    fn go(&mut self, to: TurnEvent, now: Instant, out: &mut Vec<Payload>) {
        if self.state == to {
            return;
        }
        self.state = to;
        let elapsed = now.saturating_duration_since(std::mem::replace(&mut self.state_began, now));
        out.push(Payload::TurnSignal(TurnSignal {
            session_id: self.session_id.clone(),
            event: to.into(),
            turn_id: self.turn_id.clone(),
            elapsed_ms: in_ms(elapsed),
            timestamp: Some(stamp()),
        }));
    }

    fn chunk(&mut self, audio: Bytes, is_final: bool) -> Payload {
        let duration_ms = if audio.is_empty() { 0 } else { FRAME_MS };
        let audio_bytes = match &mut self.opus {
            // A call's frames are all of 20 ms; of any other nothing is made.
            Some(opus) => opus.packet(&audio).unwrap_or_default(),
            None => audio,
        };
        let chunk_index = self.chunk;
        self.chunk += 1;
        Payload::SynthesisChunk(SynthesisChunk {
            session_id: self.session_id.clone(),
            request_id: self.request_id.clone(),
            chunk_index,
            duration_ms,
            audio_bytes,
            codec: self.codec.into(),
            is_final,
            emitted_at: Some(stamp()),
        })
    }

    fn error(&self, code: StreamErrorCode, stage: &str, message: &str, is_fatal: bool) -> Payload {
        Payload::StreamError(StreamError {
            session_id: self.session_id.clone(),
            code: code.into(),
            message: message.to_owned(),
            is_fatal,
            stage: stage.to_owned(),
            timestamp: Some(stamp()),
        })
    }

    fn transcript(&mut self, text: &str, now: Instant) -> Payload {
        let from = self.caller_from.take().unwrap_or(now);
        let offset = |at: Instant| in_ms(at.saturating_duration_since(self.stream_began));
        Payload::TranscriptEvent(TranscriptEvent {
            session_id: self.session_id.clone(),
            utterance_id: Uuid::new_v4().to_string(),
            r#type: TranscriptType::Final.into(),
            text: text.to_owned(),
            start_offset_ms: offset(from),
            end_offset_ms: offset(now),
            emitted_at: Some(stamp()),
            ..Default::default()
        })
    }
}

/// The error and the stage of a part.
const fn named(stumble: Stumble) -> (StreamErrorCode, &'static str) {
    use StreamErrorCode as Code;
    match (stumble.part, stumble.is_slow) {
        (Part::Listener, true) => (Code::AsrBackendTimeout, "asr"),
        (Part::Listener, false) => (Code::AsrBackendError, "asr"),
        (Part::Model, true) => (Code::LlmBackendTimeout, "llm"),
        (Part::Model, false) => (Code::LlmBackendError, "llm"),
        (Part::Voice, true) => (Code::TtsBackendTimeout, "tts"),
        (Part::Voice, false) => (Code::TtsBackendError, "tts"),
    }
}

fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
