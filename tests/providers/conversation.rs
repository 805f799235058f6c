//! What a caller hears of an agent when all goes well.

use crate::providers::{
    desk::{Desk, has_heard},
    kit::{
        vendor::{Deepgram, Dialect, LATE_HZ, Order, Scenario, Vendor, hertz},
        virtual_time,
    },
    ms,
};
use std::time::Duration;

/// From the vendor's word that the caller speaks until that must have been heeded, on a busy machine.
const SETTLED: Duration = ms(600);
const ANSWER: Duration = ms(4_000);

pub async fn the_greeting_is_heard_as_long_as_it_is<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::answers(ms(1_500))).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(1_300)).await;
    caller.hears_nothing_for(ms(400)).await;
    let length = caller.look(|tape| tape.time_of(hertz(1), ms(0)));
    assert!((ms(1_400)..=ms(1_540)).contains(&length), "{length:?}: {:?}", caller.look(|tape| format!("{tape:?}")));
    desk.ends_with(&caller).await;
    assert_eq!(vendor.sessions(), 1);
    vendor.until_session(1, "is over", |seen| seen.over).await;
    vendor.is_content();
}

#[test]
fn deepgram_greets_also_where_it_ignores_what_it_is_told_to_say() {
    virtual_time::run(|| async {
        let vendor = Vendor::start::<Deepgram>(Scenario { ignores_injections: true, ..Scenario::default() }).await;
        let desk = Desk::of(&vendor).await;
        let caller = desk.call().await;
        caller.hears(hertz(1), ms(900)).await;
        caller.hears_nothing_for(ms(400)).await;
        assert_eq!(vendor.of(1, |seen| (seen.wishes.clone(), seen.answered)), (vec![Some("Hello there.".into())], 1));
        desk.ends_with(&caller).await;
        assert_eq!(vendor.sessions(), 1);
        vendor.is_content();
    });
}

/// Some servers want to hear audio every ten seconds, and the caller's is withheld while the agent speaks.
#[test]
fn deepgram_hears_audio_also_while_the_agent_speaks_for_long() {
    virtual_time::run(|| async {
        let scenario = Scenario { audio_within: Some(ms(10_000)), pace: 1.0, ..Scenario::answers(ms(25_000)) };
        let vendor = Vendor::start::<Deepgram>(scenario).await;
        let desk = Desk::of(&vendor).await;
        let caller = desk.call().await;
        caller.hears(hertz(1), ms(24_000)).await;
        caller.hears_nothing_for(ms(400)).await;
        desk.ends_with(&caller).await;
        assert_eq!(vendor.sessions(), 1);
        vendor.is_content();
    });
}

pub async fn the_caller_is_answered<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    caller.speaks().await;
    let said = caller.has_spoken().await;
    vendor.until_session(1, "heard the caller's turn", |seen| seen.turns_ended >= 1).await;
    caller.hears_from(said.end, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let (answer, story) = caller.look(|tape| (tape.seamless(hertz(1), said.end..tape.now()), format!("{tape:?}")));
    assert!((ms(1_000)..=ms(1_020)).contains(&answer), "once and whole: {answer:?}; {story}");
    has_heard("the vendor", &vendor, 1, &caller);
    assert_eq!(vendor.of(1, |seen| (seen.turns_ended, seen.answered)), (1, 2), "a greeting and an answer: {story}");
    desk.ends_with(&caller).await;
    vendor.is_content();
}

pub async fn an_interruption_stops_the_agent_and_late_audio_is_not_heard<D: Dialect>() {
    // The answer is still being made when the caller interrupts.
    let scenario = Scenario { late: 10, pace: 1.2, ..Scenario::answers(ms(4_000)) };
    let vendor = Vendor::start::<D>(scenario).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.speaks().await;
    vendor.until_session(1, "was interrupted, and goes on", |seen| seen.interrupted >= 1 && seen.late >= 10).await;
    let interrupted = caller.now() + SETTLED;
    vendor.order(1, Order::Late);
    let said = caller.has_spoken().await;
    let over_the_caller =
        caller.look(|tape| tape.time_of(hertz(1), interrupted).saturating_sub(tape.time_of(hertz(1), said.end)));
    assert_eq!(over_the_caller, ms(0), "{:?}", caller.look(|tape| format!("{tape:?}")));
    // All of it came, and nothing of it is heard then or later.
    let (counted, at_least) = D::late_audio(vendor.of(1, |seen| seen.late));
    desk.counts(counted, at_least as f64).await;
    // Anything of the old answer would make the new one longer than it can be.
    caller.hears_from(said.end, hertz(1), ms(3_400)).await;
    caller.hears_nothing_for(ms(400)).await;
    let answer = caller.look(|tape| tape.time_of(hertz(1), said.end));
    assert!(answer <= ms(4_040), "{answer:?}: {:?}", caller.look(|tape| format!("{tape:?}")));
    let late = caller.look(|tape| tape.time_of(LATE_HZ, ms(0)));
    assert_eq!(late, ms(0), "{:?}", caller.look(|tape| format!("{tape:?}")));
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// Sound of the answer that was cut short comes again and again, while the next one is being made and heard.
pub async fn late_audio_within_the_next_answer_is_not_heard<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario { pace: 1.2, ..Scenario::answers(ANSWER) }).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.speaks().await;
    vendor.until_session(1, "was interrupted", |seen| seen.interrupted == 1).await;
    let said = caller.has_spoken().await;
    for heard in [300, 1_000, 1_700] {
        caller.hears_from(said.end, hertz(1), ms(heard)).await;
        (0..3).for_each(|_| vendor.order(1, Order::Late));
    }
    vendor.until_session(1, "has sent it", |seen| seen.late == 9).await;
    assert_eq!(vendor.of(1, |seen| seen.answered), 0, "within the answer");
    let (counted, at_least) = D::late_audio(9);
    desk.counts(counted, at_least as f64).await;
    caller.hears_from(said.end, hertz(1), ANSWER - ms(60)).await;
    caller.hears_nothing_for(ms(400)).await;
    let (answer, story) = caller.look(|tape| (tape.seamless(hertz(1), said.end..tape.now()), format!("{tape:?}")));
    assert!((ANSWER..=ANSWER + ms(20)).contains(&answer), "{answer:?}: {story}");
    assert_eq!(caller.look(|tape| tape.time_of(LATE_HZ, ms(0))), ms(0), "{story}");
    desk.ends_with(&caller).await;
    vendor.is_content();
}

pub async fn the_vendor_is_told_how_much_was_heard<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::answers(ms(8_000))).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    caller.speaks().await;
    vendor.until_session(1, "was told", |seen| !seen.truncations.is_empty()).await;
    caller.hears_nothing_for(ms(300)).await;
    let heard = caller.look(|tape| tape.time_of(hertz(1), ms(0)));
    let told = vendor.of(1, |seen| seen.truncations[0]);
    assert!(heard.abs_diff(told) <= ms(200), "heard {heard:?}, told {told:?}");
    desk.ends_with(&caller).await;
    vendor.is_content();
}
