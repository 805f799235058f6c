//! What breaks, and what the caller hears of it. Where the table speaks of a session, a pipeline has the connection of
//! the service that listens; its model and its voice are asked anew each time.

use super::{answered, called, speaks, story};
use crate::{
    desk::{APOLOGY_HZ, Desk},
    ear::{Caller, Tape},
    ms,
    support::{
        stages::{Asked, Bit, Reply, Stages, model, voice},
        vendor::{Failure, Opening, Order, Saying, Scenario, hertz},
    },
    tools::look_up,
};
use futures_util::future::join_all;
use std::{ops::Range, time::Duration};

/// Close codes that vendors are known to send.
pub const CODES: [u16; 5] = [1000, 1001, 1007, 1008, 1011];
/// From a fault to the apology: 6 s for other listeners, then for other sessions what a call gives them; with time to
/// spare.
const DIALS: Duration = ms(22_000);
/// No caller hears more than 1.5 s of unexplained silence; and half a second for a busy machine.
const QUIET_MAX: Duration = ms(2_000);
/// From the caller's last word until an answer is heard, whatever failed meanwhile.
const CARRIED_ON: Duration = ms(8_000);
/// Of its 800 ms; words can have its pitch for a moment.
const APOLOGY_MIN: Duration = ms(500);
/// Added to the deputy's pitch.
pub const DEPUTY: usize = 3;

pub type Reasons = &'static [&'static str];

pub async fn deputy() -> Stages {
    Stages::of(Scenario { voice: DEPUTY, ..Scenario::default() }).await
}

/// The caller hears the apology, and the call ends for one of these reasons.
pub async fn ends(what: &str, reasons: Reasons, desk: &Desk, caller: &Caller, since: Duration) {
    caller.is_hung_up_on().await;
    let (reason, story) = (desk.end_reason().await.label(), story(caller));
    assert!(reasons.contains(&reason.as_str()), "{what}: {reason}; {story}");
    let apology = caller.look(|tape| tape.time_of(APOLOGY_HZ, since));
    assert!(apology >= APOLOGY_MIN, "{what}: {apology:?} of the apology; {story}");
    assert!(caller.now() <= since + DIALS + ms(2_000), "{what}: {story}");
    let counted = format!("offhook_calls_total{{class=\"provider\",reason=\"{reason}\"}}");
    assert_eq!(desk.metric(&counted), 1.0, "{what}: {counted}");
}

pub fn no_apology(what: &str, caller: &Caller) {
    assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, ms(0))) < APOLOGY_MIN, "{what}: {}", story(caller));
}

/// Where a call is when something happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The caller hears the greeting, which is still being made.
    Greeting,
    Idle,
    CallerSpeaking,
    /// The caller has finished, and nothing of the answer has come.
    Thinking,
    /// The caller hears an answer, which is still being made.
    AgentSpeaking,
    ToolRunning,
}

const STATES: [State; 6] =
    [State::Greeting, State::Idle, State::CallerSpeaking, State::Thinking, State::AgentSpeaking, State::ToolRunning];
/// Where somebody waits for what a pipeline does, or nobody for anything.
const WAITS: [State; 4] = [State::Idle, State::Thinking, State::AgentSpeaking, State::ToolRunning];

pub fn calls_once(asked: &Asked) -> Reply {
    if asked.results().is_empty() { model::calls(&[look_up(1)]) } else { model::says("There it is.") }
}

/// A call in this state, in which the listener then does this: another one listens, or another pipeline takes the call,
/// and the caller hears neither an apology nor a silence that nobody explains.
async fn carries_on(state: State, order: Order) {
    let what = format!("{order:?} in {state:?}");
    let (stages, deputy) = (Stages::start().await, deputy().await);
    match state {
        State::Greeting | State::AgentSpeaking => {
            stages.voice.answers(|asked| voice::speaks_slowly(asked, hertz(1), ms(2_000)));
        }
        State::ToolRunning => stages.model.answers(calls_once),
        State::Thinking => stages.model.answers(|_| {
            let mut answer = model::says("A tone.");
            answer.bits.insert(0, Bit::Wait(ms(700)));
            answer
        }),
        State::Idle | State::CallerSpeaking => {}
    }
    let pipelines = [("first", &stages), ("second", &deputy)];
    let desk = Desk::of_pipelines(&pipelines, "fallbacks: [second]\nlimits: { agent_silence: 4s }").await;
    let caller = if state == State::Greeting { desk.call().await } else { called(&desk).await };
    let since = happens(state, order, &stages, &desk, &caller).await;
    let heard = |tape: &Tape| [hertz(1), hertz(1 + DEPUTY)].iter().filter_map(|hz| tape.first_of(*hz, since)).min();
    caller.until(&format!("{what}: the caller is answered"), |tape| heard(tape).is_some()).await;
    let begun = caller.look(heard).expect("waited for");
    assert!(begun <= since + CARRIED_ON, "{what}: {}", story(&caller));
    let silence = caller.look(|tape| tape.longest_silence(since..begun));
    assert!(silence <= QUIET_MAX, "{what}: {silence:?} of silence; {}", story(&caller));
    no_apology(&what, &caller);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
    deputy.listener.is_content();
}

/// Brings the call into the state and lets it happen; returns from when on the caller waits for an answer.
async fn happens(state: State, order: Order, stages: &Stages, desk: &Desk, caller: &Caller) -> Duration {
    match state {
        State::Idle => {
            stages.listener.order(1, order);
            speaks(caller).await.end
        }
        State::CallerSpeaking => {
            caller.speaks().await;
            let half_a_second = |said: &Range<Duration>| said.end - said.start >= ms(500);
            caller.until("the caller speaks", |tape| tape.said.last().is_some_and(half_a_second)).await;
            stages.listener.order(1, order);
            caller.has_spoken().await.end
        }
        State::Thinking => {
            let said = speaks(caller).await;
            stages.model.is_asked(1).await;
            stages.listener.order(1, order);
            said.end
        }
        State::Greeting | State::AgentSpeaking => {
            let from = if state == State::Greeting { ms(0) } else { speaks(caller).await.end };
            caller.hears_from(from, hertz(1), ms(600)).await;
            stages.listener.order(1, order);
            caller.hears_from(from, hertz(1), ms(1_900)).await;
            let begun = caller.look(|tape| tape.first_of(hertz(1), from)).expect("heard");
            let quiet = caller.look(|tape| tape.longest_silence(begun..tape.now()));
            assert!(quiet <= ms(100), "{state:?}: what was being said goes on; {}", story(caller));
            caller.hears_nothing_for(ms(300)).await;
            speaks(caller).await.end
        }
        State::ToolRunning => {
            desk.service.holds(true);
            speaks(caller).await;
            desk.service.wait_requests(1).await;
            stages.listener.order(1, order);
            let failed = caller.now();
            caller.until("the tool takes its time", |tape| tape.now() > failed + ms(3_000)).await;
            desk.service.holds(false);
            failed
        }
    }
}

pub async fn a_session_closed_while_the_caller_is_greeted() {
    join_all(CODES.map(|code| carries_on(State::Greeting, Order::Close(code, "")))).await;
}

pub async fn a_session_closed_while_nobody_speaks() {
    carries_on(State::Idle, Order::Close(1011, "")).await;
}

pub async fn a_session_closed_while_the_caller_speaks() {
    carries_on(State::CallerSpeaking, Order::Close(1011, "")).await;
}

pub async fn a_session_closed_while_the_caller_waits_for_an_answer() {
    carries_on(State::Thinking, Order::Close(1011, "")).await;
}

pub async fn a_session_closed_while_the_agent_speaks() {
    carries_on(State::AgentSpeaking, Order::Close(1011, "")).await;
}

pub async fn a_session_closed_while_a_tool_runs() {
    carries_on(State::ToolRunning, Order::Close(1011, "")).await;
}

pub async fn a_connection_that_breaks_without_a_word() {
    join_all(STATES.map(|state| carries_on(state, Order::Drop))).await;
}

pub async fn a_connection_that_is_half_open() {
    join_all([State::Idle, State::Thinking].map(|state| carries_on(state, Order::Freeze))).await;
}

pub async fn a_vendor_that_falls_silent() {
    join_all([State::Idle, State::Thinking].map(|state| carries_on(state, Order::Mute))).await;
}

pub async fn quota_throttling_and_expiry_in_mid_call() {
    let failures = [Failure::Quota, Failure::Throttled, Failure::Expired];
    join_all(failures.map(|failure| carries_on(State::Idle, Order::Say(Saying::Failure(failure))))).await;
}

pub async fn nothing_but_garbage_in_mid_call() {
    join_all([State::Idle, State::Thinking].map(|state| carries_on(state, Order::Garbage))).await;
}

pub async fn one_message_of_8_megabytes_is_survived() {
    join_all(WAITS.map(|state| carries_on(state, Order::Say(Saying::Huge(8 << 20))))).await;
}

/// The voice is gone for good, and another pipeline takes the call on: its model knows what was said.
pub async fn the_next_session_is_told_what_was_said() {
    let (stages, deputy) = (Stages::start().await, deputy().await);
    let desk = Desk::of_pipelines(&[("first", &stages), ("second", &deputy)], "fallbacks: [second]").await;
    let caller = called(&desk).await;
    answered(&caller, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    stages.voice.answers(|_| Reply::refuses(402, "insufficient_quota"));
    answered(&caller, hertz(1 + DEPUTY), ms(700)).await;
    let asked = deputy.model.is_asked(1).await;
    let told = asked.body["messages"].to_string();
    for words in ["Hello there.", "When are you open, please?", "A tone."] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(desk.metric("offhook_session_recoveries_total{outcome=\"took_over\",provider=\"second\"}"), 1.0);
    no_apology("the voice is gone", &caller);
    desk.ends_with(&caller).await;
    deputy.listener.is_content();
}

/// Nobody listens any more, and nobody can be found who does.
pub async fn a_caller_whom_nobody_can_serve_any_more_hears_the_apology() {
    let scenario =
        Scenario { openings: vec![Opening::Normal], otherwise: Opening::Slow(ms(10_000)), ..Scenario::default() };
    let stages = Stages::of(scenario).await;
    stages.voice.answers(|asked| voice::speaks_slowly(asked, hertz(1), ms(3_000)));
    let desk = Desk::of_stages(&stages).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(2_800)).await;
    let since = caller.now();
    stages.listener.order(1, Order::Close(1011, ""));
    ends("no listener is left", &["agent_closed", "agent_unreachable"], &desk, &caller, since).await;
}

/// The listener is gone for good while a tool runs, and another pipeline takes the call on: its model is told what the
/// tool found.
pub async fn another_vendor_goes_on_with_what_was_said_and_with_what_a_tool_found() {
    let scenario = Scenario { openings: vec![Opening::Normal], otherwise: Opening::Refuse(401), ..Scenario::default() };
    let (stages, deputy) = (Stages::of(scenario).await, deputy().await);
    stages.model.answers(calls_once);
    let desk = Desk::of_pipelines(&[("first", &stages), ("second", &deputy)], "fallbacks: [second]").await;
    let caller = called(&desk).await;
    desk.service.holds(true);
    speaks(&caller).await;
    desk.service.wait_requests(1).await;
    let since = caller.now();
    stages.listener.order(1, Order::Drop);
    desk.counts("offhook_session_recoveries_total{outcome=\"took_over\",provider=\"second\"}", 1.0).await;
    desk.service.holds(false);
    caller.hears_from(since, hertz(1 + DEPUTY), ms(700)).await;
    let told = |asked: &[Asked]| {
        let last = asked.last().map(|asked| asked.body["messages"].to_string()).unwrap_or_default();
        last.contains("on its way") && last.contains("When are you open, please?")
    };
    deputy.model.until("it is told the caller's words and what the tool found", told).await;
    assert_eq!(desk.service.requests().len(), 1, "it was run once");
    no_apology("the listener is gone", &caller);
    desk.ends_with(&caller).await;
    deputy.listener.is_content();
}

/// The listener is refused when it is to listen again: the next pipeline takes the call.
pub async fn a_refused_successor_is_counted_and_another_one_takes_the_call() {
    join_all([401, 429, 503].map(|status| async move {
        let scenario =
            Scenario { openings: vec![Opening::Normal], otherwise: Opening::Refuse(status), ..Scenario::default() };
        let (stages, deputy) = (Stages::of(scenario).await, deputy().await);
        let desk = Desk::of_pipelines(&[("first", &stages), ("second", &deputy)], "fallbacks: [second]").await;
        let caller = called(&desk).await;
        stages.listener.order(1, Order::Drop);
        answered(&caller, hertz(1 + DEPUTY), ms(700)).await;
        let counted = desk.metric("offhook_stage_requests_total{kind=\"deepgram_listen\",outcome=\"refused\"");
        assert!(counted >= 1.0, "{status}: {}", desk.engine.metrics().text());
        assert_eq!(desk.recoveries("took_over", "second"), 1.0, "{status}");
        no_apology(&format!("{status}"), &caller);
        desk.ends_with(&caller).await;
        deputy.listener.is_content();
    }))
    .await;
}

// ---- What is survived ----

pub async fn noise_is_survived() {
    let stages = Stages::start().await;
    stages.model.answers(|_| {
        let mut reply = model::says("A tone.");
        let strange = [": nothing\n\n", "event: hologram\ndata: {\"of\":\"the caller\"}\n\n"];
        reply.bits.splice(1..1, strange.map(|noise| Bit::Bytes(noise.into())));
        reply
    });
    let desk = Desk::of_stages(&stages).await;
    let caller = called(&desk).await;
    for saying in [Saying::Unknown, Saying::Ping] {
        stages.listener.order(1, Order::Say(saying));
    }
    answered(&caller, hertz(1), ms(700)).await;
    assert_eq!(stages.listener.sessions(), 1);
    // What is no message at all ends the connection, and no more than that.
    stages.listener.order(1, Order::Say(Saying::Malformed));
    stages.listener.until_session(2, "listens", |seen| seen.set_up.is_some()).await;
    caller.hears_nothing_for(ms(300)).await;
    answered(&caller, hertz(1), ms(700)).await;
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}
