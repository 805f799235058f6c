//! A model or a voice that breaks, by the state that the call is in when it does: what the caller hears of it. Each breaks
//! once, and nobody stands in for it; what the listener breaks is in `states.rs`.

use super::{
    faults::no_apology,
    speaks,
    states::{is_paused, is_undecided_when},
    story,
};
use crate::providers::{
    desk::{Desk, Setting, pipeline},
    ear::Caller,
    faults::is_explained,
    kit::{
        stages::{Asked, Bit, Reply, SCRIBES, Server, Stages, VOICES, model, voice},
        vendor::{Scenario, hertz},
    },
    ms,
    states::State,
    tools::look_up,
};
use futures_util::future::join_all;
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// From the caller's last word, or the last sound before the fault, until the answer or the rest of it is heard.
const CARRIED_ON: Duration = ms(6_000);
/// The same of a turn that nothing disturbs.
const ANSWERED: Duration = ms(2_500);
/// What is being said when it breaks in the middle.
const BEGINNING: &str = "One is here.";
const BEGINNING_HZ: f64 = hertz(2);
/// In which a model, or a voice, is asked.
const STATES: [State; 5] =
    [State::Greeting, State::Thinking, State::AgentSpeaking, State::Undecided, State::ToolRunning];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    Model,
    /// By the protocol that it speaks.
    Voice(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Closes,
    Garbage,
    /// The connection stands, and what is sent is acknowledged; over HTTP it is the one of the last answer, where there was one.
    HalfOpen,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    service: Service,
    fault: Fault,
    state: State,
}

impl Row {
    fn is_in_the_middle(self) -> bool {
        matches!(self.state, State::AgentSpeaking | State::Undecided)
    }

    /// It is decided that the caller interrupts before anybody knows that nothing more comes.
    fn is_passed_over(self) -> bool {
        (self.state, self.fault) == (State::Undecided, Fault::HalfOpen)
    }

    fn breaks(self, stages: &Stages) -> &Server {
        if self.service == Service::Model { &stages.model } else { &stages.voice }
    }

    /// The question that it fails at, of those that it is asked in these calls.
    fn question(self) -> usize {
        match (self.service, self.state) {
            (_, State::Greeting) => 1,
            // It has greeted.
            (Service::Voice(_), _) | (Service::Model, State::ToolRunning) => 2,
            _ => 1,
        }
    }

    /// The connection by which that is asked.
    fn connection(self) -> usize {
        // The one that is kept, but with Wyoming.
        if self.service == Service::Voice("wyoming_speech") { self.question() } else { 1 }
    }

    /// As it is counted.
    fn outcome(self) -> &'static str {
        let is_http = self.service != Service::Voice("wyoming_speech");
        match self.fault {
            Fault::Closes if is_http && !self.is_in_the_middle() => "unreachable",
            Fault::Closes => "closed",
            Fault::Garbage => "garbage",
            Fault::HalfOpen => "slow",
        }
    }

    /// Another session of the pipeline has to go on: nothing was heard, and the same is not asked of the same again.
    fn needs_a_session(self) -> bool {
        !self.is_in_the_middle() && self.fault != Fault::Closes
    }

    /// What it does then.
    fn bit(self) -> Bit {
        match self.fault {
            Fault::Closes => Bit::Break,
            Fault::Garbage => Bit::ProtocolAnomaly,
            // Nobody polls it.
            Fault::HalfOpen => Bit::Stall,
        }
    }

    fn prepare(self, stages: &Stages, now: &Arc<Notify>) {
        // What is asked over a half-open connection is never read.
        let unread = self.fault == Fault::HalfOpen && !self.is_in_the_middle();
        let (question, breaks) = (if unread { 0 } else { self.question() }, self.service == Service::Model);
        let hold = Bit::Hold(Arc::clone(now));
        let held = hold.clone();
        stages.model.answers(move |asked| match () {
            () if breaks && asked.number == question && self.is_in_the_middle() => {
                let mut reply = model::stream(model::words("One is here. And "), "stop");
                reply.bits.truncate(reply.bits.len() - 3);
                reply.bits.extend([held.clone(), self.bit()]);
                reply
            }
            () if breaks && asked.number == question => {
                Reply { status: 200, kind: model::STREAM, bits: vec![self.bit()] }
            }
            () if self.state == State::ToolRunning && asked.number == 1 => model::calls(&[look_up(1)]),
            () if self.is_in_the_middle() && asked.number == 1 => {
                // The voice is asked for the first clause before it is asked for the second.
                let mut reply = model::says("One is here. A tone.");
                reply.bits.insert(5, Bit::Wait(ms(300)));
                reply
            }
            () => model::says("A tone."),
        });
        // Long enough for the caller to speak over it.
        let length = if self.state == State::Undecided { ms(3_000) } else { ms(1_000) };
        stages.voice.answers(move |asked| match () {
            () if !breaks && asked.number == question && self.is_in_the_middle() => {
                let mut reply = voice::speaks(asked, BEGINNING_HZ, length / 2);
                reply.bits.extend([hold.clone(), self.bit()]);
                reply
            }
            () if !breaks && asked.number == question => {
                let kind = if self.fault == Fault::Garbage { "audio/wav" } else { "" };
                Reply { status: 200, kind, bits: vec![self.bit()] }
            }
            () if asked.text() == BEGINNING => voice::speaks(asked, BEGINNING_HZ, length),
            () if asked.text() == "And" => voice::speaks(asked, hertz(3), ms(200)),
            () => voice::speaks(asked, hertz(1), ms(1_000)),
        });
    }

    /// The call until then, and since when the caller waits for what is to be heard.
    async fn breaks_in(self, what: &str, desk: &Desk, caller: &Caller, stages: &Stages, now: &Notify) -> Duration {
        if self.state != State::Greeting {
            caller.hears(hertz(1), ms(700)).await;
            caller.hears_nothing_for(ms(300)).await;
        }
        match self.state {
            State::ToolRunning => {
                desk.service.holds(true);
                speaks(caller).await;
                desk.service.wait_requests(1).await;
                self.half_open(stages);
                desk.service.holds(false);
                caller.now()
            }
            State::AgentSpeaking => {
                let said = speaks(caller).await;
                caller.hears_from(said.end, BEGINNING_HZ, ms(300)).await;
                self.half_open(stages);
                now.notify_one();
                caller.hears_nothing_for(ms(60)).await;
                caller.look(|tape| tape.last_of(BEGINNING_HZ, said.end..tape.now())).expect("heard")
            }
            State::Undecided => {
                let said = speaks(caller).await;
                caller.hears_from(said.end, BEGINNING_HZ, ms(300)).await;
                caller.speaks().await;
                is_paused(caller).await;
                self.half_open(stages);
                now.notify_one();
                if !self.is_passed_over() {
                    is_undecided_when(what, caller, || self.counted(desk, self.outcome()) == 1.0).await;
                }
                caller.has_spoken().await.end
            }
            State::Greeting => ms(0),
            _ => {
                self.half_open(stages);
                speaks(caller).await.end
            }
        }
    }

    fn half_open(self, stages: &Stages) {
        if self.fault == Fault::HalfOpen {
            self.breaks(stages).is_half_open(self.connection());
        }
    }

    fn counted(self, desk: &Desk, outcome: &str) -> f64 {
        desk.asked_of(if self.service == Service::Model { "llm" } else { "voices" }, outcome)
    }

    async fn is_survived(self) {
        let what = format!("{self:?}");
        let stages = match self.service {
            Service::Model => Stages::start().await,
            Service::Voice(protocol) => Stages::speaking(protocol).await,
        };
        let now = Arc::new(Notify::new());
        self.prepare(&stages, &now);
        let sections = Stages::sections(&[("first", &stages)]);
        let setting = Setting {
            more: "turns: { min_speech: 560ms }",
            sections: &sections,
            greets_freely: (self.service, self.state) == (Service::Model, State::Greeting),
            ..Setting::default()
        };
        let desk = Desk::open(&[("first", pipeline(&["first"], &["first"], &["first"]))], setting).await;
        if self.state == State::Greeting {
            self.half_open(&stages);
        }
        let caller = desk.call().await;
        let since = self.breaks_in(&what, &desk, &caller, &stages, &now).await;
        is_answered(&what, &caller, since, CARRIED_ON).await;
        if self.state == State::AgentSpeaking {
            let heard = caller.look(|tape| tape.time_of(BEGINNING_HZ, ms(0)));
            let all = if self.service == Service::Model { ms(1_000) } else { ms(500) };
            assert!(heard <= all + ms(40) && heard >= all - ms(100), "{what}: {heard:?} before; {}", story(&caller));
        }
        for outcome in ["unreachable", "refused", "slow", "closed", "garbage"] {
            let times = if outcome == self.outcome() && !self.is_passed_over() { 1.0 } else { 0.0 };
            assert_eq!(self.counted(&desk, outcome), times, "{what}: {outcome}; {}", desk.engine.metrics().text());
        }
        // What failed in a guess, as on a busy machine there may be one, is asked for again when the turn is over.
        let (needs, may_be_guess) = (self.needs_a_session(), self.state == State::Thinking);
        let sessions = desk.recoveries("took_over", "first");
        let right = sessions == f64::from(u8::from(needs)) || (may_be_guess && sessions == 0.0);
        assert!(right, "{what}: {sessions} sessions; {}", desk.engine.metrics().text());
        if self.state == State::ToolRunning {
            assert_eq!(desk.service.requests().len(), 1, "{what}: it was run once");
            let told = stages.model.asked().pop().expect("asked").body["messages"].to_string();
            assert!(told.contains("on its way"), "{what}: it is told what the tool found: {told}");
        }
        // The next turn is as good as any.
        let turns = stages.model.asked().last().map_or(0, turns);
        is_answered(&format!("{what}, the next turn"), &caller, speaks(&caller).await.end, ANSWERED).await;
        knows_so_many(&what, &stages, turns + 1);
        desk.ends_with(&caller).await;
        stages.listener.is_content();
    }
}

/// Turns of the caller that the model is told of.
fn turns(asked: &Asked) -> usize {
    asked.body["messages"].to_string().matches("When are you open, please?").count()
}

fn knows_so_many(what: &str, stages: &Stages, known: usize) {
    let asked = stages.model.asked().pop().expect("asked");
    assert_eq!(turns(&asked), known, "{what}: {}", asked.body["messages"]);
}

/// The answer is heard in time and once, and no silence before it is unexplained.
async fn is_answered(what: &str, caller: &Caller, since: Duration, within: Duration) {
    caller.until(&format!("{what}: the answer is heard"), |tape| tape.time_of(hertz(1), since) >= ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    let (begun, heard) = caller.look(|tape| (tape.first_of(hertz(1), since), tape.time_of(hertz(1), since)));
    let begun = begun.expect("waited for");
    assert!(begun <= since + within, "{what}: {}", story(caller));
    assert!((ms(940)..=ms(1_040)).contains(&heard), "{what}: once, {heard:?}; {}", story(caller));
    is_explained(what, caller, since..begun);
    no_apology(what, caller);
}

async fn are_survived(service: Service, faults: &[Fault]) {
    let rows =
        STATES.into_iter().flat_map(|state| faults.iter().map(move |fault| Row { service, fault: *fault, state }));
    join_all(rows.map(Row::is_survived)).await;
}

pub async fn a_model_that_breaks_in_any_state_of_a_call_costs_no_word_and_no_long_silence() {
    are_survived(Service::Model, &[Fault::Closes, Fault::Garbage, Fault::HalfOpen]).await;
}

/// The end of each answer comes after its last event.
pub async fn the_connection_of_an_answer_is_kept_for_the_next_question() {
    let stages = Stages::start().await;
    stages.model.answers(|_| {
        let mut reply = model::says("A tone.");
        reply.bits.push(Bit::Wait(ms(200)));
        reply
    });
    let desk = Desk::of_stages(&stages).await;
    let caller = super::called(&desk).await;
    for turn in ["the first", "the second"] {
        is_answered(turn, &caller, speaks(&caller).await.end, ANSWERED).await;
    }
    assert_eq!((stages.model.times(), stages.model.connections()), (2, 1));
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_voice_that_breaks_in_any_state_of_a_call_costs_a_clause_at_most() {
    tokio::join!(
        // Bytes that are said to be sound are sound.
        are_survived(Service::Voice(VOICES[0]), &[Fault::Closes, Fault::HalfOpen]),
        are_survived(Service::Voice("wyoming_speech"), &[Fault::Garbage, Fault::HalfOpen]),
    );
}

/// A listener that is asked for each turn, over HTTP by the connection of the turn before.
async fn scribe_is_half_open(scribe: &'static str) {
    let stages = Stages::asking(scribe, Scenario::default()).await;
    let desk = Desk::of_pipelines(&[("first", &stages)], "").await;
    let caller = super::called(&desk).await;
    is_answered(scribe, &caller, speaks(&caller).await.end, ANSWERED).await;
    stages.scribe.is_half_open(stages.scribe.connections());
    if scribe == "wyoming_transcribe" {
        stages.scribe.is_half_open(stages.scribe.connections() + 1);
    }
    is_answered(scribe, &caller, speaks(&caller).await.end, CARRIED_ON).await;
    assert!(desk.asked_of("stt", "slow") >= 1.0, "{scribe}: {}", desk.engine.metrics().text());
    knows_so_many(scribe, &stages, 2);
    is_answered(&format!("{scribe}, the next turn"), &caller, speaks(&caller).await.end, ANSWERED).await;
    desk.ends_with(&caller).await;
}

pub async fn a_listener_that_is_asked_over_a_half_open_connection_is_asked_again() {
    join_all(SCRIBES.map(scribe_is_half_open)).await;
}
