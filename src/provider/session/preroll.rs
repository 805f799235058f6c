//! What the call says before the provider is ready.

use crate::{audio::Format, call::AgentCommand};
use std::{collections::VecDeque, time::Duration};

/// Greeting, prompts and tool answers that may wait for the provider. A call sends a handful; more
/// means that something loops, and then the command queue itself fills and the call takes notice.
const OTHERS_MAX: usize = 32;

/// Commands in their order, the audio among them bounded: beyond the bound the oldest goes.
pub(super) struct Preroll {
    commands: VecDeque<AgentCommand>,
    audio_bytes: usize,
    audio_bytes_max: usize,
}

impl Preroll {
    pub(super) fn new(leg: Format, audio_max: Duration) -> Self {
        let frames = audio_max.as_millis() / crate::audio::FRAME.as_millis();
        let audio_bytes_max = usize::try_from(frames).unwrap_or(usize::MAX).saturating_mul(leg.frame_bytes());
        Self { commands: VecDeque::new(), audio_bytes: 0, audio_bytes_max }
    }

    pub(super) fn has_room(&self) -> bool {
        self.others() < OTHERS_MAX
    }

    /// Returns how many pieces of audio had to go.
    pub(super) fn push(&mut self, command: AgentCommand) -> u64 {
        if let AgentCommand::Audio(audio) = &command {
            self.audio_bytes += audio.len();
        }
        self.commands.push_back(command);
        let mut dropped = 0;
        while self.audio_bytes > self.audio_bytes_max {
            let oldest = self.commands.iter().position(|command| matches!(command, AgentCommand::Audio(_)));
            let Some(AgentCommand::Audio(audio)) = oldest.and_then(|at| self.commands.remove(at)) else { break };
            self.audio_bytes -= audio.len();
            dropped += 1;
        }
        dropped
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = AgentCommand> {
        self.audio_bytes = 0;
        self.commands.drain(..)
    }

    fn others(&self) -> usize {
        self.commands.iter().filter(|command| !matches!(command, AgentCommand::Audio(_))).count()
    }
}
