//! What breaks, and what the caller hears of it. Where the table speaks of a session, a pipeline has the connection of
//! the service that listens; its model and its voice are asked anew each time.

use super::{answered, called, speaks, story};
use crate::{
    desk::{APOLOGY_HZ, Desk},
    ear::{Caller, Tape},
    ms,
    support::{
        stages::{Asked, Bit, Reply, Server, Stages, model, voice},
        vendor::{Failure, Opening, Order, Saying, Scenario, hertz},
    },
    tools::look_up,
};
use futures_util::future::join_all;
use std::{ops::Range, time::Duration};

/// Close codes that vendors are known to send.
const CODES: [u16; 5] = [1000, 1001, 1007, 1008, 1011];
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
const DEPUTY: usize = 3;

/// Of one service in one call, with those of the sessions that were to carry it on.
const ATTEMPTS_MAX: usize = 9;

type Reasons = &'static [&'static str];

pub async fn deputy() -> Stages {
    Stages::of(Scenario { voice: DEPUTY, ..Scenario::default() }).await
}

/// The caller hears the apology, and the call ends for one of these reasons.
async fn ends(what: &str, reasons: Reasons, desk: &Desk, caller: &Caller, since: Duration) {
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

// ---- Before a session stands ----

/// One call whose listener's connections all open like this, and nobody else to fall back on.
async fn opens(opening: Opening, reasons: Reasons) -> Stages {
    let what = format!("{opening:?}");
    let stages = Stages::of(Scenario::all(opening)).await;
    let desk = Desk::of_stages(&stages).await;
    let caller = desk.call().await;
    ends(&what, reasons, &desk, &caller, ms(0)).await;
    stages
}

/// One call whose model or voice refuses like this: what the caller says is the first thing that it is to answer.
async fn refuses(stage: fn(&Stages) -> &Server, reply: Reply, reasons: Reasons) -> usize {
    let what = format!("{reply:?}");
    let stages = Stages::start().await;
    stage(&stages).answers(move |_| reply.clone());
    let desk = Desk::of_stages(&stages).await;
    let caller = desk.call().await;
    caller.speaks().await;
    ends(&what, reasons, &desk, &caller, ms(0)).await;
    stage(&stages).times()
}

fn the_model(stages: &Stages) -> &Server {
    &stages.model
}

fn the_voice(stages: &Stages) -> &Server {
    &stages.voice
}

const UNAUTHORIZED: Reasons = &["agent_unauthorized"];
const UNREACHABLE: Reasons = &["agent_unreachable"];
const THROTTLED: Reasons = &["agent_throttled"];

pub async fn a_refused_key_is_told_and_not_tried_again() {
    let listener = async { opens(Opening::Refuse(401), UNAUTHORIZED).await.listener.sessions() };
    let refusal = || Reply::refuses(401, "invalid_api_key");
    let model = refuses(the_model, refusal(), UNAUTHORIZED);
    let voice = refuses(the_voice, refusal(), UNAUTHORIZED);
    assert_eq!(tokio::join!(listener, model, voice), (1, 1, 1));
}

pub async fn an_upgrade_refused_with_any_status_is_told_for_what_it_is() {
    let listeners = [(401, UNAUTHORIZED), (403, UNAUTHORIZED), (429, THROTTLED), (500, UNREACHABLE), (503, THROTTLED)];
    let listeners = join_all(listeners.map(|(status, reasons)| async move {
        let attempts = opens(Opening::Refuse(status), reasons).await.listener.sessions();
        assert!(attempts <= ATTEMPTS_MAX, "{status}: {attempts} attempts");
    }));
    let others =
        join_all([(403, UNAUTHORIZED), (429, THROTTLED), (500, UNREACHABLE)].map(|(status, reasons)| async move {
            let refusal = || Reply::refuses(status, "no");
            let attempts = tokio::join!(refuses(the_model, refusal(), reasons), refuses(the_voice, refusal(), reasons));
            assert!(attempts.0 <= ATTEMPTS_MAX && attempts.1 <= ATTEMPTS_MAX, "{status}: {attempts:?} attempts");
        }));
    tokio::join!(listeners, others);
}

pub async fn a_vendor_that_is_not_there_is_unreachable() {
    let gone = async {
        let stages = Stages::start().await;
        stages.listener.stop_listening();
        let desk = Desk::of_stages(&stages).await;
        let caller = desk.call().await;
        ends("nobody listens", UNREACHABLE, &desk, &caller, ms(0)).await;
    };
    let model = refuses(the_model, Reply::breaks(), UNREACHABLE);
    let voice = refuses(the_voice, Reply::breaks(), UNREACHABLE);
    tokio::join!(gone, opens(Opening::Drop, UNREACHABLE), model, voice);
}

pub async fn an_attempt_that_failed_is_made_again_and_heals() {
    let openings = [
        Opening::Refuse(503),
        Opening::Drop,
        Opening::CloseAtOnce(1011),
        Opening::CloseAtSetUp(1011, ""),
        Opening::Garbage,
    ];
    join_all(openings.map(|opening| async move {
        let stages = Stages::of(Scenario::first(opening)).await;
        let desk = Desk::of_stages(&stages).await;
        let caller = called(&desk).await;
        assert_eq!(stages.listener.sessions(), 2);
        answered(&caller, hertz(1), ms(700)).await;
        desk.ends_with(&caller).await;
        stages.listener.is_content();
    }))
    .await;
}

pub async fn a_handshake_of_ten_seconds_is_not_waited_for() {
    opens(Opening::Slow(ms(10_000)), UNREACHABLE).await;
}

const CLOSED: Reasons = &["agent_closed"];

pub async fn a_session_closed_before_its_first_message_is_tried_again_and_then_given_up() {
    join_all(CODES.map(|code| opens(Opening::CloseAtOnce(code), CLOSED))).await;
}

pub async fn a_session_closed_while_it_is_set_up_is_tried_again_and_then_given_up() {
    join_all(CODES.map(|code| opens(Opening::CloseAtSetUp(code, ""), CLOSED))).await;
}

pub async fn a_set_up_that_is_never_acknowledged_or_answered_with_garbage_is_given_up() {
    tokio::join!(opens(Opening::NeverReady, UNREACHABLE), opens(Opening::Garbage, &["agent_protocol"]));
}

pub async fn quota_and_throttling_at_the_set_up_are_told_for_what_they_are() {
    let quota = opens(Opening::FailAtSetUp(Failure::Quota), &["agent_quota"]);
    let (quota, _) = tokio::join!(quota, opens(Opening::FailAtSetUp(Failure::Throttled), THROTTLED));
    assert_eq!(quota.listener.sessions(), 1);
}

pub async fn a_caller_is_greeted_by_the_next_provider_when_the_first_one_fails() {
    let openings = [
        Opening::Refuse(401),
        Opening::Refuse(503),
        Opening::Slow(ms(10_000)),
        Opening::NeverReady,
        Opening::FailAtSetUp(Failure::Quota),
    ];
    join_all(openings.map(|opening| async move {
        let (stages, deputy) = (Stages::of(Scenario::all(opening.clone())).await, deputy().await);
        let desk = Desk::of_pipelines(&[("first", &stages), ("second", &deputy)], "fallbacks: [second]").await;
        let caller = desk.call().await;
        caller.hears(hertz(1 + DEPUTY), ms(600)).await;
        let begun = caller.look(|tape| tape.first_of(hertz(1 + DEPUTY), ms(0)));
        assert!(begun < Some(ms(9_000)), "{opening:?}: {}", story(&caller));
        no_apology(&format!("{opening:?}"), &caller);
        desk.ends_with(&caller).await;
        deputy.listener.is_content();
    }))
    .await;
}

// ---- While the session stands ----

/// Where a call is when something happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    CallerSpeaking,
    AgentSpeaking,
    ToolRunning,
}

const STATES: [State; 4] = [State::Idle, State::CallerSpeaking, State::AgentSpeaking, State::ToolRunning];

pub fn calls_once(asked: &Asked) -> Reply {
    if asked.results().is_empty() { model::calls(&[look_up(1)]) } else { model::says("There it is.") }
}

/// A call in this state, in which the listener then does this: another one listens, or another pipeline takes the call,
/// and the caller hears neither an apology nor a silence that nobody explains.
async fn carries_on(state: State, order: Order) {
    let what = format!("{order:?} in {state:?}");
    let (stages, deputy) = (Stages::start().await, deputy().await);
    match state {
        State::AgentSpeaking => stages.voice.answers(|asked| voice::speaks_slowly(asked, hertz(1), ms(3_000))),
        State::ToolRunning => stages.model.answers(calls_once),
        _ => {}
    }
    let pipelines = [("first", &stages), ("second", &deputy)];
    let desk = Desk::of_pipelines(&pipelines, "fallbacks: [second]\nlimits: { agent_silence: 4s }").await;
    let caller = if state == State::AgentSpeaking { desk.call().await } else { called(&desk).await };
    let mut failed = ms(0);
    match state {
        State::Idle => stages.listener.order(1, order),
        State::CallerSpeaking => {
            caller.speaks().await;
            let half_a_second = |said: &Range<Duration>| said.end - said.start >= ms(500);
            caller.until("the caller speaks", |tape| tape.said.last().is_some_and(half_a_second)).await;
            stages.listener.order(1, order);
        }
        State::AgentSpeaking => {
            caller.hears(hertz(1), ms(600)).await;
            stages.listener.order(1, order);
            caller.hears(hertz(1), ms(2_800)).await;
            let quiet = caller.look(|tape| tape.longest_silence(ms(1_000)..tape.now()));
            assert!(quiet <= ms(100), "{what}: the greeting goes on; {}", story(&caller));
            caller.hears_nothing_for(ms(300)).await;
        }
        State::ToolRunning => {
            desk.service.holds(true);
            caller.speaks().await;
            desk.service.wait_requests(1).await;
            caller.has_spoken().await;
            stages.listener.order(1, order);
            failed = caller.now();
            caller.until("the tool takes its time", |tape| tape.now() > failed + ms(3_000)).await;
            desk.service.holds(false);
        }
    }
    let since = match state {
        State::Idle | State::AgentSpeaking => speaks(&caller).await.end,
        State::CallerSpeaking => caller.has_spoken().await.end,
        State::ToolRunning => failed,
    };
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

pub async fn a_session_closed_while_nobody_speaks() {
    join_all(CODES.map(|code| carries_on(State::Idle, Order::Close(code, "")))).await;
}

pub async fn a_session_closed_while_the_caller_speaks() {
    carries_on(State::CallerSpeaking, Order::Close(1011, "")).await;
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

pub async fn a_connection_that_is_half_open_or_a_vendor_that_falls_silent() {
    join_all([Order::Freeze, Order::Mute].map(|order| carries_on(State::Idle, order))).await;
}

pub async fn quota_throttling_and_expiry_in_mid_call() {
    let failures = [Failure::Quota, Failure::Throttled, Failure::Expired];
    join_all(failures.map(|failure| carries_on(State::Idle, Order::Say(Saying::Failure(failure))))).await;
}

pub async fn nothing_but_garbage_in_mid_call() {
    carries_on(State::Idle, Order::Garbage).await;
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
    for saying in [Saying::Unknown, Saying::Huge(8 << 20), Saying::Ping] {
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
