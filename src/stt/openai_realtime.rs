//! OpenAI Realtime as a listener: a session of type `transcription`, or a server that speaks its protocol.
//!
//! <https://platform.openai.com/docs/guides/realtime-transcription>. Quirks: the server speaks first; an unknown key
//! rejects the whole set-up, and the session goes on in its defaults, so that nothing counts before `session.updated`
//! shows the format; G.711 has no `rate`, linear PCM is 24 kHz only. Without its own turn detection the server writes
//! down what is committed. Only turns are sent: the buffer would keep everything else, too. Less than 0.1 s cannot be
//! committed. A session lasts 60 minutes at most.

#[cfg(any(test, fuzzing))]
pub(super) fn for_fuzzing(format: Format, turn_max: Duration) -> impl Codec {
    Transcriber::new(format, turn_max, Duration::from_secs(3_300), json!({}))
}

#[cfg(test)]
mod tests;

use super::{
    Hear, Heard, Listener, ListenerKind, Patience,
    lead::Lead,
    session::{self, Codec, Misread, Talk},
    text,
};
use crate::{
    audio::{Encoding, Format},
    config::OptionProblem,
    remote::{
        Fault, WebSocketDial, Wire,
        checks::{self, Checked},
        http,
        json::{self, Malformed, with_known},
        kinds, lasting,
        transcription::TranscriptionUsage,
    },
};
use futures_util::{FutureExt as _, future::BoxFuture};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};

const BASE_URL: &str = "wss://api.openai.com/v1/realtime";
/// The vendor's current model; its predecessors end on 2027-02-26.
const MODEL: &str = "gpt-transcribe";
/// The vendor's limit of a session.
const SESSION_SECONDS: u32 = 60 * 60;
/// A shorter commit is refused.
const COMMIT_MIN: Duration = Duration::from_millis(100);

pub(super) const KIND: ListenerKind = ListenerKind {
    kind: "openai_realtime_transcription",
    summary: "OpenAI Realtime as a transcriber over WebSocket, or a server that speaks its protocol",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: kinds::no_calls,
    language: kinds::language_option,
    build: |options| Ok(Arc::new(Realtime(checks::read(options)?))),
};

/// Options of `kind: openai_realtime_transcription`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    /// The key; write `${OPENAI_API_KEY}` rather than the key itself.
    #[schemars(with = "String")]
    api_key: SecretString,
    /// Another server that speaks the same protocol; `ws://` is allowed for one nearby.
    #[serde(default = "base_url")]
    base_url: String,
    /// `gpt-transcribe`, `gpt-live-transcribe` or `gpt-realtime-whisper`.
    #[serde(default = "model")]
    model: String,
    /// The language spoken, ISO 639-1, such as `de`; better and faster where it is known.
    #[serde(default)]
    language: Option<String>,
    /// The languages to be expected; not for `gpt-realtime-whisper`.
    #[serde(default)]
    languages: Vec<String>,
    /// What the conversation is about; not for `gpt-realtime-whisper`.
    #[serde(default)]
    prompt: Option<String>,
    /// Words to be recognized that few people use; not for `gpt-realtime-whisper`.
    #[serde(default)]
    keywords: Vec<String>,
    /// For `gpt-realtime-whisper`: more delay, fewer mistakes.
    #[serde(default)]
    delay: Option<Delay>,
    /// Cleans the caller's audio on the server: `near_field` for handsets, `far_field` for speakerphones.
    #[serde(default)]
    noise_reduction: Option<NoiseReduction>,
    #[serde(flatten)]
    patience: Patience,
    /// The longest that one connection lasts, in seconds, where that is not the vendor's 60 minutes: offhook makes another one
    /// before, in a pause.
    #[serde(default)]
    #[schemars(range(min = 10, max = 86400))]
    session_seconds: Option<u32>,
    /// For keys that belong to several organizations.
    #[serde(default)]
    organization: Option<String>,
    /// For keys that belong to several projects.
    #[serde(default)]
    project: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Delay {
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum NoiseReduction {
    NearField,
    FarField,
}

fn base_url() -> String {
    BASE_URL.into()
}

fn model() -> String {
    MODEL.into()
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::from_iter(checks::secret("api_key", &self.api_key, "OPENAI_API_KEY"));
        problems.extend(checks::web_socket("base_url", &self.base_url, BASE_URL));
        problems.extend(checks::name("model", &self.model, "model name", MODEL));
        problems.extend(self.patience.problems());
        problems.extend(checks::session_seconds(self.session_seconds));
        if self.language.is_some() && !self.languages.is_empty() {
            problems.push(OptionProblem::new("languages", "cannot stand beside language").hint("remove one of them"));
        }
        for (path, value) in [("organization", &self.organization), ("project", &self.project)] {
            if value.as_deref().is_some_and(|value| !checks::header_value(value)) {
                problems.push(OptionProblem::new(path, "is empty, or holds a space or a control character"));
            }
        }
        problems
    }
}

impl Options {
    /// A twelfth before the limit, five minutes of an hour: a pause comes before that.
    fn life(&self) -> Duration {
        Duration::from_secs(self.session_seconds.unwrap_or(SESSION_SECONDS).into()) * 11 / 12
    }

    fn url(&self) -> String {
        let (address, query) = self.base_url.split_once('?').unwrap_or((&self.base_url, ""));
        let (_, host) = address.split_once("://").unwrap_or(("", address));
        // A request line without a path is no HTTP, and servers hang up on it.
        let path = if host.contains('/') { "" } else { "/" };
        let joint = if query.is_empty() { "" } else { "&" };
        format!("{address}{path}?{query}{joint}intent=transcription")
    }

    fn dial(&self) -> WebSocketDial {
        let key = format!("Bearer {}", self.api_key.expose_secret());
        let mut headers = vec![("authorization", key.into())];
        let names = [("openai-organization", &self.organization), ("openai-project", &self.project)];
        headers.extend(names.into_iter().filter_map(|(name, value)| Some((name, value.clone()?.into()))));
        WebSocketDial { url: self.url(), headers }
    }

    /// The one message that sets a session up. An unknown key would reject it, so what is not set is not in it.
    fn settings(&self, format: Format) -> Value {
        let list = |list: &Vec<String>| (!list.is_empty()).then(|| json!(list));
        let transcription = with_known(
            json!({ "model": self.model }),
            [
                ("language", self.language.clone().map(Value::from)),
                ("languages", list(&self.languages)),
                ("prompt", self.prompt.clone().map(Value::from)),
                ("keywords", list(&self.keywords)),
                ("delay", self.delay.map(|delay| json!(delay))),
            ],
        );
        let input = with_known(
            json!({ "format": wire_format(format), "transcription": transcription, "turn_detection": null }),
            [("noise_reduction", self.noise_reduction.map(|kind| json!({ "type": kind })))],
        );
        json!({ "type": "session.update", "session": { "type": "transcription", "audio": { "input": input } } })
    }
}

fn wire_format(format: Format) -> Value {
    match format.encoding {
        Encoding::Mulaw => json!({ "type": "audio/pcmu" }),
        Encoding::Alaw => json!({ "type": "audio/pcma" }),
        Encoding::Linear => json!({ "type": "audio/pcm", "rate": 24_000 }),
    }
}

struct Realtime(Options);

impl Listener for Realtime {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn retries(&self) -> u32 {
        self.0.patience.retries
    }

    fn turn_max(&self) -> Duration {
        self.0.patience.turn()
    }

    fn format(&self, leg: Format) -> Format {
        match leg.encoding {
            Encoding::Mulaw | Encoding::Alaw => leg,
            Encoding::Linear => Format::SLIN24,
        }
    }

    fn listen(
        &self,
        format: Format,
        input: mpsc::Receiver<Hear>,
        words: mpsc::Sender<Heard>,
    ) -> BoxFuture<'static, Result<(), Fault>> {
        let codec = Transcriber::new(format, self.0.patience.turn(), self.0.life(), self.0.settings(format));
        session::run(self.0.dial(), codec, input, words).boxed()
    }
}

/// The open turn: what the server has in its buffer.
#[derive(Default)]
struct Turn {
    bytes: usize,
    /// Models that do not wait for the commit name the item before it.
    item: Option<String>,
    text: String,
}

/// A turn that was committed.
struct Asked {
    item: Option<String>,
    text: String,
    is_whole: bool,
    since: Instant,
}

struct Transcriber {
    format: Format,
    /// From the end of a turn to its words.
    turn_max: Duration,
    /// Of one connection.
    life: Duration,
    settings: Value,
    lead: Lead,
    turn: Option<Turn>,
    asked: VecDeque<Asked>,
    /// The item of a turn that was none: what still comes of it is nobody's.
    dropped: Option<String>,
}

impl Transcriber {
    fn new(format: Format, turn_max: Duration, life: Duration, settings: Value) -> Self {
        let lead = Lead::new(format);
        Self { format, turn_max, life, settings, lead, turn: None, asked: VecDeque::new(), dropped: None }
    }

    fn append(turn: &mut Turn, audio: &[u8], talk: &mut Talk) {
        turn.bytes += audio.len();
        talk.wires.push_back(json::audio(r#"{"type":"input_audio_buffer.append","audio":""#, audio, r#""}"#));
    }

    fn end(&mut self, now: Instant, talk: &mut Talk) {
        self.lead.take();
        let Turn { bytes, item, text } = self.turn.take().unwrap_or_default();
        let is_whole = self.format.duration_of(bytes) < COMMIT_MIN;
        let kind = if is_whole { "input_audio_buffer.clear" } else { "input_audio_buffer.commit" };
        talk.send(&json!({ "type": kind }));
        self.asked.push_back(Asked { item, text, is_whole, since: now });
        self.answer(talk);
    }

    /// Tells every turn whose words are complete, in order.
    fn answer(&mut self, talk: &mut Talk) {
        while self.asked.front().is_some_and(|asked| asked.is_whole) {
            if let Some(asked) = self.asked.pop_front() {
                talk.tell(Heard::Turn { text: asked.text.trim().to_owned() });
            }
        }
    }

    fn named(&mut self, item: &str) -> Option<&mut Asked> {
        self.asked.iter_mut().find(|asked| asked.item.as_deref() == Some(item))
    }

    fn committed(&mut self, item: &str) {
        if self.named(item).is_none()
            && let Some(asked) = self.asked.iter_mut().find(|asked| asked.item.is_none() && !asked.is_whole)
        {
            asked.item = Some(item.to_owned());
        }
    }

    fn delta(&mut self, item: &str, delta: &str, talk: &mut Talk) {
        let alone = self.turn.is_none() && self.asked.len() == 1;
        let text = if let Some(asked) = self.named(item) {
            text::extend(&mut asked.text, delta);
            Some(&asked.text).filter(|_| alone)
        } else if self.dropped.as_deref() == Some(item) {
            None
        } else if let Some(turn) = &mut self.turn {
            turn.item = Some(item.to_owned());
            text::extend(&mut turn.text, delta);
            Some(&turn.text)
        } else {
            None
        };
        if let Some(text) = text.map(|text| text.trim()).filter(|text| !text.is_empty()) {
            talk.tell(Heard::Partial { text: text.to_owned(), stable: false });
        }
    }

    /// All that is sent here matters, so every error does.
    fn error(&mut self, error: &Value, talk: &mut Talk) -> Result<(), Fault> {
        let code = http::fault_name(error);
        let status = match code.as_deref() {
            Some("input_audio_buffer_commit_empty") => {
                let empty = self.asked.iter_mut().find(|asked| asked.item.is_none() && !asked.is_whole);
                empty.into_iter().for_each(|asked| asked.is_whole = true);
                self.answer(talk);
                return Ok(());
            }
            Some("session_expired") => return Err(Fault::Closed(None)),
            Some(code) if code.contains("rate_limit") => 429,
            _ if error["type"] == "server_error" => 500,
            _ => 400,
        };
        Err(Fault::Reported { like: Some(status), code })
    }

    /// One utterance without words is no reason to stop listening, unless the next ones will have none either.
    fn failed(&mut self, item: &str, error: &Value, talk: &mut Talk) -> Result<(), Fault> {
        if http::fault_name(error).is_some_and(|code| lasting(&code).is_some() || code.contains("rate_limit")) {
            return self.error(error, talk);
        }
        if let Some(asked) = self.named(item) {
            asked.text.clear();
            asked.is_whole = true;
        }
        self.answer(talk);
        Ok(())
    }
}

impl Codec for Transcriber {
    fn life(&self) -> Option<Duration> {
        Some(self.life)
    }

    fn is_idle(&self) -> bool {
        self.turn.is_none() && self.asked.is_empty()
    }

    fn open(&mut self, talk: &mut Talk) {
        talk.send(&self.settings);
    }

    fn hear(&mut self, hear: Hear, now: Instant, talk: &mut Talk) {
        match hear {
            Hear::Audio(audio) => {
                if let Some(turn) = &mut self.turn {
                    Self::append(turn, &audio, talk);
                }
                self.lead.hear(audio);
            }
            Hear::TurnBegan if self.turn.is_none() => {
                let mut turn = Turn::default();
                let lead: Vec<u8> = self.lead.take().into_iter().flatten().collect();
                if !lead.is_empty() {
                    Self::append(&mut turn, &lead, talk);
                }
                self.lead.hear(lead.into());
                self.turn = Some(turn);
            }
            Hear::TurnBegan | Hear::TurnMayEnd | Hear::TurnGoesOn => {}
            Hear::TurnEnded => {
                self.end(now, talk);
                self.lead.take();
            }
            Hear::TurnDropped => {
                // The next turn brings its own lead.
                self.lead.take();
                if let Some(turn) = self.turn.take() {
                    self.dropped = turn.item.or(self.dropped.take());
                    talk.send(&json!({ "type": "input_audio_buffer.clear" }));
                }
            }
        }
    }

    fn read(&mut self, wire: &Wire, _now: Instant, talk: &mut Talk) -> Result<(), Misread> {
        let mut message: Value = json::parse(wire.bytes())?;
        let kind = message["type"].as_str().unwrap_or_default().to_owned();
        let item = message["item_id"].as_str().unwrap_or_default().to_owned();
        match &*kind {
            "session.updated" => {
                let wanted = &self.settings["session"]["audio"]["input"]["format"]["type"];
                if message["session"]["audio"]["input"]["format"]["type"] != *wanted {
                    return Err(Fault::Garbage("the session has another audio format").into());
                }
                talk.tell(Heard::Ready);
            }
            "input_audio_buffer.committed" => self.committed(&item),
            "conversation.item.input_audio_transcription.delta" => {
                self.delta(&item, message["delta"].as_str().unwrap_or_default(), talk);
            }
            "conversation.item.input_audio_transcription.completed" => {
                if let Ok(usage) = serde_json::from_value::<TranscriptionUsage>(message["usage"].take()) {
                    talk.tell(Heard::Usage(usage.into()));
                }
                let words = message["transcript"].as_str().ok_or(Malformed)?;
                if let Some(asked) = self.named(&item) {
                    asked.text.clear();
                    text::extend(&mut asked.text, words);
                    asked.is_whole = true;
                }
                self.answer(talk);
            }
            "conversation.item.input_audio_transcription.failed" => self.failed(&item, &message["error"], talk)?,
            "error" => self.error(&message["error"], talk)?,
            _ => {}
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.asked.front().map(|asked| asked.since + self.turn_max)
    }

    fn late(&mut self, now: Instant, _talk: &mut Talk) -> Result<(), Fault> {
        match self.deadline() {
            Some(deadline) if now >= deadline => Err(Fault::Slow(self.turn_max)),
            _ => Ok(()),
        }
    }
}
