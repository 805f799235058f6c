//! What the session that carries a long call on knows of it.

use crate::{
    desk::Desk,
    ear::Caller,
    failover::{DEPUTY, another, converse, desk_of, is_told},
    ms,
    support::vendor::{Asides, Dialect, Order, SUMMARY, Scenario, Seen, Vendor, hertz},
};
use futures_util::future::join_all;

/// One answer; three of them are more than an agent is told as they were said.
const AGENTS_WORDS: usize = 3_000;

fn talkative() -> Scenario {
    let agent_words = "We open at nine. ".repeat(AGENTS_WORDS / 17).leak();
    Scenario { agent_words, ..Scenario::answers(ms(800)) }
}

/// The caller was greeted and has asked as often; so the agent has said this once more than that.
async fn a_long_call(desk: &Desk, turns: usize) -> Caller {
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    go_on(&caller, turns).await;
    caller
}

async fn go_on(caller: &Caller, turns: usize) {
    for _ in 0..turns {
        converse(caller, hertz(1)).await;
        caller.hears_nothing_for(ms(300)).await;
    }
}

/// How many summaries, words of the caller and words of the agent this session was told.
fn record(seen: &Seen) -> [usize; 3] {
    let told = seen.texts.concat();
    let summary = format!("> Summary of what was said before: {SUMMARY}");
    [&summary, "> Caller: When are you open, please?", "> Agent: We open at nine."]
        .map(|line| told.matches(line).count())
}

/// Summaries that were wanted of this session.
fn wanted(times: usize) -> impl Fn(&Seen) -> bool {
    move |seen: &Seen| seen.texts.iter().filter(|text| text.contains("offhook-summary-")).count() == times
}

/// Neither this vendor nor its memory is there any more.
pub async fn a_long_call_that_is_lost_is_carried_on_by_another_vendor_with_its_beginning_in_short<D: Dialect>() {
    let (vendor, other) = (Vendor::start::<D>(talkative()).await, another::<D>().await);
    let desk = desk_of(&vendor, &other).await;
    let caller = a_long_call(&desk, 2).await;
    vendor.stop_listening();
    vendor.order(1, Order::Drop);
    other.until_session(1, "is told the last words", is_told("> Agent: We open at nine.")).await;
    let expected = if D::SUMMARISES { [1, 1, 1] } else { [0, 2, 2] };
    assert_eq!(other.of(1, record), expected);
    converse(&caller, hertz(1 + DEPUTY)).await;
    assert_eq!(desk.recoveries("took_over", "second"), 1.0);
    desk.ends_with(&caller).await;
    vendor.is_content();
    other.is_content();
}

/// The vendor does not sum up what it was asked to: the session that follows is told it as it was said.
pub async fn a_summary_that_is_refused_or_never_comes_leaves_nothing_out<D: Dialect>() {
    join_all([Asides::Refused, Asides::Held].map(|asides| async move {
        let vendor = Vendor::start::<D>(Scenario { asides, ..talkative() }).await;
        let desk = Desk::of(&vendor).await;
        let caller = a_long_call(&desk, 2).await;
        vendor.until_session(1, "is to sum up", wanted(1)).await;
        let refused = f64::from(u8::from(matches!(asides, Asides::Refused)));
        desk.counts("offhook_provider_noise_total{kind=\"command_refused\"", refused).await;
        vendor.order(1, Order::Drop);
        vendor.until_session(2, "is told the last words", is_told("> Agent: We open at nine.")).await;
        assert_eq!(vendor.of(2, record), [0, 2, 3], "{asides:?}");
        converse(&caller, hertz(2)).await;
        desk.ends_with(&caller).await;
        vendor.is_content();
    }))
    .await;
}

/// The first summary comes when more was said, and the one after it never.
pub async fn a_late_summary_counts_and_all_that_was_said_since_is_told<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario { asides: Asides::Held, ..talkative() }).await;
    let desk = Desk::of(&vendor).await;
    let caller = a_long_call(&desk, 3).await;
    vendor.until_session(1, "is to sum up", wanted(1)).await;
    vendor.order(1, Order::Asides);
    go_on(&caller, 1).await;
    vendor.until_session(1, "is to sum up more", wanted(2)).await;
    vendor.order(1, Order::Drop);
    vendor.until_session(2, "is told the last words", is_told("> Agent: We open at nine.")).await;
    // Of the greeting and the first answer it is told in short.
    assert_eq!(vendor.of(2, record), [1, 3, 3]);
    converse(&caller, hertz(2)).await;
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// The limit of a session comes near in a call in which more was said than a new one is told: its beginning is told in short,
/// where the vendor's model can be asked for that aside, and its end as it was said.
pub async fn a_long_call_is_carried_on_by_a_summary_of_its_beginning_and_the_words_of_its_end<D: Dialect>() {
    let mut options = D::waits();
    options["session_seconds"] = 20.into();
    let vendor = Vendor::start::<D>(talkative()).await;
    let desk = Desk::with(&[("first", vendor.yaml_with(options))], "").await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(300)).await;
    converse(&caller, hertz(1)).await;
    converse(&caller, hertz(1)).await;
    vendor.until_session(2, "is set up", |seen| seen.set_up.is_some()).await;
    vendor.until_session(2, "is told the last words", is_told("> Agent: We open at nine.")).await;
    // The greeting is too long ago for all; what is summed up does not come again.
    let expected = if D::SUMMARISES { [1, 1, 1] } else { [0, 2, 2] };
    assert_eq!(vendor.of(2, record), expected);
    // It is the session that goes on, and the summary was not spoken.
    vendor.until_session(1, "is let go", |seen| seen.over).await;
    caller.hears_nothing_for(ms(200)).await;
    converse(&caller, hertz(2)).await;
    assert_eq!(desk.metric("offhook_session_rollovers_total{outcome=\"took_over\""), 1.0);
    desk.ends_with(&caller).await;
    vendor.is_content();
}
