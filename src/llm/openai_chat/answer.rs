//! An answer as its chunks come in: what can be said at once, and calls when they are whole. Pure.

use super::thoughts::Thoughts;
use crate::{
    call::Usage,
    llm::Finish,
    remote::{Fault, http},
    tool::ToolCall,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use uuid::Uuid;

/// No turn of a caller may run so many tools; a service that tells more would fill the memory.
const CALLS_MAX: usize = 64;

/// `chat.completion.chunk`, as far as it matters here. All of it may be missing, or null.
#[derive(Debug, Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Tokens>,
    error: Option<Value>,
    /// `error` where a server tells its fault without an envelope.
    object: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Fragment>>,
}

#[derive(Debug, Deserialize)]
struct Fragment {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
    /// What some servers write here, and not in `function`.
    name: Option<String>,
    arguments: Option<Value>,
    input: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Function {
    name: Option<String>,
    /// A text; some servers give the object itself.
    arguments: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Tokens {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<TokenDetails>,
    completion_tokens_details: Option<TokenDetails>,
}

#[derive(Debug, Default, Deserialize)]
struct TokenDetails {
    cached_tokens: Option<u64>,
    audio_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl From<Tokens> for Usage {
    /// The vendor counts thinking and audio among the output.
    fn from(tokens: Tokens) -> Self {
        let input = tokens.prompt_tokens_details.unwrap_or_default();
        let output = tokens.completion_tokens_details.unwrap_or_default();
        let (input_audio, output_audio) = (input.audio_tokens.unwrap_or(0), output.audio_tokens.unwrap_or(0));
        let thinking = output.reasoning_tokens.unwrap_or(0);
        let text = tokens.completion_tokens.unwrap_or(0).saturating_sub(thinking).saturating_sub(output_audio);
        Self {
            input_text_tokens: tokens.prompt_tokens.unwrap_or(0).saturating_sub(input_audio),
            input_audio_tokens: input_audio,
            input_cached_tokens: input.cached_tokens.unwrap_or(0),
            output_text_tokens: text,
            output_audio_tokens: output_audio,
            output_thinking_tokens: thinking,
            ..Self::default()
        }
    }
}

/// What a chunk brought.
#[derive(Debug, Default, PartialEq)]
pub(super) struct News {
    /// To be said now.
    pub(super) text: String,
    /// The answer went on, be it by a part of a call.
    pub(super) token: bool,
    /// The event could not be read.
    pub(super) malformed: bool,
}

/// One answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    thoughts: Thoughts,
    calls: Vec<Begun>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    done: bool,
    /// Something of it could be read, or nothing of it, though something came.
    read: bool,
    malformed: bool,
}

#[derive(Debug)]
struct Begun {
    index: Option<u64>,
    call: ToolCall,
}

impl Begun {
    /// Tells whether the arguments are whole, so that nothing can follow.
    fn is_whole(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.call.arguments).is_ok()
    }
}

impl Answer {
    /// Takes one event's data. What follows the end counts for its usage only.
    pub(super) fn take(&mut self, data: &str) -> Result<News, Fault> {
        if data.trim() == "[DONE]" {
            self.done = true;
            // Where no reason was given.
            self.finish.get_or_insert(Finish::Stop);
            return Ok(News { text: self.thoughts.rest(), ..News::default() });
        }
        let chunk: Chunk = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            Err(_) if self.finish.is_some() => return Ok(News::default()),
            // Its arguments may have been in it: what is left of them could ask for something else.
            Err(_) if self.calls.iter().any(|begun| !begun.is_whole()) => {
                return Err(Fault::Garbage("an event in the middle of a call holds no chat.completion.chunk"));
            }
            Err(_) => {
                self.malformed = true;
                return Ok(News { malformed: true, ..News::default() });
            }
        };
        if let Some(usage) = chunk.usage {
            // Where every chunk has it, it grows.
            self.usage = Some(usage.into());
        }
        if self.finish.is_some() {
            return Ok(News::default());
        }
        if let Some(error) = chunk.error {
            return Err(told(&error));
        }
        if chunk.object.as_deref() == Some("error") {
            return Err(told(&serde_json::from_str(data).unwrap_or_default()));
        }
        // One answer was asked for.
        let Some(choice) = chunk.choices.into_iter().flatten().next() else { return Ok(News::default()) };
        let delta = choice.delta.unwrap_or_default();
        // A refusal is the model's own words to the caller. What is only thought is not waited for longer than silence.
        let text = [delta.content, delta.refusal].into_iter().flatten().map(|text| self.thoughts.said(&text));
        let text = text.collect::<String>();
        let mut news = News { token: !text.is_empty(), text, malformed: false };
        for fragment in delta.tool_calls.into_iter().flatten() {
            news.token = true;
            self.join(fragment)?;
        }
        self.read |= news.token;
        self.finish = match choice.finish_reason.as_deref() {
            None | Some("") => None,
            Some("length") => Some(Finish::Length),
            Some("content_filter") => Some(Finish::Filtered),
            Some("error") => return Err(told(&Value::Null)),
            // Not only `tool_calls`: several servers say `stop` after calls.
            Some(_) => Some(Finish::Stop),
        };
        if self.finish.is_some() {
            news.text.push_str(&self.thoughts.rest());
        }
        Ok(news)
    }

    /// Nothing follows.
    pub(super) const fn is_done(&self) -> bool {
        self.done
    }

    /// Events came that could not be read.
    pub(super) const fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// Events came, and nothing that was said or called could be read of them.
    pub(super) const fn is_garbage(&self) -> bool {
        self.malformed && !self.read
    }

    /// How it ended, once it has.
    pub(super) const fn finish(&self) -> Option<Finish> {
        self.finish
    }

    pub(super) const fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The calls of an answer that is whole, once; what was cut may be cut in a call's arguments.
    /// One without a name is a call as well: the model is answered that it names no tool.
    pub(super) fn calls(&mut self) -> Vec<ToolCall> {
        if self.finish != Some(Finish::Stop) {
            return Vec::new();
        }
        let whole = |begun: Begun| {
            let mut call = begun.call;
            if call.id.is_empty() {
                call.id = format!("{}{}", ToolCall::UNNAMED, Uuid::new_v4().simple());
            }
            call
        };
        self.calls.drain(..).map(whole).collect()
    }

    fn join(&mut self, fragment: Fragment) -> Result<(), Fault> {
        let id = fragment.id.unwrap_or_default();
        let Function { name, arguments } = fragment.function.unwrap_or_default();
        let name = name.or(fragment.name).unwrap_or_default();
        let arguments = arguments.or(fragment.arguments).or(fragment.input);
        let known = match fragment.index {
            Some(_) => self.calls.iter().rposition(|begun| begun.index == fragment.index),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|begun| begun.call.id == id).or(self.calls.len().checked_sub(1)),
        };
        let known = known.filter(|&at| !begins(&self.calls[at], fragment.index, &id, &name));
        let at = known.unwrap_or(self.calls.len());
        if known.is_none() {
            if at == CALLS_MAX {
                return Err(Fault::Garbage("it calls too many tools at once"));
            }
            let call = ToolCall { id: String::new(), name: String::new(), arguments: String::new() };
            self.calls.push(Begun { index: fragment.index, call });
        }
        let call = &mut self.calls[at].call;
        if call.id.is_empty() {
            call.id = id;
        }
        // Some servers repeat it with every fragment.
        if call.name.is_empty() {
            call.name = name;
        }
        match arguments {
            Some(Value::String(more)) => call.arguments.push_str(&more),
            Some(whole @ Value::Object(_)) => call.arguments = whole.to_string(),
            _ => {}
        }
        Ok(())
    }
}

/// Whether a fragment with this id and name is another call than the one it would go to: some servers number all their
/// calls 0, or none of them; others make a new id, but no name, for each fragment.
fn begins(known: &Begun, index: Option<u64>, id: &str, name: &str) -> bool {
    let other_id = !id.is_empty() && !known.call.id.is_empty() && known.call.id != id;
    !name.is_empty() && (other_id || id.is_empty() && index.is_none() && known.is_whole())
}

/// A fault that is told where an answer was to come.
fn told(error: &Value) -> Fault {
    let code = http::fault_name(error);
    let number = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let status = number.filter(|number| (400..600).contains(number)).unwrap_or(match code.as_deref() {
        Some("invalid_request_error" | "context_length_exceeded") => 400,
        Some(code) if code.contains("rate_limit") || code.contains("quota") => 429,
        _ => 500,
    });
    Fault::Reported { like: Some(status), code }
}

/// Lines as the events of one answer: what is said and called is bounded by what came, and calls are whole.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let (mut answer, mut said, mut came) = (Answer::default(), 0, 0);
    for event in data.split(|byte| *byte == b'\n') {
        let event = String::from_utf8_lossy(event);
        came += event.len();
        let Ok(news) = answer.take(&event) else { return };
        said += news.text.len();
        assert!(said <= came, "{said} bytes are said of {came}");
        if answer.is_done() {
            break;
        }
    }
    let finish = answer.finish();
    let calls = answer.calls();
    assert!(calls.len() <= CALLS_MAX && (calls.is_empty() || finish == Some(Finish::Stop)));
    assert!(calls.iter().all(|call| !call.id.is_empty()));
    let called: usize = calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    assert!(called <= 2 * came, "{called} bytes are called of {came}");
    assert_eq!(answer.calls(), Vec::new(), "calls are told once");
}
