//! What the engine says to agents that take text as the caller's words only.

/// Marks what the caller did not say, for the model and for the transcript that comes back.
const MARK: &str = "[Message of the telephone system, not of the caller]";

/// Something has happened that the agent has to know.
pub(super) fn told(text: &str) -> String {
    format!("{MARK} {text}")
}

/// Something of this meaning is to be said now.
pub(super) fn to_say(text: &str) -> String {
    told(&format!(
        "Now say something of exactly this meaning, in the language of the conversation, and nothing more: {text}"
    ))
}

pub(super) fn to_greet(text: Option<&str>) -> String {
    match text {
        None => told("The caller has just been connected. Speak first: greet them."),
        Some(text) => told(&format!(
            "The caller has just been connected. Speak first. Say exactly this, and nothing more: {text}"
        )),
    }
}

/// Some vendors report such a text as if the caller had said it.
pub(super) fn is_aside(transcript: &str) -> bool {
    transcript.contains(MARK)
}
