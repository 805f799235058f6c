//! What a pipeline does next: words in, questions to the model, clauses to the voice, speech out. No I/O and no clock
//! of its own.
//!
//! ```text
//!   turn begins ─▶ may end ─▶ (stable words) a guess: the model answers, the voice speaks, nobody hears it
//!                   │    └─ goes on: the guess is thrown away
//!                   └─ ended ─▶ the words of the turn ─▶ the guess is right: it is let out, its tools run
//!                                                      └─ it is wrong, or there is none: the model is asked now
//! ```
//!
//! Invariants:
//! - One answer at a time. While the caller has the turn nothing is begun but a guess; of a guess nothing is told.
//! - A tool is called once, when the whole answer that calls it is there and is no guess.
//! - Clauses are heard in their order, however the voice is asked for them.

use super::{
    answer::{ANSWER_CHARS_MAX, ASKS_MAX, Answer, CALLS_MAX, Clause},
    floor::{Floor, Words},
    history::History,
    questions::{BROKE_OFF, Questions},
    steps::{Input, Output},
    summaries::{Purpose, Summaries, Summary},
};
use crate::{
    call::{AgentCommand, AgentEvent, AgentLoss, CallerTurn, Noise, Reply, ResponseId, ResponseStatus, Speaker},
    llm::{Finish, Message, Order, Piece},
    provider::asides,
    remote::Fault,
    stt::{Hear, Heard},
};
use std::time::{Duration, Instant};

/// Clauses that are spoken ahead of the one that is heard: the next one, so that there is no gap.
const AHEAD: usize = 2;
/// Speech that waits to be heard before more is asked for: what a caller interrupts was not paid for.
const AHEAD_TIME: Duration = Duration::from_secs(8);

pub(super) struct Conductor {
    history: History,
    questions: Questions,
    floor: Floor,
    ready: bool,
    /// A service failed and nobody stands in for it: nothing more is done.
    lost: bool,
    answer: Option<Answer>,
    /// Since the caller's last words something was said.
    spoke: bool,
    /// Since then the rest of an answer that broke off was asked for.
    resumed: bool,
    /// It is wanted still: who was interrupted is not asked to go on.
    rest: bool,
    /// An order that waits for its turn; a newer one replaces it.
    order: Option<Order>,
    /// An answer is wanted: to results, or to what was told.
    reply: bool,
    /// A model may be asked to sum up what gives way of the history.
    sums_up: bool,
    summaries: Summaries,
    /// When all that was told of the agent's voice will have been heard, if it is heard at once.
    heard_out: Option<Instant>,
    clauses: u64,
    responses: u64,
}

impl Conductor {
    pub(super) fn new(history: History, questions: Questions, sums_up: bool) -> Self {
        Self {
            history,
            questions,
            floor: Floor::default(),
            ready: false,
            lost: false,
            answer: None,
            spoke: false,
            resumed: false,
            rest: false,
            order: None,
            reply: false,
            sums_up,
            summaries: Summaries::default(),
            heard_out: None,
            clauses: 0,
            responses: 0,
        }
    }

    pub(super) fn step(&mut self, input: Input, now: Instant, out: &mut Vec<Output>) {
        match input {
            Input::Command(command) => self.on_command(command, out),
            Input::Heard(heard) => self.on_heard(heard, out),
            Input::Piece { ask, piece } => self.on_piece(ask, piece, out),
            Input::Answered { ask, how, .. } => self.on_answered(ask, how, out),
            Input::Sound { clause, audio, length } => {
                if let Some(clause) = self.clause(clause) {
                    clause.hold(audio, length);
                }
            }
            Input::Spoken { clause, how } => self.on_spoken(clause, how, out),
            Input::Stumbled(stumble) => out.push(Output::Tell(AgentEvent::Stumbled(stumble))),
            Input::Deaf(fault) => self.lose_by(&fault, out),
            Input::Stalled => self.lose(AgentLoss::Stalled, out),
            Input::Time => {}
        }
        if !self.lost {
            self.pump(now, out);
        }
    }

    fn lose_by(&mut self, fault: &Fault, out: &mut Vec<Output>) {
        if let Fault::Refused { status, .. } = fault {
            out.push(Output::Tell(AgentEvent::Refused { status: *status }));
        }
        self.lose(fault.loss(), out);
    }

    fn lose(&mut self, loss: AgentLoss, out: &mut Vec<Output>) {
        self.lost = true;
        // Whoever goes on has to know what the caller has heard of an answer.
        if let Some(answer) = self.answer.take().filter(|answer| !answer.is_guess()) {
            self.tell_said(&answer, out);
        }
        out.push(Output::Tell(AgentEvent::Lost(loss)));
    }

    /// When more of an answer may be spoken.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waits =
            self.answer.as_ref().is_some_and(|answer| !answer.is_guess() && answer.next_to_speak(AHEAD).is_some());
        self.heard_out.filter(|_| waits).and_then(|heard_out| heard_out.checked_sub(AHEAD_TIME))
    }

    // ---- What the call wants ----

    fn on_command(&mut self, command: AgentCommand, out: &mut Vec<Output>) {
        match command {
            AgentCommand::Audio(audio) => out.push(Output::Listen(Hear::Audio(audio))),
            // A caller who speaks already is not spoken into.
            AgentCommand::Greet { text: Some(text) } if self.floor.is_callers() => {
                self.order = Some(Order::Say(text));
            }
            // Word for word: no model has to be asked.
            AgentCommand::Greet { text: Some(text) } => self.recite(text, out),
            AgentCommand::Greet { text: None } => self.order = Some(Order::Greet),
            // Now, and nothing else: neither after words that are still to come, nor with an answer to them behind it.
            AgentCommand::Say { text } => {
                self.order = Some(Order::Say(text));
                (self.reply, self.rest) = (false, false);
                // Its words will not come.
                self.drop_guess(out);
                self.floor.forget_words();
                // Who wants something said now knows that nobody is listened to any more.
                out.extend(self.floor.was_none().map(Output::Listen));
            }
            // What was guessed did not know it.
            AgentCommand::Tell { text, reply } => {
                self.drop_guess(out);
                self.history.note(text);
                self.reply |= reply == Reply::Wanted;
            }
            AgentCommand::Written { text } => {
                self.rest = false;
                self.stop(Duration::ZERO, out);
                self.history.caller_said(&text);
                (self.spoke, self.resumed) = (false, false);
                self.reply = true;
            }
            AgentCommand::ToolResult { call_id, output, reply } => {
                self.drop_guess(out);
                self.history.result(call_id, output);
                self.reply |= reply == Reply::Wanted;
            }
            AgentCommand::Turn(turn) => self.on_turn(turn, out),
            AgentCommand::Interrupt { response, heard, .. } => {
                if self.answer.as_ref().is_some_and(|answer| answer.response == response) {
                    self.stop(heard, out);
                } else {
                    self.history.heard(&response, heard);
                }
                self.heard_out = None;
            }
            AgentCommand::Summarise { mark, record } => self.sum_up(Purpose::Call { mark }, record, out),
        }
    }

    fn on_turn(&mut self, turn: CallerTurn, out: &mut Vec<Output>) {
        match turn {
            // Of an answer that is still under way and was not interrupted, nothing was heard.
            CallerTurn::Began => {
                self.rest = false;
                self.stop(Duration::ZERO, out);
            }
            CallerTurn::GoesOn => self.drop_guess(out),
            _ => {}
        }
        out.extend(self.floor.turn(turn).into_iter().map(Output::Listen));
    }

    // ---- The caller's words ----

    fn on_heard(&mut self, heard: Heard, out: &mut Vec<Output>) {
        match heard {
            Heard::Ready => {
                if !std::mem::replace(&mut self.ready, true) {
                    out.push(Output::Tell(AgentEvent::Ready));
                }
            }
            Heard::Partial { text, stable } => {
                out.push(Output::Tell(AgentEvent::PartialTranscript { text: text.clone(), utterance: None }));
                if stable && self.floor.may_become_free() {
                    self.guess(text.trim(), out);
                }
            }
            Heard::Complete(done) => out.push(Output::Tell(AgentEvent::CallerSeemsDone(done))),
            Heard::Turn { text } => self.on_words(text.trim(), out),
            Heard::Usage(usage) => out.push(Output::Tell(AgentEvent::Usage(usage))),
            // It is counted, and nothing follows from it.
            Heard::Oddity(_) => {}
        }
    }

    fn on_words(&mut self, text: &str, out: &mut Vec<Output>) {
        let words = self.floor.words_came();
        if words == Words::OfNoTurn {
            return out.push(Output::Tell(AgentEvent::Noise(Noise::Malformed)));
        }
        out.push(Output::Tell(match text {
            "" => AgentEvent::NoTranscript { utterance: None },
            _ => AgentEvent::Transcript { speaker: Speaker::Caller, text: text.to_owned(), utterance: None },
        }));
        self.history.caller_said(text);
        if words == Words::Late {
            return;
        }
        (self.spoke, self.resumed) = (false, false);
        // A further turn has begun, or its words are still to come: one answer to all of it.
        if !self.floor.is_free() {
            self.drop_guess(out);
            return;
        }
        if self.answer.as_ref().is_some_and(|answer| answer.guesses(text)) {
            return self.let_out(out);
        }
        self.drop_guess(out);
        self.reply = true;
    }

    /// Has the model answer words that may be the whole turn.
    fn guess(&mut self, text: &str, out: &mut Vec<Output>) {
        let same = self.answer.as_ref().is_some_and(|answer| answer.guesses(text));
        if same || text.is_empty() || self.floor.awaits_words() || self.order.is_some() {
            return;
        }
        self.drop_guess(out);
        if self.answer.is_none() {
            self.begin(Some(text.to_owned()), None, out);
        }
    }

    fn drop_guess(&mut self, out: &mut Vec<Output>) {
        if self.answer.as_ref().is_some_and(Answer::is_guess) {
            self.stop(Duration::ZERO, out);
        }
    }

    /// The guess was right.
    fn let_out(&mut self, out: &mut Vec<Output>) {
        let Some(answer) = &mut self.answer else { return };
        answer.guess = None;
        self.reply = false;
        let response = answer.response.clone();
        self.history.answers(response.clone());
        out.push(Output::Tell(AgentEvent::ResponseStarted { response }));
        if answer.ask.is_none() {
            self.call_tools(out);
        }
    }

    // ---- The answer ----

    /// Asks the model; what it is to answer is in the history, or is a guess.
    fn begin(&mut self, guess: Option<String>, order: Option<Order>, out: &mut Vec<Output>) {
        let response = self.new_response();
        if guess.is_none() {
            self.history.answers(response.clone());
            out.push(Output::Tell(AgentEvent::ResponseStarted { response: response.clone() }));
        }
        let rest = std::mem::take(&mut self.rest) && guess.is_none() && order.is_none();
        let mut answer = Answer::new(response, guess, order);
        answer.rest = rest;
        self.answer = Some(answer);
        self.ask(out);
    }

    fn ask(&mut self, out: &mut Vec<Output>) {
        let Some(answer) = &mut self.answer else { return };
        let (guess, order) = (answer.guess.clone(), answer.order.clone());
        // The conversation does not keep it: in a later turn nobody is to go on with this answer.
        let rest = answer.rest.then(|| Message::System(asides::told(BROKE_OFF)));
        let messages = self.history.messages().into_iter().chain(rest).collect();
        let (ask, what) = self.questions.answer(messages, guess, order);
        answer.ask = Some(ask);
        answer.asked += 1;
        out.push(Output::Ask { ask, what });
    }

    /// Says exactly this.
    fn recite(&mut self, text: String, out: &mut Vec<Output>) {
        self.stop(Duration::MAX, out);
        let response = self.new_response();
        self.history.answers(response.clone());
        out.push(Output::Tell(AgentEvent::ResponseStarted { response: response.clone() }));
        let mut answer = Answer::new(response, None, None);
        answer.write(&text, &mut self.clauses);
        answer.written(&mut self.clauses);
        self.answer = Some(answer);
    }

    fn new_response(&mut self) -> ResponseId {
        self.responses += 1;
        format!("answer-{}", self.responses).into()
    }

    /// Gives up the answer under way, of which so much was heard.
    fn stop(&mut self, heard: Duration, out: &mut Vec<Output>) {
        let Some(answer) = self.answer.take() else { return };
        out.extend(answer.ask.map(Output::StopAsking));
        out.push(Output::Quiet);
        if answer.is_guess() {
            return;
        }
        if answer.clauses.front().is_some_and(|clause| clause.told && !clause.done) {
            self.history.goes_on(&answer.response);
        }
        self.history.heard(&answer.response, heard);
        self.tell_said(&answer, out);
        let (response, status) = (answer.response, ResponseStatus::Cancelled);
        out.push(Output::Tell(AgentEvent::ResponseDone { response, status }));
    }

    fn on_piece(&mut self, ask: u64, piece: Piece, out: &mut Vec<Output>) {
        if let Piece::Usage(usage) = piece {
            return out.push(Output::Tell(AgentEvent::Usage(usage)));
        }
        if let Piece::Text(text) = &piece
            && self.summaries.says(ask, text)
        {
            return;
        }
        let Some(answer) = self.answer.as_mut().filter(|answer| answer.ask == Some(ask)) else { return };
        match piece {
            Piece::Text(text) if answer.chars + text.len() <= ANSWER_CHARS_MAX => {
                answer.write(&text, &mut self.clauses)
            }
            // It goes on and on; what it has said is enough.
            Piece::Text(text) => {
                let room = text.floor_char_boundary(ANSWER_CHARS_MAX.saturating_sub(answer.chars));
                answer.write(&text[..room], &mut self.clauses);
                out.push(Output::StopAsking(ask));
                self.on_answered(ask, Ok(Finish::Length), out);
            }
            Piece::Call(call) if answer.calls.len() < CALLS_MAX => answer.calls.push(call),
            Piece::Call(_) => out.push(Output::Tell(AgentEvent::Noise(Noise::Malformed))),
            Piece::Usage(_) | Piece::Oddity(_) => {}
        }
    }

    fn on_answered(&mut self, ask: u64, how: Result<Finish, Fault>, out: &mut Vec<Output>) {
        if let Some(summary) = self.summaries.over(ask, how.is_ok()) {
            return match summary {
                Summary::OfHistory(text) => self.history.summed_up(&text),
                Summary::OfCall(event) => out.push(Output::Tell(event)),
            };
        }
        let Some(answer) = self.answer.as_mut().filter(|answer| answer.ask == Some(ask)) else { return };
        answer.ask = None;
        answer.written(&mut self.clauses);
        let nothing = answer.is_empty();
        match how {
            // All its models were asked as often as they may be.
            Err(fault) if nothing && !answer.is_guess() => self.lose_by(&fault, out),
            Ok(_) if nothing && answer.asked < ASKS_MAX => self.ask(out),
            Ok(_) if nothing && answer.order.is_some() => self.lose(AgentLoss::Protocol, out),
            // Models do so after results, or when thinking has used up what they may write.
            Ok(_) if nothing && !answer.is_guess() && !self.spoke => {
                answer.order = Some(self.questions.again());
                self.ask(out);
            }
            Ok(finish) if !nothing => {
                if finish != Finish::Stop {
                    answer.status = ResponseStatus::Incomplete;
                }
                if !answer.is_guess() {
                    self.call_tools(out);
                }
            }
            // It costs nothing: the turn is answered when it is over.
            _ if answer.is_guess() => self.drop_guess(out),
            // Half a sentence that nobody has heard is no answer.
            Err(_) if !answer.heard && answer.asked < ASKS_MAX => {
                answer.begin_anew();
                out.push(Output::Quiet);
                self.ask(out);
            }
            // What was said is said, and no half call runs.
            how => {
                answer.status = ResponseStatus::Incomplete;
                answer.calls.clear();
                if let Err(fault) = how {
                    self.broke_off(&fault, out);
                }
            }
        }
    }

    /// The caller has heard the beginning of an answer and waits for the rest: it is asked for, once.
    fn broke_off(&mut self, fault: &Fault, out: &mut Vec<Output>) {
        if std::mem::replace(&mut self.resumed, true) {
            return self.lose_by(fault, out);
        }
        (self.rest, self.reply) = (true, true);
    }

    fn call_tools(&mut self, out: &mut Vec<Output>) {
        let Some(answer) = &mut self.answer else { return };
        let calls = std::mem::take(&mut answer.calls);
        self.history.calls(&answer.response, &calls);
        out.extend(calls.into_iter().map(|call| Output::Tell(AgentEvent::ToolCall(call))));
    }

    // ---- The voice ----

    fn clause(&mut self, id: u64) -> Option<&mut Clause> {
        self.answer.as_mut()?.clauses.iter_mut().find(|clause| clause.id == id)
    }

    fn on_spoken(&mut self, id: u64, how: Result<(), Fault>, out: &mut Vec<Output>) {
        let guess = self.answer.as_ref().is_some_and(Answer::is_guess);
        let Some(clause) = self.clause(id) else { return };
        clause.done = true;
        match how {
            Ok(()) => {}
            // It costs nothing: the turn is answered when it is over.
            Err(_) if guess => self.drop_guess(out),
            Err(fault) if !clause.sounded => self.lose_by(&fault, out),
            // Its end is missing; the next one goes on.
            Err(_) => out.push(Output::Tell(AgentEvent::Noise(Noise::Malformed))),
        }
    }

    /// Lets out what may be heard, asks the voice for what comes next, and ends an answer that is complete.
    fn pump(&mut self, now: Instant, out: &mut Vec<Output>) {
        self.sound(now, out);
        let enough = self.heard_out.is_some_and(|heard_out| heard_out > now + AHEAD_TIME);
        if let Some(answer) = &mut self.answer {
            while !enough && let Some(clause) = answer.next_to_speak(AHEAD).map(|at| &mut answer.clauses[at]) {
                clause.asked = true;
                out.push(Output::Speak { clause: clause.id, text: clause.text.clone() });
            }
        }
        self.end(out);
        self.go_on(out);
    }

    fn sound(&mut self, now: Instant, out: &mut Vec<Output>) {
        let Some(answer) = self.answer.as_mut().filter(|answer| !answer.is_guess()) else { return };
        while let Some(clause) = answer.clauses.front_mut() {
            if !clause.told && (clause.done || !clause.held.is_empty()) {
                clause.told = true;
                answer.heard = true;
                self.spoke = true;
                self.history.says(&answer.response, clause.text.clone());
            }
            for (audio, length) in clause.held.drain(..) {
                self.history.spoke(&answer.response, length);
                self.heard_out = Some(self.heard_out.map_or(now, |heard_out| heard_out.max(now)) + length);
                let (response, item) = (answer.response.clone(), answer.response.clone());
                out.push(Output::Tell(AgentEvent::Audio { response, item, audio }));
            }
            if !clause.done {
                break;
            }
            answer.clauses.pop_front();
        }
    }

    /// Ends the answer when all of it was written and spoken.
    fn end(&mut self, out: &mut Vec<Output>) {
        let over = |answer: &mut Answer| !answer.is_guess() && answer.ask.is_none() && answer.clauses.is_empty();
        let Some(answer) = self.answer.take_if(over) else { return };
        self.tell_said(&answer, out);
        out.push(Output::Tell(AgentEvent::ResponseDone { response: answer.response, status: answer.status }));
        if !self.summaries.are_of_history()
            && let Some(about) = self.history.give_way()
        {
            if self.sums_up {
                self.sum_up(Purpose::History, about, out);
            } else {
                self.history.forget();
                out.push(Output::Forgot);
            }
        }
    }

    fn tell_said(&mut self, answer: &Answer, out: &mut Vec<Output>) {
        let text = self.history.text_of(&answer.response);
        if !text.is_empty() {
            out.push(Output::Tell(AgentEvent::Transcript { speaker: Speaker::Agent, text, utterance: None }));
        }
    }

    fn sum_up(&mut self, purpose: Purpose, about: String, out: &mut Vec<Output>) {
        let (ask, what) = self.questions.summary(about.clone());
        out.extend(self.summaries.begin(ask, purpose, about).map(Output::StopAsking));
        out.push(Output::Ask { ask, what });
    }

    /// Begins what waits, if nobody speaks.
    fn go_on(&mut self, out: &mut Vec<Output>) {
        if self.answer.is_some() || !self.floor.is_free() || !self.ready {
            return;
        }
        if let Some(order) = self.order.take() {
            self.begin(None, Some(order), out);
        } else if std::mem::take(&mut self.reply) {
            self.begin(None, None, out);
        }
    }
}
