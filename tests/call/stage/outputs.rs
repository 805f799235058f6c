//! Queries of a [`Stage`] about the outputs of its call.

use super::{Stage, VOICE};
use bytes::Bytes;
use offhook_core::{
    call::{AgentCommand, EndReason, LegCommand, Measure, Note, Output, Reply},
    tool::{Approved, Audit},
};
use serde_json::Value;
use std::time::Duration;

impl Stage {
    /// Calls that began to run.
    pub fn approved(&self) -> Vec<Approved> {
        self.seen
            .iter()
            .filter_map(|(_, output)| if let Output::RunTool(call) = output { Some(call.clone()) } else { None })
            .collect()
    }

    /// Names of the calls that began to run.
    pub fn ran(&self) -> Vec<String> {
        self.approved().iter().map(|call| call.name().to_owned()).collect()
    }

    /// Answers to tool calls: the provider's id, the envelope, and whether the agent is
    /// to speak.
    pub fn answers(&self) -> Vec<(String, Value, Reply)> {
        self.to_agent()
            .filter_map(|command| match command {
                AgentCommand::ToolResult { call_id, output, reply } => {
                    Some((call_id.clone(), serde_json::from_str(output).unwrap(), *reply))
                }
                _ => None,
            })
            .collect()
    }

    /// The last answer's envelope.
    pub fn answer(&self) -> Value {
        self.answers().pop().expect("an answer").1
    }

    /// The token that the agent was given last.
    pub fn token(&self) -> String {
        let requests = self.answers().into_iter().rev();
        let mut tokens = requests.filter_map(|(_, envelope, _)| {
            envelope["error"]["confirmation_request"]["token"].as_str().map(str::to_owned)
        });
        tokens.next().expect("a token")
    }

    /// Texts that the agent was told to say.
    pub fn told_to_say(&self) -> Vec<String> {
        let say = |command: &AgentCommand| match command {
            AgentCommand::Say { text } => Some(text.clone()),
            _ => None,
        };
        self.to_agent().filter_map(say).collect()
    }

    /// Which slow tools were announced, and when.
    pub fn announced(&self) -> Vec<(Duration, String)> {
        let announced = |(at, output): &(Duration, Output)| match output {
            Output::Note(Note::Announced { tool }) => Some((*at, tool.clone())),
            _ => None,
        };
        self.seen.iter().filter_map(announced).collect()
    }

    /// Texts that the agent was told to act upon, each with whether to speak of it now.
    pub fn told(&self) -> Vec<(String, Reply)> {
        let tell = |command: &AgentCommand| match command {
            AgentCommand::Tell { text, reply } => Some((text.clone(), *reply)),
            _ => None,
        };
        self.to_agent().filter_map(tell).collect()
    }

    pub fn audits(&self) -> Vec<Audit> {
        let audit = |note: &Note| if let Note::Audit(audit) = note { Some(Audit::clone(audit)) } else { None };
        self.notes().into_iter().filter_map(audit).collect()
    }

    /// Frames that left, in order: `true` is the agent's voice.
    pub fn slots(&self) -> Vec<(Duration, bool)> {
        let slot = |(at, output): &(Duration, Output)| match output {
            Output::ToLeg(LegCommand::Play(frame)) => Some((*at, frame.contains(&VOICE))),
            _ => None,
        };
        self.seen.iter().filter_map(slot).collect()
    }

    /// Frames that left, in order, and what they are made of; `None` is silence.
    pub fn frames(&self) -> Vec<(Duration, Option<u8>)> {
        let frame = |(at, output): &(Duration, Output)| match output {
            Output::ToLeg(LegCommand::Play(frame)) => {
                Some((*at, frame.first().copied().filter(|_| !is_silence(frame))))
            }
            _ => None,
        };
        self.seen.iter().filter_map(frame).collect()
    }

    /// When frames of this byte left.
    pub fn heard(&self, byte: u8) -> Vec<Duration> {
        let heard = |(at, output): &(Duration, Output)| match output {
            Output::ToLeg(LegCommand::Play(frame)) if frame.first() == Some(&byte) => Some(*at),
            _ => None,
        };
        self.seen.iter().filter_map(heard).collect()
    }

    /// Milliseconds of the agent's voice that left.
    pub fn voice_ms(&self) -> usize {
        self.slots().iter().filter(|(_, voice)| *voice).count() * 20
    }

    /// Commands to the agent, without the silence that fills the caller's gaps.
    pub fn commands(&self) -> Vec<&AgentCommand> {
        let filler = |command: &AgentCommand| matches!(command, AgentCommand::Audio(audio) if is_silence(audio));
        self.to_agent().filter(|command| !filler(command)).collect()
    }

    /// Frames of silence that the agent was sent.
    pub fn fillers(&self) -> usize {
        self.to_agent().filter(|command| matches!(command, AgentCommand::Audio(audio) if is_silence(audio))).count()
    }

    fn to_agent(&self) -> impl Iterator<Item = &AgentCommand> {
        self.seen
            .iter()
            .filter_map(|(_, output)| if let Output::ToAgent(command) = output { Some(command) } else { None })
    }

    /// What was asked of the leg besides sound.
    pub fn leg_commands(&self) -> Vec<&LegCommand> {
        self.seen
            .iter()
            .filter_map(|(_, output)| match output {
                Output::ToLeg(LegCommand::Play(_) | LegCommand::Flush) => None,
                Output::ToLeg(command) => Some(command),
                _ => None,
            })
            .collect()
    }

    pub fn flushes(&self) -> usize {
        self.seen.iter().filter(|(_, output)| matches!(output, Output::ToLeg(LegCommand::Flush))).count()
    }

    pub fn notes(&self) -> Vec<&Note> {
        self.seen
            .iter()
            .filter_map(|(_, output)| if let Output::Note(note) = output { Some(note) } else { None })
            .collect()
    }

    pub fn measures(&self) -> Vec<Measure> {
        self.seen
            .iter()
            .filter_map(|(_, output)| if let Output::Measure(measure) = output { Some(*measure) } else { None })
            .collect()
    }

    pub fn ended(&self) -> Option<(Duration, EndReason)> {
        let end = |(at, output): &(Duration, Output)| match output {
            Output::End(reason) => Some((*at, *reason)),
            _ => None,
        };
        let ends: Vec<_> = self.seen.iter().filter_map(end).collect();
        assert!(ends.len() <= 1, "a call ends once");
        if !ends.is_empty() {
            assert!(matches!(self.seen.last(), Some((_, Output::End(_)))), "nothing comes after the end");
            assert_eq!(self.machine.deadline(), None, "no timer outlives the call");
        }
        ends.first().copied()
    }

    /// How long the call has lasted.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    pub fn has_deadline(&self) -> bool {
        self.machine.deadline().is_some()
    }

    pub fn end_reason(&self) -> Option<EndReason> {
        self.ended().map(|(_, reason)| reason)
    }
}

fn is_silence(audio: &Bytes) -> bool {
    audio.iter().all(|byte| *byte == 0xff)
}
