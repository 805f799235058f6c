//! What is measured of a pipeline's calls, what they cost, and when a pipeline is left alone.

use crate::providers::{
    desk::{Desk, pipeline},
    figures::{
        THINKS, of_time, of_tokens, time_is_counted_and_priced, tokens_are_counted_and_priced,
        what_is_told_is_what_is_heard,
    },
    kit::{
        stages::{Bit, Stages, model},
        vendor::{Opening, Scenario, hertz},
    },
    ms,
};
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::time::sleep;

pub async fn the_latency_that_is_told_is_what_the_caller_hears() {
    join_all(THINKS.map(|thinks| async move {
        let stages = Stages::start().await;
        stages.model.answers(move |_| {
            let mut answer = model::says("A tone.");
            answer.bits.insert(0, Bit::Wait(thinks));
            answer
        });
        let name = format!("pipeline_{}", thinks.as_millis());
        let desk = Desk::of_pipelines(&[(name.as_str(), &stages)], "").await;
        what_is_told_is_what_is_heard(&desk, &name).await;
        stages.listener.is_content();
    }))
    .await;
}

async fn priced(stages: &Stages, prices: &str) -> Desk {
    let one: &[&str] = &["one"];
    let sections = Stages::sections(&[("one", stages)]) + prices;
    Desk::at(&[("first", pipeline(one, one, one))], "", &sections).await
}

/// The model tells tokens; the greeting is none of its answers.
pub async fn tokens_are_counted_as_they_are_reported_and_priced() {
    let (stages, records) = (Stages::start().await, TempDir::new().expect("a folder"));
    let desk = priced(&stages, &of_tokens(&records)).await;
    let answer = [("input_text", 20), ("output_text", 10)].into();
    tokens_are_counted_and_priced(&desk, &records, &[(1, answer)]).await;
    stages.listener.is_content();
}

pub async fn the_time_of_a_connection_is_counted_and_priced() {
    let stages = Stages::start().await;
    let desk = priced(&stages, &of_time()).await;
    time_is_counted_and_priced(&desk, false).await;
    stages.listener.is_content();
}

const DEPUTY: usize = 2;
/// Of the listener in two calls until the third failure of the pipeline: three in each session.
const ATTEMPTS: usize = 9;

/// It fails three times, in two calls, and is left alone; calls begin with the next one at once, until it is tried again
/// and works.
pub async fn a_vendor_that_fails_is_left_alone_and_tried_again() {
    let openings = vec![Opening::Refuse(503); ATTEMPTS];
    let stages = Stages::of(Scenario { openings, ..Scenario::default() }).await;
    let deputy = Stages::of(Scenario { pitch: |session| hertz(session + DEPUTY), ..Scenario::default() }).await;
    let desk = Desk::of_pipelines(&[("first", &stages), ("second", &deputy)], "fallbacks: [second]").await;
    let breaker = "offhook_provider_breaker{provider=\"first\"}";
    for call in 1..=3 {
        let caller = desk.call().await;
        caller.hears(hertz(1 + DEPUTY), ms(300)).await;
        if call == 3 {
            let begun = caller.look(|tape| tape.first_of(hertz(1 + DEPUTY), ms(0))).expect("waited for");
            assert!(begun <= ms(600), "at once: {}", super::story(&caller));
        }
        desk.ends_with(&caller).await;
        assert_eq!(desk.scraped(breaker).await, if call == 1 { 0.0 } else { 2.0 }, "after call {call}");
    }
    assert_eq!(stages.listener.sessions(), ATTEMPTS, "the third call does not try it");
    assert_eq!(desk.metric("offhook_provider_passed_over_total{outcome=\"fallback\",provider=\"first\"}"), 1.0);
    // It rests for 15 s, more or less.
    while desk.scraped(breaker).await != 1.0 {
        sleep(ms(200)).await;
    }
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(300)).await;
    assert_eq!(desk.scraped(breaker).await, 0.0, "it works again");
    desk.ends_with(&caller).await;
    stages.listener.is_content();
    deputy.listener.is_content();
}
