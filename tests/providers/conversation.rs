//! What a caller hears of an agent when all goes well.

use crate::{
    desk::Desk,
    ms,
    support::vendor::{Dialect, Order, Scenario, Vendor, hertz},
};

pub async fn the_greeting_is_heard_as_long_as_it_is<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::answers(ms(1_500))).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(1_400)).await;
    caller.hears_nothing_for(ms(300)).await;
    let spans = caller.look(|tape| tape.spans_of(hertz(1)));
    assert_eq!(spans.len(), 1, "in one piece: {spans:?}");
    assert!((ms(1_440)..=ms(1_560)).contains(&spans[0].length()), "{spans:?}");
    assert!(spans[0].begin < ms(1_000), "soon: {spans:?}");
    desk.ends_with(&caller).await;
    assert_eq!(vendor.sessions(), 1);
    vendor.until_session(1, "is over", |seen| seen.over).await;
    vendor.is_content();
}

pub async fn the_caller_is_answered<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(200)).await;
    caller.speaks().await;
    let said = caller.has_spoken().await;
    vendor.until_session(1, "heard the caller's turn", |seen| seen.turns_ended >= 1).await;
    caller.hears_from(said.end, hertz(1), ms(900)).await;
    desk.ends_with(&caller).await;
    vendor.is_content();
}

pub async fn an_interruption_stops_the_agent_and_late_audio_is_not_heard<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario { late: 10, ..Scenario::answers(ms(8_000)) }).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    let began = caller.now();
    caller.speaks().await;
    caller.hears_nothing_for(ms(300)).await;
    let stopped = caller.look(|tape| tape.spans_of(hertz(1))[0].end);
    assert!(stopped < began + ms(1_500), "the caller began at {began:?}, the agent stopped at {stopped:?}");
    caller.has_spoken().await;
    // The answer to what the caller said; before it nothing of the old one.
    caller.hears_from(stopped + ms(100), hertz(1), ms(1_000)).await;
    let spans = caller.look(|tape| tape.spans_of(hertz(1)));
    let said = caller.look(|tape| tape.said[0].clone());
    assert!(spans[1].begin + ms(100) > said.end, "{spans:?}, and the caller spoke until {:?}", said.end);
    vendor.order(1, Order::Late);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

pub async fn the_vendor_is_told_how_much_was_heard<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::answers(ms(8_000))).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.speaks().await;
    vendor.until_session(1, "was told", |seen| !seen.truncations.is_empty()).await;
    caller.hears_nothing_for(ms(300)).await;
    let heard = caller.look(|tape| tape.spans_of(hertz(1))[0].length());
    let told = vendor.of(1, |seen| seen.truncations[0]);
    assert!(heard.abs_diff(told) <= ms(150), "heard {heard:?}, told {told:?}");
    desk.ends_with(&caller).await;
    vendor.is_content();
}

pub async fn usage_is_counted<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    vendor.until_session(1, "has greeted", |seen| seen.answered == 1).await;
    caller.hears(hertz(1), ms(900)).await;
    desk.ends_with(&caller).await;
    assert!(desk.metric("offhook_tokens_total") > 0.0, "{}", desk.engine.metrics().text());
}
