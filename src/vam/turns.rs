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
    redact::Redacted,
};
use bytes::Bytes;
use prost::Message as _;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// One slot of the call's clock.
pub(super) const FRAME_MS: u64 = 20;
/// Silence after which something that the engine itself says is over, where nobody says so. Longer than a pause between two
/// sentences of one recording.
const OVER_AFTER: Duration = Duration::from_millis(600);
/// The call decides by then whether a client's word that its user speaks was an interruption; until then the client is
/// sent nothing.
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
    AgentFinished,
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
    /// The agent waits for an action, whoever runs it,
    Acting,
    /// and not any more.
    Acted,
    /// The caller did, in these words.
    Said {
        text: Redacted<String>,
    },
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
    /// The agent's last word has left.
    finished: bool,
    /// Actions whose outcome the agent waits for: what is said meanwhile is not its answer.
    acting: usize,
    /// What was said meanwhile is over, and the answer is not there yet.
    between: bool,
    /// Since when only silence has left.
    quiet_since: Option<Instant>,
    /// The client's own ears heard its user over the agent.
    muted_until: Option<Instant>,
    caller_from: Option<Instant>,
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
            finished: false,
            acting: 0,
            between: false,
            quiet_since: None,
            muted_until: None,
            caller_from: None,
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
            Cue::CallerSpeaks => {
                self.caller_from.get_or_insert(now);
                match self.state {
                    // Before the answer was heard, the caller goes on.
                    TurnEvent::Thinking => self.next_turn(now, out),
                    TurnEvent::Idle | TurnEvent::Unspecified => self.go(TurnEvent::Listening, now, out),
                    _ => {}
                }
            }
            Cue::CallerFinished => self.think(now, out),
            Cue::BargeIn => {
                self.muted_until = None;
                self.interrupt(now, out);
            }
            Cue::FalseAlarm => self.muted_until = None,
            Cue::AgentFinished => self.finished = true,
            Cue::Failing => self.go(TurnEvent::Error, now, out),
            Cue::Frame(frame) => self.frame(frame, now, out),
            Cue::Action { mut envelope, .. } => {
                // An action happens inside THINKING, also one that no words of the caller led to.
                self.think(now, out);
                envelope.turn_id.clone_from(&self.turn_id);
                out.push(Payload::ActionRequestPayload(envelope.encode_to_vec().into()));
            }
            // The code that the specification prescribes, although there is one for timeouts (V10, V answer 11).
            Cue::ActionTimedOut => out.push(Payload::StreamError(StreamError {
                session_id: self.session_id.clone(),
                code: StreamErrorCode::LlmBackendError.into(),
                message: "an action timed out".into(),
                is_fatal: false,
                stage: "action".into(),
                timestamp: Some(stamp()),
            })),
            Cue::Acting => self.acting += 1,
            Cue::Acted => self.acting = self.acting.saturating_sub(1),
            Cue::Said { text } => out.push(self.transcript(text.reveal(), now)),
        }
    }

    /// The client's own ears hear its user; over the agent that interrupts at once.
    pub fn voiced(&mut self, now: Instant, out: &mut Vec<Payload>) {
        if self.state == TurnEvent::Speaking {
            self.interrupt(now, out);
            self.muted_until = Some(now + UNDECIDED_MAX);
        }
    }

    /// The call is over.
    pub fn end(&mut self, now: Instant, out: &mut Vec<Payload>) {
        if self.state == TurnEvent::Speaking {
            let silence = Bytes::new();
            out.push(self.chunk(silence, true));
        }
        self.go(TurnEvent::EndOfTurn, now, out);
    }

    fn frame(&mut self, frame: Bytes, now: Instant, out: &mut Vec<Payload>) {
        let silent = frame.iter().all(|byte| *byte == self.format.silence());
        if self.muted_until.is_some_and(|until| now < until) {
            return;
        }
        self.muted_until = None;
        if !silent {
            (self.quiet_since, self.between) = (None, false);
            self.speak(now, out);
        } else if self.state == TurnEvent::Speaking {
            let quiet = now - *self.quiet_since.get_or_insert(now);
            if self.finished || quiet >= OVER_AFTER {
                return self.over(frame, now, out);
            }
        }
        if self.state == TurnEvent::Speaking && !(silent && self.between) {
            out.push(self.chunk(frame, false));
        }
    }

    /// What was said is over: the turn with it, unless it was said while the agent waits for an action (V answer 15).
    fn over(&mut self, frame: Bytes, now: Instant, out: &mut Vec<Payload>) {
        if !std::mem::replace(&mut self.between, self.acting > 0) {
            out.push(self.chunk(frame, true));
        }
        if self.acting == 0 {
            return self.next_turn(now, out);
        }
        self.request_id = Uuid::new_v4().to_string();
        (self.chunk, self.finished) = (0, false);
    }

    /// Whatever the order of the call's own words, the client is told the way that leads there.
    fn speak(&mut self, now: Instant, out: &mut Vec<Payload>) {
        if self.state == TurnEvent::Speaking {
            return;
        }
        self.think(now, out);
        self.request_id = Uuid::new_v4().to_string();
        (self.chunk, self.finished) = (0, false);
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
            self.quiet_since = None;
        }
    }

    fn next_turn(&mut self, now: Instant, out: &mut Vec<Payload>) {
        self.go(TurnEvent::EndOfTurn, now, out);
        (self.turn_id, self.turn_began) = (Uuid::new_v4().to_string(), now);
        (self.quiet_since, self.finished, self.between) = (None, false, false);
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

fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOUD: [u8; 320] = [0x11; 320];
    const SILENT: [u8; 320] = [0; 320];

    struct Told {
        turns: Turns,
        now: Instant,
        out: Vec<Payload>,
    }

    impl Told {
        fn new() -> Self {
            let now = tokio::time::Instant::now().into_std();
            let turns = Turns::new("s".into(), Format::SLIN8, (AudioCodec::Pcm8k16, None), now);
            Self { turns, now, out: Vec::new() }
        }

        fn cue(&mut self, cue: Cue) -> &mut Self {
            self.turns.cue(cue, self.now, &mut self.out);
            self
        }

        fn frames(&mut self, frame: [u8; 320], count: usize) -> &mut Self {
            for _ in 0..count {
                self.now += Duration::from_millis(FRAME_MS);
                self.cue(Cue::Frame(Bytes::copy_from_slice(&frame)));
            }
            self
        }

        /// Signals by name, runs of chunks as `chunks`, a final one as `final`, words as `words`.
        fn story(&mut self) -> String {
            let mut words: Vec<String> = Vec::new();
            for payload in self.out.drain(..) {
                let word = match payload {
                    Payload::TurnSignal(signal) => signal.event().as_str_name().replace("TURN_EVENT_", ""),
                    Payload::SynthesisChunk(chunk) if chunk.is_final => "final".into(),
                    Payload::SynthesisChunk(_) => "chunks".into(),
                    Payload::TranscriptEvent(_) => "words".into(),
                    other => panic!("{other:?}"),
                };
                if words.last() != Some(&word) || word != "chunks" {
                    words.push(word);
                }
            }
            words.join(" ")
        }
    }

    /// V29: each transition, and the chunks between them.
    #[test]
    fn a_conversation_is_told_in_the_order_of_the_specification() {
        let mut told = Told::new();
        told.cue(Cue::Up).frames(SILENT, 5);
        assert_eq!(told.story(), "IDLE LISTENING");
        told.cue(Cue::CallerSpeaks).cue(Cue::CallerFinished).frames(SILENT, 10);
        assert_eq!(told.story(), "THINKING");
        told.frames(LOUD, 5).frames(SILENT, 2).frames(LOUD, 3).cue(Cue::AgentFinished).frames(SILENT, 40);
        assert_eq!(told.story(), "SPEAKING chunks final END_OF_TURN LISTENING");
    }

    #[test]
    fn a_greeting_goes_through_thinking_and_its_end_is_found_in_the_silence() {
        let mut told = Told::new();
        told.cue(Cue::Up).frames(LOUD, 3).frames(SILENT, 29);
        assert_eq!(told.story(), "IDLE LISTENING THINKING SPEAKING chunks");
        told.frames(SILENT, 3);
        assert_eq!(told.story(), "chunks final END_OF_TURN LISTENING");
    }

    /// V32: and the next words of the agent are a turn again.
    #[test]
    fn a_backend_that_fails_is_an_error_of_the_turn() {
        let mut told = Told::new();
        told.cue(Cue::Up).cue(Cue::CallerSpeaks).cue(Cue::CallerFinished).cue(Cue::Failing).frames(LOUD, 2);
        assert_eq!(told.story(), "IDLE LISTENING THINKING ERROR LISTENING THINKING SPEAKING chunks");
    }

    #[test]
    fn an_interruption_ends_the_chunks_at_once() {
        let mut told = Told::new();
        told.cue(Cue::Up).frames(LOUD, 3);
        told.story();
        told.cue(Cue::CallerSpeaks).cue(Cue::BargeIn).frames(SILENT, 3);
        assert_eq!(told.story(), "INTERRUPTED LISTENING");
        told.cue(Cue::CallerFinished).frames(LOUD, 1);
        assert_eq!(told.story(), "THINKING SPEAKING chunks");
    }

    /// A chunk that the client marks as voiced interrupts without waiting for our ears; when they find none, the agent goes on.
    #[test]
    fn the_clients_word_interrupts_at_once_and_can_be_taken_back() {
        let mut told = Told::new();
        told.cue(Cue::Up).frames(LOUD, 3);
        told.story();
        let (now, mut out) = (told.now, Vec::new());
        told.turns.voiced(now, &mut out);
        told.out.append(&mut out);
        told.frames(LOUD, 10);
        assert_eq!(told.story(), "INTERRUPTED LISTENING", "what is still said is not sent");
        told.cue(Cue::FalseAlarm).frames(LOUD, 2);
        assert_eq!(told.story(), "THINKING SPEAKING chunks");
    }

    /// V answer 15: what is said while an action runs is a request of its own, and no turn ends with it.
    #[test]
    fn what_is_said_while_an_action_runs_ends_no_turn() {
        let mut told = Told::new();
        let action = Cue::Action { envelope: Box::default(), since: told.now };
        told.cue(Cue::Up).cue(Cue::Acting).cue(action).frames(LOUD, 3).frames(SILENT, 40);
        told.out.retain(|payload| !matches!(payload, Payload::ActionRequestPayload(_)));
        let request = |told: &Told, first: bool| {
            let mut chunks = told.out.iter().filter_map(|payload| match payload {
                Payload::SynthesisChunk(chunk) => Some(chunk.request_id.clone()),
                _ => None,
            });
            if first { chunks.next() } else { chunks.last() }
        };
        let filler = request(&told, true);
        assert_eq!(told.story(), "IDLE LISTENING THINKING SPEAKING chunks final");
        told.cue(Cue::Acted).frames(LOUD, 3).cue(Cue::AgentFinished).frames(SILENT, 2);
        assert_ne!(request(&told, false), filler);
        assert_eq!(told.story(), "chunks final END_OF_TURN LISTENING");
    }

    /// V30: signals of one turn.
    #[test]
    fn all_of_one_turn_share_an_id_and_the_next_one_has_another() {
        let mut told = Told::new();
        told.cue(Cue::Up).frames(LOUD, 2).cue(Cue::AgentFinished).frames(SILENT, 1);
        let ids = told.out.iter().filter_map(|payload| match payload {
            Payload::TurnSignal(signal) => Some(signal.turn_id.clone()),
            _ => None,
        });
        let ids: Vec<String> = ids.collect();
        let (last, first) = ids.split_last().unwrap();
        assert!(first.iter().all(|id| *id == first[0]) && *last != first[0], "{ids:?}");
    }
}
