//! One session's messages, both ways.

use super::{
    answers::Answers,
    caller::Caller,
    calls::Calls,
    losses,
    options::Options,
    server::{Blob, Content, ErrorBody, ServerContent, ServerMessage, Transcription, VoiceActivity},
    setup,
    wishes::Wishes,
};
use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn, Noise, Reply, ResponseStatus, Usage},
    provider::{AgentSetup, Codec, Wire, asides},
    remote::json::{audio, decode_base64, text},
    sentences::Sentences,
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) struct LiveCodec {
    setup: Value,
    sentences: Arc<Sentences>,
    ready: bool,
    /// The server has announced the end of the session.
    leaving: bool,
    told_turns: bool,
    turn: Turn,
    /// What the model does next has a cause that the call knows: it was asked, or the caller was heard.
    expected: bool,
    answers: Answers,
    caller: Caller,
    calls: Calls,
    wishes: Wishes,
}

/// The model's turn, which ends with `turnComplete`.
#[derive(Debug, Default)]
struct Turn {
    /// Something came of it.
    began: bool,
    interrupted: bool,
    /// A user turn was sent into it, so its interruption is ours.
    cut_by_us: bool,
}

impl LiveCodec {
    pub(super) fn new(options: &Arc<Options>, agent: &AgentSetup) -> Self {
        Self {
            setup: setup::message(options, agent),
            sentences: Arc::clone(&agent.sentences),
            ready: false,
            leaving: false,
            told_turns: agent.told_turns,
            turn: Turn::default(),
            expected: false,
            answers: Answers::default(),
            caller: Caller::new(!agent.told_turns),
            calls: Calls::new(Arc::clone(options)),
            wishes: Wishes::default(),
        }
    }

    // ---- To the server ----

    fn say(&mut self, order: String, out: &mut Vec<Wire>) {
        self.wishes.say(order);
        self.ask(out);
    }

    fn turn_of_caller(&mut self, turn: CallerTurn, out: &mut Vec<Wire>) {
        let begins = match turn {
            CallerTurn::Began => true,
            CallerTurn::Ended => false,
            CallerTurn::MayBegin
            | CallerTurn::WordsWanted
            | CallerTurn::WasNone
            | CallerTurn::MayEnd
            | CallerTurn::GoesOn => return,
        };
        // The server ends a session over a mark that it did not ask for.
        if !self.told_turns || begins == self.caller.speaks() {
            return;
        }
        self.caller.told(begins);
        if begins {
            self.wishes.caller_speaks();
            self.send_answers(out);
        } else {
            self.expected = true;
            if !self.waits_for_tool() {
                self.answers.next();
            }
        }
        let mark = if begins { "activityStart" } else { "activityEnd" };
        out.push(text(&json!({ "realtimeInput": { mark: {} } })));
    }

    fn tool_result(&mut self, call_id: &str, output: &str, reply: Reply, out: &mut Vec<Wire>) {
        let talks_on = self.calls.talks_on(call_id);
        self.calls.answer(call_id, output, reply);
        // A model that waits speaks as soon as it has all answers. Where nobody wants that, the last one
        // waits too; but not while the caller speaks, who is answered with it.
        if talks_on || reply == Reply::Wanted || self.caller.speaks() {
            self.send_answers(out);
        } else {
            self.ask(out);
        }
    }

    /// The server says nothing before its calls are answered, and takes them back when it is spoken to.
    fn waits_for_tool(&self) -> bool {
        self.calls.hold_the_model()
    }

    fn is_busy(&self) -> bool {
        self.answers.is_speaking() || self.waits_for_tool()
    }

    fn send_answers(&mut self, out: &mut Vec<Wire>) {
        if self.waits_for_tool() {
            return;
        }
        if let Some((message, talks_on)) = self.calls.take(&mut self.wishes.notes) {
            self.answers.answered(talks_on);
            self.expected = true;
            out.push(text(&message));
        }
    }

    /// Sends what waits, unless it would cut the model off, or take back the call that it waits for.
    fn ask(&mut self, out: &mut Vec<Wire>) {
        if self.is_busy() {
            return;
        }
        let Some(parts) = self.wishes.take() else { return };
        self.send_answers(out);
        self.turn.cut_by_us = self.turn.began;
        self.expected = true;
        self.answers.next();
        let parts: Vec<Value> = parts.into_iter().map(|part| json!({ "text": part })).collect();
        out.push(text(&json!({
            "clientContent": { "turns": [{ "role": "user", "parts": parts }], "turnComplete": true },
        })));
    }

    // ---- From the server ----

    fn read(&mut self, json: &[u8], events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) -> serde_json::Result<()> {
        let message: ServerMessage<'_> = serde_json::from_slice(json)?;
        if message.is_unknown() || !(self.ready || message.setup_complete.is_some() || message.error.is_some()) {
            events.push(AgentEvent::Noise(Noise::UnknownMessage));
            return Ok(());
        }
        if message.setup_complete.is_some() && !std::mem::replace(&mut self.ready, true) {
            events.push(AgentEvent::Ready);
        }
        if let Some(error) = &message.error {
            events.push(self.error(error));
        }
        if let Some(usage) = message.usage_metadata {
            events.push(AgentEvent::Usage(Usage::from(usage)));
        }
        if let Some(update) = message.session_resumption_update
            && update.resumable == Some(true)
            && let Some(handle) = update.new_handle.filter(|handle| !handle.is_empty())
        {
            events.push(AgentEvent::Resumable { handle: handle.into() });
        }
        if let Some(go_away) = message.go_away {
            self.leaving = true;
            events.push(AgentEvent::Expiring { within: go_away.time_left() });
        }
        if let Some(activity) = message.voice_activity {
            self.voice_activity(&activity, events);
        }
        let was_busy = self.is_busy();
        let mut content = message.server_content.unwrap_or_default();
        self.words(&mut content, events);
        self.speech(content.model_turn.take(), events);
        if content.interrupted == Some(true) {
            self.interrupted(events, replies);
        }
        if let Some(calls) = message.tool_call.and_then(|called| called.function_calls) {
            self.model_acts(events);
            self.caller.report(events);
            self.answers.calls(self.calls.take_in(calls), events);
        }
        if let Some(cancellation) = message.tool_call_cancellation {
            self.cancelled(cancellation.ids, events);
        }
        if content.generation_complete == Some(true) {
            self.caller.report(events);
            self.answers.generated(events);
        }
        if content.turn_complete == Some(true) {
            self.turn_complete(&content, events);
        }
        if was_busy && !self.caller.speaks() {
            self.ask(replies);
        }
        Ok(())
    }

    fn voice_activity(&mut self, activity: &VoiceActivity, events: &mut Vec<AgentEvent>) {
        match activity.r#type.as_deref() {
            Some("ACTIVITY_START") => self.caller_begins(events),
            Some("ACTIVITY_END") => {
                self.caller.ends(events);
                if self.turn.interrupted {
                    self.answers.next();
                }
            }
            _ => {}
        }
    }

    fn caller_begins(&mut self, events: &mut Vec<AgentEvent>) {
        self.expected = true;
        self.wishes.caller_speaks();
        self.caller.begins(events);
    }

    fn words(&mut self, content: &mut ServerContent<'_>, events: &mut Vec<AgentEvent>) {
        let text = |words: &Transcription<'_>| words.text.as_deref().unwrap_or_default().to_owned();
        for words in [&content.interim_input_transcription, &content.input_transcription].into_iter().flatten() {
            if text(words).trim().is_empty() {
                continue;
            }
            // They may come late, when the model answers already; then they begin nothing.
            if !self.turn.began && !self.expected {
                self.caller_begins(events);
            }
            if self.turn.interrupted {
                self.answers.next();
            }
        }
        if let Some(words) = &content.interim_input_transcription {
            self.caller.interim(&text(words), events);
        }
        if let Some(words) = &content.input_transcription {
            self.caller.said(&text(words), words.finished == Some(true), events);
        }
        if let Some(words) = &content.output_transcription {
            self.answers.said(&text(words));
        }
    }

    fn speech(&mut self, content: Option<Content<'_>>, events: &mut Vec<AgentEvent>) {
        for part in content.and_then(|content| content.parts).unwrap_or_default() {
            let Some(blob) = part.inline_data.filter(|_| part.thought != Some(true)) else { continue };
            match sound(&blob) {
                Ok(audio) if audio.is_empty() => {}
                Ok(audio) => {
                    if self.answers.begins_next() {
                        self.model_acts(events);
                    }
                    self.answers.audio(audio.into(), events);
                }
                Err(noise) => events.push(AgentEvent::Noise(noise)),
            }
        }
    }

    /// The model speaks or calls a tool. If nobody asked it to, it has heard the caller.
    fn model_acts(&mut self, events: &mut Vec<AgentEvent>) {
        let expected = std::mem::take(&mut self.expected);
        if !std::mem::replace(&mut self.turn.began, true) && !expected {
            self.caller.begins(events);
        }
        self.caller.ends(events);
    }

    fn interrupted(&mut self, events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) {
        if self.answers.is_speaking() {
            self.caller.report(events);
        }
        let by_caller = !std::mem::take(&mut self.turn.cut_by_us);
        if by_caller {
            // It has to stop being heard before it is told to be over.
            self.caller_begins(events);
            self.answers.interrupted(events);
            self.send_answers(replies);
        } else {
            self.answers.end(ResponseStatus::Cancelled, events);
        }
        self.turn.interrupted = true;
    }

    /// The server takes calls back when the caller says something new.
    fn cancelled(&mut self, ids: Vec<String>, events: &mut Vec<AgentEvent>) {
        let waited = self.calls.are_open();
        self.calls.cancel(ids, events);
        if waited && !self.calls.are_open() {
            self.answers.next();
            self.caller_begins(events);
        }
    }

    fn turn_complete(&mut self, content: &ServerContent<'_>, events: &mut Vec<AgentEvent>) {
        let failed = content.turn_complete_reason.as_deref().and_then(failed);
        let more = content.interaction_status.as_deref() == Some("IN_PROGRESS");
        let waits = more
            || content.waiting_for_input == Some(true)
            || content.turn_complete_reason.as_deref() == Some("NEED_MORE_INPUT");
        self.caller.report(events);
        let nothing_came = !self.turn.began && !self.turn.interrupted;
        if self.answers.begins_next() && !waits && (nothing_came || failed.is_some()) {
            self.caller.ends(events);
            self.answers.empty(failed.unwrap_or(ResponseStatus::Completed), events);
        }
        if !self.waits_for_tool() {
            self.answers.end(failed.unwrap_or(ResponseStatus::Completed), events);
        }
        self.turn = Turn::default();
        self.expected |= more;
        self.caller.new_turn();
    }

    fn error(&self, error: &ErrorBody) -> AgentEvent {
        let words = [&error.status, &error.message].into_iter().flatten();
        let unready = (!self.ready).then_some(AgentLoss::Handshake);
        let loss = words.filter_map(|words| losses::by_words(words)).next().or(unready);
        // Its message is left out: it may repeat what was said.
        tracing::warn!(status = error.status.as_deref(), "the provider reports an error");
        loss.map_or(AgentEvent::Noise(Noise::CommandRefused), AgentEvent::Lost)
    }
}

impl Codec for LiveCodec {
    fn open(&mut self, out: &mut Vec<Wire>) {
        out.push(text(&self.setup));
        self.setup = Value::Null;
    }

    fn encode(&mut self, command: AgentCommand, out: &mut Vec<Wire>) {
        match command {
            AgentCommand::Audio(sound) => out.push(audio(
                r#"{"realtimeInput":{"audio":{"mimeType":"audio/pcm;rate=16000","data":""#,
                &sound,
                r#""}}}"#,
            )),
            AgentCommand::Greet { text } => self.say(asides::greet(text.as_deref(), &self.sentences), out),
            AgentCommand::Say { text } => self.say(asides::say(&text, &self.sentences), out),
            AgentCommand::Tell { text, reply } => {
                self.wishes.note(text, reply == Reply::Wanted);
                self.ask(out);
            }
            AgentCommand::Written { text } => {
                self.wishes.caller_speaks();
                self.wishes.note(text, true);
                self.ask(out);
            }
            AgentCommand::Turn(turn) => self.turn_of_caller(turn, out),
            AgentCommand::ToolResult { call_id, output, reply } => self.tool_result(&call_id, &output, reply, out),
            // Not taken, see the traits; and the server has stopped by itself, and cannot be told what was heard.
            AgentCommand::Interrupt { .. } => {}
            // Nothing can be asked aside, see the traits.
            AgentCommand::Summarise { .. } => {}
        }
    }

    fn decode(&mut self, wire: Wire, events: &mut Vec<AgentEvent>, replies: &mut Vec<Wire>) {
        if self.read(wire.bytes(), events, replies).is_err() {
            events.push(AgentEvent::Noise(Noise::Malformed));
        }
    }

    fn closed(&self, code: Option<u16>, reason: &str) -> AgentLoss {
        let loss = losses::closed(code, reason, self.ready, self.leaving);
        if let Some(code) = code {
            // Its reason is left out: it may repeat what was said.
            tracing::warn!(code, loss = loss.label(), "the provider closed the session");
        }
        loss
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

/// Sound of another rate would be heard at the wrong speed.
fn sound(blob: &Blob<'_>) -> Result<Vec<u8>, Noise> {
    let mut parts = blob.mime_type.split(';').map(str::trim);
    if !parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("audio/pcm")) {
        return Err(Noise::UnknownMessage);
    }
    let rate = parts.find_map(|part| part.strip_prefix("rate="));
    let as_known = rate.is_none_or(|rate| rate.parse() == Ok(Format::SLIN24.rate));
    decode_base64(&blob.data).filter(|_| as_known).ok_or(Noise::Malformed)
}

/// Why a turn ended without an answer, or with a part of one.
fn failed(reason: &str) -> Option<ResponseStatus> {
    match reason {
        "" | "TURN_COMPLETE_REASON_UNSPECIFIED" | "NEED_MORE_INPUT" => None,
        "MALFORMED_FUNCTION_CALL" | "RESPONSE_REJECTED" | "MAX_REGENERATION_REACHED" | "GENERATED_OTHER" => {
            Some(ResponseStatus::Failed)
        }
        // Filters of one kind or another.
        _ => Some(ResponseStatus::Incomplete),
    }
}
