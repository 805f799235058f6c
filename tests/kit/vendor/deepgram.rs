//! Deepgram Voice Agent on the wire, from the server's side.

use super::{Call, Dialect, End, Failure, Heard, Saying, SetUp};
use offhook::{
    audio::{Encoding, Format},
    call::CallerTurn,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};
use tokio_tungstenite::tungstenite::{Message, protocol::CloseFrame};

#[derive(Default)]
pub struct Deepgram {
    set_up: bool,
    /// Flux, which can be told the end of a turn.
    flux: bool,
    /// Calls that wait for an answer: id and name.
    open: BTreeMap<String, String>,
    /// Responses whose audio has begun.
    spoken: BTreeSet<u32>,
    /// The last wish to speak was one that is refused while somebody speaks.
    refusable: bool,
}

impl Dialect for Deepgram {
    const KIND: &'static str = "deepgram_agent";

    fn options(address: SocketAddr) -> Value {
        json!({ "api_key": "key-of-the-test", "base_url": format!("ws://{address}/v1/agent/converse") })
    }

    /// Messages that it cannot read, and policies, are two words for one thing; it has no word for an end by time.
    fn loss(end: End) -> &'static str {
        match end {
            End::Closed { code: 1007 | 1008, .. } => "protocol",
            End::Said(Failure::Expired) => "closed",
            other => other.usual_loss(),
        }
    }

    const END_OF_TURN: Option<&'static str> = Some("ForceEndTurn");
    const FINDS_BEGINNINGS: bool = true;

    const ANSWERS_RESULTS: bool = true;

    /// The cancellation of a tool call; answers have no ids.
    const ODD_IDS: usize = 1;

    fn hello(&mut self) -> Vec<Message> {
        vec![text(json!({ "type": "Welcome", "request_id": "request_1" }))]
    }

    fn hear(&mut self, message: Message) -> Vec<Heard> {
        let words = match message {
            Message::Binary(audio) => return vec![Heard::Audio(audio.to_vec())],
            Message::Text(words) => words,
            _ => return vec![Heard::Violation("neither text nor audio".into())],
        };
        let Ok(message) = serde_json::from_str::<Value>(&words) else {
            return vec![Heard::Violation("no JSON".into())];
        };
        let word = |name: &str| message[name].as_str().map(str::to_owned);
        let members =
            |names: &[&str]| message.as_object().is_some_and(|map| map.keys().all(|key| names.contains(&&**key)));
        let kind = word("type").unwrap_or_default();
        let heard = match &*kind {
            "Settings" if !self.set_up => self.settings(&message),
            "KeepAlive" if members(&["type"]) => Some(vec![Heard::Other]),
            "ForceEndTurn" if members(&["type"]) && self.flux => Some(vec![Heard::Turn(CallerTurn::Ended)]),
            "UpdatePrompt" if members(&["type", "prompt"]) => word("prompt")
                .map(|prompt| vec![Heard::Told(prompt), Heard::Reply(vec![text(json!({ "type": "PromptUpdated" }))])]),
            "InjectAgentMessage" if members(&["type", "message", "behavior"]) => {
                self.refusable = message["behavior"] != "queue";
                word("message").map(|words| vec![Heard::Injection(words)])
            }
            "InjectUserMessage" if members(&["type", "content"]) => {
                self.refusable = true;
                word("content").map(|words| {
                    let echo = conversation("user", &words);
                    vec![Heard::Reply(vec![echo]), Heard::WantsSpeech { text: Some(words) }]
                })
            }
            "FunctionCallResponse" if members(&["type", "id", "name", "content"]) => word("id")
                .zip(word("name"))
                .zip(word("content"))
                .and_then(|((id, name), output)| self.result(id, &name, output)),
            _ => None,
        };
        heard.unwrap_or_else(|| vec![Heard::Violation(format!("{words}"))])
    }

    fn say(&mut self, saying: &Saying) -> Vec<Message> {
        match saying {
            Saying::Ready => vec![text(json!({ "type": "SettingsApplied" }))],
            Saying::Audio { response, audio } => {
                let latencies = json!({
                    "type": "AgentStartedSpeaking", "total_latency": 0.9, "tts_latency": 0.3, "ttt_latency": 0.6,
                });
                let begins = self.spoken.insert(*response).then(|| text(latencies));
                begins.into_iter().chain([Message::binary(audio.clone())]).collect()
            }
            Saying::AgentWords { text, .. } => vec![conversation("assistant", text)],
            Saying::ToolCalls { calls, .. } => {
                self.open.extend(calls.iter().map(|call| (call.id.clone(), call.name.clone())));
                let function = |call: &Call| {
                    let arguments = call.arguments.to_string();
                    json!({ "id": call.id, "name": call.name, "arguments": arguments, "client_side": true })
                };
                let functions: Vec<Value> = calls.iter().map(function).collect();
                vec![text(json!({ "type": "FunctionCallRequest", "functions": functions }))]
            }
            Saying::ToolCallsCancelled { ids } => {
                let take_back = |id: &String| json!({ "id": id, "name": self.open.remove(id).unwrap_or_default() });
                let functions: Vec<Value> = ids.iter().map(take_back).collect();
                vec![text(json!({ "type": "FunctionCallCancelled", "functions": functions }))]
            }
            Saying::ResponseDone { response } if self.spoken.contains(response) => {
                vec![text(json!({ "type": "AgentAudioDone" }))]
            }
            Saying::CallerSpeechStarted { .. } => vec![text(json!({ "type": "UserStartedSpeaking" }))],
            Saying::CallerWords { text, .. } => vec![conversation("user", text)],
            Saying::Busy if self.refusable => {
                vec![text(json!({ "type": "InjectionRefused", "message": "Somebody is speaking." }))]
            }
            Saying::Failure(Failure::Quota) => vec![error("ASR_PAYMENT_REQUIRED"), closed(1008)],
            Saying::Failure(Failure::Throttled) => vec![error("TOO_MANY_REQUESTS"), closed(1008)],
            Saying::Failure(Failure::Expired) => vec![closed(1000)],
            Saying::Unknown => vec![text(json!({ "type": "HologramStarted" }))],
            Saying::Malformed => vec![Message::text("{\"type\":")],
            Saying::Huge(bytes) => vec![text(json!({ "type": "History", "padding": "x".repeat(*bytes) }))],
            // The vendor has no words for it.
            _ => Vec::new(),
        }
    }
}

impl Deepgram {
    fn settings(&mut self, message: &Value) -> Option<Vec<Heard>> {
        let format = |direction: &str| {
            let format = &message["audio"][direction];
            let encoding = match format["encoding"].as_str()? {
                "mulaw" => Encoding::Mulaw,
                "alaw" => Encoding::Alaw,
                "linear16" => Encoding::Linear,
                _ => return None,
            };
            Some(Format { encoding, rate: u32::try_from(format["sample_rate"].as_u64()?).ok()? })
        };
        let (hears, speaks) = (format("input")?, format("output")?);
        self.set_up = message["audio"]["output"]["container"] == "none";
        let listener = &message["agent"]["listen"]["provider"];
        self.flux = listener["version"] == "v2";
        // A listener that is never certain enough leaves the end to the client, unless it may think ahead or grows tired first.
        let uncertain = listener["eot_threshold"] == 1.0;
        let patient = listener.get("eager_eot_threshold").is_none() && listener["eot_timeout_ms"] == 60_000;
        let detects = !(self.flux && uncertain && patient);
        // The agent says it by itself, as soon as the settings are applied.
        let greeting = message["agent"].get("greeting").map(|greeting| greeting.as_str().map(str::to_owned));
        let greets = greeting.map(|text| Heard::WantsSpeech { text });
        self.refusable = false;
        let set_up = Heard::SetUp(SetUp { hears, speaks, detects });
        self.set_up.then(|| [set_up].into_iter().chain(greets).collect())
    }

    /// With the last open answer the agent goes on by itself.
    fn result(&mut self, id: String, name: &str, output: String) -> Option<Vec<Heard>> {
        if self.open.remove(&id)? != name {
            return None;
        }
        self.refusable = false;
        let goes_on = self.open.is_empty().then_some(Heard::WantsSpeech { text: None });
        Some([Heard::ToolResult { id, output }].into_iter().chain(goes_on).collect())
    }
}

fn conversation(role: &str, content: &str) -> Message {
    text(json!({
        "type": "ConversationText", "role": role, "content": content, "conversational_behavior": "default",
    }))
}

fn error(code: &str) -> Message {
    text(json!({ "type": "Error", "code": code, "description": "no" }))
}

fn text(message: Value) -> Message {
    Message::text(message.to_string())
}

fn closed(code: u16) -> Message {
    Message::Close(Some(CloseFrame { code: code.into(), reason: "".into() }))
}
