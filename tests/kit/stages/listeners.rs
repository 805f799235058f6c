//! Those who write down what a caller says. Each writes words only where it has heard a voice: what a test sees
//! understood has come through as sound.

use super::{Asked, Reply};
use crate::kit::{
    audio::samples_of,
    vendor::{Dialect, Failure, Heard, Saying, SetUp},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use offhook::{
    audio::{FRAME, Format},
    call::CallerTurn,
};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};
use tokio_tungstenite::tungstenite::{Message, protocol::CloseFrame};

/// A sample so far from zero is no noise of a line.
const LOUD: u16 = 2_000;
/// Silence after which Flux takes a turn for over …
const OVER: Duration = Duration::from_millis(700);
/// … and after which it says that it may be, if it was asked for that.
const MAY_BE_OVER: Duration = Duration::from_millis(400);
/// What it has understood by then.
const SO_FAR: &str = "When are you open, please?";

/// What a listener has heard since its words were asked for last.
struct Line {
    format: Format,
    bytes: usize,
    from: usize,
    spoke: bool,
    quiet: Duration,
}

impl Default for Line {
    fn default() -> Self {
        Self { format: Format::ULAW, bytes: 0, from: 0, spoke: false, quiet: Duration::ZERO }
    }
}

impl Line {
    /// Of a request's head whose address is like `…?encoding=mulaw&sample_rate=8000`.
    fn dialled(head: &str) -> Self {
        let format = match () {
            () if head.contains("encoding=mulaw") => Format::ULAW,
            () if head.contains("encoding=alaw") => Format::ALAW,
            () if head.contains("sample_rate=16000") => Format::SLIN16,
            () => Format::SLIN8,
        };
        Self { format, ..Self::default() }
    }

    fn set_up(&self) -> Heard {
        Heard::SetUp(SetUp { hears: self.format, speaks: self.format, detects: false })
    }

    fn hears(&mut self, audio: &[u8]) {
        self.bytes += audio.len();
        for frame in audio.chunks(self.format.frame_bytes()) {
            if has_voice(&samples_of(frame, self.format)) {
                (self.spoke, self.quiet) = (true, Duration::ZERO);
            } else {
                self.quiet += FRAME;
            }
        }
    }

    /// Its words are asked for: whether there are any.
    fn asks(&mut self) -> bool {
        std::mem::take(&mut self.spoke)
    }

    fn seconds(&self, bytes: usize) -> f64 {
        self.format.duration_of(bytes).as_secs_f64()
    }
}

fn has_voice(samples: &[i16]) -> bool {
    samples.iter().any(|sample| sample.unsigned_abs() > LOUD)
}

fn message(message: &Value) -> Message {
    Message::text(message.to_string())
}

/// What all of them can say beside words.
fn otherwise(saying: &Saying) -> Vec<Message> {
    let closed = |code: u16| Message::Close(Some(CloseFrame { code: code.into(), reason: "".into() }));
    match saying {
        Saying::Unknown => vec![message(&json!({ "type": "Hologram", "of": "the caller" }))],
        Saying::Malformed => vec![Message::text("{\"type\":")],
        Saying::Huge(bytes) => vec![message(&json!({ "type": "Metadata", "padding": "x".repeat(*bytes) }))],
        Saying::Ping => vec![Message::Ping(Vec::new().into())],
        Saying::Failure(Failure::Quota) => vec![failure("INSUFFICIENT_QUOTA"), closed(1008)],
        Saying::Failure(Failure::Throttled) => vec![failure("TOO_MANY_REQUESTS"), closed(1013)],
        Saying::Failure(Failure::Expired) => vec![closed(1001)],
        _ => Vec::new(),
    }
}

fn failure(code: &str) -> Message {
    message(&json!({ "type": "Error", "code": code, "description": "Not the words of the test." }))
}

fn options(address: SocketAddr, more: Value) -> Value {
    let mut options = json!({ "api_key": "key-of-the-test", "base_url": format!("ws://{address}") });
    more.as_object().into_iter().flatten().for_each(|(key, value)| options[key] = value.clone());
    options
}

/// Deepgram's `/v1/listen`: final words come when they are asked for, or after a silence of `endpointing_ms`.
#[derive(Default)]
pub struct Nova {
    line: Line,
    /// Its words were asked for, and are due.
    asked: bool,
    /// Silence after which it takes an utterance for over.
    over: Option<Duration>,
    /// An utterance that has begun, and of whose end it has said nothing.
    open: bool,
}

impl Nova {
    /// The utterance that has just ended, of which words are left or not.
    fn ends(&mut self) -> Option<Heard> {
        let (voiced, over) = (self.line.quiet.is_zero(), self.over?);
        self.open |= self.line.bytes > 0 && voiced;
        let ended = self.line.quiet >= over && std::mem::take(&mut self.open);
        ended.then(|| match self.line.asks() {
            true => Heard::Turn(CallerTurn::Ended),
            false => Heard::Reply(vec![self.results("", false)]),
        })
    }

    fn results(&mut self, words: &str, finalized: bool) -> Message {
        let (start, end) = (self.line.from, self.line.bytes);
        self.line.from = end;
        message(&json!({
            "type": "Results", "channel_index": [0, 1], "start": self.line.seconds(start),
            "duration": self.line.seconds(end - start), "is_final": true, "speech_final": !finalized && self.over.is_some(),
            "from_finalize": finalized, "channel": { "alternatives": [{ "transcript": words, "words": [] }] },
        }))
    }
}

impl Dialect for Nova {
    const KIND: &'static str = "deepgram_listen";

    fn options(address: SocketAddr) -> Value {
        options(address, json!({ "model": "nova-3" }))
    }

    fn dialled(&mut self, head: &str) -> Vec<Heard> {
        self.line = Line::dialled(head);
        let endpointing =
            head.split("&endpointing=").nth(1).and_then(|rest| rest.split(['&', ' ']).next()?.parse().ok());
        self.over = endpointing.map(Duration::from_millis);
        vec![if head.contains("/v1/listen?model=nova-3&") { self.line.set_up() } else { Heard::Violation(head.into()) }]
    }

    fn hear(&mut self, heard: Message) -> Vec<Heard> {
        let text = match heard {
            Message::Binary(audio) if audio.is_empty() => {
                return vec![Heard::Violation("the end of the stream".into())];
            }
            Message::Binary(audio) => {
                self.line.hears(&audio);
                return [Heard::Audio(audio.into())].into_iter().chain(self.ends()).collect();
            }
            other => other.into_text().unwrap_or_default(),
        };
        let asked: Value = serde_json::from_str(text.as_str()).unwrap_or_default();
        vec![match asked["type"].as_str() {
            Some("Finalize") if self.line.asks() => {
                self.asked = true;
                Heard::Turn(CallerTurn::Ended)
            }
            Some("Finalize") => Heard::Reply(vec![self.results("", true)]),
            Some("KeepAlive" | "CloseStream") => Heard::Other,
            _ => Heard::Violation(text.to_string()),
        }]
    }

    fn say(&mut self, saying: &Saying) -> Vec<Message> {
        match saying {
            Saying::CallerWords { text, .. } => {
                let asked = std::mem::take(&mut self.asked);
                vec![self.results(text, asked)]
            }
            other => otherwise(other),
        }
    }
}

/// Deepgram's `/v2/listen`: the server ends turns by itself, or when it is told to.
#[derive(Default)]
pub struct Flux {
    line: Line,
    turn: u64,
    begun: bool,
    eager: bool,
    /// It has said that the turn may be over, and nobody has spoken since.
    guessed: bool,
    /// As often as they did, the words of the turn come once more.
    resumed: usize,
}

impl Flux {
    fn info(&self, event: &str, words: &str) -> Message {
        message(&json!({
            "type": "TurnInfo", "event": event, "turn_index": self.turn, "transcript": words, "words": [],
            "audio_window_start": 0.0, "audio_window_end": self.line.seconds(self.line.bytes),
        }))
    }

    fn words(&self, words: &str) -> String {
        vec![words; 1 + self.resumed].join(" ")
    }

    /// Whether the turn may be over, or goes on after all.
    fn guesses(&mut self) -> Option<Message> {
        if !self.eager {
            None
        } else if self.guessed && self.line.quiet.is_zero() {
            let resumed = self.info("TurnResumed", &self.words(SO_FAR));
            (self.guessed, self.resumed) = (false, self.resumed + 1);
            Some(resumed)
        } else if self.line.spoke && self.line.quiet >= MAY_BE_OVER && !std::mem::replace(&mut self.guessed, true) {
            Some(self.info("EagerEndOfTurn", &self.words(SO_FAR)))
        } else {
            None
        }
    }
}

impl Dialect for Flux {
    const KIND: &'static str = "deepgram_listen";

    fn options(address: SocketAddr) -> Value {
        options(address, json!({ "model": "flux-general-en" }))
    }

    fn dialled(&mut self, head: &str) -> Vec<Heard> {
        self.line = Line::dialled(head);
        self.eager = head.contains("&eager_eot_threshold=0.4");
        let is_right = head.contains("/v2/listen?model=flux-general-en&");
        vec![if is_right { self.line.set_up() } else { Heard::Violation(head.into()) }]
    }

    fn hear(&mut self, heard: Message) -> Vec<Heard> {
        let text = match heard {
            Message::Binary(audio) => {
                self.line.hears(&audio);
                let mut heard = vec![Heard::Audio(audio.into())];
                if self.line.spoke && !std::mem::replace(&mut self.begun, true) {
                    heard.push(Heard::Reply(vec![self.info("StartOfTurn", "")]));
                }
                heard.extend(self.guesses().map(|guess| Heard::Reply(vec![guess])));
                if self.line.spoke && self.line.quiet >= OVER && self.line.asks() {
                    heard.push(Heard::Turn(CallerTurn::Ended));
                }
                return heard;
            }
            other => other.into_text().unwrap_or_default(),
        };
        let asked: Value = serde_json::from_str(text.as_str()).unwrap_or_default();
        vec![match asked["type"].as_str() {
            Some("ForceEndTurn") if self.line.asks() => Heard::Turn(CallerTurn::Ended),
            Some("ForceEndTurn") => Heard::Reply(vec![self.info("EndOfTurn", "")]),
            Some("CloseStream") => Heard::Other,
            _ => Heard::Violation(text.to_string()),
        }]
    }

    fn say(&mut self, saying: &Saying) -> Vec<Message> {
        match saying {
            Saying::Ready => vec![message(&json!({ "type": "Connected", "request_id": "1", "sequence_id": 0 }))],
            Saying::CallerWords { text, .. } => {
                let ended = self.info("EndOfTurn", &self.words(text));
                (self.turn, self.begun, self.guessed, self.resumed) = (self.turn + 1, false, false, 0);
                vec![ended]
            }
            other => otherwise(other),
        }
    }
}

/// OpenAI Realtime in a session that transcribes.
#[derive(Default)]
pub struct Transcriber {
    line: Line,
    session: Value,
    items: u32,
}

impl Transcriber {
    fn updated(&self, format: &str) -> Vec<Message> {
        let mut session = self.session.clone();
        session["audio"]["input"]["format"]["type"] = format.into();
        vec![message(&json!({ "type": "session.updated", "session": session }))]
    }

    fn completed(&self, item: u32, words: &str) -> Message {
        let item = format!("item_{item}");
        let kind = "conversation.item.input_audio_transcription.completed";
        let usage = json!({ "type": "duration", "seconds": 3.0 });
        message(&json!({ "type": kind, "item_id": item, "content_index": 0, "transcript": words, "usage": usage }))
    }
}

impl Dialect for Transcriber {
    const KIND: &'static str = "openai_realtime_transcription";

    fn options(address: SocketAddr) -> Value {
        options(address, json!({}))
    }

    fn hello(&mut self) -> Vec<Message> {
        vec![message(&json!({ "type": "session.created", "session": { "type": "transcription" } }))]
    }

    fn hear(&mut self, heard: Message) -> Vec<Heard> {
        let text = heard.into_text().unwrap_or_default();
        let mut asked: Value = serde_json::from_str(text.as_str()).unwrap_or_default();
        match asked["type"].as_str() {
            Some("session.update") => {
                self.session = asked["session"].take();
                self.line.format = match self.session["audio"]["input"]["format"]["type"].as_str() {
                    Some("audio/pcmu") => Format::ULAW,
                    Some("audio/pcma") => Format::ALAW,
                    _ => Format::SLIN24,
                };
                vec![self.line.set_up()]
            }
            Some("input_audio_buffer.append") => {
                let audio = STANDARD.decode(asked["audio"].as_str().unwrap_or_default()).unwrap_or_default();
                self.line.hears(&audio);
                vec![if audio.is_empty() { Heard::Violation("no audio".into()) } else { Heard::Audio(audio) }]
            }
            Some("input_audio_buffer.clear") => {
                self.line.asks();
                vec![Heard::Other]
            }
            Some("input_audio_buffer.commit") => {
                self.items += 1;
                let item = format!("item_{}", self.items);
                let committed = message(&json!({ "type": "input_audio_buffer.committed", "item_id": item }));
                let words = if self.line.asks() {
                    Heard::Turn(CallerTurn::Ended)
                } else {
                    Heard::Reply(vec![self.completed(self.items, "")])
                };
                vec![Heard::Reply(vec![committed]), words]
            }
            _ => vec![Heard::Violation(text.to_string())],
        }
    }

    fn say(&mut self, saying: &Saying) -> Vec<Message> {
        match saying {
            Saying::Ready => {
                self.updated(self.session["audio"]["input"]["format"]["type"].as_str().unwrap_or_default())
            }
            Saying::ReadyOtherwise => self.updated("audio/some_other"),
            // Of an item that was never committed, where the test counts further than there are.
            Saying::CallerWords { utterance, text } => vec![self.completed(self.items.max(*utterance), text)],
            Saying::Failure(Failure::Throttled) => {
                let error = json!({ "type": "rate_limit_error", "code": "rate_limit_exceeded" });
                vec![message(&json!({ "type": "error", "error": error }))]
            }
            other => otherwise(other),
        }
    }
}

/// The answer of a listener who is asked: by a file over HTTP, or over Wyoming.
pub fn writes(asked: &Asked, words: &str) -> Reply {
    let text = if has_voice(&heard_by(asked)) { words } else { "" };
    if asked.path == "transcribe" { Reply::whole("", text) } else { Reply::json(&json!({ "text": text })) }
}

/// What such a listener has heard, at 16 kHz.
pub fn heard_by(asked: &Asked) -> Vec<i16> {
    let samples = |bytes: &[u8]| bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    if asked.path == "transcribe" {
        return samples(&asked.sound);
    }
    // The file stands between the texts of a form; its head says how long it is.
    let file = asked.sound.windows(4).position(|four| four == b"RIFF").map(|at| &asked.sound[at..]);
    let sound = file.and_then(|file| {
        let length = u32::from_le_bytes(file.get(40..44)?.try_into().ok()?) as usize;
        file.get(44..44 + length)
    });
    samples(sound.unwrap_or_default())
}
