//! What breaks before a pipeline's listener stands, and what of a model or a voice that are refused.

use super::{
    answered, called,
    faults::{DEPUTY, deputy, no_apology},
    greeted, speaks, story,
};
use crate::providers::{
    desk::Desk,
    faults::is_explained,
    kit::{
        stages::{Reply, Server, Stages},
        vendor::{Failure, Opening, Scenario, hertz},
    },
    ms,
    openings::{CODES, ends, ends_after},
};
use futures_util::future::join_all;

/// Of one service in one session of the call.
const ATTEMPTS: usize = 3;
/// Sessions that a pipeline is given in one call: the first, and one that is to carry the call on.
const SESSIONS: usize = 2;

/// Of 2.5 s each: three fit into the 6 s of the first session, two into the 5 s of the next one.
const SLOW_ATTEMPTS: usize = 5;

/// One call whose listener's connections all open like this, and nobody else to fall back on: what the call is lost for,
/// and how often it was tried.
async fn opens(opening: Opening, loss: &str, attempts: usize) {
    let what = format!("{opening:?}");
    let stages = Stages::of(Scenario::all(opening)).await;
    let desk = Desk::of_stages(&stages).await;
    let caller = desk.call().await;
    ends(&what, loss, &desk, &caller, ms(0)).await;
    assert!(caller.look(|tape| tape.time_of(hertz(1), ms(0))) < ms(100), "{what}: the greeting is not heard");
    assert_eq!(stages.listener.sessions(), attempts, "{what}");
}

/// One call whose model or voice refuses like this: what the caller says is the first thing that it is to answer.
async fn refuses(stage: fn(&Stages) -> &Server, reply: Reply, loss: &str, attempts: usize) {
    let what = format!("{reply:?}");
    let stages = Stages::start().await;
    let (desk, caller) = greeted(&stages).await;
    let before = stage(&stages).times();
    stage(&stages).answers(move |_| reply.clone());
    let said = speaks(&caller).await;
    // A pipeline whose listener listens has the call, whatever becomes of what it is to say.
    let sessions = if attempts == 1 { 1 } else { SESSIONS };
    ends_after(sessions, &what, loss, &desk, &caller, said.end).await;
    let times = stage(&stages).times() - before;
    // On a busy machine words come early enough for a guess, which asks as often as a session does.
    assert!([attempts, attempts + attempts / sessions].contains(&times), "{what}: {times}");
    stages.listener.is_content();
}

fn the_model(stages: &Stages) -> &Server {
    &stages.model
}

fn the_voice(stages: &Stages) -> &Server {
    &stages.voice
}

/// What cannot heal is not tried again.
fn attempts(loss: &str) -> usize {
    if matches!(loss, "unauthorized" | "quota") { 1 } else { ATTEMPTS * SESSIONS }
}

pub async fn a_refused_key_is_told_and_not_tried_again() {
    let refusal = || Reply::refuses(401, "invalid_api_key");
    tokio::join!(
        opens(Opening::Refuse(401), "unauthorized", 1),
        refuses(the_model, refusal(), "unauthorized", 1),
        refuses(the_voice, refusal(), "unauthorized", 1),
    );
}

pub async fn an_upgrade_refused_with_any_status_is_told_for_what_it_is() {
    let statuses =
        [(401, "unauthorized"), (403, "unauthorized"), (429, "throttled"), (500, "unreachable"), (503, "throttled")];
    join_all(statuses.map(|(status, loss)| async move {
        let refusal = || Reply::refuses(status, "no");
        tokio::join!(
            opens(Opening::Refuse(status), loss, attempts(loss)),
            refuses(the_model, refusal(), loss, attempts(loss)),
            refuses(the_voice, refusal(), loss, attempts(loss)),
        );
    }))
    .await;
}

pub async fn a_vendor_that_is_not_there_is_unreachable() {
    let gone = async {
        let stages = Stages::start().await;
        stages.listener.stop_listening();
        let desk = Desk::of_stages(&stages).await;
        let caller = desk.call().await;
        ends("nobody listens", "unreachable", &desk, &caller, ms(0)).await;
    };
    tokio::join!(
        gone,
        opens(Opening::Drop, "unreachable", ATTEMPTS * SESSIONS),
        refuses(the_model, Reply::breaks(), "unreachable", ATTEMPTS * SESSIONS),
        refuses(the_voice, Reply::breaks(), "unreachable", ATTEMPTS * SESSIONS),
    );
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
    opens(Opening::Slow(ms(10_000)), "unreachable", SLOW_ATTEMPTS).await;
}

pub async fn a_session_closed_before_its_first_message_is_tried_again_and_then_given_up() {
    join_all(CODES.map(|code| opens(Opening::CloseAtOnce(code), "closed", ATTEMPTS * SESSIONS))).await;
}

pub async fn a_session_closed_while_it_is_set_up_is_tried_again_and_then_given_up() {
    join_all(CODES.map(|code| opens(Opening::CloseAtSetUp(code, ""), "closed", ATTEMPTS * SESSIONS))).await;
}

pub async fn a_set_up_that_is_never_acknowledged_or_answered_with_garbage_is_given_up() {
    tokio::join!(
        opens(Opening::NeverReady, "unreachable", SLOW_ATTEMPTS),
        // That is no passing fault: once in each session.
        opens(Opening::Garbage, "protocol", SESSIONS),
    );
}

pub async fn quota_and_throttling_at_the_set_up_are_told_for_what_they_are() {
    tokio::join!(
        opens(Opening::FailAtSetUp(Failure::Quota), "quota", 1),
        opens(Opening::FailAtSetUp(Failure::Throttled), "throttled", ATTEMPTS * SESSIONS),
    );
}

pub async fn a_caller_is_greeted_by_the_next_provider_when_the_first_one_fails() {
    let openings = [
        (Opening::Refuse(401), "unauthorized"),
        (Opening::Refuse(503), "throttled"),
        (Opening::Slow(ms(10_000)), "unreachable"),
        (Opening::NeverReady, "unreachable"),
        (Opening::FailAtSetUp(Failure::Quota), "quota"),
    ];
    join_all(openings.map(|(opening, loss)| async move {
        let what = format!("{opening:?}");
        let (stages, deputy) = (Stages::of(Scenario::all(opening)).await, deputy().await);
        let desk = Desk::of_pipelines(&[("first", &stages), ("second", &deputy)], "fallbacks: [second]").await;
        let caller = desk.call().await;
        caller.hears(hertz(1 + DEPUTY), ms(600)).await;
        let begun = caller.look(|tape| tape.first_of(hertz(1 + DEPUTY), ms(0))).expect("waited for");
        assert!(begun < ms(9_000), "{what}: {}", story(&caller));
        is_explained(&what, &caller, ms(0)..begun);
        no_apology(&what, &caller);
        let losses = format!("offhook_agent_losses_total{{loss=\"{loss}\",provider=\"first\"}}");
        assert_eq!(desk.metric(&losses), 1.0, "{what}");
        assert_eq!(desk.recoveries("took_over", "second"), 1.0, "{what}");
        desk.ends_with(&caller).await;
        deputy.listener.is_content();
    }))
    .await;
}
