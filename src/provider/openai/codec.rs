//! One session's messages, both ways.

use super::{
    floor::{Cancel, Floor, Refused, Request},
    options::{Options, Truncation, TurnDetection},
    server::{
        ArgumentsDone, AudioDelta, AudioDone, ErrorBody, ErrorMessage, FormatState, Item, ResponseBody,
        ResponseMessage, SessionMessage, SpeechStarted, SpokenText, TranscriptionFailed,
    },
    summary,
};
use crate::{
    audio::{Encoding, Format},
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn, Noise, Reply, ResponseStatus, Speaker, Usage},
    provider::{AgentSetup, Codec, SessionFormats, Wire, asides},
    remote::{
        json::{Kind, Malformed, audio, decode_base64, parse, text, with_known},
        lasting,
    },
    sentences::Sentences,
    tool::ToolCall,
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// Spoken items whose length is remembered for truncation. Interruptions concern the last one or
/// two; a response has seldom more than two.
const ITEMS_MAX: usize = 16;
/// Function calls collected for one response; more than that is no answer to a caller.
const CALLS_MAX: usize = 32;
/// The server's code, or type, for too many requests.
const RATE_LIMIT: &str = "rate_limit_exceeded";

pub(super) struct RealtimeCodec {
    options: Arc<Options>,
    instructions: String,
    tools: Arc<[Value]>,
    sentences: Arc<Sentences>,
    formats: SessionFormats,
    /// The engine finds the turns; the server's own detection is off.
    told_turns: bool,
    /// By what the engine has told. Nothing is asked for meanwhile.
    caller_speaks: bool,
    phase: Phase,
    floor: Floor,
    items: VecDeque<SpokenItem>,
    /// Calls whose arguments are complete, by response, until the response is done.
    calls: Vec<(String, ToolCall)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waiting for `session.created`.
    Silent,
    /// Waiting for `session.updated`.
    Asked,
    Ready,
}

struct SpokenItem {
    id: Arc<str>,
    bytes: usize,
    complete: bool,
}

impl RealtimeCodec {
    pub(super) fn new(options: Arc<Options>, setup: &AgentSetup, formats: SessionFormats) -> Self {
        Self {
            options,
            instructions: setup.instructions.clone(),
            tools: setup.tools.clone(),
            sentences: Arc::clone(&setup.sentences),
            formats,
            told_turns: setup.told_turns,
            caller_speaks: false,
            phase: Phase::Silent,
            floor: Floor::default(),
            items: VecDeque::new(),
            calls: Vec::new(),
        }
    }

    fn session_update(&self) -> Value {
        let options = &self.options;
        let turn_detection = match &options.turn_detection {
            _ if self.told_turns => Value::Null,
            TurnDetection::ServerVad { threshold, prefix_padding_ms, silence_duration_ms, idle_timeout_ms } => {
                with_known(
                    json!({ "type": "server_vad", "create_response": true, "interrupt_response": true }),
                    [
                        ("threshold", threshold.map(Value::from)),
                        ("prefix_padding_ms", prefix_padding_ms.map(Value::from)),
                        ("silence_duration_ms", silence_duration_ms.map(Value::from)),
                        ("idle_timeout_ms", idle_timeout_ms.map(Value::from)),
                    ],
                )
            }
            TurnDetection::SemanticVad { eagerness } => json!({
                "type": "semantic_vad", "eagerness": eagerness.name(),
                "create_response": true, "interrupt_response": true,
            }),
        };
        let transcription = options.transcription.as_ref().map(|transcription| {
            let language = transcription.language.clone().map(Value::from);
            with_known(json!({ "model": transcription.model }), [("language", language)])
        });
        let output = with_known(
            json!({ "format": wire_format(self.formats.output), "voice": options.voice }),
            [("speed", options.speed.map(Value::from))],
        );
        let session = json!({
            "type": "realtime",
            "output_modalities": ["audio"],
            "instructions": self.instructions,
            "audio": {
                "input": with_known(
                    json!({
                        "format": wire_format(self.formats.input),
                        "turn_detection": turn_detection,
                        "transcription": transcription,
                    }),
                    [("noise_reduction", options.noise_reduction.map(|kind| json!({ "type": kind.name() })))],
                ),
                "output": output,
            },
            "tools": &*self.tools,
        });
        let truncation = options.truncation.map(|Truncation { retention_ratio, post_instructions_tokens }| {
            let limits = post_instructions_tokens.map(|tokens| json!({ "post_instructions": tokens }));
            with_known(
                json!({ "type": "retention_ratio", "retention_ratio": retention_ratio }),
                [("token_limits", limits)],
            )
        });
        let known = [
            ("max_output_tokens", options.max_output_tokens.map(Value::from)),
            ("reasoning", options.reasoning_effort.map(|effort| json!({ "effort": effort.name() }))),
            ("parallel_tool_calls", options.parallel_tool_calls.map(Value::from)),
            ("truncation", truncation),
        ];
        json!({ "type": "session.update", "session": with_known(session, known) })
    }

    /// A response's own instructions replace the session's, so these are repeated.
    fn say(&mut self, order: &str) {
        // Who wants something said now knows that nobody is listened to any more.
        self.caller_speaks = false;
        let instructions = format!("{}\n\n{order}", self.instructions);
        self.floor.want(Request::Say { instructions });
    }

    fn reply(&mut self, reply: Reply) {
        if reply == Reply::Wanted {
            self.floor.want(Request::Reply);
        }
    }

    /// Sends what waits for the floor, if it is free now.
    fn ask(&mut self, out: &mut Vec<Wire>) {
        if self.caller_speaks {
            return;
        }
        let Some((event_id, request)) = self.floor.next() else { return };
        let message = json!({ "type": "response.create", "event_id": event_id });
        let response = match request {
            Request::Reply => None,
            // What is to be said is known, so nothing is to be done about it.
            Request::Say { instructions } => Some(json!({ "instructions": instructions, "tool_choice": "none" })),
        };
        out.push(text(&with_known(message, [("response", response)])));
    }

    fn cancel(&mut self, out: &mut Vec<Wire>) {
        let message = json!({ "type": "response.cancel" });
        out.extend(self.floor.cancel().map(|cancel| match cancel {
            Cancel::Asked => text(&message),
            Cancel::Active(id) => text(&with_known(message, [("response_id", Some((*id).into()))])),
        }));
    }

    fn turn_of_caller(&mut self, turn: CallerTurn, out: &mut Vec<Wire>) {
        if !self.told_turns {
            return;
        }
        match turn {
            // An answer that is being prepared is one to something else.
            CallerTurn::Began => {
                self.caller_speaks = true;
                self.cancel(out);
            }
            CallerTurn::MayBegin
            | CallerTurn::WordsWanted
            | CallerTurn::WasNone
            | CallerTurn::MayEnd
            | CallerTurn::GoesOn => {}
            CallerTurn::Ended => {
                self.caller_speaks = false;
                out.push(text(&json!({ "type": "input_audio_buffer.commit" })));
                self.reply(Reply::Wanted);
            }
        }
    }

    fn interrupt(&mut self, response: &str, item: &str, heard: Duration, cancel: bool, out: &mut Vec<Wire>) {
        if cancel && self.floor.is_active(response) {
            self.cancel(out);
        }
        let Some(item) = self.items.iter().find(|spoken| &*spoken.id == item) else { return };
        let received = self.formats.output.duration_of(item.bytes);
        if item.complete && heard >= received {
            return;
        }
        let audio_end_ms = u64::try_from(heard.min(received).as_millis()).unwrap_or(u64::MAX);
        out.push(text(&json!({
            "type": "conversation.item.truncate", "item_id": &*item.id, "content_index": 0,
            "audio_end_ms": audio_end_ms,
        })));
    }

    fn read(&mut self, json: &[u8], events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) -> Result<(), Malformed> {
        let Kind { r#type } = parse(json)?;
        match &*r#type {
            "response.output_audio.delta" => self.audio(parse(json)?, events)?,
            "response.output_audio.done" => self.audio_done(&parse(json)?, events),
            "session.created" if self.phase == Phase::Silent => {
                self.phase = Phase::Asked;
                replies.push(text(&self.session_update()));
            }
            "session.updated" if self.phase == Phase::Asked => {
                let SessionMessage { session } = parse(json)?;
                let input = session.audio.input.format;
                let output = session.audio.output.format;
                let as_asked = session.r#type.as_deref() == Some("realtime")
                    && agrees(input.as_ref(), self.formats.input)
                    && agrees(output.as_ref(), self.formats.output);
                if as_asked {
                    self.phase = Phase::Ready;
                }
                events.push(if as_asked { AgentEvent::Ready } else { AgentEvent::Lost(AgentLoss::Handshake) });
            }
            "input_audio_buffer.speech_started" => {
                // The transcript of what is said now will carry the same id.
                let SpeechStarted { item_id } = parse(json)?;
                events.push(AgentEvent::CallerSpeechStarted { utterance: item_id.map(Into::into) });
            }
            // Where the engine finds the turns, this is what names them.
            "input_audio_buffer.committed" if self.told_turns => {
                let SpeechStarted { item_id } = parse(json)?;
                events.push(AgentEvent::CallerSpeechStarted { utterance: item_id.map(Into::into) });
            }
            "input_audio_buffer.speech_stopped" => events.push(AgentEvent::CallerSpeechStopped),
            "conversation.item.input_audio_transcription.completed" => spoken(Speaker::Caller, parse(json)?, events),
            "conversation.item.input_audio_transcription.failed" => {
                let TranscriptionFailed { item_id, error } = parse(json)?;
                // Its message is left out: it may repeat what was said.
                let (kind, code) = (error.r#type.as_deref(), error.code.as_deref());
                tracing::warn!(kind, code, "the provider could not transcribe the caller");
                events.push(AgentEvent::NoTranscript { utterance: item_id.map(Into::into) });
            }
            "response.output_audio_transcript.done" => spoken(Speaker::Agent, parse(json)?, events),
            "response.function_call_arguments.done" => self.arguments_done(parse(json)?),
            "response.created" => {
                let response = parse::<ResponseMessage>(json)?.response;
                if summary::mark(&response).is_none() {
                    let response: Arc<str> = response.id.into();
                    self.floor.started(response.clone());
                    events.push(AgentEvent::ResponseStarted { response });
                }
            }
            "response.done" => {
                let response = parse::<ResponseMessage>(json)?.response;
                match summary::mark(&response) {
                    Some(mark) => summary::done(mark, response, events),
                    None => self.response_done(response, events),
                }
                self.ask(replies);
            }
            "error" => {
                events.push(self.error(&parse::<ErrorMessage>(json)?.error));
                self.ask(replies);
            }
            known if is_informative(known) => {}
            _ => events.push(AgentEvent::Noise(Noise::UnknownMessage)),
        }
        Ok(())
    }

    fn audio(&mut self, delta: AudioDelta<'_>, events: &mut Vec<AgentEvent>) -> Result<(), Malformed> {
        let audio = decode_base64(&delta.delta).ok_or(Malformed)?;
        let known = self.items.iter().position(|item| *item.id == *delta.item_id);
        let at = known.unwrap_or_else(|| {
            if self.items.len() == ITEMS_MAX {
                self.items.pop_front();
            }
            self.items.push_back(SpokenItem { id: delta.item_id.into(), bytes: 0, complete: false });
            self.items.len() - 1
        });
        let item = &mut self.items[at];
        item.bytes += audio.len();
        if !audio.is_empty() {
            let (response, item) = (delta.response_id.into(), item.id.clone());
            events.push(AgentEvent::Audio { response, item, audio: audio.into() });
        }
        Ok(())
    }

    fn audio_done(&mut self, done: &AudioDone, events: &mut Vec<AgentEvent>) {
        let Some(item) = self.items.iter_mut().find(|item| *item.id == *done.item_id) else { return };
        item.complete = true;
        let (response, item) = (done.response_id.as_str().into(), item.id.clone());
        events.push(AgentEvent::Audio { response, item, audio: Bytes::new() });
    }

    fn arguments_done(&mut self, done: ArgumentsDone) {
        let Some(name) = done.name else { return };
        // One more than may run, so that the surplus is seen when the response is done.
        if self.calls.len() <= CALLS_MAX {
            let call = ToolCall { id: done.call_id, name, arguments: done.arguments };
            self.calls.push((done.response_id, call));
        }
    }

    fn response_done(&mut self, response: ResponseBody, events: &mut Vec<AgentEvent>) {
        let status = match response.status.as_deref() {
            Some("cancelled") => ResponseStatus::Cancelled,
            Some("incomplete") => ResponseStatus::Incomplete,
            Some("failed") => ResponseStatus::Failed,
            _ => ResponseStatus::Completed,
        };
        // A second listing of the same call, with the same id, is the same call.
        let mut calls: Vec<ToolCall> = response.output.unwrap_or_default().into_iter().filter_map(whole_call).collect();
        let collected = std::mem::take(&mut self.calls).into_iter();
        for (_, call) in collected.filter(|(of, _)| *of == response.id) {
            if !calls.iter().any(|listed| listed.id == call.id) {
                calls.push(call);
            }
        }
        // What the caller talked into, or what failed, is not acted upon: the model asks anew.
        if matches!(status, ResponseStatus::Completed | ResponseStatus::Incomplete) {
            let mut calls = calls.into_iter();
            events.extend(calls.by_ref().take(CALLS_MAX).map(AgentEvent::ToolCall));
            // More calls than any answer needs are not run, but not unseen.
            events.extend(calls.map(|_| AgentEvent::Noise(Noise::Malformed)));
        }
        if let Some(usage) = response.usage {
            events.push(AgentEvent::Usage(Usage::from(usage)));
        }
        self.floor.done(&response.id);
        events.push(AgentEvent::ResponseDone { response: response.id.into(), status });
        let error = response.status_details.and_then(|details| details.error);
        if let Some(loss) = error.as_ref().and_then(fatal_error) {
            events.push(AgentEvent::Lost(loss));
        }
    }

    fn error(&mut self, error: &ErrorBody) -> AgentEvent {
        // In a session that stands it is about one response.
        let throttled = [&error.code, &error.r#type].into_iter().any(|word| word.as_deref() == Some(RATE_LIMIT));
        let unready = if throttled { AgentLoss::Throttled } else { AgentLoss::Handshake };
        let unready = (self.phase != Phase::Ready).then_some(unready);
        if let Some(loss) = fatal_error(error).or(unready) {
            // Its message is left out: it may repeat what was said.
            let (kind, code) = (error.r#type.as_deref(), error.code.as_deref());
            tracing::warn!(kind, code, "the provider refused the session");
            return AgentEvent::Lost(loss);
        }
        let code = error.code.as_deref().unwrap_or_default();
        let already_active = code == "conversation_already_has_active_response";
        let refused = self.floor.refused(error.event_id.as_deref(), already_active);
        let harmless = matches!(code, "response_cancel_not_active" | "input_audio_buffer_commit_empty");
        AgentEvent::Noise(match refused {
            Refused::Waits => Noise::HarmlessError,
            _ if harmless => Noise::HarmlessError,
            Refused::GivenUp | Refused::NotOurs => Noise::CommandRefused,
        })
    }
}

impl Codec for RealtimeCodec {
    /// Nothing: the server speaks first.
    fn open(&mut self, _: &mut Vec<Wire>) {}

    fn encode(&mut self, command: AgentCommand, out: &mut Vec<Wire>) {
        match command {
            AgentCommand::Audio(sound) => {
                out.push(audio(r#"{"type":"input_audio_buffer.append","audio":""#, &sound, r#""}"#))
            }
            AgentCommand::Greet { text } => self.say(&asides::greet(text.as_deref(), &self.sentences)),
            AgentCommand::Say { text } => self.say(&asides::say(&text, &self.sentences)),
            AgentCommand::Turn(turn) => self.turn_of_caller(turn, out),
            AgentCommand::Tell { text: words, reply } => {
                out.push(message("system", &words));
                self.reply(reply);
            }
            AgentCommand::Written { text: words } => {
                out.push(message("user", &words));
                self.reply(Reply::Wanted);
            }
            AgentCommand::Interrupt { response, item, heard, cancel } => {
                self.interrupt(&response, &item, heard, cancel, out);
            }
            AgentCommand::ToolResult { call_id, output, reply } => {
                out.push(text(&json!({
                    "type": "conversation.item.create",
                    "item": { "type": "function_call_output", "call_id": call_id, "output": output },
                })));
                self.reply(reply);
            }
            AgentCommand::Summarise { mark, record } => out.push(summary::request(mark, &record)),
        }
        self.ask(out);
    }

    fn decode(&mut self, wire: Wire, events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) {
        if self.read(wire.bytes(), events, replies).is_err() {
            events.push(AgentEvent::Noise(Noise::Malformed));
        }
    }

    /// The reason of a close frame names the error, behind its type and a dot.
    fn closed(&self, code: Option<u16>, reason: &str) -> AgentLoss {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        if let Some(code) = code {
            // One word is a name of the protocol; a sentence may repeat anything.
            let reason = Some(reason).filter(|reason| !reason.contains(|c| word(c) && c != '.'));
            tracing::warn!(code, reason, "the provider closed the session");
        }
        match (reason.split(word).find_map(lasting), code) {
            (Some(loss), _) => loss,
            // The server takes us for a client of the retired dialect.
            (None, Some(4_000)) => AgentLoss::Protocol,
            (None, Some(1_013)) => AgentLoss::Throttled,
            (None, _) => AgentLoss::Closed,
        }
    }

    fn refused(&self, status: u16) -> AgentLoss {
        match status {
            401 | 403 => AgentLoss::Unauthorized,
            404 | 405 => AgentLoss::NotFound,
            429 => AgentLoss::Throttled,
            _ => AgentLoss::Unreachable,
        }
    }
}

/// What is told in words, as if by `role`.
fn message(role: &str, words: &str) -> Wire {
    let content = json!([{ "type": "input_text", "text": words }]);
    text(
        &json!({ "type": "conversation.item.create", "item": { "type": "message", "role": role, "content": content } }),
    )
}

fn wire_format(format: Format) -> Value {
    match format.encoding {
        Encoding::Mulaw => json!({ "type": "audio/pcmu" }),
        Encoding::Alaw => json!({ "type": "audio/pcma" }),
        Encoding::Linear => json!({ "type": "audio/pcm", "rate": format.rate }),
    }
}

fn agrees(state: Option<&FormatState>, format: Format) -> bool {
    let Some(FormatState { r#type, rate }) = state else { return false };
    wire_format(format)["type"] == **r#type && rate.is_none_or(|rate| rate == format.rate)
}

fn whole_call(item: Item) -> Option<ToolCall> {
    let whole = item.r#type.as_deref() == Some("function_call") && item.status.as_deref() != Some("incomplete");
    if !whole {
        return None;
    }
    // One without a name is answered all the same, or the model would wait for it.
    let (id, name) = (item.call_id.unwrap_or_default(), item.name.unwrap_or_default());
    Some(ToolCall { id, name, arguments: item.arguments? })
}

fn spoken(speaker: Speaker, message: SpokenText, events: &mut Vec<AgentEvent>) {
    events.extend(message.usage.map(|usage| AgentEvent::Usage(usage.into())));
    let text = message.transcript.trim();
    let utterance = message.item_id.map(Into::into);
    if !text.is_empty() {
        events.push(AgentEvent::Transcript { speaker, text: text.to_owned(), utterance });
    } else if speaker == Speaker::Caller {
        events.push(AgentEvent::NoTranscript { utterance });
    }
}

fn fatal_error(error: &ErrorBody) -> Option<AgentLoss> {
    [&error.code, &error.r#type].into_iter().find_map(|word| lasting(word.as_deref()?))
}

/// Messages that are documented and say nothing the engine needs.
fn is_informative(kind: &str) -> bool {
    const FAMILIES: [&str; 5] =
        ["conversation.item.", "response.content_part.", "response.output_", "input_audio_buffer.", "session."];
    matches!(kind, "rate_limits.updated" | "response.function_call_arguments.delta" | "conversation.created")
        || FAMILIES.iter().any(|family| kind.starts_with(family))
}
