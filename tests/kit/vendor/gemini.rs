//! Gemini Live on the wire, from the server's side. It numbers no answers, and believes that what it has sent is
//! heard in real time: only then is a turn complete.

use super::{Call, Dialect, End, Failure, Heard, Opening, Saying, SetUp};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use offhook::{audio::Format, call::CallerTurn, tool::asks_the_caller};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Message, protocol::CloseFrame};

/// As the vendor counts a turn.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Turn {
    #[default]
    None,
    Generating(u32),
    /// All was sent; until then it is not heard.
    Playing(u32, Instant),
    /// It was told so, and its turn is still to be complete.
    Interrupted(u32),
    /// Nothing more is said before the calls are answered.
    Called,
}

#[derive(Default)]
pub struct Gemini {
    set_up: bool,
    told_turns: bool,
    turn: Turn,
    /// Until then the audio that was sent is heard.
    heard_at: Option<Instant>,
    /// Names of calls that want an answer.
    open: BTreeMap<String, String>,
    /// Tools that the model does not wait for.
    talks_on: BTreeSet<String>,
}

impl Dialect for Gemini {
    const KIND: &'static str = "gemini_live";
    const END_OF_TURN: Option<&'static str> = Some("activityEnd");
    const RESULT_MAX: usize = 2048;

    fn options(address: SocketAddr) -> Value {
        json!({ "api_key": "key-of-the-test", "base_url": format!("ws://{address}") })
    }

    /// Before the set-up stands, 1007 refuses it; afterwards it is about a message of ours.
    fn loss(end: End) -> &'static str {
        match end {
            End::Closed { code: 1007, stood: true } => "protocol",
            other => other.usual_loss(),
        }
    }

    /// Its answers have no names; what comes before a turn is over belongs to that turn.
    fn late_audio(pieces: usize) -> (&'static str, usize) {
        ("offhook_provider_noise_total{kind=\"late_audio\"", pieces)
    }

    /// The cancellation of a tool call.
    const ODD_IDS: usize = 1;

    fn refuses_a_key() -> Opening {
        Opening::CloseAtSetUp(1007, "API key not valid. Please pass a valid API key.")
    }

    fn tokens() -> BTreeMap<&'static str, u64> {
        [("input_text", 12), ("input_audio", 8), ("output_audio", 10)].into()
    }

    fn hear(&mut self, message: Message) -> Vec<Heard> {
        let Message::Text(words) = message else { return vec![Heard::Violation("a binary message".into())] };
        let Ok(Value::Object(message)) = serde_json::from_str(&words) else {
            return vec![Heard::Violation("no JSON object".into())];
        };
        let mut heard = self.played();
        heard.extend(match message.into_iter().collect::<Vec<_>>().as_slice() {
            [(kind, setup)] if kind == "setup" => vec![self.set_up(setup)],
            [_] if !self.set_up => vec![Heard::Violation("something before the set-up".into())],
            [(kind, input)] if kind == "realtimeInput" => self.realtime(input),
            [(kind, content)] if kind == "clientContent" => self.user_turn(content),
            [(kind, answers)] if kind == "toolResponse" => self.answers(answers),
            other => vec![Heard::Violation(format!("a message of {other:?}"))],
        });
        heard
    }

    fn say(&mut self, saying: &Saying) -> Vec<Message> {
        match saying {
            Saying::Ready => vec![wire(json!({ "setupComplete": {} }))],
            Saying::ResponseStarted { response } => {
                let over = self.over();
                self.turn = Turn::Generating(*response);
                over
            }
            Saying::Audio { response, audio } => self.speak(*response, audio),
            Saying::AgentWords { text, .. } => vec![content(json!({ "outputTranscription": { "text": text } }))],
            Saying::ToolCalls { calls, .. } => vec![self.call(calls)],
            Saying::ToolCallsCancelled { ids } => {
                self.open.retain(|id, _| !ids.contains(id));
                vec![wire(json!({ "toolCallCancellation": { "ids": ids } }))]
            }
            Saying::ResponseDone { response } if self.turn == Turn::Generating(*response) => {
                self.turn = Turn::Playing(*response, self.heard_at.unwrap_or_else(Instant::now));
                vec![content(json!({ "generationComplete": true }))]
            }
            Saying::Interrupted { response } if self.turn == Turn::Generating(*response) => self.interrupt(),
            Saying::CallerSpeechStarted { .. } => self.interrupt(),
            Saying::CallerWords { text, .. } => vec![content(json!({ "inputTranscription": { "text": text } }))],
            Saying::Usage => vec![wire(json!({ "usageMetadata": {
                "promptTokenCount": 20, "responseTokenCount": 10, "totalTokenCount": 30,
                "promptTokensDetails": [{ "modality": "AUDIO", "tokenCount": 8 }],
                "responseTokensDetails": [{ "modality": "AUDIO", "tokenCount": 10 }],
            } }))],
            Saying::GoAway { within } => {
                vec![wire(json!({ "goAway": { "timeLeft": format!("{}s", within.as_secs_f64()) } }))]
            }
            Saying::Resumable { handle } => {
                vec![wire(json!({ "sessionResumptionUpdate": { "newHandle": handle, "resumable": true } }))]
            }
            Saying::Failure(failure) => vec![Message::Close(Some(CloseFrame {
                code: 1011.into(),
                reason: match failure {
                    Failure::Quota => "You exceeded your current quota, please check your plan and billing details.",
                    Failure::Throttled => "RESOURCE_EXHAUSTED: Resource has been exhausted (e.g. check quota).",
                    Failure::Expired => "Deadline expired before operation could complete.",
                }
                .into(),
            }))],
            Saying::Unknown => vec![wire(json!({ "hologram": {} }))],
            Saying::Malformed => vec![Message::binary(&b"{\"serverContent\":"[..])],
            Saying::Huge(bytes) => vec![content(json!({ "groundingMetadata": { "padding": "x".repeat(*bytes) } }))],
            // It has no words for these, waits without a word, or speaks when it can.
            Saying::ReadyOtherwise
            | Saying::ResponseDone { .. }
            | Saying::Interrupted { .. }
            | Saying::CallerSpeechStopped { .. }
            | Saying::Busy
            | Saying::Ping => Vec::new(),
        }
    }
}

impl Gemini {
    fn set_up(&mut self, setup: &Value) -> Heard {
        let modalities = &setup["generationConfig"]["responseModalities"];
        let needed = setup["sessionResumption"].is_object() && setup["contextWindowCompression"].is_object();
        if std::mem::replace(&mut self.set_up, true) || *modalities != json!(["AUDIO"]) || !needed {
            return Heard::Violation(format!("a set-up like {setup}"));
        }
        for tool in setup["tools"][0]["functionDeclarations"].as_array().into_iter().flatten() {
            let name = tool["name"].as_str().unwrap_or_default();
            match tool["behavior"].as_str() {
                Some("BLOCKING") if !asks_the_caller(name) => {}
                Some("NON_BLOCKING") if asks_the_caller(name) => drop(self.talks_on.insert(name.to_owned())),
                other => return Heard::Violation(format!("{name} with a behaviour of {other:?}")),
            }
        }
        self.told_turns = setup["realtimeInputConfig"]["automaticActivityDetection"]["disabled"] == true;
        Heard::SetUp(SetUp { hears: Format::SLIN16, speaks: Format::SLIN24, detects: !self.told_turns })
    }

    fn realtime(&mut self, input: &Value) -> Vec<Heard> {
        let parts = input.as_object().map(|parts| parts.iter().map(|(key, value)| (key.as_str(), value)).collect());
        let parts: Vec<_> = parts.unwrap_or_default();
        match parts.as_slice() {
            [("audio", blob)] if blob["mimeType"] == "audio/pcm;rate=16000" => {
                match STANDARD.decode(blob["data"].as_str().unwrap_or_default()) {
                    Ok(audio) if !audio.is_empty() => vec![Heard::Audio(audio)],
                    _ => vec![Heard::Violation("audio that is no base64, or empty".into())],
                }
            }
            [("activityStart", _)] if self.told_turns => {
                let mut heard = vec![Heard::Turn(CallerTurn::Began)];
                match self.turn {
                    Turn::Generating(_) => heard.push(Heard::Cancelled),
                    _ => heard.push(Heard::Reply(self.interrupt())),
                }
                heard
            }
            [("activityEnd", _)] if self.told_turns => {
                vec![Heard::Turn(CallerTurn::Ended), Heard::WantsSpeech { text: None }]
            }
            other => vec![Heard::Violation(format!("realtime input of {other:?}"))],
        }
    }

    /// A user turn, which cuts off whatever is being said and wants an answer.
    fn user_turn(&mut self, content: &Value) -> Vec<Heard> {
        let turn = &content["turns"][0];
        let complete = content["turnComplete"] == true && turn["role"] == "user";
        // One that is spoken to takes back the calls that it waits for.
        let held = self.open.values().any(|name| !self.talks_on.contains(name));
        if !complete || held {
            return vec![Heard::Violation(format!("a turn like {content}, with {} open calls", self.open.len()))];
        }
        let texts = turn["parts"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
        let text = Some(texts.collect::<Vec<_>>().join("\n"));
        let cut = match self.turn {
            Turn::Generating(_) => Heard::Cancelled,
            _ => Heard::Reply(self.interrupt()),
        };
        vec![cut, Heard::WantsSpeech { text }]
    }

    /// With the last answer the model speaks by itself.
    fn answers(&mut self, answers: &Value) -> Vec<Heard> {
        let (mut heard, mut silent) = (Vec::new(), true);
        for answer in answers["functionResponses"].as_array().into_iter().flatten() {
            let id = answer["id"].as_str().unwrap_or_default();
            let named = self.open.remove(id).is_some_and(|name| answer["name"] == *name);
            let (output, long) =
                (answer["response"].to_string(), answer["response"].to_string().len() > Self::RESULT_MAX);
            if !named || !answer["response"].is_object() || long {
                heard.push(Heard::Violation(format!("an answer like {answer}")));
            }
            heard.push(Heard::ToolResult { id: id.to_owned(), output });
            silent &= answer["scheduling"] == "SILENT";
        }
        if self.open.is_empty() && !silent {
            heard.push(Heard::WantsSpeech { text: None });
        }
        heard
    }

    fn call(&mut self, calls: &[Call]) -> Message {
        self.turn = Turn::Called;
        self.open.extend(calls.iter().map(|call| (call.id.clone(), call.name.clone())));
        let calls = calls.iter().map(|call| json!({ "id": call.id, "name": call.name, "args": call.arguments }));
        wire(json!({ "toolCall": { "functionCalls": calls.collect::<Vec<_>>() } }))
    }

    /// Sound of a turn that is complete would be another answer, so there is none.
    fn speak(&mut self, response: u32, audio: &[u8]) -> Vec<Message> {
        match self.turn {
            Turn::Generating(of) | Turn::Playing(of, _) | Turn::Interrupted(of) if of == response => {}
            _ => return Vec::new(),
        }
        let now = Instant::now();
        let begins = self.heard_at.map_or(now, |heard_at| heard_at.max(now));
        self.heard_at = Some(begins + Format::SLIN24.duration_of(audio.len()));
        let blob = json!({ "mimeType": "audio/pcm;rate=24000", "data": STANDARD.encode(audio) });
        vec![content(json!({ "modelTurn": { "role": "model", "parts": [{ "inlineData": blob }] } }))]
    }

    fn interrupt(&mut self) -> Vec<Message> {
        match self.turn {
            Turn::Generating(response) | Turn::Playing(response, _) => {
                (self.turn, self.heard_at) = (Turn::Interrupted(response), None);
                vec![content(json!({ "interrupted": true }))]
            }
            Turn::None | Turn::Interrupted(_) | Turn::Called => Vec::new(),
        }
    }

    /// The end of a turn that is over.
    fn over(&mut self) -> Vec<Message> {
        match self.turn {
            Turn::Playing(..) | Turn::Interrupted(_) => {
                self.turn = Turn::None;
                vec![content(json!({ "turnComplete": true, "interactionStatus": "IDLE" }))]
            }
            Turn::None | Turn::Generating(_) | Turn::Called => Vec::new(),
        }
    }

    /// A turn is complete when it was heard, or interrupted; the caller's audio is the clock.
    fn played(&mut self) -> Vec<Heard> {
        let due = match self.turn {
            Turn::Playing(_, until) => until <= Instant::now(),
            Turn::Interrupted(_) => true,
            Turn::None | Turn::Generating(_) | Turn::Called => false,
        };
        if due { vec![Heard::Reply(self.over())] } else { Vec::new() }
    }
}

/// The server's JSON comes in binary frames.
fn wire(message: Value) -> Message {
    Message::binary(message.to_string().into_bytes())
}

fn content(content: Value) -> Message {
    wire(json!({ "serverContent": content }))
}
