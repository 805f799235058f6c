//! A vendor's side of a session, line by line, with commands of the call in between.

use super::{AgentSetup, Codec, Provider, Wire, build};
use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, CallerTurn, Reply},
    facts::CallId,
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use uuid::Uuid;

/// Begins a line that is a message of bytes.
const BINARY: u8 = 1;
/// Begins a line that is a command: the next byte says which.
const COMMAND: u8 = 2;
/// What a message or a command may be answered with, besides what it holds itself: a session's settings.
const ANSWER_BYTES: usize = 16 << 10;
/// Events that one message may be, besides those it holds.
const EVENTS: usize = 16;

pub fn deepgram_agent(data: &[u8]) {
    static PROVIDER: Made = LazyLock::new(|| made("deepgram_agent", &json!({ "api_key": "k" })));
    session(&PROVIDER, data);
}

pub fn elevenlabs_agent(data: &[u8]) {
    static PROVIDER: Made = LazyLock::new(|| made("elevenlabs_agent", &json!({ "agent_id": "agent_1" })));
    session(&PROVIDER, data);
}

pub use super::elevenlabs::fuzz_signed as elevenlabs_address;

pub fn gemini_live(data: &[u8]) {
    static PROVIDER: Made = LazyLock::new(|| made("gemini_live", &json!({ "api_key": "k" })));
    session(&PROVIDER, data);
}

pub fn openai_realtime(data: &[u8]) {
    static PROVIDER: Made = LazyLock::new(|| made("openai_realtime", &json!({ "api_key": "k" })));
    session(&PROVIDER, data);
}

/// What is remembered of a session, so that commands fit it.
#[derive(Default)]
struct Told {
    audio: Option<(Arc<str>, Arc<str>)>,
    calls: Vec<String>,
    bytes: usize,
}

/// Once: options are checked against a schema, which takes longer than a session.
type Made = LazyLock<Arc<dyn Provider>>;

fn made(kind: &str, options: &Value) -> Arc<dyn Provider> {
    build(kind, options).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn session(provider: &Arc<dyn Provider>, data: &[u8]) {
    let Some((&manner, data)) = data.split_first() else { return };
    let traits = provider.traits();
    let leg = [Format::ULAW, Format::ALAW, Format::SLIN8, Format::SLIN16][usize::from(manner >> 1 & 3)];
    let told_turns = manner & 1 == 1 && traits.takes_turns;
    let setup = AgentSetup { told_turns, ..AgentSetup::new(CallId(Uuid::nil()), leg) };
    let mut codec = provider.remote().codec(&setup);
    let mut replies = Vec::new();
    codec.open(&mut replies);
    let mut told = Told::default();
    for line in data.split(|byte| *byte == b'\n') {
        told.bytes += line.len();
        replies.clear();
        let mut events = Vec::new();
        match line {
            [COMMAND, which, rest @ ..] => {
                let Some(command) = command(*which, rest, leg, &told, &setup, traits.summarises) else { continue };
                codec.encode(command, &mut replies);
            }
            [BINARY, rest @ ..] => {
                codec.decode(Wire::Binary(Bytes::copy_from_slice(rest)), &mut events, &mut replies);
            }
            text => codec.decode(Wire::Text(String::from_utf8_lossy(text).into()), &mut events, &mut replies),
        }
        weigh(line, &events, &replies, &told);
        told.remember(&events);
        if events.iter().any(|event| matches!(event, AgentEvent::Lost(_))) {
            break;
        }
    }
    let mut events = Vec::new();
    codec.audio_gap(&mut events);
    assert!(events.len() <= EVENTS);
    over(&*codec, data);
}

fn over(codec: &dyn Codec, data: &[u8]) {
    // A close frame has room for no more (RFC 6455, section 5.5.1).
    let reason = String::from_utf8_lossy(&data[..data.len().min(123)]);
    let _ = (codec.formats(), codec.keep_alive(), codec.closed(None, ""));
    for code in [1000, 1008, 1011, 4000] {
        let _ = codec.closed(Some(code), &reason);
    }
    let _ = (codec.refused(401), codec.refused(429), codec.refused(500));
}

/// What comes of a line is bounded by the line, and by what came before it and waits.
fn weigh(line: &[u8], events: &[AgentEvent], replies: &[Wire], told: &Told) {
    assert!(events.len() <= EVENTS + told.bytes, "{} events of {} bytes", events.len(), line.len());
    let audio: usize = events
        .iter()
        .map(|event| match event {
            AgentEvent::Audio { audio, .. } => audio.len(),
            _ => 0,
        })
        .sum();
    assert!(audio <= line.len(), "{audio} bytes of audio in {} bytes", line.len());
    let sent: usize = replies.iter().map(|wire| wire.bytes().len()).sum();
    assert!(sent <= ANSWER_BYTES + 8 * told.bytes, "{sent} bytes are answered");
    for reply in replies {
        if let Wire::Text(text) = reply {
            assert!(serde_json::from_str::<Value>(text).is_ok(), "not JSON: {text}");
        }
    }
}

impl Told {
    fn remember(&mut self, events: &[AgentEvent]) {
        for event in events {
            match event {
                AgentEvent::Audio { response, item, .. } => self.audio = Some((response.clone(), item.clone())),
                AgentEvent::ToolCall(call) => self.calls.push(call.id.clone()),
                _ => {}
            }
        }
    }
}

/// What the call may say at this moment; `None`: nothing of this kind.
fn command(
    which: u8,
    rest: &[u8],
    leg: Format,
    told: &Told,
    setup: &AgentSetup,
    summarises: bool,
) -> Option<AgentCommand> {
    let text = || String::from_utf8_lossy(rest).into_owned();
    let reply = if rest.len().is_multiple_of(2) { Reply::Wanted } else { Reply::NotNow };
    Some(match which {
        b'a' => AgentCommand::Audio(vec![leg.silence(); leg.frame_bytes()].into()),
        b'g' => AgentCommand::Greet { text: (!rest.is_empty()).then(text) },
        b's' => AgentCommand::Say { text: text() },
        b't' => AgentCommand::Tell { text: text(), reply },
        b'w' => AgentCommand::Written { text: text() },
        b'i' => {
            let (response, item) = told.audio.clone()?;
            let heard = Duration::from_millis(rest.len() as u64 * 20);
            AgentCommand::Interrupt { response, item, heard, cancel: reply == Reply::Wanted }
        }
        b'r' => {
            let call_id = told.calls.last()?.clone();
            AgentCommand::ToolResult { call_id, output: json!({ "ok": true, "data": text() }).to_string(), reply }
        }
        b'm' if summarises => AgentCommand::Summarise { mark: 7, record: text() },
        b'b' if setup.told_turns => AgentCommand::Turn(CallerTurn::Began),
        b'e' if setup.told_turns => AgentCommand::Turn(CallerTurn::Ended),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, prelude::BASE64_STANDARD};

    /// As large as no vendor's is: minutes of sound in one message, a transcript as long as a book, and no JSON at all. The
    /// socket itself ends at 32 MB.
    #[test]
    fn eight_megabytes_in_one_message_are_read_once_and_answered_with_little() {
        let sound = BASE64_STANDARD.encode(vec![0; 6 << 20]);
        let text = "word ".repeat((8 << 20) / 5);
        let openai = |kind: &str, field: &str, value: &str| {
            let mut message = json!({ "type": kind, "event_id": "e", "response_id": "r", "item_id": "i" });
            message[field] = value.into();
            message
        };
        let part = json!({ "inlineData": { "mimeType": "audio/pcm;rate=24000", "data": sound } });
        type Run = fn(&[u8]);
        let messages: [(Run, Value); 8] = [
            (openai_realtime, openai("response.output_audio.delta", "delta", &sound)),
            (openai_realtime, openai("conversation.item.input_audio_transcription.completed", "transcript", &text)),
            (openai_realtime, openai(&text, "delta", "")),
            (gemini_live, json!({ "serverContent": { "modelTurn": { "parts": [part] } } })),
            (gemini_live, json!({ "serverContent": { "inputTranscription": { "text": text } } })),
            (elevenlabs_agent, json!({ "type": "audio", "audio_event": { "audio_base_64": sound, "event_id": 1 } })),
            (elevenlabs_agent, json!({ "type": "agent_response", "agent_response_event": { "agent_response": text } })),
            (deepgram_agent, json!({ "type": "ConversationText", "role": "user", "content": text })),
        ];
        for (run, message) in messages {
            let message = message.to_string();
            assert!(message.len() >= 8 << 20);
            run(format!("\0{message}").as_bytes());
        }
        for run in [deepgram_agent, elevenlabs_agent, gemini_live, openai_realtime] {
            run(&[b"\0\x01".as_slice(), &vec![b'['; 8 << 20]].concat());
        }
    }
}
