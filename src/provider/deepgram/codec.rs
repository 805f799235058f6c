//! One session's messages, both ways.

use super::{
    options::Options,
    server::{ConversationText, Function, Functions, Trouble},
};
use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn, Noise, Reply, ResponseId, ResponseStatus, Speaker},
    provider::{AgentSetup, Codec, Opens, SessionFormats, Wire, asides, turns::Turns},
    remote::json::{Kind, Malformed, parse, text, with_known},
    sentences::Sentences,
    tool::ToolCall,
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{mem, sync::Arc, time::Duration};

/// The vendor asks for it every 8 s when nothing else is sent, and ends the session after some ten.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(8);
/// Silence that is sent with `KeepAlive`, in frames of 20 ms. The vendor documents that `KeepAlive` is enough; a report tells of
/// sessions that ended all the same in long answers (deepgram-js-sdk, issue 419), in which the caller's audio is withheld.
const SILENCE_FRAMES: usize = 5;
/// What the vendor's own models take of prompt and additions. A model behind an endpoint may take
/// more, but notes of that length are no notes.
const PROMPT_CHARS_MAX: usize = 25_000;
/// Function calls that wait for an answer; more than that is no answer to a caller.
const CALLS_MAX: usize = 32;

pub(super) struct AgentCodec {
    settings: Value,
    /// Frames of silence in the format in which the vendor hears the caller.
    silence: Bytes,
    sentences: Arc<Sentences>,
    ready: bool,
    /// Whether the settings have the greeting, so that the agent says it by itself, once.
    greets: bool,
    turns: Turns,
    /// The vendor is told the ends of the caller's turns.
    told_turns: bool,
    /// A turn is over of which the vendor has not found the beginning yet.
    end_passed_over: bool,
    found: Found,
    /// The answer that the caller cut off: what still comes belongs to it, until the next is announced.
    cut_off: Option<ResponseId>,
    /// Calls that are to be answered: id and name, since an answer carries both.
    calls: Vec<(String, String)>,
    injections: Injections,
    notes: Notes,
}

/// Progress of the vendor in a turn whose end it is to be told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Words,
    /// The end, and the answer has begun.
    Answer,
}

/// Messages that make the agent speak.
#[derive(Default)]
struct Injections {
    /// Last injection, in case it is refused.
    asked: Option<Injection>,
    /// Injection that was refused once, because somebody spoke; sent again when the agent has finished.
    refused: Option<Injection>,
}

struct Injection {
    message: Value,
    /// Whether it greets the caller, which is pointless once they have spoken.
    greets: bool,
}

/// Additions to the prompt.
struct Notes {
    /// Characters that may still be added.
    room: usize,
    /// Notes that did not fit and are not reported yet.
    lost: usize,
}

impl AgentCodec {
    pub(super) fn new(options: &Options, setup: &AgentSetup, formats: SessionFormats) -> Self {
        // Nothing tells here which tool can be undone, so none is called before the turn is certain.
        let functions =
            setup.tools.iter().map(|tool| with_known(tool.clone(), [("defer_until_eot", Some(true.into()))]));
        let mut settings = options.settings(&setup.instructions, functions.collect(), formats, setup.told_turns);
        let greeting = match &setup.opens {
            Opens::Greets(greeting) => greeting.as_deref(),
            Opens::Waits => None,
        };
        // An injection can be refused or overlooked; a greeting of the settings is spoken as soon as they are applied.
        if let Some(greeting) = greeting {
            settings["agent"]["greeting"] = greeting.into();
        }
        Self {
            settings,
            silence: vec![formats.input.silence(); SILENCE_FRAMES * formats.input.frame_bytes()].into(),
            sentences: Arc::clone(&setup.sentences),
            ready: false,
            greets: greeting.is_some(),
            turns: Turns::default(),
            told_turns: setup.told_turns,
            end_passed_over: false,
            found: Found::Nothing,
            cut_off: None,
            calls: Vec::new(),
            injections: Injections::default(),
            notes: Notes { room: PROMPT_CHARS_MAX.saturating_sub(setup.instructions.chars().count()), lost: 0 },
        }
    }

    // ---- What we say ----

    fn inject(&mut self, injection: Injection, out: &mut Vec<Wire>) {
        out.push(text(&injection.message));
        // A newer injection replaces an older one that was refused.
        self.injections = Injections { asked: Some(injection), refused: None };
    }

    /// The agent answers as if the caller had said so.
    fn ask_as_caller(&mut self, content: String, out: &mut Vec<Wire>) {
        let message = json!({ "type": "InjectUserMessage", "content": content });
        self.inject(Injection { message, greets: false }, out);
    }

    fn greet(&mut self, greeting: Option<String>, out: &mut Vec<Wire>) {
        let message = match greeting {
            // Noise of the line may have taken the floor by now: then it waits for its place.
            Some(greeting) => json!({ "type": "InjectAgentMessage", "message": greeting, "behavior": "queue" }),
            None => {
                let content = asides::told(&asides::greet(None, &self.sentences));
                json!({ "type": "InjectUserMessage", "content": content })
            }
        };
        self.inject(Injection { message, greets: true }, out);
    }

    fn note(&mut self, words: &str, out: &mut Vec<Wire>) {
        let prompt = format!("\n\n{}", asides::told(words));
        match self.notes.room.checked_sub(prompt.chars().count()) {
            Some(room) => {
                self.notes.room = room;
                out.push(text(&json!({ "type": "UpdatePrompt", "prompt": prompt })));
            }
            None => self.notes.lost += 1,
        }
    }

    fn turn_of_caller(&mut self, turn: CallerTurn, out: &mut Vec<Wire>) {
        match turn {
            // Whatever was passed over is a part of it.
            CallerTurn::Began => (self.end_passed_over, self.found) = (false, Found::Nothing),
            // The vendor is done with it: an end that is passed over is told again when the caller speaks next.
            CallerTurn::Ended if self.found == Found::Answer => {}
            CallerTurn::Ended if self.told_turns => {
                self.end_passed_over = !self.turns.caller_speaks();
                out.push(end_of_turn());
            }
            CallerTurn::MayBegin
            | CallerTurn::WordsWanted
            | CallerTurn::WasNone
            | CallerTurn::MayEnd
            | CallerTurn::GoesOn
            | CallerTurn::Ended => {}
        }
    }

    fn answer(&mut self, call_id: &str, output: String, out: &mut Vec<Wire>) {
        // Taken back, or answered before.
        let Some(at) = self.calls.iter().position(|(id, _)| id == call_id) else { return };
        let (id, name) = self.calls.swap_remove(at);
        out.push(text(&json!({ "type": "FunctionCallResponse", "id": id, "name": name, "content": output })));
    }

    // ---- What we hear ----

    fn read(&mut self, json: &[u8], events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) -> Result<(), Malformed> {
        let Kind { r#type } = parse(json)?;
        match &*r#type {
            "SettingsApplied" if !self.ready => {
                self.ready = true;
                events.push(AgentEvent::Ready);
            }
            "UserStartedSpeaking" => {
                self.found = Found::Nothing;
                let cut_off = self.turns.caller_begins(events);
                self.cut_off = cut_off.or(self.cut_off.take());
                replies.extend(mem::take(&mut self.end_passed_over).then(end_of_turn));
            }
            "AgentThinking" => {
                self.end_passed_over = false;
                self.turns.caller_ends(events);
                self.cut_off = None;
            }
            "AgentStartedSpeaking" => {
                self.turns.caller_ends(events);
                self.cut_off = None;
                self.answers();
                self.turns.begin(events);
            }
            "AgentAudioDone" => {
                self.cut_off = None;
                self.turns.end(ResponseStatus::Completed, events);
                // A refusal of what was asked would have come by now.
                let refused = mem::take(&mut self.injections).refused;
                replies.extend(refused.map(|injection| text(&injection.message)));
            }
            "ConversationText" => self.words(parse(json)?, events),
            "FunctionCallRequest" => self.calls(parse::<Functions>(json)?.functions, events),
            "FunctionCallCancelled" => {
                for Function { id, .. } in parse::<Functions>(json)?.functions {
                    self.calls.retain(|(known, _)| *known != id);
                    events.push(AgentEvent::ToolCallCancelled { call_id: id });
                }
            }
            "InjectionRefused" => {
                self.injections.refused = self.injections.asked.take();
                // Its message is left out: it may repeat what was to be said.
                let again = self.injections.refused.is_some();
                tracing::warn!(again, "the provider refused an injection, since somebody spoke");
                events.push(AgentEvent::Noise(Noise::CommandRefused));
            }
            "Warning" => {
                let Trouble { code } = parse(json)?;
                // Its description is left out: it may repeat what was said.
                tracing::warn!(code, "the provider warns");
                // Its own detection of turns is off: it would never answer anybody.
                events.push(match &*code {
                    "FORCE_END_TURN_UNSUPPORTED" if self.told_turns => AgentEvent::Lost(AgentLoss::Handshake),
                    _ => AgentEvent::Noise(Noise::HarmlessError),
                });
            }
            "Error" => {
                let Trouble { code } = parse(json)?;
                tracing::warn!(code, "the provider ends the session");
                events.push(AgentEvent::Lost(loss(&code, self.ready)));
            }
            known if is_informative(known) => {}
            _ => events.push(AgentEvent::Noise(Noise::UnknownMessage)),
        }
        Ok(())
    }

    fn audio(&mut self, audio: Bytes, events: &mut Vec<AgentEvent>) {
        if !self.ready {
            return events.push(AgentEvent::Noise(Noise::Malformed));
        }
        if audio.is_empty() {
            return;
        }
        let response = match &self.cut_off {
            Some(response) => response.clone(),
            None => self.turns.begin(events),
        };
        events.push(AgentEvent::Audio { item: response.clone(), response, audio });
    }

    fn words(&mut self, words: ConversationText, events: &mut Vec<AgentEvent>) {
        let text = words.content.trim().to_owned();
        let speaker = if words.role == "user" { Speaker::Caller } else { Speaker::Agent };
        // Words of the next answer; if they are of the one that was cut off, its last syllable is heard.
        self.cut_off = None;
        if asides::is_aside(&text) {
            return;
        }
        if speaker == Speaker::Caller {
            self.found = Found::Words;
            self.turns.caller_ends(events);
        }
        if speaker == Speaker::Caller && !text.is_empty() {
            // The agent answers these words, and must not greet behind the answer.
            self.injections.asked.take_if(|injection| injection.greets);
            self.injections.refused.take_if(|injection| injection.greets);
        }
        if !text.is_empty() {
            events.push(AgentEvent::Transcript { speaker, text, utterance: None });
        }
    }

    /// The vendor answers the words of the turn that it has told.
    fn answers(&mut self) {
        self.end_passed_over = false;
        if self.found == Found::Words {
            self.found = Found::Answer;
        }
    }

    fn calls(&mut self, functions: Vec<Function>, events: &mut Vec<AgentEvent>) {
        let ours: Vec<Function> = functions.into_iter().filter(|function| function.client_side).collect();
        if ours.is_empty() {
            return;
        }
        self.turns.caller_ends(events);
        self.cut_off = None;
        self.answers();
        self.turns.begin(events);
        for Function { id, name, arguments, .. } in ours {
            if self.calls.len() >= CALLS_MAX {
                // Beyond what any answer needs: not run, but not unseen.
                events.push(AgentEvent::Noise(Noise::Malformed));
                continue;
            }
            self.calls.retain(|(known, _)| *known != id);
            self.calls.push((id.clone(), name.clone()));
            events.push(AgentEvent::ToolCall(ToolCall { id, name, arguments }));
        }
        // The agent waits for the answers; what it says before or after them is another response.
        self.turns.end(ResponseStatus::Completed, events);
    }
}

impl Codec for AgentCodec {
    fn open(&mut self, out: &mut Vec<Wire>) {
        out.push(text(&self.settings));
    }

    fn encode(&mut self, command: AgentCommand, out: &mut Vec<Wire>) {
        match command {
            AgentCommand::Audio(audio) => out.push(Wire::Binary(audio)),
            AgentCommand::Greet { .. } if mem::take(&mut self.greets) => {}
            AgentCommand::Greet { text } => self.greet(text, out),
            AgentCommand::Say { text } => {
                self.ask_as_caller(asides::told(&asides::say(&text, &self.sentences)), out);
            }
            AgentCommand::Tell { text, reply: Reply::Wanted } => self.ask_as_caller(asides::told(&text), out),
            AgentCommand::Tell { text, reply: Reply::NotNow } => self.note(&text, out),
            AgentCommand::Written { text } => self.ask_as_caller(text, out),
            AgentCommand::ToolResult { call_id, output, reply: _ } => self.answer(&call_id, output, out),
            // It stops by itself when it hears the caller, and cannot be told how much was heard.
            AgentCommand::Interrupt { .. } => self.found = Found::Nothing,
            AgentCommand::Turn(turn) => self.turn_of_caller(turn, out),
            // Nothing can be asked aside, see the traits.
            AgentCommand::Summarise { .. } => {}
        }
    }

    fn decode(&mut self, wire: Wire, events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) {
        match wire {
            Wire::Binary(audio) => self.audio(audio, events),
            Wire::Text(json) => {
                if self.read(json.as_bytes(), events, replies).is_err() {
                    events.push(AgentEvent::Noise(Noise::Malformed));
                }
            }
        }
        let lost = mem::take(&mut self.notes.lost);
        events.extend(std::iter::repeat_n(AgentEvent::Noise(Noise::CommandRefused), lost));
    }

    fn keep_alive(&self) -> Option<(Duration, Vec<Wire>)> {
        let alive = text(&json!({ "type": "KeepAlive" }));
        Some((KEEP_ALIVE_AFTER, vec![alive, Wire::Binary(self.silence.clone())]))
    }

    fn closed(&self, code: Option<u16>, _: &str) -> AgentLoss {
        tracing::warn!(code, "the provider closed the session");
        match code {
            Some(1_002 | 1_003 | 1_007 | 1_008) => AgentLoss::Protocol,
            Some(1_013) => AgentLoss::Throttled,
            _ => AgentLoss::Closed,
        }
    }

    fn refused(&self, status: u16) -> AgentLoss {
        match status {
            401 | 403 => AgentLoss::Unauthorized,
            404 | 405 => AgentLoss::NotFound,
            402 => AgentLoss::Quota,
            429 | 503 => AgentLoss::Throttled,
            _ => AgentLoss::Unreachable,
        }
    }
}

fn end_of_turn() -> Wire {
    text(&json!({ "type": "ForceEndTurn" }))
}

/// What an `Error` of this code means.
/// <https://developers.deepgram.com/docs/voice-agent-errors-warnings>
fn loss(code: &str, ready: bool) -> AgentLoss {
    match code {
        "INVALID_SETTINGS" => AgentLoss::Handshake,
        "UNPARSABLE_CLIENT_MESSAGE"
        | "NON_SETTINGS_MESSAGE_BEFORE_SETTINGS"
        | "BINARY_MESSAGE_BEFORE_SETTINGS"
        | "SETTINGS_ALREADY_APPLIED"
        | "USER_AUDIO_FORMAT" => AgentLoss::Protocol,
        // As the vendor's other interfaces name them.
        _ if code.ends_with("PAYMENT_REQUIRED") => AgentLoss::Quota,
        _ if code.ends_with("TOO_MANY_REQUESTS") => AgentLoss::Throttled,
        // A listener, a model or a voice that failed; another session may have a better one.
        _ if ready => AgentLoss::Closed,
        _ => AgentLoss::Handshake,
    }
}

/// Messages that are documented and say nothing the engine needs.
fn is_informative(kind: &str) -> bool {
    const KINDS: [&str; 11] = [
        "Welcome",
        "SettingsApplied",
        "History",
        "FunctionCallResponse",
        "PromptUpdated",
        "SpeakUpdated",
        "ThinkUpdated",
        "ListenUpdated",
        "ThinkLiveUpdated",
        "FrustrationDetected",
        "LatencyReport",
    ];
    KINDS.contains(&kind)
}
