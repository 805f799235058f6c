//! What was said in a call, for those who take it over or read it afterwards. Kept in memory for
//! as long as the call lasts, and bounded.

use crate::call::Speaker;
use std::{collections::VecDeque, fmt};

/// An hour of talk. The oldest words go first.
const BYTES_MAX: usize = 64 * 1024;
/// What another agent is told: the last minutes, which is what it needs.
const TOLD_BYTES_MAX: usize = 8 * 1024;

/// `Debug` tells how much was said, not what.
#[derive(Default)]
pub(super) struct Story {
    lines: VecDeque<(Speaker, String)>,
    bytes: usize,
    /// Lines that had to go.
    forgotten: u64,
}

impl Story {
    pub fn add(&mut self, speaker: Speaker, text: &str) {
        self.bytes += text.len();
        self.lines.push_back((speaker, text.to_owned()));
        while self.bytes > BYTES_MAX
            && self.lines.len() > 1
            && let Some((_, gone)) = self.lines.pop_front()
        {
            self.bytes -= gone.len();
            self.forgotten += 1;
        }
    }

    pub fn lines(&self) -> impl DoubleEndedIterator<Item = (Speaker, &str)> {
        self.lines.iter().map(|(speaker, text)| (*speaker, text.as_str()))
    }

    /// The instructions of an agent that takes over: what was said, and why it is asked.
    pub fn told_to_the_next(&self, message: Option<&str>) -> String {
        let mut told = Vec::new();
        let mut bytes = 0;
        for (speaker, text) in self.lines().rev() {
            bytes += text.len();
            if bytes > TOLD_BYTES_MAX {
                break;
            }
            told.push(format!("{}: {text}", name(speaker)));
        }
        told.reverse();
        let mut story = String::from("You take over a call that is under way. Do not start anew; go on from here.");
        if let Some(message) = message {
            story.push_str("\nWhy the call comes to you: ");
            story.push_str(message);
        }
        if !told.is_empty() {
            story.push_str("\nWhat was said so far:\n");
            story.push_str(&told.join("\n"));
        }
        story
    }
}

const fn name(speaker: Speaker) -> &'static str {
    match speaker {
        Speaker::Caller => "Caller",
        Speaker::Agent => "Agent",
    }
}

impl fmt::Debug for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Story").field("lines", &self.lines.len()).field("forgotten", &self.forgotten).finish()
    }
}
