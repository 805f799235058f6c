//! What an embedded agent and its codec say to each other. Samples travel as binary messages:
//! bare from the caller, behind the number of their answer from the agent.

use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, Noise, Reply, ResponseStatus, Speaker},
    provider::{Codec, Wire},
    tool::ToolCall,
};
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const ANSWER_PREFIX: &str = "answer-";

/// From the call to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToAgent {
    Greet { text: Option<String> },
    Say { text: String },
    Tell { text: String },
    Interrupt { answer: u64, heard_ms: u64, cancel: bool },
    ToolResult { call_id: String, output: String, speak: bool },
}

/// From the agent to the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum FromAgent {
    Ready,
    Started { answer: u64 },
    AudioDone { answer: u64 },
    Done { answer: u64, cancelled: bool },
    Called { id: String, name: String, arguments: String },
    Said { text: String },
    SpeechStarted,
    SpeechStopped,
    Closed { code: u16 },
}

pub(super) fn text<T: Serialize>(message: &T) -> Wire {
    Wire::Text(serde_json::to_string(message).expect("strings, numbers and booleans always serialize"))
}

pub(super) fn audio(answer: u64, samples: &[u8]) -> Wire {
    let mut message = BytesMut::with_capacity(8 + samples.len());
    message.put_u64(answer);
    message.put_slice(samples);
    Wire::Binary(message.freeze())
}

#[derive(Default)]
pub(super) struct ScriptedCodec {
    /// The names of the answer whose audio flows, made once.
    names: Option<(u64, Arc<str>, Arc<str>)>,
}

impl ScriptedCodec {
    fn names(&mut self, answer: u64) -> (Arc<str>, Arc<str>) {
        if let Some((of, response, item)) = &self.names
            && *of == answer
        {
            return (response.clone(), item.clone());
        }
        let names: (Arc<str>, Arc<str>) = (response_id(answer), format!("line-{answer}").into());
        self.names = Some((answer, names.0.clone(), names.1.clone()));
        names
    }

    fn control(&mut self, message: FromAgent) -> AgentEvent {
        match message {
            FromAgent::Ready => AgentEvent::Ready,
            FromAgent::Started { answer } => AgentEvent::ResponseStarted { response: response_id(answer) },
            FromAgent::AudioDone { answer } => {
                let (response, item) = self.names(answer);
                AgentEvent::Audio { response, item, audio: Bytes::new() }
            }
            FromAgent::Done { answer, cancelled } => {
                let status = if cancelled { ResponseStatus::Cancelled } else { ResponseStatus::Completed };
                AgentEvent::ResponseDone { response: response_id(answer), status }
            }
            FromAgent::Called { id, name, arguments } => AgentEvent::ToolCall(ToolCall { id, name, arguments }),
            FromAgent::Said { text } => AgentEvent::Transcript { speaker: Speaker::Agent, text, utterance: None },
            FromAgent::SpeechStarted => AgentEvent::CallerSpeechStarted { utterance: None },
            FromAgent::SpeechStopped => AgentEvent::CallerSpeechStopped,
            FromAgent::Closed { code } => AgentEvent::Lost(self.closed(Some(code), "")),
        }
    }
}

impl Codec for ScriptedCodec {
    fn open(&mut self, _: &mut Vec<Wire>) {}

    fn encode(&mut self, command: AgentCommand, out: &mut Vec<Wire>) {
        out.push(text(&match command {
            AgentCommand::Audio(audio) => return out.push(Wire::Binary(audio)),
            AgentCommand::Greet { text } => ToAgent::Greet { text },
            AgentCommand::Say { text } => ToAgent::Say { text },
            AgentCommand::Tell { text, reply: Reply::Wanted } => ToAgent::Tell { text },
            // A script hears turns by itself.
            AgentCommand::Turn(_) => return,
            // A script has its next turn already.
            AgentCommand::Tell { reply: Reply::NotNow, .. } => return,
            AgentCommand::Interrupt { response, heard, cancel, .. } => {
                let Some(answer) = response.strip_prefix(ANSWER_PREFIX).and_then(|number| number.parse().ok()) else {
                    return;
                };
                let heard_ms = u64::try_from(heard.as_millis()).unwrap_or(u64::MAX);
                ToAgent::Interrupt { answer, heard_ms, cancel }
            }
            AgentCommand::ToolResult { call_id, output, reply } => {
                ToAgent::ToolResult { call_id, output, speak: reply == Reply::Wanted }
            }
        }));
    }

    fn decode(&mut self, wire: Wire, events: &mut Vec<AgentEvent>, _: &mut Vec<Wire>) {
        events.push(match wire {
            Wire::Text(text) => match serde_json::from_str(&text) {
                Ok(message) => self.control(message),
                Err(_) => AgentEvent::Noise(Noise::Malformed),
            },
            Wire::Binary(bytes) => match bytes.first_chunk::<8>() {
                Some(answer) => {
                    let (response, item) = self.names(u64::from_be_bytes(*answer));
                    AgentEvent::Audio { response, item, audio: bytes.slice(8..) }
                }
                None => AgentEvent::Noise(Noise::Malformed),
            },
        });
    }

    fn closed(&self, _: Option<u16>, _: &str) -> AgentLoss {
        AgentLoss::Closed
    }

    fn refused(&self, _: u16) -> AgentLoss {
        AgentLoss::Unreachable
    }
}

fn response_id(answer: u64) -> Arc<str> {
    format!("{ANSWER_PREFIX}{answer}").into()
}
