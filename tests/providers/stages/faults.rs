//! What breaks, and what the caller hears of it. Where the table speaks of a session, a pipeline has the connection of
//! the service that listens; its model and its voice are asked anew each time.

use super::{
    answered, asides, called, speaks,
    states::{Scene, call_in, is_understood},
    story,
};
use crate::providers::{
    desk::{APOLOGY_HZ, Desk},
    ear::Caller,
    faults::{hears_no_gap, is_explained},
    kit::{
        stages::{Asked, Bit, Flux, Nova, Reply, Stages, Transcriber, model, voice},
        vendor::{Dialect, Failure, Opening, Order, Saying, Scenario, hertz},
    },
    ms,
    openings::{APOLOGY_MIN, CODES, ends},
    states::{NOTICES, STATES, State, WAITS},
    tools::look_up,
};
use futures_util::future::join_all;

/// Added to the deputy's pitch.
pub const DEPUTY: usize = 3;

pub async fn deputy() -> Stages {
    Stages::of(Scenario { pitch: |session| hertz(session + DEPUTY), ..Scenario::default() }).await
}

pub fn no_apology(what: &str, caller: &Caller) {
    assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, ms(0))) < APOLOGY_MIN, "{what}: {}", story(caller));
}

pub fn calls_once(asked: &Asked) -> Reply {
    if asked.results().is_empty() { model::calls(&[look_up(1)]) } else { model::says("There it is.") }
}

/// What becomes of a listener's connection after this.
fn outcome(order: &Order) -> &'static str {
    match order {
        Order::Say(Saying::Failure(Failure::Quota | Failure::Throttled)) => "refused",
        Order::Garbage => "garbage",
        Order::Freeze | Order::Mute => "slow",
        _ => "closed",
    }
}

/// Such a fault does not heal by itself: the listener is not begun again, unless it has worked in this call.
fn lasts(order: &Order) -> bool {
    matches!(order, Order::Say(Saying::Failure(Failure::Quota)) | Order::Garbage)
}

/// A call in this state, in which the listener then does this: it is begun again, or another pipeline takes the call, and
/// the caller hears neither an apology nor a silence that nobody explains, in this turn and in the next one.
async fn carries_on(state: State, order: Order) {
    let what = format!("{order:?} in {state:?}");
    let scene = call_in(state).await;
    let Scene { stages, deputy, desk, caller, .. } = &scene;
    let (outcome, lost) = (outcome(&order), lasts(&order) && !is_understood(state));
    let is_told = matches!(order, Order::Close(..) | Order::Drop);
    stages.listener.order(1, order);
    if is_told {
        scene.is_undecided_when(&what, |desk| desk.asked_of("stt", outcome) == 1.0).await;
    }
    scene.goes_on(&what).await;
    assert_eq!(desk.asked_of("stt", outcome), 1.0, "{what}: {}", desk.engine.metrics().text());
    let others = ["unreachable", "refused", "slow", "closed", "garbage"].into_iter().filter(|other| *other != outcome);
    assert_eq!(others.map(|other| desk.asked_of("stt", other)).sum::<f64>(), 0.0, "{what}");
    let recovered = ["first", "second"].map(|provider| desk.recoveries("took_over", provider)).iter().sum::<f64>();
    assert_eq!(recovered, f64::from(u8::from(lost)), "{what}: {}", desk.engine.metrics().text());
    // Of both pipelines: the one that fails, and one after it.
    let began = stages.listener.sessions() + deputy.listener.sessions();
    assert_eq!(began, if state == State::HandingOver { 3 } else { 2 }, "{what}");
    desk.ends_with(caller).await;
    stages.listener.is_content();
    deputy.listener.is_content();
}

/// Every close code in one state.
async fn closes(state: State) {
    join_all(CODES.map(|code| carries_on(state, Order::Close(code, "")))).await;
}

pub async fn a_session_closed_while_the_caller_is_greeted() {
    closes(State::Greeting).await;
}

pub async fn a_session_closed_while_nobody_speaks() {
    closes(State::Idle).await;
}

pub async fn a_session_closed_while_the_caller_speaks() {
    closes(State::CallerSpeaking).await;
}

pub async fn a_session_closed_while_the_caller_waits_for_an_answer() {
    closes(State::Thinking).await;
}

pub async fn a_session_closed_while_the_agent_speaks() {
    closes(State::AgentSpeaking).await;
}

pub async fn a_session_closed_while_an_interruption_is_undecided() {
    closes(State::Undecided).await;
}

pub async fn a_session_lost_while_a_backchannel_is_undecided() {
    let listeners = [Order::Close(1011, ""), Order::Drop].map(|order| carries_on(State::Aside, order));
    tokio::join!(join_all(listeners), asides::voice_is_lost(), asides::model_is_lost());
}

pub async fn a_session_closed_while_a_tool_runs() {
    closes(State::ToolRunning).await;
}

pub async fn a_session_closed_while_a_filler_is_heard() {
    tokio::join!(closes(State::Filled), closes(State::Announced));
}

pub async fn a_session_closed_while_a_consent_text_is_heard() {
    closes(State::Consent).await;
}

pub async fn a_session_closed_while_the_caller_types() {
    closes(State::Typing).await;
}

pub async fn a_session_closed_while_the_call_is_handed_over() {
    closes(State::HandingOver).await;
}

pub async fn a_connection_that_breaks_without_a_word() {
    join_all(STATES.map(|state| carries_on(state, Order::Drop))).await;
}

pub async fn a_connection_that_is_half_open() {
    tokio::join!(
        join_all(NOTICES.map(|state| carries_on(state, Order::Freeze))),
        is_noticed_before_the_caller_speaks::<Flux>("Flux"),
        is_noticed_before_the_caller_speaks::<Nova>("Nova"),
        is_noticed_before_the_caller_speaks::<Transcriber>("OpenAI's transcriber"),
    );
}

/// Nobody misses an answer, and no ping is answered.
async fn is_noticed_before_the_caller_speaks<L: Dialect>(listener: &str) {
    let stages = Stages::listening::<L>(Scenario::default()).await;
    let desk = Desk::of_stages(&stages).await;
    let caller = called(&desk).await;
    stages.listener.order(1, Order::Freeze);
    let frozen = caller.now();
    stages.listener.until_session(2, "listens", |seen| seen.set_up.is_some()).await;
    let took = caller.now() - frozen;
    assert!(took <= ms(11_000), "{listener}: {took:?}");
    let said = answered(&caller, hertz(1), ms(700)).await;
    let begun = caller.look(|tape| tape.first_of(hertz(1), said.end)).expect("heard");
    assert!(begun <= said.end + ms(1_500), "{listener}: {}", story(&caller));
    assert_eq!((desk.asked_of("stt", "closed"), desk.metric("offhook_agent_losses_total")), (1.0, 0.0), "{listener}");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}

pub async fn a_vendor_that_falls_silent() {
    join_all(NOTICES.map(|state| carries_on(state, Order::Mute))).await;
}

pub async fn quota_throttling_and_expiry_in_mid_call() {
    let failures = [Failure::Quota, Failure::Throttled, Failure::Expired];
    let rows = WAITS.into_iter().flat_map(|state| failures.map(|failure| (state, failure)));
    join_all(rows.map(|(state, failure)| carries_on(state, Order::Say(Saying::Failure(failure))))).await;
}

pub async fn nothing_but_garbage_in_mid_call() {
    join_all(WAITS.map(|state| carries_on(state, Order::Garbage))).await;
}

/// It takes time to read, and nothing else: the call goes on with the same listener.
pub async fn one_message_of_8_megabytes_is_survived() {
    join_all(WAITS.map(is_read)).await;
}

async fn is_read(state: State) {
    let what = format!("8 MB in {state:?}");
    let scene = call_in(state).await;
    let Scene { stages, desk, caller, .. } = &scene;
    stages.listener.order(1, Order::Say(Saying::Huge(8 << 20)));
    scene.goes_on(&what).await;
    assert_eq!(desk.metric("offhook_agent_losses_total"), 0.0, "{what}");
    assert_eq!(stages.listener.sessions(), 1, "{what}");
    desk.ends_with(caller).await;
    stages.listener.is_content();
}

/// A message of the listener, and an answer of the model.
pub async fn a_neighbour_hears_no_gap_while_8_megabytes_are_read() {
    let of_the_listener = async |stages: &Stages, desk: &Desk, _: &Caller| {
        stages.listener.order(1, Order::Say(Saying::Huge(8 << 20)));
        stages.listener.order(1, Order::Say(Saying::Malformed));
        desk.counts("offhook_stage_oddities_total{kind=\"deepgram_listen\",oddity=\"malformed\"", 1.0).await;
    };
    let padded = model::padded("A tone.", 8 << 20);
    let of_the_model = async move |stages: &Stages, desk: &Desk, caller: &Caller| {
        stages.model.answers(move |_| padded.clone());
        speaks(caller).await;
        caller.until("it is read", |_| desk.asked_of("llm", "done") == 2.0).await;
    };
    is_read_beside(of_the_listener).await;
    is_read_beside(of_the_model).await;
}

/// The agent of a call beside it speaks all the while.
async fn is_read_beside(is_read: impl AsyncFnOnce(&Stages, &Desk, &Caller)) {
    let (stages, answer) = (Stages::start().await, ms(7_000));
    // The first two are greeted.
    stages
        .voice
        .answers(move |asked| voice::speaks(asked, hertz(1), if asked.number <= 2 { ms(1_000) } else { answer }));
    let desk = Desk::of_stages(&stages).await;
    let (caller, neighbour) = (called(&desk).await, called(&desk).await);
    let asked = speaks(&neighbour).await.end;
    neighbour.hears_from(asked, hertz(1), ms(200)).await;
    neighbour.until("its agent has said it all", |_| desk.asked_of("voices", "done") == 3.0).await;
    is_read(&stages, &desk, &caller).await;
    hears_no_gap(&desk, &neighbour, hertz(1), asked, answer).await;
    desk.ends_with(&caller).await;
    assert_eq!(desk.metric("offhook_agent_losses_total"), 0.0);
    stages.listener.is_content();
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
    caller.hears(hertz(1), ms(600)).await;
    stages.listener.order(1, Order::Close(1011, ""));
    caller.hears(hertz(1), ms(2_900)).await;
    let since = speaks(&caller).await.end;
    ends("no listener is left", "unreachable", &desk, &caller, since).await;
    is_explained("no listener is left", &caller, since..caller.now());
    assert_eq!((desk.recoveries("failed", "first"), desk.recoveries("took_over", "first")), (1.0, 0.0));
    stages.listener.is_content();
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
    // Before the first words as well.
    for saying in [Saying::Unknown, Saying::Malformed, Saying::Ping] {
        stages.listener.order(1, Order::Say(saying));
    }
    answered(&caller, hertz(1), ms(700)).await;
    assert_eq!(stages.listener.sessions(), 1);
    let malformed = "offhook_stage_oddities_total{kind=\"deepgram_listen\",oddity=\"malformed\"";
    assert_eq!((desk.metric(malformed), desk.metric("offhook_agent_losses_total")), (1.0, 0.0));
    assert_eq!(desk.asked_of("stt", "garbage"), 0.0);
    desk.ends_with(&caller).await;
    stages.listener.is_content();
}
