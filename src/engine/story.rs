//! What an agent that takes a call over is told: why, what is known, and what was said.

use crate::{call::Speaker, outbound::mail::Transcript};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// The last minutes, which is what it needs; a longer prompt makes an agent slow.
const TOLD_BYTES_MAX: usize = 8 * 1024;

pub(super) fn told_to_the_next(transcript: &Transcript, message: Option<&str>, known: &Map<String, Value>) -> String {
    let mut story = String::from("You take over a call that is under way. Do not start anew; go on from here.");
    if let Some(message) = message {
        story.push_str("\nWhy the call comes to you: ");
        story.push_str(message);
    }
    for (name, value) in known {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = write!(story, "\nKnown: {name}: {text}");
    }
    let line = |line: &crate::outbound::mail::Line| {
        let who = match line.speaker {
            Speaker::Caller => "Caller",
            Speaker::Agent => "Agent",
        };
        format!("{who}: {}", line.text.reveal())
    };
    let mut said = Vec::new();
    let mut bytes = 0;
    for line in transcript.lines().iter().rev().map(line) {
        bytes += line.len();
        if bytes > TOLD_BYTES_MAX {
            break;
        }
        said.push(line);
    }
    said.reverse();
    if !said.is_empty() {
        story.push_str("\nWhat was said so far:");
        for line in said {
            story.push('\n');
            story.push_str(&line);
        }
    }
    story
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::mail::Line;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn the_next_agent_is_told_why_what_is_known_and_the_last_of_what_was_said() {
        let mut transcript = Transcript::default();
        let mut say = |speaker, text: String| {
            transcript.push(Line { at: Duration::ZERO, speaker, text: text.into() });
        };
        say(Speaker::Agent, "x".repeat(TOLD_BYTES_MAX));
        say(Speaker::Caller, "My order is late.".into());
        say(Speaker::Agent, "I connect you.".into());
        let Value::Object(known) = json!({ "order": "A-7" }) else { unreachable!("an object was written") };
        assert_eq!(
            told_to_the_next(&transcript, Some("a late order"), &known),
            "You take over a call that is under way. Do not start anew; go on from here.\n\
             Why the call comes to you: a late order\nKnown: order: A-7\nWhat was said so far:\n\
             Caller: My order is late.\nAgent: I connect you."
        );
    }
}
