//! Where a call is when something happens to the service that listens, and what the caller goes on with.

use super::{
    called,
    faults::{DEPUTY, calls_once, deputy, no_apology},
    has_heard, speaks, story,
};
use crate::providers::{
    clips::EDGES,
    desk::{Desk, MOMENT, MOMENT_HZ},
    ear::{Caller, Tape},
    faults::is_explained,
    kit::{
        stages::{Asked, Bit, Reply, Stages, model, voice},
        vendor::{Call, hertz},
    },
    ms,
    states::{KEYS, KEYS_WANTED, State, TYPED, UNDECIDED_MAX, collect_digits},
    turns::BACKCHANNEL,
};
use serde_json::json;
use std::{ops::Range, time::Duration};

/// From the caller's last word, or from the fault where nobody has to speak, until an answer is heard.
const CARRIED_ON: Duration = ms(5_000);
/// A greeting that is still being heard when a sound over it was decided.
const LONG: Duration = ms(4_000);

/// The listener that fails has written down a turn before it does.
pub fn is_understood(state: State) -> bool {
    let has_asked = matches!(state, State::Thinking | State::Filled | State::AgentSpeaking | State::HandingOver);
    has_asked || matches!(state, State::ToolRunning | State::Announced | State::Typing)
}

pub struct Scene {
    state: State,
    pub stages: Stages,
    pub deputy: Stages,
    pub desk: Desk,
    pub caller: Caller,
}

/// A call in this state, on a pipeline with a deputy.
pub async fn call_in(state: State) -> Scene {
    let (stages, deputy) = (Stages::start().await, deputy().await);
    prepare(state, &stages);
    // The caller is asked for a moment before a service counts as slow.
    let quiet = if matches!(state, State::Filled | State::Announced) { ", quiet: 700ms" } else { "" };
    let more = format!(
        "fallbacks: [second]\nlimits: {{ agent_silence: 4s{quiet} }}\nturns: {{ min_speech: 560ms }}\n{}",
        state.lines()
    );
    let desk = Desk::open_pipelines(&[("first", &stages), ("second", &deputy)], state.setting(&more)).await;
    let caller = match state {
        State::Greeting | State::Undecided | State::Aside => {
            let caller = desk.call().await;
            caller.hears(hertz(1), ms(600)).await;
            caller
        }
        State::Consent => {
            let caller = desk.call().await;
            caller.hears(MOMENT_HZ, ms(300)).await;
            caller
        }
        _ => called(&desk).await,
    };
    let scene = Scene { state, stages, deputy, desk, caller };
    scene.comes_there().await;
    scene
}

/// The agent is paused for what the caller has begun to say.
pub async fn is_paused(caller: &Caller) {
    let paused = |tape: &Tape| tape.said.last().is_some_and(|said| tape.is_quiet(said.start + ms(60)));
    caller.until("the agent is paused", paused).await;
}

/// What the model and the voice do, so that the state lasts.
fn prepare(state: State, stages: &Stages) {
    match state {
        State::Greeting | State::AgentSpeaking => {
            stages.voice.answers(|asked| voice::speaks_slowly(asked, hertz(1), ms(2_000)));
        }
        State::Undecided | State::Aside => {
            stages.voice.answers(|asked| voice::speaks_slowly(asked, hertz(1), LONG));
        }
        State::ToolRunning | State::Announced => stages.model.answers(calls_once),
        State::Thinking | State::Filled => {
            let thinks = if state == State::Filled { ms(1_200) } else { ms(700) };
            stages.model.answers(move |_| {
                let mut answer = model::says("A tone.");
                answer.bits.insert(0, Bit::Wait(thinks));
                answer
            });
        }
        State::Typing => stages.model.answers(asks_for_keys),
        State::HandingOver => {
            let call = Call { id: "call_0000000000000001".into(), name: "to_billing".into(), arguments: json!({}) };
            stages.model.answers(move |_| {
                let mut chunks = model::words("I hand you over.");
                chunks.push(model::fragment(0, Some(&call), "{}"));
                model::stream(chunks, "tool_calls")
            });
            let length = |number| if number == 1 { ms(1_000) } else { ms(3_000) };
            stages.voice.answers(move |asked| voice::speaks_slowly(asked, hertz(1), length(asked.number)));
        }
        State::Consent | State::Idle | State::CallerSpeaking => {}
        State::RollingOver => unreachable!("a pipeline's session has no end"),
    }
}

/// Calls the tool that waits for keys, and puts its question when that is ordered.
fn asks_for_keys(asked: &Asked) -> Reply {
    let is_ordered = asked.said_by("system").concat().contains(KEYS_WANTED);
    let has_keys = !asked.results().is_empty();
    if is_ordered || has_keys { model::says("There it is.") } else { model::calls(&[collect_digits()]) }
}

impl Scene {
    /// From the greeting on.
    async fn comes_there(&self) {
        let Self { stages, desk, caller, .. } = self;
        match self.state {
            State::Greeting | State::Idle | State::RollingOver => {}
            State::Consent => stages.listener.until_session(1, "listens", |seen| seen.set_up.is_some()).await,
            State::CallerSpeaking => {
                caller.speaks().await;
                let half_a_second = |said: &Range<Duration>| said.end - said.start >= ms(500);
                caller.until("the caller speaks", |tape| tape.said.last().is_some_and(half_a_second)).await;
            }
            State::Thinking | State::Filled => {
                let said = speaks(caller).await;
                stages.model.is_asked(1).await;
                let understood = "offhook_stage_requests_total{kind=\"deepgram_listen\",outcome=\"done\"";
                desk.counts(understood, 1.0).await;
                if self.state == State::Filled {
                    caller.hears_from(said.end, MOMENT_HZ, ms(300)).await;
                }
            }
            State::AgentSpeaking => {
                let said = speaks(caller).await;
                caller.hears_from(said.end, hertz(1), ms(600)).await;
            }
            State::Undecided | State::Aside => {
                match self.state {
                    State::Aside => caller.says(BACKCHANNEL).await,
                    _ => caller.speaks().await,
                }
                is_paused(caller).await;
            }
            State::ToolRunning | State::Announced => {
                desk.service.holds(true);
                let said = speaks(caller).await;
                desk.service.wait_requests(1).await;
                if self.state == State::Announced {
                    caller.hears_from(said.end, MOMENT_HZ, ms(300)).await;
                }
            }
            State::Typing => {
                let said = speaks(caller).await;
                caller.hears_from(said.end, hertz(1), ms(900)).await;
                caller.hears_nothing_for(ms(300)).await;
                caller.types(&KEYS[..TYPED]).await;
            }
            State::HandingOver => {
                speaks(caller).await;
                desk.counts("offhook_tool_calls_total{outcome=\"done\",tool=\"to_billing\"", 1.0).await;
            }
        }
    }

    /// The caller hears what was being said as if nothing had happened, goes on, and is answered; and so is the turn
    /// after that.
    pub async fn goes_on(&self, what: &str) {
        let (caller, last) = (&self.caller, |tape: &Tape| tape.said.last().map_or(ms(0), |said| said.end));
        let since = match self.state {
            State::Idle => speaks(caller).await.end,
            State::CallerSpeaking | State::Undecided => caller.has_spoken().await.end,
            State::Thinking | State::Filled => caller.look(last),
            State::Consent => self.is_greeted_behind_it(what).await,
            State::Greeting | State::AgentSpeaking => {
                self.says_it_all(caller.look(last), ms(1_900)).await;
                caller.hears_nothing_for(ms(300)).await;
                speaks(caller).await.end
            }
            State::Aside => {
                caller.hears(hertz(1), LONG - ms(40)).await;
                caller.hears_nothing_for(ms(300)).await;
                let heard = caller.look(|tape| tape.seamless(hertz(1), ms(0)..tape.now()));
                assert!((LONG..=LONG + ms(20)).contains(&heard), "{what}: {heard:?}; {}", story(caller));
                assert_eq!(self.desk.metric("offhook_false_alarms_total"), 1.0, "{what}: {}", story(caller));
                speaks(caller).await.end
            }
            State::ToolRunning | State::Announced => {
                let failed = caller.now();
                caller.until("the tool takes its time", |tape| tape.now() > failed + ms(3_000)).await;
                self.desk.service.holds(false);
                failed
            }
            State::Typing => {
                let failed = caller.now();
                caller.types(&KEYS[TYPED..]).await;
                failed
            }
            State::HandingOver => self.says_it_all(caller.look(last), ms(2_900)).await,
            State::RollingOver => unreachable!("a pipeline's session has no end"),
        };
        self.is_answered(what, since).await;
        self.speaks_for_itself(what);
        if matches!(self.state, State::CallerSpeaking | State::Undecided) {
            has_heard(what, &self.stages.listener, 2, caller);
        }
        caller.hears_nothing_for(ms(300)).await;
        // A turn that nothing disturbs any more, but what was not noticed before.
        self.is_answered(&format!("{what}, the next turn"), speaks(caller).await.end).await;
        let asked = [&self.stages, &self.deputy].map(|stages| stages.model.asked());
        let told =
            asked.iter().filter_map(|asked| asked.last()).any(|asked| asked.said_by("user").len() >= self.turns());
        assert!(told, "{what}: {asked:#?}");
        if self.state == State::HandingOver {
            assert_eq!(self.desk.engine.calls().view().active[0].call.context, "billing", "{what}");
        }
    }

    /// The consent text is heard to its end and then the greeting, and the caller speaks; until when.
    async fn is_greeted_behind_it(&self, what: &str) -> Duration {
        let caller = &self.caller;
        caller.hears(hertz(1), ms(900)).await;
        caller.hears_nothing_for(ms(300)).await;
        let notice = caller.look(|tape| {
            let greeting = tape.first_of(hertz(1), ms(0)).expect("heard");
            tape.seamless(MOMENT_HZ, ms(0)..greeting)
        });
        assert!((MOMENT..=MOMENT + ms(20)).contains(&notice), "{what}: {notice:?} of it; {}", story(caller));
        speaks(caller).await.end
    }

    /// What the engine says itself is heard as if nothing had happened, and once; and what was typed is one entry.
    fn speaks_for_itself(&self, what: &str) {
        let caller = &self.caller;
        let purpose = match self.state {
            State::Filled => "{purpose=\"filler\"}",
            // The model may have been waited for before the tool was.
            State::Announced => "",
            State::Consent => "{purpose=\"notice\"}",
            State::Typing => {
                let results = self.stages.model.asked().pop().expect("asked").results();
                return assert!(results.iter().any(|(_, told)| told.contains(KEYS)), "{what}: {results:?}");
            }
            _ => return,
        };
        let sentences = self.desk.metric(&format!("offhook_sentences_total{purpose}"));
        assert_eq!(sentences, 1.0, "{what}: {purpose}; {}", story(caller));
        if self.state == State::Announced {
            let heard = caller.look(|tape| tape.time_of(MOMENT_HZ, ms(0)));
            assert!(heard >= MOMENT - EDGES, "{what}: {heard:?} of the sentence; {}", story(caller));
        }
    }

    /// So many turns of the caller are known to who answers last.
    fn turns(&self) -> usize {
        match self.state {
            State::AgentSpeaking => 3,
            State::HandingOver => 1,
            _ => 2,
        }
    }

    /// The agent's words are heard as they were being said; until when.
    async fn says_it_all(&self, from: Duration, length: Duration) -> Duration {
        let caller = &self.caller;
        caller.hears_from(from, hertz(1), length).await;
        let (begun, quiet) = caller.look(|tape| {
            let begun = tape.first_of(hertz(1), from).expect("heard");
            (begun, tape.longest_silence(begun..tape.now()))
        });
        assert!(quiet <= ms(100), "{:?} from {begun:?}: what was being said goes on; {}", self.state, story(caller));
        caller.now()
    }

    async fn is_answered(&self, what: &str, since: Duration) {
        let caller = &self.caller;
        // The other context's agent is the deputy; what is still heard of the first one is the rest of its last words.
        let pitches =
            if self.state == State::HandingOver { vec![hertz(1 + DEPUTY)] } else { vec![hertz(1), hertz(1 + DEPUTY)] };
        let heard = |tape: &Tape| pitches.iter().filter_map(|hz| tape.first_of(*hz, since)).min();
        caller.until(&format!("{what}: the caller is answered"), |tape| heard(tape).is_some()).await;
        let begun = caller.look(heard).expect("waited for");
        assert!(begun <= since + CARRIED_ON, "{what}: {}", story(caller));
        is_explained(what, caller, since..begun);
        no_apology(what, caller);
    }

    /// How long the caller had been speaking when this was so, of which it was not decided whether it interrupts.
    pub async fn is_undecided_when(&self, what: &str, counted: impl Fn(&Desk) -> bool) {
        if matches!(self.state, State::Undecided | State::Aside) {
            is_undecided_when(what, &self.caller, || counted(&self.desk)).await;
        }
    }
}

/// This was so before it was decided whether the caller interrupts.
pub async fn is_undecided_when(what: &str, caller: &Caller, counted: impl Fn() -> bool) {
    caller.until(what, |_| counted()).await;
    let spoken = caller.look(|tape| tape.now() - tape.said.last().expect("the caller speaks").start);
    assert!(spoken <= UNDECIDED_MAX, "{what} after {spoken:?}, when it was decided");
}
