//! One session's messages, both ways.

use super::{
    options::{Options, Override},
    server::{
        AgentResponse, AgentToolResponse, AudioEvent, AudioMessage, ClientToolCall, ErrorBody, ErrorMessage, Formats,
        Interruption, Metadata, Ping, TentativeUserTranscript, ToolCallBody, UserTranscript, format,
    },
};
use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, Noise, Reply, ResponseStatus, Speaker},
    provider::{AgentSetup, Codec, Opens, SessionFormats, Wire, asides, turns::Turns},
    remote::json::{Kind, Malformed, audio, decode_base64, parse, text, with_known},
    sentences::Sentences,
    tool::ToolCall,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Within an answer the next sentence follows in half that time. An end that is assumed too soon
/// costs little: what follows is another response.
const AUDIO_GAP_MAX: Duration = Duration::from_secs(1);
/// Faster than any voice reads a text; numbers and abbreviations take longer still.
const LETTERS_A_SECOND_MAX: u128 = 30;
/// Our tool that ends a call, which stands for the vendor's own.
const HANGUP: &str = "hangup_call";
/// The call that the vendor's `end_call` becomes; nobody there waits for an answer.
const END_CALL_ID: &str = "end-call";

pub(super) struct AgentCodec {
    initiation: Value,
    sentences: Arc<Sentences>,
    /// What the agent has to know and its own prompt does not say: it takes a call over, or the caller has heard somebody.
    briefing: Option<String>,
    overrides_something: bool,
    can_hang_up: bool,
    /// The agent greets by itself, once.
    greets: bool,
    formats: Option<SessionFormats>,
    turns: Turns,
    /// Audio up to this event was interrupted.
    interrupted_at: Option<i64>,
    answer: Answer,
}

/// The answer that is being spoken, so far.
#[derive(Default)]
struct Answer {
    /// Of its words.
    letters: usize,
    /// Of its sound.
    bytes: usize,
}

impl Answer {
    /// Nobody could have said all of it by now.
    fn is_cut_short(&self, format: Format) -> bool {
        let heard = format.duration_of(self.bytes);
        heard.as_millis() * LETTERS_A_SECOND_MAX < self.letters as u128 * 1_000
    }
}

impl AgentCodec {
    pub(super) fn new(options: &Options, setup: &AgentSetup) -> Self {
        let prompt = Some(&setup.instructions).filter(|prompt| !prompt.is_empty());
        let overrides_prompt = options.overrides.include(Override::Prompt);
        let first_message = match &setup.opens {
            _ if !options.overrides.include(Override::FirstMessage) => None,
            Opens::Greets(greeting) => greeting.clone(),
            Opens::Waits => Some(String::new()),
        };
        let agent = with_known(
            json!({}),
            [
                ("prompt", prompt.filter(|_| overrides_prompt).map(|prompt| json!({ "prompt": prompt }))),
                ("first_message", first_message.map(Value::from)),
                ("language", options.language.clone().map(Value::from)),
            ],
        );
        let tts = with_known(json!({}), [("voice_id", options.voice_id.clone().map(Value::from))]);
        let some = |object: Value| Some(object).filter(|object| object.as_object().is_some_and(|map| !map.is_empty()));
        let overrides = some(with_known(json!({}), [("agent", some(agent)), ("tts", some(tts))]));
        let briefing = if setup.opens == Opens::Waits { prompt } else { setup.heard.as_ref() };
        let is_hangup = |tool: &Value| tool["name"] == HANGUP;
        Self {
            overrides_something: overrides.is_some(),
            initiation: with_known(
                json!({ "type": "conversation_initiation_client_data" }),
                [
                    ("conversation_config_override", overrides),
                    ("dynamic_variables", some(json!(options.dynamic_variables))),
                ],
            ),
            sentences: Arc::clone(&setup.sentences),
            briefing: briefing.filter(|_| !overrides_prompt).cloned(),
            can_hang_up: setup.tools.iter().any(is_hangup),
            greets: matches!(setup.opens, Opens::Greets(_)),
            formats: None,
            turns: Turns::default(),
            interrupted_at: None,
            answer: Answer::default(),
        }
    }

    fn read(&mut self, json: &[u8], events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) -> Result<(), Malformed> {
        let Kind { r#type } = parse(json)?;
        match &*r#type {
            "audio" => self.audio(&parse::<AudioMessage>(json)?.audio_event, events)?,
            "ping" => {
                let event_id = parse::<Ping>(json)?.ping_event.event_id;
                replies.push(text(&json!({ "type": "pong", "event_id": event_id })));
            }
            "conversation_initiation_metadata" if self.formats.is_none() => {
                self.begins(&parse::<Metadata>(json)?.conversation_initiation_metadata_event, events, replies);
            }
            "interruption" => {
                let at = parse::<Interruption>(json)?.interruption_event.event_id;
                self.interrupted_at = self.interrupted_at.max(Some(at));
                self.answer = Answer::default();
                self.turns.caller_begins(events);
            }
            "user_transcript" => {
                self.caller_said(&parse::<UserTranscript>(json)?.user_transcription_event.user_transcript, events);
            }
            "tentative_user_transcript" => {
                let words = parse::<TentativeUserTranscript>(json)?.tentative_user_transcription_event;
                let text = words.user_transcript.trim().to_owned();
                if is_speech(&text) {
                    events.push(AgentEvent::PartialTranscript { text, utterance: None });
                }
            }
            "agent_response" => {
                let text = parse::<AgentResponse>(json)?.agent_response_event.agent_response.trim().to_owned();
                self.answer.letters += letters(&text);
                if !text.is_empty() {
                    events.push(AgentEvent::Transcript { speaker: Speaker::Agent, text, utterance: None });
                }
            }
            "agent_response_complete" => self.is_over(events),
            "client_tool_call" => {
                let ToolCallBody { tool_name, tool_call_id, parameters } =
                    parse::<ClientToolCall>(json)?.client_tool_call;
                self.call(ToolCall { id: tool_call_id, name: tool_name, arguments: parameters }, events);
            }
            "agent_tool_response" => {
                let response = parse::<AgentToolResponse>(json)?.agent_tool_response;
                if response.tool_name == "end_call" && !response.is_error {
                    self.agent_hangs_up(events);
                }
            }
            "error" => events.push(self.error(&parse::<ErrorMessage>(json)?.error_event)),
            "guardrail_triggered" | "client_error" => events.push(AgentEvent::Noise(Noise::HarmlessError)),
            known if is_informative(known) => {}
            _ => events.push(AgentEvent::Noise(Noise::UnknownMessage)),
        }
        Ok(())
    }

    fn begins(&mut self, told: &Formats, events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) {
        let output = &told.agent_output_audio_format;
        let input = told.user_input_audio_format.as_ref().unwrap_or(output);
        let (Some(input), Some(output)) = (format(input), format(output)) else {
            tracing::warn!("the agent speaks or hears a format that is not known here: set both to \"μ-law 8000 Hz\"");
            return events.push(AgentEvent::Lost(AgentLoss::Handshake));
        };
        self.formats = Some(SessionFormats { input, output });
        events.push(AgentEvent::Ready);
        replies.extend(self.briefing.take().map(|words| contextual_update(&words)));
    }

    fn audio(&mut self, audio: &AudioEvent<'_>, events: &mut Vec<AgentEvent>) -> Result<(), Malformed> {
        let bytes = decode_base64(&audio.audio_base_64).ok_or(Malformed)?;
        if self.formats.is_none() {
            return Err(Malformed);
        }
        let stale = self.interrupted_at.is_some_and(|interrupted| audio.event_id <= interrupted);
        if stale {
            events.push(AgentEvent::Noise(Noise::LateAudio));
        } else if !bytes.is_empty() {
            let response = self.turns.begin(events);
            self.answer.bytes += bytes.len();
            events.push(AgentEvent::Audio { item: response.clone(), response, audio: bytes.into() });
        }
        Ok(())
    }

    fn caller_said(&mut self, words: &str, events: &mut Vec<AgentEvent>) {
        let text = words.trim().to_owned();
        // Words of an answer may come when it is over; they are none of the next one's.
        self.answer = Answer::default();
        if asides::is_aside(&text) {
            return;
        }
        if !is_speech(&text) {
            if self.turns.caller_speaks() {
                self.turns.caller_ends(events);
                events.push(AgentEvent::NoTranscript { utterance: None });
            }
            return;
        }
        if !self.turns.caller_speaks() {
            self.turns.caller_begins(events);
        }
        self.turns.caller_ends(events);
        events.push(AgentEvent::Transcript { speaker: Speaker::Caller, text, utterance: None });
    }

    fn call(&mut self, call: ToolCall, events: &mut Vec<AgentEvent>) {
        self.turns.begin(events);
        events.push(AgentEvent::ToolCall(call));
        // The agent waits for the answer; what it says before or after it is another response.
        self.turns.end(ResponseStatus::Completed, events);
    }

    fn is_over(&mut self, events: &mut Vec<AgentEvent>) {
        self.answer = Answer::default();
        self.turns.end(ResponseStatus::Completed, events);
    }

    /// The vendor's agent has ended the conversation, and its words may still be playing. A context
    /// that lets its agent hang up lets it do so here; any other loses its agent when the vendor closes.
    fn agent_hangs_up(&mut self, events: &mut Vec<AgentEvent>) {
        if self.can_hang_up {
            self.can_hang_up = false;
            self.call(ToolCall { id: END_CALL_ID.into(), name: HANGUP.into(), arguments: "{}".into() }, events);
        } else {
            tracing::warn!("the agent ended the conversation, but its context does not list {HANGUP}");
        }
    }

    fn error(&self, error: &ErrorBody) -> AgentEvent {
        let (code, kind) = (error.code, error.error_type.as_deref().unwrap_or_default());
        // Its message is left out: it may repeat what was said.
        tracing::warn!(code, kind, "the provider reports an error");
        let words = [&error.message, &error.reason].into_iter().flatten().fold(String::new(), |all, some| all + some);
        let loss = match kind {
            // A tool of the vendor's own that failed; the agent says so itself.
            "mcp_tool_error" | "mcp_https_error" => return AgentEvent::Noise(Noise::HarmlessError),
            "max_duration_exceeded" => AgentLoss::Expired,
            "override_error" | "missing_dynamic_variable" | "missing_dynamic_variable_transfer" => {
                self.explain_refusal();
                AgentLoss::Handshake
            }
            "invalid_message" | "value_error" | "missing_fields" => AgentLoss::Protocol,
            _ => self.loss(code, &words),
        };
        AgentEvent::Lost(loss)
    }

    fn explain_refusal(&self) {
        tracing::warn!(
            overrides = self.overrides_something,
            "the agent refuses how the conversation was begun: allow in its security settings what is overridden \
             (`overrides`, `language`, `voice_id`), and give all its variables (`dynamic_variables`)"
        );
    }

    fn loss(&self, code: u16, words: &str) -> AgentLoss {
        let words = words.to_ascii_lowercase();
        let says = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
        match code {
            1_000 if says(&["duration"]) => AgentLoss::Expired,
            1_002 => AgentLoss::Protocol,
            1_008 if says(&["override", "variable"]) => {
                self.explain_refusal();
                AgentLoss::Handshake
            }
            1_008 if says(&["quota", "credit", "payment", "billing"]) => AgentLoss::Quota,
            1_008 if says(&["api key", "api_key", "unauthori", "authoriz", "authentic", "permission"]) => {
                AgentLoss::Unauthorized
            }
            1_008 if says(&["concurren", "too many", "rate limit", "capacity"]) => AgentLoss::Throttled,
            1_008 if self.formats.is_none() => {
                self.explain_refusal();
                AgentLoss::Handshake
            }
            1_008 => AgentLoss::Protocol,
            1_013 => AgentLoss::Throttled,
            // A branch of the agent that is broken.
            3_000 => AgentLoss::Handshake,
            _ => AgentLoss::Closed,
        }
    }
}

impl Codec for AgentCodec {
    fn open(&mut self, out: &mut Vec<Wire>) {
        out.push(text(&self.initiation));
    }

    fn encode(&mut self, command: AgentCommand, out: &mut Vec<Wire>) {
        match command {
            AgentCommand::Audio(sound) => out.push(audio(r#"{"user_audio_chunk":""#, &sound, r#""}"#)),
            // It has begun by itself. Who asks again has heard nothing.
            AgentCommand::Greet { .. } if std::mem::take(&mut self.greets) => {}
            AgentCommand::Greet { text } => {
                out.push(user_message(asides::told(&asides::greet(text.as_deref(), &self.sentences))));
            }
            AgentCommand::Say { text } => {
                out.push(user_message(asides::told(&asides::say(&text, &self.sentences))));
            }
            AgentCommand::Tell { text, reply: Reply::Wanted } => out.push(user_message(asides::told(&text))),
            AgentCommand::Tell { text, reply: Reply::NotNow } => out.push(contextual_update(&asides::told(&text))),
            AgentCommand::Written { text } => out.push(user_message(text)),
            AgentCommand::ToolResult { call_id, .. } if call_id == END_CALL_ID => {}
            AgentCommand::ToolResult { call_id, output, reply: _ } => {
                let is_error = failed(&output);
                out.push(text(&json!({
                    "type": "client_tool_result", "tool_call_id": call_id, "result": output, "is_error": is_error,
                })));
            }
            // It stops by itself when it hears the caller, and cannot be told how much was heard.
            AgentCommand::Interrupt { .. } => {}
            // It finds the turns itself.
            AgentCommand::Turn(_) => {}
            // Nothing can be asked aside, see the traits.
            AgentCommand::Summarise { .. } => {}
        }
    }

    fn decode(&mut self, wire: Wire, events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) {
        if self.read(wire.bytes(), events, replies).is_err() {
            events.push(AgentEvent::Noise(Noise::Malformed));
        }
    }

    fn formats(&self) -> Option<SessionFormats> {
        self.formats
    }

    fn audio_gap_max(&self) -> Option<Duration> {
        Some(AUDIO_GAP_MAX)
    }

    /// An answer of which most is missing is not over: it goes on, or the call finds that it does not.
    fn audio_gap(&mut self, events: &mut Vec<AgentEvent>) {
        let output = self.formats.map_or(Format::ULAW, |formats| formats.output);
        if !self.answer.is_cut_short(output) {
            self.is_over(events);
        }
    }

    fn closed(&self, code: Option<u16>, reason: &str) -> AgentLoss {
        tracing::warn!(code, "the provider closed the session");
        code.map_or(AgentLoss::Closed, |code| self.loss(code, reason))
    }

    fn refused(&self, status: u16) -> AgentLoss {
        match status {
            401 | 403 => AgentLoss::Unauthorized,
            402 => AgentLoss::Quota,
            // No such agent.
            404 | 422 => AgentLoss::Handshake,
            429 | 503 => AgentLoss::Throttled,
            _ => AgentLoss::Unreachable,
        }
    }
}

/// Those that are spoken: directions to the voice stand in brackets.
fn letters(text: &str) -> usize {
    let mut depth = 0_usize;
    let spoken = |letter: &char| {
        match letter {
            '[' | '<' => depth += 1,
            ']' | '>' => depth = depth.saturating_sub(1),
            letter if depth == 0 && letter.is_alphanumeric() => return true,
            _ => {}
        }
        false
    };
    text.chars().filter(spoken).count()
}

fn user_message(words: String) -> Wire {
    text(&json!({ "type": "user_message", "text": words }))
}

fn contextual_update(words: &str) -> Wire {
    text(&json!({ "type": "contextual_update", "text": words }))
}

/// A turn of silence is reported as dots.
fn is_speech(words: &str) -> bool {
    words.chars().any(char::is_alphanumeric)
}

/// Whether the envelope of a tool's answer says that it did not work.
fn failed(output: &str) -> bool {
    #[derive(Deserialize)]
    struct Envelope {
        ok: bool,
    }
    serde_json::from_str::<Envelope>(output).is_ok_and(|envelope| !envelope.ok)
}

/// Messages that are documented and say nothing the engine needs.
fn is_informative(kind: &str) -> bool {
    const FAMILIES: [&str; 4] = ["agent_", "mcp_", "internal_", "external_agent_"];
    const KINDS: [&str; 6] = [
        "conversation_initiation_metadata",
        "asr_initiation_metadata",
        "vad_score",
        "context_usage",
        "rich_content",
        "dtmf_request",
    ];
    KINDS.contains(&kind) || FAMILIES.iter().any(|family| kind.starts_with(family))
}
