//! Who has the turn: offhook's own ears, or the vendor's. Measured on the caller's recording, whose clock is that of what
//! the caller says.

use crate::providers::{
    desk::{Desk, has_heard},
    ear::{Caller, Tape},
    kit::{
        audio::samples_of,
        vendor::{Dialect, Scenario, Seen, Vendor, hertz},
    },
    ms,
};
use std::{
    ops::{Range, RangeInclusive},
    time::Duration,
};

pub const GREETING: Duration = ms(3_500);
/// A resampler brings out its last samples in a frame of their own.
pub const GREETING_HEARD: RangeInclusive<Duration> = GREETING..=ms(3_520);
/// A sound over the agent pauses it within 100 ms, and is decided within 600 ms.
pub const PAUSE: RangeInclusive<Duration> = ms(100)..=ms(600);
/// From the caller's first sound until the agent is not heard any more: 100 ms on a quiet machine, on which not twenty
/// calls run at a time.
pub const SILENCED_WITHIN: Duration = ms(200);
/// The same where it is lowered first, for 160 ms of a sound.
const LOWERED_AND_PAUSED_WITHIN: Duration = ms(400);
pub const BACKCHANNEL: &str = "Uh-huh.";
/// Longer than a frame that came late, and shorter than any pause of ours.
pub const HICCUP: Duration = ms(60);
pub const QUESTION: &str = "When do you open on Sunday?";

/// A caller in the first second of a long greeting.
async fn greeted_at_length<D: Dialect>(turns: &str) -> (Vendor, Desk, Caller) {
    let vendor = Vendor::start::<D>(Scenario::answers(GREETING)).await;
    let desk = Desk::with(&[("first", vendor.yaml())], turns).await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(700)).await;
    (vendor, desk, caller)
}

/// From the greeting's beginning to its end.
pub fn greeting(tape: &Tape) -> Range<Duration> {
    let begins = tape.first_of(hertz(1), ms(0)).expect("it was heard");
    begins..tape.last_of(hertz(1), ms(0)..tape.now()).expect("it was heard")
}

pub fn was_left_alone(seen: &Seen) -> bool {
    seen.interrupted == 0 && seen.cancels == 0 && seen.truncations.is_empty() && seen.turns_begun == 0
}

/// The greeting was heard to its end as if nothing had been said; how long its longest pause was.
async fn is_heard_out(vendor: &Vendor, desk: &Desk, caller: &Caller) -> Duration {
    caller.hears(hertz(1), GREETING - ms(40)).await;
    caller.hears_nothing_for(ms(700)).await;
    let (length, pause) =
        caller.look(|tape| (tape.seamless(hertz(1), ms(0)..tape.now()), tape.longest_silence(greeting(tape))));
    let story = caller.look(|tape| format!("{tape:?}"));
    assert!(GREETING_HEARD.contains(&length), "{length:?}: {story}");
    assert!(vendor.of(1, was_left_alone), "{:?}; {story}", vendor.of(1, |seen| seen.texts.clone()));
    desk.ends_with(caller).await;
    vendor.is_content();
    pause
}

pub async fn a_backchannel_pauses_the_agent_which_goes_on_at_the_exact_sample<D: Dialect>() {
    let (vendor, desk, caller) = greeted_at_length::<D>("").await;
    caller.says(BACKCHANNEL).await;
    caller.has_spoken().await;
    let pause = is_heard_out(&vendor, &desk, &caller).await;
    assert!(PAUSE.contains(&pause), "{pause:?}: {}", caller.look(|tape| format!("{tape:?}")));
    assert_eq!(desk.metric("offhook_false_alarms_total"), 1.0);
    let (heard, format) = vendor.of(1, |seen| (seen.audio.clone(), seen.set_up.clone().expect("it is set up").hears));
    let loudest = samples_of(&heard, format).iter().map(|sample| sample.unsigned_abs()).max();
    assert!(loudest.unwrap_or(0) < 1_000, "the vendor hears nothing of it, and not {loudest:?}");
}

/// Longer than three backchannels and what is heard after each.
pub const LONG: Duration = ms(7_000);

/// The third of them: after two false alarms in an answer the agent is lowered for longer before it is paused.
pub async fn an_agent_is_lowered_before_it_is_paused_and_goes_on_at_the_exact_sample<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::answers(LONG)).await;
    let desk = Desk::of(&vendor).await;
    let caller = desk.call().await;
    is_lowered_then_paused(&caller).await;
    assert!(vendor.of(1, was_left_alone), "{:?}", vendor.of(1, |seen| seen.texts.clone()));
    // A frame that comes late on a busy machine can divide one of them.
    let alarms = desk.metric("offhook_false_alarms_total");
    assert!((3.0..=4.0).contains(&alarms), "{alarms}");
    desk.ends_with(&caller).await;
    vendor.is_content();
}

pub async fn is_lowered_then_paused(caller: &Caller) {
    caller.hears(hertz(1), ms(500)).await;
    let full = caller.look(|tape| tape.levels(tape.now() - ms(100))[0]);
    let mut said = ms(0)..ms(0);
    for _ in 0..3 {
        caller.says(BACKCHANNEL).await;
        said = caller.has_spoken().await;
        caller.hears_from(said.end + ms(300), hertz(1), ms(400)).await;
    }
    let (levels, story) = caller.look(|tape| (tape.levels(said.start), format!("{tape:?}")));
    println!("{full:.0}: {levels:.0?}");
    let silent = levels.iter().position(|level| *level < 100.0).expect("it is paused");
    assert!(
        ms(20) * silent as u32 <= LOWERED_AND_PAUSED_WITHIN,
        "{silent} frames until it is paused: {levels:.0?}; {story}"
    );
    // By 12 dB.
    let lowered = |level: &&f64| (0.2..=0.3).contains(&(**level / full));
    let ducked = levels[..silent].iter().rev().take_while(lowered).count();
    assert!(ducked >= 3, "{ducked} frames are heard lower: {levels:.0?}; {story}");
    let as_before = |level: &f64| (0.9..=1.1).contains(&(*level / full));
    assert!(levels[..silent - ducked].iter().all(as_before), "until then as before: {levels:.0?}; {story}");
    let back = levels[silent..].iter().skip_while(|level| **level < 100.0).skip(1).take(10);
    assert!(back.clone().count() == 10 && back.clone().all(as_before), "and then again: {levels:.0?}; {story}");
    caller.hears(hertz(1), LONG - ms(40)).await;
    caller.hears_nothing_for(ms(400)).await;
    let length = caller.look(|tape| tape.seamless(hertz(1), ms(0)..tape.now()));
    assert!((LONG..=LONG + ms(20)).contains(&length), "{length:?}: {}", caller.look(|tape| format!("{tape:?}")));
}

pub async fn an_interruption_silences_the_agent_at_once_and_is_heard_from_its_first_sound<D: Dialect>() {
    let (vendor, desk, caller) = greeted_at_length::<D>("").await;
    caller.says(QUESTION).await;
    let said = caller.has_spoken().await;
    let story = caller.look(|tape| format!("{tape:?}"));
    let last = caller.look(|tape| tape.last_of(hertz(1), said.start..said.end)).expect("it speaks when they begin");
    assert!(last <= said.start + SILENCED_WITHIN, "{:?}: {story}", last - said.start);
    caller.hears_from(said.end, hertz(1), GREETING - ms(40)).await;
    caller.hears_nothing_for(ms(400)).await;
    let answer = caller.look(|tape| tape.seamless(hertz(1), said.end..tape.now()));
    assert!(GREETING_HEARD.contains(&answer), "{answer:?}: {}", caller.look(|tape| format!("{tape:?}")));
    has_heard("the vendor", &vendor, 1, &caller);
    assert_eq!(vendor.of(1, |seen| seen.turns_ended), 1);
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// offhook owns the turns: whoever can be told is told, once; who finds the end alone hears the silence after the last
/// word as it lasts, and no word about it.
pub async fn the_end_of_a_turn_is_told_or_left_to_the_vendor_to_find<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario::default()).await;
    let desk = Desk::with(&[("first", vendor.yaml())], "turns: { owner: offhook, end_silence: 600ms }").await;
    let caller = desk.call().await;
    caller.hears(hertz(1), ms(900)).await;
    caller.hears_nothing_for(ms(300)).await;
    let words = |seen: &Seen| seen.texts.iter().filter(|text| !text.contains("KeepAlive")).count();
    let ends = |seen: &Seen| seen.texts.iter().filter(|text| text.contains(D::END_OF_TURN.unwrap_or("\0"))).count();
    let before = vendor.of(1, |seen| (words(seen), ends(seen)));
    caller.speaks().await;
    vendor.until_session(1, "knows that the turn is over", |seen| seen.turns_ended == 1).await;
    let known = caller.now();
    let said = caller.has_spoken().await;
    let story = caller.look(|tape| format!("{tape:?}"));
    let (after, detects, heard) = vendor.of(1, |seen| {
        let set_up = seen.set_up.clone().expect("it is set up");
        ((words(seen), ends(seen)), set_up.detects, samples_of(&seen.audio, set_up.hears))
    });
    let second = vendor.of(1, |seen| seen.set_up.clone().expect("it is set up").hears.rate as usize);
    assert_eq!(detects, D::END_OF_TURN.is_none(), "one owner alone");
    let last = heard.iter().rposition(|sample| sample.unsigned_abs() > 1_000).expect("the caller was heard");
    let silence = ms(((heard.len() - last) * 1_000 / second) as u64);
    if D::END_OF_TURN.is_some() {
        assert_eq!(after.1 - before.1, 1, "it is told once: {story}");
        assert!((said.end + ms(200)..=said.end + ms(1_000)).contains(&known), "{known:?}: {story}");
    } else {
        assert_eq!(after.0, before.0, "no word of it: {:?}", vendor.of(1, |seen| seen.texts.clone()));
        assert!(silence >= ms(280), "{silence:?} of silence reached the vendor: {story}");
    }
    caller.hears_from(said.end, hertz(1), ms(900)).await;
    assert_eq!(vendor.of(1, |seen| (seen.turns_ended, ends(seen))), (1, after.1), "and not again");
    desk.ends_with(&caller).await;
    vendor.is_content();
}

/// The same sound that only pauses the agent elsewhere: the vendor takes it for a turn, and its word counts at once.
pub async fn a_vendor_that_owns_the_turns_decides_alone<D: Dialect>() {
    let (vendor, desk, caller) = greeted_at_length::<D>("turns: { owner: provider }").await;
    assert!(vendor.of(1, |seen| seen.set_up.as_ref().is_some_and(|set_up| set_up.detects)));
    caller.says(BACKCHANNEL).await;
    let said = caller.has_spoken().await;
    caller.hears_from(said.end, hertz(1), GREETING - ms(40)).await;
    caller.hears_nothing_for(ms(400)).await;
    let answer = caller.look(|tape| tape.seamless(hertz(1), said.end..tape.now()));
    assert!(GREETING_HEARD.contains(&answer), "{answer:?}: {}", caller.look(|tape| format!("{tape:?}")));
    assert_eq!(vendor.of(1, |seen| (seen.turns_begun, seen.turns_ended)), (1, 1));
    assert_eq!(desk.metric("offhook_false_alarms_total"), 0.0);
    desk.ends_with(&caller).await;
    assert_eq!(desk.engine.calls().view().recent[0].counts.barge_ins, 1);
    vendor.is_content();
}

pub async fn a_greeting_is_not_cut_by_noise<D: Dialect>() {
    let (vendor, desk, caller) = greeted_at_length::<D>("").await;
    caller.say(noise(ms(1_000)));
    caller.has_spoken().await;
    let pause = is_heard_out(&vendor, &desk, &caller).await;
    assert!(pause <= *PAUSE.end(), "{pause:?}: {}", caller.look(|tape| format!("{tape:?}")));
}

pub async fn a_protected_greeting_is_not_even_paused<D: Dialect>() {
    let (vendor, desk, caller) = greeted_at_length::<D>("turns: { protect_greeting: true }").await;
    caller.says(QUESTION).await;
    caller.has_spoken().await;
    let pause = is_heard_out(&vendor, &desk, &caller).await;
    assert!(pause <= HICCUP, "{pause:?}: {}", caller.look(|tape| format!("{tape:?}")));
    assert_eq!(desk.metric("offhook_false_alarms_total"), 0.0);
}

pub const NEVER_INTERRUPTED: &str = "turns: { interruptible: false }";

pub async fn an_agent_that_cannot_be_interrupted_is_not_even_paused<D: Dialect>() {
    let vendor = Vendor::start::<D>(Scenario { greeting: Some(ms(1_000)), ..Scenario::answers(GREETING) }).await;
    let desk = Desk::with(&[("first", vendor.yaml())], NEVER_INTERRUPTED).await;
    let caller = desk.call().await;
    speaks_over_an_answer_in_vain(&desk, &caller).await;
    let left_alone = |seen: &Seen| {
        (seen.interrupted, seen.cancels, seen.truncations.len(), seen.turns_ended, seen.answered) == (0, 0, 0, 1, 2)
    };
    assert!(vendor.of(1, left_alone), "{:?}", vendor.of(1, |seen| seen.texts.clone()));
    vendor.is_content();
}

/// The caller asks, and asks once more while they are answered: that answer is heard to its end without a pause, and no
/// other follows.
pub async fn speaks_over_an_answer_in_vain(desk: &Desk, caller: &Caller) {
    caller.hears(hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    caller.says(QUESTION).await;
    let asked = caller.has_spoken().await.end;
    caller.hears_from(asked, hertz(1), ms(500)).await;
    caller.says(QUESTION).await;
    caller.has_spoken().await;
    caller.hears_from(asked, hertz(1), GREETING - ms(40)).await;
    caller.hears_nothing_for(ms(700)).await;
    let (answer, pause, story) = caller.look(|tape| {
        let (first, last) = (tape.first_of(hertz(1), asked), tape.last_of(hertz(1), asked..tape.now()));
        let pause = tape.longest_silence(first.expect("it was heard")..last.expect("it was heard"));
        (tape.seamless(hertz(1), asked..tape.now()), pause, format!("{tape:?}"))
    });
    assert!(GREETING_HEARD.contains(&answer) && pause <= HICCUP, "{answer:?}, {pause:?}: {story}");
    assert_eq!(desk.metric("offhook_false_alarms_total"), 0.0);
    desk.ends_with(caller).await;
    assert_eq!(desk.engine.calls().view().recent[0].counts.barge_ins, 0);
}

/// White noise, louder than a voice on a bad line.
pub fn noise(length: Duration) -> Vec<i16> {
    let mut state: u32 = 0x2545_f491;
    let mut sample = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 18) as i16 - 8_192
    };
    (0..8 * length.as_millis()).map(|_| sample()).collect()
}
