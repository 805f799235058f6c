//! What breaks before a pipeline's listener stands, and what of a model or a voice that are refused.

use super::{
    answered, called,
    faults::{CODES, DEPUTY, Reasons, deputy, ends, no_apology},
    story,
};
use crate::{
    desk::Desk,
    ms,
    support::{
        stages::{Reply, Server, Stages},
        vendor::{Failure, Opening, Scenario, hertz},
    },
};
use futures_util::future::join_all;

/// Of one service in one call, with those of the sessions that were to carry it on.
const ATTEMPTS_MAX: usize = 9;

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
