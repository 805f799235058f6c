//! Summaries of long calls, written in responses outside the conversation: nothing of them is spoken, and they may run
//! beside an answer. Source: <https://developers.openai.com/api/docs/guides/realtime-conversations>, "Create responses
//! outside the default conversation".

use super::server::ResponseBody;
use crate::{
    call::{AgentEvent, Noise, Usage},
    provider::{Wire, asides::SUM_UP},
    remote::json::text,
};
use serde_json::json;

/// The name of the mark in the response's metadata, by which its events are known.
const MARK: &str = "offhook_summary";
/// 150 words are asked for; this also holds for languages that need three tokens for a word.
const TOKENS_MAX: u32 = 600;

pub(super) fn request(mark: u64, record: &str) -> Wire {
    let message = |role: &str, words: &str| json!({ "type": "message", "role": role, "content": [{ "type": "input_text", "text": words }] });
    text(&json!({
        "type": "response.create",
        "event_id": format!("offhook_summary_{mark}"),
        "response": {
            "conversation": "none",
            "metadata": { MARK: mark.to_string() },
            "output_modalities": ["text"],
            "max_output_tokens": TOKENS_MAX,
            "tools": [],
            "instructions": SUM_UP,
            "input": [message("user", record)],
        },
    }))
}

/// Whether this response is a summary, and which.
pub(super) fn mark(response: &ResponseBody) -> Option<u64> {
    response.metadata.as_ref()?.get(MARK)?.as_str()?.parse().ok()
}

/// One that was cut short says something all the same; one without a word says nothing.
pub(super) fn done(mark: u64, response: ResponseBody, events: &mut Vec<AgentEvent>) {
    events.extend(response.usage.map(|usage| AgentEvent::Usage(Usage::from(usage))));
    let contents = response.output.into_iter().flatten().filter_map(|item| item.content).flatten();
    let text: String = contents.filter_map(|content| content.text).collect();
    events.push(match text.trim() {
        "" => AgentEvent::Noise(Noise::CommandRefused),
        text => AgentEvent::Summary { mark, text: text.to_owned() },
    });
}
