//! Between the core's vocabulary and the actor's, which knows answers by their number.

use super::{actor::Input, words_of};
use crate::{
    call::{AgentCommand, AgentEvent, Reply, ResponseStatus, Speaker},
    tool::ToolCall,
};
use bytes::Bytes;
use std::sync::Arc;

const ANSWER_PREFIX: &str = "answer-";

/// From the agent to the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FromAgent {
    Started { answer: u64 },
    Done { answer: u64, cancelled: bool },
    Called { id: String, name: String, arguments: String },
    Said { text: String },
    SpeechStarted,
    SpeechStopped,
}

/// What a command is to the actor; `None` if it is nothing.
pub(super) fn input(command: AgentCommand) -> Option<Input> {
    Some(match command {
        AgentCommand::Audio(audio) => Input::Audio(audio),
        AgentCommand::Greet { text } => Input::Greet { text },
        AgentCommand::Say { text } => Input::Say { text },
        AgentCommand::Tell { text, reply: Reply::Wanted } => Input::Tell { text },
        AgentCommand::Written { .. } => Input::Written,
        // A script hears turns by itself, has its next turn already, and is not asked for summaries.
        AgentCommand::Turn(_) | AgentCommand::Tell { reply: Reply::NotNow, .. } | AgentCommand::Summarise { .. } => {
            return None;
        }
        AgentCommand::Interrupt { response, heard, cancel, .. } => {
            let answer = response.strip_prefix(ANSWER_PREFIX)?.parse().ok()?;
            Input::Interrupt { answer, heard, cancel }
        }
        AgentCommand::ToolResult { call_id, output, reply } => {
            Input::ToolResult { call_id, words: words_of(&output), speak: reply == Reply::Wanted }
        }
    })
}

#[derive(Default)]
pub(super) struct Names {
    /// The name of the answer whose audio flows, made once.
    answer: Option<(u64, Arc<str>)>,
}

impl Names {
    pub(super) fn audio(&mut self, answer: u64, audio: Bytes) -> AgentEvent {
        let name = match &self.answer {
            Some((of, name)) if *of == answer => name.clone(),
            _ => {
                let name = name_of(answer);
                self.answer = Some((answer, name.clone()));
                name
            }
        };
        AgentEvent::Audio { response: name.clone(), item: name, audio }
    }
}

pub(super) fn event(message: FromAgent) -> AgentEvent {
    match message {
        FromAgent::Started { answer } => AgentEvent::ResponseStarted { response: name_of(answer) },
        FromAgent::Done { answer, cancelled } => {
            let status = if cancelled { ResponseStatus::Cancelled } else { ResponseStatus::Completed };
            AgentEvent::ResponseDone { response: name_of(answer), status }
        }
        FromAgent::Called { id, name, arguments } => AgentEvent::ToolCall(ToolCall { id, name, arguments }),
        FromAgent::Said { text } => AgentEvent::Transcript { speaker: Speaker::Agent, text, utterance: None },
        FromAgent::SpeechStarted => AgentEvent::CallerSpeechStarted { utterance: None },
        FromAgent::SpeechStopped => AgentEvent::CallerSpeechStopped,
    }
}

fn name_of(answer: u64) -> Arc<str> {
    format!("{ANSWER_PREFIX}{answer}").into()
}
