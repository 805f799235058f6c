//! A model behind `POST /chat/completions`: its answers as they are streamed, and what it was asked.

use super::{Asked, Bit, Reply};
use crate::kit::vendor::Call;
use serde_json::{Value, json};

pub const STREAM: &str = "text/event-stream";

/// One event of the stream.
pub fn event(data: &Value) -> Bit {
    Bit::Bytes(format!("data: {data}\n\n").into_bytes())
}

pub fn chunk(delta: Value, finish: Option<&str>) -> Bit {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    event(&json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice] }))
}

/// A part of a call: the first has an id and a name, the others have arguments.
pub fn fragment(index: u64, call: Option<&Call>, arguments: &str) -> Bit {
    let mut fragment = json!({ "index": index, "function": { "arguments": arguments } });
    if let Some(Call { id, name, .. }) = call {
        (fragment["id"], fragment["type"]) = (id.as_str().into(), "function".into());
        fragment["function"]["name"] = name.as_str().into();
    }
    chunk(json!({ "tool_calls": [fragment] }), None)
}

/// A whole answer of these chunks.
pub fn stream(chunks: Vec<Bit>, finish: &str) -> Reply {
    let usage = json!({ "prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30 });
    let mut bits = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    bits.extend(chunks);
    bits.push(chunk(json!({}), Some(finish)));
    bits.push(event(&json!({ "choices": [], "usage": usage })));
    bits.push(Bit::Bytes(b"data: [DONE]\n\n".to_vec()));
    Reply { status: 200, kind: STREAM, bits }
}

/// Word by word.
pub fn words(text: &str) -> Vec<Bit> {
    text.split_inclusive(' ').map(|word| chunk(json!({ "content": word }), None)).collect()
}

pub fn says(text: &str) -> Reply {
    stream(words(text), "stop")
}

/// The same in one piece that has so many bytes and more, in lines that are not too long.
pub fn padded(text: &str, bytes: usize) -> Reply {
    const LINE: usize = 500_000;
    let mut reply = says(text);
    let padding = event(&json!({ "choices": [], "padding": "x".repeat(LINE) }));
    reply.bits.splice(0..0, vec![padding; bytes.div_ceil(LINE)]);
    let pieces = reply.bits.iter().map(|bit| if let Bit::Bytes(bytes) = bit { &bytes[..] } else { &[] });
    reply.bits = vec![Bit::Bytes(pieces.collect::<Vec<_>>().concat())];
    reply
}

pub fn calls(calls: &[Call]) -> Reply {
    let whole = |(index, call): (usize, &Call)| fragment(index as u64, Some(call), &call.arguments.to_string());
    stream(calls.iter().enumerate().map(whole).collect(), "tool_calls")
}

impl Asked {
    fn messages(&self) -> impl Iterator<Item = &Value> {
        self.body["messages"].as_array().into_iter().flatten()
    }

    /// What these have said, oldest first: `system`, `user`, `assistant`.
    pub fn said_by(&self, role: &str) -> Vec<String> {
        let said = self.messages().filter(|message| message["role"] == role);
        said.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// The caller's turns, and not what the telephone system says in their place.
    pub fn turns(&self) -> usize {
        self.said_by("user").iter().filter(|said| !said.starts_with('[')).count()
    }

    /// What was said last is the result of a tool.
    pub fn answers_results(&self) -> bool {
        self.messages().last().is_some_and(|message| message["role"] == "tool")
    }

    /// Ids and results of the tools that ran.
    pub fn results(&self) -> Vec<(String, String)> {
        let results = self.messages().filter(|message| message["role"] == "tool");
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        results.map(|message| (word(&message["tool_call_id"]), word(&message["content"]))).collect()
    }
}
