//! Services that stand in for each other within one pipeline.

use super::{answered, called, faults::no_apology, has_heard, speaks, story};
use crate::providers::{
    desk::{Desk, pipeline},
    ear::Caller,
    faults::is_explained,
    kit::{
        stages::{Reply, SCRIBES, Server, Stages, model, voice},
        vendor::{Opening, Order, Scenario, hertz},
    },
    ms,
};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;

/// Two of each kind of service; the second voice has a pitch of its own.
async fn desk(first: &Stages, second: &Stages) -> Desk {
    let both: &[&str] = &["one", "two"];
    let sections = Stages::sections(&[("one", first), ("two", second)]);
    // A service rests for longer than a caller is left alone.
    Desk::at(&[("first", pipeline(both, both, both))], "no_input: { after: 5m }", &sections).await
}

async fn second() -> Stages {
    Stages::of(Scenario { pitch: |session| hertz(session + 3), ..Scenario::default() }).await
}

/// Two calls, each with a turn that is answered at this pitch.
async fn two_calls(desk: &Desk, hz: f64) {
    for _ in 0..2 {
        let caller = desk.call().await;
        caller.hears(hz, ms(700)).await;
        caller.hears_nothing_for(ms(300)).await;
        answered(&caller, hz, ms(700)).await;
        no_apology("the second one", &caller);
        desk.ends_with(&caller).await;
    }
    assert_eq!(desk.metric("offhook_session_recoveries_total"), 0.0, "the call has lost nobody");
}

pub async fn the_next_listener_stands_in() {
    let (first, second) = (Stages::of(Scenario::all(Opening::Refuse(401))).await, second().await);
    let desk = desk(&first, &second).await;
    two_calls(&desk, hertz(1)).await;
    assert_eq!((first.listener.sessions(), second.listener.sessions()), (1, 2), "who was refused rests");
    second.listener.is_content();
}

pub async fn the_next_model_stands_in() {
    let (first, second) = (Stages::start().await, second().await);
    first.model.answers(|_| Reply::refuses(401, "invalid_api_key"));
    let desk = desk(&first, &second).await;
    two_calls(&desk, hertz(1)).await;
    assert_eq!((first.model.times(), second.model.times()), (1, 2), "who was refused rests");
}

pub async fn the_next_voice_stands_in() {
    let (first, second) = (Stages::start().await, second().await);
    first.voice.answers(|_| Reply::refuses(401, "invalid_api_key"));
    let desk = desk(&first, &second).await;
    two_calls(&desk, hertz(4)).await;
    assert_eq!((first.voice.times(), second.voice.times()), (1, 4), "who was refused rests");
}

/// Its words are asked of the one that has heard the turn from its beginning.
pub async fn the_next_listener_takes_over_in_the_middle_of_a_turn() {
    let scenario = Scenario { openings: vec![Opening::Normal], otherwise: Opening::Refuse(503), ..Scenario::default() };
    let (first, second) = (Stages::of(scenario).await, second().await);
    let desk = desk(&first, &second).await;
    let caller = called(&desk).await;
    caller.speaks().await;
    let began =
        |tape: &crate::providers::ear::Tape| tape.said.last().is_some_and(|said| said.end - said.start >= ms(800));
    caller.until("the caller speaks", began).await;
    first.listener.order(1, Order::Drop);
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    second.listener.until_session(1, "heard the turn", |seen| seen.turns_ended == 1).await;
    has_heard("the second listener", &second.listener, 1, &caller);
    no_apology("the second listener", &caller);
    desk.ends_with(&caller).await;
    second.listener.is_content();
}

/// When a service that rests is asked again.
async fn may_be_asked_again(desk: &Desk, place: &str) {
    let breaker = || async { desk.scraped_where("offhook_stage_breaker", &format!("service=\"{place}\"")).await };
    assert_eq!(breaker().await, 2.0, "{place} rests");
    // For 15 s, more or less.
    while breaker().await != 1.0 {
        sleep(ms(200)).await;
    }
}

/// It fails three times in a call, each with two more attempts, and rests the fourth time, when the second one stands in at
/// this pitch; then it works again.
async fn rests(place: &str, stage: fn(&Stages) -> &Server, hz: f64) {
    let (first, second) = (Stages::start().await, second().await);
    let works = Arc::new(AtomicBool::new(false));
    let works_now = Arc::clone(&works);
    let is_model = place.starts_with("llm");
    stage(&first).answers(move |asked| match (works_now.load(Ordering::Relaxed), is_model) {
        (false, _) => Reply::refuses(500, "server_error"),
        (true, true) => model::says("A tone."),
        (true, false) => voice::speaks(asked, hertz(1), ms(1_000)),
    });
    let desk = desk(&first, &second).await;
    let caller = desk.call().await;
    caller.hears(hz, ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    // No model is asked for the greeting.
    for times in 1 + stage(&second).times()..=4 {
        answered(&caller, hz, ms(700)).await;
        caller.hears_nothing_for(ms(300)).await;
        assert_eq!((stage(&first).times(), stage(&second).times()), (3 * times.min(3), times), "{place}");
    }
    may_be_asked_again(&desk, place).await;
    works.store(true, Ordering::Relaxed);
    answered(&caller, hertz(1), ms(700)).await;
    assert_eq!((stage(&first).times(), stage(&second).times()), (10, 4), "{place} works again");
    no_apology(place, &caller);
    desk.ends_with(&caller).await;
}

/// It is dialled three times by each of three calls and rests in the fourth; then it works again. Every caller is heard.
async fn listener_rests() {
    let openings = vec![Opening::Refuse(503); 9];
    let (first, second) = (Stages::of(Scenario { openings, ..Scenario::default() }).await, second().await);
    let desk = desk(&first, &second).await;
    for call in 1..=5 {
        let caller = called(&desk).await;
        answered(&caller, hertz(1), ms(700)).await;
        no_apology("a listener that rests", &caller);
        desk.ends_with(&caller).await;
        let dialled = (first.listener.sessions(), second.listener.sessions());
        assert_eq!(dialled, if call == 5 { (10, 4) } else { (3 * call.min(3), call) }, "in call {call}");
        if call == 4 {
            may_be_asked_again(&desk, "stt.one").await;
        }
    }
    first.listener.is_content();
    second.listener.is_content();
}

pub async fn a_service_that_fails_again_and_again_is_left_in_peace() {
    tokio::join!(
        rests("llm.one", |all| &all.model, hertz(1)),
        rests("voices.one", |all| &all.voice, hertz(4)),
        listener_rests(),
    );
}

// ---- Who only hangs ----

/// With two services that wait for 1.5 s each.
const STANDS_IN_WITHIN: Duration = ms(3_500);

/// The caller's turn is answered in time, at this pitch, and no silence before it is unexplained.
async fn is_answered(what: &str, caller: &Caller, said: &Range<Duration>, hz: f64) {
    caller.hears_from(said.end, hz, ms(700)).await;
    let begun = caller.look(|tape| tape.first_of(hz, said.end)).expect("waited for");
    assert!(begun <= said.end + STANDS_IN_WITHIN, "{what}: {}", story(caller));
    is_explained(what, caller, said.end..begun);
    no_apology(what, caller);
}

/// What it was asked since it hangs is counted by `asked`.
async fn hangs_in_mid_call(
    what: &str,
    first: Stages,
    hangs: impl FnOnce(&Stages),
    asked: fn(&Stages) -> usize,
    hz: f64,
) {
    let second = second().await;
    let desk = desk(&first, &second).await;
    let caller = called(&desk).await;
    let before = asked(&first);
    hangs(&first);
    is_answered(what, &caller, &speaks(&caller).await, hz).await;
    assert_eq!(asked(&first) - before, 1, "{what}: it is not asked again for the same");
    assert_eq!(desk.metric("offhook_session_recoveries_total"), 0.0, "{what}: the call has lost nobody");
    desk.ends_with(&caller).await;
    second.listener.is_content();
}

/// A listener that cannot even be reached in time takes a part of the time only that a caller waits for an agent.
async fn hangs_at_once(opening: Opening) {
    let what = format!("{opening:?}");
    let (first, second) = (Stages::of(Scenario::all(opening)).await, second().await);
    let desk = desk(&first, &second).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    let begun = caller.look(|tape| tape.first_of(hertz(1), ms(0))).expect("waited for");
    assert!(begun <= STANDS_IN_WITHIN, "{what}: {}", story(&caller));
    is_explained(&what, &caller, ms(0)..begun);
    caller.hears_nothing_for(ms(300)).await;
    is_answered(&what, &caller, &speaks(&caller).await, hertz(1)).await;
    assert_eq!((first.listener.sessions(), second.listener.sessions()), (1, 1), "{what}");
    assert_eq!(desk.metric("offhook_agent_losses_total"), 0.0, "{what}");
    desk.ends_with(&caller).await;
    second.listener.is_content();
}

pub async fn the_next_service_stands_in_for_one_that_hangs() {
    let asking = |scribe| Stages::asking(scribe, Scenario::default());
    let stalls = |stages: &Stages| stages.scribe.answers(|_| Reply::stalls());
    tokio::join!(
        hangs_at_once(Opening::Slow(ms(10_000))),
        hangs_at_once(Opening::NeverReady),
        async {
            let mute = |stages: &Stages| stages.listener.order(1, Order::Mute);
            let turns =
                |stages: &Stages| stages.listener.of(1, |seen| seen.turns_ended) + stages.listener.sessions() - 1;
            hangs_in_mid_call("a listener", Stages::start().await, mute, turns, hertz(1)).await;
        },
        async {
            hangs_in_mid_call("a scribe", asking(SCRIBES[0]).await, stalls, |all| all.scribe.times(), hertz(1)).await
        },
        async {
            hangs_in_mid_call("a Wyoming", asking(SCRIBES[1]).await, stalls, |all| all.scribe.times(), hertz(1)).await
        },
        async {
            let stalls = |stages: &Stages| stages.model.answers(|_| Reply::stalls());
            hangs_in_mid_call("a model", Stages::start().await, stalls, |all| all.model.times(), hertz(1)).await;
        },
        async {
            let stalls = |stages: &Stages| stages.voice.answers(|_| Reply::stalls());
            hangs_in_mid_call("a voice", Stages::start().await, stalls, |all| all.voice.times(), hertz(4)).await;
        },
    );
}
