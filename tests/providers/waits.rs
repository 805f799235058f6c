//! Calls with no limit of their own: how long a caller waits for a vendor that falls silent, and what they hear meanwhile.

use crate::providers::{
    desk::{APOLOGY_HZ, Desk},
    ear::Caller,
    faults::is_explained,
    kit::vendor::{Dialect, Opening, Order, Scenario, Vendor, hertz},
    ms,
    openings::APOLOGY_MIN,
    tools::greeted,
};
use std::time::Duration;

/// From the caller's last word, or the agent's, until another session is heard: 5 s until the vendor counts as lost, and what
/// the end of a turn and another session take.
const SERVED_WITHIN: Duration = ms(8_000);

/// When this pitch is heard at last, for most of a second: words have it for a moment, and so do those that ask for patience.
pub async fn hears_at_last(caller: &Caller, since: Duration, hz: f64) -> Duration {
    caller.hears_from(since, hz, ms(700)).await;
    caller.now() - ms(700)
}

/// The caller has been asked for a moment once, and for patience at most once if it took long, and heard no more than that.
pub fn few_sentences(what: &str, desk: &Desk, caller: &Caller) {
    let story = caller.look(|tape| format!("{tape:?}"));
    let heard = |purpose: &str| desk.metric(&format!("offhook_sentences_total{{purpose=\"{purpose}\""));
    let (fillers, patience) = (heard("filler"), heard("patience"));
    assert!(fillers <= 1.0, "{what}: {fillers} fillers in a turn; {story}");
    assert!((1.0..=2.0).contains(&(fillers + patience)), "{what}: {fillers} fillers, {patience} of patience; {story}");
    assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, ms(0))) < APOLOGY_MIN, "{what}: {story}");
}

/// The apology is heard without a long silence before it.
pub async fn ends_in_an_apology(what: &str, desk: &Desk, caller: &Caller, since: Duration, reason: &str) {
    caller.is_hung_up_on().await;
    let (ended, story) = (desk.end_reason().await.label(), caller.look(|tape| format!("{tape:?}")));
    assert_eq!(ended, reason, "{what}: {story}");
    assert!(caller.look(|tape| tape.time_of(APOLOGY_HZ, since)) >= APOLOGY_MIN, "{what}: {story}");
    is_explained(what, caller, since..caller.now());
    assert_eq!(desk.metric(&format!("offhook_calls_total{{class=\"provider\",reason=\"{reason}\"}}")), 1.0, "{what}");
}

/// The vendor falls silent before it answers: its next session does.
async fn before_its_answer<D: Dialect>(order: Order) {
    let what = format!("{order:?} before an answer");
    let (vendor, desk, caller) = greeted::<D>().await;
    vendor.order(1, order);
    caller.speaks().await;
    let since = caller.has_spoken().await.end;
    is_carried_on(&what, &vendor, &desk, &caller, since).await;
}

/// Words that nobody says in two seconds.
const MANY_WORDS: &str = "On Mondays and Tuesdays we are open from nine o'clock in the morning until six in the evening, \
                          and on all other days until eight.";

/// The same in the middle of its answer.
async fn within_its_answer<D: Dialect>() {
    // The greeting is as long as its words take.
    let scenario =
        Scenario { pace: 1.2, greeting: Some(ms(5_000)), agent_words: MANY_WORDS, ..Scenario::answers(ms(7_000)) };
    let vendor = Vendor::start::<D>(scenario).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    caller.speaks().await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), ms(600)).await;
    vendor.order(1, Order::Mute);
    // What has come is heard to its end.
    caller.hears_nothing_for(ms(300)).await;
    let since = caller.look(|tape| tape.last_of(hertz(1), ms(0)..tape.now())).expect("it was heard");
    is_carried_on("in an answer", &vendor, &desk, &caller, since).await;
}

async fn is_carried_on(what: &str, vendor: &Vendor, desk: &Desk, caller: &Caller, since: Duration) {
    let begun = hears_at_last(caller, since, hertz(2)).await;
    assert!(begun <= since + SERVED_WITHIN, "{what}: {}", caller.look(|tape| format!("{tape:?}")));
    is_explained(what, caller, since..begun);
    few_sentences(what, desk, caller);
    assert_eq!(desk.metric("offhook_agent_losses_total{loss=\"stalled\",provider=\"first\"}"), 1.0, "{what}");
    assert_eq!(desk.recoveries("took_over", "first"), 1.0, "{what}");
    desk.ends_with(caller).await;
    vendor.is_content();
}

/// The vendor takes no other session, and there is nobody else.
async fn and_nobody_else_is_there<D: Dialect>() {
    let scenario = Scenario { openings: vec![Opening::Normal], otherwise: Opening::Refuse(503), ..Scenario::default() };
    let vendor = Vendor::start::<D>(scenario).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    vendor.order(1, Order::Mute);
    caller.speaks().await;
    let since = caller.has_spoken().await.end;
    ends_in_an_apology("nobody else", &desk, &caller, since, "agent_silent").await;
    vendor.is_content();
}

pub async fn without_limits_of_its_own_a_call_with_a_silent_vendor_is_never_silent_for_long<D: Dialect>() {
    tokio::join!(
        before_its_answer::<D>(Order::Mute),
        before_its_answer::<D>(Order::Freeze),
        within_its_answer::<D>(),
        and_nobody_else_is_there::<D>(),
    );
}
