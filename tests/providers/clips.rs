//! What the engine says itself, word for word, beside each vendor's agent.

use crate::{
    desk::{Desk, MOMENT, MOMENT_HZ},
    ear::Tape,
    ms,
    support::{
        audio::samples_of,
        vendor::{Dialect, Order, Scenario, Vendor, hertz},
    },
    tools::look_up,
};
use std::time::Duration;

/// The caller waits for less than this until the filler.
pub const QUIET: &str =
    "limits: { quiet: 700ms }\nfillers: { moment: { file: moment.wav, text: \"One moment, please.\" } }";
/// Its edges can be taken for another pitch.
pub const EDGES: Duration = ms(60);

/// The vendor speaks as soon as it can; its words wait until the clip was heard.
pub async fn a_clip_greets_the_caller_and_the_agent_is_told_its_words<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::with(&[("first", vendor.yaml())], "greeting_by: clip").await;
    let caller = desk.call().await;
    vendor.until_session(1, "is set up", |seen| seen.set_up.is_some()).await;
    vendor.order(1, Order::Speak);
    caller.hears(hertz(1), ms(900)).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    let agent = caller.look(|tape| tape.first_of(hertz(1), ms(0))).expect("it was heard");
    let begins = caller.look(|tape| tape.longest_silence(ms(0)..ms(400)));
    assert!(begins <= ms(200), "the clip is heard at once: {story}");
    let clip = caller.look(|tape| tape.loud_time(ms(0)..agent));
    assert!((ms(300)..=ms(1_500)).contains(&clip), "{clip:?} of the clip: {story}");
    caller.hears_nothing_for(ms(300)).await;
    let told = vendor.of(1, |seen| seen.texts.iter().filter(|text| text.contains("Hello there.")).count());
    assert!(told >= 1, "{:?}", vendor.of(1, |seen| seen.texts.clone()));
    let (audio, hears) = vendor.of(1, |seen| (seen.audio.clone(), seen.set_up.clone().expect("it is ready").hears));
    assert!(samples_of(&audio, hears).iter().all(|sample| sample.unsigned_abs() < 100), "the agent does not hear it");
    // A caller who is greeted can be answered.
    caller.speaks().await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), ms(700)).await;
    assert_eq!(desk.metric("offhook_sentences_total{purpose=\"greeting\"}"), 1.0);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

pub async fn a_slow_tool_is_announced_once_and_the_agent_is_told_so<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::with(&[("first", vendor.yaml())], QUIET).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    desk.service.holds(true);
    vendor.order(1, Order::Call(vec![look_up(1)]));
    desk.service.wait_requests(1).await;
    let asked = caller.now();
    caller.hears(MOMENT_HZ, MOMENT - EDGES).await;
    // Twice as long as it took until the first one.
    caller.hears_nothing_for(ms(1_500)).await;
    let (filler, begun) = caller.look(|tape| (tape.time_of(MOMENT_HZ, ms(0)), tape.first_of(MOMENT_HZ, ms(0))));
    let story = caller.look(|tape| format!("{tape:?}"));
    assert!(filler <= MOMENT, "once: {story}");
    assert!(begun.is_some_and(|begun| begun <= asked + ms(1_000)), "{story}");
    desk.service.holds(false);
    let released = caller.now();
    caller.hears_from(released, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    assert_eq!(caller.look(|tape| tape.time_of(MOMENT_HZ, released)), ms(0));
    assert_eq!(desk.metric("offhook_sentences_total"), 1.0);
    vendor
        .until_session(1, "is told what was said", |seen| seen.texts.iter().any(|text| text.contains("One moment, ")))
        .await;
    assert_eq!(vendor.of(1, |seen| seen.results.len()), 1);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

pub async fn a_filler_is_not_heard_before_a_quick_answer_and_makes_place_for_a_late_one<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::with(&[("first", vendor.yaml())], QUIET).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let asked = caller.now();
    vendor.order(1, Order::Call(vec![look_up(1)]));
    caller.hears_from(asked, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let fillers = |tape: &Tape| tape.time_of(MOMENT_HZ, ms(0));
    assert_eq!(caller.look(fillers), ms(0), "{}", caller.look(|tape| format!("{tape:?}")));
    desk.service.holds(true);
    vendor.order(1, Order::Call(vec![look_up(2)]));
    caller.hears(MOMENT_HZ, ms(300)).await;
    let released = caller.now();
    desk.service.holds(false);
    caller.hears_from(released, hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let story = caller.look(|tape| format!("{tape:?}"));
    assert!(caller.look(fillers) <= ms(1_000), "it makes place: {story}");
    let answer = caller.look(|tape| tape.seamless(hertz(1), tape.first_of(hertz(1), released).unwrap()..tape.now()));
    assert!((ms(1_000)..=ms(1_020)).contains(&answer), "{answer:?}: {story}");
    desk.ends_with(&caller).await;
    vendor.is_content();
}
